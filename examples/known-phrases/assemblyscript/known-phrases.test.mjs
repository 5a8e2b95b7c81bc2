import assert from "node:assert/strict";
import { test } from "node:test";
import { Guest } from "../../../sdk/assemblyscript/test/host.mjs";

const open = () => new Guest(new URL("known-phrases.wasm", import.meta.url), ["a", "b", "c", "d", "e", "</s>"]);

test("guesses what follows in a phrase", () => {
  const g = open();
  assert.equal(g.begin("draft", '{"phrases": ["abcde", "bbca"]}'), "");
  assert.deepEqual(g.propose([4, 0, 1, 2]), [3, 4]);
  assert.deepEqual(g.propose([], 1), [3]);
  assert.deepEqual(g.propose([1, 1, 2]), [0]);
  assert.deepEqual(g.propose([2, 2]), []);
});

test("parameters", () => {
  const many = JSON.stringify({ phrases: Array(65).fill("a") });
  const long = JSON.stringify({ phrases: ["a".repeat(8193)] });
  for (const bad of ['{"phrases": [1]}', '{"phrase": []}', "{", many, long]) assert.notEqual(open().validate(bad), "", bad);
  assert.equal(open().validate(JSON.stringify({ phrases: Array(64).fill("a") })), "");
});
