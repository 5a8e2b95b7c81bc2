//! Context-free rules over regular expressions, each expression stored once.
//!
//! In grammars written character by character, expressions without rules are joined into one
//! terminal (`join`). The terminals of a JSON Schema stay separate, because the host shares equal
//! terminals such as the inside of a string.

use crate::error::Error;
use crate::hash::{Map, Seen};
use crate::re::{Pool, Re, EMPTY, MANY, NEVER};

/// An expression of a grammar: its index in a builder.
pub type Ex = u32;

/// Maximum number of expressions of a grammar. With the limits on regular expressions and rules it
/// keeps a compilation within about 60 MiB on a 32-bit machine.
pub const MAX_EXPRS: usize = 110_000;
/// Most rules of one grammar.
pub const MAX_RULES: usize = 60_000;

/// Maximum weight of a joined terminal. A rule that has another twice stands for a text twice as
/// long; larger expressions stay rules.
pub const MAX_JOINED: u32 = 10_000;

/// Mark of a required member of an unordered list.
pub const REQUIRED: u8 = 1;
/// Mark of one that may come more than once.
pub const REPEATS: u8 = 2;
/// Most members of an unordered list.
pub const MAX_MEMBERS: usize = 4096;

/// The shape of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// What a regular expression matches.
    Term(Re),
    /// What a rule stands for.
    Rule(u32),
    /// One after the other.
    Seq(Vec<Ex>),
    /// Any of these.
    Choice(Vec<Ex>),
    /// At least, at most so many times.
    Times(Ex, u32, u32),
    /// Members in any order with a separator between them, each with its mark: at least
    /// so many different ones, at most so many in all.
    Unordered(Ex, Vec<(Ex, u8)>, u32, u32),
    /// The one token with this text.
    TokenText(String),
    /// One token of these ranges of ids, or one ordinary token of none of them (true).
    Token(Vec<(u32, u32)>, bool),
}

/// A grammar under construction.
#[derive(Default)]
pub struct Builder {
    /// The regular expressions.
    pub p: Pool,
    pub(crate) exprs: Vec<Expr>,
    index: Map<Expr, Ex>,
    pub(crate) rules: Vec<(String, Option<Ex>)>,
    literals: Map<Ex, Vec<u8>>,
    /// Whether new expressions keep their terminals separate, regardless of `join`.
    pub apart: bool,
    fixed: Vec<bool>,
    /// What allows nothing at all, in case nothing satisfies the grammar.
    pub barren: Vec<Error>,
}

impl Builder {
    /// A grammar over existing expressions.
    pub fn over(p: Pool) -> Builder {
        Builder { p, ..Builder::default() }
    }

    fn make(&mut self, e: Expr) -> Ex {
        if let Some(&x) = self.index.get(&e) {
            return x;
        }
        let x = self.exprs.len() as Ex;
        self.exprs.push(e.clone());
        self.fixed.push(self.apart);
        self.index.insert(e, x);
        x
    }

    /// Whether it has become too large to continue.
    pub fn full(&self) -> bool {
        self.p.full() || self.exprs.len() > MAX_EXPRS || self.rules.len() > MAX_RULES
    }

    /// The shape of an expression.
    pub fn expr(&self, x: Ex) -> &Expr {
        &self.exprs[x as usize]
    }

    /// A terminal.
    pub fn term(&mut self, r: Re) -> Ex {
        self.make(Expr::Term(r))
    }

    /// A fixed text.
    pub fn lit(&mut self, text: &[u8]) -> Ex {
        let r = self.p.literal(text);
        let x = self.term(r);
        self.literals.insert(x, text.to_vec());
        x
    }

    /// Nothing at all: no text.
    pub fn never(&mut self) -> Ex {
        self.term(NEVER)
    }

    /// The empty text.
    pub fn empty(&mut self) -> Ex {
        self.lit(b"")
    }

    /// A token by its text.
    pub fn token_text(&mut self, text: &str) -> Ex {
        self.make(Expr::TokenText(text.into()))
    }

    /// A token by ranges of ids.
    pub fn token(&mut self, ranges: Vec<(u32, u32)>, except: bool) -> Ex {
        self.make(Expr::Token(ranges, except))
    }

    /// A rule whose body is set later.
    pub fn declare(&mut self, name: &str) -> u32 {
        self.rules.push((name.into(), None));
        self.rules.len() as u32 - 1
    }

    /// Sets the body of a rule.
    pub fn define(&mut self, rule: u32, body: Ex) {
        self.rules[rule as usize].1 = Some(body);
    }

    /// What a rule stands for.
    pub fn rule(&mut self, rule: u32) -> Ex {
        self.make(Expr::Rule(rule))
    }

    /// One after the other; fixed texts beside each other become one.
    pub fn seq(&mut self, parts: &[Ex]) -> Ex {
        let mut flat: Vec<Ex> = Vec::new();
        let mut work: Vec<Ex> = parts.iter().rev().copied().collect();
        while let Some(x) = work.pop() {
            match self.expr(x) {
                Expr::Seq(v) => work.extend(v.iter().rev()),
                Expr::Term(NEVER) => return self.never(),
                Expr::Term(EMPTY) => {}
                _ => match flat.last().and_then(|l| Some((self.literals.get(l)?, self.literals.get(&x)?))) {
                    Some((a, b)) => {
                        let both = [a.as_slice(), b.as_slice()].concat();
                        flat.pop();
                        flat.push(self.lit(&both));
                    }
                    None => flat.push(x),
                },
            }
        }
        match flat.len() {
            0 => self.empty(),
            1 => flat[0],
            _ => self.make(Expr::Seq(flat)),
        }
    }

    /// Any of these.
    pub fn choice(&mut self, parts: &[Ex]) -> Ex {
        let (mut flat, mut terms) = (Vec::new(), Vec::new());
        let mut seen = Seen::default();
        let mut work: Vec<Ex> = parts.iter().rev().copied().collect();
        while let Some(x) = work.pop() {
            match self.expr(x) {
                Expr::Choice(v) => work.extend(v.iter().rev()),
                Expr::Term(NEVER) => {}
                Expr::Term(r) => terms.push(*r),
                _ if seen.insert(x) => flat.push(x),
                _ => {}
            }
        }
        if !terms.is_empty() {
            let t = if terms.len() == 1 { terms[0] } else { self.p.or(terms) };
            let t = self.term(t);
            flat.insert(0, t);
        }
        match flat.len() {
            0 => self.never(),
            1 => flat[0],
            _ => self.make(Expr::Choice(flat)),
        }
    }

    /// At least `min`, at most `max` times; MANY: no bound.
    pub fn times(&mut self, x: Ex, min: u32, max: u32) -> Ex {
        match self.expr(x) {
            _ if max == 0 && min == 0 => self.empty(),
            _ if min > max => self.never(),
            Expr::Term(NEVER) if min == 0 => self.empty(),
            Expr::Term(NEVER | EMPTY) => x,
            _ if (min, max) == (1, 1) => x,
            _ => self.make(Expr::Times(x, min, max)),
        }
    }

    /// Members in any order, none of which is the empty text; there are enough for `min`.
    pub fn unordered(&mut self, separator: Ex, members: Vec<(Ex, u8)>, min: u32, max: u32) -> Ex {
        if members.is_empty() || max == 0 {
            return self.empty();
        }
        self.make(Expr::Unordered(separator, members, min, max))
    }

    /// `x` or nothing.
    pub fn opt(&mut self, x: Ex) -> Ex {
        self.times(x, 0, 1)
    }

    /// Makes one terminal of every expression without rules and tokens, rules
    /// that stand for such expressions included.
    pub fn join(&mut self) {
        // Chains of rules longer than this stay rules; that costs speed only.
        for _ in 0..30 {
            let mut new: Vec<Ex> = Vec::with_capacity(self.exprs.len());
            for x in 0..self.exprs.len() {
                let y = self.joined(x, &new);
                new.push(y);
            }
            let mut changed = false;
            for (_, body) in self.rules.iter_mut() {
                if let Some(b) = body {
                    changed |= new[*b as usize] != *b;
                    *b = new[*b as usize];
                }
            }
            if !changed || self.full() {
                return;
            }
        }
    }

    fn light(&self, parts: &[Re]) -> bool {
        parts.iter().fold(0u32, |sum, &r| sum.saturating_add(self.p.weight(r))) <= MAX_JOINED
    }

    fn joined(&mut self, x: usize, new: &[Ex]) -> Ex {
        let terms = |b: &Builder, v: &[Ex]| {
            v.iter()
                .map(|&y| match b.expr(new[y as usize]) {
                    Expr::Term(r) => Some(*r),
                    _ => None,
                })
                .collect::<Option<Vec<Re>>>()
        };
        match self.exprs[x].clone() {
            Expr::Seq(_) | Expr::Choice(_) | Expr::Times(..) if self.fixed[x] => x as Ex,
            Expr::Rule(r) => match self.rules[r as usize].1 {
                Some(b) if matches!(self.expr(b), Expr::Term(_)) => b,
                _ => x as Ex,
            },
            Expr::Seq(v) => {
                // Adjacent terminals become one even if others follow.
                let mut parts: Vec<Ex> = Vec::new();
                for y in v {
                    let y = new[y as usize];
                    match (parts.last().map(|&l| self.expr(l).clone()), self.expr(y).clone()) {
                        (Some(Expr::Term(a)), Expr::Term(b)) if self.light(&[a, b]) => {
                            let r = self.p.cat(a, b);
                            parts.pop();
                            parts.push(self.term(r));
                        }
                        _ => parts.push(y),
                    }
                }
                self.seq(&parts)
            }
            Expr::Choice(v) => {
                let parts: Vec<Ex> = v.iter().map(|&y| new[y as usize]).collect();
                self.choice(&parts)
            }
            Expr::Times(y, min, max) => match terms(self, &[y]) {
                Some(r) if self.light(&r) => {
                    let r = self.p.rep(r[0], min, max);
                    self.term(r)
                }
                _ => self.times(new[y as usize], min, max),
            },
            _ => x as Ex,
        }
    }

    /// Which rules match some text. Terminals whose emptiness takes too long to decide count as
    /// matching one.
    pub fn productive(&mut self) -> Vec<bool> {
        let mut good = vec![false; self.exprs.len()];
        let mut rules = vec![false; self.rules.len()];
        // What depends on an expression or a rule becoming productive.
        let (mut users, mut calls) = (vec![Vec::new(); good.len()], vec![Vec::new(); rules.len()]);
        let mut missing = vec![0usize; good.len()];
        let mut work = Vec::new();
        for (x, e) in self.exprs.clone().into_iter().enumerate() {
            match e {
                Expr::Term(r) => {
                    if self.p.is_empty(r) != Some(true) {
                        work.push(x);
                    }
                }
                Expr::Token(..) | Expr::TokenText(_) => work.push(x),
                Expr::Times(_, 0, _) => work.push(x),
                Expr::Rule(r) => {
                    missing[x] = 1;
                    calls[r as usize].push(x);
                }
                Expr::Times(y, ..) => {
                    missing[x] = 1;
                    users[y as usize].push(x);
                }
                Expr::Seq(v) => {
                    missing[x] = v.len();
                    v.iter().for_each(|&y| users[y as usize].push(x));
                }
                Expr::Choice(v) => {
                    missing[x] = 1;
                    v.iter().for_each(|&y| users[y as usize].push(x));
                }
                Expr::Unordered(_, v, min, _) => {
                    let required = v.iter().filter(|m| m.1 & REQUIRED != 0).count();
                    if required == 0 && min == 0 {
                        work.push(x);
                    }
                    missing[x] = required.max(1);
                    let needed = v.iter().filter(|m| required == 0 || m.1 & REQUIRED != 0);
                    needed.for_each(|m| users[m.0 as usize].push(x));
                }
            }
        }
        let mut bodies = vec![Vec::new(); good.len()];
        for (i, (_, b)) in self.rules.iter().enumerate() {
            if let Some(b) = b {
                bodies[*b as usize].push(i);
            }
        }
        while let Some(x) = work.pop() {
            if std::mem::replace(&mut good[x], true) {
                continue;
            }
            let mut ready: Vec<usize> = users[x].clone();
            for &r in &bodies[x] {
                if !std::mem::replace(&mut rules[r], true) {
                    ready.extend(&calls[r]);
                }
            }
            for u in ready {
                missing[u] = missing[u].saturating_sub(1);
                if missing[u] == 0 {
                    work.push(u);
                }
            }
        }
        rules
    }

    /// The expression that stands for `min` to `max` of `x` with `between` between them.
    pub fn list(&mut self, x: Ex, between: Ex, min: u32, max: u32) -> Ex {
        if max == 0 {
            return if min == 0 { self.empty() } else { self.never() };
        }
        let more = self.seq(&[between, x]);
        let rest = self.times(more, min.saturating_sub(1), if max == MANY { MANY } else { max - 1 });
        let some = self.seq(&[x, rest]);
        if min == 0 {
            self.opt(some)
        } else {
            some
        }
    }
}
