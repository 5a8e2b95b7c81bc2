//! Reads the form that the compiler writes and says which texts belong to it:
//! straight from the definition, slow, and with nothing of the compiler in it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

enum Regex {
    Bytes(Vec<(u32, u32)>),
    Chars(Vec<(u32, u32)>),
    Concat(Vec<usize>),
    Union(Vec<usize>),
    Repeat(usize, usize, usize),
    And(Vec<usize>),
    Not(usize),
    Literals(Vec<Vec<u8>>),
}

enum Expr {
    Terminal(usize),
    Rule(usize),
    Seq(Vec<usize>),
    Choice(Vec<usize>),
    Times(usize, usize, usize),
    Unordered(Vec<usize>, Vec<u8>, usize, usize),
    Token(String),
    Ids(bool, Vec<(usize, usize)>),
}

/// A grammar.
pub struct Grammar {
    regexes: Vec<Regex>,
    exprs: Vec<Expr>,
    rules: Vec<usize>,
    start: usize,
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> u8 {
        let b = self.0[0];
        self.0 = &self.0[1..];
        b
    }

    fn number(&mut self) -> usize {
        let (mut v, mut shift) = (0u64, 0);
        loop {
            let b = self.byte();
            v |= ((b & 127) as u64) << shift;
            shift += 7;
            if b < 128 {
                assert!(v < 1 << 32);
                return v as usize;
            }
        }
    }

    fn text(&mut self) -> Vec<u8> {
        let n = self.number();
        let t = self.0[..n].to_vec();
        self.0 = &self.0[n..];
        t
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let n = self.number();
        (0..n).map(|_| read(self)).collect()
    }

    // Members of a node lie below it.
    fn below(&mut self, i: usize) -> usize {
        let n = self.number();
        assert!(n < i, "node {} refers to {}", i, n);
        n
    }

    fn max(&mut self) -> usize {
        self.number().wrapping_sub(1)
    }
}

impl Grammar {
    pub fn read(bytes: &[u8]) -> Grammar {
        assert!(&bytes[..4] == b"tgir" && (1..=2).contains(&bytes[4]));
        let mut r = Reader(&bytes[5..]);
        let n = r.number();
        let mut regexes = Vec::new();
        for i in 0..n {
            regexes.push(match r.byte() {
                0 => Regex::Bytes(r.list(|r| (r.number() as u32, r.number() as u32))),
                1 => Regex::Chars(r.list(|r| (r.number() as u32, r.number() as u32))),
                2 => Regex::Literals(vec![r.text()]),
                3 => Regex::Concat(r.list(|r| r.below(i))),
                4 => Regex::Union(r.list(|r| r.below(i))),
                5 => Regex::Repeat(r.below(i), r.number(), r.max()),
                6 => Regex::And(r.list(|r| r.below(i))),
                7 => Regex::Not(r.below(i)),
                8 => Regex::Literals(r.list(|r| r.text())),
                op => panic!("op {}", op),
            });
        }
        let n = r.number();
        let mut exprs = Vec::new();
        for i in 0..n {
            exprs.push(match r.byte() {
                0 => {
                    let t = r.number();
                    assert!(t < regexes.len());
                    r.text();
                    Expr::Terminal(t)
                }
                1 => Expr::Rule(r.number()),
                2 => Expr::Seq(r.list(|r| r.below(i))),
                3 => Expr::Choice(r.list(|r| r.below(i))),
                4 => Expr::Times(r.below(i), r.number(), r.max()),
                5 => Expr::Ids(r.byte() == 1, r.list(|r| (r.number(), r.number()))),
                6 => Expr::Token(String::from_utf8(r.text()).unwrap()),
                7 => {
                    assert_eq!(bytes[4], 2);
                    let parts = r.list(|r| r.below(i));
                    let marks = parts[1..].iter().map(|_| r.byte()).collect();
                    Expr::Unordered(parts, marks, r.number(), r.max())
                }
                kind => panic!("kind {}", kind),
            });
        }
        let rules: Vec<usize> = r.list(|r| {
            r.text();
            r.number()
        });
        let start = r.number();
        assert!(r.0.is_empty() && start < rules.len());
        for e in &exprs {
            assert!(!matches!(e, Expr::Rule(n) if *n >= rules.len()));
        }
        Grammar { regexes, exprs, rules, start }
    }

    /// How many nodes and rules it has.
    #[allow(dead_code)]
    pub fn size(&self) -> usize {
        self.regexes.len() + self.exprs.len() + self.rules.len()
    }

    /// Whether the text belongs to the grammar. A single token stands in it as the byte 255, its text or `#` and its
    /// id, and the byte 254: no other text is like that, as no text matches a special token.
    pub fn admits(&self, text: &[u8]) -> bool {
        let m = Matcher {
            g: self,
            text,
            re: RefCell::default(),
            rules: RefCell::default(),
            changed: RefCell::new(false),
            done: RefCell::default(),
        };
        loop {
            *m.changed.borrow_mut() = false;
            m.done.borrow_mut().clear();
            let ends = m.rule(self.start, 0);
            if ends.contains(&text.len()) {
                return true;
            }
            // Rules that refer to themselves at the same place see what was found
            // so far; until nothing new is found.
            if !*m.changed.borrow() {
                return false;
            }
        }
    }
}

type Ends = Vec<usize>;

struct Matcher<'a> {
    g: &'a Grammar,
    text: &'a [u8],
    re: RefCell<HashMap<(usize, usize), Ends>>,
    rules: RefCell<HashMap<(usize, usize), Ends>>,
    done: RefCell<HashMap<(usize, usize), bool>>,
    changed: RefCell<bool>,
}

fn join(mut v: Ends) -> Ends {
    v.sort_unstable();
    v.dedup();
    v
}

impl Matcher<'_> {
    fn each(&self, starts: &[usize], f: impl Fn(usize) -> Ends) -> Ends {
        join(starts.iter().flat_map(|&s| f(s)).collect())
    }

    fn repeat(&self, at: usize, min: usize, max: usize, f: impl Fn(usize) -> Ends) -> Ends {
        let (mut here, mut out, mut count) = (vec![at], Vec::new(), 0);
        loop {
            if count >= min {
                out.extend(&here);
            }
            if count == max || here.is_empty() {
                return join(out);
            }
            let next = self.each(&here, &f);
            // What matches the empty text repeats for ever.
            if next == here {
                out.extend(&here);
                return join(out);
            }
            let known = out.len();
            here = next;
            count += 1;
            if count > min && max == usize::MAX && here.iter().all(|e| out[..known].contains(e)) {
                return join(out);
            }
        }
    }

    fn regex(&self, i: usize, at: usize) -> Ends {
        if let Some(e) = self.re.borrow().get(&(i, at)) {
            return e.clone();
        }
        let rest = &self.text[at..];
        let e = match &self.g.regexes[i] {
            Regex::Bytes(r) => match rest.first() {
                Some(&b) if r.iter().any(|&(lo, hi)| (lo..=hi).contains(&(b as u32))) => vec![at + 1],
                _ => vec![],
            },
            Regex::Chars(r) => {
                let found = (1..=rest.len().min(4)).find_map(|n| std::str::from_utf8(&rest[..n]).ok());
                match found.and_then(|s| s.chars().next()) {
                    Some(c) if r.iter().any(|&(lo, hi)| (lo..=hi).contains(&(c as u32))) => vec![at + c.len_utf8()],
                    _ => vec![],
                }
            }
            Regex::Literals(words) => {
                join(words.iter().filter(|w| rest.starts_with(w)).map(|w| at + w.len()).collect())
            }
            Regex::Concat(v) => v.iter().fold(vec![at], |ends, &j| self.each(&ends, |s| self.regex(j, s))),
            Regex::Union(v) => join(v.iter().flat_map(|&j| self.regex(j, at)).collect()),
            Regex::Repeat(j, min, max) => self.repeat(at, *min, *max, |s| self.regex(*j, s)),
            Regex::And(v) => {
                let mut e = self.regex(v[0], at);
                for &j in &v[1..] {
                    let f = self.regex(j, at);
                    e.retain(|x| f.contains(x));
                }
                e
            }
            Regex::Not(j) => {
                let e = self.regex(*j, at);
                (at..=self.text.len()).filter(|x| !e.contains(x)).collect()
            }
        };
        self.re.borrow_mut().insert((i, at), e.clone());
        e
    }

    fn token(&self, at: usize) -> Option<&[u8]> {
        let rest = self.text[at..].strip_prefix(&[255])?;
        Some(&rest[..rest.iter().position(|&b| b == 254)?])
    }

    fn expr(&self, i: usize, at: usize) -> Ends {
        match &self.g.exprs[i] {
            Expr::Terminal(r) => self.regex(*r, at),
            Expr::Rule(r) => self.rule(*r, at),
            Expr::Seq(v) => v.iter().fold(vec![at], |ends, &j| self.each(&ends, |s| self.expr(j, s))),
            Expr::Choice(v) => join(v.iter().flat_map(|&j| self.expr(j, at)).collect()),
            Expr::Times(j, min, max) => self.repeat(at, *min, *max, |s| self.expr(*j, s)),
            Expr::Unordered(parts, marks, min, max) => self.unordered(at, parts, marks, *min, *max),
            Expr::Token(t) => match self.token(at) {
                Some(name) if name == t.as_bytes() => vec![at + name.len() + 2],
                _ => vec![],
            },
            Expr::Ids(except, ranges) => {
                let name = self.token(at).and_then(|n| std::str::from_utf8(n).ok());
                match name.and_then(|n| Some((n.len(), n.strip_prefix('#')?.parse::<usize>().ok()?))) {
                    Some((n, id)) if ranges.iter().any(|&(lo, hi)| (lo..=hi).contains(&id)) != *except => {
                        vec![at + n + 2]
                    }
                    _ => vec![],
                }
            }
        }
    }

    // Goes through which members came, how many, and where the text is then.
    fn unordered(&self, at: usize, parts: &[usize], marks: &[u8], min: usize, max: usize) -> Ends {
        let all = |seen: &[bool], mark: u8| (0..marks.len()).all(|i| marks[i] & mark == 0 || seen[i]);
        let (mut work, mut seen) = (vec![(vec![false; marks.len()], 0, at)], HashSet::new());
        let mut out = Vec::new();
        while let Some((came, count, here)) = work.pop() {
            if !seen.insert((came.clone(), count, here)) {
                continue;
            }
            if all(&came, 1) && came.iter().filter(|&&c| c).count() >= min {
                out.push(here);
            }
            if count == max {
                continue;
            }
            let starts = if count == 0 { vec![here] } else { self.expr(parts[0], here) };
            for i in (0..marks.len()).filter(|&i| !came[i] || marks[i] & 2 != 0) {
                for end in self.each(&starts, |s| self.expr(parts[i + 1], s)) {
                    let mut next = came.clone();
                    next[i] = true;
                    work.push((next, if max == usize::MAX { 1 } else { count + 1 }, end));
                }
            }
        }
        join(out)
    }

    fn rule(&self, r: usize, at: usize) -> Ends {
        let known = self.rules.borrow().get(&(r, at)).cloned().unwrap_or_default();
        if self.done.borrow_mut().insert((r, at), true).is_some() {
            return known;
        }
        let mut e = self.expr(self.g.rules[r], at);
        e.extend(&known);
        let e = join(e);
        if e != known {
            *self.changed.borrow_mut() = true;
            self.rules.borrow_mut().insert((r, at), e.clone());
        }
        e
    }
}
