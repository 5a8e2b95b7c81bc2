// The dialog with the low-rank adapters of a model: which there are, adding and removing them.
import {openDialog} from '../dialog.js';
import {element, field, replace} from '../dom.js';
import {ask, button, notices} from './parts.js';

// adaptersDialog opens it for a model. act(path, json) does something and throws what went wrong; closed is called at
// the end. It returns update(names), which shows the adapters that there are.
export function adaptersDialog(model, act, closed) {
  const note = notices();
  const list = element('ul', {class: 'adapters', 'aria-label': `Adapters of ${model}`});
  const nothing = element('p', {class: 'muted'}, 'It has no adapter.');
  const input = (attributes) => element('input', {type: 'text', required: true, autocomplete: 'off',
    spellcheck: 'false', autocapitalize: 'off', ...attributes});
  const name = input({}), path = input({placeholder: '/srv/adapters/pirate'});
  const replacing = element('input', {type: 'checkbox'});
  const add = element('button', {type: 'submit', class: 'primary'}, 'Add');
  const form = element('form', {'aria-label': 'Add an adapter', onsubmit: async (event) => {
    event.preventDefault();
    add.disabled = true;
    const one = name.value.trim();
    const done = await run('/v1/load_lora_adapter', {model, lora_name: one, lora_path: path.value.trim(),
      load_inplace: replacing.checked}, `${one} could not be added`, `Requests may name ${one} now.`);
    add.disabled = false;
    if (done) form.reset();
    name.focus();
  }},
  element('h3', {}, 'Add an adapter'),
  element('div', {class: 'grid'}, field('Name', name, 'What requests give as model, or as adapter_id.'),
    field('Folder', path, 'On the server: absolute, or in its models folder, as PEFT saves it.')),
  element('label', {class: 'check'}, replacing, 'It may take the place of an adapter of this name'),
  element('div', {class: 'actions'}, add));

  async function run(where, json, wrong, right) {
    note.clear();
    try {
      await act(where, json);
    } catch (err) {
      note.bad(err, wrong);
      return false;
    }
    note.good(right);
    return true;
  }

  const dialog = openDialog(`Adapters of ${model}`, [
    element('p', {class: 'muted'}, 'Low-rank adapters (LoRA) change the model for the requests that name them. ' +
      'The server forgets what is changed here when it ends.'),
    note.root, nothing, list, form], {wide: true, closed});
  let shown = '';
  return (names) => {
    if (shown === names.join()) return; // what has the focus keeps it
    shown = names.join();
    nothing.hidden = names.length > 0;
    const within = list.contains(document.activeElement);
    replace(list, names.map((one) => element('li', {}, element('span', {class: 'break'}, one),
      button('Remove', async () => {
        if (await ask(`Remove ${one}?`, 'Requests that run with it finish; new ones cannot name it.', 'Remove')) {
          await run('/v1/unload_lora_adapter', {lora_name: one}, `${one} could not be removed`, `${one} is removed.`);
        }
      }, {'aria-label': `Remove the adapter ${one}`, class: 'quiet danger'}))));
    if (within) dialog.querySelector('button').focus();
  };
}
