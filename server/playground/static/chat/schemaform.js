// A form for parameters that have a JSON Schema. What a form cannot show is edited as JSON, in the place where it is.
import {element} from '../dom.js';

// fits says whether a form can show an object of a schema.
export function fits(schema) {
  return schema?.type === 'object' && Object.keys(schema.properties ?? {}).length > 0;
}

// schemaForm returns an element that edits choice, which has params, an object, and in `wrong` what was typed and is no
// value: {text, error} by name. It calls changed. A field that is empty leaves its member out, so that the plugin's
// default counts.
export function schemaForm(schema, choice, changed) {
  const required = new Set(schema.required ?? []);
  return element('div', {class: 'schema-form'}, Object.entries(schema.properties).map(([name, part]) =>
    member(name, part ?? {}, required.has(name), choice, changed)));
}

let count = 0;

function member(name, schema, required, choice, changed) {
  const id = `parameter-${++count}`, error = element('p', {class: 'hint bad', id: `${id}-error`, role: 'status'});
  const set = setter(choice, name, (wrong) => {
    mark(control, wrong);
    changed();
  });
  const control = controlOf(schema, choice.params[name], set);
  control.id = id;
  control.setAttribute('aria-describedby', `${id}-hint ${id}-error`);
  control.dataset.parameter = name;
  if (required) control.setAttribute('aria-required', 'true');
  const root = element('div', {class: 'field'},
    element('label', {for: id}, name, required && element('span', {class: 'muted'}, ' (required)')), control,
    element('p', {class: 'hint', id: `${id}-hint`}, [schema.description, bounds(schema)].filter(Boolean).join(' ')),
    error);
  showWrong(control, choice.wrong[name]);
  return root;
}

// setter returns a function that gives a parameter a value, or notes what was typed in its place and why that is wrong:
// nothing is sent then.
function setter(choice, name, done) {
  return (value, error = '', typed = '') => {
    delete choice.params[name];
    delete choice.wrong[name];
    if (error) choice.wrong[name] = {text: typed, error};
    else if (value !== undefined) choice.params[name] = value;
    done(error);
  };
}

// showWrong puts what was typed before into a control.
export function showWrong(control, wrong) {
  if (!wrong) return;
  control.value = wrong.text;
  mark(control, wrong.error);
}

// mark says what is wrong with the value of a control.
export function mark(control, wrong) {
  control.setAttribute('aria-invalid', wrong !== '');
  control.closest('.field').querySelector('[role=status]').textContent = wrong;
}

// complain says what is wrong with a parameter, {plugin, name, error}, in its field, and goes there.
export function complain(root, {plugin, name, error}) {
  const control = root.querySelector(
    `[data-plugin="${CSS.escape(plugin)}"] [data-parameter="${CSS.escape(name)}"]`);
  if (!control) return;
  for (let node = control.closest('details'); node; node = node.parentElement.closest('details')) node.open = true;
  mark(control, error);
  control.focus();
}

function controlOf(schema, value, set) {
  const type = Array.isArray(schema.type) ? schema.type.find((t) => t !== 'null') : schema.type;
  if (Array.isArray(schema.enum)) {
    const select = element('select', {onchange: () => set(schema.enum[select.selectedIndex - 1])},
      element('option', {}, 'default'), schema.enum.map((v) => element('option', {}, text(v))));
    select.selectedIndex = 1 + schema.enum.findIndex((v) => v === value);
    return select;
  }
  if (type === 'boolean') {
    const select = element('select', {onchange: () => set([undefined, true, false][select.selectedIndex])},
      ['default', 'yes', 'no'].map((t) => element('option', {}, t)));
    select.selectedIndex = value === true ? 1 : value === false ? 2 : 0;
    return select;
  }
  const plain = text(schema.default ?? ''), hint = plain === '[]' ? '' : plain;
  if ((type === 'number' || type === 'integer') && !Array.isArray(schema.type)) {
    const input = element('input', {inputmode: 'decimal', placeholder: hint,
      value: value === undefined ? '' : String(value), oninput: () => {
        const t = input.value.trim();
        if (t === '') return set(undefined);
        const n = Number(t);
        return set(n, wrongNumber(type, n) || wrongBound(schema, n), input.value);
      }});
    return input;
  }
  if (type === 'string' && !Array.isArray(schema.type)) {
    const input = element('input', {placeholder: hint, value: value ?? '',
      oninput: () => set(input.value === '' ? undefined : input.value)});
    return input;
  }
  if (type === 'array' && schema.items?.type === 'string') {
    const area = element('textarea', {rows: 2, placeholder: hint || 'one in each line',
      value: Array.isArray(value) ? value.join('\n') : '', oninput: () => {
        const list = area.value.split('\n').filter((line) => line !== '');
        set(list.length ? list : undefined);
      }});
    return area;
  }
  return jsonBox(value, set, hint);
}

// jsonBox edits any value as JSON.
export function jsonBox(value, set, hint = '') {
  const area = element('textarea', {rows: 2, class: 'code', spellcheck: 'false', placeholder: hint || 'JSON',
    value: value === undefined ? '' : JSON.stringify(value), oninput: () => {
      if (area.value.trim() === '') return set(undefined);
      try {
        return set(JSON.parse(area.value));
      } catch (err) {
        return set(undefined, `not JSON: ${err.message}`, area.value);
      }
    }});
  return area;
}

function wrongNumber(type, n) {
  if (type === 'integer') return Number.isSafeInteger(n) ? '' : 'must be a whole number';
  return Number.isFinite(n) ? '' : 'must be a number';
}

function wrongBound(schema, n) {
  if (n < schema.minimum) return `must be at least ${schema.minimum}`;
  if (n > schema.maximum) return `must be at most ${schema.maximum}`;
  if (n <= schema.exclusiveMinimum) return `must be more than ${schema.exclusiveMinimum}`;
  if (n >= schema.exclusiveMaximum) return `must be less than ${schema.exclusiveMaximum}`;
  return '';
}

function bounds(schema) {
  const parts = [];
  const {minimum, maximum} = schema;
  if (minimum !== undefined && maximum !== undefined) parts.push(`${minimum} to ${maximum}`);
  else if (minimum !== undefined) parts.push(`at least ${minimum}`);
  else if (maximum !== undefined) parts.push(`at most ${maximum}`);
  const plain = text(schema.default ?? '');
  if (!['', '[]', '{}'].includes(plain)) parts.push(`default ${plain}`);
  return parts.length ? `(${parts.join(', ')})` : '';
}

const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
