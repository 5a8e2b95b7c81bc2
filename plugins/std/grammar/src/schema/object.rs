//! Rules for objects.
//!
//! Members whose names a schema gives come first, in its order, each at most
//! once; then all others. What follows a member depends on nothing but its
//! place (and, where members are counted, on how many there are), so optional
//! members cost a rule each and no more.

use super::expand::Case;
use super::expr::*;
use super::Compiler;
use crate::build::Ex;
use crate::chars::{self, Form};
use crate::error::{Error, Result};
use crate::hash::Map;
use crate::re::{Re, MANY, NEVER};

/// Maximum number of kinds of names that patterns distinguish.
const MAX_CLASSES: usize = 64;

/// A member with a name of its own.
#[derive(Clone, Debug)]
struct Member {
    name: Re,
    value: Sx,
    required: bool,
}

/// An object's members.
#[derive(Clone, Debug)]
struct Members {
    named: Vec<Member>,
    // Names of all others by kind, and their values.
    free: Vec<(Re, Sx)>,
    // Required members among the others, each of one of some kinds, with distinct names.
    witnesses: Vec<Vec<(Re, Sx)>>,
    min: u32,
    max: u32,
}

impl<'a> Compiler<'a> {
    /// The rules for the objects that a case asks for.
    pub(super) fn object(&mut self, case: &Case) -> Result<Ex> {
        let (mut all, mut some, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let (mut min, mut max) = (0, MANY);
        for &x in case {
            let (n, list, v) = match *self.a.shape(x) {
                Shape::All(n, v) => (n, &mut all, v),
                Shape::Some(n, v) => (n, &mut some, v),
                Shape::Props(a, b) => {
                    min = min.max(a);
                    max = max.min(b);
                    continue;
                }
                _ => continue,
            };
            list.push((n, v));
            if self.singles.contains_key(&n) && !names.contains(&n) {
                names.push(n);
            }
        }
        let mut named = Vec::new();
        for name in names {
            named.push(self.member(name, &all, &some));
        }
        let free = self.kinds(&mut named, &all, &some)?;
        let mut variants = vec![Members { named, free, witnesses: Vec::new(), min, max }];
        for (names, v) in some {
            if !self.singles.contains_key(&names) {
                variants = self.witnesses(variants, names, v)?;
            }
        }
        let mut parts = Vec::new();
        for v in variants {
            parts.push(self.members_of(v)?);
        }
        Ok(self.b.choice(&parts))
    }

    fn member(&mut self, name: Re, all: &[(Re, Sx)], some: &[(Re, Sx)]) -> Member {
        let mut parts = Vec::new();
        for &(n, v) in all {
            if self.matches(n, name) {
                parts.push(v);
            }
        }
        let own: Vec<Sx> = some.iter().filter(|s| s.0 == name).map(|s| s.1).collect();
        let required = !own.is_empty();
        parts.extend(own);
        Member { name, value: self.a.and(parts), required }
    }

    // Splits all other names by the constraints on their members. Kinds of a few names become named
    // members.
    fn kinds(&mut self, named: &mut Vec<Member>, all: &[(Re, Sx)], some: &[(Re, Sx)]) -> Result<Vec<(Re, Sx)>> {
        let mut languages: Vec<Re> = Vec::new();
        for &(n, _) in all.iter().chain(some) {
            if !self.singles.contains_key(&n) && !languages.contains(&n) {
                languages.push(n);
            }
        }
        let words: Vec<String> = named.iter().filter_map(|m| self.singles.get(&m.name).cloned()).collect();
        let every = chars::text(&mut self.b.p, Form::Json);
        let taken = if words.is_empty() { NEVER } else { self.b.p.words(&words) };
        let mut classes: Vec<(Re, Vec<Re>)> = vec![(self.b.p.minus(every, taken), Vec::new())];
        for &language in &languages {
            let mut next = Vec::new();
            for (c, of) in classes {
                let (inside, outside) = (self.b.p.and2(c, language), self.b.p.minus(c, language));
                if self.b.p.is_empty(outside) != Some(true) {
                    next.push((outside, of.clone()));
                }
                if self.b.p.is_empty(inside) != Some(true) {
                    let of = of.into_iter().chain(Some(language)).collect();
                    next.push((inside, of));
                }
            }
            classes = next;
            if classes.len() > MAX_CLASSES {
                return Err(Error::whole(format!(
                    "patterns of names tell more than {} kinds of names apart",
                    MAX_CLASSES
                )));
            }
        }
        let mut free: Vec<(Re, Sx)> = Vec::new();
        for (c, of) in classes {
            let parts = all.iter().filter(|a| of.contains(&a.0)).map(|a| a.1).collect();
            let value = self.a.and(parts);
            if value == NONE {
                continue;
            }
            // Names left over by propertyNames or by a pattern of whole words.
            let few = if languages.is_empty() { None } else { self.b.p.finite(c, 64) };
            match few {
                Some(words) => {
                    for w in words {
                        let name = self.b.p.literal(&w);
                        self.singles.entry(name).or_insert_with(|| String::from_utf8_lossy(&w).into_owned());
                        named.push(Member { name, value, required: false });
                    }
                }
                None => match free.iter_mut().find(|f| f.1 == value && some.is_empty()) {
                    Some(f) => f.0 = self.b.p.or2(f.0, c),
                    None => free.push((c, value)),
                },
            }
        }
        Ok(free)
    }

    // Some member whose name is in the language has the value: one of those with
    // names, or one of the others.
    fn witnesses(&mut self, variants: Vec<Members>, names: Re, value: Sx) -> Result<Vec<Members>> {
        let mut out = Vec::new();
        for m in variants {
            for i in 0..m.named.len() {
                if self.matches(names, m.named[i].name) {
                    let mut v = m.clone();
                    v.named[i].required = true;
                    v.named[i].value = self.a.and(vec![m.named[i].value, value]);
                    out.push(v);
                }
            }
            let mut kinds = Vec::new();
            for &(c, v) in &m.free {
                let (c, v) = (self.b.p.and2(c, names), self.a.and(vec![v, value]));
                if v != NONE && self.b.p.is_empty(c) != Some(true) {
                    kinds.push((c, v));
                }
            }
            if !kinds.is_empty() {
                for &(other, _) in m.witnesses.iter().flatten() {
                    // One member might be both, or come twice with one name.
                    if kinds.iter().any(|k| self.b.p.disjoint(k.0, other) != Some(true)) {
                        let reason = "two kinds of members that may have the same names are asked for at once";
                        return Err(Error::whole(reason));
                    }
                }
                let mut m = m;
                m.witnesses.push(kinds);
                out.push(m);
            }
            if out.len() > MAX_CLASSES {
                return Err(Error::whole(format!(
                    "more than {} members may be the one that is asked for",
                    MAX_CLASSES
                )));
            }
        }
        Ok(out)
    }

    pub(super) fn pair(&mut self, name: Re, value: Sx) -> Result<Ex> {
        if let Some(style) = self.style {
            return self.parameter(style, name, value);
        }
        let key = match self.singles.get(&name) {
            Some(text) => {
                let text = format!("\"{}\"", text);
                self.b.lit(text.as_bytes())
            }
            None => {
                let every = chars::text(&mut self.b.p, Form::Json);
                let inside = if name == every {
                    let c = chars::free(&mut self.b.p);
                    self.b.p.rep(c, 0, MANY)
                } else {
                    name
                };
                let quote = self.b.p.byte(b'"');
                let closed = self.b.p.cat(inside, quote);
                let (open, rest) = (self.b.lit(b"\""), self.b.term(closed));
                self.b.seq(&[open, rest])
            }
        };
        let (colon, value) = (self.spaced(b":"), self.value(value)?);
        Ok(self.b.seq(&[key, colon, value]))
    }

    fn others(&mut self, kinds: &[(Re, Sx)]) -> Result<Ex> {
        let mut parts = Vec::new();
        for &(names, v) in kinds {
            parts.push(self.pair(names, v)?);
        }
        Ok(self.b.choice(&parts))
    }

    fn members_of(&mut self, mut m: Members) -> Result<Ex> {
        m.named.retain(|n| n.required || n.value != NONE);
        let required = m.named.iter().filter(|n| n.required).count() as u32 + m.witnesses.len() as u32;
        if m.max < required || m.named.iter().any(|n| n.required && n.value == NONE) {
            return Ok(self.b.never());
        }
        if m.min <= required {
            m.min = 0;
        }
        if m.free.is_empty() && m.named.len() as u32 <= m.max {
            m.max = MANY;
        }
        let mut pairs = Vec::new();
        for n in &m.named {
            pairs.push((self.pair(n.name, n.value)?, n.required));
        }
        let free = self.others(&m.free)?;
        let mut witnesses = Vec::new();
        for w in &m.witnesses {
            witnesses.push(self.others(w)?);
        }
        let parameters = self.style.is_some();
        let (comma, ws) = if parameters {
            let line = self.line();
            (line, line)
        } else {
            (self.spaced(b","), self.space)
        };
        let last = witnesses.len() as u32;
        let witness = witnesses.into_iter().reduce(|all, w| self.b.seq(&[all, comma, w]));
        let apart = if m.min >= 2 && witness.is_none() { self.kinds_apart(&m.free)? } else { Vec::new() };
        let mut w = Writer {
            c: self,
            pairs,
            free,
            has_free: !m.free.is_empty(),
            apart,
            witness,
            last,
            comma,
            min: m.min,
            max: m.max,
            rest: Map::default(),
        };
        let inside = if w.c.any_order { w.any_order()? } else { w.first()? };
        let (open, close) =
            if parameters { (self.b.empty(), self.b.empty()) } else { (self.b.lit(b"{"), self.b.lit(b"}")) };
        // An empty object has one place for white space, not two.
        let (filled, empty) = inside;
        let filled = self.b.seq(&[open, ws, filled, ws, close]);
        let none = self.b.seq(&[open, ws, close]);
        Ok(if empty { self.b.choice(&[none, filled]) } else { filled })
    }
}

pub(super) struct Writer<'c, 'a> {
    pub(super) c: &'c mut Compiler<'a>,
    // Name and value, whether required.
    pub(super) pairs: Vec<(Ex, bool)>,
    pub(super) free: Ex,
    pub(super) has_free: bool,
    // Free members with names that are different, where several of them may be needed.
    pub(super) apart: Vec<Ex>,
    // The members that must come behind the free ones, and how many they are.
    pub(super) witness: Option<Ex>,
    pub(super) last: u32,
    pub(super) comma: Ex,
    pub(super) min: u32,
    pub(super) max: u32,
    // What may follow: by index of the next named member and count so far.
    rest: Map<(usize, u32), Ex>,
}

impl Writer<'_, '_> {
    fn counts(&self) -> bool {
        self.min > 0 || self.max < MANY
    }

    // All but the empty object, and whether that is one too.
    fn first(&mut self) -> Result<(Ex, bool)> {
        let mut parts = Vec::new();
        let mut empty = true;
        for i in 0..self.pairs.len() {
            let (pair, required) = self.pairs[i];
            let rest = self.from(i + 1, 1)?;
            parts.push(self.c.b.seq(&[pair, rest]));
            if required {
                empty = false;
                break;
            }
        }
        if empty {
            let (low, high) = self.left(0)?;
            empty = low == 0 && self.witness.is_none();
            let many = self.many(low);
            let b = &mut self.c.b;
            if let Some(w) = self.witness {
                let more = b.seq(&[self.free, self.comma]);
                let before = b.times(more, low.saturating_sub(self.last), less(high, self.last));
                parts.push(b.seq(&[before, w]));
            } else if many {
                parts.push(self.different(low, high));
            } else if self.has_free {
                parts.push(b.list(self.free, self.comma, low.max(1), high));
            }
        }
        Ok((self.c.b.choice(&parts), empty))
    }

    // How many members without names of their own must and may still come.
    fn left(&mut self, count: u32) -> Result<(u32, u32)> {
        let low = self.min.saturating_sub(count);
        let high = if self.max == MANY { MANY } else { self.max.saturating_sub(count) };
        if low >= 2 && self.has_free && low as usize > self.apart.len() {
            self.c.many_free(low)?;
        }
        Ok((low, high))
    }

    // Whether so many free members must have names that are kept apart.
    fn many(&self, low: u32) -> bool {
        low >= 2 && low as usize <= self.apart.len()
    }

    fn from(&mut self, i: usize, count: u32) -> Result<Ex> {
        // Bottom up: no recursion over members.
        let counts = self.counts();
        let top = if !counts {
            0
        } else if self.max < MANY {
            self.max
        } else {
            self.min
        };
        let width = if counts { top.min(self.pairs.len() as u32 + 1) } else { 0 };
        if (self.pairs.len() as u64 + 1) * (width as u64 + 1) > 40_000 {
            return Err(Error::whole("minProperties and maxProperties with that many properties take too many rules"));
        }
        if self.rest.is_empty() {
            for i in (0..=self.pairs.len()).rev() {
                // Something was written before, including all that is required.
                let least = self.pairs[..i].iter().filter(|p| p.1).count().max(1) as u32;
                for c in 0..=width {
                    let reached = !counts || c >= least.min(width);
                    let x = if reached { self.step(i, c, width)? } else { self.c.b.never() };
                    self.rest.insert((i, c), x);
                }
            }
        }
        if counts && count > self.max {
            return Ok(self.c.b.never());
        }
        Ok(self.rest[&(i, count.min(width))])
    }

    // What may follow when members below i have been passed and `count` written.
    fn step(&mut self, i: usize, count: u32, width: u32) -> Result<Ex> {
        if i == self.pairs.len() {
            let (low, high) = self.left(count)?;
            if self.witness.is_none() && self.many(low) {
                let rest = self.different(low, high);
                return Ok(self.c.b.seq(&[self.comma, rest]));
            }
            let b = &mut self.c.b;
            let more = b.seq(&[self.comma, self.free]);
            if let Some(w) = self.witness {
                if high < self.last {
                    return Ok(b.never());
                }
                let before = b.times(more, low.saturating_sub(self.last), less(high, self.last));
                return Ok(b.seq(&[before, self.comma, w]));
            }
            return Ok(b.times(more, low, high));
        }
        let (pair, required) = self.pairs[i];
        let full = self.max < MANY && count >= self.max;
        let next = if full { self.c.b.never() } else { self.rest[&(i + 1, (count + 1).min(width))] };
        let skipped = self.rest[&(i + 1, count)];
        let counts = self.counts();
        let b = &mut self.c.b;
        let x = if !counts {
            let more = b.seq(&[self.comma, pair]);
            let more = if required { more } else { b.opt(more) };
            b.seq(&[more, skipped])
        } else {
            let with = b.seq(&[self.comma, pair, next]);
            if required {
                with
            } else {
                b.choice(&[with, skipped])
            }
        };
        // A separate rule if several positions continue here; short lists are expanded.
        let shared = counts || self.pairs[..i].iter().take_while(|p| !p.1).count() > 3 && i % 4 == 0;
        if !shared {
            return Ok(x);
        }
        let rule = b.declare("members");
        b.define(rule, x);
        Ok(b.rule(rule))
    }
}

fn less(n: u32, by: u32) -> u32 {
    if n == MANY {
        MANY
    } else {
        n.saturating_sub(by)
    }
}
