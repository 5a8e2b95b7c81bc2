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

use patterns::{Found, Kind, Longs};
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
/// The bytes of a string where what is held is to be the same for all texts: as escapes no more than a guard may hold,
/// be each a token.
const STEADY: usize = 40;
/// So many bytes are looked at in a step. More are held where other guards hold them.
const STEP: usize = 2048;
/// A replacement has at most so many bytes; tokens behind wait for the next.
const MOST: usize = 4000;

#[derive(Clone)]
struct Settings {
    /// Requests may set nothing; `None` until the configuration was read.
    locked: Option<bool>,
    locking: bool,
    /// What is held of a text does not depend on the strings.
    steady: bool,
    kinds: Vec<Kind>,
    strings: Vec<String>,
    /// Search for the strings, with the case of letters and without it; `None` without any, where it is not needed, and
    /// where the strings changed since it was made.
    search: [Option<Arc<Strings>>; 2],
    ignore_case: bool,
    with: String,
    /// The kinds were given, even if there are none.
    chosen: bool,
}

const INITIAL: Settings = Settings {
    locked: None,
    locking: false,
    steady: false,
    kinds: Vec::new(),
    strings: Vec::new(),
    search: [None, None],
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
        match name {
            "locked" if self.locked.is_none() => self.locking = boolean(r, name),
            "steady" if self.locked.is_none() => self.steady = boolean(r, name),
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
                self.search = [None, None];
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
        if let (true, Some(i)) = (self.steady, self.strings.iter().position(|s| s.len() > STEADY)) {
            return Err(format!("strings[{}] has {} bytes, want at most {}: `steady` holds back what as many may have \
                as escapes", i, self.strings[i].len(), STEADY));
        }
        if self.search().is_some() || self.strings.is_empty() {
            return Ok(());
        }
        let bytes: usize = self.strings.iter().map(|s| s.len()).sum();
        if of_request && bytes > ALL {
            return Err(format!("strings: {} bytes with those of the configuration, want at most {}", bytes, ALL));
        }
        for folds in [false, true] {
            // No request can make it where they are too many: one may set no more than `ignore_case`.
            if folds == self.ignore_case || bytes > ALL {
                self.search[folds as usize] = Some(Arc::new(Strings::new(&self.strings, folds)));
            }
        }
        Ok(())
    }
}

impl Settings {
    fn search(&self) -> Option<&Arc<Strings>> {
        self.search[self.ignore_case as usize].as_ref()
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

/// One sequence. Places in all its text are counted from the beginning of `before`.
pub struct Redact {
    s: Settings,
    parts: Vec<Part>,
    longs: Longs,
    /// The end of the prompt from where it is not decided, and what has to be in front of that.
    before: Vec<u8>,
    /// It, and what is held behind it.
    text: Vec<u8>,
    /// For what is known of the strings at the text's places.
    room: Room,
    /// What is known where the sequence's first tokens end: of as many as `tokens` says, and of each of the next ones.
    marks: Vec<Mark>,
    tokens: usize,
    /// In front of this place nothing is found that is not out, or decided.
    clean: usize,
    /// Where this many tokens went out, nothing more of those that are there can.
    last: Option<usize>,
}

/// What is known where a token ends. It comes from the text up to there alone, so it stays true if what is behind is
/// taken back.
#[derive(Clone, Copy)]
struct Mark {
    end: usize,
    /// What begins in front of this place ends up to here, or is in `longs`.
    base: usize,
    /// What goes on however long.
    longs: u8,
    /// All in front of `base` was looked at.
    known: bool,
}

/// What a look at a text begins with.
struct Text<'a> {
    all: &'a [u8],
    /// Where it begins in all text.
    from: usize,
    /// Of the prompt in front of the output.
    prompt: usize,
    /// What went out, or is the prompt's, ends here.
    gone: usize,
    /// Nothing of the output went out.
    fresh: bool,
}

/// A part of the text that is replaced: what is found, together with all that overlaps it. It may begin in what went
/// out; then something stands there already, unless that is the prompt.
struct Part {
    from: usize,
    to: usize,
}

impl Redact {
    /// Finds the parts behind what went out, with what begins behind a mark and up to `most`. It returns where what is
    /// not decided begins: all that begins in front is found, and stays what it is whatever follows.
    fn find(&mut self, text: &Text, mark: Mark, most: usize, over: bool) -> usize {
        let all = text.all;
        let mut at = mark.base.saturating_sub(text.from);
        self.parts.clear();
        let to = self.longs.begin(all, at, mark.end - text.from, mark.longs);
        if mark.longs != 0 {
            // it began in front
            add(&mut self.parts, text, at.saturating_sub(1), to);
        }
        let mut strings = self.s.search().map(|s| s.read(all, at, most, &mut self.room));
        // The half of a string may stand in front of what stands for a character in which the text ends.
        let mut rooms = [Room::default(), Room::default(), Room::default()];
        let torn = if over { torn(&all[text.gone..]) } else { 0 };
        let mut fronts = Vec::with_capacity(torn);
        for (room, n) in rooms.iter_mut().zip(1..=torn) {
            let front = &all[..all.len() - n * TORN.len()];
            if let (Some(s), true) = (self.s.search(), at < front.len()) {
                fronts.push((s.read(front, at, most.min(front.len()), room), front));
            }
        }
        while at < most {
            let mut best = strings.as_mut().map_or(Found::No, |s| s.look(all, at, over, 0));
            for (front, text) in fronts.iter_mut().filter(|f| at < f.1.len()) {
                best = best.or(front.look(text, at, over, all.len() - text.len()));
            }
            if patterns::may_begin(all, at) {
                let longs = &mut self.longs;
                best = self.s.kinds.iter().fold(best, |best, k| best.or(k.look(all, at, over, longs)));
            }
            match best {
                Found::No => {}
                Found::Maybe => break,
                Found::To(to) => add(&mut self.parts, text, at, to),
            }
            at += 1;
        }
        let decided = text.from + at;
        for long in self.longs.found.drain(..) {
            let (sure, to) = (text.from + long.sure, long.to.saturating_add(text.from));
            let behind = self.marks.iter_mut().rev().take_while(|m| m.end >= sure);
            behind.filter(|m| m.end <= to).for_each(|m| m.longs |= long.bit);
        }
        if let (false, Some(last)) = (over || most < all.len(), self.marks.last_mut()) {
            last.base = last.base.max(decided);
        }
        self.marks.iter_mut().rev().take_while(|m| !m.known).for_each(|m| m.known = m.base <= decided);
        at
    }

    /// How many held tokens can go: they end where the text is decided.
    fn count(&self, held: &Held, text: &Text, decided: usize) -> usize {
        let mut keep = 0;
        let with = self.s.with.len() * self.parts.len();
        let part = held.ends_here() && decided < text.all.len();
        for (i, &end) in held.ends.iter().enumerate() {
            let end = text.prompt + end as usize;
            let size = end - text.gone + with;
            if end > decided || size > MOST && keep > 0 && (with > 0 || part) {
                break;
            }
            keep = i + 1;
        }
        keep
    }

    /// Replaces the parts in the text up to `to`, where the tokens before a position end. Where a token has more parts
    /// than there is room for, nothing stands instead of the others.
    fn edit(&self, held: &mut Held, text: &Text, to: usize, position: usize) {
        let parts = self.parts.iter().take_while(|p| to > text.gone && p.from < to);
        let replaced: usize = parts.clone().map(|p| p.to.min(to) - p.from.max(text.gone)).sum();
        let room = MOST.saturating_sub(to - text.gone - replaced);
        let mut used = 0;
        held.edit(position, parts.map(|p| {
            let place = p.from.max(text.gone) - text.prompt..p.to.min(to) - text.prompt;
            let begins = text.fresh || p.from >= text.gone;
            if !begins || used > 0 && used + self.s.with.len() > room {
                return (place, "");
            }
            used += self.s.with.len();
            (place, self.s.with.as_str())
        }));
    }

    /// Says what becomes of what is held, with a look that begins at a mark.
    fn judge(&mut self, held: &mut Held, text: &Text, mark: Mark) {
        let from = mark.base.saturating_sub(text.from);
        let next = held.ends.iter().map(|&end| text.prompt + end as usize).find(|&end| end > from);
        let most = next.map_or(from, |end| end.max(from + STEP).min(text.all.len()));
        let decided = self.find(text, mark, most, held.ends_here());
        if !held.ends_here() {
            self.clean = text.from + self.parts.first().map_or(decided, |p| p.from);
        }
        let decided = if held.ends_here() { decided } else { decided.min(text.all.len().saturating_sub(self.lag())) };
        let keep = self.count(held, text, decided);
        if keep == 0 {
            return held.release(held.released);
        }
        let waits = held.ends.get(keep).map_or(false, |&end| text.prompt + end as usize > decided);
        if waits && most == text.all.len() && !held.ends_here() {
            self.last = Some(held.released + keep);
        }
        let to = text.prompt + held.ends[keep - 1] as usize;
        // at the end nothing but all can be released
        let part = held.ends_here() && keep < held.ends.len();
        // tokens that have no text go, or wait, with the others of their character
        if part || to > text.gone && self.parts.first().map_or(false, |p| p.from < to) {
            self.edit(held, text, to, held.released + keep);
        } else {
            held.release(held.released + keep);
        }
    }

    /// Has a mark for each token that is there, and none for those that were taken back. It returns the place of that
    /// of the tokens that went out, and of the one that a look begins with.
    fn mark(&mut self, held: &Held) -> (usize, usize) {
        self.marks.truncate((held.tokens.len() - held.new + 1).saturating_sub(self.tokens));
        let mut gone = held.released.saturating_sub(self.tokens);
        if gone >= self.marks.len() {
            // it went out without a look at it
            let end = self.before.len() + held.context;
            self.marks.clear();
            self.marks.push(Mark { end, base: end.saturating_sub(self.longest()), longs: 0, known: true });
            (self.tokens, self.clean, gone) = (held.released, 0, 0);
        }
        if gone > 32 {
            self.marks.drain(..gone);
            self.tokens += gone;
            gone = 0;
        }
        // what is decided, and has nothing in it, need not be looked at again
        let fits = |m: &Mark| m.known && m.base <= self.clean;
        let first = match self.marks.last() {
            Some(last) if fits(last) => self.marks.len() - 1,
            _ => gone.max((gone + self.marks[gone..].partition_point(fits)).saturating_sub(1)),
        };
        let longest = self.longest();
        let from = self.marks[gone].end.saturating_sub(held.context);
        for &end in &held.ends[self.tokens + self.marks.len() - 1 - held.released..] {
            let end = from + end as usize;
            let base = self.marks[self.marks.len() - 1].base.max(end.saturating_sub(longest));
            self.marks.push(Mark { end, base, longs: 0, known: false });
        }
        (gone, first)
    }

    /// So many bytes wait whatever they are: those that wait because a string may have begun are among them.
    fn lag(&self) -> usize {
        match self.s.search() {
            Some(strings) if self.s.steady => escapes::WIDEST * strings.longest() + escapes::LONGEST,
            _ => 0,
        }
    }

    /// What is found has so many bytes at most, but for what goes on however long.
    fn longest(&self) -> usize {
        let strings = self.s.search().map_or(0, |s| escapes::WIDEST * s.longest() + escapes::LONGEST);
        strings.max(patterns::LONGEST)
    }
}

/// What stands in a text for a character in which it ends, or for each of that's bytes.
const TORN: &[u8] = "\u{fffd}".as_bytes();

/// So many of them may be there at the end of a text: a character in which it ends has at most three bytes.
fn torn(text: &[u8]) -> usize {
    text.rchunks(TORN.len()).take(3).take_while(|c| *c == TORN).count()
}

/// Adds what was found to the parts, in the order in which it begins.
fn add(parts: &mut Vec<Part>, text: &Text, from: usize, to: usize) {
    match parts.last_mut() {
        _ if to <= text.gone => {}
        Some(p) if p.to > from => p.to = p.to.max(to),
        _ => parts.push(Part { from, to }),
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
            parts: Vec::with_capacity(64),
            longs: Longs::new(),
            before: Vec::new(),
            text: Vec::new(),
            room: Room::default(),
            marks: Vec::with_capacity(64),
            tokens: prompt.len(),
            clean: 0,
            last: None,
        };
        let mark = Mark { end: 0, base: 0, longs: 0, known: true };
        r.marks.push(Mark { end: tail.len(), ..mark });
        r.find(&Text { all: &tail, from: 0, prompt: 0, gone: tail.len(), fresh: true }, mark, tail.len(), false);
        let m = &mut r.marks[0];
        let from = escapes::before(m.base, |i| tail[i] == b'\\');
        (m.base, m.end, r.clean) = (m.base - from, m.end - from, m.base - from);
        r.before.extend_from_slice(&tail[from..]);
        Ok(r)
    }

    fn check(&mut self, held: &mut Held) -> Result<()> {
        let last = self.last.take();
        if held.new == 0 && last == Some(held.released) && !held.ends_here() {
            held.release(held.released);
            return Ok(());
        }
        let (gone, first) = self.mark(held);
        let (gone, mark, prompt) = (self.marks[gone].end, self.marks[first], self.before.len());
        let (from, fresh) = (gone.saturating_sub(held.context), gone == prompt);
        let all = held.text;
        // what is in front of the place that a look begins with
        let alone = |at: usize| at > 0 && escapes::before(at.min(all.len()), |i| all[i] == b'\\') > 0;
        if from != prompt || alone(mark.base.saturating_sub(prompt)) {
            self.judge(held, &Text { all, from, prompt: 0, gone: held.context, fresh }, mark);
            return Ok(());
        }
        let mut all = core::mem::take(&mut self.text);
        all.clear();
        all.extend_from_slice(&self.before);
        all.extend_from_slice(held.text);
        self.judge(held, &Text { all: &all, from: 0, prompt, gone, fresh }, mark);
        self.text = all;
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"redact","version":"1.3.0","config":true,"kinds":["guard"],"#,
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
