// Dialogs: each has a title, keeps the keys until it is closed, and is closed when the page is left.
import {element} from './dom.js';

let count = 0;

// openDialog shows content below a title. wide ones have a button that closes them beside it. closed(value) is called
// when it is gone, with the value of the button that closed it: a form with method=dialog has such buttons. It returns
// the dialog.
export function openDialog(title, content, {wide = false, closed = null, described = null} = {}) {
  const id = `dialog-${++count}`;
  const heading = element('h2', {id, class: 'break'}, title);
  const dialog = element('dialog', {class: wide ? 'dialog wide' : 'dialog', 'aria-labelledby': id,
    'aria-describedby': described},
  wide ? element('div', {class: 'row head'}, heading, element('button', {type: 'button', class: 'quiet',
    'aria-label': 'Close', onclick: () => dialog.close()}, '×')) : heading,
  content);
  dialog.addEventListener('close', () => {
    dialog.remove();
    closed?.(dialog.returnValue);
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// closeDialogs closes all that are open, as if none of their buttons had been pressed.
export function closeDialogs() {
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close('');
}

// facts are names with values; a value of null leaves both out.
export function facts(list) {
  return element('dl', {class: 'facts-list'}, list.filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {class: 'break'}, value))));
}
