// The plugins of a request: chosen among those that the server has, each with its parameters.
import {element, replace} from '../dom.js';
import {fits, jsonBox, mark, schemaForm, showWrong} from './schemaform.js';

// ofRequests are the kinds that a request may name.
const ofRequests = new Set(['logits', 'sampler', 'guard', 'program', 'draft']);

// pluginChooser returns an element that edits chosen, a list of {name, params, wrong}. offered is null where the server
// has not said yet.
export function pluginChooser(offered, chosen, changed) {
  const body = element('div', {class: 'plugins'});
  const known = (offered ?? []).filter((p) => p.kinds?.some((kind) => ofRequests.has(kind)));

  function draw() {
    const left = known.filter((p) => p.nameable !== false && !chosen.some((c) => c.name === p.name));
    const always = known.filter((p) => p.apply === 'always');
    const select = element('select', {'aria-label': 'Add a plugin', onchange: () => {
      if (!select.value) return;
      chosen.push({name: select.value, params: {}, wrong: {}});
      changed();
      draw();
      body.querySelector('.plugin:last-of-type summary')?.focus();
    }}, element('option', {value: ''}, left.length ? 'Add a plugin…' : 'No other plugin'),
    left.map((p) => element('option', {value: p.name, disabled: p.state !== 'ready'}, optionText(p))));
    replace(body,
      !offered && element('p', {class: 'hint'},
        'Not known yet: the server was not asked which plugins it offers. It may want a key first.'),
      offered && known.length === 0 && element('p', {class: 'hint'}, 'This server offers no plugins to requests. ',
        'A file *.wasm in its plugins folder is one, and [[plugin]] of tgi.toml names built-in ones.'),
      always.length > 0 && element('p', {class: 'hint'},
        `Applied to each of your requests: ${always.map((p) => p.name).join(', ')}.`,
        always.some((p) => p.nameable !== false) && ' Add one to set its parameters.'),
      chosen.map((c, i) => one(c, i)),
      known.length > 0 && select);
  }

  function one(choice, i) {
    const plugin = known.find((p) => p.name === choice.name);
    const remove = element('button', {type: 'button', class: 'quiet', 'aria-label': `Remove ${choice.name}`,
      onclick: () => {
        chosen.splice(i, 1);
        changed();
        draw();
        body.querySelector('select')?.focus();
      }}, '✕');
    const form = parametersForm(plugin, choice, changed);
    return element('details', {class: 'plugin', open: true, 'data-plugin': choice.name},
      element('summary', {}, element('strong', {}, choice.name), ' ',
        plugin ? element('span', {class: 'muted'}, `${plugin.kinds.join(', ')} ${plugin.version ?? ''}`) :
          offered && element('span', {class: 'tag bad'}, 'the server no longer offers it'), remove),
      form);
  }

  draw();
  return body;
}

// optionText names a plugin that may be added.
function optionText(plugin) {
  const notes = [];
  if (plugin.apply === 'always') notes.push('always applied');
  if (plugin.state !== 'ready') notes.push(plugin.state);
  return notes.length ? `${plugin.name} (${notes.join(', ')})` : plugin.name;
}

// parametersForm edits choice, {name, params, wrong}: as a form where the plugin, if there is one, declares a schema
// that a form can show, and else as JSON.
export function parametersForm(plugin, choice, changed) {
  const shown = fits(plugin?.params) ? Object.keys(plugin.params.properties) : [''];
  for (const name of Object.keys(choice.wrong)) {
    if (plugin && !shown.includes(name)) delete choice.wrong[name]; // of another version of it
  }
  return fits(plugin?.params) ? schemaForm(plugin.params, choice, changed) : wholeForm(choice, changed);
}

// wholeForm edits all parameters of a plugin, which has no schema that a form could show, as one object.
function wholeForm(choice, changed) {
  const given = Object.keys(choice.params).length ? choice.params : undefined;
  const box = jsonBox(given, (value, error = '', typed = '') => {
    const wrong = error || (value === undefined || isObject(value) ? '' : 'must be a JSON object');
    choice.params = wrong ? {} : value ?? {};
    choice.wrong = wrong ? {'': {text: typed || box.value, error: wrong}} : {};
    mark(box, wrong);
    changed();
  }, '{"name": value}');
  box.setAttribute('aria-label', `Parameters of ${choice.name} as JSON`);
  box.dataset.parameter = '';
  const root = element('div', {class: 'field'}, box, element('p', {class: 'hint bad', role: 'status'}));
  showWrong(box, choice.wrong['']);
  return root;
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
