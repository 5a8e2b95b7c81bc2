// The kind template: the conversation of a chat request becomes the text that the model reads.

import { Value } from "./value";

/** A chat template; one instance renders one conversation. */
export abstract class Template {
  /** Reads the configuration, once, before the server's snapshot; what the server knows of the model is its member
   *  "model". The text returned refuses the plugin; null is success, here and below. */
  open(config: Value): string | null {
    return null;
  }
  /** Looks at the request's parameters when the request is admitted; they come again in the request. A template
   *  without this method takes none. */
  validate(params: Value): string | null {
    return noParameters(params);
  }
  /** Writes the conversation. The text returned says to the client why it can't be rendered. */
  abstract render(r: Conversation, out: Output): string | null;
}

export function noParameters(params: Value): string | null {
  return params.length ? "the plugin takes no parameters" : null;
}

/** One conversation. */
export class Conversation {
  constructor(
    /** The request as the contract describes it, for members that have no field here. */
    readonly request: Value,
  ) {}

  /** Objects as OpenAI's API has them, see role and texts. */
  get messages(): Value[] {
    return this.request.get("messages").items;
  }
  /** The tools that are offered. */
  get tools(): Value[] {
    return this.request.get("tools").items;
  }
  /** The request's parameters for this plugin. */
  get params(): Value {
    return this.request.get("params");
  }
  /** End where the assistant's turn begins. */
  get addGenerationPrompt(): bool {
    return this.request.get("add_generation_prompt").isTrue;
  }
  /** End where the last message ends. */
  get continueFinalMessage(): bool {
    return this.request.get("continue_final_message").isTrue;
  }
}

/** The texts of a message's content: a string itself, or the parts that are text. */
export class Content {
  texts: string[] = [];
  /** The type of the first part that is not text, or empty. */
  other: string = "";

  constructor(message: Value) {
    const c = message.get("content");
    if (c.isText) this.texts.push(c.text);
    else for (let i = 0; i < c.length; i++) this.part(c.items[i]);
  }

  private part(p: Value): void {
    const kind = p.get("type").text;
    if (p.isText) this.texts.push(p.text);
    else if (kind == "text") this.texts.push(p.get("text").text);
    else if (!this.other.length) this.other = kind.length ? kind : "a part without type";
  }
}

/** Bytes that grow. */
export class Bytes {
  private room: ArrayBuffer = new ArrayBuffer(256);
  length: i32 = 0;

  get address(): usize {
    return changetype<usize>(this.room);
  }

  /** Room for n more bytes; returns where they begin. */
  private grow(n: i32): usize {
    if (this.length + n > this.room.byteLength) {
      const room = new ArrayBuffer(max(this.room.byteLength * 2, this.length + n));
      memory.copy(changetype<usize>(room), this.address, this.length);
      this.room = room;
    }
    const at = this.address + this.length;
    this.length += n;
    return at;
  }

  /** Appends a text as UTF-8; returns how many bytes that is. */
  text(s: string): i32 {
    const n = String.UTF8.byteLength(s);
    String.UTF8.encodeUnsafe(changetype<usize>(s), s.length, this.grow(n));
    return n;
  }

  u32(v: u32): void {
    store<u32>(this.grow(4), v);
  }
}

/** The text that is written, with what of it is data. */
export class Output {
  readonly text: Bytes = new Bytes();
  readonly spans: Bytes = new Bytes();

  /** Writes markup of the template's own: special tokens in it are recognised. */
  template(s: string): void {
    this.text.text(s);
  }

  /** Writes what comes from the request: no special token is recognised in it, so that nobody can forge one. */
  data(s: string): void {
    if (!s.length) return;
    const from = <u32>this.text.length;
    this.text.text(s);
    const last = this.spans.address + this.spans.length - 4;
    if (this.spans.length && load<u32>(last) == from) {
      store<u32>(last, this.text.length);
      return;
    }
    this.spans.u32(from);
    this.spans.u32(this.text.length);
  }
}
