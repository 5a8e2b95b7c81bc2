// A message as it is seen.
import {copyButton, element, replace} from '../dom.js';
import {render} from './markdown.js';
import {ended} from './reply.js';
import {tokenView} from './tokens.js';
import {judge} from './validity.js';

const acts = {class: 'quiet acts'};
const labels = {user: 'You', assistant: 'Model', tool: 'Tool result'};

// messageView returns {node, update} for a message. on has what its buttons do: retry, remove, request, answer, and
// edit, which returns whether the text was taken. Buttons of the class `acts` are not there while a reply comes.
export function messageView(message, on) {
  const body = element('div', {class: 'body'});
  const foot = element('div', {class: 'foot'});
  const node = element('article', {class: `message ${message.role}`, 'aria-label': labels[message.role]}, body, foot);
  const parts = message.role === 'assistant' ? assistantParts(message, on) : null;

  function update() {
    if (parts) parts.update();
    if (parts && !parts.placed) {
      parts.placed = true;
      replace(body, parts.nodes);
    }
    if (!parts) replace(body, plainParts(message));
    replace(foot, message.busy ? null : footParts());
    node.classList.toggle('busy', Boolean(message.busy));
  }

  function footParts() {
    const button = (name, act, more) =>
      element('button', {type: 'button', class: 'quiet', onclick: act, ...more}, name);
    return [
      message.role === 'assistant' && element('span', {class: 'muted stats'}, ended(message)),
      message.unanswered && element('span', {class: 'muted stats'}, 'not answered: left out of later requests'),
      element('span', {class: 'message-actions'},
        message.tokens?.length > 0 && button('Tokens', () => {
          message.view = message.view === 'tokens' ? 'text' : 'tokens';
          update();
          foot.querySelector('[aria-pressed]')?.focus();
        }, {'aria-pressed': message.view === 'tokens'}),
        message.text && copyButton(() => message.text, body, {class: 'quiet'}),
        message.role !== 'tool' && button('Edit', edit, acts),
        message.role === 'assistant' && button('Retry', on.retry, acts),
        message.body && button('Request', () => on.request(message.body)),
        button('Delete', on.remove, acts)),
    ];
  }

  // edit changes the text in place. A changed message of the user is sent again, without what followed it.
  function edit() {
    const area = element('textarea', {rows: Math.min(14, message.text.split('\n').length + 1), value: message.text,
      'aria-label': 'Edit the message', onkeydown: (event) => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          back();
        }
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && message.role === 'user') {
          event.preventDefault();
          save();
        }
      }});
    const back = () => {
      if (parts) parts.placed = false;
      update();
    };
    const save = () => {
      if (on.edit(area.value)) back();
    };
    replace(body, area);
    replace(foot, element('span', {class: 'message-actions shown'},
      element('button', {type: 'button', onclick: back}, 'Cancel'),
      element('button', {type: 'button', class: 'primary acts', onclick: save},
        message.role === 'user' ? 'Send' : 'Save')));
    area.focus();
  }

  update();
  return {node, update};
}

function plainParts(message) {
  return [
    message.role === 'tool' && element('div', {class: 'tool-name'}, `Result of ${message.name}`),
    message.images?.length > 0 && element('div', {class: 'images'}, message.images.map((src, i) =>
      element('img', {src, alt: `Image ${i + 1}`}))),
    message.lost > 0 && element('p', {class: 'hint'}, `${message.lost === 1 ? 'An image was' :
      `${message.lost} images were`} too large for this tab to keep: requests go without.`),
    message.text && element('div', {class: 'text'}, message.text),
  ];
}

// assistantParts are kept while a reply comes, so that what is open stays open.
function assistantParts(message, on) {
  const thoughtText = element('div', {class: 'thought-text'});
  const thoughtHead = element('summary', {});
  const thought = element('details', {class: 'thought'}, thoughtHead, thoughtText);
  const text = element('div', {class: 'text markdown'});
  const tokens = element('div', {});
  const calls = element('div', {class: 'calls'});
  const verdict = element('p', {class: 'verdict'});
  const notes = element('div', {});
  let drawn = '';

  function update() {
    thought.hidden = message.reasoning === '';
    thoughtHead.textContent = message.busy && message.text === '' ? 'Thinking…' : 'Reasoning';
    thoughtText.textContent = message.reasoning;
    const asTokens = message.view === 'tokens' && message.tokens.length > 0 && !message.busy;
    text.hidden = asTokens;
    if (asTokens) {
      if (!tokens.firstChild) tokens.append(tokenView(message.tokens, missing(message)));
    } else {
      tokens.replaceChildren();
      if (held(message)) replace(text, element('pre', {class: 'plain'}, message.text));
      else render(text, message.text);
    }
    text.classList.toggle('waiting', Boolean(message.busy) && message.text === '' && message.reasoning === '');
    const state = JSON.stringify([message.calls, Boolean(message.busy), message.answered]);
    if (state !== drawn) {
      drawn = state;
      replace(calls, message.calls.map((call) => callView(message, call, on)),
        message.calls.length > 0 && !message.busy && !message.answered && answerButton());
    }
    showVerdict();
    replace(notes, (message.notes ?? []).map((note) => element('div', {class: 'notice warn'}, note)),
      message.error && element('div', {class: 'notice error', role: 'alert'}, element('p', {}, message.error)));
  }

  function showVerdict() {
    const result = held(message) && message.text !== '' ? judge(message.grammar, message.text, !message.busy) : null;
    message.verdict = result?.text ?? '';
    verdict.hidden = message.verdict === '';
    if (verdict.hidden) return;
    const signs = {good: '✓ ', bad: '✗ ', open: '… ', none: ''};
    verdict.className = `verdict ${result.state}`;
    verdict.textContent = signs[result.state] + result.text;
  }

  function answerButton() {
    return element('div', {class: 'actions'}, element('button', {type: 'button', class: 'primary acts', onclick: () =>
      on.answer([...calls.querySelectorAll('textarea')].map((area) => area.value))}, 'Send results'));
  }

  return {nodes: [thought, text, tokens, calls, verdict, notes], update, placed: false};
}

// missing says what the tokens of a reply are without, '' where nothing is known to be.
function missing({tokens, explained, usage}) {
  if (!explained || tokens.length < explained || usage?.reply <= tokens.length) return '';
  const all = usage ? ` of ${usage.reply.toLocaleString('en')}` : '';
  return `The first ${tokens.length.toLocaleString('en')}${all} tokens: the server explained no more of this reply.`;
}

// held says whether a reply is held to a form that is shown as it is.
function held(message) {
  return Boolean(message.grammar) && message.grammar.kind !== 'none';
}

function callView(message, call, on) {
  let args = call.args;
  try {
    args = JSON.stringify(JSON.parse(call.args), null, 2);
  } catch { /* it is not whole yet */ }
  const area = element('textarea', {rows: 2, class: 'code', placeholder: 'What the tool returns', 'aria-label':
    `Result of ${call.name}`, onkeydown: (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      on.answer([...area.closest('.calls').querySelectorAll('textarea')].map((a) => a.value));
    }
  }});
  return element('div', {class: 'call'},
    element('div', {class: 'tool-name'}, element('span', {class: 'tag accent'}, 'tool'), ' ',
      element('code', {}, call.name)),
    element('pre', {tabindex: 0}, args), !message.busy && !message.answered && area);
}
