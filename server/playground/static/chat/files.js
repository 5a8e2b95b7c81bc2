// A conversation as a file: what the tab remembers, and would lose with itself.
import {openDialog} from '../dialog.js';
import {element} from '../dom.js';
import {kept, stateOf} from './state.js';

// largest bounds a file, whose images are part of it.
const largest = 256 << 20;

const kind = 'tgi-conversation';

// conversationFields returns the elements that save the conversation and open another one. on has state(),
// replace(state), which shows another, and complain(text).
export function conversationFields(on) {
  const file = element('input', {type: 'file', accept: '.json,application/json', hidden: true, onchange: async () => {
    const [chosen] = file.files;
    file.value = '';
    if (chosen) await open(chosen, on);
  }});
  return element('div', {class: 'actions'}, file,
    element('button', {type: 'button', id: 'export', onclick: () => download(on.state()),
      title: 'Save messages and settings as a file, without keys'}, 'Export'),
    element('button', {type: 'button', id: 'import', onclick: () => file.click(),
      title: 'Go on with a conversation from a file'}, 'Import'));
}

// download saves a state as a file of the browser.
function download(state) {
  const {compare, sides} = kept(state);
  const text = JSON.stringify({kind, compare, sides}, null, 1);
  const href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  const when = new Date().toISOString().slice(0, 16).replace(/[:T]/g, '-');
  element('a', {href, download: `conversation-${when}.json`}).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // when the browser has read it
}

// open shows the conversation of a file, after asking where one would be lost.
async function open(file, on) {
  let state = null;
  try {
    if (file.size > largest) throw new Error(`it has ${file.size.toLocaleString('en')} bytes`);
    const value = JSON.parse(await file.text());
    if (value?.kind === kind) state = stateOf(value);
    if (!state) throw new Error('it is no conversation of this page');
  } catch (err) {
    return on.complain(`${file.name} cannot be opened: ${err.message}`);
  }
  on.complain('');
  if (!on.state().sides.some((side) => side.messages.length)) return on.replace(state);
  const dialog = openDialog('Replace the conversation?', element('form', {method: 'dialog'},
    element('p', {id: 'replace-note'}, `What is here is replaced by ${file.name}, settings included.`),
    element('div', {class: 'actions'},
      element('button', {type: 'button', onclick: () => dialog.close('')}, 'Cancel'),
      element('button', {type: 'submit', class: 'primary', value: 'replace'}, 'Replace'))), {described: 'replace-note',
    closed: (how) => {
      if (how === 'replace') on.replace(state);
    }});
  return undefined;
}
