//! Transitions: the row of an expression is composed of those of its parts, so that bytes with the
//! same target are derived once.

use super::{next, Node, Pool, Re, Set, ALL, EMPTY, MANY, NEVER};
use std::rc::Rc;

/// Byte ranges, in order, and what remains after each; ranges that lead to nothing are left out.
pub type Row = Vec<(u8, u8, Re)>;

impl Pool {
    /// The row of an expression.
    pub fn moves(&mut self, r: Re) -> Rc<Row> {
        if let Some(row) = self.rows.get(&r) {
            return row.clone();
        }
        let row = Rc::new(self.fresh_moves(r));
        self.walked += row.len() + 1;
        self.rows.insert(r, row.clone());
        row
    }

    fn fresh_moves(&mut self, r: Re) -> Row {
        match *self.node(r) {
            Node::Never | Node::Empty => Row::new(),
            Node::Bytes(ref s) => ranges(s),
            Node::Words(list, lo, hi, depth) => self.word_moves((list, lo, hi, depth)),
            Node::Mod(..) => {
                let bytes = [b'-', b'.'].into_iter().chain(b'0'..=b'9');
                let row: Row = bytes.map(|b| (b, b, self.derive(r, b))).collect();
                joined(row)
            }
            Node::Rep(x, min, max) => {
                let rest = self.rep(x, min.saturating_sub(1), if max == MANY { MANY } else { max - 1 });
                self.followed(x, rest)
            }
            Node::Not(x) => self.other_moves(x),
            Node::Cat(..) => {
                let (mut rows, mut rest) = (Vec::new(), r);
                while let Node::Cat(x, y) = *self.node(rest) {
                    rows.push(Rc::new(self.followed(x, y)));
                    rest = y;
                    if !self.nullable(x) {
                        rest = NEVER;
                    }
                }
                rows.push(self.moves(rest));
                self.together(&rows, false)
            }
            Node::Or(ref v) => {
                let v = v.clone();
                let rows: Vec<_> = v.into_iter().map(|x| self.moves(x)).collect();
                self.together(&rows, false)
            }
            Node::And(ref v) => {
                let v = v.clone();
                let rows: Vec<_> = v.into_iter().map(|x| self.moves(x)).collect();
                self.together(&rows, true)
            }
        }
    }

    // The row of x with rest behind it.
    fn followed(&mut self, x: Re, rest: Re) -> Row {
        let row = self.moves(x);
        joined(row.iter().map(|&(lo, hi, d)| (lo, hi, self.cat(d, rest))).collect())
    }

    fn word_moves(&mut self, (list, mut lo, hi, depth): (u32, u32, u32, u32)) -> Row {
        let mut row = Row::new();
        while lo < hi {
            // A word that ends here comes first.
            let first = self.part((list, lo, hi, depth)).next().and_then(|w| w.first().copied());
            match first {
                None => lo += 1,
                Some(b) => {
                    let words = &self.word_lists[list as usize][lo as usize..hi as usize];
                    let n = words.partition_point(|w| w[depth as usize] <= b) as u32;
                    let d = self.derive_words((list, lo, lo + n, depth), b);
                    row.push((b, b, d));
                    lo += n;
                }
            }
        }
        joined(row)
    }

    // The row of what is not x.
    fn other_moves(&mut self, x: Re) -> Row {
        let (inner, mut row, mut at) = (self.moves(x), Row::new(), 0);
        for &(lo, hi, d) in inner.iter() {
            if at < lo as u32 {
                row.push((at as u8, lo - 1, ALL));
            }
            row.push((lo, hi, self.not(d)));
            at = hi as u32 + 1;
        }
        if at < 256 {
            row.push((at as u8, 255, ALL));
        }
        joined(row)
    }

    // The row of a union or, if all must continue, of an intersection.
    fn together(&mut self, rows: &[Rc<Row>], all: bool) -> Row {
        if let [row] = rows {
            return row.to_vec();
        }
        if all && rows.iter().any(|r| r.is_empty()) {
            return Row::new();
        }
        let mut cuts: Set = [0; 4];
        for &(lo, hi, _) in rows.iter().flat_map(|r| r.iter()) {
            for c in [Some(lo), hi.checked_add(1)].into_iter().flatten() {
                cuts[c as usize >> 6] |= 1 << (c & 63);
            }
        }
        let mut places = vec![0; rows.len()];
        let (mut out, mut parts, mut last, mut lo) = (Row::new(), Vec::new(), Vec::new(), next(&cuts, 0, true));
        while lo < 256 {
            let hi = next(&cuts, lo + 1, true) - 1;
            parts.clear();
            for (row, at) in rows.iter().zip(&mut places) {
                while row.get(*at).map_or(false, |m| (m.1 as u32) < lo) {
                    *at += 1;
                }
                match row.get(*at) {
                    Some(m) if m.0 as u32 <= lo => parts.push(m.2),
                    _ if all => break,
                    _ => {}
                }
            }
            if !all && !parts.is_empty() || parts.len() == rows.len() {
                let d = match out.last() {
                    Some(&(_, _, d)) if parts == last => d,
                    _ => {
                        self.walked += 1;
                        last.clone_from(&parts);
                        if all {
                            self.and(parts.clone())
                        } else {
                            self.or(parts.clone())
                        }
                    }
                };
                out.push((lo as u8, hi as u8, d));
            }
            lo = hi + 1;
        }
        joined(out)
    }
}

fn ranges(s: &Set) -> Row {
    let (mut row, mut lo) = (Row::new(), next(s, 0, true));
    while lo < 256 {
        let end = next(s, lo, false);
        row.push((lo as u8, (end - 1) as u8, EMPTY));
        lo = next(s, end, true);
    }
    row
}

// Merges neighbours with the same target and removes dead ones.
fn joined(mut row: Row) -> Row {
    row.retain(|m| m.2 != NEVER);
    row.dedup_by(|next, before| {
        let same = before.2 == next.2 && before.1 as u16 + 1 == next.0 as u16;
        if same {
            before.1 = next.1;
        }
        same
    });
    row
}
