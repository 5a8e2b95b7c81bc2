// A host for tests of plugins under node: instantiates a .wasm with a small
// vocabulary and feeds it step by step, or hands it conversations, or what a
// model writes. Layouts are those of ../../abi.

import { readFileSync } from "node:fs";

const text = new TextDecoder();
const bytes = new TextEncoder();

/** A plugin in memory of its own, ready for one sequence. */
export class Guest {
  constructor(file, words, config = "{}") {
    this.words = words.map((w) => bytes.encode(w));
    this.seed = 1n;
    this.lines = [];
    const module = new WebAssembly.Module(readFileSync(file));
    this.exports = new WebAssembly.Instance(module, { tgi: this.imports() }).exports;
    this.exports._initialize?.();
    this.description = JSON.parse(this.unpack(this.exports.tgi_describe()));
    const fault = this.handed("tgi_init", config);
    if (fault) throw new Error(fault);
  }

  get memory() {
    return new DataView(this.exports.memory.buffer);
  }

  read(at, size) {
    return new Uint8Array(this.exports.memory.buffer, at >>> 0, size >>> 0).slice();
  }

  unpack(v) {
    const u = BigInt.asUintN(64, v);
    return text.decode(this.read(Number(u >> 32n), Number(u & 0xffffffffn)));
  }

  hand(b) {
    const at = this.exports.tgi_alloc(b.length) >>> 0;
    new Uint8Array(this.exports.memory.buffer).set(b, at);
    return at;
  }

  handed(name, json, ...more) {
    const b = bytes.encode(json);
    return this.unpack(this.exports[name](this.hand(b), b.length, ...more));
  }

  /** Validates parameters; returns the fault or "". Use the guest for nothing else after it. */
  validate(params) {
    return this.handed("tgi_validate", params);
  }

  /** Begins a sequence of a kind; returns the fault or "". */
  begin(kind, params, prompt = []) {
    this.tokens = [...prompt];
    this.prompt = this.known = prompt.length;
    this.room = this.exports.tgi_alloc(4096) >>> 0;
    return this.handed(`tgi_${kind}_begin`, params, this.room, prompt.length);
  }

  /** One step; view is [[id, logit]...]. Throws the fault of a step that fails. */
  step(chosen = [], { view = [], row = [] } = {}) {
    this.tokens.push(...chosen);
    const at = this.exports.tgi_logits_step() >>> 0;
    const viewAt = this.exports.tgi_alloc(view.length * 8) >>> 0;
    const rowAt = this.exports.tgi_alloc(row.length * 4) >>> 0;
    const m = this.memory;
    this.tokens.forEach((t, i) => m.setUint32(this.room + 4 * i, t, true));
    view.forEach(([id, logit], i) => (m.setUint32(viewAt + 8 * i, id, true), m.setFloat32(viewAt + 8 * i + 4, logit, true)));
    row.forEach((logit, i) => m.setFloat32(rowAt + 4 * i, logit, true));
    const n = this.tokens.length;
    [64, this.room, n, this.prompt, n - this.known, viewAt, view.length, rowAt, row.length, 0, 0, 0, 0, 0x7fc00000, 0, 0].forEach((v, i) =>
      m.setUint32(at + 4 * i, v, true),
    );
    this.known = n;
    const status = this.exports.tgi_logits_process(at);
    const field = (i) => this.memory.getUint32(at + i, true);
    if (status) throw new Error(text.decode(this.read(field(40), field(44))));
    const [mode, out, count] = [field(36), field(40), field(44)];
    return {
      mode,
      ids: mode === 1 || mode === 2 || mode === 4 ? this.u32s(out, count) : [],
      entries: mode === 3 || mode === 5 ? this.entries(out, count) : [],
      row: mode === 6 ? Array.from({ length: count }, (_, i) => this.memory.getFloat32(out + 4 * i, true)) : [],
      only: (field(48) & 1) !== 0,
      stop: (field(48) & 2) !== 0,
      temperature: this.memory.getFloat32(at + 52, true),
      force: this.u32s(field(56), field(60)),
    };
  }

  u32s(at, n) {
    return Array.from({ length: n }, (_, i) => this.memory.getUint32(at + 4 * i, true));
  }

  entries(at, n) {
    return Array.from({ length: n }, (_, i) => [this.memory.getUint32(at + 8 * i, true), this.memory.getFloat32(at + 8 * i + 4, true)]);
  }

  /** What a draft guesses behind the tokens so far and chosen; throws the fault of one that fails. */
  propose(chosen = [], most = 32) {
    this.tokens.push(...chosen);
    this.guesses ??= this.exports.tgi_alloc(4 * 32) >>> 0;
    const m = this.memory;
    this.tokens.forEach((t, i) => m.setUint32(this.room + 4 * i, t, true));
    const n = this.tokens.length;
    const count = this.exports.tgi_draft_propose(this.room, n, n - this.known, this.guesses, most);
    this.known = n;
    if (count < 0) throw new Error(this.lines[this.lines.length - 1]);
    return this.u32s(this.guesses, count);
  }

  /** The index that a sampler picks of tokens with these probabilities, which must fall. */
  sample(probabilities) {
    const at = this.exports.tgi_alloc(12 * probabilities.length) >>> 0;
    const m = this.memory;
    probabilities.forEach((p, i) => {
      m.setUint32(at + 12 * i, i, true);
      m.setFloat32(at + 12 * i + 4, Math.log(p), true);
      m.setFloat32(at + 12 * i + 8, Math.log(p), true);
    });
    return this.exports.tgi_sampler_sample(at, probabilities.length);
  }

  /** Renders a conversation: the text, and the stretches of it that are data. Throws the template's refusal. */
  render(request) {
    const b = bytes.encode(JSON.stringify(request));
    const at = this.exports.tgi_template_render(this.hand(b), b.length) >>> 0;
    const [status, textAt, size, spans, count] = this.u32s(at, 5);
    const out = this.read(textAt, size);
    if (status) throw new Error(text.decode(out));
    const ends = this.u32s(spans, 2 * count);
    const data = Array.from({ length: count }, (_, i) => text.decode(out.slice(ends[2 * i], ends[2 * i + 1])));
    return { text: text.decode(out), data };
  }

  /** Begins to parse what a model writes; returns the fault or "". */
  listen(request) {
    this.piece = this.exports.tgi_alloc(65536) >>> 0;
    return this.handed("tgi_tools_begin", JSON.stringify(request));
  }

  /** The events of a piece. */
  feed(piece, special = false) {
    const b = bytes.encode(piece);
    new Uint8Array(this.exports.memory.buffer).set(b, this.piece);
    return this.events(this.exports.tgi_tools_feed(this.piece, b.length, special ? 1 : 0));
  }

  /** The events of the text's end. */
  finish(cut = false) {
    return this.events(this.exports.tgi_tools_finish(cut ? 1 : 0));
  }

  events(packed) {
    const u = BigInt.asUintN(64, packed);
    const names = ["content", "reasoning", "begin", "arguments", "end", "failed"];
    return Array.from({ length: Number(u & 0xffffffffn) }, (_, i) => {
      const [kind, index, at, n, nameAt, nameBytes, idAt, idBytes, reason] = this.u32s(Number(u >> 32n) + 36 * i, 9);
      const of = (from, size) => text.decode(this.read(from, size));
      return { kind: names[kind], index: index === 0xffffffff ? -1 : index, text: of(at, n), name: of(nameAt, nameBytes), id: of(idAt, idBytes), reason };
    });
  }

  /** Begins a text that is held to a grammar, in the mode "steps"; returns the fault or "". */
  follow(request) {
    this.masks = this.exports.tgi_alloc(4 * Math.ceil(this.words.length / 32)) >>> 0;
    this.chosen = this.exports.tgi_alloc(4) >>> 0;
    return this.handed("tgi_grammar_begin", JSON.stringify(request));
  }

  /** Moves on by a token; false where it may not come. */
  accept(id) {
    this.memory.setUint32(this.chosen, id, true);
    return this.exports.tgi_grammar_accept(this.chosen, 1) === 0;
  }

  /** The words that may come next. */
  allowed() {
    const all = this.exports.tgi_grammar_mask(this.masks) === 2;
    const bits = this.u32s(this.masks, Math.ceil(this.words.length / 32));
    return this.words.filter((_, id) => all || (bits[id >> 5] >>> (id & 31)) & 1).map((w) => text.decode(w));
  }

  /** The tokens that come next whatever the model says. */
  forced() {
    const u = BigInt.asUintN(64, this.exports.tgi_grammar_forced());
    return this.u32s(Number(u >> 32n), Number(u & 0xffffffffn));
  }

  /** The name of the state, 0n for none. */
  key() {
    return BigInt.asUintN(64, this.exports.tgi_grammar_key());
  }

  imports() {
    return {
      log: (level, at, n) => this.lines.push(text.decode(this.read(at, n))),
      vocab_size: () => this.words.length,
      token_bytes: (id, at, room) => {
        const w = this.words[id >>> 0];
        if (!w) return -1;
        if (w.length <= room >>> 0) new Uint8Array(this.exports.memory.buffer).set(w, at >>> 0);
        return w.length;
      },
      token_flags: (id) => {
        const w = this.words[id >>> 0] && text.decode(this.words[id >>> 0]);
        return w === undefined ? -1 : w === "</s>" ? 3 : /^<.+>$/s.test(w) ? 1 : 0;
      },
      encode: (at, n, to, room) => {
        const ids = this.encode(this.read(at, n));
        if (ids && ids.length <= room >>> 0) ids.forEach((id, i) => this.memory.setUint32((to >>> 0) + 4 * i, id, true));
        return ids ? ids.length : -1;
      },
      rand_u64: () => this.rand(),
    };
  }

  /** The longest word that fits, from left to right. */
  encode(b) {
    const ids = [];
    for (let at = 0; at < b.length; ) {
      let best = -1;
      this.words.forEach((w, id) => {
        if (w.length > (best < 0 ? 0 : this.words[best].length) && w.every((c, i) => b[at + i] === c)) best = id;
      });
      if (best < 0) return null;
      ids.push(best);
      at += this.words[best].length;
    }
    return ids;
  }

  /** SplitMix64. */
  rand() {
    const u = (v) => BigInt.asUintN(64, v);
    this.seed = u(this.seed + 0x9e3779b97f4a7c15n);
    let z = this.seed;
    z = u((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = u((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return z ^ (z >> 31n);
  }
}
