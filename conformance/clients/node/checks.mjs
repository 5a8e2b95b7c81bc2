// What the scripts of this folder share; see checks.py in the folder beside it.

export const url = process.env.TGI_URL;
export const keyedURL = process.env.TGI_KEYED_URL;
export const key = process.env.TGI_KEY;

export const question = "Where does Mira live?";
export const answer = "old mill";
export const prompt = `<|im_start|>user\n${question}<|im_end|>\n<|im_start|>assistant\n`;
export const messages = [{ role: "user", content: question }];
export const dialects = ["tgi-0.6", "tgi-2.2", "tgi-3"];

// No token that ends a text.
export const endless = { 0: -100, 2: -100 };
export const longTokens = 900;

const checks = [];

export function check(name, f) {
  checks.push([name, f]);
}

export async function run() {
  for (const [name, f] of checks) {
    let error = "";
    try {
      await f();
    } catch (e) {
      const place = /[a-z]+\.mjs:\d+/.exec(e.stack.replaceAll(/.*checks\.mjs.*/g, ""));
      error = `${place}: ${e.name}: ${e.message}`;
    }
    console.log(JSON.stringify({ check: name, error }));
  }
}

export function same(got, want) {
  const [g, w] = [got, want].map((v) => JSON.stringify(v));
  if (g !== w) throw new Error(`got ${g}, want ${w}`);
}

export function holds(text, part) {
  if (!text?.includes(part)) throw new Error(`got ${JSON.stringify(text)}, want ${JSON.stringify(part)} in it`);
}

// raises returns the error of a kind that f rejects with, whose message must hold part.
export async function raises(kind, f, part = "") {
  try {
    await f();
  } catch (e) {
    if (!(e instanceof kind)) throw e;
    holds(e.message, part);
    return e;
  }
  throw new Error(`no ${kind.name}`);
}

export async function all(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

async function metric(name) {
  const text = await (await fetch(url + "/metrics")).text();
  const line = text.split("\n").find((l) => l.startsWith(name + " "));
  return line ? Number(line.slice(name.length)) : 0;
}

const dropped = () => metric('tgi_request_failure{err="dropped"}');
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// stops holds that the server drops the request when leave() leaves its stream. Some attempts: on a
// busy machine the text may be complete before the client has left.
export async function stops(leave) {
  for (let attempt = 0; attempt < 5; attempt++) {
    const before = await dropped();
    await leave();
    for (let i = 0; i < 3000 && (await metric("tgi_batch_current_size")) > 0; i++) await pause(20);
    for (let i = 0; i < 50; i++) {
      if ((await dropped()) > before) return;
      await pause(20);
    }
  }
  throw new Error("no request counts as dropped after the client left five streams");
}
