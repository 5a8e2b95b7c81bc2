//! Builds what a [`crate::Grammar`] returns: regular expressions over bytes, and context-free rules
//! over them, in version 1 of the encoding that `plugins/grammar/ir/README.md` describes. Lists of
//! numbers such as `[1,22]`:
//!
//! ```
//! use tgi_plugin::form::Builder;
//! let mut b = Builder::new();
//! let digit = b.bytes(&[(b'0', b'9')]);
//! let digits = b.repeat(digit, 1, 6);
//! let number = b.term("number", digits);
//! let (open, comma, close) = (b.lit("["), b.lit(","), b.lit("]"));
//! let next = b.seq(&[comma, number]);
//! let more = b.times(next, 0, 9);
//! let list = b.seq(&[open, number, more, close]);
//! let start = b.rule("start", list);
//! let form: Vec<u8> = b.encode(start)?;
//! # assert_eq!(form[..5], *b"tgir\x01");
//! # Ok::<(), String>(())
//! ```
//!
//! There is no scanner: a text belongs to the grammar if any split into pieces matches its rules.
//! White space is allowed only where the grammar has it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::Result;

mod matching;
pub use matching::matches;

/// As the upper bound of a repeat: none.
pub const UNBOUNDED: u32 = u32::MAX;
/// The most bytes of a name.
pub const MAX_NAME: usize = 256;
/// The most bytes of one text.
pub const MAX_TEXT: usize = 1 << 16;
/// The largest bound of a repeat other than [`UNBOUNDED`].
pub const MAX_COUNT: u32 = (1 << 31) - 1;

/// A set of byte strings, made by a [`Builder`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regex(u32);

/// A set of texts, made by a [`Builder`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expr(u32);

/// A named [`Expr`] that others may refer to before it is defined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule(u32);

/// Builds a grammar bottom-up. Equal nodes are written once. A builder's values are valid only with
/// it. The first mistake is kept, and [`Builder::encode`] returns it.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    regexes: Nodes,
    exprs: Nodes,
    rules: Vec<(String, Option<Expr>)>,
    mistake: Option<String>,
}

/// A flat list, encoded, with the index of each node by its bytes.
#[derive(Clone, Debug, Default)]
struct Nodes {
    bytes: Vec<u8>,
    index: BTreeMap<Vec<u8>, u32>,
}

impl Nodes {
    fn add(&mut self, node: Vec<u8>) -> u32 {
        if let Some(&i) = self.index.get(&node) {
            return i;
        }
        let i = self.index.len() as u32;
        self.bytes.extend_from_slice(&node);
        self.index.insert(node, i);
        i
    }
}

impl Builder {
    /// A grammar without rules.
    pub fn new() -> Builder {
        Builder::default()
    }

    fn fail(&mut self, text: String) {
        self.mistake.get_or_insert(text);
    }

    fn regex(&mut self, node: Vec<u8>) -> Regex {
        Regex(self.regexes.add(node))
    }

    fn expr(&mut self, node: Vec<u8>) -> Expr {
        Expr(self.exprs.add(node))
    }

    /// One byte of the ranges; none: nothing matches.
    pub fn bytes(&mut self, ranges: &[(u8, u8)]) -> Regex {
        let wide: Vec<_> = ranges.iter().map(|&(lo, hi)| (lo as u32, hi as u32)).collect();
        let node = self.ranges(Vec::from([0]), &wide);
        self.regex(node)
    }

    /// One character of the ranges; surrogates are left out.
    pub fn chars(&mut self, ranges: &[(char, char)]) -> Regex {
        let wide: Vec<_> = ranges.iter().map(|&(lo, hi)| (lo as u32, hi as u32)).collect();
        let node = self.ranges(Vec::from([1]), &wide);
        self.regex(node)
    }

    /// Any character.
    pub fn char(&mut self) -> Regex {
        self.chars(&[('\0', '\u{10FFFF}')])
    }

    /// A text itself; the empty one is allowed.
    pub fn text(&mut self, text: &str) -> Regex {
        let node = self.put(Vec::from([2]), text, MAX_TEXT);
        self.regex(node)
    }

    /// Any of the texts: an enumeration.
    pub fn texts(&mut self, texts: &[&str]) -> Regex {
        let mut node = Vec::from([8]);
        number(&mut node, texts.len() as u32);
        for t in texts {
            node = self.put(node, t, MAX_TEXT);
        }
        self.regex(node)
    }

    /// Regular expressions one after the other; none: the empty string.
    pub fn concat(&mut self, parts: &[Regex]) -> Regex {
        self.regex(list(3, parts.iter().map(|r| r.0)))
    }

    /// Any of the regular expressions; none: nothing matches.
    pub fn union(&mut self, parts: &[Regex]) -> Regex {
        self.regex(list(4, parts.iter().map(|r| r.0)))
    }

    /// A regular expression `least` to `most` times; `most` may be [`UNBOUNDED`].
    pub fn repeat(&mut self, r: Regex, least: u32, most: u32) -> Regex {
        let node = self.bounds(5, r.0, least, most);
        self.regex(node)
    }

    /// The intersection of at least one regular expression.
    pub fn and(&mut self, parts: &[Regex]) -> Regex {
        if parts.is_empty() {
            self.fail(String::from("and: want at least one regular expression"));
        }
        self.regex(list(6, parts.iter().map(|r| r.0)))
    }

    /// Every byte string that it does not match, UTF-8 or not: intersect it with the texts to keep.
    pub fn not(&mut self, r: Regex) -> Regex {
        let mut node = Vec::from([7]);
        number(&mut node, r.0);
        self.regex(node)
    }

    /// An expression of a regular expression; the name is for error texts and may
    /// be empty.
    pub fn term(&mut self, name: &str, r: Regex) -> Expr {
        let mut node = Vec::from([0]);
        number(&mut node, r.0);
        let node = self.put(node, name, MAX_NAME);
        self.expr(node)
    }

    /// A text itself.
    pub fn lit(&mut self, text: &str) -> Expr {
        let r = self.text(text);
        self.term("", r)
    }

    /// Expressions one after the other; none: the empty text.
    pub fn seq(&mut self, parts: &[Expr]) -> Expr {
        self.expr(list(2, parts.iter().map(|e| e.0)))
    }

    /// Any of the expressions; none: nothing matches.
    pub fn choice(&mut self, parts: &[Expr]) -> Expr {
        self.expr(list(3, parts.iter().map(|e| e.0)))
    }

    /// An expression `least` to `most` times; `most` may be [`UNBOUNDED`].
    pub fn times(&mut self, e: Expr, least: u32, most: u32) -> Expr {
        let node = self.bounds(4, e.0, least, most);
        self.expr(node)
    }

    /// An expression or nothing.
    pub fn opt(&mut self, e: Expr) -> Expr {
        self.times(e, 0, 1)
    }

    /// The token with this text, special or not, such as `<tool_call>`. Without it in the
    /// vocabulary the grammar is refused.
    pub fn token(&mut self, spelt: &str) -> Expr {
        let node = self.put(Vec::from([6]), spelt, MAX_NAME);
        self.expr(node)
    }

    /// One token of the ranges of ids; with `except` any token in none of them,
    /// special tokens and those that end a text left out.
    pub fn tokens(&mut self, except: bool, ranges: &[(u32, u32)]) -> Expr {
        let node = self.ranges(Vec::from([5, except as u8]), ranges);
        self.expr(node)
    }

    /// A rule whose body [`Builder::define`] sets later: rules may be recursive.
    pub fn declare(&mut self, name: &str) -> Rule {
        if name.len() > MAX_NAME {
            self.fail(format!("a name of {} bytes: want at most {}", name.len(), MAX_NAME));
        }
        self.rules.push((String::from(name), None));
        Rule(self.rules.len() as u32 - 1)
    }

    /// Sets the body of a declared rule, once.
    pub fn define(&mut self, r: Rule, body: Expr) {
        let (name, to) = &mut self.rules[r.0 as usize];
        if to.is_none() {
            *to = Some(body);
        } else {
            let text = format!("rule {:?} is defined twice", name);
            self.fail(text);
        }
    }

    /// [`Builder::declare`] and [`Builder::define`].
    pub fn rule(&mut self, name: &str, body: Expr) -> Rule {
        let r = self.declare(name);
        self.define(r, body);
        r
    }

    /// What the rule stands for.
    pub fn refer(&mut self, r: Rule) -> Expr {
        let mut node = Vec::from([1]);
        number(&mut node, r.0);
        self.expr(node)
    }

    /// The encoded grammar whose texts are those of the rule `start`. The error is the first
    /// mistake.
    pub fn encode(mut self, start: Rule) -> Result<Vec<u8>> {
        let mut out = Vec::from(*b"tgir\x01");
        for nodes in [&self.regexes, &self.exprs] {
            number(&mut out, nodes.index.len() as u32);
            out.extend_from_slice(&nodes.bytes);
        }
        let rules = core::mem::take(&mut self.rules);
        number(&mut out, rules.len() as u32);
        for (name, body) in &rules {
            out = self.put(out, name, MAX_NAME);
            match body {
                Some(e) => number(&mut out, e.0),
                None => self.fail(format!("rule {:?} is declared and not defined", name)),
            }
        }
        number(&mut out, start.0);
        match self.mistake {
            Some(text) => Err(text),
            None => Ok(out),
        }
    }

    fn put(&mut self, mut to: Vec<u8>, text: &str, most: usize) -> Vec<u8> {
        if text.len() > most {
            self.fail(format!("a text of {} bytes: want at most {}", text.len(), most));
        }
        number(&mut to, text.len() as u32);
        to.extend_from_slice(text.as_bytes());
        to
    }

    fn ranges(&mut self, mut to: Vec<u8>, ranges: &[(u32, u32)]) -> Vec<u8> {
        number(&mut to, ranges.len() as u32);
        for &(lo, hi) in ranges {
            if hi < lo {
                self.fail(format!("the range {} to {} falls", lo, hi));
            }
            number(&mut to, lo);
            number(&mut to, hi);
        }
        to
    }

    // The upper bound is written plus one, and 0 for none.
    fn bounds(&mut self, code: u8, index: u32, least: u32, most: u32) -> Vec<u8> {
        if least > MAX_COUNT || (most > MAX_COUNT && most != UNBOUNDED) || most < least {
            self.fail(format!("repeat {} to {} times: want bounds that do not fall, of at most {}", least, most, MAX_COUNT));
        }
        let mut to = Vec::from([code]);
        [index, least, most.wrapping_add(1)].iter().for_each(|&n| number(&mut to, n));
        to
    }
}

fn number(to: &mut Vec<u8>, mut n: u32) {
    while n > 127 {
        to.push(n as u8 | 128);
        n >>= 7;
    }
    to.push(n as u8);
}

fn list(code: u8, members: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let mut to = Vec::from([code]);
    number(&mut to, members.len() as u32);
    members.for_each(|m| number(&mut to, m));
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each node once, as the SDK in Go has it; the file is the host's own writing.
    #[test]
    fn everything() {
        let mut b = Builder::new();
        let start = b.declare("list");
        let letter = b.chars(&[('a', 'z'), ('à', 'ÿ')]);
        let (letters, words) = (b.repeat(letter, 1, 9), b.texts(&["if", ""]));
        let other = b.not(words);
        let word = b.and(&[letters, other]);
        let named = b.term("word", word);
        let (euro, hex, any) = (b.text("€"), b.bytes(&[(b'0', b'9'), (b'A', b'F')]), b.char());
        let pair = b.concat(&[hex, any]);
        let either = b.union(&[euro, pair]);
        let (unnamed, again) = (b.term("", either), b.refer(start));
        let item = b.choice(&[named, unnamed, again]);
        let (open, some, call) = (b.lit("("), b.times(item, 2, 300), b.token("<tool>"));
        let (maybe, ordinary) = (b.opt(call), b.tokens(true, &[(5, 70), (200, 200)]));
        let body = b.seq(&[open, some, maybe, ordinary, open]);
        b.define(start, body);
        let all = b.times(again, 0, UNBOUNDED);
        let whole = b.rule("", all);
        let hex: String = b.encode(whole).unwrap().iter().map(|b| format!("{:02x}", b)).collect();
        assert_eq!(hex, include_str!("../../testdata/forms/everything.hex").trim());
    }

    fn mistake(make: impl FnOnce(&mut Builder) -> Expr) -> String {
        let mut b = Builder::new();
        let e = make(&mut b);
        let start = b.rule("start", e);
        b.encode(start).unwrap_err()
    }

    #[test]
    fn mistakes() {
        let long = "x".repeat(MAX_NAME + 1);
        assert_eq!(mistake(|b| { let r = b.bytes(&[(b'z', b'a')]); b.term("", r) }), "the range 122 to 97 falls");
        assert_eq!(mistake(|b| { let r = b.and(&[]); b.term("", r) }), "and: want at least one regular expression");
        let bounds = "repeat 2 to 1 times: want bounds that do not fall, of at most 2147483647";
        assert_eq!(mistake(|b| { let e = b.lit("a"); b.times(e, 2, 1) }), bounds);
        assert_eq!(mistake(|b| b.token(&long)), "a text of 257 bytes: want at most 256");
        assert_eq!(mistake(|b| { let r = b.declare(&long); b.refer(r) }), "a name of 257 bytes: want at most 256");
        assert_eq!(mistake(|b| { let r = b.declare("a"); b.refer(r) }), "rule \"a\" is declared and not defined");
        let twice = mistake(|b| { let e = b.lit("a"); let r = b.rule("a", e); b.define(r, e); e });
        assert_eq!(twice, "rule \"a\" is defined twice");
    }

    #[test]
    fn equal_nodes_are_written_once() {
        let mut b = Builder::new();
        assert_eq!(b.lit("ab"), b.lit("ab"));
        assert_ne!(b.lit("ab"), b.lit("a"));
        assert_eq!((b.exprs.index.len(), b.regexes.index.len()), (2, 2));
    }
}
