// The kind tools: splits the model's text into content, reasoning and tool calls.

import { rand } from "./host";
import { Bytes, noParameters } from "./template";
import { Value } from "./value";

/** A parser of tool calls. One instance serves one sequence. The same text must give the same events however it is
 *  split into pieces. */
export abstract class Tools {
  /** See Template.open. */
  open(config: Value): string | null {
    return null;
  }
  /** See Template.validate. */
  validate(params: Value): string | null {
    return noParameters(params);
  }
  /** Starts a sequence. An error text ends it; null is success. */
  abstract begin(r: Offer): string | null;
  /** Reads the next piece of the text. If special is true, it is one special token: markup, and never content. */
  abstract feed(piece: string, special: bool, events: Events): void;
  /** Ends the text. cut is true if it was truncated at the length limit. A call that is still open has failed. */
  abstract finish(cut: bool, events: Events): void;
}

/** The tools of a request, and its choice of them. */
export class Offer {
  constructor(
    /** The request, as ../abi describes it. */
    readonly request: Value,
  ) {}

  get tools(): Value[] {
    return this.request.get("tools").items;
  }
  /** OpenAI's tool_choice: "auto", "none", "required", or "named". */
  get choice(): string {
    const c = this.request.get("tool_choice");
    return c.isText ? c.text : c.isNull ? "auto" : "named";
  }
  /** Whether more than one call is allowed. */
  get parallel(): bool {
    const p = this.request.get("parallel_tool_calls");
    return p.isNull || p.isTrue;
  }
  /** The end of the prompt's text, at most 1024 bytes. */
  get promptEnd(): string {
    return this.request.get("prompt_end").text;
  }
  /** The request's parameters for this plugin. */
  get params(): Value {
    return this.request.get("params");
  }

  /** Whether the model may call this tool: it is offered, and no other tool is required. */
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

/** The reason why a call cannot be used. */
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

/** The events of a parser. Numbers the calls: one is open from begin to end or failed. */
export class Events {
  private list: Bytes = new Bytes();
  private room: Bytes = new Bytes();
  private open: bool = false;
  /** Number of calls that have begun. */
  calls: u32 = 0;

  /** Adds a part of the answer. */
  content(s: string): void {
    if (s.length) this.event(CONTENT, 0, s, "", "", 0);
  }
  /** Adds a part of the model's reasoning. */
  reasoning(s: string): void {
    if (s.length) this.event(REASONING, 0, s, "", "", 0);
  }
  /** Begins a call. Name and id must have 1 to 256 bytes each. */
  begin(name: string, id: string): void {
    this.event(BEGIN, this.calls++, "", name, id, 0);
    this.open = true;
  }
  /** Adds a part of the open call's arguments. When the call ends, the parts together must be a JSON object. */
  arguments(s: string): void {
    if (s.length) this.event(ARGUMENTS, this.calls - 1, s, "", "", 0);
  }
  /** Ends the open call: it is complete and may be executed. */
  end(): void {
    this.event(END, this.calls - 1, "", "", "", 0);
    this.open = false;
  }
  /** Adds a failure of the open call, or of one that has not begun. text is what the model wrote of it. */
  failed(why: Failure, text: string): void {
    this.event(FAILED, this.open ? this.calls - 1 : NO_CALL, text, "", "", why);
    this.open = false;
  }

  // Texts are written as offsets, because room can still grow. See told.
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

  /** Removes the events but keeps the count of calls. Only for the exports. */
  clear(): void {
    this.list.length = 0;
    this.room.length = 0;
  }

  /** Returns the packed result, with the offsets of texts replaced by addresses. Only for the exports. */
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

/** Returns an id of a call in OpenAI's form. Requests with the same seed get the same ids. */
export function callId(): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  let id = "call_";
  for (let i = 0; i < 24; i++) id += alphabet.charAt(<i32>(((rand() >> 32) * 62) >> 32));
  return id;
}
