//! banned-strings: takes strings back as soon as the text contains them, and has the model choose another
//! way. README.md has parameters, algorithm and limits.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::format;
use alloc::vec::Vec;

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
    /// Of the configuration and of the request, in lower case where case is ignored; see `check`.
    strings: Vec<Vec<u8>>,
    bytes: usize,
    ignore_case: bool,
    whole_word: bool,
    depth: usize,
}

static DEFAULTS: Defaults<Settings> =
    Defaults::new(Settings { locked: None, locking: false, strings: Vec::new(), bytes: 0, ignore_case: true, whole_word: false, depth: 0 });

impl settings::Settings for Settings {
    fn member(&mut self, r: &mut Reader, name: &str) -> bool {
        if self.locked == Some(true) {
            r.fail("the operator has fixed the parameters");
            return true;
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
            self.strings.push(s.into_bytes());
        });
    }

    fn fold(&self, b: u8) -> u8 {
        if self.ignore_case {
            b.to_ascii_lowercase()
        } else {
            b
        }
    }

    /// Whether the text has the bytes of `s` at `at`, as far as it goes.
    fn agrees(&self, text: &[u8], at: usize, s: &[u8]) -> bool {
        s.iter().zip(&text[at..]).all(|(&a, &b)| self.fold(a) == self.fold(b))
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
    /// It, and what is held behind it.
    text: Vec<u8>,
}

impl Banned {
    /// Whether a string may begin at `at`: with `whole_word` not inside a word.
    fn begins(&self, text: &[u8], at: usize, s: &[u8]) -> bool {
        !self.s.whole_word || letters::begins(s) != Some(true) || !letters::ends(&text[..at])
    }

    /// Whether a string that ends before `end` ends there: with `whole_word` not inside a word. `None` where
    /// what follows decides, such as the rest of a character.
    fn ends(&self, text: &[u8], end: usize, s: &[u8], over: bool) -> Option<bool> {
        if !self.s.whole_word || !letters::ends(s) {
            return Some(true);
        }
        match letters::begins(&text[end..]) {
            Some(word) => Some(!word),
            None if over => Some(true),
            None => None,
        }
    }

    /// Where the first banned string of the text begins that ends at `least` or behind it, and where the first may begin
    /// that is not complete. The text was looked at before up to `from`: what ended there may have waited for a
    /// character behind it, and the bytes of that may have come one by one.
    fn find(&self, text: &[u8], least: usize, from: usize, over: bool) -> (Option<usize>, usize) {
        let (mut found, mut partial) = (None, text.len());
        let from = from - if self.s.whole_word { (letters::LONGEST - 1).min(from - least) } else { 0 };
        for s in &self.s.strings {
            let (first, last) = (self.s.fold(s[0]), self.s.fold(s[s.len() - 1]));
            for end in from.max(s.len())..=text.len() {
                let at = end - s.len();
                if found.map_or(false, |f| f <= at) {
                    break;
                }
                if self.s.fold(text[end - 1]) != last || !self.s.agrees(text, at, s) || !self.begins(text, at, s) {
                    continue;
                }
                match self.ends(text, end, s, over) {
                    Some(true) => found = Some(at),
                    Some(false) => {}
                    None => partial = partial.min(at),
                }
            }
            if over {
                continue;
            }
            for at in (text.len() + 1).saturating_sub(s.len())..partial {
                if self.s.fold(text[at]) == first && self.s.agrees(text, at, s) && self.begins(text, at, s) {
                    partial = at;
                    break;
                }
            }
        }
        (found, partial)
    }

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
        Ok(Banned { s: DEFAULTS.with(params)?, places: Vec::with_capacity(64), before: border::tail(prompt, BEFORE), text: Vec::new() })
    }

    fn check(&mut self, held: &mut Held) -> Result<()> {
        if self.s.strings.is_empty() {
            held.done();
            return Ok(());
        }
        let n = held.tokens.len();
        let before = n - held.released - held.new.min(n - held.released);
        let from = if before == 0 { held.context } else { held.ends[before - 1] as usize };
        let b = if held.context < BEFORE { self.before.len() } else { 0 };
        let gone = b + held.context;
        let mut text = core::mem::take(&mut self.text);
        text.clear();
        text.extend_from_slice(&self.before[..b]);
        text.extend_from_slice(held.text);
        // what ends in the prompt, or in what went out, is no match
        let (found, partial) = self.find(&text, gone + 1, (b + from).max(gone + 1), held.ends_here());
        self.text = text;
        if let Some(at) = found {
            let at = held.token_at(at.max(gone) - b).min(n - 1);
            let at = self.place(at, held.released);
            held.rewind(at, &[]);
        } else if !held.ends_here() {
            let keep = held.token_at(partial.max(gone) - b).min(n);
            held.release(keep.min((n - self.s.depth.min(n)).max(held.released)));
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"banned-strings","version":"1.1.0","config":true,"kinds":["guard"],"#,
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
