//! Encodes a grammar for the host (`plugins/grammar/ir`): in version 1, or in version 2 if it has
//! an unordered list.

use crate::build::{Builder, Ex, Expr};
use crate::error::{Error, Result};
use crate::hash::{Map, Seen};
use crate::re::{next, Node, Pool, Re, Set, ALL, MANY};

/// Most bytes of an encoded grammar.
pub const MAX_BYTES: usize = 16 << 20;

fn number(out: &mut Vec<u8>, mut v: u32) {
    while v > 127 {
        out.push(v as u8 | 128);
        v >>= 7;
    }
    out.push(v as u8);
}

fn text(out: &mut Vec<u8>, t: &[u8]) {
    number(out, t.len() as u32);
    out.extend(t);
}

fn indices(out: &mut Vec<u8>, op: u8, v: &[u32]) {
    out.push(op);
    number(out, v.len() as u32);
    v.iter().for_each(|&i| number(out, i));
}

fn ranges(out: &mut Vec<u8>, op: u8, v: &[(u32, u32)]) {
    out.push(op);
    number(out, v.len() as u32);
    for &(lo, hi) in v {
        number(out, lo);
        number(out, hi);
    }
}

fn counts(out: &mut Vec<u8>, op: u8, index: u32, min: u32, max: u32) {
    out.push(op);
    for v in [index, min, if max == MANY { 0 } else { max + 1 }] {
        number(out, v);
    }
}

fn set_ranges(s: &Set) -> Vec<(u32, u32)> {
    let (mut v, mut lo) = (Vec::new(), next(s, 0, true));
    while lo < 256 {
        let end = next(s, lo, false);
        v.push((lo, end - 1));
        lo = next(s, end, true);
    }
    v
}

// The one byte of a set of one.
fn only(s: &Set) -> Option<u8> {
    let bits: u32 = s.iter().map(|w| w.count_ones()).sum();
    if bits == 1 {
        Some(next(s, 0, true) as u8)
    } else {
        None
    }
}

struct Regexes<'a> {
    p: &'a Pool,
    out: Vec<u8>,
    count: u32,
    done: Map<Re, u32>,
    literals: Map<Vec<u8>, u32>,
}

// What a regular expression is written as: parts first.
enum Part {
    Whole(Re),
    Text(Vec<u8>),
}

impl Regexes<'_> {
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
        write(&mut self.out);
        self.count += 1;
        self.count - 1
    }

    fn literal(&mut self, t: Vec<u8>) -> u32 {
        if let Some(&i) = self.literals.get(&t) {
            return i;
        }
        let i = self.add(|out| {
            out.push(2);
            text(out, &t);
        });
        self.literals.insert(t, i);
        i
    }

    // Head and tail of what is written as a concatenation.
    fn split(&self, r: Re) -> (Re, Option<Re>) {
        match *self.p.node(r) {
            Node::Cat(a, b) if !self.p.lists.contains_key(&r) && !self.p.chars.contains_key(&r) => (a, Some(b)),
            _ => (r, None),
        }
    }

    fn byte(&self, r: Re) -> Option<u8> {
        match self.p.node(r) {
            Node::Bytes(s) => only(s),
            _ => None,
        }
    }

    // The parts of a concatenation, fixed texts as such.
    fn chain(&self, r: Re) -> Vec<Part> {
        let (mut parts, mut at) = (Vec::new(), Some(r));
        while let Some(r) = at {
            let (head, tail) = self.split(r);
            match (self.byte(head), parts.last_mut()) {
                (Some(b), Some(Part::Text(t))) => t.push(b),
                (Some(b), _) => parts.push(Part::Text(vec![b])),
                (None, _) => parts.push(Part::Whole(head)),
            }
            at = tail;
        }
        parts
    }

    // Puts the parts of an expression, as it is written, on a stack.
    fn parts(&self, r: Re, stack: &mut Vec<(Re, bool)>) {
        if self.p.lists.contains_key(&r) || self.p.chars.contains_key(&r) {
            return;
        }
        match self.p.node(r) {
            Node::Cat(..) => {
                let mut at = Some(r);
                while let Some(r) = at {
                    let (head, tail) = self.split(r);
                    if self.byte(head).is_none() {
                        stack.push((head, false));
                    }
                    at = tail;
                }
            }
            Node::Or(v) | Node::And(v) => stack.extend(v.iter().map(|&c| (c, false))),
            Node::Not(a) | Node::Rep(a, ..) => stack.push((*a, false)),
            _ => {}
        }
    }

    // Writes an expression after its parts, without recursion.
    fn write(&mut self, r: Re) -> u32 {
        let mut stack = vec![(r, false)];
        while let Some((r, ready)) = stack.pop() {
            if self.done.contains_key(&r) {
                continue;
            }
            if ready {
                let i = self.one(r);
                self.done.insert(r, i);
                continue;
            }
            stack.push((r, true));
            self.parts(r, &mut stack);
        }
        self.done[&r]
    }

    fn one(&mut self, r: Re) -> u32 {
        let p = self.p;
        if let Some(words) = p.lists.get(&r) {
            if words.len() == 1 {
                return self.literal(words[0].clone());
            }
            return self.add(|out| {
                out.push(8);
                number(out, words.len() as u32);
                words.iter().for_each(|w| text(out, w));
            });
        }
        if let Node::Bytes(s) = p.node(r) {
            return match only(s) {
                Some(b) => self.literal(vec![b]),
                None => self.add(|out| ranges(out, 0, &set_ranges(s))),
            };
        }
        if let Some(set) = p.chars.get(&r) {
            return self.add(|out| ranges(out, 1, set));
        }
        let known = |done: &Map<Re, u32>, v: &[Re]| v.iter().map(|c| done[c]).collect::<Vec<u32>>();
        match p.node(r) {
            Node::Never => self.add(|out| ranges(out, 0, &[])),
            Node::Empty => self.literal(Vec::new()),
            Node::Cat(..) => {
                let mut v = Vec::new();
                for part in self.chain(r) {
                    v.push(match part {
                        Part::Whole(r) => self.done[&r],
                        Part::Text(t) => self.literal(t),
                    });
                }
                if v.len() == 1 {
                    return v[0];
                }
                self.add(|out| indices(out, 3, &v))
            }
            Node::Or(v) => {
                let v = known(&self.done, v);
                self.add(|out| indices(out, 4, &v))
            }
            Node::And(v) => {
                let v = known(&self.done, v);
                self.add(|out| indices(out, 6, &v))
            }
            Node::Not(a) => {
                let a = self.done[a];
                self.add(|out| {
                    out.push(7);
                    number(out, a);
                })
            }
            Node::Rep(a, min, max) => {
                let a = self.done[a];
                self.add(|out| counts(out, 5, a, *min, *max))
            }
            Node::Words(list, lo, hi, depth) => self.add(|out| {
                out.push(8);
                number(out, hi - lo);
                p.part((*list, *lo, *hi, *depth)).for_each(|w| text(out, w));
            }),
            // Written as rules by those who make them.
            Node::Bytes(_) | Node::Mod(..) => self.add(|out| ranges(out, 0, &[])),
        }
    }
}

/// Writes the grammar that begins with rule `start`. Rules that match no text are left out with
/// what needs them; if nothing remains it is an error.
pub fn write(b: &mut Builder, start: u32) -> Result<Vec<u8>> {
    if b.full() {
        return Err(Error::whole("the grammar is too large"));
    }
    let good = b.productive();
    if !good[start as usize] {
        return Err(b.barren.first().cloned().unwrap_or_else(|| Error::whole("nothing satisfies the grammar")));
    }
    let reached = reach(b, start, &good);
    let mut re = Regexes { p: &b.p, out: Vec::new(), count: 0, done: Map::default(), literals: Map::default() };
    let (mut exprs, mut count, mut version) = (Vec::new(), 0u32, 1);
    let mut at: Map<Ex, u32> = Map::default();
    for x in (0..b.exprs.len() as Ex).filter(|&x| reached.exprs[x as usize]) {
        let i = |v: &[Ex]| v.iter().map(|y| at[y]).collect::<Vec<u32>>();
        match b.expr(x) {
            // Found empty above.
            Expr::Term(r) if b.p.empty.get(r) == Some(&true) => indices(&mut exprs, 3, &[]),
            Expr::Term(r) => {
                let r = re.write(*r);
                exprs.push(0);
                number(&mut exprs, r);
                number(&mut exprs, 0);
            }
            Expr::Rule(r) => match reached.rules[*r as usize] {
                Some(r) => {
                    exprs.push(1);
                    number(&mut exprs, r);
                }
                // A rule without a text.
                None => indices(&mut exprs, 3, &[]),
            },
            Expr::Seq(v) => indices(&mut exprs, 2, &i(v)),
            Expr::Choice(v) => indices(&mut exprs, 3, &i(v)),
            Expr::Times(y, min, max) => counts(&mut exprs, 4, at[y], *min, *max),
            Expr::Unordered(separator, members, min, max) => {
                version = 2;
                let all: Vec<u32> = Some(at[separator]).into_iter().chain(members.iter().map(|m| at[&m.0])).collect();
                indices(&mut exprs, 7, &all);
                exprs.extend(members.iter().map(|m| m.1));
                number(&mut exprs, *min);
                number(&mut exprs, if *max == MANY { 0 } else { max + 1 });
            }
            Expr::Token(v, except) => {
                exprs.push(5);
                exprs.push(*except as u8);
                number(&mut exprs, v.len() as u32);
                for &(lo, hi) in v {
                    number(&mut exprs, lo);
                    number(&mut exprs, hi);
                }
            }
            Expr::TokenText(t) => {
                exprs.push(6);
                text(&mut exprs, t.as_bytes());
            }
        }
        at.insert(x, count);
        count += 1;
    }
    let mut out = b"tgir".to_vec();
    out.push(version);
    number(&mut out, re.count);
    out.extend(&re.out);
    number(&mut out, count);
    out.extend(&exprs);
    let mut rules: Vec<(u32, &str, u32)> = Vec::new();
    for (r, (name, body)) in b.rules.iter().enumerate() {
        if let (Some(n), Some(body)) = (reached.rules[r], body) {
            rules.push((n, name, at[body]));
        }
    }
    rules.sort_unstable();
    number(&mut out, rules.len() as u32);
    for (_, name, body) in &rules {
        text(&mut out, &name.as_bytes()[..cut(name, 256)]);
        number(&mut out, *body);
    }
    number(&mut out, reached.rules[start as usize].unwrap_or(0));
    if out.len() > MAX_BYTES {
        return Err(Error::whole(format!("the grammar takes {} bytes, at most {} are read", out.len(), MAX_BYTES)));
    }
    Ok(out)
}

fn cut(s: &str, most: usize) -> usize {
    (0..=most.min(s.len())).rev().find(|&i| s.is_char_boundary(i)).unwrap_or(0)
}

struct Reached {
    exprs: Vec<bool>,
    // The number that each rule is written with.
    rules: Vec<Option<u32>>,
}

fn reach(b: &Builder, start: u32, good: &[bool]) -> Reached {
    let mut r = Reached { exprs: vec![false; b.exprs.len()], rules: vec![None; b.rules.len()] };
    let (mut work, mut count) = (Vec::new(), 0);
    let mut rules = vec![start];
    loop {
        if let Some(x) = work.pop() {
            if std::mem::replace(&mut r.exprs[x as usize], true) {
                continue;
            }
            match b.expr(x) {
                Expr::Rule(n) => rules.push(*n),
                Expr::Seq(v) | Expr::Choice(v) => work.extend(v),
                Expr::Times(y, ..) => work.push(*y),
                Expr::Unordered(separator, v, ..) => {
                    work.push(*separator);
                    work.extend(v.iter().map(|m| m.0));
                }
                _ => {}
            }
        } else if let Some(n) = rules.pop() {
            if r.rules[n as usize].is_none() && good[n as usize] {
                r.rules[n as usize] = Some(count);
                count += 1;
                work.extend(b.rules[n as usize].1);
            }
        } else {
            return r;
        }
    }
}

/// Turns a regular expression with divisors into rules, one per state of its automaton. None beyond
/// `limit` states.
pub fn automaton(b: &mut Builder, r: Re, name: &str, limit: usize) -> Option<Ex> {
    let dfa = b.p.dfa(r, limit)?;
    let rules: Vec<u32> = dfa.moves.iter().map(|_| b.declare(name)).collect();
    for (s, row) in dfa.moves.iter().enumerate() {
        let mut by_target: std::collections::BTreeMap<u32, Set> = std::collections::BTreeMap::new();
        for &(lo, hi, t) in row {
            let (e, s) = (by_target.entry(t).or_insert([0; 4]), crate::re::range(lo, hi));
            (0..4).for_each(|i| e[i] |= s[i]);
        }
        let mut parts = Vec::new();
        for (t, set) in by_target {
            let head = b.p.bytes(set);
            // A state that only ends needs no rule.
            let ends = dfa.accepts[t as usize] && dfa.moves[t as usize].is_empty();
            let (head, next) = (b.term(head), b.rule(rules[t as usize]));
            parts.push(if ends { head } else { b.seq(&[head, next]) });
        }
        if dfa.accepts[s] {
            parts.push(b.empty());
        }
        let body = b.choice(&parts);
        b.define(rules[s], body);
    }
    Some(b.rule(rules[0]))
}

/// Whether a regular expression contains divisibility.
pub fn divides(p: &Pool, r: Re) -> bool {
    let (mut stack, mut seen) = (vec![r], Seen::default());
    while let Some(r) = stack.pop() {
        if r == ALL || !seen.insert(r) {
            continue;
        }
        match p.node(r) {
            Node::Mod(..) => return true,
            Node::Cat(a, b) => stack.extend([*a, *b]),
            Node::Or(v) | Node::And(v) => stack.extend(v),
            Node::Not(a) | Node::Rep(a, ..) => stack.push(*a),
            _ => {}
        }
    }
    false
}
