// Whether a reply is what its grammar says: shown while it comes, and judged when it is there.
import {Validator} from '../vendor/json-schema/index.js';
import {mayHang, schemaMayHang} from './patterns.js';
import {choicesOf} from './request.js';

const tooLong = {state: 'none', text: 'not checked here: browsers may take too long for it'};

// judge returns {state, text}: state is 'good' or 'bad' for a text that is whole or can never be, 'open' for one that
// may still be, and 'none' where nothing can be said here.
export function judge(grammar, text, whole) {
  switch (grammar.kind) {
    case 'json_object': return judgeJSON(null, text, whole);
    case 'json_schema': return judgeJSON(grammar.text, text, whole);
    case 'choice': return judgeChoice(choicesOf(grammar.text), text, whole);
    case 'regex': return judgeRegex(grammar.text, text, whole);
    default: return {state: 'none', text: 'held by the server, not checked here'};
  }
}

function judgeChoice(choices, text, whole) {
  if (choices.includes(text)) return {state: 'good', text: 'one of the choices'};
  const left = choices.filter((choice) => choice.startsWith(text));
  if (!left.length || whole) return {state: 'bad', text: 'none of the choices'};
  return {state: 'open', text: `${left.length} of ${choices.length} choices are left`};
}

function judgeRegex(pattern, text, whole) {
  if (!whole) return {state: 'none', text: 'held by the server, checked here when it is whole'};
  if (mayHang(pattern, text)) return tooLong;
  let regex;
  try {
    regex = new RegExp(`^(?:${pattern})$`, 'u');
  } catch {
    return {state: 'none', text: 'not checked here: browsers do not know this expression'};
  }
  return regex.test(text) ? {state: 'good', text: 'matches the expression'}
    : {state: 'bad', text: 'does not match the expression'};
}

function judgeJSON(schemaText, text, whole) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    const open = unfinished(text);
    if (open === null || whole) return {state: 'bad', text: whole ? 'JSON that is cut off' : 'not JSON'};
    return {state: 'open', text: open ? `JSON so far, ${open} ${open === 1 ? 'bracket' : 'brackets'} open`
      : 'JSON so far'};
  }
  if (schemaText === null) return {state: 'good', text: 'JSON'};
  let result;
  try {
    const schema = JSON.parse(schemaText);
    if (schemaMayHang(schema, value)) return tooLong;
    const draft = /draft-0[4-7]/.test(schema?.$schema) ? '7' : '2020-12';
    result = new Validator(schema, draft, false).validate(value);
  } catch (err) {
    return {state: 'none', text: `the schema cannot be checked here (${err.message})`};
  }
  if (result.valid) return {state: 'good', text: 'valid by the schema'};
  const deepest = result.errors.at(-1);
  return {state: 'bad', text: `${deepest?.instanceLocation ?? '#'}: ${deepest?.error ?? 'not valid'}`};
}

// What a text may lack inside a string, which is a name or a value, and outside of one.
const ofStrings = ['', '\\', '0', '00', '000', '0000'].flatMap((rest) => [`${rest}"`, `${rest}":null`]);
const ofValues = ['', 'null', '0', ':null', '"":null', 'ull', 'll', 'l', 'rue', 'ue', 'e', 'alse', 'lse', 'se'];

// unfinished counts the brackets that are open at the end of a text that may become JSON, or returns null for one that
// cannot: it is closed in each way that is possible, and parsed.
function unfinished(text) {
  const open = [];
  let string = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (string) {
      if (c === '\\') i++;
      else if (c === '"') string = false;
    } else if (c === '"') string = true;
    else if (c === '{' || c === '[') open.push(c === '{' ? '}' : ']');
    else if ((c === '}' || c === ']') && open.pop() !== c) return null;
  }
  const close = open.reverse().join('');
  if (text.trim() === '') return 0;
  for (const end of string ? ofStrings : ofValues) {
    try {
      JSON.parse(text + end + close);
      return open.length;
    } catch { /* another end may do */ }
  }
  return null;
}
