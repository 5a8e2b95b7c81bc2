// The kind template: renders the conversation of a chat request into the prompt.

import { Value } from "./value";

/** A chat template. One instance renders one conversation. */
export abstract class Template {
  /** Reads the configuration, once, before the server's snapshot. Its member "model" describes the model. An error
   *  text refuses the plugin. Here and below, null is success. */
  open(config: Value): string | null {
    return null;
  }
  /** Validates the request's parameters when a request is admitted. The request has them again. A template without
   *  this method accepts no parameters. */
  validate(params: Value): string | null {
    return noParameters(params);
  }
  /** Writes the conversation to out. An error text refuses the request, and the client gets it. */
  abstract render(r: Conversation, out: Output): string | null;
}

export function noParameters(params: Value): string | null {
  return params.length ? "the plugin takes no parameters" : null;
}

/** One conversation. */
export class Conversation {
  constructor(
    /** The request, as ../abi describes it, for members that have no field here. */
    readonly request: Value,
  ) {}

  /** The messages, objects as in OpenAI's API. Content reads their texts. */
  get messages(): Value[] {
    return this.request.get("messages").items;
  }
  /** The offered tools. */
  get tools(): Value[] {
    return this.request.get("tools").items;
  }
  /** The request's parameters for this plugin. */
  get params(): Value {
    return this.request.get("params");
  }
  /** Whether the prompt must end where the assistant's turn begins. */
  get addGenerationPrompt(): bool {
    return this.request.get("add_generation_prompt").isTrue;
  }
  /** Whether the prompt must end where the last message ends. */
  get continueFinalMessage(): bool {
    return this.request.get("continue_final_message").isTrue;
  }
}

/** The texts of a message's content: the string, or the parts that are text. */
export class Content {
  texts: string[] = [];
  /** Type of the first part that is not text, or empty. */
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

/** A growing array of bytes. */
export class Bytes {
  private room: ArrayBuffer = new ArrayBuffer(256);
  length: i32 = 0;

  get address(): usize {
    return changetype<usize>(this.room);
  }

  /** Adds n bytes and returns their address. */
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

  /** Appends a text as UTF-8 and returns its length in bytes. */
  text(s: string): i32 {
    const n = String.UTF8.byteLength(s);
    String.UTF8.encodeUnsafe(changetype<usize>(s), s.length, this.grow(n));
    return n;
  }

  u32(v: u32): void {
    store<u32>(this.grow(4), v);
  }
}

/** The rendered text, and which ranges of it are data. */
export class Output {
  readonly text: Bytes = new Bytes();
  readonly spans: Bytes = new Bytes();

  /** Writes text of the template itself. Special tokens in it are recognised. */
  template(s: string): void {
    this.text.text(s);
  }

  /** Writes text of the request. No special token in it is recognised, so clients cannot forge one. */
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
