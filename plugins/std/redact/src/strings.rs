//! Finds the strings in a text, as they are and as JSON may spell them: what a client reads in the arguments of a tool
//! call is what the escapes stand for.

use alloc::string::String;
use alloc::vec::Vec;

use automaton::{Automaton, ROOT};
use escapes::Unit;

use crate::patterns::{enough, Found, ENOUGH};

/// The strings, ready to be searched for.
pub struct Strings {
    all: Vec<Vec<u8>>,
    /// Of the strings: what the text ends with may go on as one.
    forward: Automaton,
    /// Of the strings from their ends: a text that is read from its end has come to where they begin.
    backward: Automaton,
    ignore_case: bool,
}

/// Memory for what is known of a text.
#[derive(Default)]
pub struct Room {
    plain: Vec<u16>,
    escaped: Vec<u16>,
    unescaped: Unescaped,
}

/// A part of a text with what its escapes stand for.
#[derive(Default)]
struct Unescaped {
    bytes: Vec<u8>,
    /// Where each byte, or the escape that it is of, begins in the text.
    places: Vec<usize>,
    /// Where the part ends in the text.
    end: usize,
    /// It ends where an escape may begin whose end is missing.
    cut: bool,
}

/// What of the strings begins at the places of a text.
pub struct Places<'a> {
    strings: &'a Strings,
    plain: Ahead<'a>,
    /// Where the text has a backslash: the text with what its escapes stand for.
    escaped: Option<(&'a Unescaped, Ahead<'a>)>,
}

/// What of the strings begins in some bytes.
struct Ahead<'a> {
    /// How long the longest string is that begins at each place before this one, the last place first.
    read: usize,
    longest: &'a [u16],
    /// The longest end of the bytes that may go on as a string, from the place on that was looked at last.
    node: u32,
    /// The place that was looked at last.
    at: usize,
}

/// What begins at a place of the bytes.
enum Begins {
    Nothing,
    /// What follows decides.
    Open,
    /// What is there is enough, as nothing follows.
    Enough,
    /// A string that ends before this place.
    To(usize),
}

impl Strings {
    pub fn new(strings: &[String], ignore_case: bool) -> Strings {
        let fold = |b: u8| if ignore_case { b.to_ascii_lowercase() } else { b };
        let all: Vec<Vec<u8>> = strings.iter().map(|s| s.bytes().map(fold).collect()).collect();
        let backward = Automaton::new(all.iter().map(|s| s.iter().rev().copied().collect()).collect());
        Strings { forward: Automaton::new(all.clone()), backward, all, ignore_case }
    }

    /// The bytes of the longest one.
    pub fn longest(&self) -> usize {
        self.forward.longest()
    }

    fn fold(&self, b: u8) -> u8 {
        if self.ignore_case {
            b.to_ascii_lowercase()
        } else {
            b
        }
    }

    /// Reads a text, whose places from one up to another are to be looked at; `room` is for what is known of them.
    pub fn read<'a>(&'a self, text: &[u8], from: usize, to: usize, room: &'a mut Room) -> Places<'a> {
        let most = self.forward.longest();
        let plain = self.ahead(text, from, text.len().min(to + most), &mut room.plain);
        let far = text.len().min(to + escapes::WIDEST * most);
        let mut escaped = None;
        if text[from..far].contains(&b'\\') {
            let u = &mut room.unescaped;
            u.read(text, from, to, most);
            let mut ahead = self.ahead(&u.bytes, 0, u.bytes.len(), &mut room.escaped);
            if !u.cut && u.end < text.len() {
                ahead.node = ROOT;
            }
            escaped = Some((&room.unescaped, ahead));
        }
        Places { strings: self, plain, escaped }
    }

    /// Reads bytes from one place up to another; behind that no string ends that is asked for.
    fn ahead<'a>(&self, bytes: &[u8], from: usize, read: usize, longest: &'a mut Vec<u16>) -> Ahead<'a> {
        longest.clear();
        let mut node = ROOT;
        for &b in bytes[from..read].iter().rev() {
            node = self.backward.step(node, self.fold(b));
            longest.push(self.backward.ended(node) as u16);
        }
        let end = &bytes[from.max(bytes.len().saturating_sub(self.forward.longest()))..];
        let node = end.iter().fold(ROOT, |node, &b| self.forward.step(node, self.fold(b)));
        Ahead { read, longest, node, at: from }
    }
}

impl Unescaped {
    /// Reads a text from one place up to another, and so many bytes behind that.
    fn read(&mut self, text: &[u8], from: usize, to: usize, behind: usize) {
        self.bytes.clear();
        self.places.clear();
        self.cut = false;
        let mut at = escapes::before(from, |i| text[i] == b'\\');
        let mut enough = usize::MAX;
        while at < text.len() && self.bytes.len() < enough {
            if at >= to && enough == usize::MAX {
                enough = self.bytes.len() + behind;
            }
            let raw = match escapes::unit(&text[at..]) {
                Unit::Byte => {
                    self.push(text[at], at, from);
                    1
                }
                Unit::Escape(c, n) => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| self.push(b, at, from));
                    n
                }
                Unit::Cut => {
                    self.cut = true;
                    break;
                }
            };
            at += raw;
        }
        self.end = at;
    }

    /// Adds a byte of a place, if that is looked at.
    fn push(&mut self, b: u8, at: usize, from: usize) {
        if at >= from {
            self.bytes.push(b);
            self.places.push(at);
        }
    }

    /// Where a byte begins in the text, or where the bytes end.
    fn place(&self, i: usize) -> usize {
        self.places.get(i).copied().unwrap_or(self.end)
    }
}

impl Ahead<'_> {
    /// What begins at a place, which is none before those that were looked at. Where the text is torn, it ends behind
    /// the bytes inside a character: that counts as the next of a string, since log-probabilities tell its bytes.
    fn look(&mut self, s: &Strings, bytes: &[u8], at: usize, over: bool, torn: bool) -> Begins {
        let left = bytes.len() - at;
        self.at = at;
        while s.forward.depth(self.node) > left {
            self.node = s.forward.shorter(self.node);
        }
        if s.forward.depth(self.node) == left && s.forward.open(self.node) == left {
            let rest = &bytes[at..];
            let same = |x: &[u8]| rest.iter().zip(x).all(|(&a, &b)| s.fold(a) == b);
            if !over {
                return Begins::Open;
            }
            let seen = |x: &[u8]| if torn { left + width(x[left]) - 1 } else { left };
            if left >= ENOUGH || s.all.iter().any(|x| left < x.len() && enough(seen(x), x.len()) && same(x)) {
                return Begins::Enough;
            }
        }
        match self.longest[self.read - at - 1] as usize {
            0 => Begins::Nothing,
            n => Begins::To(at + n),
        }
    }
}

/// The bytes of a character that begins with one.
fn width(first: u8) -> usize {
    match first {
        0xf0..=0xff => 4,
        0xe0..=0xef => 3,
        0xc0..=0xdf => 2,
        _ => 1,
    }
}

impl Places<'_> {
    /// What begins at a place, which is none before those that were looked at. Behind the text, which is over then, stand
    /// so many bytes for a character in which it ends; they go with the half of a string.
    pub fn look(&mut self, text: &[u8], at: usize, over: bool, torn: usize) -> Found {
        let found = |begins, place: &dyn Fn(usize) -> usize| match begins {
            Begins::Nothing => Found::No,
            Begins::Open => Found::Maybe,
            Begins::Enough => Found::To(text.len() + torn),
            Begins::To(to) => Found::To(place(to)),
        };
        let plain = found(self.plain.look(self.strings, text, at, over, torn > 0), &|to| to);
        let (u, ahead) = match &mut self.escaped {
            Some((u, ahead)) => (u, ahead),
            None => return plain,
        };
        let mut i = ahead.at;
        while i < u.bytes.len() && u.places[i] < at {
            i += 1;
        }
        ahead.at = i;
        if u.place(i) != at {
            return plain;
        }
        plain.or(match i == u.bytes.len() {
            false => found(ahead.look(self.strings, &u.bytes, i, over, torn > 0), &|to| u.place(to)),
            true if u.cut && !over => Found::Maybe,
            true => Found::No,
        })
    }
}
