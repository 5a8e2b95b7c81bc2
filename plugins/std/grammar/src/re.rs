//! Regular expressions over bytes, each stored once.
//!
//! In addition to the usual operators there are intersection and complement, which make `not`,
//! `allOf` and exclusive names exact, and automata for divisibility, which has no short expression.
//! Derivatives are Brzozowski's (1964): what remains of a language after one byte is again an
//! expression.

mod derive;
mod moves;
mod shape;

pub use moves::Row;

use crate::chars::{Form, Ranges};
use crate::hash::{Index, Layered, Map, Mix};
use shape::{MORE, NULLABLE, SOME};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// An expression: its index in a pool.
pub type Re = u32;

/// The empty language.
pub const NEVER: Re = 0;
/// The language of the empty text alone.
pub const EMPTY: Re = 1;
/// All texts.
pub const ALL: Re = 2;
/// No upper bound of a repeat.
pub const MANY: u32 = u32::MAX;

/// Most expressions that one compilation makes.
pub const MAX_NODES: usize = 220_000;

/// Most moves between states that the automata of one compilation may have.
pub const MAX_WALKED: usize = 150_000;

/// A set of bytes, one bit each.
pub type Set = [u64; 4];

/// The shape of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// No text.
    Never,
    /// The empty text.
    Empty,
    /// One byte of a set.
    Bytes(Set),
    /// One after the other; the first is no concatenation itself.
    Cat(Re, Re),
    /// Any of two or more, sorted.
    Or(Vec<Re>),
    /// All of two or more, sorted.
    And(Vec<Re>),
    /// Every other text.
    Not(Re),
    /// At least, at most so many times; MANY: no bound.
    Rep(Re, u32, u32),
    /// The words of a list from one index to another, behind their first so many
    /// bytes, which are the same in all of them.
    Words(u32, u32, u32, u32),
    /// A decimal text whose value is divisible, from a state of its automaton on.
    Mod(u32, u32),
}

/// Divisibility of decimal texts: value * 10^shift is a multiple of `modulus`.
/// Only the value matters, not the position of sign and digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    /// At least 1.
    pub modulus: u32,
    /// How many fraction digits count; the others must be 0.
    pub shift: u32,
}

impl Divisor {
    fn next(self, state: u32, byte: u8) -> Option<u32> {
        let (p, s) = (self.modulus, self.shift);
        match byte {
            b'-' => Some(state),
            b'.' if state < p => Some(p + state),
            b'0'..=b'9' => {
                let d = (byte - b'0') as u64;
                let (k, r) = if state < p { (None, state) } else { (Some((state - p) / p), (state - p) % p) };
                let next = ((r as u64 * 10 + d) % p as u64) as u32;
                match k {
                    None => Some(next),
                    Some(k) if k < s => Some(p + (k + 1) * p + next),
                    Some(_) if d == 0 => Some(state),
                    Some(_) => None,
                }
            }
            _ => None,
        }
    }

    fn accepts(self, state: u32) -> bool {
        let (p, s) = (self.modulus, self.shift);
        let (k, mut r) = if state < p { (0, state) } else { ((state - p) / p, (state - p) % p) };
        for _ in k..s {
            r = (r as u64 * 10 % p as u64) as u32;
        }
        r == 0
    }
}

/// Frequently used expressions.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    /// Any text inside a JSON string, canonical.
    Text,
    /// One character inside a JSON string, in any way.
    Free,
    /// Digits with a fraction.
    Magnitude,
    /// All numbers.
    Numbers,
    /// Whole numbers.
    Integers,
    /// The shortest text of each number.
    Shortest,
}

/// Words, sorted, each once.
pub type List = Rc<Vec<Vec<u8>>>;

/// All expressions of one compilation.
pub struct Pool {
    nodes: Vec<Node>,
    // Of all unions and intersections.
    members: usize,
    // The properties of each that follow from its shape, see the flags.
    shows: Vec<u8>,
    // The number of expressions of each, expanded to a tree.
    weights: Vec<u32>,
    index: Index,
    divisors: Vec<Divisor>,
    kept: [Option<Re>; 6],
    word_lists: Vec<List>,
    word_index: Map<List, u32>,
    derived: Layered<(Re, u8), Re>,
    // Moves made since it was frozen.
    walked: usize,
    /// Moves of visited states.
    pub(crate) rows: Layered<Re, Rc<Row>>,
    /// Whether languages' automata have a cycle, if computed.
    pub(crate) endless: Layered<Re, bool>,
    /// Results of is_empty.
    pub(crate) empty: Layered<Re, bool>,
    /// The expressions of character sets.
    pub(crate) classes: Layered<(Form, Ranges), Re>,
    /// Which expressions are one character of a set, and which are word lists: they are written as
    /// such.
    pub(crate) chars: Layered<Re, Ranges>,
    pub(crate) lists: Layered<Re, List>,
    /// Strings of formats, by their names.
    pub(crate) formats: Map<String, Re>,
    /// Sets of numbers that are lists, by what holds all their texts; the shortest text of each.
    pub(crate) numbers: Map<Re, Vec<Vec<u8>>>,
}

/// The set of bytes from `lo` to `hi`.
pub fn range(lo: u8, hi: u8) -> Set {
    let mut s = [0; 4];
    for b in lo..=hi {
        s[b as usize >> 6] |= 1 << (b & 63);
    }
    s
}

/// Whether a set has a byte.
pub fn has(s: &Set, b: u8) -> bool {
    s[b as usize >> 6] >> (b & 63) & 1 == 1
}

/// The first byte from `at` on that is in the set, or outside where `inside` is not set; 256 where
/// there is none.
pub fn next(s: &Set, at: u32, inside: bool) -> u32 {
    let mut at = at;
    while at < 256 {
        let word = if inside { s[at as usize >> 6] } else { !s[at as usize >> 6] } >> (at & 63);
        if word != 0 {
            return at + word.trailing_zeros();
        }
        at = (at | 63) + 1;
    }
    256
}

fn zip(a: &Set, b: &Set, f: impl Fn(u64, u64) -> u64) -> Set {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl Pool {
    /// A pool with the three constants.
    pub fn new() -> Pool {
        let mut p = Pool {
            nodes: Vec::new(),
            members: 0,
            shows: Vec::new(),
            weights: Vec::new(),
            index: Index::default(),
            divisors: Vec::new(),
            kept: [None; 6],
            word_lists: Vec::new(),
            word_index: Map::default(),
            derived: Layered::default(),
            walked: 0,
            rows: Layered::default(),
            endless: Layered::default(),
            empty: Layered::default(),
            classes: Layered::default(),
            chars: Layered::default(),
            lists: Layered::default(),
            formats: Map::default(),
            numbers: Map::default(),
        };
        p.make(Node::Never);
        p.make(Node::Empty);
        p.make(Node::Not(NEVER));
        p
    }

    /// Returns the expression of a shape, created once.
    pub fn keep(&mut self, k: Kept, make: impl FnOnce(&mut Pool) -> Re) -> Re {
        if let Some(r) = self.kept[k as usize] {
            return r;
        }
        let r = make(self);
        // The result of a full pool is meaningless.
        if !self.full() {
            self.kept[k as usize] = Some(r);
        }
        r
    }

    /// The shape of an expression.
    pub fn node(&self, r: Re) -> &Node {
        &self.nodes[r as usize]
    }

    /// Whether the empty text belongs to it.
    pub fn nullable(&self, r: Re) -> bool {
        self.shows[r as usize] & NULLABLE != 0
    }

    /// Whether it certainly has a text; false says nothing.
    pub fn has_text(&self, r: Re) -> bool {
        self.shows[r as usize] & SOME != 0
    }

    /// Whether it certainly has infinitely many texts; false says nothing.
    pub fn has_many(&self, r: Re) -> bool {
        self.shows[r as usize] & MORE != 0
    }

    /// How many expressions it has, counting shared ones once per use.
    pub fn weight(&self, r: Re) -> u32 {
        self.weights[r as usize]
    }

    fn weighed(&self, n: &Node) -> u32 {
        let all = |v: &[Re]| v.iter().fold(0u32, |sum, &x| sum.saturating_add(self.weight(x)));
        let inner = match n {
            Node::Never | Node::Empty | Node::Bytes(_) | Node::Mod(..) => 0,
            Node::Words(_, lo, hi, _) => hi - lo,
            Node::Cat(a, b) => all(&[*a, *b]),
            Node::Or(v) | Node::And(v) => all(v),
            Node::Not(x) | Node::Rep(x, ..) => self.weight(*x),
        };
        inner.saturating_add(1)
    }

    /// Whether it has become too large to continue; results are then meaningless.
    pub fn full(&self) -> bool {
        self.nodes.len() >= MAX_NODES || self.members >= 4 * MAX_NODES
    }

    fn make(&mut self, n: Node) -> Re {
        let mut hasher = Mix::default();
        n.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(r) = self.index.find(hash, |r| self.nodes[r as usize] == n) {
            return r;
        }
        if self.full() {
            return NEVER;
        }
        if let Node::Or(v) | Node::And(v) = &n {
            self.members += v.len();
        }
        let r = self.nodes.len() as Re;
        let (shows, weight) = (self.shown(&n), self.weighed(&n));
        self.nodes.push(n);
        self.shows.push(shows);
        self.weights.push(weight);
        self.index.add(hash, r);
        r
    }

    /// How many expressions there are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Stores later expressions separately, so that a compilation writes to few existing pages, and
    /// reserves memory for a usual compilation.
    pub fn freeze(&mut self) {
        self.nodes.reserve(1000);
        self.shows.reserve(1000);
        self.weights.reserve(1000);
        self.index.freeze();
        self.derived.freeze();
        self.walked = 0;
        self.rows.freeze();
        self.endless.freeze();
        self.empty.freeze();
        self.classes.freeze();
        self.chars.freeze();
        self.lists.freeze();
    }

    /// How many moves were computed since it was frozen: the cost of walks over automata.
    pub fn walked(&self) -> usize {
        self.walked
    }

    /// Whether so many moves were computed that no more automata are walked.
    pub fn tired(&self) -> bool {
        self.walked >= MAX_WALKED || self.full()
    }

    /// One byte of a set.
    pub fn bytes(&mut self, s: Set) -> Re {
        if s == [0; 4] {
            return NEVER;
        }
        self.make(Node::Bytes(s))
    }

    /// One byte.
    pub fn byte(&mut self, b: u8) -> Re {
        self.make(Node::Bytes(range(b, b)))
    }

    /// These bytes in this order.
    pub fn literal(&mut self, text: &[u8]) -> Re {
        text.iter().rev().fold(EMPTY, |tail, &b| {
            let head = self.byte(b);
            self.cat(head, tail)
        })
    }

    /// `a`, then `b`.
    pub fn cat(&mut self, a: Re, b: Re) -> Re {
        if a == NEVER || b == NEVER {
            return NEVER;
        }
        if a == EMPTY {
            return b;
        }
        if b == EMPTY {
            return a;
        }
        let (mut heads, mut last) = (Vec::new(), a);
        while let Node::Cat(x, y) = *self.node(last) {
            heads.push(x);
            last = y;
        }
        let mut r = self.make(Node::Cat(last, b));
        for &h in heads.iter().rev() {
            r = self.make(Node::Cat(h, r));
        }
        r
    }

    /// All of these in this order.
    pub fn seq(&mut self, parts: &[Re]) -> Re {
        parts.iter().rev().fold(EMPTY, |tail, &p| self.cat(p, tail))
    }

    /// Either of two.
    pub fn or2(&mut self, a: Re, b: Re) -> Re {
        self.or(vec![a, b])
    }

    /// Any of these.
    pub fn or(&mut self, parts: Vec<Re>) -> Re {
        let (mut flat, mut alone) = (Vec::new(), [0u64; 4]);
        // Alternatives that differ in their first byte only become one.
        let mut tails: Vec<(Re, Set)> = Vec::new();
        let mut work = parts;
        while let Some(r) = work.pop() {
            match self.node(r) {
                Node::Never => {}
                Node::Or(v) => work.extend(v),
                Node::Bytes(s) => alone = zip(&alone, s, |x, y| x | y),
                Node::Cat(a, b) => match self.node(*a) {
                    Node::Bytes(s) => tails.push((*b, *s)),
                    _ => flat.push(r),
                },
                _ if r == ALL => return ALL,
                _ => flat.push(r),
            }
        }
        if alone != [0; 4] {
            flat.push(self.bytes(alone));
        }
        tails.sort_unstable();
        let mut i = 0;
        while i < tails.len() {
            let (tail, mut s) = tails[i];
            i += 1;
            while i < tails.len() && tails[i].0 == tail {
                s = zip(&s, &tails[i].1, |x, y| x | y);
                i += 1;
            }
            let head = self.bytes(s);
            flat.push(self.cat(head, tail));
        }
        flat.sort_unstable();
        flat.dedup();
        if self.has_complement(&flat) {
            return ALL;
        }
        match flat.len() {
            0 => NEVER,
            1 => flat[0],
            _ => self.make(Node::Or(flat)),
        }
    }

    fn has_complement(&self, sorted: &[Re]) -> bool {
        sorted.iter().any(|&r| matches!(self.node(r), Node::Not(x) if sorted.binary_search(x).is_ok()))
    }

    // Whether something outside of an intersection is asked for beside all its members.
    fn outside_itself(&self, sorted: &[Re]) -> bool {
        sorted.iter().any(|&r| match *self.node(r) {
            Node::Not(x) => match self.node(x) {
                Node::And(v) => v.iter().all(|m| sorted.binary_search(m).is_ok()),
                _ => false,
            },
            _ => false,
        })
    }

    // In an intersection with a, what is not both a and b is what is not b: the same members with
    // less to derive. None: nothing is said twice.
    fn without_repeats(&mut self, sorted: &[Re]) -> Option<Vec<Re>> {
        let mut out: Option<Vec<Re>> = None;
        for (i, &r) in sorted.iter().enumerate() {
            let inner = match *self.node(r) {
                Node::Not(x) => match self.node(x) {
                    Node::And(v) if v.iter().any(|m| sorted.binary_search(m).is_ok()) => v,
                    _ => continue,
                },
                _ => continue,
            };
            let rest = inner.iter().copied().filter(|m| sorted.binary_search(m).is_err()).collect();
            let rest = self.and(rest);
            let rest = self.not(rest);
            out.get_or_insert_with(|| sorted.to_vec())[i] = rest;
        }
        out
    }

    // In an intersection with a, what is a or b is no condition; in one with what is not a, it is
    // b, and a itself is impossible. None: there is nothing to leave out.
    fn without_excluded(&mut self, sorted: &[Re]) -> Option<Vec<Re>> {
        let mut excluded = Vec::new();
        for &r in sorted {
            if let Node::Not(x) = *self.node(r) {
                match self.node(x) {
                    Node::Or(v) => excluded.extend(v),
                    _ => excluded.push(x),
                }
            }
        }
        if sorted.iter().any(|r| excluded.contains(r)) {
            return Some(vec![NEVER]);
        }
        let mut out: Option<Vec<Re>> = None;
        for (i, &r) in sorted.iter().enumerate() {
            let rest = match self.node(r) {
                Node::Or(v) if v.iter().any(|m| sorted.binary_search(m).is_ok()) => ALL,
                Node::Or(v) if v.iter().any(|m| excluded.contains(m)) => {
                    let rest = v.iter().copied().filter(|m| !excluded.contains(m)).collect();
                    self.or(rest)
                }
                // Said already by the complement of a union.
                Node::Not(x) if excluded.iter().filter(|m| *m == x).count() > 1 => ALL,
                _ => continue,
            };
            out.get_or_insert_with(|| sorted.to_vec())[i] = rest;
        }
        out
    }

    /// Both of two.
    pub fn and2(&mut self, a: Re, b: Re) -> Re {
        self.and(vec![a, b])
    }

    /// All of these at once.
    pub fn and(&mut self, parts: Vec<Re>) -> Re {
        let (mut flat, mut set) = (Vec::new(), None::<Set>);
        let mut work = parts;
        while let Some(r) = work.pop() {
            match self.node(r) {
                Node::Never => return NEVER,
                Node::And(v) => work.extend(v),
                Node::Bytes(s) => set = Some(set.map_or(*s, |t| zip(&t, s, |x, y| x & y))),
                _ if r == ALL => {}
                _ => flat.push(r),
            }
        }
        if let Some(s) = set {
            flat.push(self.bytes(s));
        }
        flat.sort_unstable();
        flat.dedup();
        if flat.first() == Some(&NEVER) || self.has_complement(&flat) || self.outside_itself(&flat) {
            return NEVER;
        }
        if let Some(parts) = self.without_repeats(&flat).or_else(|| self.without_excluded(&flat)) {
            return self.and(parts);
        }
        if flat.first() == Some(&EMPTY) {
            return if flat.iter().all(|&r| self.nullable(r)) { EMPTY } else { NEVER };
        }
        match flat.len() {
            0 => ALL,
            1 => flat[0],
            _ => self.make(Node::And(flat)),
        }
    }

    /// The complement of `r`.
    pub fn not(&mut self, r: Re) -> Re {
        match *self.node(r) {
            Node::Not(x) => x,
            _ => self.make(Node::Not(r)),
        }
    }

    /// `a` without `b`.
    pub fn minus(&mut self, a: Re, b: Re) -> Re {
        let n = self.not(b);
        self.and2(a, n)
    }

    /// `r` at least `min` and at most `max` times.
    pub fn rep(&mut self, r: Re, min: u32, max: u32) -> Re {
        let min = if self.nullable(r) { 0 } else { min };
        match *self.node(r) {
            _ if max == 0 || min > max => return if max == 0 && min == 0 { EMPTY } else { NEVER },
            Node::Never => return if min == 0 { EMPTY } else { NEVER },
            Node::Empty => return EMPTY,
            Node::Rep(_, 0, MANY) => return r,
            _ if (min, max) == (1, 1) => return r,
            _ => {}
        }
        self.make(Node::Rep(r, min, max))
    }

    /// `r` or nothing.
    pub fn opt(&mut self, r: Re) -> Re {
        self.or2(EMPTY, r)
    }

    /// Decimal texts whose value is divisible; to be intersected with what a
    /// number looks like.
    pub fn divisible(&mut self, d: Divisor) -> Re {
        let i = match self.divisors.iter().position(|x| *x == d) {
            Some(i) => i,
            None => {
                self.divisors.push(d);
                self.divisors.len() - 1
            }
        };
        self.make(Node::Mod(i as u32, 0))
    }

    /// The divisor of an expression; None: it is not only about divisibility.
    pub fn divisor(&self, r: Re) -> Option<Divisor> {
        match *self.node(r) {
            Node::Mod(d, 0) => Some(self.divisors[d as usize]),
            _ => None,
        }
    }

    /// One of these words.
    pub fn words<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Re {
        let mut sorted: Vec<Vec<u8>> = words.iter().map(|w| w.as_ref().to_vec()).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let n = sorted.len() as u32;
        let list = Rc::new(sorted);
        let r = match &list[..] {
            [] => return NEVER,
            [word] => self.literal(word),
            _ => {
                let next = self.word_lists.len() as u32;
                let id = *self.word_index.entry(list.clone()).or_insert(next);
                if id == next {
                    self.word_lists.push(list.clone());
                }
                self.make(Node::Words(id, 0, n, 0))
            }
        };
        self.lists.insert(r, list);
        r
    }

    /// The words of a part of a list, behind their common beginning.
    pub fn part(&self, (list, lo, hi, depth): (u32, u32, u32, u32)) -> impl Iterator<Item = &[u8]> {
        let words = &self.word_lists[list as usize][lo as usize..hi as usize];
        words.iter().map(move |w| &w[depth as usize..])
    }
}
