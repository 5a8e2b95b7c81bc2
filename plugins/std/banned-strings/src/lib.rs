//! banned-strings: takes strings back as soon as the text contains them, and has the model choose another
//! way. README.md has parameters, algorithm and limits.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod search;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use search::{Scan, Strings, Text, Wanted};
use settings::{boolean, whole, Defaults};
use tgi_plugin::{guard::Held, json::Reader, plugin, Guard, Result};

/// The bounds of a list: strings, bytes of one, bytes of all.
const STRINGS: usize = 1024;
const STRING: usize = 256;
const ALL: usize = 32_768;
/// So many bytes in front of the output are looked at.
const BEFORE: usize = STRING - 1 + letters::LONGEST;

/// How often the text is taken back to a place before the place itself is thought over, where `depth` allows it.
const TRIES: usize = 3;

#[derive(Clone)]
struct Settings {
    /// Requests may set nothing; `None` until the configuration was read.
    locked: Option<bool>,
    locking: bool,
    /// Of the configuration and of the request.
    strings: Vec<String>,
    bytes: usize,
    ignore_case: bool,
    whole_word: bool,
    depth: usize,
    /// Searches for the strings; `None` without any, and where a setting changed since it was made.
    search: Option<Arc<Strings>>,
}

const INITIAL: Settings = Settings {
    locked: None,
    locking: false,
    strings: Vec::new(),
    bytes: 0,
    ignore_case: true,
    whole_word: false,
    depth: 0,
    search: None,
};

static DEFAULTS: Defaults<Settings> = Defaults::new(INITIAL);

impl settings::Settings for Settings {
    fn member(&mut self, r: &mut Reader, name: &str) -> bool {
        if self.locked == Some(true) {
            r.fail("the operator has fixed the parameters");
            return true;
        }
        if matches!(name, "strings" | "ignore_case" | "whole_word") {
            self.search = None;
        }
        match name {
            "locked" if self.locked.is_none() => self.locking = boolean(r, name),
            "strings" => self.list(r),
            "ignore_case" => self.ignore_case = boolean(r, name),
            "whole_word" => self.whole_word = boolean(r, name),
            "depth" => self.depth = whole(r, name, 0, 16) as usize,
            _ => return false,
        }
        true
    }

    fn check(&mut self) -> Result<()> {
        if self.locking && self.strings.is_empty() {
            return Err("locked is true and strings is empty: nothing would ever be taken back".into());
        }
        self.locked = Some(self.locked.unwrap_or(self.locking));
        if self.search.is_none() && !self.strings.is_empty() {
            self.search = Some(Arc::new(Strings::new(&self.strings, self.ignore_case, self.whole_word)));
        }
        Ok(())
    }
}

impl Settings {
    /// Reads strings, which come on top of the configured ones.
    fn list(&mut self, r: &mut Reader) {
        if r.peek() != b'[' {
            return r.fail("strings: want a list of strings");
        }
        let mut n = 0;
        r.array(|r| {
            let i = n;
            n += 1;
            if r.peek() != b'"' {
                return r.fail(&format!("strings[{}]: want a string", i));
            }
            let s = r.string();
            self.bytes += s.len();
            if s.is_empty() || s.len() > STRING {
                r.fail(&format!("strings[{}] has {} bytes, want 1 to {}", i, s.len(), STRING));
            } else if self.strings.len() == STRINGS {
                r.fail(&format!("strings: more than {} with those of the configuration", STRINGS));
            } else if self.bytes > ALL {
                r.fail(&format!("strings: more than {} bytes with those of the configuration", ALL));
            }
            self.strings.push(s);
        });
    }
}

/// Reads the configuration.
pub fn init(config: &[u8]) -> Result<()> {
    DEFAULTS.configure(config)
}

/// One sequence.
pub struct Banned {
    s: Settings,
    /// How often the text was taken back to a place.
    places: Vec<(usize, usize)>,
    /// The end of the prompt: a string less a byte, and the character in front of it. A string may begin there.
    before: Vec<u8>,
    /// How the text was searched, behind so many tokens of the sequence.
    scan: Option<Scan>,
    seen: usize,
}

impl Banned {
    /// Counts a rewind to a place, and returns where to go: further back, as far as `depth` goes, where the
    /// place was tried before.
    fn place(&mut self, position: usize, released: usize) -> usize {
        let tries = match self.places.iter_mut().find(|p| p.0 == position) {
            Some(p) => {
                p.1 += 1;
                p.1
            }
            None => {
                if self.places.len() < self.places.capacity() {
                    self.places.push((position, 0));
                }
                0
            }
        };
        position.saturating_sub((tries / TRIES).min(self.s.depth)).max(released)
    }
}

impl Guard for Banned {
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self> {
        Ok(Banned { s: DEFAULTS.with(params)?, places: Vec::with_capacity(64), before: border::tail(prompt, BEFORE), scan: None, seen: 0 })
    }

    fn check(&mut self, held: &mut Held) -> Result<()> {
        let search = match &self.s.search {
            Some(search) => search,
            None => {
                held.done();
                return Ok(());
            }
        };
        let n = held.tokens.len();
        let before = n - held.released - held.new.min(n - held.released);
        let from = if before == 0 { held.context } else { held.ends[before - 1] as usize };
        let b = if held.context < BEFORE { self.before.len() } else { 0 };
        let text = Text { before: &self.before[..b], held: held.text };
        // what ends in the prompt, or in what went out, is no match
        let gone = b + held.context;
        if n - held.new != self.seen || self.seen < held.released {
            self.scan = None;
        }
        self.seen = n;
        let wanted = Wanted { from: b + from, least: gone + 1, over: held.ends_here() };
        let found = search.find(&text, &wanted, &mut self.scan);
        if let Some(at) = found.string {
            let at = held.token_at(at.max(gone) - b).min(n - 1);
            let at = self.place(at, held.released);
            held.rewind(at, &[]);
        } else if !held.ends_here() {
            let keep = held.token_at(found.partial.max(gone) - b).min(n);
            held.release(keep.min((n - self.s.depth.min(n)).max(held.released)));
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"banned-strings","version":"1.2.0","config":true,"kinds":["guard"],"#,
        r#""guard":{"hold":256,"verdicts":["rewind"]},"#,
        r#""doc":"Takes strings back before anyone sees them, and has the model go another way.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""strings":{"description":"what the text must not contain, on top of the configured ones","type":"array","maxItems":1024,"items":{"type":"string","minLength":1,"maxLength":256},"default":[]},"#,
        r#""ignore_case":{"description":"ASCII letters are equal in both cases","type":"boolean","default":true},"#,
        r#""whole_word":{"description":"only where no letter, mark, digit or underscore, by Unicode, stands beside the string","type":"boolean","default":false},"#,
        r#""depth":{"description":"how many tokens in front of a string may be taken back too, where it comes again and again; as many are held back","type":"integer","minimum":0,"maximum":16,"default":0}}}}"#
    ),
    init: init,
    guard: Banned,
}

#[cfg(test)]
mod tests;
