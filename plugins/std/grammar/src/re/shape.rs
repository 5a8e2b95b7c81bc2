//! Properties of an expression's texts that follow from its shape.

use super::{Node, Pool, Re, MANY};

// Properties that follow from the shape. Except for the first, an unset flag means unknown.
pub(super) const NULLABLE: u8 = 1;
// There is a text; there is one that is not empty.
pub(super) const SOME: u8 = 2;
pub(super) const LONG: u8 = 4;
// There are finitely, infinitely many texts.
pub(super) const FEW: u8 = 8;
pub(super) const MORE: u8 = 16;

impl Pool {
    pub(super) fn shown(&self, n: &Node) -> u8 {
        let of = |r: Re| self.shows[r as usize];
        let (all, any) =
            (|v: &[Re], f: u8| v.iter().all(|&x| of(x) & f != 0), |v: &[Re], f: u8| v.iter().any(|&x| of(x) & f != 0));
        let flag = |f: u8, yes: bool| if yes { f } else { 0 };
        let shows = match n {
            Node::Never => FEW,
            Node::Bytes(_) => SOME | LONG | FEW,
            Node::Empty => NULLABLE | FEW,
            Node::Cat(a, b) => {
                let (a, b) = (of(*a), of(*b));
                let some = a & b & SOME;
                let either = if some != 0 { (a | b) & (LONG | MORE) } else { 0 };
                (a & b & (NULLABLE | FEW)) | some | either
            }
            Node::Or(v) => {
                let either = v.iter().fold(0, |s, &x| s | of(x));
                (either & !FEW) | flag(FEW, all(v, FEW))
            }
            Node::And(v) => {
                // Finitely many texts taken away from infinitely many leave some.
                let mut rest = v.iter().filter(|&&x| !matches!(self.node(x), Node::Not(y) if of(*y) & FEW != 0));
                let more = match (rest.next(), rest.next()) {
                    (Some(&x), None) => of(x) & MORE,
                    (None, _) => MORE,
                    _ => 0,
                };
                flag(NULLABLE, all(v, NULLABLE)) | flag(FEW, any(v, FEW)) | more
            }
            Node::Not(a) => flag(NULLABLE, of(*a) & NULLABLE == 0) | flag(MORE, of(*a) & FEW != 0),
            Node::Rep(a, min, max) => {
                let a = of(*a);
                let null = flag(NULLABLE, *min == 0) | (a & NULLABLE);
                null | (a & (SOME | LONG))
                    | flag(FEW, a & FEW != 0 && *max < MANY)
                    | flag(MORE, a & LONG != 0 && *max == MANY)
                    | (a & MORE)
            }
            Node::Mod(d, s) => flag(NULLABLE, self.divisors[*d as usize].accepts(*s)),
            Node::Words(l, lo, _, depth) => {
                let ends = self.word_lists[*l as usize][*lo as usize].len() == *depth as usize;
                // Of two different words one is not empty.
                SOME | LONG | FEW | flag(NULLABLE, ends)
            }
        };
        let shows = shows | flag(LONG, shows & MORE != 0);
        shows | flag(SOME, shows & (NULLABLE | LONG) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::re::{ALL, NEVER};
    use std::collections::BTreeSet;

    // The lengths up to 30 that texts over "ab" have, by taking derivatives only.
    fn lengths(p: &mut Pool, r: Re) -> Vec<usize> {
        let (mut states, mut out) = (BTreeSet::from([r]), Vec::new());
        for n in 0..=30 {
            if states.iter().any(|&s| p.nullable(s)) {
                out.push(n);
            }
            states =
                states.iter().flat_map(|&s| [p.derive(s, b'a'), p.derive(s, b'b')]).filter(|&s| s != NEVER).collect();
        }
        out
    }

    #[test]
    fn what_shapes_show_is_so() {
        let mut p = Pool::new();
        let alphabet = p.bytes(crate::re::range(b'a', b'b'));
        let every = p.rep(alphabet, 0, MANY);
        let mut made = vec![p.byte(b'a'), p.byte(b'b'), p.words(&["ab", "a"]), p.words(&["", "bb"]), every, alphabet];
        let mut state = 20_26u32;
        let mut next = |n: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % n
        };
        let mut counts = [0; 5];
        for _ in 0..1500 {
            let (x, y) = (made[next(made.len())], made[next(made.len())]);
            let r = match next(6) {
                0 => p.cat(x, y),
                1 => p.or2(x, y),
                2 => p.and2(x, y),
                3 => p.minus(x, y),
                4 => p.rep(x, next(3) as u32, [2, 3, MANY][next(3)]),
                _ => p.minus(every, x),
            };
            let found = lengths(&mut p, r);
            let shows = p.shows[r as usize];
            let longest = found.last().copied().unwrap_or(0);
            for (i, (flag, right)) in [
                (NULLABLE, found.first() == Some(&0)),
                (SOME, !found.is_empty()),
                (LONG, longest > 0),
                (FEW, longest < 29),
                (MORE, longest > 12),
            ]
            .into_iter()
            .enumerate()
            {
                assert!(shows & flag == 0 || right, "{:?} shows {}, lengths {:?}", p.node(r), flag, found);
                counts[i] += (shows & flag != 0) as usize;
            }
            assert_eq!(shows & NULLABLE != 0, found.first() == Some(&0));
            for text in [&b""[..], b"a", b"ab", b"bba", b"aabb"] {
                let known = p.matches(r, text);
                assert_eq!(p.holds(r, text, ALL), known);
            }
            if longest < 10 {
                made.push(r);
            }
        }
        assert!(counts.iter().all(|&n| n > 100), "{:?}", counts);
    }
}
