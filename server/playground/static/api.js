// Requests to the server that this page came from. The key is asked for when the server wants one, and kept in the
// session of this tab alone.
import {element} from './dom.js';

const keyName = 'tgi.key';

// RequestError is a reply that is an error: its message is the server's.
export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(keyName) ?? '',
  set(value) {
    if (value) sessionStorage.setItem(keyName, value);
    else sessionStorage.removeItem(keyName);
    dispatchEvent(new Event('tgi-key'));
  },
};

// address is where a path of the server is; the page may be behind a proxy that puts something in front of it.
export function address(path) {
  return new URL(path.replace(/^\//, ''), document.baseURI.replace(/#.*/, '')).href;
}

// request asks the server and returns its response. `json` in the options is a body that is sent as JSON, with POST
// unless another method is given. A reply of 401 asks for the key and sends the request again. Errors are thrown with
// the server's message and its status.
export async function request(path, options = {}) {
  for (;;) {
    const {json, headers, ...rest} = options;
    const used = key.get();
    const init = {...rest, headers: new Headers(headers)};
    if (json !== undefined) {
      init.method ??= 'POST';
      init.headers.set('Content-Type', 'application/json');
      init.body = JSON.stringify(json);
    }
    if (used && !init.headers.has('Authorization')) init.headers.set('Authorization', `Bearer ${used}`);
    let reply;
    try {
      reply = await fetch(address(path), init);
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      throw new RequestError(0, `The server does not answer (${err.message}).`);
    }
    if (reply.ok) return reply;
    const message = await messageOf(reply, used);
    if (reply.status === 401 && !options.silent && await askKey(used, message)) continue;
    throw new RequestError(reply.status, message);
  }
}

// json is request for a reply that is JSON; an empty reply is null.
export async function json(path, options) {
  const text = await (await request(path, options)).text();
  return text === '' ? null : JSON.parse(text);
}

// messageOf finds the text of an error in the shapes that the APIs have.
async function messageOf(reply, used) {
  if (reply.status === 401 && !used) return 'This server needs a key.';
  const text = await reply.text().catch(() => '');
  try {
    return errorText(JSON.parse(text)) || text;
  } catch {
    if (!text && reply.status === 401) return 'This server does not know that key.';
    return text || `The server replied ${reply.status} ${reply.statusText}`.trim();
  }
}

// errorText is the text of an error in a body or an event: TGI's {"error": text}, OpenAI's {"error": {"message"}}.
export function errorText(body) {
  const error = body?.error ?? body;
  if (typeof error === 'string') return error;
  return typeof error?.message === 'string' ? error.message : '';
}

// asking is the dialog that is open, so that several requests ask once.
let asking = null;

// askKey asks for a key unless another is there already. It returns whether there is one to try.
export function askKey(used, message) {
  if (key.get() !== used) return Promise.resolve(true);
  asking ??= showDialog(message).finally(() => { asking = null; });
  return asking;
}

function showDialog(message) {
  return new Promise((done) => {
    const input = element('input', {id: 'key-input', type: 'password', autocomplete: 'off', spellcheck: 'false',
      'aria-describedby': 'key-note', value: key.get()});
    const dialog = element('dialog', {class: 'dialog', 'aria-labelledby': 'key-title'},
      element('form', {method: 'dialog'},
        element('h2', {id: 'key-title'}, 'Key'),
        message && element('p', {role: 'alert'}, message),
        element('label', {for: 'key-input'}, 'Key of this server'), input,
        element('p', {class: 'hint', id: 'key-note'},
          'Kept in this tab until it is closed, and sent to this server only.'),
        element('div', {class: 'actions'},
          element('button', {type: 'button', onclick: () => dialog.close('')}, 'Cancel'),
          element('button', {type: 'submit', class: 'primary', value: 'use'}, 'Use key'))));
    dialog.addEventListener('close', () => {
      dialog.remove();
      if (dialog.returnValue === 'use') key.set(input.value.trim());
      done(dialog.returnValue === 'use' && input.value.trim() !== '');
    });
    document.body.append(dialog);
    dialog.showModal();
    input.select();
  });
}
