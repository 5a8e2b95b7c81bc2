//! Finds the strings in a text.

use alloc::string::String;
use alloc::vec::Vec;

use automaton::{Automaton, ROOT};

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

/// What of the strings begins at the places of a text.
pub struct Places<'a> {
    strings: &'a Strings,
    /// How long the longest string is that begins at each place before this one, the last place first.
    read: usize,
    longest: &'a [u16],
    /// The longest end of the text that may go on as a string, from the place on that was looked at last.
    node: u32,
}

impl Strings {
    pub fn new(strings: &[String], ignore_case: bool) -> Strings {
        let fold = |b: u8| if ignore_case { b.to_ascii_lowercase() } else { b };
        let all: Vec<Vec<u8>> = strings.iter().map(|s| s.bytes().map(fold).collect()).collect();
        let backward = Automaton::new(all.iter().map(|s| s.iter().rev().copied().collect()).collect());
        Strings { forward: Automaton::new(all.clone()), backward, all, ignore_case }
    }

    fn fold(&self, b: u8) -> u8 {
        if self.ignore_case {
            b.to_ascii_lowercase()
        } else {
            b
        }
    }

    /// Reads a text, whose places from one up to another are to be looked at; `room` is for what is known of them.
    pub fn read<'a>(&'a self, text: &[u8], from: usize, to: usize, room: &'a mut Vec<u16>) -> Places<'a> {
        room.clear();
        let read = text.len().min(to + self.forward.longest());
        let mut node = ROOT;
        for &b in text[from..read].iter().rev() {
            node = self.backward.step(node, self.fold(b));
            room.push(self.backward.ended(node) as u16);
        }
        let end = &text[from.max(text.len().saturating_sub(self.forward.longest()))..];
        let node = end.iter().fold(ROOT, |node, &b| self.forward.step(node, self.fold(b)));
        Places { strings: self, read, longest: room, node }
    }
}

impl Places<'_> {
    /// What begins at a place, which is none before those that were looked at.
    pub fn look(&mut self, text: &[u8], at: usize, over: bool) -> Found {
        let (s, left) = (self.strings, text.len() - at);
        while s.forward.depth(self.node) > left {
            self.node = s.forward.shorter(self.node);
        }
        if s.forward.depth(self.node) == left && s.forward.open(self.node) == left {
            let rest = &text[at..];
            let same = |x: &[u8]| rest.iter().zip(x).all(|(&a, &b)| s.fold(a) == b);
            if !over {
                return Found::Maybe;
            }
            if left >= ENOUGH || s.all.iter().any(|x| left < x.len() && enough(left, x.len()) && same(x)) {
                return Found::To(text.len());
            }
        }
        match self.longest[self.read - at - 1] as usize {
            0 => Found::No,
            n => Found::To(at + n),
        }
    }
}
