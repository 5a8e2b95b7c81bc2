// The form that uploads a plugin's module, and its signatures: chosen, or dropped on it.
import {element, field, replace} from '../dom.js';
import {dropZone} from '../drop.js';
import {bytes, count} from './format.js';
import {unsigned} from './parts.js';

// isModule and isSigned tell the two files apart by their names.
const isModule = (file) => /\.wasm$/i.test(file?.name ?? ''), isSigned = (file) => /\.json$/i.test(file?.name ?? '');

// uploadForm returns {root, choose}: choose(plugin) prepares another version of one. send(name, query, body, headers)
// uploads, and returns the server's answer, or the error where it refused; the caller says why.
export function uploadForm(send) {
  let chosen = null, signed = null, proposed = ''; // the name that the last file gave
  const input = element('input', {type: 'file', accept: '.wasm,application/wasm',
    onchange: () => take(input.files[0])});
  const signature = element('input', {type: 'file', accept: '.json,application/json',
    onchange: () => sign(signature.files[0])});
  const aboutSignature = element('p', {class: 'hint', 'aria-live': 'polite'});
  const name = element('input', {type: 'text', required: true, autocomplete: 'off', spellcheck: 'false',
    autocapitalize: 'off', pattern: '[A-Za-z0-9][A-Za-z0-9._\\-]*'});
  // What is not chosen is not sent: the server takes it from the version that serves.
  const apply = element('select', {}, element('option', {value: ''}, 'as now; if new, requests that name it'),
    element('option', {value: 'request'}, 'requests that name it'),
    element('option', {value: 'always'}, 'every request'));
  const keys = element('input', {type: 'text', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off',
    placeholder: 'as now; if new, all keys'});
  const onError = element('select', {}, element('option', {value: ''}, 'as now; if new, the request fails'),
    element('option', {value: 'fail'}, 'the request fails'),
    element('option', {value: 'skip'}, 'the request goes on without it'),
    element('option', {value: 'stop'}, 'the text ends there'));
  const config = element('textarea', {rows: 3, class: 'code', spellcheck: 'false',
    placeholder: 'as now; if new, {}'});
  const trial = element('select', {onchange: () => { share.disabled = after.disabled = !trial.value; }},
    element('option', {value: ''}, 'takes over at once'), element('option', {value: 'canary'}, 'answers some requests'),
    element('option', {value: 'shadow'}, 'is shown some requests, in the shadow'));
  const share = element('input', {type: 'number', min: 1, max: 100, value: 5, required: true, disabled: true});
  const after = element('input', {type: 'number', min: 1, max: 1000000, disabled: true, placeholder: 'never'});
  const about = element('p', {class: 'hint', 'aria-live': 'polite'}, 'Or drop a .wasm file here.');
  const found = element('div', {'aria-live': 'polite'});
  const check = element('button', {type: 'button', onclick: () => run(true)}, 'Check only');
  const put = element('button', {type: 'submit', class: 'primary'}, 'Upload');
  const file = field('Module', input, '');
  file.append(about);
  const beside = field('File of the signatures', signature, 'What tgi plugin sign wrote beside the module: ' +
    'NAME.wasm.artifact.json. A server with plugins.require_signed takes no module without.');
  beside.append(aboutSignature);
  const signing = element('details', {}, element('summary', {}, 'Signatures'), beside);
  const root = element('form', {class: 'card drop', 'aria-labelledby': 'upload-title', onsubmit: (event) => {
    event.preventDefault();
    run(false);
  }},
  element('h2', {id: 'upload-title'}, 'Upload a plugin, or a new version of one'),
  element('div', {class: 'grid'}, file, field('Name', name,
    'What requests call it. A name that is there is replaced; what runs finishes with the old version.')),
  element('div', {class: 'grid'}, field('It runs for', apply), field('When it fails', onError)),
  signing,
  element('details', {}, element('summary', {}, 'Configuration'),
    field('Configuration of the plugin, a JSON object', config),
    field('Keys, if it runs for every request', keys, 'Names of keys with commas between them.')),
  element('details', {}, element('summary', {}, 'Try it first'),
    element('div', {class: 'grid'}, field('A new version', trial), field('Percent of the requests', share),
      field('It takes over after so many good requests', after))),
  found, element('div', {class: 'actions'}, check, put));

  dropZone(root, (files) => {
    const [modules, others] = [files.filter(isModule), files.filter((file) => !isModule(file))];
    if (modules.length > 1 || others.length > 1 || others.length && modules.length && !isSigned(others[0])) {
      about.textContent = 'Drop one file, or a module with the file of its signatures.';
      return;
    }
    if (isSigned(others[0])) sign(others[0]);
    else if (others.length) take(others[0]);
    if (modules.length) take(modules[0]);
  });

  // sign chooses the file with the signatures.
  function sign(one) {
    signed = isSigned(one) ? one : null;
    replace(found);
    signature.removeAttribute('aria-invalid');
    aboutSignature.classList.toggle('bad', Boolean(one) && !signed);
    aboutSignature.textContent = !one ? '' : signed ? `${one.name}, ${bytes(one.size)}`
      : `${one.name} is no .json file.`;
    if (one) signing.open = true;
  }

  function take(one) {
    const module = isModule(one);
    chosen = module ? one : null;
    replace(found);
    about.classList.toggle('bad', Boolean(one) && !module);
    if (!one) about.textContent = 'Or drop a .wasm file here.';
    else about.textContent = module ? `${one.name}, ${bytes(one.size)}` : `${one.name} is no .wasm file.`;
    if (!module || (name.value && name.value !== proposed)) return;
    name.value = proposed = one.name.replace(/\.wasm$/i, '').replace(/[^A-Za-z0-9._-]+/g, '-');
  }

  async function run(dry) {
    if (!root.reportValidity()) return;
    if (!chosen) {
      if (!about.classList.contains('bad')) about.textContent = 'Choose a .wasm file first.';
      input.focus();
      return;
    }
    const query = new URLSearchParams();
    const chose = {apply, keys, on_error: onError, config};
    for (const [key, input] of Object.entries(chose)) {
      if (input.value.trim()) query.set(key, input.value.trim());
    }
    if (dry) query.set('dry_run', 'true');
    if (!dry && trial.value) {
      query.set('canary', share.value);
      if (trial.value === 'shadow') query.set('canary_shadow', 'true');
      if (after.value) query.set('promote_after', after.value);
    }
    if (signature.hasAttribute('aria-invalid')) sign(signed); // the server may say something else of another module
    put.disabled = check.disabled = true;
    const answer = await send(name.value, query, ...body());
    put.disabled = check.disabled = false;
    const refused = answer instanceof Error;
    replace(found, dry && !refused && shown(answer));
    if (refused && unsigned(answer)) {
      signing.open = true;
      aboutSignature.classList.add('bad');
      signature.setAttribute('aria-invalid', 'true');
      aboutSignature.textContent = signed ? 'None of these signatures is of a signer whom this server knows.'
        : 'This server wants signatures: choose their file.';
      signature.focus();
    } else if (!dry && !refused) {
      root.reset();
      share.disabled = after.disabled = true;
      take(null);
      sign(null);
    }
  }

  // body is what is sent: the module, or a form of it and its signatures, whose headers the browser makes.
  function body() {
    if (!signed) return [chosen, {'Content-Type': 'application/wasm'}];
    const form = new FormData();
    form.append('module', chosen);
    form.append('artifact', signed);
    return [form, {}];
  }

  // shown tells what a check found.
  function shown(t) {
    const p = t.plugin ?? {};
    const lines = [`The module is good: ${[p.kinds?.join(', '), p.version && `version ${p.version}`].filter(Boolean)
      .join(', ')}.`];
    if (t.replaces) lines.push(`It would replace ${t.replaces.version || t.replaces.sha256?.slice(0, 12)}.`);
    const models = t.models?.length ?? 0;
    if (models) lines.push(`${count(models)} ${models === 1 ? 'model' : 'models'} would have it.`);
    for (const s of t.settings ?? []) lines.push(setting(s));
    if (t.refuses) lines.push(`It refuses a request without parameters: ${t.refuses}`);
    return element('div', {class: 'notice done'}, lines.map((line) => element('p', {}, line)));
  }

  // setting tells what one would be, and what it is now.
  function setting({name: key, before, after}) {
    const to = after || 'default';
    if (before === undefined) return `${key}: ${to}.`;
    return before === after ? `${key} stays ${to}.` : `${key}: ${before || 'default'} → ${to}.`;
  }

  return {root, choose(plugin) {
    name.value = plugin.name;
    proposed = '';
    apply.value = onError.value = keys.value = config.value = signature.value = '';
    sign(null);
    root.scrollIntoView({block: 'center'});
    input.focus();
  }};
}
