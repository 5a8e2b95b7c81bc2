// call-lines: a parser of tool calls in an invented format. A line
// `CALL name(json)` is a call; everything else is content. The setting "word"
// replaces the word CALL.

import { callId, describe, Events, Failure, Offer, Reader, tools, Tools, Value } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/tools";

/** The longest line of a call, in bytes. */
const LONGEST = 4096;

class Lines extends Tools {
  /** The setting "word" with a space after it. */
  private word: string = "CALL ";
  /** The tools of the request; null if calls are not allowed. */
  private offer: Offer | null = null;
  private demands: bool = false;
  private parallel: bool = true;
  /** The line so far, if it is a call or can become one. */
  private held: string = "";
  /** Whether the line is content. */
  private text: bool = false;

  open(config: Value): string | null {
    for (let i = 0; i < config.length; i++) {
      if (config.names[i] == "model") continue;
      if (config.names[i] != "word") return "unknown setting: " + config.names[i];
      const w = config.items[i].text;
      let bad = !config.items[i].isText || w.length < 1 || w.length > 16;
      for (let j = 0; j < w.length; j++) bad = bad || w.charCodeAt(j) < 65 || w.charCodeAt(j) > 90;
      if (bad) return "word: want 1 to 16 capital letters";
      this.word = w + " ";
    }
    return null;
  }

  begin(r: Offer): string | null {
    if (r.tools.length && r.choice != "none") this.offer = r;
    this.demands = r.choice != "auto";
    this.parallel = r.parallel;
    return null;
  }

  feed(piece: string, special: bool, events: Events): void {
    if (special) return;
    if (!this.offer) return events.content(piece);
    for (let from = 0; from < piece.length; ) {
      const end = piece.indexOf("\n", from);
      this.part(piece.substring(from, end < 0 ? piece.length : end), events);
      if (end < 0) return;
      if (this.text) events.content("\n");
      else this.line("\n", events);
      this.text = false;
      from = end + 1;
    }
  }

  /** Reads a part of a line, without its end. */
  private part(s: string, events: Events): void {
    if (this.text) return events.content(s);
    this.held += s;
    if (this.held.startsWith(this.word) || this.word.startsWith(this.held)) return;
    this.text = true;
    events.content(this.held);
    this.held = "";
  }

  finish(cut: bool, events: Events): void {
    if (cut && this.held.startsWith(this.word)) events.failed(Failure.INCOMPLETE, this.held);
    else this.line("", events);
  }

  /** Parses the held line. end is the text that ended it. */
  private line(end: string, events: Events): void {
    const line = this.held;
    this.held = "";
    if (line.startsWith(this.word)) {
      const c = new Call();
      const read = c.read(line.substring(this.word.length));
      const sound = read && this.offer!.allows(c.name);
      const long = sound && String.UTF8.byteLength(line) > LONGEST;
      if (sound && !long && !this.parallel && events.calls) return events.failed(Failure.TOO_MANY, line);
      if (sound && !long) {
        events.begin(c.name, callId());
        events.arguments(c.args);
        return events.end();
      }
      if (this.demands) return events.failed(long ? Failure.TOO_LONG : read ? Failure.UNKNOWN : Failure.MALFORMED, line);
    }
    events.content(line);
    events.content(end);
  }
}

/** A parsed `name(json)`. */
class Call {
  name: string = "";
  args: string = "";

  /** Parses a text. Returns false if it is not of that form. */
  read(s: string): bool {
    let end = s.length;
    while (end > 0 && (s.charCodeAt(end - 1) == 32 || s.charCodeAt(end - 1) == 9 || s.charCodeAt(end - 1) == 13)) end--;
    const open = s.indexOf("(");
    if (open < 1 || open > 64 || open + 1 >= end || s.charCodeAt(end - 1) != 41) return false;
    this.name = s.substring(0, open);
    this.args = s.substring(open + 1, end - 1);
    for (let i = 0; i < open; i++) {
      const c = s.charCodeAt(i);
      const low = c | 32;
      if (!((low >= 97 && low <= 122) || (c >= 48 && c <= 57) || c == 95 || c == 45)) return false;
    }
    return Reader.isObject(this.args);
  }
}

describe(
  '{"name":"call-lines","version":"1.0.0","config":true,"kinds":["tools"],' +
    '"doc":"Tool calls of the form CALL name(json), each on a line of its own."}',
);

tools(new Lines());
