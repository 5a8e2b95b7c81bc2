// The kind tools: the text that the model writes becomes content, reasoning and tool calls.

import { rand } from "./host";
import { Bytes, noParameters } from "./template";
import { Value } from "./value";

/** A parser of tool calls; one instance serves one sequence. The same text must give the same events however it is
 *  cut into pieces. */
export abstract class Tools {
  /** As Template.open. */
  open(config: Value): string | null {
    return null;
  }
  /** As Template.validate. */
  validate(params: Value): string | null {
    return noParameters(params);
  }
  /** Starts a sequence. The text returned ends it. */
  abstract begin(r: Offer): string | null;
  /** Takes the next piece of the text. special: it is one special token, markup of the model and never content. */
  abstract feed(piece: string, special: bool, events: Events): void;
  /** Takes the end of the text. cut: the length limit cut it. A call that is still open has failed. */
  abstract finish(cut: bool, events: Events): void;
}

/** What the request says of tools. */
export class Offer {
  constructor(
    /** The request as the contract describes it. */
    readonly request: Value,
  ) {}

  get tools(): Value[] {
    return this.request.get("tools").items;
  }
  /** "auto", "none", "required", or "named". */
  get choice(): string {
    const c = this.request.get("tool_choice");
    return c.isText ? c.text : c.isNull ? "auto" : "named";
  }
  /** More than one call is allowed. */
  get parallel(): bool {
    const p = this.request.get("parallel_tool_calls");
    return p.isNull || p.isTrue;
  }
  /** The end of the prompt's text. */
  get promptEnd(): string {
    return this.request.get("prompt_end").text;
  }
  /** The request's parameters for this plugin. */
  get params(): Value {
    return this.request.get("params");
  }

  /** Whether the model may call this tool: it is offered, and no other is demanded. */
  allows(name: string): bool {
    const choice = this.request.get("tool_choice");
    if (choice.text == "none" || (!choice.isText && !choice.isNull && choice.get("name").text != name)) return false;
    for (let i = 0; i < this.tools.length; i++) {
      const f = this.tools[i].get("function");
      if ((f.isNull ? this.tools[i] : f).get("name").text == name) return true;
    }
    return false;
  }
}

/** Why a call can't be used. */
export enum Failure {
  INCOMPLETE = 0,
  UNKNOWN = 1,
  MALFORMED = 2,
  TOO_LONG = 3,
  TOO_MANY = 4,
}

const CONTENT: u32 = 0;
const REASONING: u32 = 1;
const BEGIN: u32 = 2;
const ARGUMENTS: u32 = 3;
const END: u32 = 4;
const FAILED: u32 = 5;
const EVENT_SIZE: u32 = 36;
const NO_CALL: u32 = 0xffffffff;
export const PIECE_SPECIAL: u32 = 1;
export const FINISH_CUT: u32 = 1;

/** Where a parser writes what it found. Calls are numbered here: one is open from begin to end or failed. */
export class Events {
  private list: Bytes = new Bytes();
  private room: Bytes = new Bytes();
  private open: bool = false;
  /** How many calls have begun. */
  calls: u32 = 0;

  /** A part of the answer. */
  content(s: string): void {
    if (s.length) this.event(CONTENT, 0, s, "", "", 0);
  }
  /** A part of what the model thinks. */
  reasoning(s: string): void {
    if (s.length) this.event(REASONING, 0, s, "", "", 0);
  }
  /** A call begins. Name and id are not empty, of at most 256 bytes each. */
  begin(name: string, id: string): void {
    this.event(BEGIN, this.calls++, "", name, id, 0);
    this.open = true;
  }
  /** The next part of the open call's arguments. The parts of a call that ends are together a JSON object. */
  arguments(s: string): void {
    if (s.length) this.event(ARGUMENTS, this.calls - 1, s, "", "", 0);
  }
  /** The open call is complete and may be executed. */
  end(): void {
    this.event(END, this.calls - 1, "", "", "", 0);
    this.open = false;
  }
  /** The open call, or one that has not begun, can't be used; text is what the model wrote of it. */
  failed(why: Failure, text: string): void {
    this.event(FAILED, this.open ? this.calls - 1 : NO_CALL, text, "", "", why);
    this.open = false;
  }

  // Offsets until the room grows no more, see told.
  private event(kind: u32, index: u32, text: string, name: string, id: string, reason: u32): void {
    this.list.u32(kind);
    this.list.u32(index);
    this.put(text);
    this.put(name);
    this.put(id);
    this.list.u32(reason);
  }

  private put(s: string): void {
    this.list.u32(this.room.length);
    this.list.u32(this.room.text(s));
  }

  /** Forgets the events, not the calls. For the exports alone. */
  clear(): void {
    this.list.length = 0;
    this.room.length = 0;
  }

  /** The packed result, with texts at their addresses. For the exports alone. */
  told(): u64 {
    const at = this.list.address;
    for (let e = at; e < at + this.list.length; e += EVENT_SIZE) {
      for (let field: usize = 8; field < 32; field += 8) {
        const bytes = load<u32>(e + field + 4);
        store<u32>(e + field, bytes ? load<u32>(e + field) + <u32>this.room.address : 0);
      }
    }
    const count = <u32>this.list.length / EVENT_SIZE;
    return count ? (<u64>at << 32) | count : 0;
  }
}

/** An id for a call as OpenAI's are, of the host's random numbers: the same for the same seed of the request. */
export function callId(): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  let id = "call_";
  for (let i = 0; i < 24; i++) id += alphabet.charAt(<i32>(((rand() >> 32) * 62) >> 32));
  return id;
}
