//! Members in any order, and members that must have different names.
//!
//! Both are unordered lists (`Expr::Unordered`): the parser's state contains which of their members
//! were read.

use super::expr::{Sx, ANY, OBJ};
use super::load::Location;
use super::object::Writer;
use super::Compiler;
use crate::build::{Ex, MAX_MEMBERS, REPEATS, REQUIRED};
use crate::error::{Error, Result};
use crate::json::Value;
use crate::options::shown;
use crate::re::{range, Re, Set, ALL, MANY, NEVER};

/// The keyword that sets the order of members, at the root of a schema.
pub(super) const ORDER: &str = "x-order";

/// Whether a schema asks for members in any order; None: it does not say.
pub(super) fn of_root(schema: &Value) -> Result<Option<bool>> {
    match schema.get(ORDER) {
        None => Ok(None),
        Some(Value::Str(s)) if s == "any" => Ok(Some(true)),
        Some(Value::Str(s)) if s == "schema" => Ok(Some(false)),
        Some(v) => Err(Error::pointer("", ORDER, format!("want \"any\" or \"schema\", got {}", shown(v)))),
    }
}

/// Whether a keyword is a misspelt `x-order`: nearly its name, with one of its values.
fn misspelt(k: &str, v: &Value) -> bool {
    matches!(v.as_str(), Some("any" | "schema")) && k.len() < 12 && distance(&k.to_lowercase(), ORDER) <= 2
}

// How many letters must be put in, left out or replaced (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + (x != y) as usize;
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl Compiler<'_> {
    /// A keyword without a constraint on values: `x-order` is valid only at the root. Elsewhere it
    /// is refused if it has one of our values; other values belong to other tools, such as OpenAPI
    /// documents that number their properties with it.
    pub(super) fn annotation(&mut self, l: &Location, k: &str, v: &Value) -> Result<Sx> {
        if k == ORDER && !l.pointer.is_empty() && matches!(v.as_str(), Some("any" | "schema")) {
            return Ok(self.refuse(l, k, "only the root of a schema sets the order of members", OBJ));
        }
        if k != ORDER && misspelt(k, v) {
            return Err(Error::pointer(&l.pointer, k, format!("there is no such keyword; did you mean {:?}?", ORDER)));
        }
        Ok(ANY)
    }

    /// Members without names of their own in kinds whose names are different: those
    /// that begin with one letter, in either case, are a kind.
    pub(super) fn kinds_apart(&mut self, free: &[(Re, Sx)]) -> Result<Vec<Ex>> {
        let (mut kinds, mut rest): (Vec<Set>, Set) = (Vec::new(), range(0, 255));
        for letter in b'a'..=b'z' {
            let (small, large) = (range(letter, letter), range(letter - 32, letter - 32));
            kinds.push([small[0] | large[0], small[1] | large[1], 0, 0]);
        }
        kinds.push(range(b'0', b'9'));
        for kind in &kinds {
            (0..4).for_each(|i| rest[i] &= !kind[i]);
        }
        kinds.push(rest);
        let (mut out, last) = (Vec::new(), kinds.len() - 1);
        for (i, kind) in kinds.into_iter().enumerate() {
            let first = self.b.p.bytes(kind);
            let mut begins = self.b.p.cat(first, ALL);
            if i == last {
                begins = self.b.p.opt(begins);
            }
            let mut parts = Vec::new();
            for &(names, value) in free {
                let names = self.b.p.and2(names, begins);
                if names != NEVER && self.b.p.is_empty(names) != Some(true) {
                    parts.push(self.pair(names, value)?);
                }
            }
            if !parts.is_empty() {
                out.push(self.b.choice(&parts));
            }
        }
        Ok(out)
    }
}

impl Writer<'_, '_> {
    /// At least `low` members with different names, at most `high` in all.
    pub(super) fn different(&mut self, low: u32, high: u32) -> Ex {
        let members = self.apart.iter().map(|&x| (x, REPEATS)).collect();
        self.c.b.unordered(self.comma, members, low, high)
    }

    /// All but the empty object, and whether that is one too.
    pub(super) fn any_order(&mut self) -> Result<(Ex, bool)> {
        let mut members: Vec<(Ex, u8)> =
            self.pairs.iter().map(|&(x, required)| (x, if required { REQUIRED } else { 0 })).collect();
        let required = members.iter().filter(|m| m.1 != 0).count() as u32;
        let names = members.len() as u32;
        let last = self.last;
        let (mut low, high) = (self.min.saturating_sub(last), if self.max == MANY { MANY } else { self.max - last });
        if self.has_free && low >= 2 && self.apart.is_empty() {
            // A name may come again, so members are counted by their names alone.
            self.c.many_free(low)?;
            low = low.min(names + 1);
        }
        if self.has_free && low >= 2 {
            members.extend(self.apart.iter().map(|&x| (x, REPEATS)));
        } else if self.has_free {
            members.push((self.free, REPEATS));
        }
        if low as usize > members.len() && self.has_free {
            self.c.many_free(low)?;
            low = members.len() as u32;
        }
        if members.len() > MAX_MEMBERS {
            return Err(Error::whole(format!("{} members in any order, at most {} are read", members.len(), MAX_MEMBERS)));
        }
        if low as usize > members.len() {
            return Ok((self.c.b.never(), false));
        }
        let none = required == 0 && low == 0;
        let some = match members.len() {
            0 => self.c.b.never(),
            _ => self.c.b.unordered(self.comma, members, low.max(1), high),
        };
        let b = &mut self.c.b;
        Ok(match self.witness {
            None => (some, none),
            Some(w) => {
                let before = b.seq(&[some, self.comma]);
                let before = if none { b.opt(before) } else { before };
                (b.seq(&[before, w]), false)
            }
        })
    }
}
