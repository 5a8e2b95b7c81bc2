// The chat page.
import {events} from '../chat/stream.js';

export const title = 'Chat';

// show fills root with a conversation.
export function show(root, app) {
  const {element} = app;
  const messages = [];
  let running = null;

  const log = element('div', {class: 'log', role: 'log', 'aria-label': 'Conversation', 'aria-live': 'polite'});
  const input = element('textarea', {rows: 1, 'aria-label': 'Message', placeholder: 'Write a message'});
  const send = element('button', {type: 'submit', class: 'primary'}, 'Send');
  const stop = element('button', {type: 'button', hidden: true, onclick: () => running?.abort()}, 'Stop');
  const form = element('form', {class: 'composer', onsubmit: submit}, input, send, stop);
  root.append(element('div', {class: 'chat'}, log, form));
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
    if (event.key === 'Escape') running?.abort();
  });
  input.focus();

  function add(role, text) {
    const body = element('div', {class: 'text'}, text);
    log.append(element('article', {class: `message ${role}`}, body));
    return body;
  }

  async function submit(event) {
    event.preventDefault();
    const text = input.value.trim();
    if (!text || running) return;
    input.value = '';
    messages.push({role: 'user', content: text});
    add('user', text);
    const body = add('assistant', '');
    const reply = {role: 'assistant', content: ''};
    running = new AbortController();
    send.hidden = true;
    stop.hidden = false;
    try {
      const response = await app.request('/v1/chat/completions', {json: {messages, stream: true},
        signal: running.signal});
      for await (const data of events(response)) {
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(app.errorText(chunk));
        reply.content += chunk.choices[0]?.delta?.content ?? '';
        body.textContent = reply.content;
      }
    } catch (err) {
      if (err.name !== 'AbortError') body.append(element('div', {class: 'notice error', role: 'alert'}, err.message));
    }
    messages.push(reply);
    running = null;
    send.hidden = false;
    stop.hidden = true;
    input.focus();
  }

  return () => running?.abort();
}
