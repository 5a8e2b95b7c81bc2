// The chat page: one conversation, or two that get the same messages with other settings.
import {settingsForm} from '../chat/panel.js';
import {complain} from '../chat/schemaform.js';
import {load, newSettings, save} from '../chat/state.js';
import {SettingError} from '../chat/request.js';
import {showSnippets} from '../chat/snippets.js';
import {Thread} from '../chat/thread.js';

export const title = 'Chat';

const suggestions = ['What is three plus four?', 'Who lives in the old mill?', 'Tell me a story.'];

// largestImage bounds a file that is attached, in bytes; server.payload_limit bounds what the server takes.
const largestImage = 10 << 20;

// show fills root with the page.
export function show(root, app) {
  const {element, replace} = app;
  const state = load();
  const server = {models: [], plugins: []};
  const stopping = new AbortController();
  let images = [], edited = 0, saving = 0, waiting = false;

  // Parts of the page
  const live = element('div', {class: 'hidden-text', 'aria-live': 'polite', role: 'status', id: 'chat-status'});
  const wrong = element('div', {class: 'composer-error', role: 'alert'});
  const thumbs = element('div', {class: 'thumbs'});
  const input = element('textarea', {id: 'message', rows: 1, 'aria-label': 'Message', placeholder: 'Write a message',
    enterkeyhint: 'send', oninput: grow, onkeydown: keys, onpaste: paste});
  const send = element('button', {type: 'submit', class: 'primary round', 'aria-label': 'Send',
    title: 'Send (Enter)'}, '↑');
  const stop = element('button', {type: 'button', class: 'round', hidden: true, 'aria-label': 'Stop',
    title: 'Stop (Esc)', onclick: stopAll}, '■');
  const file = element('input', {type: 'file', accept: 'image/png,image/jpeg,image/gif,image/webp', multiple: true,
    hidden: true, onchange: () => {
      attach([...file.files]);
      file.value = '';
    }});
  const attachButton = element('button', {type: 'button', class: 'quiet', id: 'attach', hidden: true,
    onclick: () => file.click()}, '+ Image');
  const explain = element('button', {type: 'button', class: 'quiet', id: 'explain', onclick: () => {
    const on = !state.sides[0].settings.explain;
    for (const side of state.sides) side.settings.explain = on;
    changed();
  }, title: 'Ask the server what happened at each token of the replies that follow'}, 'Explain tokens');
  const form = element('form', {class: 'composer', 'aria-label': 'New message', onsubmit: submit}, thumbs, input,
    element('div', {class: 'composer-row'}, attachButton, file, explain,
      element('span', {class: 'muted keys', 'aria-hidden': 'true'}, 'Enter sends, Shift+Enter begins a line'),
      stop, send));
  const compare = element('button', {type: 'button', class: 'quiet', id: 'compare', onclick: toggleCompare}, 'Compare');
  const settingsButton = element('button', {type: 'button', class: 'quiet', id: 'settings',
    'aria-controls': 'panel', onclick: () => togglePanel()}, 'Settings');
  const name = element('div', {class: 'model-name'});
  const tools = element('div', {class: 'chat-bar', role: 'toolbar', 'aria-label': 'Conversation'}, name,
    compare,
    element('button', {type: 'button', class: 'quiet', id: 'request', onclick: showRequest}, 'Code'),
    element('button', {type: 'button', class: 'quiet', id: 'clear', onclick: clear}, 'Clear'), settingsButton);
  const columns = element('div', {class: 'threads'});
  const panel = element('aside', {class: 'settings-panel', id: 'panel', 'aria-label': 'Settings',
    onkeydown: (event) => {
      if (event.key === 'Escape') togglePanel(false);
    }});
  root.append(element('div', {class: 'chat'}, tools, columns,
    element('div', {class: 'composer-place'}, wrong, form), live), panel);

  const hooks = {
    changed,
    say: (text) => { live.textContent = text; },
    failed: (err, side) => {
      wrong.textContent = err.message;
      if (!(err instanceof SettingError)) return;
      if (state.sides[edited] !== side) {
        edited = state.sides.indexOf(side);
        drawPanel();
      }
      togglePanel(true);
      if (err.parameter) complain(panel, err.parameter);
    },
    empty: welcome,
    plugins: () => server.plugins,
  };
  const threads = state.sides.map((side) => new Thread(app, side, hooks));

  // changed shows what depends on the state, and keeps it a moment later.
  function changed() {
    const shown = shownThreads(), busy = shown.some((t) => t.busy);
    send.hidden = busy;
    stop.hidden = !busy;
    compare.disabled = busy; // B begins with whole replies
    compare.setAttribute('aria-pressed', state.compare);
    explain.setAttribute('aria-pressed', state.sides[0].settings.explain);
    const models = shown.map((t) => modelOf(t.side.settings));
    name.textContent = [...new Set(models.map((m) => m.label))].join(' · ');
    attachButton.hidden = !models.every((m) => m.images);
    shown.forEach((t, i) => {
      t.head.hidden = !state.compare;
      replace(t.head, element('strong', {}, 'AB'[i]), ' ', element('span', {class: 'muted'}, summary(t.side.settings)));
    });
    clearTimeout(saving);
    saving = setTimeout(() => save(state), 200);
  }

  function modelOf(settings) {
    const base = server.models.find((m) => m.id === settings.model) ?? server.models.find((m) => !m.parent);
    return {label: settings.adapter || base?.id || 'Model', images: base?.input_modalities?.includes('image') ?? false};
  }

  // summary names the settings that are not the server's.
  function summary(settings) {
    const parts = [modelOf(settings).label];
    const plain = newSettings();
    for (const key of ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'max_tokens', 'seed']) {
      if (String(settings[key]) !== plain[key]) parts.push(`${key} ${settings[key]}`);
    }
    if (settings.system) parts.push('system prompt');
    if (settings.grammar.kind !== 'none') parts.push(settings.grammar.kind);
    for (const plugin of settings.plugins) parts.push(plugin.name);
    return parts.join(', ');
  }

  const shownThreads = () => (state.compare ? threads : threads.slice(0, 1));

  function welcome() {
    return element('div', {class: 'welcome'}, element('h1', {}, 'What would you like to ask?'),
      element('p', {class: 'muted'}, 'Chat with the model, hold its replies to a grammar, add plugins, and see what ' +
        'each did to every token.'),
      element('div', {class: 'suggestions'}, suggestions.map((text) =>
        element('button', {type: 'button', onclick: () => ask(text)}, text))));
  }

  function submit(event) {
    event.preventDefault();
    ask(input.value);
  }

  function ask(text) {
    if (shownThreads().some((t) => t.busy) || (!text.trim() && !images.length)) return;
    wrong.textContent = '';
    for (const t of shownThreads()) {
      try {
        t.check([...t.side.messages, {role: 'user', text, images}]);
      } catch (err) {
        hooks.failed(err, t.side);
        return;
      }
    }
    if (!wide.matches && !panel.hidden) togglePanel(false); // it would cover the replies
    for (const t of shownThreads()) t.send(text, images);
    images = [];
    input.value = '';
    drawThumbs();
    grow();
    input.focus();
  }

  function keys(event) {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  }

  function grow() {
    input.style.height = 'auto';
    input.style.height = `${Math.min(input.scrollHeight + 2, 260)}px`;
  }

  function stopAll() {
    for (const t of threads) t.stop();
    input.focus();
  }

  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && threads.some((t) => t.busy)) {
      event.preventDefault();
      stopAll();
    }
  }, {signal: stopping.signal});

  function clear() {
    for (const t of shownThreads()) t.clear();
    wrong.textContent = '';
    input.focus();
  }

  function showRequest() {
    const thread = shownThreads()[Math.min(edited, shownThreads().length - 1)];
    let messages = thread.side.messages.slice(0, thread.side.messages.findLastIndex((m) => m.role !== 'assistant') + 1);
    if (input.value.trim() || images.length) {
      messages = [...thread.side.messages, {role: 'user', text: input.value, images}];
    } else if (!messages.length) {
      messages = [{role: 'user', text: 'Hello!'}];
    }
    try {
      showSnippets({...thread.check(messages), stream: true}, app.address('/'));
    } catch (err) {
      hooks.failed(err, thread.side);
    }
  }

  // Images

  function paste(event) {
    const files = [...event.clipboardData?.files ?? []].filter((f) => f.type.startsWith('image/'));
    if (!files.length || attachButton.hidden) return;
    event.preventDefault();
    attach(files);
  }

  async function attach(files) {
    for (const f of files) {
      if (f.size > largestImage) {
        wrong.textContent = `${f.name} has ${f.size} bytes, more than ${largestImage}`;
        continue;
      }
      images = [...images, await new Promise((done, fail) => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result);
        reader.onerror = () => fail(reader.error);
        reader.readAsDataURL(f);
      })];
    }
    drawThumbs();
  }

  function drawThumbs() {
    replace(thumbs, images.map((src, i) => element('div', {class: 'thumb'},
      element('img', {src, alt: `Image ${i + 1}`}),
      element('button', {type: 'button', 'aria-label': `Remove image ${i + 1}`, onclick: () => {
        images = images.filter((_, k) => k !== i);
        drawThumbs();
        input.focus();
      }}, '✕'))));
  }

  // Settings

  function toggleCompare() {
    state.compare = !state.compare;
    const [a, b] = state.sides;
    if (state.compare && !b.messages.length) {
      const fresh = JSON.stringify({...b.settings, explain: false}) === JSON.stringify(newSettings());
      if (fresh) Object.assign(b.settings, structuredClone(a.settings));
    }
    // B goes on from what A has, unless both were asked the same.
    const asked = (side) => JSON.stringify(side.messages.filter((m) => m.role === 'user')
      .map((m) => [m.text, m.images]));
    if (state.compare && asked(a) !== asked(b)) {
      b.messages = structuredClone(a.messages);
      threads[1].draw();
    }
    edited = state.compare ? 1 : 0;
    draw();
    if (state.compare && wide.matches) togglePanel(true);
  }

  function togglePanel(open = panel.hidden) {
    panel.hidden = !open;
    state.panel = open;
    settingsButton.setAttribute('aria-expanded', open);
    settingsButton.setAttribute('aria-pressed', open);
    if (open && document.activeElement === settingsButton) panel.querySelector('button, select, input')?.focus();
    if (!open && panel.contains(document.activeElement)) settingsButton.focus();
    changed();
  }

  function drawPanel() {
    const tab = (i) => element('button', {type: 'button', role: 'tab', id: `side-${i}`, 'aria-selected': edited === i,
      'aria-controls': 'panel-form', onclick: () => {
        edited = i;
        drawPanel();
        document.getElementById(`side-${i}`).focus();
      }}, `Settings ${'AB'[i]}`);
    replace(panel,
      element('div', {class: 'panel-head'},
        state.compare ? element('div', {class: 'tabs', role: 'tablist'}, tab(0), tab(1)) :
          element('h2', {}, 'Settings'),
        element('button', {type: 'button', class: 'quiet', onclick: () => {
          const {explain: kept} = state.sides[edited].settings;
          Object.assign(state.sides[edited].settings, newSettings(), {explain: kept});
          drawPanel();
          changed();
        }}, 'Reset'),
        element('button', {type: 'button', class: 'quiet close', 'aria-label': 'Close the settings',
          onclick: () => togglePanel(false)}, '✕')),
      element('div', {id: 'panel-form'}, settingsForm(state.sides[edited].settings, server, changed)));
  }

  function draw() {
    replace(columns, shownThreads().map((t) => t.node));
    columns.classList.toggle('two', state.compare);
    drawPanel();
    changed();
  }

  // ask the server what there is; the page works without
  async function look() {
    if (stopping.signal.aborted) return;
    const [models, info] = await Promise.allSettled([
      app.json('/v1/models', {signal: stopping.signal}), app.json('/info', {signal: stopping.signal})]);
    if (stopping.signal.aborted) return;
    if (models.status === 'fulfilled') {
      if (waiting) wrong.textContent = '';
      waiting = false;
      server.models = (models.value?.data ?? []).filter((m) => m.settings?.embedding !== 'true');
    } else {
      wrong.textContent = models.reason.message;
      waiting = [0, 503].includes(models.reason.status); // it is loading its model, or starts again
      if (waiting) setTimeout(look, 2000);
    }
    if (info.status === 'fulfilled') server.plugins = info.value?.plugins ?? [];
    draw();
  }

  const wide = matchMedia('(min-width: 1000px)');
  panel.hidden = !(wide.matches && (state.panel ?? true)); // on a narrow screen it covers the conversation
  wide.addEventListener('change', () => togglePanel(wide.matches), {signal: stopping.signal});
  settingsButton.setAttribute('aria-expanded', !panel.hidden);
  settingsButton.setAttribute('aria-pressed', !panel.hidden);
  draw();
  look();
  addEventListener('tgi-key', look, {signal: stopping.signal});
  addEventListener('pagehide', () => save(state), {signal: stopping.signal}); // what waits for its turn to be saved
  if (matchMedia('(hover: hover)').matches) input.focus();

  return () => {
    stopping.abort();
    for (const t of threads) t.stop();
    save(state);
  };
}
