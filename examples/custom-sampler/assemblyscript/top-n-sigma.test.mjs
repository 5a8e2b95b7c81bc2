import assert from "node:assert/strict";
import { test } from "node:test";
import { Guest } from "../../../sdk/assemblyscript/test/host.mjs";

const open = () => new Guest(new URL("top-n-sigma.wasm", import.meta.url), []);

test("parameters", () => {
  for (const [params, want] of [
    ['{"n":0}', "n: want a number above 0, at most 100"],
    ['{"n":1e400}', "n: want a number above 0, at most 100"],
    ['{"n":"1"}', "want a JSON number for n"],
    ['{"sigma":1}', "unknown parameter: sigma"],
    ["{", "JSON ends too early"],
  ]) {
    assert.equal(open().validate(params), want, params);
  }
});

// The logits lie one standard deviation above and below their mean, so the
// lower two are two deviations away from the best.
test("shares", () => {
  for (const [params, want] of [
    ["{}", [0.5, 0.5, 0, 0]],
    ['{"n":1.9}', [0.5, 0.5, 0, 0]],
    ['{"n":2.1}', [0.4, 0.4, 0.1, 0.1]],
  ]) {
    const g = open();
    assert.equal(g.begin("sampler", params), "");
    const share = [0, 0, 0, 0];
    for (let i = 0; i < 10000; i++) share[g.sample([0.4, 0.4, 0.1, 0.1])] += 1e-4;
    want.forEach((w, i) => assert.ok(Math.abs(share[i] - w) < 0.02 && (w > 0 || share[i] === 0), `${params}: ${share}`));
  }
});
