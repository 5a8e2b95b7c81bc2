// The request that settings and messages make.
import {Validator} from '../vendor/json-schema/index.js';
import {schemaMayHang} from './patterns.js';
import {fits} from './schemaform.js';

// SettingError is a setting that cannot be sent; `setting` names it, and `parameter` that of a plugin:
// {plugin, name, error}.
export class SettingError extends Error {
  constructor(setting, message, parameter = null) {
    super(message);
    this.setting = setting;
    this.parameter = parameter;
  }
}

const numbers = ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'max_tokens', 'seed'];

// OpenAI's clients take the other members in a place of their own.
export const ofOpenAI = new Set(['model', 'messages', 'temperature', 'top_p', 'max_tokens', 'seed', 'stop', 'tools',
  'tool_choice', 'response_format', 'stream', 'stream_options']);

// mostExplained is how many tokens of a reply the server explains at most.
const mostExplained = 1024;

// explainedAtMost is how many tokens of the reply to a body are explained at most.
export function explainedAtMost({explain}) {
  if (!explain) return 0;
  return explain.tokens ?? 256; // what the server takes without it
}

// bodyOf returns the body of a chat request. offered are the plugins of the server. Messages that got no answer are
// left out, but for the last one, which asks: many templates refuse two messages of the user in a row, and what was
// refused once would be refused with each message that follows.
export function bodyOf(settings, messages, offered = []) {
  const body = {model: settings.adapter || settings.model || 'tgi', messages: []};
  if (settings.system.trim()) body.messages.push({role: 'system', content: settings.system});
  const last = messages.findLastIndex((m) => m.role !== 'assistant');
  messages.forEach((message, i) => {
    if (!message.unanswered || i === last) body.messages.push(...sent(message));
  });
  for (const name of numbers) {
    const text = String(settings[name]).trim();
    if (text === '') continue;
    // Numbers beyond 2^53 lose digits in JavaScript, and a seed may have 64 bits; so it is said here.
    if (name === 'seed' && Number(text) > Number.MAX_SAFE_INTEGER) {
      throw new SettingError(name, `seed must be at most ${Number.MAX_SAFE_INTEGER} on this page`);
    }
    if (!Number.isFinite(Number(text))) throw new SettingError(name, `${name} must be a number`);
    body[name] = Number(text);
  }
  const stop = settings.stop.split('\n').filter((line) => line !== '').map(unescaped);
  if (stop.length) body.stop = stop;
  if (settings.template) body.chat_template = settings.template;
  const tools = toolsOf(settings.tools);
  if (tools.length) {
    body.tools = tools;
    if (settings.tool_choice) body.tool_choice = toolChoiceOf(settings.tool_choice, tools);
  }
  Object.assign(body, grammarOf(settings.grammar, offered));
  for (const choice of settings.plugins) checkParameters('plugins', choice, offered);
  const plugins = settings.plugins.map(({name, params}) =>
    (params && Object.keys(params).length ? {name, params} : {name}));
  if (plugins.length) body.plugins = plugins;
  if (settings.explain) body.explain = {top: 8, tokens: mostExplained};
  return {...body, ...objectOf('more', settings.more)};
}

// checkParameters looks at the parameters of a plugin in a setting as its schema and its form do.
function checkParameters(setting, choice, offered) {
  const found = wrongParameter(choice, offered.find((p) => p.name === choice.name)?.params);
  if (!found) return;
  const [name, error] = found;
  throw new SettingError(setting, `${choice.name}: ${name || 'the parameters'} ${error}`,
    {plugin: choice.name, name, error});
}

// wrongParameter returns the name of the first that cannot be sent, and why; null for none.
function wrongParameter({params, wrong}, schema) {
  for (const [name, {error}] of Object.entries(wrong)) return [name, error];
  if (!fits(schema)) return null; // it is not asked for in a form; the server judges
  const missing = (schema.required ?? []).find((name) => params[name] === undefined);
  if (missing !== undefined) return [missing, 'is required'];
  let result;
  try {
    if (schemaMayHang(schema, params)) return null; // the server judges
    result = new Validator(schema, '2020-12', false).validate(params);
  } catch {
    return null; // a schema that cannot be judged here
  }
  const deepest = result.valid ? null : result.errors.at(-1);
  const part = deepest?.instanceLocation.split('/')[1]; // of a JSON pointer in an address
  const name = part && decodeURI(part).replaceAll('~1', '/').replaceAll('~0', '~');
  return name ? [name, `is refused: ${deepest.error}`] : null;
}

// sent is a message as the server reads it; replies without content, which failed, are none.
function sent(message) {
  if (message.role === 'tool') return [{role: 'tool', tool_call_id: message.call, content: message.text}];
  if (message.role === 'assistant') {
    if (!message.text && !message.calls?.length) return [];
    const out = {role: 'assistant', content: message.text || null};
    if (message.calls?.length) {
      out.tool_calls = message.calls.map(({id, name, args}) =>
        ({id, type: 'function', function: {name, arguments: args}}));
    }
    return [out];
  }
  if (!message.images?.length) return [{role: 'user', content: message.text}];
  const parts = message.images.map((url) => ({type: 'image_url', image_url: {url}}));
  return [{role: 'user', content: message.text ? [...parts, {type: 'text', text: message.text}] : parts}];
}

// unescaped lets a line hold \n, \t and \\.
function unescaped(line) {
  return line.replace(/\\([nt\\])/g, (_, c) => ({n: '\n', t: '\t', '\\': '\\'}[c]));
}

// parsed reads the JSON of a setting; empty text is undefined.
export function parsed(setting, text) {
  if (!text.trim()) return undefined;
  try {
    return JSON.parse(text);
  } catch (err) {
    throw new SettingError(setting, `${labels[setting] ?? setting}: this is not JSON (${err.message})`);
  }
}

const labels = {tools: 'Tools', more: 'More members', grammar: 'Grammar'};

function objectOf(setting, text) {
  const value = parsed(setting, text);
  if (value === undefined) return {};
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new SettingError(setting, `${labels[setting]}: this must be a JSON object`);
  }
  return value;
}

// ofFunction begins the choice of one function.
export const ofFunction = 'function:';

// toolChoiceOf writes a choice of calls: 'required', 'none', or ofFunction with its name.
function toolChoiceOf(choice, tools) {
  if (!choice.startsWith(ofFunction)) return choice;
  const name = choice.slice(ofFunction.length);
  if (!tools.some((tool) => tool.function?.name === name)) {
    throw new SettingError('tool_choice', `Calls: there is no function ${name} among the tools`);
  }
  return {type: 'function', function: {name}};
}

// functionsOf names the functions among definitions; null for a text that is none yet.
export function functionsOf(text) {
  try {
    return toolsOf(text).map((tool) => tool.function?.name).filter((name) => typeof name === 'string' && name);
  } catch {
    return null;
  }
}

// toolsOf reads definitions: a list of tools, or of their functions, or one of either.
function toolsOf(text) {
  const value = parsed('tools', text);
  if (value === undefined) return [];
  return (Array.isArray(value) ? value : [value]).map((tool) => {
    if (typeof tool?.type === 'string' && tool.type !== 'object') return tool;
    if (typeof tool?.name !== 'string') throw new SettingError('tools', 'Tools: a tool needs a name');
    return {type: 'function', function: tool};
  });
}

// choicesOf reads a list of choices: a JSON array, or a line each.
export function choicesOf(text) {
  if (text.trim().startsWith('[')) {
    try {
      const list = JSON.parse(text);
      if (Array.isArray(list)) return list.map(String);
    } catch { /* then they are lines */ }
  }
  return text.split('\n').filter((line) => line !== '');
}

// grammarOf returns the members that hold a reply to a grammar.
function grammarOf(grammar, offered) {
  if (grammar.kind === 'none') return {};
  const format = formatOf(grammar);
  if (format.type === 'grammar' && grammar.language) format.language = grammar.language;
  if (grammar.plugin) {
    checkParameters('grammar', {...grammar, name: grammar.plugin}, offered);
    format.plugin = grammar.plugin;
    if (Object.keys(grammar.params).length) format.params = grammar.params;
  }
  return {response_format: format};
}

function formatOf({kind, text}) {
  if (kind === 'json_object') return {type: 'json_object'};
  if (!text.trim()) throw new SettingError('grammar', 'Grammar: it is empty');
  switch (kind) {
    case 'json_schema': return {type: kind, json_schema: {name: 'reply', schema: parsed('grammar', text)}};
    case 'choice': return {type: kind, value: choicesOf(text)};
    default: return {type: kind, value: text}; // regex and grammar
  }
}
