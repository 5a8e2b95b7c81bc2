// Requests to the server that this page came from. The key is asked for when the server wants one, and kept in the
// session of this tab alone.
import {openDialog} from './dialog.js';
import {element} from './dom.js';
import {ofTab} from './store.js';

const keyName = 'tgi.key';

// patience is how long a question may take that changes nothing, in milliseconds.
const patience = 20_000;

// session is an id of this tab, which goes with its requests: a router in front of several servers sends them to the
// same one, which has the conversation's prefix, and whose state the other pages show.
function session() {
  const name = 'tgi.session';
  if (!ofTab.get(name)) {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    ofTab.hold(name, Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join(''));
  }
  return ofTab.get(name);
}

// RequestError is a reply that is an error: its message is the server's.
class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = {
  get: () => ofTab.get(keyName),
  set(value) {
    ofTab.hold(keyName, value);
    dispatchEvent(new Event('tgi-key'));
  },
};

// address is where a path of the server is; the page may be behind a proxy that puts something in front of it. A user
// and password in the page's own address are left out: browsers refuse to ask with them, and nobody should copy them.
export function address(path) {
  const url = new URL(path.replace(/^\//, ''), document.baseURI.replace(/[?#].*/, ''));
  url.username = url.password = '';
  return url.href;
}

// request asks the server and returns its response. `json` in the options is a body that is sent as JSON, with POST
// unless another method is given; `within` bounds the time of each try. A reply of 401 asks for the key and sends the
// request again, unless it is to be `silent`. Errors are thrown with the server's message and its status.
export async function request(path, options = {}) {
  for (;;) {
    const {json, headers, silent, within, ...rest} = options;
    const used = key.get();
    const init = {...rest, headers: new Headers(headers)};
    init.headers.set('X-Session-Id', session());
    if (within) init.signal = AbortSignal.any([AbortSignal.timeout(within), ...rest.signal ? [rest.signal] : []]);
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
      throw unanswered(err);
    }
    if (reply.ok) return reply;
    const message = await messageOf(reply, used);
    if (reply.status === 401 && !silent && await askKey(used, message)) continue;
    throw new RequestError(reply.status, message);
  }
}

// unanswered is the error of a request that got no reply, or only a part of one.
function unanswered(err) {
  if (err.name === 'AbortError') return err;
  return new RequestError(0, err.name === 'TimeoutError' ? 'The server does not answer in time.'
    : `The server does not answer (${err.message}).`);
}

// json is request for a reply that is JSON; an empty reply is null. What changes nothing must be answered in time.
export async function json(path, options = {}) {
  const asks = options.json === undefined && (options.method ?? 'GET') === 'GET';
  const reply = await request(path, {...options, within: asks ? patience : 0});
  const text = await reply.text().catch((err) => { throw unanswered(err); });
  try {
    return text === '' ? null : JSON.parse(text);
  } catch {
    throw new RequestError(0, `What answered at ${address(path)} is not this server: its reply is no JSON.`);
  }
}

// messageOf finds the text of an error in the shapes that the APIs have.
async function messageOf(reply, used) {
  // Routes word this differently, and which of them replies first is chance.
  if (reply.status === 401) return used ? 'This server does not know that key.' : 'This server needs a key.';
  const text = await reply.text().catch(() => '');
  try {
    return errorText(JSON.parse(text)) || text;
  } catch {
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
    const dialog = openDialog('Key', element('form', {method: 'dialog'},
      message && element('p', {role: 'alert'}, message),
      element('label', {for: 'key-input'}, 'Key of this server'), input,
      element('p', {class: 'hint', id: 'key-note'},
        'Kept in this tab until it is closed, and sent to this server only.'),
      element('div', {class: 'actions'},
        element('button', {type: 'button', onclick: () => dialog.close('')}, 'Cancel'),
        element('button', {type: 'submit', class: 'primary', value: 'use'}, 'Use key'))), {closed: (how) => {
      if (how === 'use') key.set(input.value.trim());
      done(how === 'use' && input.value.trim() !== '');
    }});
    input.select();
  });
}
