// The settings of a conversation.
import {element, field, replace} from '../dom.js';
import {pluginChooser} from './plugins.js';

const grammars = [['none', 'None'], ['json_schema', 'JSON Schema'], ['json_object', 'Any JSON object'],
  ['regex', 'Regular expression'], ['choice', 'Choices'], ['grammar', 'Grammar (GBNF or Lark)']];

const examples = {
  json_schema: '{\n  "type": "object",\n  "required": ["name", "age"],\n  "additionalProperties": false,\n' +
    '  "properties": {\n    "name": {"type": "string", "maxLength": 20},\n' +
    '    "age": {"type": "integer", "minimum": 0, "maximum": 120}\n  }\n}',
  regex: '[0-9]{1,3} (apples|pears)', choice: 'yes\nno\nmaybe', grammar: 'root ::= "yes" | "no"', json_object: '',
};

const sampling = [
  ['temperature', 'Temperature', '1, or 0: likeliest'], ['top_p', 'Top p', '1'],
  ['top_k', 'Top k', '0: all'], ['min_p', 'Min p', '0'],
  ['repetition_penalty', 'Repetition penalty', '1: none'], ['max_tokens', 'Max tokens', 'what fits'],
  ['seed', 'Seed', 'drawn anew'],
];

// settingsForm returns an element that edits settings. server has models and plugins; changed is called
// after each edit.
export function settingsForm(settings, server, changed) {
  const set = (name, value) => {
    settings[name] = value;
    changed(name);
  };
  const text = (name, label, attributes, hint, tag = 'input') => field(label, element(tag, {...attributes,
    'data-setting': name, value: settings[name], oninput: (event) => set(name, event.target.value)}), hint);
  const root = element('div', {class: 'settings'});

  function draw() {
    replace(root,
      section('Model', true, modelFields()),
      section('Sampling', true, element('div', {class: 'pairs'}, sampling.map(([name, label, placeholder]) =>
        text(name, label, {inputmode: 'decimal', placeholder, autocomplete: 'off'}))),
      text('stop', 'Stop strings', {rows: 2, class: 'code', placeholder: 'one in each line, \\n for a line end'}, null,
        'textarea')),
      section('Grammar', settings.grammar.kind !== 'none', grammarFields()),
      section('Plugins', true, pluginChooser(server.plugins, settings.plugins, () => changed('plugins'))),
      section('Tools', settings.tools !== '', toolFields()),
      section('More', settings.more !== '', text('more', 'More members of the request', {rows: 3, class: 'code',
        spellcheck: 'false', placeholder: '{"logit_bias": {"42": -5}}'}, 'A JSON object; it is added to the body.',
      'textarea')));
  }

  function section(title, open, ...children) {
    return element('details', {class: 'section', open}, element('summary', {}, title), children);
  }

  function modelFields() {
    const models = server.models.filter((m) => !m.parent);
    const model = element('select', {'data-setting': 'model', onchange: () => {
      set('adapter', '');
      set('template', '');
      set('model', model.value);
      draw();
    }}, element('option', {value: ''}, models[0] ? `Default (${models[0].id})` : 'Default'),
    models.map((m) => element('option', {value: m.id}, m.status === 'running' ? m.id : `${m.id} (${m.status})`)));
    model.value = settings.model;
    if (model.value !== settings.model) model.value = settings.model = '';
    const chosen = models.find((m) => m.id === settings.model) ?? models[0];
    const parts = [field('Model', model)];
    const adapters = server.models.filter((m) => m.parent && m.parent === chosen?.id);
    if (adapters.length) {
      const select = element('select', {'data-setting': 'adapter', onchange: () => set('adapter', select.value)},
        element('option', {value: ''}, 'None'), adapters.map((m) => element('option', {value: m.id}, m.id)));
      select.value = settings.adapter;
      parts.push(field('Adapter', select));
    }
    const templates = chosen?.chat_templates ?? [];
    if (templates.length > 1) {
      const select = element('select', {'data-setting': 'template', onchange: () => set('template', select.value)},
        element('option', {value: ''}, 'The model’s choice'), templates.map((t) => element('option', {value: t}, t)));
      select.value = settings.template;
      parts.push(field('Chat template', select));
    }
    parts.push(text('system', 'System prompt', {rows: 3, placeholder: 'None'}, null, 'textarea'));
    return parts;
  }

  function grammarFields() {
    const grammar = settings.grammar;
    const kind = element('select', {'data-setting': 'grammar', onchange: () => {
      const known = Object.values(examples).includes(grammar.text) || grammar.text === '';
      settings.grammar = {kind: kind.value, text: known ? examples[kind.value] ?? '' : grammar.text};
      changed('grammar');
      replace(box, grammarFields());
      box.querySelector('select').focus();
    }}, grammars.map(([value, label]) => element('option', {value}, label)));
    kind.value = grammar.kind;
    const parts = [field('The reply is held to', kind)];
    if (grammar.kind !== 'none' && grammar.kind !== 'json_object') {
      const label = grammars.find(([value]) => value === grammar.kind)[1];
      const area = element('textarea', {rows: grammar.kind === 'json_schema' ? 10 : 4, class: 'code',
        spellcheck: 'false', 'data-setting': 'grammar-text', value: grammar.text, oninput: () => {
          grammar.text = area.value;
          changed('grammar');
          check();
        }});
      const wrong = element('p', {class: 'hint bad', role: 'status'});
      const check = () => {
        wrong.textContent = '';
        if (grammar.kind !== 'json_schema' || !area.value.trim()) return;
        try {
          JSON.parse(area.value);
        } catch (err) {
          wrong.textContent = `Not JSON: ${err.message}`;
        }
      };
      check();
      parts.push(field(label, area, grammar.kind === 'choice' ? 'One in each line, or a JSON array.' : null), wrong);
    }
    const box = element('div', {}, parts);
    return box;
  }

  function toolFields() {
    const choice = element('select', {'data-setting': 'tool_choice', onchange: () => set('tool_choice', choice.value)},
      [['', 'The model decides'], ['required', 'It must call one'], ['none', 'It must call none']]
        .map(([value, label]) => element('option', {value}, label)));
    choice.value = settings.tool_choice;
    return [text('tools', 'Definitions', {rows: 6, class: 'code', spellcheck: 'false',
      placeholder: '[{"name": "get_weather", "parameters":\n  {"type": "object", "properties":\n' +
        '    {"city": {"type": "string"}}}}]'},
    'JSON: a list of functions, or of OpenAI’s tools. You type what they return.', 'textarea'),
    field('Calls', choice)];
  }

  draw();
  return root;
}
