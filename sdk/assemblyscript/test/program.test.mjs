import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Scripted } from "./program.mjs";

test("a program asks about many contexts, and its runs have plugins", (t) => {
  const dir = mkdtempSync(join(tmpdir(), "asks-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "asks.wasm");
  const root = new URL("../", import.meta.url);
  execFileSync("node_modules/.bin/asc", ["testdata/asks.ts", "--config", "asconfig.json", "--outFile", file], { cwd: root });
  const r = new Scripted(file, ["Q", " a", " b", "</s>"]).run({}, "Q", () => " a b");
  assert.deepEqual([r.fault, r.text, r.asked], ["", " a", ["", " a b", " b"]]);
  assert.deepEqual(r.runs, [
    { plugins: [{ name: "z" }] },
    { min_p: 0.25, max_tokens: 1, emit: true, plugins: [{ name: "x", params: { a: 1 } }, { name: 'y"' }] },
  ]);
});
