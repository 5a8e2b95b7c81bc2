//! Finds the strings in a text.

use alloc::string::String;
use alloc::vec::Vec;

use automaton::{Automaton, ROOT, SIGN};

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

/// How far a text was searched.
#[derive(Clone, Default)]
pub struct Scan {
    /// It was searched up to here.
    at: usize,
    node: u32,
    /// The last eight bytes, the last one in the lowest bits.
    tail: u64,
    /// Only the last character can be waited behind.
    waiting: Option<Waiting>,
}

impl Scan {
    /// The same, of a text in which this place is another.
    fn moved(&self, to: usize) -> Scan {
        let there = |i: usize| (i + to).saturating_sub(self.at);
        Scan { at: to, waiting: self.waiting.map(|w| Waiting { at: there(w.at), end: there(w.end) }), ..self.clone() }
    }
}

impl Strings {
    pub fn new(strings: &[String], ignore_case: bool, whole_word: bool) -> Strings {
        let signed = strings.iter().map(|s| signed(s, ignore_case, whole_word)).collect();
        Strings { automaton: Automaton::new(signed), ignore_case, whole_word }
    }

    /// Searches the text, on from `scan` if there is one, which is up to `wanted.from`, and leaves there how far it came.
    pub fn find(&self, text: &Text, wanted: &Wanted, scan: &mut Option<Scan>) -> Found {
        let waited = if self.whole_word { letters::LONGEST - 1 } else { 0 };
        let from = wanted.from.saturating_sub(waited).max(wanted.least);
        let mut s = match scan.take() {
            Some(s) => s.moved(wanted.from),
            // what a string may begin with, and the character in front of it
            None => Scan {
                at: from.min(text.len()).saturating_sub(self.automaton.longest() + letters::LONGEST),
                ..Scan::default()
            },
        };
        let mut string: Option<usize> = None;
        let mut found = |w: Waiting| {
            if w.end >= from && string.map_or(true, |at| w.at < at) {
                string = Some(w.at);
            }
        };
        while s.at < text.len() {
            let b = text.at(s.at);
            let word = self.step(&mut s, b);
            if let Some(w) = s.waiting {
                match letters::begins(&s.tail.to_be_bytes()[8 - (s.at - w.end)..]) {
                    Some(false) => found(w),
                    None => continue,
                    Some(true) => {}
                }
                s.waiting = None;
            }
            match self.automaton.ended(s.node) {
                0 => {}
                n if word => s.waiting = Some(Waiting { at: s.at - n, end: s.at }),
                n => found(Waiting { at: s.at - n, end: s.at }),
            }
        }
        let mut partial = text.len();
        if wanted.over {
            s.waiting.map(found);
        } else {
            partial = s.waiting.map_or(partial, |w| w.at).min(partial - self.automaton.open(s.node));
        }
        *scan = Some(s);
        Found { string, partial }
    }

    /// Takes a byte of the text, and returns whether a string that ends there needs a border behind it.
    fn step(&self, s: &mut Scan, b: u8) -> bool {
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
