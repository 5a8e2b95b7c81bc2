// What the pages of administrators share: a table whose rows stay in place, notices, questions.
import {openDialog} from '../dialog.js';
import {element, replace} from '../dom.js';

// table makes a table with a caption for screen readers. columns are {name, className}; the roles are told, since on
// narrow screens rows are shown as cards, which would take them away. update(list) shows items, each of which has a
// unique `id`: `make(item)` returns {cells, update} once for each, cells being one node a column, and update(item) is
// called whenever it may have changed, so that what has the focus keeps it.
export function table(caption, columns, make, empty) {
  const body = element('tbody', {role: 'rowgroup'});
  const nothing = element('p', {class: 'muted', hidden: true}, empty);
  const root = element('div', {},
    element('table', {class: 'cards', role: 'table'},
      element('caption', {class: 'hidden-text'}, caption),
      element('thead', {role: 'rowgroup'}, element('tr', {role: 'row'},
        columns.map((c) => element('th', {scope: 'col', role: 'columnheader', class: c.className ?? ''}, c.name)))),
      body), nothing);
  const rows = new Map();

  function update(list) {
    const seen = new Set();
    let place = null;
    for (const item of list) {
      seen.add(item.id);
      let row = rows.get(item.id);
      if (!row) {
        const {cells, update: change} = make(item);
        row = {change, node: element('tr', {role: 'row'}, cells.map((cell, i) => element(i ? 'td' : 'th',
          {scope: i ? null : 'row', role: i ? 'cell' : 'rowheader', 'data-label': i ? columns[i].name : null,
            class: columns[i].className ?? ''}, cell)))};
        rows.set(item.id, row);
      }
      row.change(item);
      const next = place ? place.nextSibling : body.firstChild;
      if (next !== row.node) body.insertBefore(row.node, next);
      place = row.node;
    }
    for (const [id, row] of rows) {
      if (seen.has(id)) continue;
      row.node.remove();
      rows.delete(id);
    }
    nothing.hidden = list.length > 0;
  }
  return {root, update};
}

// set writes a text only where it differs, so that nothing is read out again.
export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// tag is a state in a word and a colour.
export function tag() {
  const node = element('span', {class: 'tag'});
  return {node, set(text, kind) {
    set(node, text);
    node.className = kind ? `tag ${kind}` : 'tag';
  }};
}

// unsigned tells whether the server refused a module because nobody whom it trusts has signed it.
export const unsigned = (err) => err.status === 403 && err.message.startsWith('the module is not signed');

// explain is what an error means to who reads it.
export function explain(err) {
  const text = /[.!?]$/.test(err.message) ? err.message : `${err.message}.`;
  switch (err.status) {
    case 403:
      if (unsigned(err)) return text; // another key does not help
      return /switched off/.test(text) ? `${text} Start the server with --admin-key, and use that key here.`
        : `Your key may not do this: ${text}`;
    case 404: case 405: return /^(no such route|method not allowed)/.test(text)
      ? `This address of the server does not have it: ${text} ` +
        'With server.admin_port administration has its own address.'
      : text;
    default: return text;
  }
}

// notices is where a page tells what went wrong or was done. bad and good are read out; state is for what lasts, such
// as a server that does not answer.
export function notices() {
  const lasting = element('div', {role: 'alert'}), passing = element('div', {'aria-live': 'polite', role: 'status'});
  const root = element('div', {class: 'notices'}, lasting, passing);
  function show(where, kind, text, children) {
    if (where.textContent === text && !children) return;
    replace(where, text && element('div', {class: `notice ${kind}`}, element('p', {}, text), children,
      where === passing && element('button', {type: 'button', class: 'quiet close', 'aria-label': 'Close the message',
        onclick: () => replace(passing)}, '×')));
  }
  return {
    root,
    bad: (err, what) => show(passing, 'error', what ? `${what}: ${explain(err)}` : explain(err)),
    good: (text) => show(passing, 'done', text),
    clear: () => replace(passing),
    state: (err, again) => show(lasting, 'error', err ? `${explain(err)}${again ? ' Trying again.' : ''}` : ''),
  };
}

// ask asks a question with two buttons, and returns whether the one named yes was pressed.
export function ask(title, text, yes) {
  return new Promise((done) => openDialog(title, element('form', {method: 'dialog'},
    element('p', {id: 'ask-text'}, text),
    element('div', {class: 'actions'},
      element('button', {type: 'submit', value: 'no', autofocus: true}, 'Cancel'),
      element('button', {type: 'submit', class: 'danger', value: 'yes'}, yes))),
  {described: 'ask-text', closed: (how) => done(how === 'yes')}));
}

// button does something that takes a while: it cannot be pressed again meanwhile.
export function button(text, act, attributes = {}) {
  const node = element('button', {type: 'button', ...attributes, onclick: async () => {
    if (node.getAttribute('aria-disabled') === 'true') return;
    node.setAttribute('aria-disabled', 'true');
    try {
      await act();
    } finally {
      node.removeAttribute('aria-disabled');
    }
  }}, text);
  return node;
}
