//! Rules for arrays.

use super::expand::{Case, Set};
use super::expr::*;
use super::numbers;
use super::strings::Strings;
use super::Compiler;
use crate::build::Ex;
use crate::error::{Error, Result};
use crate::hash::{Map, Seen};
use crate::re::MANY;
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum number of states of an array whose items are counted or compared.
const MAX_STATES: usize = 6000;

/// Most values that items are told apart by.
const MAX_VALUES: usize = 24;

/// Kinds of items, each with the indices of the counted schemas that it meets.
type Kinds = Rc<Vec<(Sx, Vec<usize>)>>;

/// The relation of an item to a counted schema.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Role {
    /// It no longer matters.
    Free,
    /// It may meet it or not.
    Counted,
    /// As many have met it as may.
    Forbidden,
}

/// An index, up to where items are alike, and how many items of each kind have come.
type State = (u32, Vec<u32>);

/// A state, the kinds of items that may follow and the states they lead to.
type Counted = (State, Vec<(Sx, State)>);

struct Wanted {
    from: u32,
    kind: Sx,
    min: u32,
    max: u32,
}

fn too_many_counts() -> Error {
    Error::whole(format!("counting items of certain kinds takes more than {} states", MAX_STATES))
}

// Whether more sets of values than there may be states can have come before some item, where item i
// is one of the i-th list and the last list goes on.
fn too_many_sets(lists: &[Vec<usize>], max: u32) -> bool {
    let (mut level, mut count): (Seen<u32>, usize) = (Seen::from_iter([0]), 1);
    for i in 0..max as usize {
        let mut next = Seen::default();
        for used in level {
            for v in lists[i.min(lists.len() - 1)].iter().filter(|&v| used >> v & 1 == 0) {
                count += next.insert(used | 1 << v) as usize;
                if count > MAX_STATES {
                    return true;
                }
            }
        }
        if next.is_empty() {
            break;
        }
        level = next;
    }
    false
}

impl<'a> Compiler<'a> {
    /// The rules for the arrays of a case.
    pub(super) fn array(&mut self, case: &Case) -> Result<Ex> {
        let (mut min, mut max, mut fixed, mut unique) = (0, MANY, 0, false);
        let mut wanted: Vec<Wanted> = Vec::new();
        for &x in case {
            match *self.a.shape(x) {
                Shape::Count(a, b) => {
                    min = min.max(a);
                    max = max.min(b);
                }
                Shape::Item(i, _) => fixed = fixed.max(i + 1),
                Shape::Items(i, _) => fixed = fixed.max(i),
                Shape::Contains(from, kind, min, max) => wanted.push(Wanted { from, kind, min, max }),
                Shape::Unique => unique = true,
                _ => {}
            }
        }
        for i in 0..=fixed {
            if self.item(case, i) == NONE {
                max = max.min(i);
                break;
            }
        }
        if min > max {
            return Ok(self.b.never());
        }
        let inside = if unique && max > 1 {
            self.unique(case, &wanted, min, max, fixed)?
        } else if wanted.is_empty() {
            self.plain(case, min, max, fixed.min(max))?
        } else {
            self.counted(case, &wanted, min, max, fixed)?
        };
        let ws = self.space;
        let (open, close) = (self.b.lit(b"["), self.b.lit(b"]"));
        let filled = self.b.seq(&[open, ws, inside, ws, close]);
        let none = self.b.seq(&[open, ws, close]);
        let empty = min == 0 && !wanted.iter().any(|w| w.min > 0);
        Ok(if empty { self.b.choice(&[none, filled]) } else { filled })
    }

    // All but the empty array.
    fn plain(&mut self, case: &Case, min: u32, max: u32, fixed: u32) -> Result<Ex> {
        let comma = self.spaced(b",");
        let item = self.item(case, fixed);
        let item = if fixed < max { self.value(item)? } else { self.b.never() };
        if fixed == 0 {
            return Ok(self.b.list(item, comma, min.max(1), max));
        }
        let more = self.b.seq(&[comma, item]);
        let mut rest = self.b.times(more, min.saturating_sub(fixed), if max == MANY { MANY } else { max - fixed });
        for i in (1..fixed).rev() {
            let x = self.item(case, i);
            let x = self.value(x)?;
            let with = self.b.seq(&[comma, x, rest]);
            rest = if i >= min { self.b.opt(with) } else { with };
            if i >= min && i % 50 == 0 {
                // Keeps nesting shallow.
                let rule = self.b.declare("items");
                self.b.define(rule, rest);
                rest = self.b.rule(rule);
            }
        }
        let x = self.item(case, 0);
        let x = self.value(x)?;
        Ok(self.b.seq(&[x, rest]))
    }

    // Items of certain kinds are counted: a rule per index (up to where items
    // are alike) and counts so far.
    fn counted(&mut self, case: &Case, wanted: &[Wanted], min: u32, max: u32, fixed: u32) -> Result<Ex> {
        let last = wanted.iter().map(|w| w.from).chain([fixed, min, 1]).max().unwrap_or(1);
        let last = if max == MANY { last } else { max.max(1) };
        let order = self.counts(case, wanted, max, last)?;
        let mut rules: Map<State, u32> = Map::default();
        for (state, _) in &order {
            rules.insert(state.clone(), self.b.declare("items"));
        }
        let comma = self.spaced(b",");
        for ((i, hits), moves) in &order {
            let mut parts = Vec::new();
            let done = *i >= min && hits.iter().zip(wanted).all(|(h, w)| *h >= w.min);
            if done && *i > 0 {
                parts.push(self.b.empty());
            }
            for &(x, ref next) in moves {
                let x = self.value(x)?;
                let (next, comma) = (self.b.rule(rules[next]), if *i == 0 { self.b.empty() } else { comma });
                parts.push(self.b.seq(&[comma, x, next]));
            }
            let body = self.b.choice(&parts);
            self.b.define(rules[&(*i, hits.clone())], body);
        }
        Ok(self.b.rule(rules[&order[0].0]))
    }

    // The states of an array whose items are counted, each with the kinds of items that may follow
    // and the states they lead to; the first comes first. Before any rule is made: there may be too
    // many.
    fn counts(&mut self, case: &Case, wanted: &[Wanted], max: u32, last: u32) -> Result<Vec<Counted>> {
        let caps: Vec<u32> = wanted.iter().map(|w| if w.max == MANY { w.min } else { w.max + 1 }).collect();
        let start = (0u32, vec![0u32; wanted.len()]);
        let (mut seen, mut work, mut out) = (Seen::default(), VecDeque::from([start.clone()]), Vec::new());
        let mut kinds: Map<(Sx, Vec<Role>), Kinds> = Map::default();
        seen.insert(start);
        // Breadth first: if there are too many, most of them are for items of the same roles.
        while let Some((i, hits)) = work.pop_front() {
            let mut moves = Vec::new();
            if i < max {
                let base = self.item(case, i.min(last));
                let role = |(w, &hits): (&Wanted, &u32)| match () {
                    _ if i < w.from || (w.max == MANY && hits >= w.min) => Role::Free,
                    _ if w.max < MANY && hits >= w.max => Role::Forbidden,
                    _ => Role::Counted,
                };
                let roles: Vec<Role> = wanted.iter().zip(&hits).map(role).collect();
                for &(x, ref met) in self.kinds_of(&mut kinds, base, roles, wanted)?.iter() {
                    let mut more = hits.clone();
                    met.iter().for_each(|&k| more[k] = (hits[k] + 1).min(caps[k]));
                    let next = ((i + 1).min(last), more);
                    if seen.insert(next.clone()) {
                        work.push_back(next.clone());
                    }
                    if seen.len() > MAX_STATES {
                        return Err(too_many_counts());
                    }
                    moves.push((x, next));
                }
            }
            out.push(((i, hits), moves));
        }
        Ok(out)
    }

    // Items split by which of the schemas that are still counted they meet.
    fn kinds_of(
        &mut self,
        known: &mut Map<(Sx, Vec<Role>), Kinds>,
        base: Sx,
        roles: Vec<Role>,
        wanted: &[Wanted],
    ) -> Result<Kinds> {
        if let Some(kinds) = known.get(&(base, roles.clone())) {
            return Ok(kinds.clone());
        }
        let mut out = vec![(base, Vec::new())];
        for (k, w) in wanted.iter().enumerate().filter(|w| roles[w.0] != Role::Free) {
            let not = self.a.not(w.kind);
            let mut next = Vec::new();
            for (x, met) in out {
                let (yes, no) = (self.a.and(vec![x, w.kind]), self.a.and(vec![x, not]));
                if yes != NONE && roles[k] == Role::Counted {
                    next.push((yes, met.iter().copied().chain([k]).collect()));
                }
                if no != NONE {
                    next.push((no, met));
                }
            }
            out = next;
            // Each kind would lead to a state of its own.
            if out.len() > MAX_STATES {
                return Err(too_many_counts());
            }
        }
        let kinds = Rc::new(out);
        known.insert((base, roles), kinds.clone());
        Ok(kinds)
    }

    // No two equal items: exact if all possible values can be listed.
    fn unique(&mut self, case: &Case, wanted: &[Wanted], min: u32, max: u32, fixed: u32) -> Result<Ex> {
        if !wanted.is_empty() {
            self.not_unique("beside contains it is not supported")?;
            return self.counted(case, wanted, min, max, fixed);
        }
        let mut lists: Vec<Vec<usize>> = Vec::new();
        let mut values: Vec<Vec<u8>> = Vec::new();
        for i in 0..=fixed.min(max.saturating_sub(1)) {
            let x = self.item(case, i);
            let listed = match self.listed(x, 3)? {
                Some(v) => v,
                None => {
                    self.not_unique(&format!("items have more than {} values", MAX_VALUES))?;
                    return self.plain(case, min, max, fixed.min(max));
                }
            };
            let mut ids = Vec::new();
            for text in listed {
                ids.push(match values.iter().position(|v| *v == text) {
                    Some(i) => i,
                    None => {
                        values.push(text);
                        values.len() - 1
                    }
                });
            }
            lists.push(ids);
        }
        if values.len() > MAX_VALUES {
            self.not_unique(&format!("items have more than {} values", MAX_VALUES))?;
            return self.plain(case, min, max, fixed.min(max));
        }
        if too_many_sets(&lists, max) {
            self.not_unique(&format!("telling the items apart takes more than {} states", MAX_STATES))?;
            return self.plain(case, min, max, fixed.min(max));
        }
        let mut rules: Map<(u32, u32), u32> = Map::default();
        rules.insert((0, 0), self.b.declare("unique"));
        let (mut work, comma) = (vec![(0u32, 0u32)], self.spaced(b","));
        while let Some((i, used)) = work.pop() {
            let rule = rules[&(i, used)];
            let mut parts = Vec::new();
            if i >= min && i > 0 {
                parts.push(self.b.empty());
            }
            let here = if i < max { lists[(i as usize).min(lists.len() - 1)].clone() } else { Vec::new() };
            for v in here.into_iter().filter(|v| used >> v & 1 == 0) {
                let state = (i + 1, used | 1 << v);
                let next = *rules.entry(state).or_insert_with(|| {
                    work.push(state);
                    self.b.declare("unique")
                });
                let comma = if i == 0 { self.b.empty() } else { comma };
                let (x, next) = (self.b.lit(&values[v]), self.b.rule(next));
                parts.push(self.b.seq(&[comma, x, next]));
            }
            let body = self.b.choice(&parts);
            self.b.define(rule, body);
        }
        Ok(self.b.rule(rules[&(0, 0)]))
    }

    fn not_unique(&mut self, reason: &str) -> Result<()> {
        self.drop_or_fail("uniqueItems", reason)
    }

    /// All values of an expression as canonical texts, without white space. None
    /// where there are too many, or objects among them.
    fn listed(&mut self, x: Sx, depth: u32) -> Result<Option<Vec<Vec<u8>>>> {
        let mut out: Vec<Vec<u8>> = Vec::new();
        if self.set(x, false, NULL)? == Set::Bits(1) {
            out.push(b"null".to_vec());
        }
        if let Set::Bits(b) = self.set(x, false, BOOL)? {
            out.extend([(1, &b"false"[..]), (2, b"true")].iter().filter(|v| b & v.0 != 0).map(|v| v.1.to_vec()));
        }
        if let Set::Num(r) = self.set(x, false, NUM)? {
            match numbers::values(&mut self.b.p, r, MAX_VALUES) {
                Some(v) => out.extend(v),
                None => return Ok(None),
            }
        }
        match self.set(x, false, STR)? {
            Set::Str(Strings::Texts(r)) => match self.b.p.finite(r, MAX_VALUES) {
                Some(v) => out.extend(v.iter().map(|w| [b"\"", w.as_slice(), b"\""].concat())),
                None => return Ok(None),
            },
            _ => return Ok(None),
        }
        if !self.cases(x, false, OBJ)?.is_empty() {
            return Ok(None);
        }
        for case in self.cases(x, false, ARR)?.iter() {
            match self.listed_arrays(case, depth)? {
                Some(v) => out.extend(v),
                None => return Ok(None),
            }
        }
        out.sort();
        out.dedup();
        Ok(Some(out).filter(|v| v.len() <= MAX_VALUES))
    }

    fn listed_arrays(&mut self, case: &Case, depth: u32) -> Result<Option<Vec<Vec<u8>>>> {
        let (mut min, mut max) = (0, MANY);
        for &x in case {
            match *self.a.shape(x) {
                Shape::Count(a, b) => {
                    min = min.max(a);
                    max = max.min(b);
                }
                Shape::Item(..) | Shape::Items(..) => {}
                _ => return Ok(None),
            }
        }
        if depth == 0 || max > 4 {
            return Ok(None);
        }
        let (mut out, mut grown) = (Vec::new(), vec![Vec::new()]);
        for i in 0..=max {
            if i >= min {
                out.extend(grown.iter().map(|g: &Vec<u8>| [b"[", g.as_slice(), b"]"].concat()));
            }
            if i == max {
                break;
            }
            let x = self.item(case, i);
            let items = match self.listed(x, depth - 1)? {
                Some(v) => v,
                None => return Ok(None),
            };
            let mut next = Vec::new();
            for g in &grown {
                for item in &items {
                    next.push(if i == 0 { item.clone() } else { [g.as_slice(), b",", item].concat() });
                }
            }
            if next.len() > MAX_VALUES {
                return Ok(None);
            }
            grown = next;
        }
        Ok(Some(out))
    }
}
