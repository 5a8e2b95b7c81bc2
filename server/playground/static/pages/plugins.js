// The page of the plugins: what each is and did, uploading and replacing, versions, what they print.
import {canaryList} from '../admin/canaries.js';
import {bytes, count, seconds} from '../admin/format.js';
import {ask, button, notices, set, table, tag} from '../admin/parts.js';
import {poll} from '../admin/poll.js';
import {uploadForm} from '../admin/upload.js';
import {facts, openDialog} from '../dialog.js';

export const title = 'Plugins';

const states = {ready: ['ready', 'good'], failed: ['failed', 'bad'], loading: ['loading', 'accent']};
const base = '/admin/plugins';
const faultsOf = (p) => Object.values(p.faults).reduce((a, b) => a + b, 0);
const pathOf = (name) => `${base}/${encodeURIComponent(name)}`;
const always = (p) => (p.keys?.length ? `every request of ${p.keys.join(', ')}` : 'every request');
const time = (text) => (text ? new Date(text).toLocaleString() : '');

// show fills root with the list of plugins.
export function show(root, app) {
  const {element, replace} = app;
  const note = notices();
  let all = [];

  const filter = element('input', {type: 'search', placeholder: 'Name or kind', 'aria-label': 'Find a plugin',
    oninput: draw});
  const number = element('span', {class: 'muted', 'aria-live': 'polite'});
  const reload = button('Reload the settings', async () => {
    const done = await act('/admin/reload', {method: 'POST'}, 'The settings could not be reloaded');
    if (!done) return;
    const changed = [...done.loaded.map((n) => `${n} loaded`), ...done.removed.map((n) => `${n} removed`)];
    const wait = done.restart.length ? ` These wait for a restart: ${done.restart.join(', ')}.` : '';
    note.good(`${changed.length ? `Reloaded: ${changed.join(', ')}.` : 'Reloaded: no plugin changed.'}${wait}`);
  });
  const list = table('Plugins', [{name: 'Plugin'}, {name: 'State'}, {name: 'Kind'},
    ...['Calls', 'Time of one', 'Fuel', 'Faults'].map((name) => ({name, className: 'number'})),
    {name: 'Actions', className: 'actions-cell'}], row, 'No plugin matches.');
  const form = uploadForm(async (name, query, body, headers) => {
    const dry = query.has('dry_run');
    let refused = null;
    const done = await act(`${pathOf(name)}?${query}`, {method: 'PUT', body, headers}, `${name} was refused`,
      (err) => { refused = err; });
    if (done && !dry) {
      note.good(done.canary ? `${name} version ${done.canary.version} is on trial.`
        : `${name} ${done.version ? `version ${done.version} ` : ''}is ready for ${done.apply === 'always'
          ? 'every request' : 'requests that name it'}.`);
    }
    return done ?? refused;
  });
  const trials = canaryList(async (name, how, what) => {
    const done = await act(`${pathOf(name)}/canary${how === 'end' ? '' : '/promote'}`,
      {method: how === 'end' ? 'DELETE' : 'POST'}, what);
    if (done) note.good(how === 'end' ? `The trial of ${name} is over.` : `${name} serves version ${done.version}.`);
  });
  root.append(element('div', {class: 'sheet'},
    element('div', {class: 'row head'}, element('h1', {}, 'Plugins'), element('div', {class: 'row'}, reload)),
    note.root, element('div', {class: 'row filter'}, filter, number), list.root, trials.root,
    form.root));
  const asking = poll(load, 3000, note.state);

  async function load(signal) {
    const [listed, tried] = await Promise.all([app.json(base, {signal}), app.json('/admin/canaries', {signal})]);
    all = listed.plugins.map((p) => ({...p, id: p.name}));
    trials.update(tried.canaries);
    draw();
  }

  function draw() {
    const want = filter.value.trim().toLowerCase();
    const shown = all.filter((p) => !want || [p.name, ...p.kinds].some((text) => text.toLowerCase().includes(want)));
    // What needs somebody is first: what does not serve, then what failed.
    const rank = (p) => (p.state !== 'ready' || p.error ? 0 : faultsOf(p) ? 1 : 2);
    shown.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
    list.update(shown);
    set(number, want ? `${count(shown.length)} of ${count(all.length)}` : `${count(all.length)} plugins`);
  }

  // act asks for a change, and returns the answer; null where it is refused, of which refused is told.
  async function act(path, options, what, refused = () => {}) {
    note.clear();
    try {
      return await app.json(path, options) ?? {};
    } catch (err) {
      note.bad(err, what);
      refused(err);
      return null;
    } finally {
      await asking.now();
    }
  }

  function row(first) {
    const {name} = first;
    let now = first;
    const state = tag(), why = element('p', {class: 'reason'}), kind = element('span');
    const version = element('p', {class: 'hint'}), doc = element('p', {class: 'hint clamp'});
    const [calls, took, fuel, faults] = Array.from({length: 4}, () => element('span'));
    const replacing = element('button', {type: 'button', 'aria-label': `Replace ${name}`, onclick: () =>
      form.choose(now)}, 'Replace');
    const remove = button('Remove', async () => {
      if (await ask(`Remove ${name}?`, 'Requests that run with it finish; new ones cannot name it.', 'Remove') &&
        await act(pathOf(name), {method: 'DELETE'}, `${name} could not be removed`)) note.good(`${name} is removed.`);
    }, {'aria-label': `Remove ${name}`, class: 'quiet danger'});
    const info = element('button', {type: 'button', class: 'quiet', 'aria-label': `Details of ${name}`,
      onclick: () => details(now)}, 'Details');

    function update(p) {
      now = p;
      state.set(...states[p.state] ?? [p.state, '']);
      set(why, p.error ?? '');
      set(version, [p.version, p.sha256.slice(0, 12), p.apply === 'always' && always(p)].filter(Boolean)
        .join(' · '));
      set(doc, p.doc);
      set(kind, p.kinds.join(', ') || '–');
      set(calls, count(p.calls));
      set(took, p.calls ? seconds(p.seconds / p.calls) : '–');
      set(fuel, count(p.fuel));
      set(faults, count(faultsOf(p)));
      faults.className = faultsOf(p) ? 'tag bad' : '';
      replacing.hidden = remove.hidden = p.source !== 'upload';
    }
    return {update, cells: [element('span', {}, element('span', {class: 'strong break'}, name), version, doc),
      element('div', {}, state.node, why), kind, calls, took, fuel, faults,
      element('div', {class: 'row end'}, info, replacing, remove)]};
  }

  // details shows all of a plugin: what it says of itself, what it did, its versions and what it printed.
  function details(p) {
    const stop = new AbortController();
    const versions = element('section', {}), log = element('section', {});
    const counts = (map) => Object.entries(map).filter(([, n]) => n > 0).map(([kind, n]) => `${count(n)} ${kind}`)
      .join(', ');
    openDialog(p.name, [p.doc && element('p', {}, p.doc), p.error && element('p', {class: 'reason'}, p.error),
      facts([['Version', p.version], ['Kinds', p.kinds.join(', ')], ['Languages', (p.languages ?? []).join(', ')],
        ['Source', p.source], ['SHA-256', element('code', {}, p.sha256)], ['Loaded', time(p.loaded)],
        ['Runs for', p.apply === 'always' ? always(p) : 'requests that name it'], ['When it fails', p.on_error],
        ['Calls', `${count(p.calls)} in ${seconds(p.seconds)}`], ['Held up', seconds(p.paused)],
        ['Fuel', count(p.fuel)], ['Faults', counts(p.faults) || 'none'], ['Skipped for', `${count(p.skips)} sequences`],
        ['Instances', `${count(p.instances_out)} in use, ${count(p.instances_waiting)} ready, ` +
          bytes(p.instance_bytes)],
        ['Loads and resets', `${count(p.loads)} and ${count(p.resets)}`], p.guard && ['Guard',
          `${counts(p.guard.verdicts) || 'no verdict'}; ` +
          `${count(p.guard.held)} tokens held, ${count(p.guard.rewound)} taken back`]].filter(Boolean)),
      p.params && element('section', {}, element('h3', {}, 'Parameters'),
        element('pre', {tabindex: '0', 'aria-label': 'Schema of the parameters'}, JSON.stringify(p.params, null, 2))),
      versions, log], {wide: true, closed: () => stop.abort()});
    more(versions, log, p, stop.signal);
  }

  // more adds what has a route of its own: versions of what was uploaded, and the lines that the plugin printed.
  async function more(versions, log, p, signal) {
    const quiet = {signal, silent: true};
    const [kept, printed] = await Promise.all([app.json(`${pathOf(p.name)}/versions`, quiet).catch(() => null),
      app.json(`${pathOf(p.name)}/log`, quiet).catch(() => null)]);
    if (signal.aborted) return;
    if (kept?.versions?.length) showVersions(versions, p, kept.versions);
    if (printed) {
      replace(log, element('h3', {}, 'Log'), printed.lines.length
        ? element('pre', {tabindex: '0', class: 'log-lines', 'aria-label': `Log of ${p.name}`}, printed.lines
          .map((l) => [new Date(l.time).toLocaleTimeString(), l.level, l.trial && `(${l.trial})`,
            l.of === 'host' && '(server)', l.text]
            .filter(Boolean).join(' ')).join('\n'))
        : element('p', {class: 'muted'}, 'It printed nothing yet.'));
    }
  }

  function showVersions(where, p, list) {
    const rows = list.map((v) => element('tr', {}, element('th', {scope: 'row'}, v.version || '–'),
      element('td', {}, element('code', {}, v.sha256.slice(0, 12))), element('td', {}, time(v.uploaded)),
      element('td', {}, v.serving ? element('span', {class: 'tag good'}, 'serves')
        : v.error ? element('span', {class: 'tag bad'}, v.error) : element('button', {type: 'button',
        'aria-label': `Roll back to ${v.version || v.sha256.slice(0, 12)}`, onclick: async (event) => {
          event.target.closest('dialog').close();
          const done = await act(`${pathOf(p.name)}/rollback?to=${encodeURIComponent(v.sha256)}`, {method: 'POST'},
            `${p.name} could not be rolled back`);
          if (done) note.good(`${p.name} serves ${done.version || v.sha256.slice(0, 12)} again.`);
        }}, 'Roll back'))));
    replace(where, element('h3', {}, 'Versions'), element('div', {class: 'scroll'}, element('table', {},
      element('caption', {class: 'hidden-text'}, `Versions of ${p.name}`),
      element('thead', {}, element('tr', {}, ['Version', 'SHA-256', 'Uploaded', ''].map((h, i) => (i < 3
        ? element('th', {scope: 'col'}, h) : element('td', {}))))), element('tbody', {}, rows))));
  }

  return () => asking.stop();
}
