// What the chat page remembers: it lies in the session of this tab, as the key does, and is gone with it.
import {ofTab} from '../store.js';
import {wellFormed} from './tokens.js';

const name = 'tgi.chat';

// settings are those of a new conversation. An empty text leaves a setting to the server.
export function newSettings() {
  return {
    model: '', adapter: '', template: '', system: '',
    temperature: '', top_p: '', top_k: '', min_p: '', repetition_penalty: '', max_tokens: '', seed: '', stop: '',
    tools: '', tool_choice: '', grammar: newGrammar(), plugins: [], more: '', explain: false,
  };
}

// newGrammar is none. Without a plugin the first one compiles it that knows the language.
function newGrammar() {
  return {kind: 'none', text: '', language: '', plugin: '', params: {}, wrong: {}};
}

// newState has one conversation, a second one for comparisons, and what is being written.
function newState() {
  return {compare: false, panel: null, draft: '', sides: [newSide(), newSide()]};
}

function newSide() {
  return {settings: newSettings(), messages: []};
}

// load reads what the session has. Another version of the server may have written it: what does not look like a part
// of a state is dropped.
export function load() {
  try {
    return stateOf(JSON.parse(ofTab.get(name))) ?? newState();
  } catch { // nothing is kept
    return newState();
  }
}

// stateOf returns the state that a value has the parts of; null where it has none.
export function stateOf(value) {
  if (!Array.isArray(value?.sides) || value.sides.length !== 2) return null;
  const state = newState();
  state.compare = value.compare === true;
  if (typeof value.panel === 'boolean') state.panel = value.panel;
  state.draft = text(value.draft);
  state.sides = value.sides.map((side) => ({settings: settingsOf(side?.settings),
    messages: list(side?.messages).map(messageOf).filter((message) => message !== null)}));
  return state;
}

const text = (value) => (typeof value === 'string' ? value : '');
const number = (value) => (typeof value === 'number' ? value : undefined);
const list = (value) => (Array.isArray(value) ? value : []);
const object = (value) => (value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {});

function settingsOf(value) {
  const settings = newSettings();
  for (const [key, plain] of Object.entries(settings)) {
    if (typeof plain === typeof value?.[key] && typeof plain !== 'object') settings[key] = value[key];
  }
  const {kind, text: source, language, plugin, params, wrong} = object(value?.grammar);
  if (text(kind)) {
    settings.grammar = {kind, text: text(source), language: text(language), plugin: text(plugin),
      params: object(params), wrong: wrongOf(wrong)};
  }
  settings.plugins = list(value?.plugins).filter((plugin) => text(plugin?.name))
    .map((plugin) => ({name: plugin.name, params: object(plugin.params), wrong: wrongOf(plugin.wrong)}));
  return settings;
}

// wrongOf keeps what was typed for parameters and is no value.
function wrongOf(value) {
  return Object.fromEntries(Object.entries(object(value))
    .filter(([, one]) => typeof one?.text === 'string' && typeof one.error === 'string'));
}

// tokensOf keeps the tokens of a reply if all are well-formed: some of them would be another text.
const tokensOf = (value) => (list(value).every(wellFormed) ? list(value) : []);

function messageOf(value) {
  const message = {role: value?.role, text: text(value?.text), busy: false};
  switch (message.role) {
    case 'user': return {...message, images: list(value.images).filter((src) => text(src).startsWith('data:image/')),
      lost: number(value.lost), unanswered: value.unanswered === true};
    case 'tool': return {...message, call: text(value.call), name: text(value.name)};
    case 'assistant': return {...message, ...replyOf(value), tokens: tokensOf(value.tokens), view: 'text'};
    default: return null;
  }
}

// replyOf keeps what a reply has besides its text and its tokens.
function replyOf(value) {
  const {kind, text: source} = object(value.grammar), {prompt, reply} = object(value.usage);
  return {
    reasoning: text(value.reasoning),
    calls: list(value.calls).filter((call) => text(call?.name))
      .map(({id, name: called, args}) => ({id: text(id), name: called, args: text(args)})),
    notes: list(value.notes).filter((note) => text(note)),
    grammar: text(kind) ? {kind, text: text(source)} : null,
    error: text(value.error), finish: text(value.finish), stopped: text(value.stopped),
    usage: number(reply) === undefined ? undefined : {prompt: number(prompt), reply},
    time: number(value.time), first: number(value.first), explained: number(value.explained),
    answered: value.answered === true, aborted: value.aborted === true,
  };
}

// shapes are forms in which messages are kept, the best first. Requests, which hold all messages before them, are in
// none of them.
const shapes = [
  ({busy, body, ...message}) => message,
  ({busy, body, tokens, ...message}) => message, // explanations are much larger than what they explain
  ({busy, body, tokens, ...message}) =>
    (message.images?.length ? {...message, images: [], lost: message.images.length} : message),
];

// save keeps a state; where the session has no room for all of it, it goes without explanations, then without images,
// then without messages.
export function save(state) {
  for (const shape of [...shapes, null]) {
    try {
      if (ofTab.set(name, JSON.stringify(kept(state, shape)))) return;
    } catch { /* longer than a text may be */ }
  }
}

// kept is a state as it is kept, with messages of a shape; null leaves them out.
export function kept(state, shape = shapes[0]) {
  return {...state, sides: state.sides.map((side) => ({...side, messages: shape ? side.messages.map(shape) : []}))};
}
