import assert from "node:assert/strict";
import { test } from "node:test";
import { Guest } from "../../sdk/assemblyscript/test/host.mjs";

const words = ["1", "23", "456", "-", " ", "a", "1x2", ".", "</s>"];
const file = new URL("no-long-numbers.wasm", import.meta.url);
const open = (config) => new Guest(file, words, config);
const [PASS, DENY] = [0, 2];

test("settings", () => {
  for (const [config, want] of [
    ['{"digits":0}', "digits: want a number from 1 to 20"],
    ['{"digits":21}', "digits: want a number from 1 to 20"],
    ['{"instead":""}', "instead: want a text of 1 to 256 tokens"],
    ['{"instead":"?"}', "instead: want a text of 1 to 256 tokens"],
    ['{"most":3}', "unknown setting: most"],
  ]) {
    assert.throws(() => open(config), { message: want }, config);
  }
  assert.equal(open("{}").validate('{"digits":20}'), "unknown parameter: digits");
});

// Each line: what has been written, and the words that may not follow it.
test("a number of at most three digits", () => {
  for (const [written, want] of [
    [[], []],
    ["1", ["456"]],
    ["23", ["23", "456"]],
    ["456", ["1", "23", "456", "1x2"]],
    ["23- 1", ["1", "23", "456", "1x2"]],
    ["456a", []],
    ["231x2", ["456"]],
  ]) {
    const g = open('{"digits":3}');
    assert.equal(g.begin("logits", "{}", [0, 1, 2]), "");
    g.step([], { view: [[5, 1]] });
    const a = g.step(g.encode(Buffer.from(written)), { view: [[5, 1]] });
    assert.equal(a.mode, DENY);
    assert.deepEqual(a.ids.map((id) => words[id]), want, written);
    assert.deepEqual(a.force, []);
  }
});

test("instead, once for each number", () => {
  const g = open('{"digits":3}');
  g.begin("logits", "{}");
  const one = { view: [[0, 1]] };
  assert.deepEqual(g.step([], one).force, []);
  let a = g.step([2], one);
  assert.deepEqual([a.mode, a.force], [PASS, [7, 7, 7]]);
  a = g.step([7, 7, 7], one);
  assert.deepEqual([a.mode, a.force], [DENY, []]);
  g.step([5], one);
  assert.deepEqual(g.step([2], one).force, [7, 7, 7]);
});
