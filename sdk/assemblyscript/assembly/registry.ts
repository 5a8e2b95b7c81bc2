// What a plugin has registered, and the texts that it returns to the host.

import { Drafter, Guess } from "./draft";
import { Guard, Held } from "./guard";
import { Mask, Source, Steps } from "./grammar";
import { Reader } from "./json";
import { Program, Request } from "./program";
import { Candidates, Step, Tokens } from "./step";
import { Conversation, Output, Template } from "./template";
import { Events, Offer, Tools } from "./tools";
import { Value } from "./value";

/** A logits plugin of one sequence. */
export abstract class Processor {
  /** Reads the step and calls its methods that set the result. If it calls none, nothing changes.
   *  Returns null, or an error text, which ends the sequence. */
  abstract process(s: Step): string | null;
}

/** A sampler of one sequence. */
export abstract class Sampler {
  /** Returns the index of the chosen candidate. There is at least one; the most likely is the first. */
  abstract sample(c: Candidates): i32;
}

export type BeginLogits = (r: Reader, prompt: Tokens) => Processor;
export type BeginSampler = (r: Reader, prompt: Tokens) => Sampler;
export type BeginDraft = (r: Reader, prompt: Tokens) => Drafter;
export type BeginGuard = (r: Reader, prompt: Tokens) => Guard;

let description = "{}";
let init: ((r: Reader) => void) | null = null;
let beginLogits: BeginLogits | null = null;
let beginSampler: BeginSampler | null = null;
let templater: Template | null = null;
let parser: Tools | null = null;
let follower: Steps | null = null;
let generator: Program | null = null;
let beginGuard: BeginGuard | null = null;
let beginDraft: BeginDraft | null = null;
let drafter: Drafter | null = null;
let watcher: Guard | null = null;
let processor: Processor | null = null;
let picker: Sampler | null = null;

/** Sets the description, which is JSON. */
export function describe(json: string): void {
  description = json;
}

/** Registers f, which reads the configuration, once, before the server's snapshot. It reports errors by r.fail. */
export function onInit(f: (r: Reader) => void): void {
  init = f;
}

/** Makes the guest a logits plugin. begin reads the parameters and reports errors by r.fail. When a request is
 *  admitted, begin also runs in a separate instance with an empty prompt. */
export function logits(begin: BeginLogits): void {
  beginLogits = begin;
}

/** Makes the guest a sampler. The rules of logits apply to begin. */
export function sampler(begin: BeginSampler): void {
  beginSampler = begin;
}

/** Makes the guest a guard. The rules of logits apply to begin. */
export function guard(begin: BeginGuard): void {
  beginGuard = begin;
}

/** Makes the guest a draft. The rules of logits apply to begin. */
export function draft(begin: BeginDraft): void {
  beginDraft = begin;
}

/** Makes the guest a program, which generates the texts of a request itself. */
export function program(p: Program): void {
  generator = p;
}

/** Makes the guest a chat template. */
export function template(t: Template): void {
  templater = t;
}

/** Makes the guest a parser of tool calls. */
export function tools(t: Tools): void {
  parser = t;
}

/** Makes the guest a grammar that computes the allowed tokens at each step. */
export function steps(s: Steps): void {
  follower = s;
}

// The rest is only for ./exports.

let kept: ArrayBuffer = new ArrayBuffer(0);

/** Packs a text and keeps it alive until the next one. Returns 0 for null. */
export function pack(text: string | null): u64 {
  if (!text || !text.length) return 0;
  kept = String.UTF8.encode(text);
  return (<u64>changetype<usize>(kept) << 32) | <u64>kept.byteLength;
}

export function packDescription(): u64 {
  return pack(description);
}

export function runInit(ptr: usize, len: u32): u64 {
  let fault: string | null = null;
  const f = init;
  if (f) {
    const r = new Reader(ptr, len);
    f(r);
    fault = r.close();
  }
  if (!fault && (templater || parser || follower || generator)) {
    const r = new Reader(ptr, len);
    const config = Value.parse(r);
    fault = r.close();
    if (!fault && templater) fault = templater!.open(config);
    if (!fault && parser) fault = parser!.open(config);
    if (!fault && follower) fault = follower!.open(config);
    if (!fault && generator) fault = generator!.open(config);
  }
  return pack(fault);
}

function unregistered(kind: string): string {
  return "no " + kind + " is registered: call " + kind + "(...)";
}

export function runLogits(ptr: usize, len: u32, prompt: Tokens): string | null {
  const begin = beginLogits;
  if (!begin) return unregistered("logits");
  const r = new Reader(ptr, len);
  processor = begin(r, prompt);
  return r.close();
}

export function runSampler(ptr: usize, len: u32, prompt: Tokens): string | null {
  const begin = beginSampler;
  if (!begin) return unregistered("sampler");
  const r = new Reader(ptr, len);
  picker = begin(r, prompt);
  return r.close();
}

export function runGuard(ptr: usize, len: u32, prompt: Tokens): string | null {
  const begin = beginGuard;
  if (!begin) return unregistered("guard");
  const r = new Reader(ptr, len);
  watcher = begin(r, prompt);
  return r.close();
}

export function runCheck(h: Held): string | null {
  return watcher!.check(h);
}

export function runDraft(ptr: usize, len: u32, prompt: Tokens): string | null {
  const begin = beginDraft;
  if (!begin) return unregistered("draft");
  const r = new Reader(ptr, len);
  drafter = begin(r, prompt);
  return r.close();
}

export function runPropose(tokens: Tokens, fresh: i32, guess: Guess): string | null {
  return drafter!.propose(tokens, fresh, guess);
}

export function runProgram(ptr: usize, len: u32): string | null {
  const it = generator;
  if (!it) return unregistered("program");
  const r = new Reader(ptr, len);
  const request = Value.parse(r);
  const fault = r.close();
  return fault ? fault : it.run(new Request(request));
}

export function runValidate(ptr: usize, len: u32): u64 {
  let fault: string | null = null;
  if (beginLogits) fault = runLogits(ptr, len, new Tokens(0, 0));
  if (!fault && beginSampler) fault = runSampler(ptr, len, new Tokens(0, 0));
  if (!fault && beginDraft) fault = runDraft(ptr, len, new Tokens(0, 0));
  if (!fault && beginGuard) fault = runGuard(ptr, len, new Tokens(0, 0));
  if (!fault && (templater || parser || follower || generator)) {
    const r = new Reader(ptr, len);
    const params = Value.parse(r);
    fault = r.close();
    if (!fault && templater) fault = templater!.validate(params);
    if (!fault && parser) fault = parser!.validate(params);
    if (!fault && follower) fault = follower!.validate(params);
    if (!fault && generator) fault = generator!.validate(params);
  }
  return pack(fault);
}

export function runRender(ptr: usize, len: u32, out: Output): string | null {
  const it = templater;
  if (!it) return unregistered("template");
  const r = new Reader(ptr, len);
  const request = Value.parse(r);
  const fault = r.close();
  return fault ? fault : it.render(new Conversation(request), out);
}

export function runBegin(ptr: usize, len: u32): string | null {
  const it = parser;
  if (!it) return unregistered("tools");
  const r = new Reader(ptr, len);
  const request = Value.parse(r);
  const fault = r.close();
  return fault ? fault : it.begin(new Offer(request));
}

export function runFeed(piece: string, special: bool, events: Events): void {
  parser!.feed(piece, special, events);
}

export function runFinish(cut: bool, events: Events): void {
  parser!.finish(cut, events);
}

export function runFollow(ptr: usize, len: u32): string | null {
  const it = follower;
  if (!it) return unregistered("steps");
  const r = new Reader(ptr, len);
  const request = Value.parse(r);
  const fault = r.close();
  return fault ? fault : it.begin(new Source(request));
}

export function runAccept(token: u32): bool {
  return follower!.accept(token);
}

export function runMask(m: Mask): void {
  follower!.mask(m);
}

export function runForced(): StaticArray<u32> {
  return follower!.forced();
}

export function runKey(): u64 {
  return follower!.key();
}

export function runProcess(s: Step): string | null {
  return processor!.process(s);
}

export function runSample(c: Candidates): i32 {
  return picker!.sample(c);
}
