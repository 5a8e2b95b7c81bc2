// A dialog with a title, content and a button that closes it.
import {element} from '../dom.js';

// open shows it, and calls closed() when it is gone. It returns the dialog.
export function open(title, content, closed) {
  const id = `dialog-${title.replace(/[^a-z0-9]+/gi, '-')}`;
  const dialog = element('dialog', {class: 'dialog wide', 'aria-labelledby': id},
    element('div', {class: 'row head'}, element('h2', {id, class: 'break'}, title),
      element('button', {type: 'button', class: 'quiet', 'aria-label': 'Close', onclick: () => dialog.close()}, '×')),
    content);
  dialog.addEventListener('close', () => {
    dialog.remove();
    closed?.();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// facts are names with values; a value of null leaves both out.
export function facts(list) {
  return element('dl', {class: 'facts-list'}, list.filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {class: 'break'}, value))));
}
