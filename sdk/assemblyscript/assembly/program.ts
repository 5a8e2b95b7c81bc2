// The kind program: generates the texts of a request itself, by contexts of the model that it forks, rewinds and scores.
//
//   class Shortest extends Program {
//     run(r: Request): string | null {
//       const kids = r.context.forkN(3);
//       if (!generate(kids, new Settings())) return why();
//       let best = kids[0];
//       for (let i = 1; i < kids.length; i++) if (kids[i].span().count < best.span().count) best = kids[i];
//       return best.emitSpan() ? null : why();
//     }
//   }
//
// A call that fails returns false, null, NaN or -1, and why() then tells the server's reason.

import { encode, vocabSize } from "./host";
import { noParameters } from "./template";
import { quote, Value } from "./value";

// @ts-ignore: decorator
@external("tgi", "ctx_fork")
declare function importFork(c: i32): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_drop")
declare function importDrop(c: i32): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_append")
declare function importAppend(c: i32, text: usize, len: u32, flags: u32): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_push")
declare function importPush(c: i32, ids: usize, count: u32): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_len")
declare function importLen(c: i32): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_rewind")
declare function importRewind(c: i32, n: i32): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_read")
declare function importRead(c: i32, from: i32, what: u32, to: usize, room: u32): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_start")
declare function importStart(c: i32, settings: usize, len: u32): i32;
// @ts-ignore: decorator
@external("tgi", "wait")
declare function importWait(list: usize, count: u32, flags: u32): i32;
// @ts-ignore: decorator
@external("tgi", "span")
declare function importSpan(c: i32, to: usize): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_top")
declare function importTop(c: i32, k: i32, to: usize): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_row")
declare function importRow(c: i32, to: usize): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_entropy")
declare function importEntropy(c: i32, to: usize): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_score")
declare function importScore(c: i32, ids: usize, count: u32, to: usize): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_ask")
declare function importAsk(c: i32, ids: usize, count: u32): i32;
// @ts-ignore: decorator
@external("tgi", "emit")
declare function importEmit(c: i32, from: i32, count: i32): i32;
// @ts-ignore: decorator
@external("tgi", "emit_text")
declare function importEmitText(text: usize, len: u32): i32;
// @ts-ignore: decorator
@external("tgi", "render")
declare function importRender(request: usize, len: u32): i32;
// @ts-ignore: decorator
@external("tgi", "grammar_prefix")
declare function importPrefix(grammar: usize, len: u32, text: usize, textLen: u32): i32;
// @ts-ignore: decorator
@external("tgi", "ctx_calls")
declare function importCalls(c: i32): i32;
// @ts-ignore: decorator
@external("tgi", "why")
declare function importWhy(to: usize, room: u32): i32;

/** A plugin that generates texts; one instance generates one of them. */
export abstract class Program {
  /** See Template.open. */
  open(config: Value): string | null {
    return null;
  }
  /** See Template.validate. The parameters come again in Request.params. */
  validate(params: Value): string | null {
    return noParameters(params);
  }
  /** Generates the text: what was emitted when it returns. An error text fails it; null is success. */
  abstract run(r: Request): string | null;
}

/** What a program is asked for. */
export class Request {
  /** The request's prompt. */
  readonly context: Context = new Context(0);

  constructor(
    /** The request, as ../abi describes it. */
    readonly request: Value,
  ) {}

  /** The request's parameters for this plugin. */
  get params(): Value {
    return this.request.get("params");
  }
  /** The request's own settings: those that a run has which sets nothing. */
  get settings(): Value {
    return this.request.get("settings");
  }
  /** The conversation, an array; a null value without one. */
  get messages(): Value {
    return this.request.get("messages");
  }
  /** Whether the client wants the reply held to a grammar, such as a schema. A run that sets none is held to it. */
  get hasGrammar(): bool {
    return this.settings.get("grammar").isTrue;
  }
  private limit(name: string): i32 {
    return <i32>this.request.get("limits").get(name).number();
  }
  /** The most tokens that can be emitted. */
  get maxNewTokens(): i32 {
    return this.limit("max_new_tokens");
  }
  /** How many tokens may be computed. */
  get purse(): i32 {
    return this.limit("tokens");
  }
}

/** Why a call failed; NONE if none did. */
export enum Refusal {
  NONE = 0,
  /** An argument is out of bounds, or the context is not in the state for it. */
  ARGUMENT = -1,
  /** All tokens that may be computed were, or all forks. */
  PURSE = -2,
  /** There are as many contexts as may be, or the text would be too long for the model. */
  ROOM = -3,
  /** The grammar cannot be compiled, or does not admit what it is to begin with. */
  GRAMMAR = -4,
  /** What was emitted is refused. */
  REFUSED = -5,
  /** A plugin of the run failed, or is not there. */
  PLUGIN = -6,
}

let last: i32 = 0;

function ok(n: i32): bool {
  if (n < 0) last = n;
  return n >= 0;
}

/** Returns what kind of failure the last call had that failed. */
export function refusal(): Refusal {
  return <Refusal>last;
}

/** Returns the server's reason why the last call failed that did. */
export function why(): string {
  const n = importWhy(0, 0);
  const b = new ArrayBuffer(n > 0 ? n : 0);
  if (n > 0) importWhy(changetype<usize>(b), n);
  return n > 0 ? String.UTF8.decode(b) : "a call of the server failed";
}

/** Why a run ended. */
export enum Reason {
  /** The context has not run yet. */
  NONE = 0,
  /** It has as many tokens as it may. */
  LENGTH = 1,
  /** The model ended the text. */
  END = 2,
  /** A stop text, which is part of the context. */
  STOP = 3,
  /** Its first token could only be one that Settings.deny denies. It has none. */
  DENIED = 4,
}

/** What a context generated in its last run. */
export class Span {
  constructor(
    /** The first token. */
    readonly from: i32,
    /** How many. */
    readonly count: i32,
    readonly reason: Reason,
    /** The token that ended it, where the model did, or 0. It is no part of the context. */
    readonly end: u32,
    /** The sum of the log-probabilities. */
    readonly logprob: f64,
  ) {}
}

/** What a text has of calls of tools. */
export enum Calls {
  /** A call of the server failed. */
  FAILED = -1,
  NONE = 0,
  /** It ends inside a call, or with what may begin one. */
  OPEN = 1,
  /** It has calls, and does not end inside one. */
  MADE = 2,
  /** It has something of a call that the request's strict tools do not allow. Runs that go on from there are not held to
   *  these. */
  BROKEN = 3,
}

/** A token that may come next. */
export class Likely {
  constructor(
    readonly id: u32,
    /** The model's own logit. */
    readonly logit: f32,
    /** Its log-probability among all tokens. */
    readonly logprob: f32,
  ) {}
}

const spanRoom = memory.data(24, 8);

/** A text of tokens. It rests, or it runs, from start until it was waited for. It ends with close. */
export class Context {
  constructor(
    /** The server's number of it. */
    readonly id: i32,
  ) {}

  /** Returns a context with the same tokens, which costs nothing until it differs; null if that fails. */
  fork(): Context | null {
    const n = importFork(this.id);
    return ok(n) ? new Context(n) : null;
  }
  /** Forks n times; fewer contexts if that fails. */
  forkN(n: i32): Context[] {
    const list: Context[] = [];
    for (let i = 0; i < n; i++) {
      const c = this.fork();
      if (!c) break;
      list.push(c);
    }
    return list;
  }
  /** Ends the context, also while it runs. */
  close(): void {
    importDrop(this.id);
  }
  /** Appends a text, in which no special token is recognised. Returns how many tokens it is, -1 if that fails. */
  append(text: string): i32 {
    return this.appended(text, 0);
  }
  /** Appends a text, in which special tokens are recognised. Never append what a client wrote with it. */
  appendSpecial(text: string): i32 {
    return this.appended(text, 1);
  }
  private appended(text: string, flags: u32): i32 {
    const b = String.UTF8.encode(text);
    const n = importAppend(this.id, changetype<usize>(b), b.byteLength, flags);
    return ok(n) ? n : -1;
  }
  /** Appends tokens. */
  push(ids: StaticArray<u32>): bool {
    return ok(importPush(this.id, changetype<usize>(ids), ids.length));
  }
  /** The number of tokens; 0 for a context that was closed. */
  get length(): i32 {
    return max(importLen(this.id), 0);
  }
  /** Leaves the first n tokens. */
  rewind(n: i32): bool {
    return ok(importRewind(this.id, n));
  }
  /** Returns the tokens from a place on; none if there is no such place. */
  tokens(from: i32): StaticArray<u32> {
    const n = max(importRead(this.id, from, 0, 0, 0), 0);
    const ids = new StaticArray<u32>(n);
    if (n) importRead(this.id, from, 0, changetype<usize>(ids), n);
    return ids;
  }
  /** Returns the text of the tokens from a place on, without special ones. */
  text(from: i32): string {
    const n = max(importRead(this.id, from, 1, 0, 0), 0);
    const b = new ArrayBuffer(n);
    if (n) importRead(this.id, from, 1, changetype<usize>(b), n);
    return String.UTF8.decode(b);
  }
  /** Returns the text of the last run. */
  spanText(): string {
    return this.text(this.span().from);
  }
  /** Lets the context generate, and returns at once. */
  start(s: Settings): bool {
    const b = String.UTF8.encode(s.json());
    return ok(importStart(this.id, changetype<usize>(b), b.byteLength));
  }
  /** Lets the context generate, and waits for it. Returns null if that fails. */
  generate(s: Settings): Span | null {
    return generate([this], s) ? this.span() : null;
  }
  /** Returns what the last run generated. */
  span(): Span {
    memory.fill(spanRoom, 0, 24);
    importSpan(this.id, spanRoom);
    const s = spanRoom;
    return new Span(load<i32>(s, 0), load<i32>(s, 4), load<i32>(s, 8), load<u32>(s, 12), load<f64>(s, 16));
  }
  /** Whether the text ends where the model ended it in the last run. */
  get ended(): bool {
    const s = this.span();
    return s.reason == Reason.END && s.from + s.count == this.length;
  }
  /** Returns up to k (at most 4096) of the likeliest next tokens, best first; null if that fails. */
  top(k: i32): Likely[] | null {
    const b = new ArrayBuffer(12 * min(max(k, 0), 4096));
    const n = importTop(this.id, k, changetype<usize>(b));
    if (!ok(n)) return null;
    const list: Likely[] = [];
    for (let i = 0; i < n; i++) {
      const at = changetype<usize>(b) + 12 * i;
      list.push(new Likely(load<u32>(at), load<f32>(at, 4), load<f32>(at, 8)));
    }
    return list;
  }
  /** Returns the raw logits of the next token, one for each id; null if that fails. */
  row(): StaticArray<f32> | null {
    const row = new StaticArray<f32>(vocabSize());
    return ok(importRow(this.id, changetype<usize>(row))) ? row : null;
  }
  /** Returns the entropy of the next token, in nats; NaN if that fails. */
  entropy(): f64 {
    memory.fill(spanRoom, 0, 8);
    return ok(importEntropy(this.id, spanRoom)) ? load<f64>(spanRoom) : NaN;
  }
  /** Returns the log-probability of a text if it came next, the sum over its tokens; NaN if that fails. */
  score(text: string): f64 {
    const each = this.scoreTokens(encode(text));
    if (!each || !each.length) return NaN;
    let sum: f64 = 0;
    for (let i = 0; i < each.length; i++) sum += each[i];
    return sum;
  }
  /** Returns the log-probability of each of the tokens if they came next, one after the other; null if that fails. */
  scoreTokens(ids: StaticArray<u32>): StaticArray<f32> | null {
    const out = new StaticArray<f32>(ids.length);
    return ok(importScore(this.id, changetype<usize>(ids), ids.length, changetype<usize>(out))) ? out : null;
  }
  /** Begins to compute what score of a text tells, or of an empty one, and of one token, what top, row and entropy do, and
   *  returns at once. The context runs until it was waited for; those answer at once then. So the answers of many
   *  contexts are computed together. */
  ask(text: string): bool {
    const ids = encode(text);
    if (text.length && !ids.length) return ok(<i32>Refusal.ARGUMENT);
    return this.askTokens(ids);
  }
  /** Begins to compute what scoreTokens of these tells, as ask does. */
  askTokens(ids: StaticArray<u32>): bool {
    return ok(importAsk(this.id, changetype<usize>(ids), ids.length));
  }
  /** Returns what the text behind the prompt has of calls of tools, as the parser of the reply reads it; FAILED if that
   *  fails. */
  calls(): Calls {
    const n = importCalls(this.id);
    return ok(n) ? <Calls>n : Calls.FAILED;
  }
  /** Lets a context whose text ends inside a call of a tool, or with what may begin one, generate until it does not, and
   *  returns what it has of calls then: one with calls is an answer, and what is appended to it is read as its content.
   *  s are the settings of the runs, which set no maxTokens. FAILED if that fails. */
  finishCall(s: Settings): Calls {
    for (let most = 1; this.calls() == Calls.OPEN; most = min(2 * most, 64)) {
      const span = this.generate(s.clone().maxTokens(most));
      if (!span) return Calls.FAILED;
      if (span.reason != Reason.LENGTH) break;
    }
    return this.calls();
  }
  /** Gives the client tokens. Where the model ended the last run, and the context did not change since, there is one more
   *  behind them, the end. */
  emit(from: i32, count: i32): bool {
    return ok(importEmit(this.id, from, count));
  }
  /** Gives the client all tokens from a place on. */
  emitFrom(from: i32): bool {
    return this.emit(from, this.length - from);
  }
  /** Gives the client all tokens from a place on and, if the model ended the text there, the end, behind which nothing can
   *  be emitted: a guard that reads the end refuses it here, and not when the program is over. */
  emitToEnd(from: i32): bool {
    return this.emit(from, this.length + <i32>this.ended - from);
  }
  /** Gives the client what the last run generated. */
  emitSpan(): bool {
    const s = this.span();
    return this.emit(s.from, s.count);
  }
}

function numbers(list: Context[]): StaticArray<i32> {
  const ids = new StaticArray<i32>(list.length);
  for (let i = 0; i < list.length; i++) ids[i] = list[i].id;
  return ids;
}

/** Lets contexts generate at the same time, and waits for all. */
export function generate(list: Context[], s: Settings): bool {
  for (let i = 0; i < list.length; i++) if (!list[i].start(s)) return false;
  return wait(list);
}

/** Waits until none of the contexts runs. */
export function wait(list: Context[]): bool {
  const ids = numbers(list);
  return ok(importWait(changetype<usize>(ids), ids.length, 0));
}

/** Waits for the first of the contexts that does not run any more, and returns its place; -1 if that fails. The reply
 *  then depends on which one that is: the same request may get another one. */
export function race(list: Context[]): i32 {
  const ids = numbers(list);
  const n = importWait(changetype<usize>(ids), ids.length, 1);
  return ok(n) ? n : -1;
}

/** Gives the client a text. */
export function emitText(text: string): bool {
  const b = String.UTF8.encode(text);
  return ok(importEmitText(changetype<usize>(b), b.byteLength));
}

/** Returns a context of a conversation through the model's template; request is a template's, as JSON. null if that
 *  fails. */
export function render(request: string): Context | null {
  const b = String.UTF8.encode(request);
  const n = importRender(changetype<usize>(b), b.byteLength);
  return ok(n) ? new Context(n) : null;
}

/** What a run, or a text, is held to. One without a language and a source is that of the request, if it has one. */
export class Grammar {
  constructor(
    /** "json_schema", "json_object", "regex" and others. */
    readonly language: string = "",
    readonly source: string = "",
  ) {}

  json(): string {
    if (!this.language.length && !this.source.length) return "";
    return '{"language":' + quote(this.language) + ',"source":' + quote(this.source) + "}";
  }
}

/** Returns how many bytes of a text a text of the grammar can begin with; -1 if that fails. */
export function grammarPrefix(g: Grammar, text: string): i32 {
  const grammar = String.UTF8.encode(g.json());
  const b = String.UTF8.encode(text);
  const n = importPrefix(changetype<usize>(grammar), grammar.byteLength, changetype<usize>(b), b.byteLength);
  return ok(n) ? n : -1;
}

/** Settings of a run; what they do not set is as the request says. */
export class Settings {
  private members: string[] = [];
  private plugins: string[] = [];

  /** Returns a copy. */
  clone(): Settings {
    const s = new Settings();
    s.members = this.members.slice();
    s.plugins = this.plugins.slice();
    return s;
  }
  private with(name: string, json: string): Settings {
    this.members.push(quote(name) + ":" + json);
    return this;
  }
  /** Bounds the tokens of the run. */
  maxTokens(n: i32): Settings {
    return this.with("max_tokens", n.toString());
  }
  /** Divides the logits; 0 takes the most likely token. */
  temperature(t: f64): Settings {
    return this.with("temperature", t.toString());
  }
  /** Keeps the smallest set of tokens with at least that probability. */
  topP(p: f64): Settings {
    return this.with("top_p", p.toString());
  }
  /** Keeps that many of the likeliest tokens; 0 keeps all. */
  topK(k: i32): Settings {
    return this.with("top_k", k.toString());
  }
  /** Keeps tokens at least that times as likely as the likeliest. */
  minP(p: f64): Settings {
    return this.with("min_p", p.toString());
  }
  /** Adds a plugin of the run; the first one takes the place of all of the request. params is a JSON object, or empty. */
  plugin(name: string, params: string = ""): Settings {
    this.plugins.push('{"name":' + quote(name) + (params.length ? ',"params":' + params : "") + "}");
    return this;
  }
  /** Texts that end the run. They are part of the context. */
  stop(texts: string[]): Settings {
    const parts: string[] = [];
    for (let i = 0; i < texts.length; i++) parts.push(quote(texts[i]));
    return this.with("stop", "[" + parts.join(",") + "]");
  }
  /** Holds the run to a grammar. */
  grammar(g: Grammar): Settings {
    const own = g.json();
    return own.length ? this.with("grammar", own) : this;
  }
  /** Holds the run to a grammar, which the tokens from a place on have already begun. */
  grammarFrom(g: Grammar, from: i32): Settings {
    return this.grammar(g).with("grammar_from", from.toString());
  }
  /** Holds the run to no grammar, also if the request has one. */
  free(): Settings {
    return this.with("grammar", "null");
  }
  /** Keeps tokens from being the first one of the run, at most 1024 of them. The run takes one of the others, as grammar,
   *  plugins and settings say, and ends with Reason.DENIED where there is none. */
  deny(tokens: StaticArray<u32>): Settings {
    return this.with("deny", "[" + tokens.join(",") + "]");
  }
  /** Gives the client each token as soon as it is there. */
  emit(): Settings {
    return this.with("emit", "true");
  }
  json(): string {
    const all = this.members.slice();
    if (this.plugins.length) all.push('"plugins":[' + this.plugins.join(",") + "]");
    return all.length ? "{" + all.join(",") + "}" : "";
  }
}
