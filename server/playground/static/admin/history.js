// Readings of GET /admin/live, and what lies between two of them.

// between returns what a model did from one reading to the next, per second; null where it was loaded again.
function between(before, now, seconds) {
  if (!before || seconds <= 0 || now.steps < before.steps || now.generated_tokens < before.generated_tokens ||
    now.prefill_tokens < before.prefill_tokens) return null;
  const steps = now.steps - before.steps, prompt = now.prompt_tokens - before.prompt_tokens;
  return {
    generated: (now.generated_tokens - before.generated_tokens) / seconds,
    prefill: (now.prefill_tokens - before.prefill_tokens) / seconds,
    steps: steps / seconds,
    stepTime: steps ? (now.step_seconds - before.step_seconds) / steps : null,
    hits: prompt > 0 ? (now.cached_tokens - before.cached_tokens) / prompt : null,
  };
}

// history keeps the last `most` readings of the models. add(live) takes a reading; of(id) returns lists of what a chart
// shows of a model, or of all together where id is ''.
export function history(most) {
  let readings = [], before = null;

  function add(live) {
    const seconds = before ? (Date.parse(live.at) - Date.parse(before.at)) / 1000 : 0;
    const models = new Map();
    for (const m of live.models) {
      const past = before?.models.find((b) => b.id === m.id);
      models.set(m.id, {now: m, rates: between(past, m, seconds)});
    }
    readings = [...readings, models].slice(-most);
    before = live;
  }

  const sum = (list) => (list.length ? list.reduce((a, b) => a + b, 0) : null);

  function of(id) {
    const chosen = (models) => [...models.values()].filter((m) => !id || m.now.id === id);
    const rates = (name) => readings.map((models) => sum(chosen(models).map((m) => m.rates?.[name] ?? null)
      .filter((v) => v !== null)));
    const values = (read) => readings.map((models) => sum(chosen(models).map((m) => read(m.now))));
    return {
      generated: rates('generated'), prefill: rates('prefill'), steps: rates('steps'),
      stepTime: readings.map((models) => {
        const times = chosen(models).map((m) => m.rates?.stepTime ?? null).filter((v) => v !== null);
        return times.length ? Math.max(...times) : null;
      }),
      running: values((m) => m.running), waiting: values((m) => m.waiting),
      used: values((m) => m.cache?.used ?? 0), cached: values((m) => m.cache?.cached ?? 0),
      total: values((m) => m.cache?.total ?? 0),
      hits: readings.map((models) => {
        const all = chosen(models).map((m) => m.rates?.hits ?? null).filter((v) => v !== null);
        return all.length ? all.reduce((a, b) => a + b, 0) / all.length : null;
      }),
    };
  }
  return {add, of};
}
