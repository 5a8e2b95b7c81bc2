// Markdown as nodes. marked finds the tokens; nothing that a model wrote is ever read as HTML.
import {copyButton, element, replace} from '../dom.js';
import {lexer} from '../vendor/marked.js';

// longest is how much text is laid out, and slowest how many milliseconds finding its blocks may take, where
// it is not short; a text beyond either is shown as it is.
const longest = 50_000, slowest = 250, short = 5000;

// render shows text in container. Blocks that are the same as before keep their nodes, so that a stream costs little
// and a selection stays.
export function render(container, text) {
  let blocks;
  try {
    if (text.length > longest || container.slow) throw new RangeError('too long');
    const began = performance.now();
    blocks = lexer(text).filter((token) => token.type !== 'space' && token.type !== 'def');
    container.slow = text.length > short && performance.now() - began > slowest;
  } catch { // nested deeper than there is room for
    container.blocks = null;
    replace(container, element('pre', {class: 'plain'}, text));
    return;
  }
  const before = container.blocks ?? [];
  let same = 0;
  while (same < blocks.length && same < before.length && blocks[same].raw === before[same]) same++;
  while (container.childNodes.length > same) container.lastChild.remove();
  container.append(...blocks.slice(same).map(block));
  container.blocks = blocks.map((token) => token.raw);
}

function block(token) {
  switch (token.type) {
    case 'heading': return element(`h${Math.min(6, token.depth + 2)}`, {}, inline(token.tokens));
    case 'paragraph': return element('p', {}, inline(token.tokens));
    case 'code': return code(token);
    case 'blockquote': return element('blockquote', {}, token.tokens.map(block));
    case 'list': return list(token);
    case 'table': return table(token);
    case 'hr': return element('hr');
    case 'space': return document.createTextNode('');
    case 'text': return element('span', {}, token.tokens ? inline(token.tokens) : decoded(token.text));
    case 'checkbox': return checkbox(token);
    default: return element('p', {}, token.raw); // HTML among them
  }
}

function code(token) {
  const text = token.text;
  const shown = element('code', {}, text);
  return element('div', {class: 'code-block'},
    element('div', {class: 'code-head'}, element('span', {}, token.lang || 'text'),
      copyButton(() => text, shown, {class: 'quiet'})),
    element('pre', {tabindex: 0}, shown));
}

function list(token) {
  const start = token.ordered && token.start !== 1 ? token.start : null;
  return element(token.ordered ? 'ol' : 'ul', {start}, token.items.map((item) =>
    element('li', {class: item.task && 'task'}, item.tokens.map(block))));
}

function checkbox(token) {
  return element('input', {type: 'checkbox', disabled: true, checked: token.checked, 'aria-label': 'Task'});
}

function table(token) {
  const row = (cells, tag) => element('tr', {}, cells.map((cell, i) =>
    element(tag, {class: token.align[i] && `align-${token.align[i]}`}, inline(cell.tokens))));
  return element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table'}, element('table', {},
    element('thead', {}, row(token.header, 'th')), element('tbody', {}, token.rows.map((r) => row(r, 'td')))));
}

function inline(tokens) {
  return (tokens ?? []).map((token) => {
    switch (token.type) {
      case 'strong': return element('strong', {}, inline(token.tokens));
      case 'em': return element('em', {}, inline(token.tokens));
      case 'del': return element('del', {}, inline(token.tokens));
      case 'codespan': return element('code', {}, token.text);
      case 'br': return element('br');
      case 'link': return link(token.href, token.tokens?.length ? inline(token.tokens) : token.text);
      case 'image': return image(token);
      case 'escape': return token.text;
      case 'text': return token.tokens ? inline(token.tokens) : decoded(token.text);
      case 'checkbox': return checkbox(token);
      default: return token.raw;
    }
  });
}

// link leads to the web or to mail; any other address is shown and leads nowhere.
function link(href, children) {
  if (!/^(https?:|mailto:)/i.test(href)) return element('span', {title: href}, children);
  return element('a', {href, target: '_blank', rel: 'noopener noreferrer nofollow'}, children);
}

// image shows what the text itself contains. One that lies elsewhere is a link: fetching it would tell its owner of
// the conversation.
function image(token) {
  if (/^data:image\/(png|jpeg|gif|webp);base64,/.test(token.href)) {
    return element('img', {src: token.href, alt: token.text, class: 'picture'});
  }
  return link(token.href, `Image: ${token.text || token.href}`);
}

const named = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0'};

// decoded reads the character references of a text.
function decoded(text) {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(amp|lt|gt|quot|apos|nbsp));/gi, (whole, dec, hex, name) => {
    if (name) return named[name.toLowerCase()];
    const point = dec ? Number(dec) : parseInt(hex, 16);
    return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}
