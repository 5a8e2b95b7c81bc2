//! Expands an expression for values of one type: to a set for null, booleans, numbers and strings;
//! to alternatives, each a conjunction of constraints, for arrays and objects.

use super::expr::*;
use super::strings::{self, Strings};
use super::{numbers, Compiler};
use crate::chars::{self, Form};
use crate::error::{Error, Result};
use crate::re::{Re, MANY, NEVER};
use std::rc::Rc;

/// A conjunction of constraints.
pub type Case = Vec<Sx>;

/// Most alternatives of one schema.
pub const MAX_CASES: usize = 600;

/// Longest chain of schemas that refer to each other for the same value.
pub const MAX_CHAIN: usize = 64;

/// A set of scalars of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// null (1); false (1) and true (2).
    Bits(u8),
    /// Numbers by their texts.
    Num(Re),
    Str(Strings),
}

impl<'a> Compiler<'a> {
    fn all(&mut self, kind: u8) -> Set {
        match kind {
            NULL => Set::Bits(1),
            BOOL => Set::Bits(3),
            NUM => Set::Num(numbers::all(&mut self.b.p)),
            _ => Set::Str(strings::ALL),
        }
    }

    fn nothing(&self, kind: u8) -> Set {
        match kind {
            NULL | BOOL => Set::Bits(0),
            NUM => Set::Num(NEVER),
            _ => Set::Str(strings::NONE),
        }
    }

    fn both(&mut self, a: Set, b: Set) -> Set {
        match (a, b) {
            (Set::Bits(a), Set::Bits(b)) => Set::Bits(a & b),
            // Every set of numbers is a part of all of them.
            (Set::Num(a), Set::Num(b)) => Set::Num(match numbers::all(&mut self.b.p) {
                all if a == all => b,
                all if b == all => a,
                _ => self.b.p.and2(a, b),
            }),
            (Set::Str(a), Set::Str(b)) => Set::Str(a.and(&mut self.b.p, b)),
            (a, _) => a,
        }
    }

    fn either(&mut self, a: Set, b: Set) -> Set {
        match (a, b) {
            (Set::Bits(a), Set::Bits(b)) => Set::Bits(a | b),
            (Set::Num(a), Set::Num(b)) => Set::Num(match numbers::all(&mut self.b.p) {
                all if a == all || b == all => all,
                _ => self.b.p.or2(a, b),
            }),
            (Set::Str(a), Set::Str(b)) => Set::Str(a.or(&mut self.b.p, b)),
            (a, _) => a,
        }
    }

    fn inverse(&mut self, kind: u8, a: Set) -> Set {
        match (a, self.all(kind)) {
            (Set::Bits(a), Set::Bits(all)) => Set::Bits(all & !a),
            (Set::Num(NEVER), all) => all,
            (Set::Num(a), Set::Num(all)) => Set::Num(if a == all { NEVER } else { self.b.p.minus(all, a) }),
            (Set::Str(a), _) => Set::Str(a.not(&mut self.b.p)),
            (a, _) => a,
        }
    }

    /// Whether a set is certainly empty.
    pub(super) fn is_nothing(&mut self, s: Set) -> bool {
        match s {
            Set::Bits(b) => b == 0,
            Set::Num(r) | Set::Str(Strings::Texts(r)) => self.b.p.is_empty(r) == Some(true),
            Set::Str(Strings::Len(..)) => false,
        }
    }

    fn follow(&mut self, id: u32) -> Result<Sx> {
        if self.chain.contains(&id) || self.chain.len() >= MAX_CHAIN {
            let pointer = self.locations[id as usize].pointer.clone();
            return Err(Error::pointer(
                &pointer,
                "",
                "the schema refers to itself without an end, or through too many others",
            ));
        }
        let x = self.lower(id)?;
        self.chain.push(id);
        Ok(x)
    }

    /// What to do about a keyword that cannot be enforced.
    fn unenforced(&mut self, i: u32) -> Result<()> {
        if !self.lenient {
            return Err(self.refusals[i as usize].clone());
        }
        self.dropped.insert(i as usize);
        Ok(())
    }

    /// The scalars of a type (NULL, BOOL, NUM, STR) that `x` admits, or with
    /// `not` those it does not.
    pub(super) fn set(&mut self, x: Sx, not: bool, kind: u8) -> Result<Set> {
        if let Some(&s) = self.sets.get(&(x, not, kind)) {
            return Ok(s);
        }
        let s = self.fresh_set(x, not, kind)?;
        self.sets.insert((x, not, kind), s);
        Ok(s)
    }

    fn fresh_set(&mut self, x: Sx, not: bool, kind: u8) -> Result<Set> {
        let shape = self.a.shape(x).clone();
        let s = match shape {
            Shape::None => self.nothing(kind),
            Shape::Types(m) if m & kind == 0 => self.nothing(kind),
            Shape::Bool(v) if kind == BOOL => Set::Bits(if v { 2 } else { 1 }),
            Shape::Num(r) if kind == NUM => Set::Num(r),
            Shape::Str(r) if kind == STR => Set::Str(Strings::Texts(r)),
            Shape::Len(min, max) if kind == STR => {
                Set::Str(if min > max { strings::NONE } else { Strings::Len(min, max) })
            }
            Shape::Not(y) => return self.set(y, !not, kind),
            Shape::Loc(id) => {
                let y = self.follow(id)?;
                let s = self.set(y, not, kind);
                self.chain.pop();
                return s;
            }
            Shape::Refused(i, types) if types & kind != 0 => {
                self.unenforced(i)?;
                return Ok(self.all(kind));
            }
            Shape::And(v) | Shape::Or(v) => {
                let and = matches!(self.a.shape(x), Shape::And(_)) != not;
                let mut s = if and { self.all(kind) } else { self.nothing(kind) };
                for y in v {
                    let t = self.set(y, not, kind)?;
                    s = if and { self.both(s, t) } else { self.either(s, t) };
                    // An impossible type needs no further expansion.
                    if and && s == self.nothing(kind) {
                        break;
                    }
                }
                return Ok(s);
            }
            Shape::One(v, _) => self.one_set(&v, kind)?,
            _ => self.all(kind),
        };
        Ok(if not { self.inverse(kind, s) } else { s })
    }

    // What exactly one alternative admits. Alternatives that do not overlap earlier ones are simply
    // joined.
    fn one_set(&mut self, v: &[Sx], kind: u8) -> Result<Set> {
        let (mut once, mut seen) = (self.nothing(kind), self.nothing(kind));
        let mut not_seen = self.all(kind);
        for &y in v {
            // Both are computed: what cannot be enforced admits all in either case.
            let (t, not_t) = (self.set(y, false, kind)?, self.set(y, true, kind)?);
            let shared = self.both(seen, t);
            if self.is_nothing(shared) {
                once = self.either(once, t);
            } else {
                let (a, b) = (self.both(once, not_t), self.both(t, not_seen));
                once = self.either(a, b);
            }
            seen = self.either(seen, t);
            not_seen = self.both(not_seen, not_t);
        }
        Ok(once)
    }

    /// The strings that `x` admits.
    pub(super) fn strings_of(&mut self, x: Sx) -> Result<Strings> {
        match self.set(x, false, STR)? {
            Set::Str(s) => Ok(s),
            _ => Ok(strings::ALL),
        }
    }

    /// The alternatives of arrays or objects (ARR, OBJ) that `x` admits, or with
    /// `not` of those it does not.
    pub(super) fn cases(&mut self, x: Sx, not: bool, kind: u8) -> Result<Rc<Vec<Case>>> {
        if let Some(c) = self.expanded.get(&(x, not, kind)) {
            return Ok(c.clone());
        }
        let first = self.expanding.insert((x, not, kind));
        if !first && self.marking {
            return Err(Error::whole("the value of a member is looked at to find out what it is"));
        }
        let c = self.fresh_cases(x, not, kind);
        if first {
            self.expanding.remove(&(x, not, kind));
        }
        let mut c = c?;
        c.dedup();
        let c = Rc::new(c);
        self.expanded.insert((x, not, kind), c.clone());
        Ok(c)
    }

    fn fresh_cases(&mut self, x: Sx, not: bool, kind: u8) -> Result<Vec<Case>> {
        let shape = self.a.shape(x).clone();
        let holds = |yes: bool| if yes { vec![Vec::new()] } else { Vec::new() };
        let concerns = match shape {
            Shape::Item(..) | Shape::Items(..) | Shape::Count(..) | Shape::Contains(..) | Shape::Unique => ARR,
            Shape::All(..) | Shape::Some(..) | Shape::Props(..) => OBJ,
            _ => 0,
        };
        if concerns == kind {
            return if not { self.opposite(&shape) } else { Ok(vec![vec![x]]) };
        }
        match shape {
            Shape::None => Ok(holds(not)),
            Shape::Types(m) => Ok(holds((m & kind != 0) != not)),
            Shape::Not(y) => Ok((*self.cases(y, !not, kind)?).clone()),
            Shape::Loc(id) => {
                let y = self.follow(id)?;
                let c = self.cases(y, not, kind);
                self.chain.pop();
                Ok((*c?).clone())
            }
            Shape::Refused(i, types) if types & kind != 0 => {
                self.unenforced(i)?;
                Ok(holds(true))
            }
            Shape::And(v) if !not => self.product(&v, false, kind),
            Shape::Or(v) if not => self.product(&v, true, kind),
            Shape::And(v) | Shape::Or(v) => {
                let mut out: Vec<Case> = Vec::new();
                for y in v {
                    out.extend(self.cases(y, not, kind)?.iter().cloned());
                    self.few(out.len())?;
                }
                // If one has no constraint, the others add nothing.
                if out.iter().any(Vec::is_empty) {
                    return Ok(holds(true));
                }
                out.dedup();
                Ok(out)
            }
            Shape::One(v, why) => self.one_cases(&v, why, not, kind),
            _ => Ok(holds(!not)),
        }
    }

    fn few(&self, n: usize) -> Result<()> {
        if n > MAX_CASES || self.b.p.full() || self.a.len() > super::MAX_SHAPES {
            return Err(Error::whole(format!("the schema has more than {} alternatives in one place", MAX_CASES)));
        }
        Ok(())
    }

    fn product(&mut self, v: &[Sx], not: bool, kind: u8) -> Result<Vec<Case>> {
        let mut out: Vec<Case> = vec![Vec::new()];
        // Types first: they rule out most.
        let mut sorted = v.to_vec();
        sorted.sort_by_key(|&y| !matches!(self.a.shape(y), Shape::Types(_)));
        for y in sorted {
            let c = self.cases(y, not, kind)?;
            let mut next: Vec<Case> = Vec::new();
            for a in &out {
                for b in c.iter() {
                    let case = self.joined(a, b);
                    if !self.impossible(&case, kind, 1)? {
                        next.push(case);
                    }
                    self.few(next.len())?;
                }
            }
            out = next;
            if out.is_empty() {
                break;
            }
        }
        Ok(out)
    }

    pub(super) fn joined(&self, a: &Case, b: &Case) -> Case {
        let mut case = a.clone();
        case.extend(b.iter().filter(|x| !a.contains(x)));
        case
    }

    // The alternatives of a constraint's negation.
    fn opposite(&mut self, s: &Shape) -> Result<Vec<Case>> {
        let a = &mut self.a;
        Ok(match *s {
            Shape::Item(i, x) => {
                let not = a.not(x);
                vec![vec![a.make(Shape::Count(i + 1, MANY)), a.make(Shape::Item(i, not))]]
            }
            Shape::Items(i, x) => {
                let not = a.not(x);
                vec![vec![a.make(Shape::Contains(i, not, 1, MANY))]]
            }
            Shape::Count(min, max) | Shape::Props(min, max) => {
                let items = matches!(s, Shape::Count(..));
                let mut make = |min, max| {
                    vec![if items { a.make(Shape::Count(min, max)) } else { a.make(Shape::Props(min, max)) }]
                };
                let mut out = Vec::new();
                if min > 0 {
                    out.push(make(0, min - 1));
                }
                if max < MANY {
                    out.push(make(max + 1, MANY));
                }
                out
            }
            Shape::Contains(from, x, min, max) => {
                let mut out = Vec::new();
                if min > 0 {
                    out.push(vec![a.make(Shape::Contains(from, x, 0, min - 1))]);
                }
                if max < MANY {
                    out.push(vec![a.make(Shape::Contains(from, x, max + 1, MANY))]);
                }
                out
            }
            Shape::All(names, x) => {
                let not = a.not(x);
                vec![vec![a.make(Shape::Some(names, not))]]
            }
            Shape::Some(names, x) => {
                let not = a.not(x);
                vec![vec![a.make(Shape::All(names, not))]]
            }
            _ if self.lenient => vec![Vec::new()],
            _ => return Err(Error::whole("'not' of uniqueItems is not supported")),
        })
    }

    fn one_cases(&mut self, v: &[Sx], why: u32, not: bool, kind: u8) -> Result<Vec<Case>> {
        let mut lists = Vec::new();
        for &y in v {
            lists.push((y, self.cases(y, false, kind)?));
        }
        lists.retain(|l| !l.1.is_empty());
        let n = lists.len();
        let mut marks = Vec::new();
        for l in &lists {
            marks.push(if kind == OBJ && l.1.len() == 1 { self.marks(&l.1[0]) } else { Vec::new() });
        }
        let differ = |i: usize, j: usize| {
            let pairs = marks[i].iter().flat_map(|a| marks[j].iter().map(move |b| (a, b)));
            pairs.into_iter().any(|(a, b)| a.0 == b.0 && !a.1.iter().any(|w| b.1.contains(w)))
        };
        let mut overlap: Vec<Vec<usize>> = vec![Vec::new(); n];
        for i in 0..n {
            for j in 0..i {
                if !differ(i, j) && !self.apart(&lists[i].1, &lists[j].1, kind)? {
                    overlap[i].push(j);
                    overlap[j].push(i);
                }
            }
        }
        if not {
            // None of them, or two at once.
            let all: Vec<Sx> = lists.iter().map(|l| l.0).collect();
            let mut out = self.product(&all, true, kind)?;
            for (i, over) in overlap.iter().enumerate() {
                for &j in over.iter().filter(|&&j| j < i) {
                    out.extend(self.product(&[lists[i].0, lists[j].0], false, kind)?);
                }
            }
            return Ok(out);
        }
        if overlap.iter().map(Vec::len).sum::<usize>() > 60 {
            self.unenforced(why)?;
            overlap = vec![Vec::new(); n];
        }
        let mut out = Vec::new();
        for (i, over) in overlap.iter().enumerate() {
            if over.is_empty() {
                out.extend(lists[i].1.iter().cloned());
            } else {
                let mut parts = vec![lists[i].0];
                for &j in over {
                    parts.push(self.a.not(lists[j].0));
                }
                out.extend(self.product(&parts, false, kind)?);
            }
            self.few(out.len())?;
        }
        Ok(out)
    }

    // Whether no value is in both.
    fn apart(&mut self, a: &[Case], b: &[Case], kind: u8) -> Result<bool> {
        if a.len() * b.len() > 2000 {
            return Ok(false);
        }
        for x in a {
            for y in b {
                let both = self.joined(x, y);
                if !self.impossible(&both, kind, 3)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether a language of names has the name that is the only one of another.
    pub(super) fn matches(&mut self, names: Re, name: Re) -> bool {
        if names == name {
            return true;
        }
        // Most languages that are asked about are those of another one name.
        if self.singles.contains_key(&names) {
            return false;
        }
        let every = chars::text(&mut self.b.p, Form::Json);
        match self.singles.get(&name) {
            Some(text) => self.b.p.holds(names, text.as_bytes(), every),
            None => false,
        }
    }

    /// What a case asks of the item at an index.
    pub(super) fn item(&mut self, case: &Case, i: u32) -> Sx {
        let parts = case
            .iter()
            .filter_map(|&x| match *self.a.shape(x) {
                Shape::Item(j, v) if j == i => Some(v),
                Shape::Items(j, v) if j <= i => Some(v),
                _ => None,
            })
            .collect();
        self.a.and(parts)
    }
}
