//! Sets of strings.
//!
//! A set that only counts characters is written with every escape that JSON
//! allows. All others are languages of canonical texts, each string once, so
//! intersection and complement of languages are those of the sets.

use crate::build::{Builder, Ex};
use crate::chars::{self, Form};
use crate::re::{Pool, Re, MANY, NEVER};

/// A set of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strings {
    /// Those of at least and at most so many characters.
    Len(u32, u32),
    /// Those whose canonical text is in the language.
    Texts(Re),
}

/// Every string.
pub const ALL: Strings = Strings::Len(0, MANY);
/// No string.
pub const NONE: Strings = Strings::Texts(NEVER);

impl Strings {
    /// As a language of canonical texts.
    pub fn texts(self, p: &mut Pool) -> Re {
        match self {
            Strings::Texts(r) => r,
            Strings::Len(min, max) => {
                let c = chars::any(p, Form::Json);
                p.rep(c, min, max)
            }
        }
    }

    pub fn and(self, p: &mut Pool, other: Strings) -> Strings {
        match (self, other) {
            (Strings::Len(a, b), Strings::Len(c, d)) if a.max(c) <= b.min(d) => Strings::Len(a.max(c), b.min(d)),
            (Strings::Len(..), Strings::Len(..)) => NONE,
            (x, y) if y == ALL => x,
            (x, y) if x == ALL => y,
            (x, y) => {
                let (x, y) = (x.texts(p), y.texts(p));
                Strings::Texts(p.and2(x, y))
            }
        }
    }

    pub fn or(self, p: &mut Pool, other: Strings) -> Strings {
        match (self, other) {
            (Strings::Len(a, b), Strings::Len(c, d)) if a.max(c) <= b.min(d).saturating_add(1) => {
                Strings::Len(a.min(c), b.max(d))
            }
            (x, y) if x == ALL || y == ALL => ALL,
            (x, NONE) | (NONE, x) => x,
            (x, y) => {
                let (x, y) = (x.texts(p), y.texts(p));
                Strings::Texts(p.or2(x, y))
            }
        }
    }

    pub fn not(self, p: &mut Pool) -> Strings {
        match self {
            NONE => ALL,
            Strings::Len(0, MANY) => NONE,
            Strings::Len(0, max) => Strings::Len(max + 1, MANY),
            Strings::Len(min, MANY) => Strings::Len(0, min - 1),
            x => {
                let (x, all) = (x.texts(p), chars::text(p, Form::Json));
                Strings::Texts(p.minus(all, x))
            }
        }
    }
}

/// The inside of a string and its closing quote, as written.
fn closed(b: &mut Builder, s: Strings) -> Re {
    let p = &mut b.p;
    if let Strings::Texts(r) = s {
        if let Some(words) = p.lists.get(&r) {
            let quoted: Vec<Vec<u8>> = words.iter().map(|w| [w.as_slice(), b"\""].concat()).collect();
            return p.words(&quoted);
        }
    }
    let inside = match s {
        Strings::Texts(r) => r,
        Strings::Len(min, max) => {
            let c = chars::free(p);
            p.rep(c, min, max)
        }
    };
    let quote = p.byte(b'"');
    p.cat(inside, quote)
}

/// A set of strings as written, quotes included.
pub fn written(b: &mut Builder, s: Strings) -> Ex {
    if s == NONE {
        return b.never();
    }
    if let Strings::Texts(r) = s {
        if let Some([word]) = b.p.lists.get(&r).map(|w| w.as_slice()) {
            let text = [b"\"", word.as_slice(), b"\""].concat();
            return b.lit(&text);
        }
    }
    let r = closed(b, s);
    let (open, rest) = (b.lit(b"\""), b.term(r));
    b.seq(&[open, rest])
}
