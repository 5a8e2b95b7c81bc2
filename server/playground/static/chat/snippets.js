// The request as a program: for the shell, for Python and for JavaScript.
import {openDialog} from '../dialog.js';
import {copyButton, element, replace} from '../dom.js';
import {ofOpenAI} from './request.js';

// snippets returns the three texts for a body and the address of the server.
export function snippets(body, base) {
  const address = base.replace(/\/$/, '');
  const own = {}, extra = {};
  for (const [name, value] of Object.entries(body)) (ofOpenAI.has(name) ? own : extra)[name] = value;
  return {curl: curl(body, address), Python: python(own, extra, address), JavaScript: javascript(body, address)};
}

// shell quotes for a POSIX shell: nothing within '...' means anything but a quote.
const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

// curl sends the body from a here-document: an argument has at most 128 KiB on Linux, a picture more. No line of JSON
// is the word that ends it, since line ends within texts are escaped.
function curl(body, address) {
  return `curl -N ${shell(`${address}/v1/chat/completions`)} \\\n  -H "Authorization: Bearer $TGI_API_KEY" \\\n` +
    `  -H 'Content-Type: application/json' \\\n  --data-binary @- <<'END'\n` +
    `${JSON.stringify(body, null, 2)}\nEND\n`;
}

function python(own, extra, address) {
  const args = Object.entries(own).map(([name, value]) => `    ${name}=${literal(value, 4)},`);
  if (Object.keys(extra).length) args.push(`    extra_body=${literal(extra, 4)},`);
  const read = own.stream ?
    'for chunk in reply:\n    if chunk.choices:\n' +
    '        print(chunk.choices[0].delta.content or "", end="", flush=True)\n' :
    'print(reply.choices[0].message.content)\n';
  return 'import os\nfrom openai import OpenAI  # pip install openai\n\n' +
    `client = OpenAI(base_url=${literal(`${address}/v1`, 0)}, api_key=os.environ.get("TGI_API_KEY", "none"))\n` +
    `reply = client.chat.completions.create(\n${args.join('\n')}\n)\n${read}`;
}

// literal writes a value of JSON as Python does. JSON's strings are Python's too.
function literal(value, indent) {
  const pad = ' '.repeat(indent + 4), end = ' '.repeat(indent);
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (Array.isArray(value)) {
    if (!value.length) return '[]';
    return `[\n${value.map((v) => `${pad}${literal(v, indent + 4)},\n`).join('')}${end}]`;
  }
  if (typeof value === 'object') {
    const members = Object.entries(value);
    if (!members.length) return '{}';
    return `{\n${members.map(([k, v]) => `${pad}${JSON.stringify(k)}: ${literal(v, indent + 4)},\n`).join('')}${end}}`;
  }
  return JSON.stringify(value);
}

function javascript(body, address) {
  const read = body.stream ?
    'for await (const chunk of reply) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");\n' :
    'console.log(reply.choices[0].message.content);\n';
  return 'import OpenAI from "openai"; // npm install openai\n\n' +
    `const client = new OpenAI({baseURL: ${JSON.stringify(`${address}/v1`)}, ` +
    'apiKey: process.env.TGI_API_KEY ?? "none"});\n' +
    `const reply = await client.chat.completions.create(${JSON.stringify(body, null, 2)});\n${read}`;
}

// showSnippets opens a dialog with the texts. The key of this page is in none of them.
export function showSnippets(body, base) {
  const texts = snippets(body, base);
  const names = Object.keys(texts);
  const code = element('pre', {tabindex: 0, id: 'snippet', role: 'tabpanel'});
  let shown = names[0];
  const tabs = names.map((name, i) => element('button', {type: 'button', role: 'tab', 'aria-controls': 'snippet',
    onclick: () => show(name), onkeydown: (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const next = (i + step + names.length) % names.length;
      show(names[next]);
      tabs[next].focus();
    }}, name));
  const copy = copyButton(() => texts[shown], code);

  function show(name) {
    shown = name;
    replace(code, texts[name]);
    tabs.forEach((tab, i) => {
      tab.setAttribute('aria-selected', names[i] === name);
      tab.tabIndex = names[i] === name ? 0 : -1;
    });
  }
  show(shown);
  openDialog('The request as a program', [
    element('div', {class: 'tabs', role: 'tablist', 'aria-label': 'Language'}, tabs), code,
    element('div', {class: 'actions'}, copy)], {wide: true});
}
