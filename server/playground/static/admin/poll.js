// Asking again and again: while the page is to be seen, less often while the server does not answer.
const longest = 30_000;

// poll calls ask(signal) every `every` milliseconds. It tells `failed(err, again)` of errors, with whether it goes on
// trying, and `failed(null)` when all is well again; a refusal is not tried again until there is another key. It
// returns {now, pause, stop}: now asks at once, and resolves when that is done; pause(true) asks no more until
// pause(false).
export function poll(ask, every, failed) {
  let timer = null, stopped = false, paused = false, running = null, failures = 0;
  const abort = new AbortController();

  function plan(wait) {
    clearTimeout(timer);
    timer = null;
    if (!stopped && !paused && !document.hidden) timer = setTimeout(now, wait);
  }

  async function once() {
    try {
      await ask(abort.signal);
      if (stopped) return;
      if (failures) failed(null);
      failures = 0;
      plan(every);
    } catch (err) {
      if (stopped || err.name === 'AbortError') return;
      const again = ![401, 403, 404, 405].includes(err.status);
      failed(err, again);
      if (again) plan(Math.min(Math.max(every, 1000) * 2 ** Math.min(failures++, 6), longest));
      else failures++;
    }
  }

  // now waits for what runs, and asks again after it: an answer that was on its way may be of before.
  async function now() {
    clearTimeout(timer);
    const before = running;
    const mine = (async () => {
      await before;
      if (!stopped) await once();
    })();
    running = mine;
    await mine;
    if (running === mine) running = null;
  }

  const turn = () => { if (document.hidden) clearTimeout(timer); else if (!paused && !stopped) now(); };
  document.addEventListener('visibilitychange', turn);
  addEventListener('tgi-key', turn);
  now();
  return {
    now,
    pause(on) {
      paused = on;
      if (on) clearTimeout(timer);
      else now();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      abort.abort();
      document.removeEventListener('visibilitychange', turn);
      removeEventListener('tgi-key', turn);
    },
  };
}
