//! redact: gives the client another text where the model writes an e-mail address, the number of a card, a key
//! or a string that is not to go out. README.md has parameters, patterns and limits.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod patterns;
mod strings;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use patterns::{Found, Kind, Rest};
use settings::{boolean, Defaults};
use strings::{Room, Strings};
use tgi_plugin::{guard::Held, json::Reader, plugin, Guard, Result};

const STRINGS: usize = 256;
const STRING: usize = 256;
/// The bytes of all strings where a request has some: they have to be made ready while it waits.
const ALL: usize = 32_768;
const WITH: usize = 64;
/// So many bytes of the prompt's end are looked at: more than anything has that may begin there, but for what goes on
/// without a bound.
const BEFORE: usize = 512;
/// So many bytes are looked at in a step. More are held where other guards hold them.
const STEP: usize = 4096;
/// A replacement has at most so many bytes; tokens behind wait for the next.
const MOST: usize = 4000;

#[derive(Clone)]
struct Settings {
    /// Requests may set nothing; `None` until the configuration was read.
    locked: Option<bool>,
    locking: bool,
    kinds: Vec<Kind>,
    strings: Vec<String>,
    /// Searches for the strings; `None` without any, and where a setting changed since it was made.
    search: Option<Arc<Strings>>,
    ignore_case: bool,
    with: String,
    /// The kinds were given, even if there are none.
    chosen: bool,
}

const INITIAL: Settings = Settings {
    locked: None,
    locking: false,
    kinds: Vec::new(),
    strings: Vec::new(),
    search: None,
    ignore_case: false,
    with: String::new(),
    chosen: false,
};

static DEFAULTS: Defaults<Settings> = Defaults::new(INITIAL);

impl settings::Settings for Settings {
    fn member(&mut self, r: &mut Reader, name: &str) -> bool {
        if self.locked == Some(true) {
            r.fail("the operator has fixed the parameters");
            return true;
        }
        if matches!(name, "strings" | "ignore_case") {
            self.search = None;
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
                self.strings.push(s);
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
        let of_request = self.locked.is_some();
        self.locked = Some(self.locked.unwrap_or(self.locking));
        if self.search.is_none() && !self.strings.is_empty() {
            let bytes: usize = self.strings.iter().map(|s| s.len()).sum();
            if of_request && bytes > ALL {
                return Err(format!("strings: {} bytes with those of the configuration, want at most {}", bytes, ALL));
            }
            self.search = Some(Arc::new(Strings::new(&self.strings, self.ignore_case)));
        }
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
    /// The end of the prompt from where it is not decided, and what has to be in front of that.
    before: Vec<u8>,
    /// Where it is not decided.
    first: usize,
    /// It, and what is held behind it.
    text: Vec<u8>,
    /// For what is known of the strings at the text's places.
    room: Room,
    /// So many of the sequence's first tokens are decided, and have no part, by all that were there.
    clean: usize,
    /// How many these were.
    seen: usize,
}

/// Where the parts of a text are.
struct Text<'a> {
    all: &'a [u8],
    /// Of the prompt in front of the output.
    prompt: usize,
    /// What went out, or is the prompt's, ends here.
    gone: usize,
}

impl Text<'_> {
    /// How many bytes a byte up to `to` may become where a replacement has it: one that is no character has three there.
    fn wide(&self, to: usize) -> usize {
        if core::str::from_utf8(&self.all[self.gone.min(to)..to]).is_ok() {
            1
        } else {
            3
        }
    }
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
    /// Finds the parts that begin from `at` up to `most`, and returns where what is not decided begins.
    fn find(&mut self, text: &[u8], mut at: usize, most: usize, over: bool) -> usize {
        self.parts.clear();
        let mut rest = self.rest;
        let mut strings = self.s.search.as_ref().map(|s| s.read(text, at, most, &mut self.room));
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
            if at >= most {
                return at;
            }
            let best = strings.as_mut().map_or(Found::No, |s| s.look(text, at, over));
            match self.s.kinds.iter().fold(best, |best, k| best.or(k.look(text, at, over))) {
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
        let mut parts = self.parts.iter().filter(|p| p.whole).peekable();
        let with = self.s.with.len() * self.parts.len();
        let part = held.ends_here() && decided < text.all.len();
        let wide = if with > 0 || part { text.wide(decided) } else { 1 };
        for (i, &end) in held.ends.iter().enumerate() {
            let end = text.prompt + end as usize;
            let size = wide * (end - text.gone) + with;
            if end > decided || size > MOST && keep > 0 && (with > 0 || part) {
                break;
            }
            while parts.peek().map_or(false, |p| p.to <= end) {
                parts.next();
            }
            if parts.peek().map_or(true, |p| end <= p.from) {
                keep = i + 1;
            }
        }
        keep
    }

    /// Writes the text up to `to` with its parts replaced, and reports whether there are any. Where a token has more
    /// parts than there is room for, nothing stands instead of the others.
    fn write(&mut self, text: &Text, to: usize) -> bool {
        if self.parts.is_empty() {
            return false;
        }
        self.out.clear();
        let parts = self.parts.iter().take_while(|p| p.from < to).filter(|p| p.to > text.gone);
        let replaced: usize = parts.clone().map(|p| p.to.min(to) - p.from.max(text.gone)).sum();
        let room = MOST.saturating_sub(text.wide(to) * (to - text.gone - replaced));
        let (mut at, mut any, mut used) = (text.gone, false, 0);
        for p in parts {
            self.out.extend_from_slice(&text.all[at..p.from.max(at)]);
            if (p.on.is_none() || p.from <= text.prompt) && (used == 0 || used + self.s.with.len() <= room) {
                self.out.extend_from_slice(self.s.with.as_bytes());
                used += self.s.with.len();
            }
            any = true;
            at = p.to.min(to);
        }
        self.out.extend_from_slice(&text.all[at..to]);
        any
    }

    /// Says what becomes of what is held; the text is decided up to `from`.
    fn judge(&mut self, held: &mut Held, text: &Text, from: usize) {
        let next = held.ends.iter().map(|&end| text.prompt + end as usize).find(|&end| end > from);
        let most = next.map_or(from, |end| end.max(from + STEP).min(text.all.len()));
        let mut decided = self.find(text.all, from, most, held.ends_here());
        if !held.ends_here() {
            let clean = self.parts.first().map_or(decided, |p| p.from);
            self.clean = held.released + held.ends.iter().take_while(|&&end| text.prompt + end as usize <= clean).count();
        }
        let mut keep = self.count(held, text, decided);
        if keep == 0 && held.ends_here() && decided < text.all.len() {
            decided = self.find(text.all, from, text.all.len(), true);
            keep = self.count(held, text, decided);
        }
        if keep == 0 {
            return held.release(held.released);
        }
        let to = text.prompt + held.ends[keep - 1] as usize;
        let any = self.write(text, to);
        if to > text.gone {
            self.rest = self.rest_at(to);
        }
        // at the end nothing but all can be released
        let part = held.ends_here() && keep < held.ends.len();
        if part && !any {
            self.out.clear();
            self.out.extend_from_slice(&text.all[text.gone..to]);
        }
        if any || part {
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
            room: Room::default(),
            clean: 0,
            seen: 0,
        };
        let decided = r.find(&tail, 0, tail.len(), false);
        r.rest = r.parts.last().and_then(|p| p.rest);
        let from = escapes::before(decided, |i| tail[i] == b'\\');
        r.before.extend_from_slice(&tail[from..]);
        r.first = decided - from;
        Ok(r)
    }

    fn check(&mut self, held: &mut Held) -> Result<()> {
        let prompt = if held.context == 0 { self.before.len() } else { 0 };
        // What has nothing in it need not be looked at again, unless something was taken back: that may have decided it.
        if held.tokens.len() - held.new < self.seen {
            self.clean = 0;
        }
        self.seen = held.tokens.len();
        let from = match self.clean.checked_sub(held.released + 1) {
            Some(last) if self.rest.is_none() => Some(prompt + held.ends[last] as usize),
            _ => None,
        };
        if prompt == 0 {
            let all = held.text;
            self.judge(held, &Text { all, prompt, gone: held.context }, from.unwrap_or(held.context));
            return Ok(());
        }
        let mut all = core::mem::take(&mut self.text);
        all.clear();
        all.extend_from_slice(&self.before);
        all.extend_from_slice(held.text);
        self.judge(held, &Text { all: &all, prompt, gone: prompt }, from.unwrap_or(self.first));
        self.text = all;
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"redact","version":"1.1.0","config":true,"kinds":["guard"],"#,
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
