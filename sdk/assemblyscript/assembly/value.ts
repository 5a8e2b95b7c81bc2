// Whole JSON values, for data that is read more than once.

import { Reader } from "./json";

export enum Kind {
  NULL,
  BOOL,
  NUMBER,
  TEXT,
  ARRAY,
  OBJECT,
}

/** A JSON value. Fields that its type does not use are empty. */
export class Value {
  kind: Kind = Kind.NULL;
  /** The text of a string without escapes; the JSON of a number, true or false. */
  text: string = "";
  /** The elements of an array, or the values of an object's members. */
  items: Value[] = [];
  /** The names of an object's members, in their order in the JSON. */
  names: string[] = [];

  /** Reads a whole value and checks that nothing follows it. The reader keeps an error. */
  static parse(r: Reader): Value {
    const v = Value.read(r);
    r.close();
    return v;
  }

  /** Parses a text. Returns a null value if it is not JSON. */
  static of(text: string): Value {
    const b = String.UTF8.encode(text);
    const r = new Reader(changetype<usize>(b), b.byteLength);
    const v = Value.parse(r);
    return r.failed || !b.byteLength ? nothing : v; // uses b last, so that it is not collected before the reader
  }

  /** Reads the next value. Returns a null value after an error, which the reader keeps. */
  static read(r: Reader): Value {
    const v = new Value();
    const c = r.peek();
    if (c == 123) {
      v.kind = Kind.OBJECT;
      for (r.object(); r.key(); ) {
        v.names.push(r.name);
        v.items.push(Value.read(r));
      }
    } else if (c == 91) {
      v.kind = Kind.ARRAY;
      for (r.array(); r.item(); ) v.items.push(Value.read(r));
    } else if (c == 34) {
      v.kind = Kind.TEXT;
      v.text = r.string();
    } else if (c == 48) {
      v.kind = Kind.NUMBER;
      v.text = r.raw();
    } else if (c == 116 || c == 102) {
      v.kind = Kind.BOOL;
      v.text = r.boolean() ? "true" : "false";
    } else r.skip();
    return v;
  }

  get isNull(): bool {
    return this.kind == Kind.NULL;
  }
  get isTrue(): bool {
    return this.kind == Kind.BOOL && this.text == "true";
  }
  get isText(): bool {
    return this.kind == Kind.TEXT;
  }
  /** Number of elements or members. */
  get length(): i32 {
    return this.items.length;
  }

  /** Returns the last member with this name of an object, or a null value. */
  get(name: string): Value {
    if (this.kind == Kind.OBJECT) {
      for (let i = this.names.length - 1; i >= 0; i--) if (this.names[i] == name) return this.items[i];
    }
    return nothing;
  }

  /** Returns the number, or NaN if it is none. A number too large for an f64 becomes an infinity. */
  number(): f64 {
    return this.kind == Kind.NUMBER ? F64.parseFloat(this.text) : NaN;
  }

  /** Returns the value as JSON, spaced as in Python's json.dumps and therefore in chat templates: {"a": [1, 2]}.
   *  Numbers are unchanged, and characters beyond ASCII are not escaped. */
  json(): string {
    if (this.kind == Kind.NULL) return "null";
    if (this.kind == Kind.TEXT) return quote(this.text);
    if (this.kind != Kind.ARRAY && this.kind != Kind.OBJECT) return this.text;
    const parts: string[] = [];
    for (let i = 0; i < this.items.length; i++) {
      parts.push(this.kind == Kind.OBJECT ? quote(this.names[i]) + ": " + this.items[i].json() : this.items[i].json());
    }
    return this.kind == Kind.OBJECT ? "{" + parts.join(", ") + "}" : "[" + parts.join(", ") + "]";
  }
}

const nothing = new Value();

/** Returns a string as JSON. */
export function quote(s: string): string {
  let out = '"';
  let from = 0;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c >= 32 && c != 34 && c != 92) continue;
    out += s.substring(from, i) + escaped(c);
    from = i + 1;
  }
  return out + s.substring(from) + '"';
}

function escaped(c: i32): string {
  if (c == 34) return '\\"';
  if (c == 92) return "\\\\";
  if (c == 8) return "\\b";
  if (c == 12) return "\\f";
  if (c == 10) return "\\n";
  if (c == 13) return "\\r";
  if (c == 9) return "\\t";
  return "\\u00" + (c < 16 ? "0" : "") + c.toString(16);
}
