//! Finds the strings in a text, as they are and as JSON may spell them: what a client reads in the arguments of a tool
//! call is what the escapes stand for.

use alloc::string::String;
use alloc::vec::Vec;

use automaton::{Automaton, ROOT, SIGN};
use escapes::Unit;

/// The strings, ready to be searched for. With `whole_word` a [`SIGN`] stands behind the first character of each word:
/// in the text, and in the strings, whose first character has one wherever it belongs to a word. So a string is not
/// found where it would begin inside a word.
pub struct Strings {
    automaton: Automaton,
    ignore_case: bool,
    whole_word: bool,
}

/// The end of the prompt and what is behind it, as one text.
pub struct Text<'a> {
    pub before: &'a [u8],
    pub held: &'a [u8],
}

impl Text<'_> {
    pub fn len(&self) -> usize {
        self.before.len() + self.held.len()
    }

    fn at(&self, i: usize) -> u8 {
        match self.before.get(i) {
            Some(&b) => b,
            None => self.held[i - self.before.len()],
        }
    }

    /// What is at a place; the text does not end there.
    fn unit(&self, at: usize) -> Unit {
        if self.at(at) != b'\\' {
            return Unit::Byte;
        }
        let mut head = [0; escapes::LONGEST];
        let n = head.len().min(self.len() - at);
        head.iter_mut().take(n).enumerate().for_each(|(i, b)| *b = self.at(at + i));
        escapes::unit(&head[..n])
    }
}

/// What a search is to find.
pub struct Wanted {
    /// The text was looked at before up to here. What ended there may have waited for a character behind it, and the
    /// bytes of that may have come one by one.
    pub from: usize,
    /// A string that ends before this place is none.
    pub least: usize,
    /// Nothing follows the text.
    pub over: bool,
}

/// What it found.
#[derive(Debug, PartialEq)]
pub struct Found {
    /// Where the first string begins.
    pub string: Option<usize>,
    /// Where the first may begin that is not complete.
    pub partial: usize,
}

/// A string that is one if no character of a word follows.
#[derive(Clone, Copy)]
struct Waiting {
    at: usize,
    end: usize,
}

/// How far a text was searched. Places count its bytes from where the search began on; so many of them are not in the
/// text any more.
#[derive(Default)]
pub struct Scan {
    gone: usize,
    plain: Cursor,
    /// Behind a backslash, as long as it makes a difference: the text with what its escapes stand for.
    unescaped: Option<Unescaped>,
}

/// How far bytes were searched.
#[derive(Clone, Default)]
struct Cursor {
    /// They were searched up to here.
    at: usize,
    node: u32,
    /// The last eight bytes, the last one in the lowest bits.
    tail: u64,
    /// Only the last character can be waited behind.
    waiting: Option<Waiting>,
}

/// How far the text was searched with what its escapes stand for.
struct Unescaped {
    /// It counts the bytes of that; those before `first` are the text's own.
    cursor: Cursor,
    first: usize,
    /// Where the bytes from `first` on, or the escapes that they are of, begin in the text.
    places: Vec<usize>,
    /// How far that is in the text, and where its last escape ended.
    at: usize,
    plain_from: usize,
}

impl Unescaped {
    fn from(plain: &Cursor) -> Unescaped {
        Unescaped { cursor: plain.clone(), first: plain.at, places: Vec::new(), at: plain.at, plain_from: plain.at }
    }

    /// Where a byte begins in the text. Only those that a string may have are kept.
    fn place(&self, i: usize) -> usize {
        match i.checked_sub(self.first) {
            Some(i) => self.places.get(i).copied().unwrap_or(self.at),
            None => i,
        }
    }

    /// A string of the bytes, in the text.
    fn moved(&self, w: Waiting) -> Waiting {
        Waiting { at: self.place(w.at), end: self.place(w.end) }
    }
}

impl Strings {
    pub fn new(strings: &[String], ignore_case: bool, whole_word: bool) -> Strings {
        let signed = strings.iter().map(|s| signed(s, ignore_case, whole_word)).collect();
        Strings { automaton: Automaton::new(signed), ignore_case, whole_word }
    }

    /// Searches the text, on from `scan` if there is one, which is up to `wanted.from`, and leaves there how far it came.
    pub fn find(&self, text: &Text, wanted: &Wanted, scan: &mut Option<Scan>) -> Found {
        let mut s = match scan.take() {
            Some(s) => Scan { gone: s.plain.at - wanted.from, ..s },
            None => Scan { plain: Cursor { at: self.start(text, wanted), ..Cursor::default() }, ..Scan::default() },
        };
        let gone = s.gone;
        let mut string: Option<usize> = None;
        // behind a string the bytes of a character, or of an escape, may have been waited for
        let mut found = |w: Waiting, waited: usize| {
            let waited = if self.whole_word { waited - 1 } else { 0 };
            let (at, end) = (w.at.saturating_sub(gone), w.end.saturating_sub(gone));
            if end >= wanted.least && end + waited >= wanted.from && string.map_or(true, |s| at < s) {
                string = Some(at);
            }
        };
        let mut plain = s.plain.clone();
        for i in plain.at - gone..text.len() {
            let b = text.at(i);
            if b == b'\\' && s.unescaped.is_none() {
                s.unescaped = Some(Unescaped::from(&plain));
            }
            self.next(&mut plain, b, |w| found(w, letters::LONGEST));
        }
        s.plain = plain;
        let mut partial = text.len();
        if wanted.over {
            s.plain.waiting.into_iter().for_each(|w| found(w, letters::LONGEST));
        } else {
            partial = self.partial(&s.plain).saturating_sub(gone);
        }
        if let Some(u) = &mut s.unescaped {
            self.go_on(u, text, gone, |w| found(w, escapes::LONGEST));
            if wanted.over {
                u.cursor.waiting.into_iter().for_each(|w| found(u.moved(w), escapes::LONGEST));
            } else {
                partial = partial.min(u.place(self.partial(&u.cursor)).saturating_sub(gone));
            }
            if self.same(u, &s.plain) {
                s.unescaped = None;
            }
        }
        *scan = Some(s);
        Found { string, partial }
    }

    /// Where a search begins whose text was not searched before: with what a string may begin with, and the character in
    /// front of it.
    #[inline(never)]
    fn start(&self, text: &Text, wanted: &Wanted) -> usize {
        let most = self.automaton.longest() + letters::LONGEST;
        let from = wanted.from.min(text.len());
        let (near, far) = (from.saturating_sub(most + letters::LONGEST), from.saturating_sub(escapes::WIDEST * most));
        match (far..from).any(|i| text.at(i) == b'\\') {
            true => escapes::before(far, |i| text.at(i) == b'\\'),
            false => near,
        }
    }

    /// Searches the text on, up to its end or an escape that is cut there.
    #[inline(never)]
    fn go_on(&self, u: &mut Unescaped, text: &Text, gone: usize, mut found: impl FnMut(Waiting)) {
        while u.at - gone < text.len() {
            let (at, mut utf8) = (u.at, [text.at(u.at - gone), 0, 0, 0]);
            let n = match text.unit(at - gone) {
                Unit::Cut => return,
                Unit::Byte => {
                    u.at += 1;
                    1
                }
                Unit::Escape(c, n) => {
                    u.at += n;
                    u.plain_from = u.at;
                    c.encode_utf8(&mut utf8).len()
                }
            };
            for &b in &utf8[..n] {
                u.places.push(at);
                let mut sure = [None; 2];
                self.next(&mut u.cursor, b, |w| sure = [Some(w), sure[0]]);
                sure.into_iter().flatten().for_each(|w| found(u.moved(w)));
            }
            let kept = self.automaton.longest() + 2 * letters::LONGEST;
            if u.places.len() > 2 * kept {
                u.places.drain(..kept);
                u.first += kept;
            }
        }
    }

    /// Whether what is known of the text with what its escapes stand for is what is known of the text.
    fn same(&self, u: &Unescaped, plain: &Cursor) -> bool {
        let depth = self.automaton.depth(u.cursor.node).max(self.automaton.depth(plain.node));
        let waits = u.cursor.waiting.is_some() || plain.waiting.is_some();
        u.at == plain.at && !waits && u.at - u.plain_from >= depth + 2 * letters::LONGEST
    }

    /// Where the first string may begin that is not complete.
    fn partial(&self, c: &Cursor) -> usize {
        c.waiting.map_or(c.at, |w| w.at).min(c.at - self.automaton.open(c.node))
    }

    /// Takes a byte, and tells the strings that are sure now: two at most.
    #[inline(always)]
    fn next(&self, c: &mut Cursor, b: u8, mut found: impl FnMut(Waiting)) {
        let word = self.step(c, b);
        if let Some(w) = c.waiting {
            match letters::begins(&c.tail.to_be_bytes()[8 - (c.at - w.end)..]) {
                Some(false) => found(w),
                None => return,
                Some(true) => {}
            }
            c.waiting = None;
        }
        match self.automaton.ended(c.node) {
            0 => {}
            n if word => c.waiting = Some(Waiting { at: c.at - n, end: c.at }),
            n => found(Waiting { at: c.at - n, end: c.at }),
        }
    }

    /// Takes a byte of the text, and returns whether a string that ends there needs a border behind it.
    #[inline(always)]
    fn step(&self, s: &mut Cursor, b: u8) -> bool {
        s.at += 1;
        s.tail = s.tail << 8 | b as u64;
        s.node = self.automaton.step(s.node, fold(b, self.ignore_case));
        if !self.whole_word || s.node == ROOT {
            return false;
        }
        match word_character(s.tail) {
            None => false,
            Some((_, true)) => {
                s.node = self.automaton.step(s.node, SIGN);
                true
            }
            Some((n, false)) => {
                // nothing but the character, which begins no word
                if self.automaton.depth(s.node) == n {
                    s.node = ROOT;
                }
                true
            }
        }
    }
}

/// Of the last eight bytes of a text that ends with a character of a word: how many bytes the character has, and
/// whether it is the first of the word.
fn word_character(tail: u64) -> Option<(usize, bool)> {
    let tail = tail.to_be_bytes();
    let n = 1 + if tail[7].is_ascii() { 0 } else { letters::continued(tail.iter().rev()) };
    // the first byte of a longer character begins with as many ones as it has bytes
    if tail[8 - n].leading_ones().max(1) as usize != n || !letters::ends(&tail[4..]) {
        return None;
    }
    Some((n, !letters::ends(&tail[4 - n..8 - n])))
}

/// A byte of a text as the automaton has it. A sign is none of the text's.
fn fold(b: u8, ignore_case: bool) -> u8 {
    match b {
        SIGN => SIGN - 1,
        _ if ignore_case => b.to_ascii_lowercase(),
        _ => b,
    }
}

/// A string as the automaton has it.
fn signed(string: &str, ignore_case: bool, whole_word: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(if whole_word { 2 * string.len() } else { string.len() });
    if !whole_word {
        out.extend(string.bytes().map(|b| fold(b, ignore_case)));
        return out;
    }
    let mut before = false;
    for c in string.chars() {
        out.extend(c.encode_utf8(&mut [0; letters::LONGEST]).bytes().map(|b| fold(b, ignore_case)));
        let word = letters::is_word(c);
        if word && !before {
            out.push(SIGN);
        }
        before = word;
    }
    out
}
