import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Scripted } from "./program.mjs";

const root = new URL("../", import.meta.url);

/** Compiles a program of testdata. */
function scripted(t, name) {
  const dir = mkdtempSync(join(tmpdir(), `${name}-`));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, `${name}.wasm`);
  execFileSync("node_modules/.bin/asc", [`testdata/${name}.ts`, "--config", "asconfig.json", "--outFile", file], { cwd: root });
  return new Scripted(file, ["Q", " a", " b", "</s>"]);
}

test("a program asks about many contexts, and its runs have plugins", (t) => {
  const r = scripted(t, "asks").run({}, "Q", () => " a b");
  assert.deepEqual([r.fault, r.text, r.asked], ["", " a", ["", " a b", " b"]]);
  assert.deepEqual(r.runs, [
    { plugins: [{ name: "z" }] },
    { min_p: 0.25, max_tokens: 1, emit: true, plugins: [{ name: "x", params: { a: 1 } }, { name: 'y"' }] },
  ]);
});

test("a run begins with no token that it is denied, and the end of one can be emitted", (t) => {
  const r = scripted(t, "denies").run({}, "Q", (text) => (text === "Q" ? " a" : ""));
  assert.deepEqual([r.fault, r.text, r.runs[1]], ["", " a", { deny: [2, 3] }]);
});
