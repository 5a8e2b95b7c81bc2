// What the chat page remembers: it lies in the session of this tab, as the key does, and is gone with it.
import {ofTab} from '../store.js';

const name = 'tgi.chat';

// settings are those of a new conversation. An empty text leaves a setting to the server.
export function newSettings() {
  return {
    model: '', adapter: '', template: '', system: '',
    temperature: '', top_p: '', top_k: '', min_p: '', repetition_penalty: '', max_tokens: '', seed: '', stop: '',
    tools: '', tool_choice: '', grammar: {kind: 'none', text: ''}, plugins: [], more: '', explain: false,
  };
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
  let kept = null;
  try {
    kept = JSON.parse(ofTab.get(name));
  } catch { /* nothing is kept */ }
  const state = newState();
  if (!Array.isArray(kept?.sides) || kept.sides.length !== 2) return state;
  state.compare = kept.compare === true;
  if (typeof kept.panel === 'boolean') state.panel = kept.panel;
  state.draft = text(kept.draft);
  state.sides = kept.sides.map((side) => ({settings: settingsOf(side?.settings),
    messages: list(side?.messages).map(messageOf).filter((message) => message !== null)}));
  return state;
}

const text = (value) => (typeof value === 'string' ? value : '');
const list = (value) => (Array.isArray(value) ? value : []);
const object = (value) => (value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {});

function settingsOf(kept) {
  const settings = newSettings();
  for (const [key, plain] of Object.entries(settings)) {
    if (typeof plain === typeof kept?.[key] && typeof plain !== 'object') settings[key] = kept[key];
  }
  if (text(kept?.grammar?.kind)) settings.grammar = {kind: kept.grammar.kind, text: text(kept.grammar.text)};
  settings.plugins = list(kept?.plugins).filter((plugin) => text(plugin?.name))
    .map((plugin) => ({name: plugin.name, params: object(plugin.params), wrong: object(plugin.wrong)}));
  return settings;
}

function messageOf(kept) {
  if (!['user', 'assistant', 'tool'].includes(kept?.role)) return null;
  const message = {...kept, text: text(kept.text), images: list(kept.images).filter((src) => text(src)), busy: false};
  if (kept.role !== 'assistant') return message;
  return {...message, reasoning: text(kept.reasoning), calls: list(kept.calls).filter((call) => text(call?.name)),
    tokens: list(kept.tokens), notes: list(kept.notes), grammar: kept.grammar?.kind ? kept.grammar : null,
    view: 'text'};
}

// save keeps a state; where the session has no room for all of it, it goes without explanations, then without images,
// then without messages. Requests, which hold all messages before them, are not kept.
export function save(state) {
  const without = (...names) => (key, value) => (names.includes(key) ? undefined : value);
  const shapes = [
    without('busy', 'body'),
    without('busy', 'body', 'tokens'),
    (key, value) => without('busy', 'body', 'tokens')(key,
      value?.images?.length ? {...value, images: [], lost: value.images.length} : value),
    without('messages'),
  ];
  for (const shape of shapes) {
    try {
      if (ofTab.set(name, JSON.stringify(state, shape))) return;
    } catch { /* longer than a text may be */ }
  }
}
