//! Derivatives, and matching by derivatives.

use super::{has, Node, Pool, Re, EMPTY, MANY, NEVER};

impl Pool {
    pub(super) fn derive_words(&mut self, (list, lo, hi, depth): (u32, u32, u32, u32), b: u8) -> Re {
        let (words, at) = (&self.word_lists[list as usize][lo as usize..hi as usize], depth as usize);
        // A word that ends here comes first.
        let from = words.partition_point(|w| w.get(at).map_or(true, |&c| c < b)) as u32;
        let to = words.partition_point(|w| w.get(at).map_or(true, |&c| c <= b)) as u32;
        match to - from {
            0 => NEVER,
            1 if words[from as usize].len() == at + 1 => EMPTY,
            _ => self.make(Node::Words(list, lo + from, lo + to, depth + 1)),
        }
    }

    /// What remains of `r` after one byte.
    pub fn derive(&mut self, r: Re, b: u8) -> Re {
        match *self.node(r) {
            Node::Never | Node::Empty => return NEVER,
            Node::Bytes(ref s) => return if has(s, b) { EMPTY } else { NEVER },
            Node::Words(l, lo, hi, depth) => return self.derive_words((l, lo, hi, depth), b),
            _ => {}
        }
        if let Some(&d) = self.derived.get(&(r, b)) {
            return d;
        }
        let d = match *self.node(r) {
            Node::Cat(..) => {
                // Iterates along the chain instead of recursing: it may be as long as the pattern.
                let (mut parts, mut rest) = (Vec::new(), r);
                while let Node::Cat(x, y) = *self.node(rest) {
                    let dx = self.derive(x, b);
                    parts.push(self.cat(dx, y));
                    rest = y;
                    if !self.nullable(x) {
                        rest = NEVER;
                    }
                }
                parts.push(self.derive(rest, b));
                self.or(parts)
            }
            Node::Or(ref v) => {
                let mut parts = v.clone();
                for x in &mut parts {
                    *x = self.derive(*x, b);
                }
                self.or(parts)
            }
            Node::And(ref v) => {
                let mut parts = v.clone();
                for x in &mut parts {
                    *x = self.derive(*x, b);
                    if *x == NEVER {
                        break;
                    }
                }
                self.and(parts)
            }
            Node::Not(x) => {
                let dx = self.derive(x, b);
                self.not(dx)
            }
            Node::Rep(x, min, max) => {
                let dx = self.derive(x, b);
                let rest = self.rep(x, min.saturating_sub(1), if max == MANY { MANY } else { max - 1 });
                self.cat(dx, rest)
            }
            Node::Mod(d, s) => match self.divisors[d as usize].next(s, b) {
                Some(t) => self.make(Node::Mod(d, t)),
                None => NEVER,
            },
            // Answered above.
            Node::Never | Node::Empty | Node::Bytes(_) | Node::Words(..) => NEVER,
        };
        self.walked += 1;
        self.derived.insert((r, b), d);
        d
    }

    /// Whether `r` matches the whole text.
    pub fn matches(&mut self, r: Re, text: &[u8]) -> bool {
        let end = text.iter().fold(r, |r, &b| if r == NEVER { NEVER } else { self.derive(r, b) });
        self.nullable(end)
    }

    /// The same for a text that `sure` is known to match. Examines the parts of intersections and
    /// complements without building their derivatives.
    pub fn holds(&mut self, r: Re, text: &[u8], sure: Re) -> bool {
        if r == sure {
            return true;
        }
        match *self.node(r) {
            Node::And(ref v) => v.clone().into_iter().all(|x| self.holds(x, text, sure)),
            Node::Or(ref v) => v.clone().into_iter().any(|x| self.holds(x, text, sure)),
            Node::Not(x) => !self.holds(x, text, sure),
            Node::Words(list, lo, hi, 0) => self.word_lists[list as usize][lo as usize..hi as usize]
                .binary_search_by(|w| w.as_slice().cmp(text))
                .is_ok(),
            _ => self.matches(r, text),
        }
    }
}
