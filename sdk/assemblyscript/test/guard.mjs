// A guest of kind guard in tests: shows it tokens, does what it says, and tells what a client has. See host.mjs.

import { Guest } from "./host.mjs";

const text = new TextDecoder();
const verdicts = ["release", "rewind", "insert", "replace", "stop"];

export class Watched extends Guest {
  /** Starts a sequence; returns the fault or "". */
  watch(params, prompt = []) {
    const fault = this.begin("guard", params, prompt);
    prompt.forEach((t, i) => this.memory.setUint32(this.room + 4 * i, t, true));
    this.released = prompt.length;
    this.seen = 0; // bytes of the text that went out, or were replaced
    this.shown = "";
    return fault;
  }

  /** Shows the guard a token and does what it says, but for biases: what is taken back is gone from tokens, what is
   *  inserted is there. After a replacement the guard is asked again while tokens are held back. reason is 0, or 1 to 3
   *  where the sequence is about to end. Throws the fault of a check that fails. */
  push(token, reason = 0) {
    this.tokens.push(token);
    for (;;) {
      const { bytes, ends, from } = this.spelled();
      const v = this.check(bytes.slice(from), ends.map((e) => e - from), this.seen - from, reason);
      this.known = this.tokens.length;
      if (v.verdict === "rewind" || v.verdict === "insert") {
        this.tokens.length = this.known = v.position;
        if (v.verdict === "insert") this.tokens.push(...this.encode(v.out));
        return v;
      }
      const least = v.verdict === "replace" ? this.released + 1 : v.verdict === "release" && reason ? this.tokens.length : this.released;
      if (v.position < least || v.position > this.tokens.length)
        throw new Error(`verdict ${v.verdict}: position ${v.position}, want ${least} to ${this.tokens.length}`);
      const end = v.position === this.released ? this.seen : ends[v.position - this.released - 1];
      const out = v.verdict === "replace" ? v.out : bytes.slice(this.seen, end);
      this.shown += v.edits ? this.edited(bytes, v.edits, from, end) : text.decode(out);
      this.seen = end;
      this.released = v.position;
      if (v.verdict !== "replace" || this.released === this.tokens.length) return v;
    }
  }

  /** The text up to end with edits made. */
  edited(bytes, edits, from, end) {
    let at = this.seen;
    let out = "";
    if (edits.length > 4096) throw new Error(`verdict replace: ${edits.length} edits, the limit is 4096`);
    const inside = (i) => (bytes[from + i] & 0xc0) === 0x80;
    for (const [i, e] of edits.entries()) {
      const takes = `verdict replace: edit ${i} takes bytes ${e.from} to ${e.to}`;
      if (from + e.from < at || e.to < e.from || from + e.to > end)
        throw new Error(`${takes}, want them in order from ${at - from} to ${end - from}`);
      if (inside(e.from) || inside(e.to)) throw new Error(`${takes}, which are no whole characters`);
      out += text.decode(bytes.slice(at, from + e.from)) + e.words;
      at = from + e.to;
    }
    out += text.decode(bytes.slice(at, end));
    const size = new TextEncoder().encode(out).length;
    if (size > 4096) throw new Error(`verdict replace: a text of ${size} bytes, the limit is 4096`);
    return out;
  }

  /** The text that was generated, where those of the tokens end that are held back, and where its part that is shown begins. */
  spelled() {
    const bytes = [];
    const ends = [];
    this.tokens.forEach((id, i) => {
      const w = this.words[id];
      if (i >= this.prompt && !/^<.+>$/s.test(text.decode(w))) bytes.push(...w);
      if (i >= this.released) ends.push(bytes.length);
    });
    return { bytes: Uint8Array.from(bytes), ends, from: Math.max(this.seen - 4096, 0) };
  }

  check(shown, ends, context, reason) {
    const at = this.exports.tgi_guard_step() >>> 0;
    const textAt = this.hand(shown);
    const endsAt = this.exports.tgi_alloc(4 * ends.length) >>> 0;
    const m = this.memory;
    this.tokens.forEach((t, i) => m.setUint32(this.room + 4 * i, t, true));
    ends.forEach((e, i) => m.setUint32(endsAt + 4 * i, e, true));
    const n = this.tokens.length;
    [64, this.room, n, this.prompt, n - this.known, this.released, textAt, shown.length, context, endsAt, reason, 0, 0, 0, 0, 0].forEach((v, i) =>
      m.setUint32(at + 4 * i, v, true),
    );
    const failed = this.exports.tgi_guard_check(at);
    const [verdict, position, out, count, flags] = this.u32s(at + 44, 5);
    if (failed) throw new Error(text.decode(this.read(out, count)));
    const name = verdicts[verdict];
    if (flags & 2) {
      const edits = [];
      for (let i = 0; i < count; i++) {
        const [from, to, words, n] = this.u32s(out + 16 * i, 4);
        edits.push({ from, to, words: text.decode(this.read(words, n)) });
      }
      return { verdict: name, position, biases: [], out: new Uint8Array(), edits, done: (flags & 1) !== 0 };
    }
    return {
      verdict: name,
      position,
      biases: name === "rewind" ? this.entries(out, count) : [],
      out: name === "rewind" ? new Uint8Array() : this.read(out, count),
      done: (flags & 1) !== 0,
    };
  }
}
