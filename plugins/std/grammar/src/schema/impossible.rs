//! Whether a schema certainly admits no value: a bounded check that keeps alternatives few and
//! shows that those of `oneOf` exclude each other. What it misses costs rules, never correctness.

use super::expand::{Case, Set};
use super::expr::*;
use super::strings::Strings;
use super::Compiler;
use crate::error::Result;
use crate::re::{Re, MANY};

impl<'a> Compiler<'a> {
    /// The values of required members, if they are a few words: two alternatives that differ in one
    /// of them exclude each other.
    pub(super) fn marks(&mut self, case: &Case) -> Vec<(Re, Vec<Vec<u8>>)> {
        let mut out = Vec::new();
        for &x in case {
            let name = match *self.a.shape(x) {
                Shape::Some(n, _) if self.singles.contains_key(&n) => n,
                _ => continue,
            };
            let value = self.required(case, name);
            // Another value: references seen on the way here do not count. It may be
            // of the very schema whose alternatives are told apart here.
            let chain = std::mem::take(&mut self.chain);
            let marking = std::mem::replace(&mut self.marking, true);
            let words = self.only_words(value);
            self.chain = chain;
            self.marking = marking;
            out.extend(words.map(|w| (name, w)));
        }
        out
    }

    fn only_words(&mut self, x: Sx) -> Option<Vec<Vec<u8>>> {
        let words = match self.set(x, false, STR).ok()? {
            Set::Str(Strings::Texts(r)) => self.b.p.lists.get(&r).filter(|w| w.len() <= 8).map(|w| w.to_vec())?,
            _ => return None,
        };
        for kind in [NULL, BOOL, NUM] {
            let s = self.set(x, false, kind).ok()?;
            if !self.is_nothing(s) {
                return None;
            }
        }
        if !(self.cases(x, false, ARR).ok()?.is_empty() && self.cases(x, false, OBJ).ok()?.is_empty()) {
            return None;
        }
        Some(words)
    }

    // What a case asks of the value of a required member.
    fn required(&mut self, case: &Case, name: Re) -> Sx {
        let mut parts = Vec::new();
        for &x in case {
            let (names, v, all) = match *self.a.shape(x) {
                Shape::All(n, v) => (n, v, true),
                Shape::Some(n, v) => (n, v, false),
                _ => continue,
            };
            if names == name || all && self.matches(names, name) {
                parts.push(v);
            }
        }
        self.a.and(parts)
    }

    /// Whether certainly no array or object satisfies the case; examines `depth` levels of the
    /// value.
    pub(super) fn impossible(&mut self, case: &Case, kind: u8, depth: u32) -> Result<bool> {
        if kind == ARR {
            self.impossible_array(case, depth)
        } else {
            self.impossible_object(case, depth)
        }
    }

    fn impossible_array(&mut self, case: &Case, depth: u32) -> Result<bool> {
        let (mut min, mut max) = (0, MANY);
        for &x in case {
            if let Shape::Count(a, b) = *self.a.shape(x) {
                min = min.max(a);
                max = max.min(b);
            }
        }
        if min > max {
            return Ok(true);
        }
        for &x in case {
            if let Shape::Contains(from, x, n, _) = *self.a.shape(x) {
                if n > 0 && (max.saturating_sub(from) < n || x == NONE) {
                    return Ok(true);
                }
            }
        }
        for i in 0..min.min(8) {
            let v = self.item(case, i);
            if v == NONE || self.impossible_value(v, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn impossible_object(&mut self, case: &Case, depth: u32) -> Result<bool> {
        let (mut min, mut max, mut required) = (0, MANY, Vec::new());
        for &x in case {
            match *self.a.shape(x) {
                Shape::Props(a, b) => {
                    min = min.max(a);
                    max = max.min(b);
                }
                Shape::Some(_, NONE) => return Ok(true),
                Shape::Some(name, _) if self.singles.contains_key(&name) && !required.contains(&name) => {
                    required.push(name)
                }
                _ => {}
            }
        }
        if min > max || required.len() as u64 > max as u64 {
            return Ok(true);
        }
        for name in required {
            let v = self.required(case, name);
            if v == NONE || self.impossible_value(v, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn impossible_value(&mut self, x: Sx, depth: u32) -> Result<bool> {
        if depth == 0 || matches!(self.a.shape(x), Shape::Any) {
            return Ok(false);
        }
        if let Some(&known) = self.impossibles.get(&(x, depth)) {
            return Ok(known);
        }
        // What lies deeper belongs to another value: its references may lead
        // here again.
        let chain = std::mem::take(&mut self.chain);
        let answer = self.looks_impossible(x, depth);
        self.chain = chain;
        // A keyword that cannot be enforced is reported where it is written.
        let answer = answer.unwrap_or(false);
        self.impossibles.insert((x, depth), answer);
        Ok(answer)
    }

    fn looks_impossible(&mut self, x: Sx, depth: u32) -> Result<bool> {
        self.inside += 1;
        if self.inside > 6 {
            self.inside -= 1;
            return Ok(false);
        }
        let mut empty = true;
        for kind in [NULL, BOOL, NUM, STR] {
            empty = empty && self.set(x, false, kind).map_or(false, |s| self.is_nothing(s));
        }
        for kind in [ARR, OBJ] {
            if empty {
                let c = self.cases(x, false, kind);
                empty = match c {
                    Ok(c) => {
                        let mut all = c.len() <= 16;
                        for case in c.iter().take(16) {
                            all = all && self.impossible(case, kind, depth - 1)?;
                        }
                        all
                    }
                    Err(_) => false,
                };
            }
        }
        self.inside -= 1;
        Ok(empty)
    }
}
