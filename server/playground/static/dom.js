// Elements are made of names, attributes and children, never of HTML: whatever a server or a model writes stays text.

// element makes one. An attribute `onNAME` is a listener, `class` a class list, true an attribute without value; null,
// undefined and false leave an attribute out, but aria-NAME has "true" and "false". Children are nodes, texts, numbers
// or lists of them; null is none.
export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || (value === false && !name.startsWith('aria-'))) continue;
    if (name.startsWith('on') && typeof value === 'function') made.addEventListener(name.slice(2), value);
    else if (name === 'value' && 'value' in made) made.value = value;
    else made.setAttribute(name, value === true && !name.startsWith('aria-') ? '' : value);
  }
  made.append(...nodes(children));
  return made;
}

// nodes flattens children.
function nodes(children) {
  return children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : String(c)));
}

// replace gives parent other children.
export function replace(parent, ...children) {
  parent.replaceChildren(...nodes(children));
  return parent;
}

// field labels a control: the label's text is read with it, the hint describes it.
let fields = 0;
export function field(label, control, hint) {
  control.id ||= `field-${++fields}`;
  const parts = [element('label', {for: control.id}, label), control];
  if (hint) {
    const id = `${control.id}-hint`;
    control.setAttribute('aria-describedby', id);
    parts.push(element('p', {class: 'hint', id}, hint));
  }
  return element('div', {class: 'field'}, parts);
}

// copyButton copies text(), which shown shows: pages without TLS have no clipboard, and select it instead.
export function copyButton(text, shown, attributes = {}) {
  const made = element('button', {type: 'button', ...attributes, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text());
      made.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(shown);
      made.textContent = 'Selected: press Ctrl+C';
    }
    setTimeout(() => { made.textContent = 'Copy'; }, 3000);
  }}, 'Copy');
  return made;
}
