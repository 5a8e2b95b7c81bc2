import assert from "node:assert/strict";
import { test } from "node:test";
import { Watched } from "./guard.mjs";
import { Scripted } from "./program.mjs";

const built = process.env.TGI_GUESTS ?? new URL("../build/", import.meta.url).pathname;

test("banned-strings takes texts back", () => {
  const open = () => new Watched(`${built}/banned-strings.wasm`, ["a", " de", "lve", " x", "</s>", "lta", "d"]);
  const g = open();
  assert.equal(g.watch('{"strings": ["delve", "delta"]}', [0]), "");
  for (const [token, reason, verdict, shown, left] of [
    [0, 0, "release", "a", 2],
    [1, 0, "release", "a", 3], // it may be the beginning
    [2, 0, "rewind", "a", 2],
    [1, 0, "release", "a", 3],
    [5, 0, "rewind", "a", 2],
    [1, 0, "release", "a", 3],
    [3, 0, "release", "a de x", 4],
    [6, 0, "release", "a de x", 5],
    [4, 1, "release", "a de xd", 6], // nothing more comes
  ]) {
    const v = g.push(token, reason);
    assert.deepEqual([v.verdict, g.shown, g.tokens.length], [verdict, shown, left]);
  }
  for (const bad of ['{"strings": [""]}', '{"strings": [7]}', '{"ban": []}', "{"]) assert.notEqual(open().validate(bad), "", bad);
  assert.equal(open().validate("{}"), "");
});

test("a guard says its edits", () => {
  const g = new Watched(`${built}/edits.wasm`, ["a", "x", "bxyxcxé"]);
  assert.equal(g.watch("{}", [0]), "");
  for (const [token, edits, shown] of [
    [0, undefined, "a"],
    [2, 4, "ab<é><é>c<é>é"],
    [1, 1, "ab<é><é>c<é>é<é>"],
    [0, undefined, "ab<é><é>c<é>é<é>a"],
  ]) {
    const v = g.push(token);
    assert.deepEqual([v.edits?.length, g.shown], [edits, shown]);
  }
});

test("edits that the server refuses are an error", () => {
  for (const [word, error] of [
    ["!", /edit 0 takes bytes 0 to 2, want them in order from 0 to 1/],
    ["!é", /edit 0 takes bytes 0 to 2, which are no whole characters/],
    ["!x", /edit 1 takes bytes 1 to 2, want them in order from 2 to 2/],
    ["!?x", undefined],
    ["!!?", /edit 1 takes bytes 1 to 3, want them in order from 2 to 3/],
  ]) {
    const g = new Watched(`${built}/edits.wasm`, [word]);
    assert.equal(g.watch("{}", []), "");
    if (error) assert.throws(() => g.push(0), error);
    else assert.equal(g.push(0) && g.shown, "<é>");
  }
});

test("think-then-answer thinks within a budget", () => {
  const words = ["Q", " hm", "</think>", " 4", "\nTime is up.\n", "hint", "</s>"];
  const open = () => new Scripted(`${built}/think-then-answer.wasm`, words);
  const next = (thoughts) => (t) => (t === "Q" ? thoughts : " 4");
  // it comes to an end: the markup is special here, so it has no text
  let r = open().run({ budget: 9 }, "Q", next(" hm hm</think> more"));
  assert.deepEqual([r.text, r.fault], [" hm hm 4", ""]);
  assert.deepEqual(r.runs, [{ grammar: null, stop: ["</think>"], emit: true, max_tokens: 9 }, { emit: true }]);
  // it does not: it is told, and answers
  r = open().run({ budget: 2 }, "Q", next(" hm hm hm</think>"));
  assert.deepEqual([r.text, r.fault], [" hm hm\nTime is up.\n 4", ""]);
  r = open().run({ budget: 2, hint: "hint" }, "Q", next(" hm hm hm</think>"));
  assert.equal(r.text, " hm hmhint 4");
  // it ends its text
  r = open().run({}, "Q", next(" 4"));
  assert.deepEqual([r.text, r.runs.length], [" 4", 1]);
  // where the request has a grammar, the thoughts stay here
  for (const [budget, said, before] of [
    [9, " hm</think>", "Q hm"],
    [1, " hm hm", "Q hm\nTime is up.\n"],
    [9, " hm", "Q hm"],
  ]) {
    const guest = open();
    guest.grammar = " 4";
    r = guest.run({ budget }, "Q", (t) => (t === before ? " 4" : said));
    assert.deepEqual([r.text, r.fault], [" 4", ""]);
    assert.deepEqual(r.runs, [{ grammar: null, max_tokens: budget, stop: ["</think>"] }, { emit: true }]);
  }
  // where the budget ends inside a call of a tool, or of what may be one, that is finished; behind a call nothing is put
  const tools = ["Q", " [", "tool]", " x", "[/tool]", " 4", "\nTime is up.\n", "</think>", "</s>"];
  const calls = (t) => (t.endsWith("[/tool]") || t.endsWith(" 4") ? 2 : t.endsWith(" [") || t.includes("tool]") ? 1 : 0);
  for (const [said, want] of [
    [" [tool] x x x[/tool]", " [tool] x x x[/tool]"], // the model ends its text there
    [" [tool] x x[/tool] 4 4 4", " [tool] x x[/tool] 4 4 4"], // and here it goes on
    [" [ x x x", " [ x\nTime is up.\n 4"],
    [" x x x", " x\nTime is up.\n 4"],
  ]) {
    const goesOn = (t) => (t.includes("Time is up") ? " 4" : said.slice(t.length - 1));
    r = new Scripted(`${built}/think-then-answer.wasm`, tools).run({ budget: 1 }, "Q", goesOn, () => -1, calls);
    assert.deepEqual([r.text, r.fault], [want, ""]);
  }
  // a model without a token for the usual end of thoughts answers, unless the end is named
  const unmarked = ["Q", " 4", " up", "</", "think>", "</s>"];
  for (const [end, want] of [
    [{}, " 4 4"],
    [{ end: "</think>" }, " 4 up</think> 4 4"],
  ]) {
    r = new Scripted(`${built}/think-then-answer.wasm`, unmarked).run({ budget: 1, hint: " up", ...end }, "Q", () => " 4 4");
    assert.deepEqual([r.text, r.fault], [want, ""]);
  }
  // what the server refuses fails the text
  r = open().run({ budget: 1, hint: "elsewhere" }, "Q", next(" hm hm"));
  assert.equal(r.fault, "the text is not in the vocabulary");
  for (const bad of ['{"budget": 0}', '{"budget": 1.5}', '{"end": ""}', '{"x": 1}']) assert.notEqual(open().validate(bad), "", bad);
  assert.equal(open().validate('{"budget": 3, "end": "</t>"}'), "");
});
