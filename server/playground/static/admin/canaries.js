// The new versions of plugins that are tried beside those that serve: what came of each, and how it ends.
import {facts, openDialog} from '../dialog.js';
import {element, replace} from '../dom.js';
import {count, seconds} from './format.js';
import {ask, button, set, table, tag} from './parts.js';

const states = {running: ['running', 'accent'], aborted: ['aborted', 'bad'], promoted: ['promoted', 'good']};
const time = (text) => (text ? new Date(text).toLocaleString() : '');
const faultsOf = (use) => Object.values(use.faults ?? {}).reduce((a, b) => a + b, 0);

// canaryList returns {root, update}. act(name, how, what) does something with the canary of a plugin: how is 'promote'
// or 'end', what says what could not be done.
export function canaryList(act) {
  const list = table('New versions on trial', [{name: 'Plugin'}, {name: 'State'},
    ...['Requests', 'Faulty', 'Different', 'Dropped'].map((name) => ({name, className: 'number'})),
    {name: 'Actions', className: 'actions-cell'}], row, '');
  const root = element('section', {hidden: true, 'aria-labelledby': 'canaries-title'},
    element('h2', {id: 'canaries-title'}, 'New versions on trial'), list.root);

  function row(first) {
    const {name} = first;
    let now = first;
    const state = tag(), why = element('p', {class: 'reason'}), mode = element('p', {class: 'hint'});
    const [requests, faulty, different, dropped] = Array.from({length: 4}, () => element('span'));
    const promote = button('Promote', async () => {
      if (await ask(`Promote the new version of ${name}?`,
        'It takes the place of the version that serves, which is kept for a rollback.', 'Promote')) {
        await act(name, 'promote', `The new version of ${name} could not be promoted`);
      }
    }, {'aria-label': `Promote the new version of ${name}`});
    const end = button('End', () => act(name, 'end', `The trial of ${name} could not be ended`),
      {'aria-label': `End the trial of ${name}`, class: 'quiet danger'});
    const info = element('button', {type: 'button', class: 'quiet', 'aria-label': `What the trial of ${name} found`,
      onclick: () => details(now)}, 'Details');

    function update(c) {
      now = c;
      state.set(...states[c.state] ?? [c.state, '']);
      set(why, c.why ?? '');
      const whom = c.shadow ? `shadow of ${c.percent} % of the requests` : `serves ${c.percent} % of the requests`;
      set(mode, [c.canary.version, c.canary.sha256.slice(0, 12), whom, c.promote_after && c.state === 'running' &&
        `takes over after ${count(c.promote_after)} requests`].filter(Boolean).join(' · '));
      set(requests, `${count(c.finished)} of ${count(c.bound)}`);
      set(faulty, count(c.faulty));
      faulty.className = c.faulty ? 'tag bad' : '';
      set(different, c.compared ? count(c.compared.different) : '–');
      different.className = c.compared?.different ? 'tag warn' : '';
      set(dropped, c.compared ? count(c.compared.dropped) : '–');
      promote.hidden = c.state !== 'running';
      set(end, c.state === 'running' ? 'End' : 'Dismiss');
    }
    return {update, cells: [element('span', {}, element('span', {class: 'strong break'}, name), mode),
      element('div', {}, state.node, why), requests, faulty, different, dropped,
      element('div', {class: 'row end'}, info, promote, end)]};
  }

  return {root, update(canaries) {
    root.hidden = canaries.length === 0;
    list.update(canaries.map((c) => ({...c, id: c.name})));
  }};
}

// details shows all of a canary, and what a shadow answered differently.
function details(c) {
  const use = (u) => `${count(u.calls)} calls in ${seconds(u.seconds)}, ${count(u.fuel)} fuel, ` +
    `${count(faultsOf(u))} faults, ${count(u.refusals)} refusals`;
  const x = c.compared;
  const samples = element('section', {});
  if (x) {
    replace(samples, element('h3', {}, 'Differences'), x.samples.length
      ? element('div', {class: 'scroll'}, element('table', {},
        element('caption', {class: 'hidden-text'}, `Differences of ${c.name}`),
        element('thead', {}, element('tr', {}, ['Time', 'Request', 'Kind', 'Step', 'What'].map((h) => element('th',
          {scope: 'col'}, h)))),
        element('tbody', {}, x.samples.map((d) => element('tr', {}, [new Date(d.time).toLocaleTimeString(), d.request,
          d.kind, d.step < 0 ? '–' : count(d.step), [d.what, d.texts].filter(Boolean).join(': ')].map((text) =>
          element('td', {class: 'break'}, text)))))))
      : element('p', {class: 'muted'}, 'None so far.'));
  }
  openDialog(`Trial of ${c.name}`, [c.why && element('p', {class: 'reason'}, c.why),
    facts([['Version', c.canary.version], ['SHA-256', element('code', {}, c.canary.sha256)],
      ['Serving', `${c.serving.version} ${c.serving.sha256.slice(0, 12)}`], ['Began', time(c.began)],
      ['Requests', `${count(c.bound)} begun, ${count(c.finished)} ended well, ${count(c.faulty)} faulty`],
      ['Aborted after', `${count(c.abort_after)} faulty requests`],
      ['Went on with the old version', c.shadow ? '' : count(c.fallbacks)],
      ['Takes over', c.promote_after ? `after ${count(c.promote_after)} requests, not before ` +
        time(c.promote_not_before) : 'when promoted'],
      x && ['Answers', `${count(x.answers)} compared, ${count(x.different_answers)} different`],
      ['Serving version used', use(c.serving)], ['New version used', use(c.canary)]].filter(Boolean)),
  samples], {wide: true});
}
