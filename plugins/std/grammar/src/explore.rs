//! Properties of regular expressions that need a walk over their automaton: emptiness, the words of
//! a finite language, the automaton itself.

use crate::hash::{Map, Seen};
use crate::re::{Node, Pool, Re, Row};
use std::collections::VecDeque;

/// Maximum number of states that a walk visits before it gives up.
pub const MAX_STATES: usize = 20_000;

/// Maximum number of words listed of a finite language.
pub const MAX_WORDS: usize = 64;

/// A deterministic automaton. State 0 is the first.
pub struct Dfa {
    /// Per state: byte ranges and their target states, without dead ones.
    pub moves: Vec<Vec<(u8, u8, u32)>>,
    /// Per state: whether a text may end there.
    pub accepts: Vec<bool>,
}

impl Pool {
    /// Whether the language is empty. None: too many states to decide.
    pub fn is_empty(&mut self, r: Re) -> Option<bool> {
        if self.has_text(r) {
            return Some(false);
        }
        if let Some(&e) = self.empty.get(&r) {
            return Some(e);
        }
        if let Node::Cat(..) = self.node(r) {
            // Its parts are more often cached than the whole.
            let (mut rest, mut empty) = (r, false);
            while let Node::Cat(a, b) = *self.node(rest) {
                empty = empty || self.is_empty(a)?;
                rest = b;
            }
            empty = empty || self.is_empty(rest)?;
            self.empty.insert(r, empty);
            return Some(empty);
        }
        if let Some(answer) = self.word_left(r) {
            self.empty.insert(r, !answer);
            return Some(!answer);
        }
        let mut seen = Seen::default();
        let mut work = VecDeque::from([r]);
        seen.insert(r);
        // Depth first finds long texts, breadth first finds short ones despite misleading counters:
        // alternating is about as fast as the better of the two.
        let mut first = false;
        while let Some(s) = if first { work.pop_front() } else { work.pop_back() } {
            first = !first;
            if self.has_text(s) || self.empty.get(&s) == Some(&false) {
                self.empty.insert(r, false);
                return Some(false);
            }
            if self.empty.get(&s) == Some(&true) {
                continue;
            }
            if seen.len() > MAX_STATES || self.tired() {
                return None;
            }
            if self.nothing_to_divide(s) {
                continue;
            }
            for &(_, _, d) in self.moves(s).iter() {
                if seen.insert(d) {
                    work.push_back(d);
                }
            }
        }
        // No visited state accepts.
        for s in seen {
            self.empty.insert(s, true);
        }
        Some(true)
    }

    // Whether a word of a list is in all other members of an intersection. Words are tried one by
    // one: walks would look at what may follow each of their letters. None: r is no such
    // intersection.
    fn word_left(&mut self, r: Re) -> Option<bool> {
        let members = match self.node(r) {
            Node::And(v) => v.clone(),
            _ => return None,
        };
        let (list, part) = members.iter().find_map(|&x| match *self.node(x) {
            Node::Words(l, lo, hi, depth) => Some((x, (l, lo, hi, depth))),
            _ => None,
        })?;
        if self.tired() {
            return None;
        }
        let words: Vec<Vec<u8>> = self.part(part).map(<[u8]>::to_vec).collect();
        for word in words {
            if self.tired() {
                return None;
            }
            if members.iter().all(|&x| x == list || self.holds(x, &word, list)) {
                return Some(true);
            }
        }
        Some(false)
    }

    // Whether an intersection has no text whatever is divisible: bounds alone have few states, with
    // remainders they have many.
    fn nothing_to_divide(&mut self, r: Re) -> bool {
        let members = match self.node(r) {
            Node::And(v) => v,
            _ => return false,
        };
        let divides = |x: Re| match *self.node(x) {
            Node::Mod(..) => true,
            Node::Not(y) => matches!(self.node(y), Node::Mod(..)),
            _ => false,
        };
        let rest: Vec<Re> = members.iter().copied().filter(|&x| !divides(x)).collect();
        if rest.len() == members.len() || rest.is_empty() {
            return false;
        }
        let rest = self.and(rest);
        self.is_empty(rest) == Some(true)
    }

    /// Whether two languages have no text in common. None: too many states.
    pub fn disjoint(&mut self, a: Re, b: Re) -> Option<bool> {
        let both = self.and2(a, b);
        self.is_empty(both)
    }

    /// The automaton of a language without useless states, or None beyond
    /// `limit` states. An empty language has one state and no moves.
    pub fn dfa(&mut self, r: Re, limit: usize) -> Option<Dfa> {
        let mut ids: Map<Re, u32> = Map::default();
        let mut order = vec![r];
        ids.insert(r, 0);
        let (mut moves, mut accepts) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < order.len() {
            let s = order[at];
            at += 1;
            accepts.push(self.nullable(s));
            let mut row = Vec::new();
            for &(lo, hi, d) in self.moves(s).iter() {
                if self.is_empty(d)? {
                    continue;
                }
                let next = order.len() as u32;
                let id = *ids.entry(d).or_insert(next);
                if id == next {
                    order.push(d);
                }
                row.push((lo, hi, id));
            }
            moves.push(row);
            if order.len() > limit || self.tired() {
                return None;
            }
        }
        Some(minimal(moves, accepts))
    }

    // Whether the automaton comes back to a state from which a text can still end,
    // or is too large to say. Goes depth first, so that a loop is soon found.
    pub(crate) fn cycles(&mut self, r: Re, limit: usize) -> bool {
        // States on the way to the current one are open, others closed.
        let mut open: Map<Re, bool> = Map::default();
        let row = self.moves(r);
        // States on the way, and how many of their moves are still to be looked at.
        let mut stack = vec![(r, row.len(), row)];
        open.insert(r, true);
        while let Some((s, left, row)) = stack.last_mut() {
            if *left == 0 {
                open.insert(*s, false);
                stack.pop();
                continue;
            }
            *left -= 1;
            let d = row[*left].2;
            match open.get(&d) {
                Some(false) => {}
                Some(true) if self.is_empty(d) != Some(true) => return true,
                Some(true) => {}
                None => {
                    if open.len() > limit {
                        return true;
                    }
                    open.insert(d, true);
                    let row = self.moves(d);
                    stack.push((d, row.len(), row));
                }
            }
        }
        false
    }

    /// All words of a finite language, in order of their bytes; None where there
    /// are more than `limit`, or states without end.
    pub fn finite(&mut self, r: Re, limit: usize) -> Option<Vec<Vec<u8>>> {
        if self.has_many(r) {
            return None;
        }
        let endless = match self.endless.get(&r) {
            Some(&e) => e,
            None => {
                let e = self.many_short(r) || self.cycles(r, 600);
                self.endless.insert(r, e);
                e
            }
        };
        if endless {
            return None;
        }
        let (mut out, mut level) = (Vec::new(), vec![(r, Vec::new())]);
        while !level.is_empty() {
            let mut next = Vec::new();
            for (s, word) in level {
                for &(lo, hi, d) in self.moves(s).iter() {
                    if self.is_empty(d)? {
                        continue;
                    }
                    // Each of these begins a different word.
                    if next.len() + out.len() + (hi - lo) as usize > limit {
                        return None;
                    }
                    next.extend((lo..=hi).map(|b| (d, [word.as_slice(), &[b]].concat())));
                }
                if self.nullable(s) {
                    out.push(word);
                }
            }
            level = next;
            if self.tired() {
                return None;
            }
        }
        if out.len() > limit {
            return None;
        }
        out.sort();
        Some(out)
    }

    // Whether more words than anyone asks for begin with the same few bytes.
    fn many_short(&mut self, r: Re) -> bool {
        let mut level: Map<Re, usize> = Map::default();
        level.insert(r, 1);
        for _ in 0..8 {
            let mut next: Map<Re, usize> = Map::default();
            for (s, n) in level {
                for &(lo, hi, d) in self.moves(s).iter() {
                    *next.entry(d).or_insert(0) += n * (hi - lo + 1) as usize;
                }
            }
            // All that lead to a live state begin a word.
            level = next;
            if level.iter().map(|(&s, &n)| if self.has_text(s) { n } else { 0 }).sum::<usize>() > MAX_WORDS {
                return true;
            }
            if level.len() > 64 {
                return false;
            }
        }
        false
    }
}

// Merges equivalent states (Moore 1956): classes are split until all members of a class move to the
// same classes.
fn minimal(moves: Vec<Vec<(u8, u8, u32)>>, accepts: Vec<bool>) -> Dfa {
    let mut class: Vec<u32> = accepts.iter().map(|&a| a as u32).collect();
    let mut count = 0;
    loop {
        let mut ids: Map<(u32, Row), u32> = Map::default();
        let mut next = Vec::with_capacity(class.len());
        for (s, row) in moves.iter().enumerate() {
            let n = ids.len() as u32;
            next.push(*ids.entry((class[s], joined(row, &class))).or_insert(n));
        }
        class = next;
        if ids.len() == count {
            break;
        }
        count = ids.len();
    }
    // State 0 was visited first and so has class 0.
    let (mut m, mut a) = (vec![Vec::new(); count], vec![false; count]);
    for (s, &c) in class.iter().enumerate() {
        m[c as usize] = joined(&moves[s], &class);
        a[c as usize] = accepts[s];
    }
    Dfa { moves: m, accepts: a }
}

fn joined(row: &[(u8, u8, u32)], class: &[u32]) -> Vec<(u8, u8, u32)> {
    let mut out: Vec<(u8, u8, u32)> = Vec::new();
    for &(lo, hi, t) in row {
        let c = class[t as usize];
        match out.last_mut() {
            Some((_, h, d)) if *d == c && *h as u16 + 1 == lo as u16 => *h = hi,
            _ => out.push((lo, hi, c)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::re::{range, Divisor, ALL, EMPTY, MANY, NEVER};

    #[test]
    fn words_and_emptiness() {
        let mut p = Pool::new();
        let w = p.words(&["ab", "abc", "", "b", "zebra"]);
        assert_eq!(p.finite(w, 10).unwrap(), vec![&b""[..], b"ab", b"abc", b"b", b"zebra"]);
        assert_eq!(p.finite(w, 4), None);
        let letters = p.bytes(range(b'a', b'z'));
        let three = p.rep(letters, 3, MANY);
        let both = p.and2(w, three);
        assert_eq!(p.finite(both, 10).unwrap(), vec![&b"abc"[..], b"zebra"]);
        assert_eq!(p.finite(three, 10), None);
        let long = p.rep(letters, 6, MANY);
        assert_eq!(p.disjoint(w, long), Some(true));
        assert_eq!(p.disjoint(w, three), Some(false));
        let back = p.minus(three, three);
        assert_eq!(back, NEVER);
        assert_eq!(p.minus(w, ALL), NEVER);
    }

    #[test]
    fn divisibility() {
        let mut p = Pool::new();
        let digits = p.bytes(range(b'0', b'9'));
        let number = {
            let (whole, dot) = (p.rep(digits, 1, MANY), p.byte(b'.'));
            let frac = p.seq(&[dot, whole]);
            let frac = p.opt(frac);
            p.cat(whole, frac)
        };
        let d = p.divisible(Divisor { modulus: 75, shift: 4 });
        let r = p.and2(number, d);
        for (text, want) in [
            ("0.0075", true),
            ("0.007", false),
            ("3", true),
            ("0.00751", false),
            ("0.015000", true),
            ("0.", false),
            ("1.5", true),
            ("12.34", false),
        ] {
            assert_eq!(p.matches(r, text.as_bytes()), want, "{}", text);
        }
        let seven = p.divisible(Divisor { modulus: 7, shift: 0 });
        let whole = p.rep(digits, 1, MANY);
        let r = p.and2(whole, seven);
        // Seven remainders, the first of which is not yet a number.
        assert_eq!(p.dfa(r, 100).unwrap().moves.len(), 8);
    }

    #[test]
    fn derivatives_agree_with_reading() {
        let mut p = Pool::new();
        let (a, b) = (p.byte(b'a'), p.byte(b'b'));
        let ab = p.or2(a, b);
        let any = p.rep(ab, 0, MANY);
        let tail = p.rep(ab, 2, 2);
        // (a|b)*a(a|b){2} without aaa at the end.
        let r = p.seq(&[any, a, tail]);
        let aaa = p.literal(b"aaa");
        let bad = p.cat(any, aaa);
        let r = p.minus(r, bad);
        for n in 0..256u32 {
            let text: Vec<u8> = (0..8).map(|i| if n >> i & 1 == 1 { b'a' } else { b'b' }).collect();
            let want = text[5] == b'a' && &text[5..] != b"aaa";
            assert_eq!(p.matches(r, &text), want);
        }
        assert_eq!(p.opt(EMPTY), EMPTY);
    }
}
