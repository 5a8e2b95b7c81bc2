//! Decides whether a text belongs to a grammar, by the definition of each node.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::Result;

/// The stretches of the text that belong to a node, by beginning and end.
type Set = BTreeSet<(usize, usize)>;

/// Returns whether a text belongs to an encoded grammar, for tests of compilers: it follows the
/// definition of each node and is slow. A token counts as its text; a grammar that names tokens by
/// id is an error.
pub fn matches(form: &[u8], text: &str) -> Result<bool> {
    let mut r = Reader { form };
    if r.take(5)? != b"tgir\x01" {
        return Err("it does not begin with tgir and version 1".to_string());
    }
    let m = Matcher { text: text.as_bytes() };
    let mut regexes: Vec<Set> = Vec::new();
    for _ in 0..r.count()? {
        let set = m.regex(&mut r, &regexes)?;
        regexes.push(set);
    }
    let mut exprs = Vec::new();
    for _ in 0..r.count()? {
        exprs.push(r.expr()?);
    }
    let mut bodies = Vec::new();
    for _ in 0..r.count()? {
        r.text()?;
        bodies.push(r.number()? as usize);
    }
    let start = r.number()? as usize;
    if !r.form.is_empty() || start >= bodies.len() {
        return Err(format!("{} bytes follow, start is {} of {} rules", r.form.len(), start, bodies.len()));
    }
    let mut rules = alloc::vec![Set::new(); bodies.len()];
    loop {
        // Rules grow until none does.
        let mut all: Vec<Set> = Vec::new();
        for e in &exprs {
            let set = m.expr(e, &all, &regexes, &rules)?;
            all.push(set);
        }
        let grown = bodies.iter().map(|&b| all.get(b).cloned().ok_or_else(|| missing(b, all.len()))).collect::<Result<Vec<Set>>>()?;
        if grown == rules {
            return Ok(rules[start].contains(&(0, text.len())));
        }
        rules = grown;
    }
}

fn missing(i: usize, n: usize) -> String {
    format!("a node refers to node {} of {}", i, n)
}

/// An expression as it is written.
struct Node {
    kind: u8,
    refs: Vec<u32>,
    name: Vec<u8>,
    least: u32,
    most: u32,
}

struct Matcher<'a> {
    text: &'a [u8],
}

impl Matcher<'_> {
    /// The stretches of some length at each beginning; None for no stretch.
    fn at_each(&self, length: impl Fn(&[u8]) -> Option<usize>) -> Set {
        (0..=self.text.len()).filter_map(|from| length(&self.text[from..]).map(|n| (from, from + n))).collect()
    }

    fn literal(&self, text: &[u8]) -> Set {
        self.at_each(|rest| if rest.starts_with(text) { Some(text.len()) } else { None })
    }

    fn then(&self, a: &Set, b: &Set) -> Set {
        let behind = |&(from, mid): &(usize, usize)| b.range((mid, 0)..=(mid, self.text.len())).map(move |&(_, to)| (from, to));
        a.iter().flat_map(behind).collect()
    }

    fn chain<'s>(&self, list: impl IntoIterator<Item = &'s Set>) -> Set {
        list.into_iter().fold(self.literal(b""), |a, b| self.then(&a, b))
    }

    // After more repetitions than the text has bytes, one of them was empty, so more change
    // nothing.
    fn repeat(&self, x: &Set, least: u32, most: u32) -> Set {
        let (mut all, mut now, long) = (Set::new(), self.literal(b""), self.text.len() as u32 + 1);
        for n in 0.. {
            if n >= least || n > long {
                all.extend(&now);
            }
            if n == most || n > long {
                break;
            }
            now = self.then(&now, x);
        }
        all
    }

    fn regex(&self, r: &mut Reader, before: &[Set]) -> Result<Set> {
        let sets = |r: &mut Reader, n: u32| -> Result<Vec<&Set>> {
            let list = r.numbers(n)?;
            list.iter().map(|&i| before.get(i as usize).ok_or_else(|| missing(i as usize, before.len()))).collect()
        };
        Ok(match r.byte()? {
            0 => {
                let ranges = r.pairs()?;
                self.at_each(|rest| rest.first().filter(|&&b| within(&ranges, b as u32)).map(|_| 1))
            }
            1 => {
                let ranges = r.pairs()?;
                self.at_each(|rest| {
                    let whole = (1..=rest.len().min(4)).find_map(|n| core::str::from_utf8(&rest[..n]).ok());
                    let c = whole.and_then(|s| s.chars().next()).filter(|&c| within(&ranges, c as u32));
                    c.map(char::len_utf8)
                })
            }
            2 => self.literal(&r.text()?),
            3 => {
                let n = r.count()?;
                self.chain(sets(r, n)?)
            }
            4 => {
                let n = r.count()?;
                sets(r, n)?.into_iter().flatten().copied().collect()
            }
            5 => {
                let x = sets(r, 1)?;
                let (least, most) = r.bounds()?;
                self.repeat(x[0], least, most)
            }
            6 => {
                let n = r.count()?;
                let list = sets(r, n)?;
                let first = list.first().ok_or("and of nothing")?;
                first.iter().filter(|s| list.iter().all(|x| x.contains(s))).copied().collect()
            }
            7 => {
                let x = sets(r, 1)?[0];
                let n = self.text.len();
                (0..=n).flat_map(|from| (from..=n).map(move |to| (from, to))).filter(|s| !x.contains(s)).collect()
            }
            8 => {
                let mut all = Set::new();
                for _ in 0..r.count()? {
                    all.extend(self.literal(&r.text()?));
                }
                all
            }
            op => return Err(format!("regular expression of kind {}", op)),
        })
    }

    fn expr(&self, e: &Node, before: &[Set], regexes: &[Set], rules: &[Set]) -> Result<Set> {
        let from = match e.kind {
            0 => regexes,
            1 => rules,
            _ => before,
        };
        let mut list = Vec::new();
        for &i in &e.refs {
            list.push(from.get(i as usize).ok_or_else(|| missing(i as usize, from.len()))?);
        }
        Ok(match e.kind {
            2 => self.chain(list),
            4 => self.repeat(list[0], e.least, e.most),
            6 => self.literal(&e.name),
            _ => list.into_iter().flatten().copied().collect(),
        })
    }
}

fn within(ranges: &[(u32, u32)], v: u32) -> bool {
    ranges.iter().any(|&(lo, hi)| lo <= v && v <= hi)
}

/// Takes a form apart.
struct Reader<'a> {
    form: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.form.len() {
            return Err("it ends too early".to_string());
        }
        let (b, rest) = self.form.split_at(n);
        self.form = rest;
        Ok(b)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u32> {
        let mut v = 0u64;
        for shift in (0..35).step_by(7) {
            let b = self.byte()?;
            v |= ((b & 127) as u64) << shift;
            if b < 128 && v <= u32::MAX as u64 {
                return Ok(v as u32);
            }
        }
        Err("a number has no end, or is too large".to_string())
    }

    /// The number of members of a list, each of which has a byte at least.
    fn count(&mut self) -> Result<u32> {
        let n = self.number()?;
        if n as usize > self.form.len() {
            return Err(format!("{} members in {} bytes", n, self.form.len()));
        }
        Ok(n)
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let n = self.number()? as usize;
        Ok(self.take(n)?.to_vec())
    }

    fn numbers(&mut self, n: u32) -> Result<Vec<u32>> {
        (0..n).map(|_| self.number()).collect()
    }

    fn pairs(&mut self) -> Result<Vec<(u32, u32)>> {
        let n = self.count()?;
        (0..n).map(|_| Ok((self.number()?, self.number()?))).collect()
    }

    /// Undoes what the builder's bounds write.
    fn bounds(&mut self) -> Result<(u32, u32)> {
        Ok((self.number()?, self.number()?.wrapping_sub(1)))
    }

    fn expr(&mut self) -> Result<Node> {
        let mut e = Node { kind: self.byte()?, refs: Vec::new(), name: Vec::new(), least: 0, most: 0 };
        match e.kind {
            0 => {
                e.refs = self.numbers(1)?;
                self.text()?;
            }
            1 => e.refs = self.numbers(1)?,
            2 | 3 => {
                let n = self.count()?;
                e.refs = self.numbers(n)?;
            }
            4 => {
                e.refs = self.numbers(1)?;
                let bounds = self.bounds()?;
                e.least = bounds.0;
                e.most = bounds.1;
            }
            6 => e.name = self.text()?,
            kind => return Err(format!("expression of kind {}", kind)),
        }
        Ok(e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Builder, Expr, UNBOUNDED};

    fn check(make: impl FnOnce(&mut Builder) -> Expr, yes: &[&str], no: &[&str]) {
        let mut b = Builder::new();
        let e = make(&mut b);
        let start = b.rule("start", e);
        let form = b.encode(start).unwrap();
        for (want, list) in [(true, yes), (false, no)] {
            for text in list {
                assert_eq!(matches(&form, text), Ok(want), "{:?}", text);
            }
        }
        for n in 0..form.len() {
            assert!(matches(&form[..n], "a").is_err(), "{} bytes of {}", n, form.len());
        }
    }

    #[test]
    fn by_definition() {
        check(|b| { let r = b.bytes(&[(b'a', b'c')]); b.term("", r) }, &["a", "c"], &["", "d", "ab"]);
        check(|b| { let r = b.chars(&[('a', 'é')]); b.term("", r) }, &["a", "é"], &["ê", "éa"]);
        check(|b| { let r = b.texts(&["if", "iffy", ""]); b.term("", r) }, &["", "if", "iffy"], &["i", "iff"]);
        check(|b| { let r = b.union(&[]); b.term("", r) }, &[], &["", "a"]);
        check(|b| { let r = b.text("ab"); let r = b.repeat(r, 2, 3); b.term("", r) }, &["abab", "ababab"], &["", "ab", "abababab"]);
        let many = |b: &mut Builder| { let r = b.text("a"); let r = b.repeat(r, 0, 1); let r = b.repeat(r, 1 << 30, UNBOUNDED); b.term("", r) };
        check(many, &["", "a", "aaaa"], &["b"]);
        check(|b| { let r = b.text("a"); let r = b.repeat(r, 0, 0); b.term("", r) }, &[""], &["a"]);
        let but = |b: &mut Builder| {
            let (letter, words) = (b.bytes(&[(b'a', b'z')]), b.texts(&["if", "do"]));
            let (some, other) = (b.repeat(letter, 1, 3), b.not(words));
            let both = b.and(&[some, other]);
            b.term("", both)
        };
        check(but, &["a", "of", "iff"], &["", "if", "do", "abcd"]);
        let joined = |b: &mut Builder| { let (x, y, z) = (b.text("a"), b.text("ab"), b.text("c")); let u = b.union(&[x, y]); let r = b.concat(&[u, z]); b.term("", r) };
        check(joined, &["ac", "abc"], &["a", "c", "abbc"]);
        check(|b| { let (x, y) = (b.lit("a"), b.lit("b")); let y = b.opt(y); b.seq(&[x, y]) }, &["a", "ab"], &["", "b", "abb"]);
        check(|b| { let (x, y) = (b.token("<call>"), b.lit("x")); b.seq(&[x, y]) }, &["<call>x"], &["x"]);
        let sum = |b: &mut Builder| {
            let r = b.declare("r");
            let (one, plus, again) = (b.lit("1"), b.lit("+"), b.refer(r));
            let more = b.seq(&[again, plus, again]);
            let body = b.choice(&[one, more, again]);
            b.define(r, body);
            again
        };
        check(sum, &["1", "1+1", "1+1+1"], &["", "1+", "11"]);
    }

    #[test]
    fn faults() {
        let mut b = Builder::new();
        let ids = b.tokens(false, &[(1, 2)]);
        let start = b.rule("", ids);
        assert!(matches(&b.encode(start).unwrap(), "a").is_err());
        for form in ["tgir\x02\0\0\0\0", "tgir\x01\0\0\0\0", "tgir\x01\x01\x07\0\0\x01\0\0\0", "tgir\x01\x01\x09", "tgir\x01\0\x01\x02\0\x01\0\0\0x"] {
            assert!(matches(form.as_bytes(), "a").is_err(), "{:?}", form);
        }
    }
}
