//! GBNF, the grammars of llama.cpp.
//!
//! `root ::= "yes" | [a-z]{2,5} item*`. Names of tokens, `<think>`, `<[1000]>` and
//! their negation with `!`, are understood. Left recursion is allowed; a rule
//! may go on in the next line with `|`.

use crate::build::{Builder, Ex};
use crate::chars::{self, Form, Ranges};
use crate::error::{Error, Result};
use crate::re::MANY;
use crate::scan::Scanner;
use std::collections::HashMap;

struct Parser<'a> {
    s: Scanner<'a>,
    b: Builder,
    rules: HashMap<String, u32>,
    // Where a rule is used first, by rule, until it is defined.
    open: HashMap<u32, usize>,
    defined: HashMap<u32, bool>,
}

/// Adds the rules of a grammar; returns the expression for its `root`.
pub fn compile(b: Builder, source: &str) -> Result<(Builder, Ex)> {
    let mut p =
        Parser { s: Scanner::new(source), b, rules: HashMap::new(), open: HashMap::new(), defined: HashMap::new() };
    loop {
        p.space(true);
        if p.s.peek().is_none() {
            break;
        }
        p.rule()?;
    }
    if let Some((&rule, &at)) = p.open.iter().filter(|(r, _)| !p.defined.contains_key(r)).min_by_key(|(_, at)| **at) {
        let name = p.rules.iter().find(|(_, r)| **r == rule).map_or("", |(n, _)| n);
        return Err(Error::at(source, at, format!("the rule {:?} is not defined", name)));
    }
    match p.rules.get("root") {
        Some(&r) if p.defined.contains_key(&r) => {
            let x = p.b.rule(r);
            Ok((p.b, x))
        }
        _ => Err(Error::whole("there is no rule \"root\"")),
    }
}

fn name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

impl Parser<'_> {
    fn space(&mut self, lines: bool) {
        loop {
            self.s.while_(|c| c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'));
            if self.s.peek() != Some('#') {
                return;
            }
            self.s.while_(|c| c != '\n');
        }
    }

    fn id(&mut self, name: &str) -> u32 {
        match self.rules.get(name) {
            Some(&r) => r,
            None => {
                let r = self.b.declare(name);
                self.rules.insert(name.into(), r);
                r
            }
        }
    }

    fn rule(&mut self) -> Result<()> {
        let start = self.s.at;
        let name = self.s.while_(name_char);
        if name.is_empty() {
            return Err(self.s.want("the name of a rule"));
        }
        let rule = self.id(name);
        self.space(false);
        if !self.s.eat("::=") {
            return Err(self.s.want("'::='"));
        }
        if self.defined.insert(rule, true).is_some() {
            return Err(Error::at(self.s.text, start, format!("the rule {:?} is defined twice", name)));
        }
        self.space(true);
        let body = self.alternatives(false)?;
        self.b.define(rule, body);
        match self.s.peek() {
            None | Some('\n') => Ok(()),
            _ => Err(self.s.want("an element, '|' or the end of the line")),
        }
    }

    fn alternatives(&mut self, nested: bool) -> Result<Ex> {
        let mut parts = Vec::new();
        loop {
            parts.push(self.sequence(nested)?);
            // The next line may go on with '|'.
            let here = self.s.at;
            self.space(true);
            if !self.s.eat("|") {
                self.s.at = here;
                break;
            }
            self.space(true);
        }
        if self.b.full() {
            return Err(self.s.fail("the grammar is too large"));
        }
        Ok(self.b.choice(&parts))
    }

    fn sequence(&mut self, nested: bool) -> Result<Ex> {
        let mut parts = Vec::new();
        loop {
            let start = self.s.at;
            let atom = match self.s.peek() {
                Some('"') => {
                    let text = self.s.quoted()?;
                    self.b.lit(text.as_bytes())
                }
                Some('[') => self.class()?,
                Some('.') => {
                    self.s.take();
                    let r = chars::any(&mut self.b.p, Form::Raw);
                    self.b.term(r)
                }
                Some('(') => self.group()?,
                Some('<' | '!') => self.token()?,
                Some(c) if name_char(c) => {
                    let name = self.s.while_(name_char);
                    let r = self.id(name);
                    self.open.entry(r).or_insert(start);
                    self.b.rule(r)
                }
                _ => break,
            };
            parts.push(self.repeated(atom)?);
            self.space(nested);
        }
        Ok(self.b.seq(&parts))
    }

    fn group(&mut self) -> Result<Ex> {
        let start = self.s.at;
        self.s.enter()?;
        self.s.take();
        self.space(true);
        let x = self.alternatives(true)?;
        self.space(true);
        if !self.s.eat(")") {
            let e = self.s.want("an element, '|' or ')'");
            return Err(if self.s.peek().is_none() {
                Error::at(self.s.text, start, "the group is not closed")
            } else {
                e
            });
        }
        self.s.depth -= 1;
        Ok(x)
    }

    fn repeated(&mut self, mut x: Ex) -> Result<Ex> {
        loop {
            let (min, max) = match self.s.peek() {
                Some('*') => (0, MANY),
                Some('+') => (1, MANY),
                Some('?') => (0, 1),
                Some('{') => {
                    let b = self.bounds()?;
                    x = self.b.times(x, b.0, b.1);
                    continue;
                }
                _ => return Ok(x),
            };
            self.s.take();
            x = self.b.times(x, min, max);
        }
    }

    fn bounds(&mut self) -> Result<(u32, u32)> {
        let start = self.s.at;
        self.s.take();
        self.space(false);
        let min = if self.s.peek() == Some(',') { 0 } else { self.s.count()? };
        self.space(false);
        let mut max = min;
        if self.s.eat(",") {
            self.space(false);
            max = if self.s.peek() == Some('}') { MANY } else { self.s.count()? };
            self.space(false);
        }
        if !self.s.eat("}") {
            return Err(self.s.want("'}'"));
        }
        if min > max {
            return Err(Error::at(
                self.s.text,
                start,
                format!("want a repeat of at least and at most times, got {} and {}", min, max),
            ));
        }
        Ok((min, max))
    }

    fn class(&mut self) -> Result<Ex> {
        let start = self.s.at;
        self.s.take();
        let negated = self.s.eat("^");
        let mut set: Ranges = Vec::new();
        while !self.s.eat("]") {
            let from = self.s.at;
            let low = self.member(start)?;
            let mut high = low;
            if self.s.rest().starts_with('-') && !self.s.rest().starts_with("-]") {
                self.s.take();
                high = self.member(start)?;
            }
            if low > high {
                return Err(Error::at(self.s.text, from, "the range runs backwards"));
            }
            set.push((low as u32, high as u32));
        }
        let set = if negated { chars::complement(set) } else { chars::union(set) };
        let r = chars::class(&mut self.b.p, &set, Form::Raw);
        Ok(self.b.term(r))
    }

    fn member(&mut self, start: usize) -> Result<char> {
        match self.s.take() {
            Some('\\') => self.s.escaped(),
            Some(c) => Ok(c),
            None => Err(Error::at(self.s.text, start, "the set is not closed")),
        }
    }

    // <text>, <[id]> and the same with ! in front.
    fn token(&mut self) -> Result<Ex> {
        let start = self.s.at;
        let except = self.s.eat("!");
        if !self.s.eat("<") {
            return Err(self.s.want("'<'"));
        }
        let end = match self.s.rest().find('>') {
            Some(n) => self.s.at + n,
            None => return Err(Error::at(self.s.text, start, "the token is not closed")),
        };
        let inside = &self.s.text[self.s.at..end];
        self.s.at = end + 1;
        if let Some(id) = inside.strip_prefix('[').and_then(|i| i.strip_suffix(']')) {
            let id: u32 = id
                .parse()
                .map_err(|_| Error::at(self.s.text, start, format!("want the id of a token, got {:?}", id)))?;
            return Ok(self.b.token(vec![(id, id)], except));
        }
        if except {
            return Err(Error::at(self.s.text, start, "all tokens but one need that one's id: !<[id]>"));
        }
        Ok(self.b.token_text(&self.s.text[start..=end]))
    }
}
