//! Reads the JSON of configuration and parameters piece by piece.
//!
//! ```ignore
//! let mut r = Reader::new(params);
//! r.object(|r, key| match key {
//!     "n" => n = r.number(),
//!     _ => r.fail(&format!("unknown parameter: {key}")),
//! });
//! r.close()?;
//! ```
//!
//! The first fault is kept; every later call then does nothing and returns
//! zero, so that one look at the end is enough. [`Value`] holds a whole value,
//! for what is looked at more than once.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::Result;

pub use crate::value::Value;

/// How deeply objects and arrays may be nested.
pub const DEPTH: u32 = 64;

/// Reads one JSON value from its beginning to its end.
pub struct Reader<'a> {
    b: &'a [u8],
    at: usize,
    depth: u32,
    /// Where the name of the member lies that is being read; empty outside of objects.
    key: (usize, usize),
    fault: Option<String>,
}

impl<'a> Reader<'a> {
    /// Starts to read.
    pub fn new(b: &'a [u8]) -> Self {
        Reader { b, at: 0, depth: 0, key: (0, 0), fault: None }
    }

    /// Keeps the fault unless there is one already.
    pub fn fail(&mut self, why: &str) {
        if self.fault.is_none() {
            self.fault = Some(String::from(why));
        }
        self.at = self.b.len();
    }

    /// The fault of a value that is another than wanted. It names the member.
    fn want(&mut self, what: &str) {
        match self.b.get(self.key.0..self.key.1) {
            Some(key) if !key.is_empty() => self.fail(&format!("{} for {}", what, String::from_utf8_lossy(key))),
            _ => self.fail(what),
        }
    }

    /// Whether there was a fault.
    pub fn failed(&self) -> bool {
        self.fault.is_some()
    }

    /// The first fault; anything that follows the value is one.
    pub fn close(mut self) -> Result<()> {
        self.space();
        if self.at < self.b.len() {
            self.fail("something follows the JSON value");
        }
        self.fault.map_or(Ok(()), Err)
    }

    fn here(&self) -> u8 {
        self.b.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.here(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// What comes next, by its first byte; `b'0'` for any number, 0 for the end
    /// or a fault.
    pub fn peek(&mut self) -> u8 {
        self.space();
        match self.here() {
            b'-' | b'0'..=b'9' => b'0',
            c @ (b'{' | b'[' | b'"' | b't' | b'f' | b'n') => c,
            _ => 0,
        }
    }

    fn take(&mut self, c: u8) -> bool {
        self.space();
        let there = self.at < self.b.len() && self.here() == c;
        self.at += there as usize;
        there
    }

    /// Calls `each` with every name of an object; it must read or skip the value.
    pub fn object(&mut self, mut each: impl FnMut(&mut Self, &str)) {
        let outer = self.key;
        self.list(b'{', b'}', "want a JSON object", &mut |r| {
            r.key = (0, 0);
            r.space();
            let from = r.at + 1;
            let key = r.string();
            r.key = (from, r.at.saturating_sub(1));
            if !r.failed() && !r.take(b':') {
                r.fail("want a colon in JSON");
            }
            if !r.failed() {
                each(r, &key);
            }
        });
        self.key = outer;
    }

    /// Calls `each` for every element of an array; it must read or skip it.
    pub fn array(&mut self, mut each: impl FnMut(&mut Self)) {
        self.list(b'[', b']', "want a JSON array", &mut each)
    }

    fn list(&mut self, open: u8, shut: u8, want: &str, each: &mut dyn FnMut(&mut Self)) {
        if !self.take(open) {
            return self.want(want);
        }
        self.depth += 1;
        if self.depth > DEPTH {
            return self.fail("JSON is nested deeper than 64");
        }
        let mut first = true;
        while !self.failed() {
            if self.take(shut) {
                self.depth -= 1;
                return;
            }
            if self.at >= self.b.len() {
                return self.fail("JSON ends too early");
            }
            if !first && !self.take(b',') {
                return self.fail("want a comma in JSON");
            }
            first = false;
            each(self);
        }
    }

    /// Reads a string.
    pub fn string(&mut self) -> String {
        if self.peek() != b'"' {
            self.want("want a JSON string");
            return String::new();
        }
        self.at += 1;
        let mut s = Vec::new();
        loop {
            if self.at >= self.b.len() {
                self.fail("a JSON string has no end");
                return String::new();
            }
            let c = self.here();
            self.at += 1;
            match c {
                b'"' => break,
                0..=31 => {
                    self.fail("a control character in a JSON string");
                    return String::new();
                }
                b'\\' => match self.escape() {
                    Some(r) => s.extend_from_slice(r.encode_utf8(&mut [0; 4]).as_bytes()),
                    None => return String::new(),
                },
                _ => s.push(c),
            }
        }
        match String::from_utf8(s) {
            Ok(s) => s,
            Err(_) => {
                self.fail("a JSON string is not UTF-8");
                String::new()
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        if self.at >= self.b.len() {
            self.fail("a JSON string has no end");
            return None;
        }
        let c = self.here();
        self.at += 1;
        let r = match c {
            b'"' | b'\\' | b'/' => Some(c as char),
            b'b' => Some('\u{8}'),
            b'f' => Some('\u{c}'),
            b'n' => Some('\n'),
            b'r' => Some('\r'),
            b't' => Some('\t'),
            b'u' => self.hex().map(|v| self.pair(v)),
            _ => None,
        };
        if r.is_none() {
            self.fail("a bad escape in a JSON string");
        }
        r
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.b.get(self.at..self.at + 4)?;
        let mut v = 0;
        for &d in digits {
            v = v << 4 | (d as char).to_digit(16)?;
        }
        self.at += 4;
        Some(v)
    }

    /// Joins the halves of a surrogate pair; a lone half becomes U+FFFD.
    fn pair(&mut self, high: u32) -> char {
        let back = self.at;
        if (0xd800..0xdc00).contains(&high) && self.b[self.at..].starts_with(b"\\u") {
            self.at += 2;
            if let Some(low @ 0xdc00..=0xdfff) = self.hex() {
                return char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).unwrap_or('\u{fffd}');
            }
            self.at = back;
        }
        char::from_u32(high).unwrap_or('\u{fffd}')
    }

    /// Reads a number; one too large becomes an infinity.
    pub fn number(&mut self) -> f64 {
        if self.peek() != b'0' {
            self.want("want a JSON number");
            return 0.0;
        }
        let start = self.at;
        self.at += (self.here() == b'-') as usize;
        let whole = self.digits();
        let mut bad = whole == 0 || (whole > 1 && self.b[self.at - whole] == b'0');
        if self.here() == b'.' {
            self.at += 1;
            bad |= self.digits() == 0;
        }
        if matches!(self.here(), b'e' | b'E') {
            self.at += 1;
            self.at += matches!(self.here(), b'+' | b'-') as usize;
            bad |= self.digits() == 0;
        }
        let v = core::str::from_utf8(&self.b[start..self.at]).ok().and_then(|s| s.parse().ok());
        match v {
            Some(v) if !bad => v,
            _ => {
                self.fail("a bad JSON number");
                0.0
            }
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.here().is_ascii_digit() {
            self.at += 1;
        }
        self.at - start
    }

    /// Reads a whole number from 0 to 4294967295.
    pub fn uint(&mut self) -> u32 {
        let v = self.number();
        if v < 0.0 || v > u32::MAX as f64 || v != v as u32 as f64 {
            self.want("want a whole number from 0 to 4294967295");
            return 0;
        }
        v as u32
    }

    /// Reads true or false.
    pub fn boolean(&mut self) -> bool {
        match self.peek() {
            b't' if self.word("true") => return true,
            b'f' if self.word("false") => {}
            _ => self.want("want true or false in JSON"),
        }
        false
    }

    fn word(&mut self, w: &str) -> bool {
        let there = self.b[self.at..].starts_with(w.as_bytes());
        self.at += if there { w.len() } else { 0 };
        there
    }

    /// Passes over a value of any type and returns it as it is written, empty
    /// after a fault.
    pub fn raw(&mut self) -> &'a str {
        self.space();
        let from = self.at;
        self.skip();
        match core::str::from_utf8(&self.b[from..self.at]) {
            Ok(text) if !self.failed() => text,
            _ => {
                self.fail("JSON is not UTF-8");
                ""
            }
        }
    }

    /// Passes over a value of any type.
    pub fn skip(&mut self) {
        match self.peek() {
            b'{' => self.object(|r, _| r.skip()),
            b'[' => self.array(|r| r.skip()),
            b'"' => {
                self.string();
            }
            b'0' => {
                self.number();
            }
            b'n' => {
                if !self.word("null") {
                    self.fail("want null in JSON");
                }
            }
            _ => {
                self.boolean();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<()> {
        let mut r = Reader::new(text.as_bytes());
        r.skip();
        r.close()
    }

    #[test]
    fn faults() {
        for (text, want) in [
            ("{", "JSON ends too early"),
            ("{} x", "something follows the JSON value"),
            ("[1 2]", "want a comma in JSON"),
            ("{\"a\" 1}", "want a colon in JSON"),
            ("{1:2}", "want a JSON string"),
            ("\"a", "a JSON string has no end"),
            ("\"a\\", "a JSON string has no end"),
            ("\"\n\"", "a control character in a JSON string"),
            ("\"\\q\"", "a bad escape in a JSON string"),
            ("\"\\u12\"", "a bad escape in a JSON string"),
            ("\"\\u+123\"", "a bad escape in a JSON string"),
            ("01", "a bad JSON number"),
            ("-", "a bad JSON number"),
            ("1.", "a bad JSON number"),
            ("1e+", "a bad JSON number"),
            ("nul", "want null in JSON"),
            ("", "want true or false in JSON"),
        ] {
            assert_eq!(read(text), Err(want.into()), "{}", text);
        }
        assert_eq!(read(&"[".repeat(65)), Err("JSON is nested deeper than 64".into()));
    }

    #[test]
    fn values() {
        assert_eq!(read(" {\"a\":[1,-2.5e-3,true,false,null,{}],\"b\":\"\"} "), Ok(()));
        let mut r = Reader::new(br#""\ud83d\ude00\ud83d\u0041\udc00x""#);
        assert_eq!(r.string(), "\u{1f600}\u{fffd}A\u{fffd}x");
        assert_eq!(Reader::new(b"-12.5e1").number(), -125.0);
        assert_eq!(Reader::new(b"1e400").number(), f64::INFINITY);
        for (text, ok) in [("4294967295", true), ("4294967296", false), ("-1", false), ("0.5", false)] {
            let mut r = Reader::new(text.as_bytes());
            r.uint();
            assert_eq!(r.close().is_ok(), ok, "{}", text);
        }
    }
}
