// The vectors that the examples of all languages are tested with.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Guest } from "./host.mjs";

const built = process.env.TGI_GUESTS ?? new URL("../build/", import.meta.url).pathname;
const vectors = (name) => JSON.parse(readFileSync(new URL(`../../testdata/vectors/${name}.json`, import.meta.url)));
const open = (name, config) => new Guest(`${built}/${name}.wasm`, ["a"], JSON.stringify(config ?? {}));

/** What init or validate says against a case, or "". */
function fault(name, c) {
  try {
    return open(name, c.config).validate(JSON.stringify(c.request.params ?? {}));
  } catch (e) {
    return e.message;
  }
}

test("plain-chat", () => {
  for (const c of vectors("plain-chat")) {
    const refused = fault("plain-chat", c);
    if (refused) assert.equal(refused, c.error, c.about);
    else if (c.error) assert.throws(() => open("plain-chat", c.config).render(c.request), { message: c.error }, c.about);
    else {
      const want = { text: c.out.flat().join(""), data: c.out.filter(Array.isArray).flat() };
      assert.deepEqual(open("plain-chat", c.config).render(c.request), want, c.about);
    }
  }
});

const told = (e) => {
  assert.match(e.id, e.kind === "begin" ? /^call_[0-9A-Za-z]{24}$/ : /^$/);
  const index = e.index < 0 ? "-" : e.index;
  if (e.kind === "content" || e.kind === "reasoning") return `${e.kind} ${e.text}`;
  if (e.kind === "begin") return `begin ${index} ${e.name}`;
  if (e.kind === "end") return `end ${index}`;
  return e.kind === "failed" ? `failed ${index} ${e.reason} ${e.text}` : `${e.kind} ${index} ${e.text}`;
};

/** Joins events that say together what one would say. */
function joined(events) {
  const all = [];
  for (const e of events) {
    const last = all.at(-1);
    if (last && last.kind === e.kind && last.index === e.index && /content|reasoning|arguments/.test(e.kind)) last.text += e.text;
    else all.push({ ...e });
  }
  return all;
}

test("call-lines", () => {
  for (const c of vectors("call-lines")) {
    const refused = fault("call-lines", c);
    assert.equal(refused, c.error ?? "", c.about);
    if (refused) continue;
    for (const cut of [(s) => [s], (s) => [...s]]) {
      const g = open("call-lines", c.config);
      assert.equal(g.listen(c.request), "");
      const pieces = c.text.flatMap((p) => (Array.isArray(p) ? [p] : cut(p)));
      const events = pieces.flatMap((p) => (Array.isArray(p) ? g.feed(p[0], true) : g.feed(p)));
      events.push(...g.finish(c.cut));
      assert.deepEqual(joined(events).map(told), c.events, c.about);
    }
  }
});

test("picture", () => {
  for (const c of vectors("picture")) {
    const g = new Guest(`${built}/picture.wasm`, c.words);
    assert.equal(g.follow(c.request), c.error ?? "", c.about);
    if (c.error) continue;
    const masks = new Map(); // by key: of equal keys they are equal
    [null, ...c.tokens].forEach((id, i) => {
      if (id !== null) assert.ok(g.accept(id), c.about);
      assert.equal(g.allowed().join(" "), c.allowed[i], c.about);
      assert.deepEqual(g.forced(), c.forced[i], c.about);
      assert.equal(masks.get(g.key()) ?? c.allowed[i], c.allowed[i], c.about);
      masks.set(g.key(), c.allowed[i]);
    });
    assert.ok(!masks.has(0n), c.about);
    if (c.bad !== undefined) assert.ok(!g.accept(c.bad), c.about);
  }
  const g = new Guest(`${built}/picture.wasm`, ["a"]);
  assert.equal(g.validate('{"n":1}'), "the plugin takes no parameters");
});
