// Texts that the browser keeps: for this tab, until it is closed, or for all tabs and longer. Where it keeps nothing,
// as with cookies switched off, they live as long as the page.
function store(open) {
  const here = new Map();
  let kept = null;
  try {
    kept = open();
  } catch { /* storage is off */ }
  return {
    get: (name) => here.get(name) ?? kept?.getItem(name) ?? '',
    // set returns whether there was room; an empty text keeps nothing.
    set(name, text) {
      here.delete(name);
      if (!kept) here.set(name, text);
      else if (!text) kept.removeItem(name);
      else {
        try {
          kept.setItem(name, text);
        } catch {
          return false;
        }
      }
      return true;
    },
    // hold is set for a text that is needed: where there is no room for it, it lives as long as the page.
    hold(name, text) {
      if (this.set(name, text)) return;
      kept.removeItem(name); // an older one
      here.set(name, text);
    },
  };
}

export const ofTab = store(() => sessionStorage);
export const ofBrowser = store(() => localStorage);
