// The settings of a conversation.
import {element, field, replace} from '../dom.js';
import {parametersForm, pluginChooser} from './plugins.js';
import {functionsOf, ofFunction} from './request.js';

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
      settings.grammar = {...grammar, kind: kind.value, text: known ? examples[kind.value] ?? '' : grammar.text};
      redraw('[data-setting=grammar]');
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
    if (grammar.kind !== 'none') parts.push(compilerFields(grammar, redraw));
    const box = element('div', {}, parts);
    return box;

    function redraw(focus) {
      changed('grammar');
      replace(box, grammarFields());
      box.querySelector(focus).focus();
    }
  }

  // compilerFields choose the plugin that compiles the grammar, its parameters, and the language of what is no schema,
  // expression or choice.
  function compilerFields(grammar, redraw) {
    const compilers = (server.plugins ?? []).filter((p) => p.kinds?.includes('grammar') && p.nameable !== false);
    const chosen = compilers.find((p) => p.name === grammar.plugin);
    const choice = (name, values, set) => {
      const select = element('select', {'data-setting': name, onchange: () => {
        set(select.value);
        redraw(`[data-setting=${name}]`);
      }}, values.map(([value, label]) => element('option', {value}, label)));
      return select;
    };
    const gone = grammar.plugin && !chosen ? [[grammar.plugin, `${grammar.plugin} (not offered)`]] : [];
    const parts = [];
    if (compilers.length || gone.length) {
      const plugin = choice('grammar-plugin', [['', 'The first plugin that knows it'], ...gone,
        ...compilers.map((p) => [p.name, p.state === 'ready' ? p.name : `${p.name} (${p.state})`])],
      (value) => Object.assign(grammar, {plugin: value, params: {}, wrong: {}}));
      plugin.value = grammar.plugin;
      parts.push(field('Compiled by', plugin));
    }
    const languages = new Set((chosen ? [chosen] : compilers).flatMap((p) => p.languages ?? []));
    if (grammar.language) languages.add(grammar.language);
    if (grammar.kind === 'grammar' && languages.size) {
      const language = choice('language', [['', 'What it looks like'], ...[...languages].map((l) => [l, l])],
        (value) => { grammar.language = value; });
      language.value = grammar.language;
      parts.push(field('Language', language));
    }
    if (chosen) {
      parts.push(element('div', {class: 'plugin', 'data-plugin': chosen.name},
        parametersForm(chosen, Object.assign(grammar, {name: chosen.name}), () => changed('grammar'))));
    }
    return parts;
  }

  function toolFields() {
    const choice = element('select', {'data-setting': 'tool_choice', onchange: () => {
      set('tool_choice', choice.value);
      fill();
    }});
    let names = [];
    // fill lists the functions, and the one that was chosen before it had this name.
    const fill = () => {
      names = functionsOf(settings.tools) ?? names; // those of before, while it is being typed
      const of = new Set(names.map((name) => ofFunction + name));
      if (settings.tool_choice.startsWith(ofFunction)) of.add(settings.tool_choice);
      replace(choice, [['', 'The model decides'], ['required', 'It must call one'], ['none', 'It must call none'],
        ...[...of].map((value) => [value, `It must call ${value.slice(ofFunction.length)}`])]
        .map(([value, label]) => element('option', {value}, label)));
      choice.value = settings.tool_choice;
    };
    fill();
    const definitions = text('tools', 'Definitions', {rows: 6, class: 'code', spellcheck: 'false',
      placeholder: '[{"name": "get_weather", "parameters":\n  {"type": "object", "properties":\n' +
        '    {"city": {"type": "string"}}}}]'},
    'JSON: a list of functions, or of OpenAI’s tools. You type what they return.', 'textarea');
    definitions.addEventListener('input', fill);
    return [definitions, field('Calls', choice)];
  }

  draw();
  return root;
}
