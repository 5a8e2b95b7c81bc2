// The page of the models: what there is, loading and unloading, fetching from the hub, deleting.
import {adaptersDialog} from '../admin/adapters.js';
import {ask, button, notices, set, table, tag} from '../admin/parts.js';
import {poll} from '../admin/poll.js';
import {bytes, count} from '../admin/format.js';

export const title = 'Models';

// states are the server's, as a person reads them, with a colour.
const states = {
  not_downloaded: ['not fetched', ''], downloading: ['downloading', 'accent'], downloaded: ['on disk', ''],
  starting: ['loading', 'accent'], running: ['loaded', 'good'], stopping: ['unloading', 'warn'],
  stopped: ['on disk', ''], error: ['failed', 'bad'],
};

// show fills root with the list of models.
export function show(root, app) {
  const {element} = app;
  const note = notices();
  let live = new Map(), readOnly = false; // whether the server lets this page only look
  let adapting = null; // {id, update}: the model whose adapters a dialog shows

  const list = table('Models', [{name: 'Model'}, {name: 'State'}, {name: 'Weights'},
    {name: 'Size', className: 'number'}, {name: 'Context', className: 'number'},
    {name: 'Actions', className: 'actions-cell'}], row,
  'This server knows no model yet. Pull one below.');
  const pull = pullForm();
  root.append(element('div', {class: 'sheet'},
    element('h1', {}, 'Models'), note.root, list.root, pull.form));
  const asking = poll(load, 1500, note.state);

  async function load(signal) {
    const [models, now] = await Promise.all([app.json('/v1/models', {signal}),
      app.json('/admin/live', {signal, silent: true}).catch((err) => {
        if (err.name === 'AbortError') throw err;
        if ([403, 404].includes(err.status)) return {refused: err}; // another key, or another address, may do it
        return null;
      })]);
    if (now?.refused) note.state(now.refused);
    else if (readOnly) note.state(null);
    readOnly = Boolean(now?.refused);
    pull.send.disabled = readOnly || pull.busy;
    live = new Map((now?.models ?? []).map((m) => [m.id, m]));
    const adapters = new Map();
    for (const m of models.data) {
      if (m.parent) adapters.set(m.parent, [...adapters.get(m.parent) ?? [], m.id]);
    }
    list.update(models.data.filter((m) => !m.parent).map((m) => ({...m, adapters: adapters.get(m.id) ?? []})));
    adapting?.update(adapters.get(adapting.id) ?? []);
  }

  function showAdapters(id, names) {
    adapting = {id, update: adaptersDialog(id, async (path, json) => {
      await app.request(path, {json});
      await asking.now();
    }, () => { adapting = null; })};
    adapting.update(names);
  }

  // act does something to a model and tells what came of it in the server's words.
  async function act(path, options, what) {
    note.clear();
    try {
      const done = await app.json(path, options);
      if (done?.message) note.good(done.warning ? `${done.message}. ${done.warning}` : `${done.message}.`);
      return true;
    } catch (err) {
      note.bad(err, what);
      return false;
    } finally {
      await asking.now();
    }
  }

  function row(first) {
    const id = first.id;
    const state = tag();
    const busy = element('span', {class: 'muted small'});
    const bar = element('progress', {'aria-label': `Download of ${id}`, hidden: true});
    const told = element('p', {class: 'hint'}), why = element('p', {class: 'reason', hidden: true});
    const about = element('p', {class: 'hint'});
    const weights = element('span'), size = element('span'), context = element('span');
    const start = button('Load', () => act('/v1/models/start', {json: {model: id}}, `${id} could not be loaded`),
      {'aria-label': `Load ${id}`});
    const stop = button('Unload', () => act('/v1/models/stop', {json: {model: id}}, `${id} could not be unloaded`),
      {'aria-label': `Unload ${id}`});
    const pull = button('Pull', () => act('/v1/models/pull', {json: {model: id, id}}, `${id} could not be pulled`),
      {'aria-label': `Pull ${id}`});
    const cancel = button('Cancel', () => act('/v1/models/pull', {method: 'DELETE', json: {model: id}},
      `The download of ${id} could not be cancelled`), {'aria-label': `Cancel the download of ${id}`});
    const remove = button('Delete', async () => {
      if (await ask(`Delete ${id}?`, 'Its files are removed from the disk of the server.', 'Delete')) {
        await act(`/v1/models/${encodeURIComponent(id)}`, {method: 'DELETE'}, `${id} could not be deleted`);
      }
    }, {'aria-label': `Delete ${id}`, class: 'quiet danger'});

    let names = [];
    const adapters = element('button', {type: 'button', class: 'quiet', 'aria-label': `Adapters of ${id}`,
      onclick: () => showAdapters(id, names)}, 'Adapters');

    const place = element('div', {'aria-live': 'polite', tabindex: '-1'}, state.node, ' ', busy, bar, told, why);
    let waits = false; // for a button to have the focus

    function update(m) {
      const [word, colour] = states[m.status] ?? [m.status, ''];
      state.set(word, colour);
      const now = live.get(id);
      set(busy, now && m.status === 'running' ? (now.running + now.waiting ? `${now.running} running` +
        (now.waiting ? `, ${now.waiting} waiting` : '') : 'idle') : '');
      set(why, m.failure ?? '');
      why.hidden = !m.failure;
      const p = m.progress, pulling = m.status === 'downloading';
      bar.hidden = !pulling;
      if (pulling && p?.bytes_total) {
        bar.max = p.bytes_total;
        bar.value = p.bytes_done;
      } else bar.removeAttribute('value');
      set(told, p && (pulling || m.status === 'not_downloaded' || m.status === 'error')
        ? `${bytes(p.bytes_done)}${p.bytes_total ? ` of ${bytes(p.bytes_total)}` : ''}` : '');
      const source = m.source_url?.startsWith('urn:') ? '' : m.source_url ?? '';
      names = m.adapters;
      set(about, [m.name !== id && m.name, m.description, source, m.adapters.length &&
        `adapters: ${m.adapters.join(', ')}`].filter(Boolean).join(' · '));
      set(weights, [m.metadata?.quantization ?? now?.dtype, now?.device && `on ${now.device}`, !now && m.format]
        .filter(Boolean).join(' ') || '–');
      const {size: params, memory_bytes: memory, disk_bytes: disk} = m.metadata ?? {};
      set(size, [params && `${params} parameters`, memory && `${bytes(memory)} memory`, disk && `${bytes(disk)} disk`]
        .filter(Boolean).join('\n') || '–');
      set(context, m.context_length ? count(m.context_length) : '–');
      const on = {start: ['downloaded', 'stopped'].includes(m.status) || m.status === 'error' && m.metadata?.disk_bytes,
        stop: m.status === 'running' || m.status === 'starting', cancel: pulling,
        pull: m.status === 'not_downloaded' || m.status === 'error' && !m.metadata?.disk_bytes,
        adapters: m.status === 'running' && m.settings?.embedding !== 'true',
        remove: ['downloaded', 'stopped', 'error'].includes(m.status) && m.format !== 'embedded'};
      const buttons = {start, stop, cancel, pull, adapters, remove}, focused = document.activeElement;
      for (const [name, node] of Object.entries(buttons)) {
        node.hidden = !on[name];
        node.disabled = readOnly;
      }
      // Where the button that was pressed goes away, keys go on in this row, and not at the top of the page.
      waits = Object.values(buttons).includes(focused) && focused.hidden || waits && focused === place;
      if (!waits) return;
      const next = Object.values(buttons).find((node) => !node.hidden);
      waits = !next;
      (next ?? place).focus();
    }

    return {update, cells: [
      element('span', {}, element('span', {class: 'strong break'}, id), about),
      place, weights,
      element('span', {class: 'lines'}, size), context,
      element('div', {class: 'row end'}, start, stop, cancel, pull, adapters, remove)]};
  }

  function pullForm() {
    const name = element('input', {type: 'text', required: true, autocomplete: 'off', spellcheck: 'false',
      autocapitalize: 'off', placeholder: 'Qwen/Qwen2.5-0.5B-Instruct'});
    const as = element('input', {type: 'text', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off'});
    const send = element('button', {type: 'submit', class: 'primary'}, 'Pull');
    const form = element('form', {class: 'card pull', 'aria-labelledby': 'pull-title', onsubmit: async (event) => {
      event.preventDefault();
      made.busy = send.disabled = true;
      const json = {model: name.value.trim()};
      if (as.value.trim()) json.id = as.value.trim();
      if (await act('/v1/models/pull', {json}, `${json.model} could not be pulled`)) {
        name.value = as.value = '';
      }
      made.busy = false;
      send.disabled = readOnly;
      name.focus();
    }},
    element('h2', {id: 'pull-title'}, 'Pull a model'),
    element('div', {class: 'grid'},
      app.field('Model', name,
        'A repository of the hub, one of its GGUF files (org/name:Q4_K_M), or the URL of a file.'),
      app.field('Name on this server', as, 'What requests call it; the repository’s name if you leave it empty.')),
    element('div', {class: 'actions'}, send));
    const made = {form, send, busy: false};
    return made;
  }

  return () => asking.stop();
}
