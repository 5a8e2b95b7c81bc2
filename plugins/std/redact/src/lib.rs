//! redact: gives the client another text where the model writes an e-mail address, the number of a card, a key
//! or a string that is not to go out. README.md has parameters, patterns and limits.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod patterns;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use patterns::{Found, Kind, Rest};
use settings::{boolean, Defaults};
use tgi_plugin::{guard::Held, json::Reader, plugin, Guard, Result};

const STRINGS: usize = 256;
const STRING: usize = 256;
const WITH: usize = 64;
/// So many bytes of the prompt's end are looked at: more than anything has that may begin there, but for what goes on
/// without a bound.
const BEFORE: usize = 512;
/// A replacement has at most so many bytes; tokens behind wait for the next.
const MOST: usize = 4000;

#[derive(Clone)]
struct Settings {
    /// Requests may set nothing; `None` until the configuration was read.
    locked: Option<bool>,
    locking: bool,
    kinds: Vec<Kind>,
    strings: Vec<Vec<u8>>,
    ignore_case: bool,
    with: String,
    /// The kinds were given, even if there are none.
    chosen: bool,
}

const INITIAL: Settings =
    Settings { locked: None, locking: false, kinds: Vec::new(), strings: Vec::new(), ignore_case: false, with: String::new(), chosen: false };

static DEFAULTS: Defaults<Settings> = Defaults::new(INITIAL);

impl settings::Settings for Settings {
    fn member(&mut self, r: &mut Reader, name: &str) -> bool {
        if self.locked == Some(true) {
            r.fail("the operator has fixed the parameters");
            return true;
        }
        match name {
            "locked" if self.locked.is_none() => self.locking = boolean(r, name),
            "patterns" => {
                self.kinds.clear();
                self.chosen = true;
                texts(r, name, |r, i, s| match Kind::named(&s) {
                    Some(k) => self.kinds.push(k),
                    None => r.fail(&format!("patterns[{}] is none of {}", i, patterns::NAMES)),
                })
            }
            "strings" => texts(r, name, |r, i, s| {
                if s.is_empty() || s.len() > STRING {
                    r.fail(&format!("strings[{}] has {} bytes, want 1 to {}", i, s.len(), STRING));
                } else if self.strings.len() == STRINGS {
                    r.fail(&format!("strings: more than {} with those of the configuration", STRINGS));
                }
                self.strings.push(s.into_bytes());
            }),
            "ignore_case" => self.ignore_case = boolean(r, name),
            "with" => {
                if r.peek() != b'"' {
                    r.fail("with: want a string");
                } else {
                    self.with = r.string();
                    if self.with.len() > WITH {
                        r.fail(&format!("with: {} bytes, want at most {}", self.with.len(), WITH));
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn check(&mut self) -> Result<()> {
        self.locked = Some(self.locked.unwrap_or(self.locking));
        Ok(())
    }
}

/// Reads a list of strings.
fn texts(r: &mut Reader, field: &str, mut each: impl FnMut(&mut Reader, usize, String)) {
    if r.peek() != b'[' {
        return r.fail(&format!("{}: want a list of strings", field));
    }
    let mut n = 0;
    r.array(|r| {
        let i = n;
        n += 1;
        if r.peek() != b'"' {
            return r.fail(&format!("{}[{}]: want a string", field, i));
        }
        let s = r.string();
        each(r, i, s);
    });
}

/// Reads the configuration.
pub fn init(config: &[u8]) -> Result<()> {
    DEFAULTS.configure(config)
}

/// One sequence.
pub struct Redact {
    s: Settings,
    out: Vec<u8>,
    parts: Vec<Part>,
    /// How what was replaced last, or what the prompt ends with, goes on in front of what is held.
    rest: Option<Rest>,
    /// The end of the prompt from where it is not decided, and the byte in front of that.
    before: Vec<u8>,
    /// Where it is not decided.
    first: usize,
    /// It, and what is held behind it.
    text: Vec<u8>,
}

/// Where the parts of a text are.
struct Text<'a> {
    all: &'a [u8],
    /// Of the prompt in front of the output.
    prompt: usize,
    /// What went out, or is the prompt's, ends here.
    gone: usize,
}

/// A part of the text that is replaced.
struct Part {
    from: usize,
    to: usize,
    /// It goes on where another part ends, or one that went out: nothing stands there instead. How it does.
    on: Option<Rest>,
    /// It goes out as a whole.
    whole: bool,
    /// How it goes on behind `to`.
    rest: Option<Rest>,
}

impl Redact {
    /// Finds what begins at `at`.
    fn look(&self, text: &[u8], at: usize, over: bool) -> Found {
        let mut best = Found::No;
        for s in &self.s.strings {
            let same = |a: u8, b: u8| a == b || self.s.ignore_case && a.eq_ignore_ascii_case(&b);
            if s.iter().zip(&text[at..]).all(|(&a, &b)| same(a, b)) {
                best = best.or(match text.len() - at >= s.len() {
                    true => Found::To(at + s.len()),
                    false if over && patterns::enough(text.len() - at, s.len()) => Found::To(text.len()),
                    false if over => Found::No,
                    false => Found::Maybe,
                });
            }
        }
        self.s.kinds.iter().fold(best, |best, k| best.or(k.look(text, at, over)))
    }

    /// Finds the parts behind `at`, and returns where what is not decided begins.
    fn find(&mut self, text: &[u8], mut at: usize, over: bool) -> usize {
        self.parts.clear();
        let mut rest = self.rest;
        loop {
            if let Some(r) = rest {
                let (to, on) = r.end(text, at, over);
                self.parts.push(Part { from: at, to, on: rest, whole: !on, rest: if on { rest } else { None } });
                at = to;
                if on {
                    return at;
                }
                rest = None;
            }
            if at == text.len() {
                return at;
            }
            match self.look(text, at, over) {
                Found::No => at += 1,
                Found::Maybe => return at,
                Found::To(to) => {
                    self.parts.push(Part { from: at, to, on: None, whole: true, rest: None });
                    at = to;
                }
                Found::Long(to, r) => {
                    self.parts.push(Part { from: at, to, on: None, whole: true, rest: Some(r) });
                    at = to;
                    rest = Some(r);
                }
            }
        }
    }

    /// How many held tokens can go: they end where the text is decided, and not inside of a part.
    fn count(&self, held: &Held, text: &Text, decided: usize) -> usize {
        let mut keep = 0;
        for (i, &end) in held.ends.iter().enumerate() {
            let end = text.prompt + end as usize;
            let size = end - text.gone + self.s.with.len() * self.parts.len();
            if end > decided || size > MOST && keep > 0 {
                break;
            }
            if !self.parts.iter().any(|p| p.whole && p.from < end && end < p.to) {
                keep = i + 1;
            }
        }
        keep
    }

    /// Writes the text up to `to` with its parts replaced, and reports whether there are any.
    fn write(&mut self, text: &Text, to: usize) -> bool {
        self.out.clear();
        let (mut at, mut any) = (text.gone, false);
        for p in self.parts.iter().take_while(|p| p.from < to) {
            if p.to <= text.gone {
                continue; // all of it is the prompt's
            }
            any = true;
            self.out.extend_from_slice(&text.all[at..p.from.max(at)]);
            if p.on.is_none() || p.from <= text.prompt {
                self.out.extend_from_slice(self.s.with.as_bytes());
            }
            at = p.to.min(to);
        }
        self.out.extend_from_slice(&text.all[at..to]);
        any
    }

    /// Says what becomes of what is held; the text is decided up to `from`.
    fn judge(&mut self, held: &mut Held, text: &Text, from: usize) {
        let decided = self.find(text.all, from, held.ends_here());
        let keep = self.count(held, text, decided);
        if keep == 0 {
            return held.release(held.released);
        }
        let to = text.prompt + held.ends[keep - 1] as usize;
        let any = self.write(text, to);
        if to > text.gone {
            self.rest = self.rest_at(to);
        }
        if any {
            held.replace(held.released + keep, &String::from_utf8_lossy(&self.out));
        } else {
            held.release(held.released + keep);
        }
    }

    /// How what was replaced goes on behind `to`.
    fn rest_at(&self, to: usize) -> Option<Rest> {
        let p = self.parts.iter().rev().find(|p| p.from < to)?;
        match p.to <= to {
            true if p.to == to => p.rest,
            true => None,
            false => p.on,
        }
    }
}

impl Guard for Redact {
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self> {
        let mut s = DEFAULTS.with(params)?;
        if !s.chosen {
            s.kinds = patterns::ALL.to_vec();
        }
        if s.with.is_empty() {
            s.with.push_str("[redacted]");
        }
        let tail = border::tail(prompt, BEFORE);
        let mut r = Redact {
            s,
            out: Vec::with_capacity(2 * MOST),
            parts: Vec::with_capacity(64),
            rest: None,
            before: Vec::new(),
            first: 0,
            text: Vec::new(),
        };
        let decided = r.find(&tail, 0, false);
        r.rest = r.parts.last().and_then(|p| p.rest);
        let from = decided.saturating_sub(1);
        r.before.extend_from_slice(&tail[from..]);
        r.first = decided - from;
        Ok(r)
    }

    fn check(&mut self, held: &mut Held) -> Result<()> {
        let prompt = if held.context == 0 { self.before.len() } else { 0 };
        if prompt == 0 {
            let all = held.text;
            self.judge(held, &Text { all, prompt, gone: held.context }, held.context);
            return Ok(());
        }
        let mut all = core::mem::take(&mut self.text);
        all.clear();
        all.extend_from_slice(&self.before);
        all.extend_from_slice(held.text);
        self.judge(held, &Text { all: &all, prompt, gone: prompt }, self.first);
        self.text = all;
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"redact","version":"1.0.1","config":true,"kinds":["guard"],"#,
        r#""guard":{"hold":256,"verdicts":["replace"]},"#,
        r#""doc":"Replaces keys, e-mail addresses, card numbers and strings before anyone sees them.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""patterns":{"description":"what is looked for","type":"array","items":{"enum":["email","card","key"]},"default":["email","card","key"]},"#,
        r#""strings":{"description":"strings that are replaced, on top of the configured ones","type":"array","maxItems":256,"items":{"type":"string","minLength":1,"maxLength":256},"default":[]},"#,
        r#""ignore_case":{"description":"ASCII letters of the strings are equal in both cases","type":"boolean","default":false},"#,
        r#""with":{"description":"what stands there instead","type":"string","maxLength":64,"default":"[redacted]"}}}}"#
    ),
    init: init,
    guard: Redact,
}

#[cfg(test)]
mod tests;
