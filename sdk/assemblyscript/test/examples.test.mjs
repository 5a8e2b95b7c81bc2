import assert from "node:assert/strict";
import { test } from "node:test";
import { Guest } from "./host.mjs";

const built = process.env.TGI_GUESTS ?? new URL("../build/", import.meta.url).pathname;
const words = ["a", "b", "ab", " the", "<s>", "</s>", "é", '"', "😀"];
const open = (name, w = words) => new Guest(`${built}/${name}.wasm`, w);

test("banned-and-boost names faults", () => {
  for (const [params, want] of [
    ["", "want a JSON object"],
    ["{", "JSON ends too early"],
    ["{} x", "something follows the JSON value"],
    ['{"ban":[9]}', "ban: no such token id"],
    ['{"ban":[1.5]}', "ban: no such token id"],
    ['{"ban":[01]}', "a bad JSON number"],
    ['{"ban":["aab"]}', "ban: want the text of one token, not aab"],
    ['{"ban":[""]}', "ban: want the text of one token, not "],
    ['{"ban":[true]}', "want a JSON number for ban"],
    ['{"ban":[1 2]}', "want a comma in JSON"],
    ['{"ban":["\\q"]}', "a bad escape in a JSON string"],
    ['{"ban":["\\u12"]}', "a bad escape in a JSON string"],
    ['{"ban":["a', "a JSON string has no end"],
    ['{"ban":["a\\', "a JSON string has no end"],
    ['{"ban":["a\n"]}', "a control character in a JSON string"],
    ['{"boost":{"#9":1}}', "boost: no such token id"],
    ['{"boost":{"a":101}}', "boost: want a bias from -100 to 100 for a"],
    ['{"boost":{"a":1e400}}', "boost: want a bias from -100 to 100 for a"],
    ['{"boost":{"a" 1}}', "want a colon in JSON"],
    ['{"bann":[]}', "unknown parameter: bann"],
    ['{"only":[1],"ban":["b"]}', "only: every token of it is banned"],
    ["[".repeat(70), "want a JSON object"],
  ]) {
    assert.equal(open("banned-and-boost").validate(params), want, params);
  }
});

test("banned-and-boost answers in the cheapest mode", () => {
  const step = (params) => {
    const g = open("banned-and-boost");
    assert.equal(g.begin("logits", params, [0, 3]), "");
    return g.step();
  };
  assert.equal(step("{}").mode, 0);
  let a = step('{"ban":[1,"\\u00e9","\\ud83d\\ude00","\\""]}');
  assert.deepEqual([a.mode, a.ids], [2, [1, 6, 8, 7]]);
  a = step('{"ban":[1],"boost":{"ab":-1.25e+1,"b":3,"#3":0.5}}');
  assert.deepEqual([a.mode, a.entries, a.only], [3, [[1, -Infinity], [2, -12.5], [3, 0.5]], false]);
  a = step('{"only":[0,1,"</s>"],"ban":[1]}');
  assert.deepEqual([a.mode, a.ids], [1, [0, 5]]);
  a = step('{"only":[0,1],"boost":{"a":2,"ab":2}}');
  assert.deepEqual([a.mode, a.entries, a.only], [3, [[0, 0], [1, 0], [0, 2]], true]);
});

test("epsilon-greedy", () => {
  for (const bad of ['{"epsilon":1.5}', '{"epsilon":-1}', '{"margin":-1}', '{"eps":1}', "{"]) {
    assert.notEqual(open("epsilon-greedy").validate(bad), "", bad);
  }
  for (const [params, want] of [
    ['{"epsilon":0}', [0]],
    ['{"epsilon":1,"margin":1}', [0, 1]],
    ['{"epsilon":1,"margin":9}', [0, 1, 2]],
  ]) {
    const g = open("epsilon-greedy");
    assert.equal(g.begin("sampler", params), "");
    const seen = new Set();
    for (let i = 0; i < 100; i++) seen.add(g.sample([0.5, 0.4, 0.1]));
    assert.deepEqual([...seen].sort(), want, params);
  }
});

test("every-mode", () => {
  const wide = Array.from({ length: 40 }, (_, i) => `w${i}`);
  const names = ["pass", "allow", "deny", "sparse", "bitmask", "topk", "row"];
  for (const [mode, name] of names.entries()) {
    const g = open("every-mode", wide);
    assert.equal(g.begin("logits", `{"mode":"${name}","ids":[0,5,33],"bias":2,"only":true}`, [0]), "");
    const a = g.step([], { view: [[33, 4], [2, 1]], row: new Array(40).fill(0) });
    assert.equal(a.mode, mode);
    assert.equal(a.only, mode === 3 || mode === 5);
    if (mode === 4) assert.deepEqual(a.ids, [0x21, 2]);
    if (mode === 5) assert.deepEqual(a.entries, [[33, 6]]);
    if (mode === 6) assert.deepEqual([a.row[33], a.row[1]], [2, 0]);
  }
  const g = open("every-mode", wide);
  g.begin("logits", '{"stop_at":2,"force":[3,4],"force_at":0,"temperature":0.5,"fail_at":3,"trap_at":4}', [0]);
  let a = g.step();
  assert.deepEqual([a.force, a.stop, a.temperature], [[3, 4], false, 0.5]);
  a = g.step([3, 4]);
  assert.deepEqual([a.force, a.stop], [[], true]);
  assert.throws(() => g.step([5]), /^Error: asked to fail at 3$/);
  assert.throws(() => g.step([6]), WebAssembly.RuntimeError);
  assert.match(g.lines.at(-1), /^asked to trap in .*every-mode\.ts line/);
  assert.equal(g.begin("logits", "{}"), "this memory has served another sequence");
});
