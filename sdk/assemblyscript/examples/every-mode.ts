// every-mode: returns results in every mode, as its parameters say, and checks that
// the host keeps to the binary interface. It is for tests of servers and SDKs.
//
//   mode         "pass" (default), "allow", "deny", "sparse", "bitmask", "topk", "row"
//   ids          the tokens of the result; bias (default 1): added to their logits
//                by sparse, topk and row; only: deny all others (sparse, topk)
//   stop_at, fail_at, trap_at, force_at: number of an output token, from 0
//   force        tokens that are forced at force_at
//   temperature  of every step
//   pick         sampler: index of the candidate; random: any candidate

import { Candidates, describe, Entries, logits, Processor, rand, Reader, sampler, Sampler, Step, Tokens, vocabSize } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/logits";
export * from "../assembly/exports/sampler";

const modes: string[] = ["pass", "allow", "deny", "sparse", "bitmask", "topk", "row"];
const ALLOW = 1;
const DENY = 2;
const SPARSE = 3;
const BITMASK = 4;
const VIEW = 5;
const ROW = 6;
const MOST = 256;

class Options {
  mode: i32 = 0;
  ids: StaticArray<u32> = new StaticArray<u32>(0);
  forced: StaticArray<u32> = new StaticArray<u32>(0);
  stopAt: u32 = u32.MAX_VALUE;
  failAt: u32 = u32.MAX_VALUE;
  trapAt: u32 = u32.MAX_VALUE;
  forceAt: u32 = u32.MAX_VALUE;
  pick: u32 = 0;
  only: bool = false;
  random: bool = false;
  bias: f32 = 1;
  temperature: f32 = NaN;
}

function list(r: Reader): StaticArray<u32> {
  const ids: u32[] = [];
  for (r.array(); r.item(); ) {
    ids.push(r.uint());
    if (ids.length > MOST) r.fail("more than 256 tokens");
  }
  return StaticArray.fromArray<u32>(ids);
}

function option(o: Options, r: Reader, key: string): void {
  if (key == "mode") {
    o.mode = modes.indexOf(r.string());
    if (o.mode < 0) r.fail("mode: no such mode");
  } else if (key == "ids") o.ids = list(r);
  else if (key == "force") o.forced = list(r);
  else if (key == "bias") o.bias = <f32>r.number();
  else if (key == "only") o.only = r.boolean();
  else if (key == "random") o.random = r.boolean();
  else if (key == "stop_at") o.stopAt = r.uint();
  else if (key == "fail_at") o.failAt = r.uint();
  else if (key == "trap_at") o.trapAt = r.uint();
  else if (key == "force_at") o.forceAt = r.uint();
  else if (key == "pick") o.pick = r.uint();
  else if (key == "temperature") o.temperature = <f32>r.number();
  else r.fail("unknown parameter: " + key);
}

function read(r: Reader): Options {
  const o = new Options();
  for (r.object(); r.key(); ) option(o, r, r.name);
  if (r.close()) return o;
  const n = vocabSize();
  for (let i = 0; i < o.ids.length; i++) if (o.ids[i] >= n) r.fail("no such token id");
  for (let i = 0; i < o.forced.length; i++) if (o.forced[i] >= n) r.fail("no such token id");
  return o;
}

// These show whether this memory has served a sequence before.
let begunLogits = false;
let begunSampler = false;
const USED = "this memory has served another sequence";

class EveryMode extends Processor {
  private words: StaticArray<u32> = new StaticArray<u32>((vocabSize() + 31) / 32);
  private entries: Entries = new Entries();

  constructor(private o: Options, private seen: i32) {
    super();
    for (let i = 0; i < o.ids.length; i++) {
      const id = o.ids[i];
      this.entries.push(id, o.bias);
      this.words[id / 32] |= 1 << (id % 32);
    }
  }

  process(s: Step): string | null {
    if (s.tokenCount < s.promptCount || s.tokenCount - s.newCount != this.seen) {
      return "host: new_count does not go on from the last call";
    }
    this.seen = s.tokenCount;
    const o = this.o;
    const at = <u32>(s.tokenCount - s.promptCount);
    if (at == o.trapAt) throw new Error("asked to trap");
    if (at == o.failAt) return "asked to fail at " + at.toString();
    if (at == o.stopAt) s.stop();
    if (at == o.forceAt) s.force(o.forced);
    if (!isNaN(o.temperature)) s.temperature(o.temperature);
    return this.result(s);
  }

  private result(s: Step): string | null {
    const o = this.o;
    if (o.mode == ALLOW) s.allow(o.ids);
    else if (o.mode == DENY) s.deny(o.ids);
    else if (o.mode == SPARSE) s.bias(this.entries);
    else if (o.mode == BITMASK) s.mask(this.words);
    else if (o.mode == VIEW) {
      if (!s.viewCount) return "host: the view is missing";
      s.editView(this.edit(s));
    } else if (o.mode == ROW) {
      if (<u32>s.rowCount != vocabSize()) return "host: the row is missing";
      for (let i = 0; i < o.ids.length; i++) s.setLogit(o.ids[i], s.logit(o.ids[i]) + o.bias);
      s.editRow();
    }
    if (o.only && (o.mode == SPARSE || o.mode == VIEW)) s.only();
    return null;
  }

  /** Adds the bias to ids in the view. With only it drops the other entries. */
  private edit(s: Step): i32 {
    let kept = 0;
    for (let i = 0; i < s.viewCount; i++) {
      const id = s.viewID(i);
      let logit = s.viewLogit(i);
      if (this.o.ids.includes(id)) logit += this.o.bias;
      else if (this.o.only) continue;
      s.setView(kept++, id, logit);
    }
    return kept;
  }
}

class Picker extends Sampler {
  constructor(private o: Options) {
    super();
  }

  sample(c: Candidates): i32 {
    if (this.o.random) return <i32>(((rand() >> 32) * c.length) >> 32);
    return <i32>min<u32>(this.o.pick, c.length - 1);
  }
}

describe(
  '{"name":"every-mode","version":"1.0.0","kinds":["logits","sampler"],' +
    '"doc":"Does what its parameters say, for tests.",' +
    '"modes":["allow","deny","sparse","bitmask","topk","row","stop","force","temperature"],' +
    '"needs":["topk:16","row"],"candidates":64}',
);

logits((r: Reader, prompt: Tokens): Processor => {
  if (begunLogits) r.fail(USED);
  begunLogits = true;
  const o = read(r);
  if (r.failed) o.ids = new StaticArray<u32>(0);
  return new EveryMode(o, prompt.length);
});

sampler((r: Reader, prompt: Tokens): Sampler => {
  if (begunSampler) r.fail(USED);
  begunSampler = true;
  return new Picker(read(r));
});
