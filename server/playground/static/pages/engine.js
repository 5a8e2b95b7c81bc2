// The page of the engine: what it does now, as numbers and as lines of the last minutes.
import {chart} from '../admin/chart.js';
import {bytes, count, rate, seconds, share} from '../admin/format.js';
import {history} from '../admin/history.js';
import {notices, set, table, tag} from '../admin/parts.js';
import {poll} from '../admin/poll.js';

export const title = 'Engine';

const points = 120, every = 1000, usageEvery = 5;

// panels are what is drawn. value is the number, note a line below it, limit the top of the scale.
const panels = [
  {name: 'Generated', unit: 'tokens/s', values: (h) => h.generated, number: rate},
  {name: 'Prefill', unit: 'tokens/s', values: (h) => h.prefill, number: rate,
    note: (h) => (last(h.hits) === null ? '' : `${share(last(h.hits))} of the prompts from the cache`)},
  {name: 'Running', unit: 'sequences', values: (h) => h.running, number: count},
  {name: 'Queue', unit: 'sequences', values: (h) => h.waiting, number: count},
  {name: 'Cache', unit: 'of the blocks', values: (h) => h.used.map((v, i) => (h.total[i] ? v / h.total[i] : null)),
    number: share, limit: 1, note: (h) => (last(h.total) ? `${count(last(h.used))} of ${count(last(h.total))} held, ` +
      `${count(last(h.cached))} more hold prefixes` : '')},
  {name: 'Step', unit: '', values: (h) => h.stepTime, number: seconds,
    note: (h) => (last(h.steps) ? `${rate(last(h.steps))} steps/s` : '')},
];

const last = (list) => list.at(-1) ?? null;

// show fills root with the state of the engine.
export function show(root, app) {
  const {element, replace} = app;
  const note = notices(), kept = history(points);
  let paused = false, turns = 0, names = '';

  const choice = element('select', {onchange: draw}, element('option', {value: ''}, 'All models'));
  choice.id = 'engine-model';
  const choosing = element('div', {class: 'row', hidden: true},
    element('label', {for: 'engine-model'}, 'Model'), choice);
  const pause = element('button', {type: 'button', 'aria-pressed': 'false', onclick: () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    asking.pause(paused);
  }}, 'Pause');
  const facts = element('p', {class: 'muted facts'}), draining = element('div', {role: 'status'});
  const cards = panels.map((p) => {
    const lines = chart(points), peak = element('span', {class: 'peak'});
    const number = element('span', {class: 'big'}, '–'), below = element('p', {class: 'hint'});
    return {...p, lines, peak, number, below, write: p.number,
      root: element('section', {class: 'card panel', 'aria-label': p.name},
        element('div', {class: 'row head'}, element('h2', {}, p.name), peak),
        element('p', {class: 'figure'}, number, ' ', element('span', {class: 'muted'}, p.unit)), lines.root, below)};
  });
  const memory = element('dl', {class: 'facts-list'});
  const models = modelTable(element), keys = keyTable(element);
  const keysNote = element('p', {class: 'muted', hidden: true});

  root.append(element('div', {class: 'sheet'},
    element('div', {class: 'row head'}, element('h1', {}, 'Engine'), element('div', {class: 'row'}, choosing, pause)),
    facts, note.root, draining, element('div', {class: 'panels'}, cards.map((c) => c.root)),
    element('section', {}, element('h2', {}, 'Models'), models.root),
    element('section', {}, element('h2', {}, 'Memory'), memory),
    element('section', {}, element('h2', {}, 'Keys since the start'), keysNote, keys.root)));
  const asking = poll(load, every, note.state);

  async function load(signal) {
    const live = await app.json('/admin/live', {signal});
    kept.add(live);
    draw();
    set(facts, `Version ${live.version} · up for ${seconds(live.uptime_seconds)} · ` +
      `${count(live.requests)} in flight`);
    replace(draining, live.draining && element('div', {class: 'notice warn'},
      element('p', {}, 'The server is shutting down: it finishes what runs and takes no new requests.')));
    showChoice(live.models);
    models.update(live.models);
    showMemory(live.memory);
    if (turns++ % usageEvery === 0) await loadUsage(signal);
  }

  function draw() {
    const h = kept.of(choice.value);
    for (const c of cards) {
      const values = c.values(h);
      set(c.number, c.write(last(values)));
      set(c.below, c.note?.(h) ?? '');
      const most = Math.max(...values.filter((v) => v !== null), 0);
      set(c.peak, most > 0 ? `most ${c.write(most)}` : '');
      c.lines.show(values, c.limit);
    }
  }

  // showChoice offers the models where there are several.
  function showChoice(list) {
    const now = JSON.stringify(list.map((m) => m.id));
    if (now === names) return;
    names = now;
    const chosen = choice.value;
    replace(choice, element('option', {value: ''}, 'All models'),
      list.map((m) => element('option', {value: m.id}, m.id)));
    choice.value = list.some((m) => m.id === chosen) ? chosen : '';
    choosing.hidden = list.length < 2;
    draw();
  }

  function showMemory(m) {
    const lines = [['Process', m.resident_bytes ? bytes(m.resident_bytes) : '–'], ['Free on the machine',
      bytes(m.free_bytes)], ['Models', `${bytes(m.models_bytes)} of ${bytes(m.models_limit_bytes)}, estimated`],
    ['Plugins', `${bytes(m.plugins_bytes)} of ${bytes(m.plugins_limit_bytes)}`]];
    if (m.device) lines.push([m.device, `${bytes(m.device_free_bytes)} of ${bytes(m.device_total_bytes)} free`]);
    replace(memory, lines.map(([name, text]) => element('div', {}, element('dt', {}, name), element('dd', {}, text))));
  }

  async function loadUsage(signal) {
    try {
      const usage = await app.json('/admin/usage', {signal, silent: true});
      keys.update(usage.keys.map((k) => ({...k, id: k.key ?? ''})));
      keysNote.hidden = true;
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      set(keysNote, err.message);
      keysNote.hidden = false;
    }
  }

  return () => asking.stop();
}

function modelTable(element) {
  return table('Engines of the models', [{name: 'Model'}, {name: 'State'}, {name: 'Running', className: 'number'},
    {name: 'Queue', className: 'number'}, {name: 'Steps', className: 'number'},
    {name: 'Prompt tokens', className: 'number'}, {name: 'Generated', className: 'number'},
    {name: 'Preempted', className: 'number'}], (first) => {
    const state = tag(), weights = element('p', {class: 'hint'});
    const cells = Array.from({length: 6}, () => element('span'));
    const name = element('span', {}, element('span', {class: 'strong break'}, first.id), weights);
    return {cells: [name, state.node, ...cells],
      update(m) {
        state.set(m.state, m.state === 'running' ? 'good' : 'warn');
        set(weights, `${m.dtype} on ${m.device}`);
        [m.parked ? `${count(m.running)} (${count(m.parked)} parked)` : count(m.running), count(m.waiting),
          count(m.steps), count(m.prefill_tokens + m.cached_tokens), count(m.generated_tokens), count(m.preempted)]
          .forEach((text, i) => set(cells[i], text));
      }};
  }, 'No model is loaded.');
}

function keyTable(element) {
  return table('What keys have used', [{name: 'Key'}, {name: 'Requests', className: 'number'},
    {name: 'Running', className: 'number'}, {name: 'Prompt tokens', className: 'number'},
    {name: 'Generated', className: 'number'}, {name: 'Refused', className: 'number'}, {name: 'Limits'}], (first) => {
    const cells = Array.from({length: 5}, () => element('span')), limits = element('span', {class: 'lines'});
    return {cells: [first.key === null ? element('span', {class: 'muted'}, 'without a key')
      : element('span', {class: 'strong break'}, first.key), ...cells, limits],
    update(k) {
      const refused = Object.values(k.refused ?? {}).reduce((a, b) => a + b, 0);
      [k.requests, k.running, k.prompt_tokens, k.generated_tokens, refused].forEach((n, i) => set(cells[i], count(n)));
      set(limits, Object.entries(k.limits ?? {}).map(([name, l]) => `${name.replaceAll('_', ' ')}: ` +
        (l.remaining === undefined ? count(l.limit) : `${count(l.remaining)} of ${count(l.limit)} left`)).join('\n') ||
        '–');
    }};
  }, 'Nobody has asked anything yet.');
}
