// The shell: pages by the hash of the address, the key, the theme.
import {askKey, address, errorText, json, key, request} from './api.js';
import {closeDialogs} from './dialog.js';
import {element, field, replace} from './dom.js';
import {refuseFiles} from './drop.js';
import {ofBrowser} from './store.js';

// pages are shown in this order. A module exports `title` and `show(root, app)`, which fills root and returns a
// function that stops what it began (or a promise of it).
const pages = {
  chat: () => import('./pages/chat.js'),
  models: () => import('./pages/models.js'),
  plugins: () => import('./pages/plugins.js'),
  engine: () => import('./pages/engine.js'),
};

// app is what pages get.
const app = {element, replace, field, request, json, address, errorText};

const main = document.getElementById('main');
let stop = null, shown = 0;

// nameOf is the page that an address names: #/models?x=1 is models.
function nameOf(hash) {
  const name = hash.replace(/^#\/?/, '').split(/[/?]/)[0];
  return Object.hasOwn(pages, name) ? name : Object.keys(pages)[0];
}

async function navigate() {
  if (location.hash && !location.hash.startsWith('#/')) return; // a place in the page, as the link that skips
  const name = nameOf(location.hash), mine = ++shown;
  for (const link of document.querySelectorAll('#pages a')) {
    if (link.dataset.page === name) {
      link.setAttribute('aria-current', 'page');
      link.scrollIntoView({block: 'nearest', inline: 'nearest'}); // of those beside each other on a phone
    } else link.removeAttribute('aria-current');
  }
  const before = stop;
  stop = null;
  closeDialogs();
  try {
    before?.();
    const page = await pages[name]();
    if (mine !== shown) return;
    document.title = `${page.title} · tgi`;
    main.className = `page-${name}`;
    main.replaceChildren();
    const stopping = await page.show(main, app);
    if (mine === shown) stop = stopping;
    else stopping?.();
  } catch (err) {
    if (mine !== shown) return;
    replace(main, element('div', {class: 'notice error', role: 'alert'},
      element('p', {}, `This page could not be shown: ${err.message}`),
      element('button', {type: 'button', onclick: () => location.reload()}, 'Reload')));
  }
}

// theme is auto, light or dark; only a choice is kept.
const themes = ['auto', 'light', 'dark'];

function setTheme(name) {
  const root = document.documentElement;
  if (name === 'auto') delete root.dataset.theme;
  else root.dataset.theme = name;
  const button = document.getElementById('theme');
  button.textContent = {auto: '◐', light: '☀', dark: '☾'}[name];
  button.title = `Theme: ${name}`;
  button.setAttribute('aria-label', `Theme: ${name}. Change it`);
}

function theme() {
  const kept = ofBrowser.get('tgi.theme');
  return themes.includes(kept) ? kept : 'auto';
}

setTheme(theme());
document.getElementById('theme').addEventListener('click', () => {
  const next = themes[(themes.indexOf(theme()) + 1) % themes.length];
  ofBrowser.set('tgi.theme', next);
  setTheme(next);
});

function showKey() {
  const button = document.getElementById('key');
  button.classList.toggle('set', key.get() !== '');
  button.title = key.get() ? 'A key is used. Change it' : 'Use a key';
}
showKey();
addEventListener('tgi-key', showKey);
document.getElementById('key').addEventListener('click', () => askKey(key.get()));

for (const name of Object.keys(pages)) {
  const title = name[0].toUpperCase() + name.slice(1);
  document.getElementById('pages').append(element('a', {href: `#/${name}`, 'data-page': name}, title));
}
document.querySelector('.skip').addEventListener('click', (event) => { // the hash is the page's
  event.preventDefault();
  main.focus();
});
refuseFiles();
addEventListener('hashchange', navigate);
navigate();
