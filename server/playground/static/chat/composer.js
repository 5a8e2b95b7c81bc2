// The form in which the next message is written.
import {element} from '../dom.js';
import {dropZone} from '../drop.js';
import {imageChooser} from './images.js';

// composer returns {node, input, grow, text, images, enable}. on has ask(text, images), which returns whether the
// message was sent, stop(), explain(), complain(text) for what cannot be attached, and changed(). Files may be dropped
// on zone.
export function composer(on, zone, draft) {
  // Touch keyboards have no Shift+Enter: there Return begins a line, and the button sends.
  const touch = matchMedia('(pointer: coarse) and (hover: none)');
  const pictures = imageChooser(() => on.changed(), (text) => on.complain(text));
  let reads = false; // whether all models that are asked read images
  let sending = false;

  const input = element('textarea', {id: 'message', rows: 1, 'aria-label': 'Message', placeholder: 'Write a message',
    enterkeyhint: touch.matches ? 'enter' : 'send', value: draft, onkeydown: keys, onpaste: paste, oninput: () => {
      grow();
      on.changed();
    }});
  const send = element('button', {type: 'submit', class: 'primary round', 'aria-label': 'Send',
    title: 'Send (Enter)'}, '↑');
  const stop = element('button', {type: 'button', class: 'round', hidden: true, 'aria-label': 'Stop',
    title: 'Stop (Esc)', onclick: on.stop}, '■');
  const file = element('input', {type: 'file', accept: pictures.accept, multiple: true, hidden: true, onchange: () => {
    take([...file.files]);
    file.value = '';
  }});
  const attach = element('button', {type: 'button', class: 'quiet', id: 'attach', hidden: true,
    title: 'Or paste one, or drop it here', onclick: () => file.click()}, '+ Image');
  const explain = element('button', {type: 'button', class: 'quiet', id: 'explain', onclick: on.explain,
    title: 'Ask the server what happened at each token of the replies that follow'}, 'Explain tokens');
  const node = element('form', {class: 'composer', 'aria-label': 'New message', onsubmit: submit}, pictures.node, input,
    element('div', {class: 'composer-row'}, attach, file, explain,
      element('span', {class: 'muted keys', 'aria-hidden': 'true'}, 'Enter sends, Shift+Enter begins a line'),
      stop, send));
  dropZone(zone, take);

  async function submit(event) {
    event.preventDefault();
    if (sending) return;
    sending = true;
    await pictures.read();
    sending = false;
    if (on.ask(input.value, pictures.list())) clear();
  }

  function clear() {
    input.value = '';
    pictures.clear();
    grow();
    input.focus();
  }

  function keys(event) {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && !touch.matches) {
      event.preventDefault();
      node.requestSubmit();
    }
  }

  function grow() {
    input.style.height = 'auto';
    input.style.height = `${Math.min(input.scrollHeight + 2, 260)}px`;
  }

  // paste takes files; where the clipboard has a text too, such as of a spreadsheet, that is meant.
  function paste(event) {
    const files = [...event.clipboardData?.files ?? []];
    if (!files.length || event.clipboardData.types.includes('text/plain')) return;
    event.preventDefault();
    take(files);
  }

  function take(files) {
    on.complain(reads ? pictures.add(files) : 'This model reads no images');
    input.focus();
  }

  return {
    node, input, grow,
    text: () => input.value,
    images: pictures.list,
    // enable shows what can be done: whether a reply comes, models read images, and tokens are explained.
    enable(busy, images, explained) {
      send.hidden = busy;
      stop.hidden = !busy;
      reads = images;
      attach.hidden = !images;
      explain.setAttribute('aria-pressed', explained);
    },
  };
}
