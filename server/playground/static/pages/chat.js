// The chat page: one conversation, or two that get the same messages with other settings.
import {composer} from '../chat/composer.js';
import {conversationFields} from '../chat/files.js';
import {settingsForm} from '../chat/panel.js';
import {complain} from '../chat/schemaform.js';
import {load, newSettings, save} from '../chat/state.js';
import {SettingError} from '../chat/request.js';
import {showSnippets} from '../chat/snippets.js';
import {Thread} from '../chat/thread.js';

export const title = 'Chat';

const suggestions = ['What is three plus four?', 'Who lives in the old mill?', 'Tell me a story.'];

// page is made once, and put back when it is shown again: what is written stays, and replies go on meanwhile.
let page = null;

// show fills root with the page.
export function show(root, app) {
  page ??= build(app);
  return page(root);
}

// build makes the page, and returns a function that shows it and returns one that leaves it.
function build(app) {
  const {element, replace} = app;
  const state = load();
  const server = {models: [], plugins: null}; // null: not known yet
  const wide = matchMedia('(min-width: 1000px)');
  let shown = null; // ends with the page
  let edited = 0, saving = 0, waiting = false;

  // Parts of the page
  const live = element('div', {class: 'hidden-text', 'aria-live': 'polite', role: 'status', id: 'chat-status'});
  const wrong = element('div', {class: 'composer-error', role: 'alert'});
  const compare = element('button', {type: 'button', class: 'quiet', id: 'compare', onclick: toggleCompare}, 'Compare');
  const settingsButton = element('button', {type: 'button', class: 'quiet', id: 'settings',
    'aria-controls': 'panel', onclick: () => togglePanel()}, 'Settings');
  const name = element('div', {class: 'model-name'});
  const tools = element('div', {class: 'chat-bar', role: 'group', 'aria-label': 'Conversation'}, name,
    compare,
    element('button', {type: 'button', class: 'quiet', id: 'request', onclick: showRequest}, 'Code'),
    element('button', {type: 'button', class: 'quiet', id: 'clear', onclick: clear}, 'Clear'), settingsButton);
  const columns = element('div', {class: 'threads'});
  const panel = element('aside', {class: 'settings-panel', id: 'panel', 'aria-label': 'Settings',
    onkeydown: (event) => {
      if (event.key === 'Escape') togglePanel(false);
    }});
  const chat = element('div', {class: 'chat'});
  const form = composer({ask, stop: stopAll, changed, explain: () => {
    const on = !state.sides[0].settings.explain;
    for (const side of state.sides) side.settings.explain = on;
    changed();
  }, complain: (text) => { wrong.textContent = text; }}, chat, state.draft);
  chat.append(element('h1', {class: 'hidden-text'}, title), tools, columns,
    element('div', {class: 'composer-place'}, wrong, form.node), live);

  const hooks = {
    changed,
    say,
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
    plugins: () => server.plugins ?? [],
  };
  const threads = state.sides.map((side) => new Thread(app, side, hooks));

  // say has a screen reader say a text after what it says now.
  function say(text) {
    live.append(element('p', {}, text));
    while (live.childNodes.length > 20) live.firstChild.remove();
  }

  // changed shows what depends on the state, and keeps it a moment later.
  function changed() {
    const asked = shownThreads(), busy = asked.some((t) => t.busy);
    compare.disabled = busy; // B begins with whole replies
    enableFiles();
    compare.setAttribute('aria-pressed', state.compare);
    const models = asked.map((t) => modelOf(t.side.settings));
    form.enable(busy, models.every((m) => m.images), state.sides[0].settings.explain);
    name.textContent = [...new Set(models.map((m) => m.label))].join(' · ');
    asked.forEach((t, i) => {
      t.head.hidden = !state.compare;
      replace(t.head, element('strong', {}, 'AB'[i]), ' ', element('span', {class: 'muted'}, summary(t.side.settings)));
    });
    clearTimeout(saving);
    saving = setTimeout(keep, 200);
  }

  function keep() {
    clearTimeout(saving);
    state.draft = form.text();
    save(state);
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
    return element('div', {class: 'welcome'}, element('h2', {}, 'What would you like to ask?'),
      element('p', {class: 'muted'}, 'Chat with the model, hold its replies to a grammar, add plugins, and see what ' +
        'each did to every token.'),
      element('div', {class: 'suggestions'}, suggestions.map((text) =>
        element('button', {type: 'button', onclick: () => {
          if (ask(text, [])) form.input.focus();
        }}, text))));
  }

  // ask sends a message to all that are shown, and returns whether it could.
  function ask(text, images) {
    const asked = shownThreads(), message = {role: 'user', text, images};
    if (asked.some((t) => t.busy) || (!text.trim() && !images.length)) return false;
    wrong.textContent = '';
    const bodies = [];
    for (const t of asked) {
      const body = t.ready([...t.side.messages, message]);
      if (!body) return false;
      bodies.push(body);
    }
    if (!wide.matches && !panel.hidden) togglePanel(false); // it would cover the replies
    asked.forEach((t, i) => t.send({...message}, bodies[i]));
    return true;
  }

  function stopAll() {
    for (const t of threads) t.stop();
    form.input.focus();
  }

  function clear() {
    for (const t of shownThreads()) t.clear();
    wrong.textContent = '';
    form.input.focus();
  }

  function showRequest() {
    const thread = shownThreads()[Math.min(edited, shownThreads().length - 1)];
    const {messages: said} = thread.side;
    let messages = said.slice(0, said.findLastIndex((m) => m.role !== 'assistant') + 1);
    if (form.text().trim() || form.images().length) {
      messages = [...said, {role: 'user', text: form.text(), images: form.images()}];
    } else if (!messages.length) {
      messages = [{role: 'user', text: 'Hello!'}];
    }
    try {
      showSnippets({...thread.check(messages), stream: true}, app.address('/'));
    } catch (err) {
      hooks.failed(err, thread.side);
    }
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

  // togglePanel keeps what a person wants of a wide window. On a narrow one the settings cover the conversation, and
  // are open no longer than they are used.
  function togglePanel(open = panel.hidden) {
    if (wide.matches) state.panel = open;
    showPanel(open);
  }

  const wanted = () => wide.matches && (state.panel ?? true);

  function showPanel(open) {
    panel.hidden = !open;
    settingsButton.setAttribute('aria-expanded', open);
    settingsButton.setAttribute('aria-pressed', open);
    if (open && document.activeElement === settingsButton) panel.querySelector('button, select, input')?.focus();
    if (!open && panel.contains(document.activeElement)) settingsButton.focus();
    changed();
  }

  function drawPanel() {
    const choose = (i) => {
      edited = i;
      drawPanel();
      document.getElementById(`side-${i}`).focus();
    };
    const tab = (i) => element('button', {type: 'button', role: 'tab', id: `side-${i}`, 'aria-selected': edited === i,
      'aria-controls': 'panel-form', tabindex: edited === i ? 0 : -1, onclick: () => choose(i), onkeydown: (event) => {
        if (['ArrowLeft', 'ArrowRight'].includes(event.key)) choose(1 - i);
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
      element('div', {id: 'panel-form', ...state.compare && {role: 'tabpanel', 'aria-labelledby': `side-${edited}`}},
        settingsForm(state.sides[edited].settings, server, changed)),
      element('details', {class: 'section', open: true}, element('summary', {}, 'Conversation'),
        conversationFields({state: () => state, replace: exchange, complain: (text) => {
          wrong.textContent = text;
        }})));
    enableFiles();
  }

  // enableFiles lets a conversation be saved and opened while no reply comes.
  function enableFiles() {
    const busy = threads.some((t) => t.busy);
    for (const button of panel.querySelectorAll('#export, #import')) button.disabled = busy;
  }

  // exchange shows another conversation in the place of this one.
  function exchange(other) {
    if (threads.some((t) => t.busy)) {
      wrong.textContent = 'A reply is on its way: stop it first';
      return;
    }
    state.compare = other.compare;
    state.sides = other.sides;
    threads.forEach((t, i) => {
      t.side = state.sides[i];
      t.draw();
    });
    edited = state.compare ? 1 : 0;
    draw();
    for (const t of threads) t.scroll();
    say('The conversation of the file is shown');
    form.input.focus();
  }

  function draw() {
    replace(columns, shownThreads().map((t) => t.node));
    columns.classList.toggle('two', state.compare);
    drawPanel();
    changed();
  }

  // look asks the server what there is; the page works without.
  async function look() {
    const {signal} = shown;
    if (signal.aborted) return;
    const [models, info] = await Promise.allSettled([
      app.json('/v1/models', {signal}), app.json('/info', {signal})]);
    if (signal.aborted) return;
    if (models.status === 'fulfilled') {
      if (waiting) wrong.textContent = '';
      waiting = false;
      server.models = (models.value?.data ?? []).filter((m) => m.settings?.embedding !== 'true');
    } else {
      wrong.textContent = models.reason.message;
      waiting = [0, 503].includes(models.reason.status); // it is loading its model, or starts again
      if (waiting) setTimeout(() => signal.aborted || look(), 2000);
    }
    if (info.status === 'fulfilled') server.plugins = info.value?.plugins ?? [];
    draw();
  }

  addEventListener('pagehide', keep); // what waits for its turn to be kept

  return (root) => {
    shown = new AbortController();
    const {signal} = shown;
    root.append(chat, panel);
    showPanel(wanted());
    wide.addEventListener('change', () => showPanel(wanted()), {signal});
    draw();
    form.grow();
    for (const t of threads) t.scroll();
    look();
    addEventListener('tgi-key', look, {signal});
    document.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !threads.some((t) => t.busy) || document.querySelector('dialog[open]')) return;
      event.preventDefault();
      stopAll();
    }, {signal});
    if (matchMedia('(hover: hover)').matches) form.input.focus();

    return () => {
      shown.abort();
      keep();
    };
  };
}
