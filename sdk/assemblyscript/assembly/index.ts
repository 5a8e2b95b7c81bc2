// Plugins in AssemblyScript, ABI version 1: logits processors, samplers, chat templates, parsers of tool calls, grammars, guards, drafts and programs.
//
// A plugin is a file that registers itself and re-exports the SDK's exports:
//
//   import { describe, logits, Processor, Reader, Step, Tokens, u32s } from "../assembly";
//   export * from "../assembly/exports/common";
//   export * from "../assembly/exports/logits";
//
//   class BanZero extends Processor {
//     process(s: Step): string | null { s.deny(ids); return null; }
//   }
//   const ids = u32s([0]);
//   describe('{"name":"ban-zero","version":"1.0.0","kinds":["logits"],"modes":["deny"]}');
//   logits((r: Reader, prompt: Tokens): Processor => { r.skip(); return new BanZero(); });
//
// The other kinds do the same with ./exports/sampler, template, tools, steps, guard, draft and program.
//
// An instance serves one sequence: globals are the state of that sequence.
// ../abi describes the names, layouts and limits, which are the same here.

export { log, vocabSize, tokenBytes, isSpecial, isEnd, encode, rand, randFloat, DEBUG, INFO, WARN, ERROR } from "./host";
export { Drafter, Guess } from "./draft";
export { Edit, Ending, Guard, Held, utf8, Verdict } from "./guard";
export { Mask, Source, Steps } from "./grammar";
export { Reader } from "./json";
export {
  Calls, Context, emitText, generate, Grammar, grammarPrefix, Likely, Program, race, Reason, Refusal, refusal, render, Request, Settings,
  Span, wait, why,
} from "./program";
export { Step, Tokens, Candidates, Entries, u32s } from "./step";
export { describe, draft, guard, onInit, logits, program, sampler, steps, template, tools, Processor, Sampler } from "./registry";
export { Content, Conversation, Output, Template } from "./template";
export { callId, Events, Failure, Offer, Tools } from "./tools";
export { Kind, Value } from "./value";
