// What happened at each token: a text whose tokens can be pointed at, walked by the arrow keys, and opened.
import {element, replace} from '../dom.js';

// maxAlternatives is how many of the likeliest tokens are shown; the server sends those of two distributions.
const maxAlternatives = 10;

const share = (logprob) => (logprob === null || logprob === undefined ? 0 : Math.exp(logprob));

// percent writes a probability so that a small one is not 0 and a large one not 100.
export function percent(p) {
  if (p === 0) return '0%';
  if (p < 0.0001) return '<0.01%';
  if (p > 0.9999 && p < 1) return '>99.99%';
  return `${(100 * p).toFixed(p < 0.1 || p > 0.99 ? 2 : 1)}%`;
}

// visible shows white space that would not be seen.
function visible(text) {
  if (text === '') return '∅';
  return text.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replace(/^ +| +$/g, (s) => '·'.repeat(s.length));
}

// masked is the share of the model's probability that masks and plugins ruled out before a token was chosen.
function masked(token) {
  let left = 1;
  for (const change of token.changes) if (change.kind !== 'sampling') left *= 1 - Math.min(1, change.forbidden);
  return 1 - left;
}

// level is how likely a token was, in five steps: colours show it.
function level(token) {
  const p = share(token.raw_logprob);
  return p >= 0.9 ? 0 : p >= 0.5 ? 1 : p >= 0.2 ? 2 : p >= 0.05 ? 3 : 4;
}

// who says in words what chose a token.
export function who(token) {
  switch (token.picked) {
    case 'best': return 'the likeliest token';
    case 'draw': return 'drawn';
    case 'sampler': return `chosen by the sampler ${token.by ?? ''}`;
    case 'forced': return `forced by ${token.by ?? 'a plugin'}`;
    case 'program': return `written by the program ${token.by ?? ''}`;
    case 'guard': return `given by the guard ${token.by ?? ''} instead of what the model wrote`;
    case 'stop': return `the text was ended by ${token.by ?? 'a plugin'}`;
    default: return token.picked;
  }
}

const ofType = (value, ...types) => types.includes(value === null ? 'null' : typeof value);
const some = (value, ...types) => value === undefined || ofType(value, ...types);
const all = (list, good) => Array.isArray(list) && list.every((one) => ofType(one, 'object') && good(one));

// wellFormed says whether a token has what is shown of it: what the tab kept may be of another version of the server.
export function wellFormed(token) {
  const named = (c) => ofType(c.text, 'string');
  return all([token], (t) => named(t) && ofType(t.picked, 'string') && ofType(t.rank, 'number') &&
    some(t.by, 'string') && some(t.raw_logprob, 'number', 'null') && some(t.logprob, 'number', 'null') &&
    all(t.candidates, (c) => named(c) && some(c.raw_logprob, 'number', 'null') && some(c.logprob, 'number', 'null')) &&
    all(t.changes, (c) => ofType(c.kind, 'string') && some(c.name, 'string') && ofType(c.forbidden, 'number') &&
      ofType(c.allowed, 'number') && some(c.before, 'number', 'null') && some(c.after, 'number', 'null') &&
      some(c.temperature, 'number', 'null') && (c.overtook === undefined || all([c.overtook], named)) &&
      all(c.moved, (m) => named(m) && ofType(m.by, 'number', 'null'))) &&
    (t.draft === undefined || all([t.draft], (d) => named(d) && ofType(d.source, 'string'))) &&
    [t.rewound, t.replaced].every((list) => list === undefined || all(list, (r) => ofType(r.tokens, 'number'))));
}

// tokenView returns an element for the tokens of a reply; lacks says what is not among them, '' for nothing.
export function tokenView(tokens, lacks = '') {
  const detail = element('div', {class: 'token-detail', role: 'region', 'aria-label': 'The token'});
  let current = 0, pinned = false;
  const buttons = tokens.map((token, i) => {
    const changed = token.changes.some((c) => c.kind !== 'sampling' && c.kind !== 'setting');
    return element('button', {type: 'button', tabindex: i === 0 ? 0 : -1,
      class: `token p${level(token)}${changed ? ' changed' : ''}${token.rewound ? ' rewound' : ''}`,
      'aria-label': `${visible(token.text)}, ${percent(share(token.raw_logprob))}`,
      onmouseenter: () => { if (!pinned) show(i); },
      onfocus: () => show(i),
      onclick: () => { pinned = !(pinned && current === i); show(i); },
    }, token.rewound ? element('span', {class: 'mark', 'aria-hidden': 'true'}, '↶') : null, token.text || '∅');
  });
  const line = element('div', {class: 'tokens', role: 'group',
    'aria-label': 'Tokens. Arrow keys go from one to the next', onkeydown: (event) => {
      const to = {ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: buttons.length - 1}[event.key];
      if (to === undefined || !buttons[to]) return;
      event.preventDefault();
      buttons[to].focus();
    }}, buttons);

  function show(i) {
    buttons[current]?.setAttribute('tabindex', -1);
    buttons[current]?.classList.remove('current');
    current = i;
    buttons[i].setAttribute('tabindex', 0);
    buttons[i].classList.add('current');
    replace(detail, describe(tokens[i], i));
  }

  if (tokens.length) show(0);
  return element('div', {class: 'token-view'}, legend(), line, lacks && element('p', {class: 'hint'}, lacks), detail);
}

function legend() {
  const steps = ['90%', '50%', '20%', '5%', 'less'];
  return element('p', {class: 'legend'}, 'Probability in the model: ', steps.map((text, i) =>
    [element('span', {class: `swatch p${i}`, 'aria-hidden': 'true'}), `${text} `]),
  element('span', {class: 'swatch changed', 'aria-hidden': 'true'}), 'changed by a grammar or a plugin ',
  element('span', {class: 'mark', 'aria-hidden': 'true'}, '↶'), ' something was taken back');
}

// describe tells of one token.
function describe(token, i) {
  const ruledOut = masked(token);
  const facts = [
    ['In the model', `${percent(share(token.raw_logprob))}, place ${token.rank + 1}`],
    ['When chosen', percent(share(token.logprob))],
    ['Chosen', who(token)],
  ];
  if (ruledOut > 0) facts.push(['Masked', `${percent(ruledOut)} of the probability`]);
  if (token.draft) {
    facts.push(['Guessed', `“${visible(token.draft.text)}” by ${token.draft.source}, ` +
      (token.draft.accepted ? 'accepted' : 'refused')]);
  }
  for (const r of token.rewound ?? []) facts.push(['Taken back', `${r.tokens} tokens in front of it, by ${r.by}`]);
  for (const r of token.replaced ?? []) facts.push(['Replaced', `${r.tokens} tokens of the model, by ${r.by}`]);
  return [
    element('div', {class: 'token-head'}, element('code', {class: 'token-name'}, visible(token.text)),
      element('span', {class: 'muted'}, `token ${i + 1}, id ${token.id}`)),
    element('dl', {class: 'facts'}, facts.map(([name, value]) =>
      element('div', {}, element('dt', {}, name), element('dd', {}, value)))),
    element('div', {class: 'token-columns'}, alternatives(token), changes(token)),
  ];
}

function alternatives(token) {
  if (!token.candidates.length) return null;
  const most = (c) => (c.id === token.id ? 2 : Math.max(share(c.raw_logprob), share(c.logprob)));
  const shown = token.candidates.toSorted((a, b) => most(b) - most(a)).slice(0, maxAlternatives);
  const rows = shown.map((c) => {
    const raw = share(c.raw_logprob), final = share(c.logprob);
    return element('tr', {class: c.id === token.id && 'picked'},
      element('th', {scope: 'row'}, element('code', {}, visible(c.text)), c.id === token.id && ' ✓'),
      element('td', {}, bar(raw), percent(raw)),
      element('td', {class: final === 0 && 'ruled-out'}, bar(final), final === 0 ? 'ruled out' : percent(final)));
  });
  return element('table', {class: 'alternatives'}, element('caption', {}, 'Likeliest tokens'),
    element('thead', {}, element('tr', {}, ['Token', 'Model', 'When chosen'].map((t) =>
      element('th', {scope: 'col'}, t)))),
    element('tbody', {}, rows));
}

function bar(p) {
  const inner = element('span');
  inner.style.width = `${Math.max(p * 100, p > 0 ? 1 : 0)}%`;
  return element('span', {class: 'share', 'aria-hidden': 'true'}, inner);
}

function changes(token) {
  if (!token.changes.length) return element('p', {class: 'muted'}, 'Nothing changed the model’s distribution here.');
  return element('div', {}, element('h4', {}, 'What changed it'), element('ol', {class: 'changes'},
    token.changes.map((c) => element('li', {},
      element('span', {class: `tag ${{mask: 'accent', plugin: 'accent', guard: 'warn'}[c.kind] ?? ''}`}, c.kind), ' ',
      element('strong', {}, c.name), element('div', {class: 'muted'}, changeText(c))))));
}

function changeText(c) {
  const parts = [];
  if (c.forbidden > 0) {
    parts.push(`rules out ${percent(c.forbidden)}, ${c.allowed.toLocaleString('en')} tokens are left`);
  }
  if (c.before !== c.after) parts.push(`${percent(share(c.before))} → ${percent(share(c.after))}`);
  if (typeof c.temperature === 'number') parts.push(`temperature ${+c.temperature.toFixed(3)}`);
  if (c.overtook) parts.push(`“${visible(c.overtook.text)}” comes first now`);
  if (c.forced !== undefined) parts.push(`forces token ${c.forced}`);
  if (c.stop) parts.push('ends the text');
  const moved = c.moved.filter((m) => m.by !== null); // what is ruled out stands in the table
  if (moved.length) {
    const steps = moved.slice(0, 4).map((m) => `“${visible(m.text)}” ${m.by > 0 ? '+' : ''}${m.by.toFixed(2)}`);
    parts.push(steps.join(', ') + (c.count > moved.length ? ` and others, ${c.count} in all` : ''));
  }
  return parts.join('; ');
}
