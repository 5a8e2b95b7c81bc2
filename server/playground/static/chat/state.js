// What the chat page remembers: it lies in the session of this tab, as the key does, and is gone with it.

const name = 'tgi.chat';

// settings are those of a new conversation. An empty text leaves a setting to the server.
export function newSettings() {
  return {
    model: '', adapter: '', template: '', system: '',
    temperature: '', top_p: '', top_k: '', min_p: '', repetition_penalty: '', max_tokens: '', seed: '', stop: '',
    tools: '', tool_choice: '', grammar: {kind: 'none', text: ''}, plugins: [], more: '', explain: false,
  };
}

// newState has one conversation, and a second one for comparisons.
export function newState() {
  return {compare: false, panel: null, sides: [newSide(), newSide()]};
}

function newSide() {
  return {settings: newSettings(), messages: []};
}

// load reads what the session has. What does not look like a state is dropped.
export function load() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(name));
    if (!Array.isArray(kept?.sides) || kept.sides.length !== 2) return newState();
    for (const side of kept.sides) {
      side.settings = {...newSettings(), ...side.settings};
      if (!Array.isArray(side.messages)) side.messages = [];
    }
    return {...newState(), ...kept};
  } catch {
    return newState();
  }
}

// save keeps a state; where the session has no room for all of it, it goes without images, or without messages.
export function save(state) {
  const shapes = [
    (key, value) => (key === 'busy' ? undefined : value),
    (key, value) => (['busy', 'images', 'tokens', 'body'].includes(key) ? undefined : value),
    (key, value) => (key === 'busy' || key === 'messages' ? undefined : value),
  ];
  for (const shape of shapes) {
    try {
      sessionStorage.setItem(name, JSON.stringify(state, shape));
      return;
    } catch { /* it is full, or storage is off */ }
  }
}
