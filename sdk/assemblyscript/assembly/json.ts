// Reads the JSON of configuration and parameters one value at a time.
//
//   for (r.object(); r.key(); ) {
//     if (r.name == "n") n = r.number();
//     else r.fail("unknown parameter: " + r.name);
//   }
//
// A Reader keeps its first error. After it every call does nothing and returns
// a zero value. The SDK checks for an error, and for text after the value, after begin.

/** The deepest allowed nesting of objects and arrays. */
const DEPTH: i32 = 64;

/** Reads one JSON value from its beginning to its end. */
export class Reader {
  /** The last name that key() read. */
  name: string = "";

  private at: usize;
  private end: usize;
  private depth: i32 = 0;
  private fresh: bool = false;
  private fault: string | null = null;

  /** Makes a reader of len bytes of JSON at ptr. */
  constructor(ptr: usize, len: u32) {
    this.at = ptr;
    this.end = ptr + len;
  }

  /** Whether a text is a valid JSON object. */
  static isObject(text: string): bool {
    const b = String.UTF8.encode(text);
    const r = new Reader(changetype<usize>(b), b.byteLength);
    if (r.peek() != 123) return false;
    r.skip();
    const sound = !r.close();
    return sound && b.byteLength > 0; // uses b last, so that it is not collected before the reader
  }

  /** Records an error, unless there is one already. */
  fail(why: string): void {
    if (!this.fault) this.fault = why.length ? why : "error without text";
    this.at = this.end;
  }

  /** Records that a value is not what is wanted. The error names the member. */
  private want(what: string): void {
    this.fail(this.name.length ? what + " for " + this.name : what);
  }

  /** Whether there is an error. */
  get failed(): bool {
    return this.fault != null;
  }

  /** Returns the first error or null. Anything after the value is an error too. */
  close(): string | null {
    this.space();
    if (this.at < this.end) this.fail("something follows the JSON value");
    return this.fault;
  }

  private here(): u8 {
    return this.at < this.end ? load<u8>(this.at) : 0;
  }

  private space(): void {
    for (let c = this.here(); c == 32 || c == 10 || c == 9 || c == 13; c = this.here()) this.at++;
  }

  /** Returns the first byte of the next value: 48 ("0") for any number, 0 at the end or after an error. */
  peek(): u8 {
    this.space();
    const c = this.here();
    if (c == 45 || isDigit(c)) return 48;
    if (c == 123 || c == 91 || c == 34 || c == 116 || c == 102 || c == 110) return c;
    return 0;
  }

  private take(c: u8): bool {
    this.space();
    if (this.at >= this.end || load<u8>(this.at) != c) return false;
    this.at++;
    return true;
  }

  private enter(c: u8, want: string): void {
    if (!this.take(c)) return this.want(want);
    if (++this.depth > DEPTH) return this.fail("JSON is nested deeper than 64");
    this.fresh = true;
  }

  /** Enters an object. key() then reads its members one by one. */
  object(): void {
    this.enter(123, "want a JSON object");
  }

  /** Enters an array. item() then moves through its elements. */
  array(): void {
    this.enter(91, "want a JSON array");
  }

  private more(shut: u8): bool {
    const fresh = this.fresh;
    this.fresh = false;
    if (this.fault) return false;
    if (this.take(shut)) {
      this.depth--;
      return false;
    }
    if (this.at >= this.end) {
      this.fail("JSON ends too early");
      return false;
    }
    if (!fresh && !this.take(44)) {
      this.fail("want a comma in JSON");
      return false;
    }
    return true;
  }

  /** Whether there is another element. It must then be read or skipped. */
  item(): bool {
    return this.more(93);
  }

  /** Whether there is another member. Its value must then be read or skipped. */
  key(): bool {
    if (!this.more(125)) return false;
    this.name = "";
    this.name = this.string();
    if (!this.fault && !this.take(58)) this.fail("want a colon in JSON");
    return !this.fault;
  }

  /** Reads a string. */
  string(): string {
    if (this.peek() != 34) {
      this.want("want a JSON string");
      return "";
    }
    let s = "";
    let from = ++this.at;
    while (this.at < this.end) {
      const c = load<u8>(this.at++);
      if (c >= 32 && c != 34 && c != 92) continue;
      s += String.UTF8.decodeUnsafe(from, this.at - 1 - from);
      if (c == 34) return s;
      const r = c == 92 ? this.escape() : -1;
      if (r >= 0) s += String.fromCodePoint(r);
      else this.fail("a control character in a JSON string");
      from = this.at;
    }
    this.fail("a JSON string has no end");
    return "";
  }

  private escape(): i32 {
    if (this.at >= this.end) {
      this.fail("a JSON string has no end");
      return -1;
    }
    const c = load<u8>(this.at++);
    if (c == 34 || c == 92 || c == 47) return c;
    if (c == 98) return 8;
    if (c == 102) return 12;
    if (c == 110) return 10;
    if (c == 114) return 13;
    if (c == 116) return 9;
    if (c == 117) {
      const v = this.hex();
      if (v >= 0) return this.pair(v);
    }
    this.fail("a bad escape in a JSON string");
    return -1;
  }

  private hex(): i32 {
    if (this.end - this.at < 4) return -1;
    let v = 0;
    for (let i = 0; i < 4; i++) {
      const c = <i32>load<u8>(this.at++);
      const low = c | 32;
      if (isDigit(<u8>c)) v = (v << 4) | (c - 48);
      else if (low >= 97 && low <= 102) v = (v << 4) | (low - 87);
      else return -1;
    }
    return v;
  }

  /** Joins the halves of a surrogate pair. A half without the other becomes U+FFFD. */
  private pair(high: i32): i32 {
    if (high < 0xd800 || high > 0xdfff) return high;
    const back = this.at;
    if (high < 0xdc00 && this.end - this.at >= 6 && load<u8>(this.at) == 92 && load<u8>(this.at, 1) == 117) {
      this.at += 2;
      const low = this.hex();
      if (low >= 0xdc00 && low <= 0xdfff) return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
      this.at = back;
    }
    return 0xfffd;
  }

  private digits(): i32 {
    let n = 0;
    for (; isDigit(this.here()); n++) this.at++;
    return n;
  }

  /** Reads a number. A number too large for an f64 becomes an infinity. */
  number(): f64 {
    if (this.peek() != 48) {
      this.want("want a JSON number");
      return 0;
    }
    const from = this.at;
    if (this.here() == 45) this.at++;
    const whole = this.digits();
    let bad = whole == 0 || (whole > 1 && load<u8>(this.at - whole) == 48);
    if (this.here() == 46) {
      this.at++;
      if (!this.digits()) bad = true;
    }
    if ((this.here() | 32) == 101) {
      this.at++;
      if (this.here() == 43 || this.here() == 45) this.at++;
      if (!this.digits()) bad = true;
    }
    if (bad) {
      this.fail("a bad JSON number");
      return 0;
    }
    return F64.parseFloat(String.UTF8.decodeUnsafe(from, this.at - from));
  }

  /** Reads a whole number from 0 to 4294967295. */
  uint(): u32 {
    const v = this.number();
    if (!(v >= 0 && v <= 4294967295 && v == Math.floor(v))) {
      this.want("want a whole number from 0 to 4294967295");
      return 0;
    }
    return <u32>v;
  }

  /** Reads true or false. */
  boolean(): bool {
    const c = this.peek();
    if (c == 116 && this.word("true")) return true;
    if (c != 102 || !this.word("false")) this.want("want true or false in JSON");
    return false;
  }

  private word(w: string): bool {
    if (this.end - this.at < <usize>w.length) return false;
    for (let i = 0; i < w.length; i++) if (load<u8>(this.at + i) != <u8>w.charCodeAt(i)) return false;
    this.at += w.length;
    return true;
  }

  /** Reads a value of any type and returns its JSON, empty after an error. */
  raw(): string {
    this.space();
    const from = this.at;
    this.skip();
    return this.fault ? "" : String.UTF8.decodeUnsafe(from, this.at - from);
  }

  /** Skips a value of any type. */
  skip(): void {
    const c = this.peek();
    if (c == 123) for (this.object(); this.key(); ) this.skip();
    else if (c == 91) for (this.array(); this.item(); ) this.skip();
    else if (c == 34) this.string();
    else if (c == 48) this.number();
    else if (c == 110) {
      if (!this.word("null")) this.fail("want null in JSON");
    } else this.boolean();
  }
}

function isDigit(c: u8): bool {
  return c >= 48 && c <= 57;
}
