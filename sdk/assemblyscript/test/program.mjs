// A guest of kind program in tests, on a scripted model. See host.mjs.

import { Guest } from "./host.mjs";

const text = new TextDecoder();
const bytes = new TextEncoder();

export class Scripted extends Guest {
  /** Gives the request a grammar: this text, literally. */
  grammar = null;

  /** Runs the program on a prompt. next(text) is what the model writes behind a text until it ends it, likely(text, word)
   *  the log-probability of a word behind a text, calls(text) what one behind the prompt has of calls. Returns what was emitted, the fault or "", the settings of the runs, and the texts of the questions, "" for one
   *  about the next token. */
  run(params, prompt, next, likely = () => -1, calls = () => 0) {
    this.model = { next, likely, calls };
    this.contexts = [{ tokens: this.encode(bytes.encode(prompt)), from: 0, count: 0, reason: 0, ended: false }];
    this.prompt = this.contexts[0].tokens.length;
    this.emitted = "";
    this.runs = [];
    this.asked = [];
    const request = { params, settings: this.grammar === null ? {} : { grammar: true }, prompt_count: this.contexts[0].tokens.length, limits: { handles: 64, forks: 1024, tokens: 10000, max_new_tokens: 100 } };
    const fault = this.handed("tgi_program_run", JSON.stringify(request));
    return { text: this.emitted, fault, runs: this.runs, asked: this.asked };
  }

  refuse(why, status = -1) {
    this.reason = bytes.encode(why);
    return status;
  }

  /** Does f with a context, or refuses. */
  on(c, f) {
    const context = this.contexts[c];
    return context ? f(context) : this.refuse("there is no such context");
  }

  spell(tokens) {
    const words = tokens.map((id) => this.words[id]).filter((w) => !/^<.+>$/s.test(text.decode(w)));
    return Uint8Array.from(words.flatMap((w) => [...w]));
  }

  said(tokens) {
    return text.decode(this.spell(tokens));
  }

  /** The token that ends texts: </s>, or 0 without one. */
  get end() {
    return Math.max(0, this.words.findIndex((w) => text.decode(w) === "</s>"));
  }

  /** Writes a run: all of what the model says, up to max_tokens or a stop text. Where its first token is denied, or the end
   *  that comes first, there is none: the script knows no other. */
  start(x, json) {
    const set = JSON.parse(json || "{}");
    this.runs.push(set);
    let said = this.model.next(this.said(x.tokens));
    let reason = 2;
    for (const stop of set.stop ?? []) {
      const at = said.indexOf(stop);
      if (at >= 0) [said, reason] = [said.slice(0, at + stop.length), 3];
    }
    let ids = this.encode(bytes.encode(said));
    if (!ids) return this.refuse("the model's words are not in the vocabulary");
    const most = set.max_tokens ?? 100;
    if (ids.length >= most) [ids, reason] = [ids.slice(0, most), 1];
    if ((set.deny ?? []).includes(ids[0] ?? this.end)) [ids, reason] = [[], 4];
    const from = x.tokens.length;
    Object.assign(x, { from, count: ids.length, reason, ended: reason === 2, tokens: [...x.tokens, ...ids] });
    if (set.emit) this.emitted += this.said(ids);
    return 0;
  }

  row(x) {
    return this.words.map((w) => this.model.likely(this.said(x.tokens), text.decode(w)));
  }

  write(at, list, set, size) {
    list.forEach((v, i) => this.memory[set]((at >>> 0) + size * i, v, true));
    return list.length;
  }

  copy(b, at, room) {
    if (b.length <= room >>> 0) new Uint8Array(this.exports.memory.buffer).set(b, at >>> 0);
    return b.length;
  }

  push(x, ids) {
    x.tokens.push(...ids);
    x.ended &&= !ids.length;
    return ids.length;
  }

  rewind(x, n) {
    if (n < 0 || n > x.tokens.length) return this.refuse("there is no such place");
    x.ended &&= n === x.tokens.length;
    x.tokens.length = n;
    return 0;
  }

  add(context) {
    return this.contexts.push(context) - 1;
  }

  imports() {
    const str = (at, n) => text.decode(this.read(at, n));
    const appended = (ids, f) => (ids ? f(ids) : this.refuse("the text is not in the vocabulary"));
    return {
      ...super.imports(),
      ctx_fork: (c) => this.on(c, (x) => this.add({ ...x, tokens: [...x.tokens] })),
      ctx_drop: (c) => this.on(c, () => ((this.contexts[c] = null), 0)),
      ctx_append: (c, at, n) => this.on(c, (x) => appended(this.encode(this.read(at, n)), (ids) => this.push(x, ids))),
      ctx_push: (c, at, n) => this.on(c, (x) => (this.push(x, this.u32s(at >>> 0, n)), 0)),
      ctx_len: (c) => this.on(c, (x) => x.tokens.length),
      ctx_rewind: (c, n) => this.on(c, (x) => this.rewind(x, n)),
      ctx_read: (c, from, what, at, room) =>
        this.on(c, (x) => {
          if (from < 0 || from > x.tokens.length) return this.refuse("there is no such place");
          const tokens = x.tokens.slice(from);
          if (what) return this.copy(this.spell(tokens), at, room);
          return tokens.length <= room >>> 0 ? this.write(at, tokens, "setUint32", 4) : tokens.length;
        }),
      ctx_start: (c, at, n) => this.on(c, (x) => this.start(x, str(at, n))),
      wait: (list, n) => (n ? 0 : this.refuse("no contexts to wait for")),
      span: (c, at) =>
        this.on(c, (x) => {
          this.write(at, [x.from, x.count, x.reason, x.reason === 2 ? this.end : 0], "setUint32", 4);
          return this.write(at + 16, [-x.count], "setFloat64", 8) - 1;
        }),
      ctx_top: (c, k, at) =>
        this.on(c, (x) => {
          const best = [...this.row(x).entries()].sort((a, b) => b[1] - a[1]).slice(0, k);
          best.forEach(([id, p], i) => (this.write(at + 12 * i, [id], "setUint32", 4), this.write(at + 12 * i + 4, [p, p], "setFloat32", 4)));
          return best.length;
        }),
      ctx_row: (c, at) => this.on(c, (x) => this.write(at, this.row(x), "setFloat32", 4)),
      ctx_entropy: (c, at) =>
        this.on(c, (x) => {
          const row = this.row(x);
          const sum = row.reduce((s, v) => s + Math.exp(v), 0);
          return this.write(at, [row.reduce((h, v) => h - (Math.exp(v) / sum) * (v - Math.log(sum)), 0)], "setFloat64", 8) - 1;
        }),
      ctx_score: (c, at, n, to) =>
        this.on(c, (x) => {
          const before = [...x.tokens];
          const scores = this.u32s(at >>> 0, n).map((id) => {
            const p = this.model.likely(this.said(before), text.decode(this.words[id]));
            before.push(id);
            return p;
          });
          return this.write(to, scores, "setFloat32", 4) - n;
        }),
      ctx_ask: (c, at, n) => this.on(c, () => (this.asked.push(this.said(this.u32s(at >>> 0, n))), 0)),
      emit: (c, from, count) =>
        this.on(c, (x) => {
          const tokens = x.ended ? [...x.tokens, this.end] : x.tokens;
          if (from < 0 || count < 0 || from + count > tokens.length) return this.refuse("there are no such tokens");
          this.emitted += this.said(tokens.slice(from, from + count));
          return 0;
        }),
      emit_text: (at, n) => ((this.emitted += str(at, n)), 0),
      render: (at, n) => appended(this.encode(this.read(at, n)), (tokens) => this.add({ tokens, from: 0, count: 0, reason: 0, ended: false })),
      // The longest beginning that is also one of the grammar's source: the language "literal". None is the request's.
      grammar_prefix: (at, n, textAt, size) => {
        if (!(n >>> 0) && this.grammar === null) return this.refuse("grammar: the request has none");
        const source = bytes.encode(n >>> 0 ? JSON.parse(str(at, n)).source : this.grammar);
        const b = this.read(textAt, size);
        const differs = b.findIndex((v, i) => v !== source[i]);
        return differs < 0 ? b.length : differs;
      },
      ctx_calls: (c) => this.on(c, (x) => this.model.calls(this.said(x.tokens.slice(this.prompt)))),
      why: (at, room) => this.copy(this.reason ?? new Uint8Array(), at, room),
    };
  }
}
