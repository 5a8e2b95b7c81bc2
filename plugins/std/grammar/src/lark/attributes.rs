//! What llguidance adds to Lark: attributes of rules, and parts of a given text.

use super::{is_terminal, name_char, Parser};
use crate::build::{Ex, Expr};
use crate::error::{Error, Result};
use crate::json;
use crate::pattern::MAX_DEPTH;
use crate::re::{range, Re, ALL, EMPTY};
use std::collections::HashMap;

/// The attributes of a rule.
#[derive(Default)]
pub(super) struct Attributes {
    // It ends at the first possible position.
    pub(super) lazy: bool,
    // What it ends with.
    pub(super) suffix: Option<Ex>,
}

/// A rule that ends at the first possible position. Its terminals may be defined after it.
pub(super) struct Lazy {
    pub(super) rule: u32,
    pub(super) body: Ex,
    pub(super) at: usize,
}

/// Maximum number of pieces of the text of `%regex`.
const MAX_CHUNKS: usize = 1000;

impl Parser<'_, '_> {
    // llguidance's attributes of a rule. A capture asks nothing of the text, and neither does an
    // empty `stop`: then a token ends the rule and is taken back.
    pub(super) fn attributes(&mut self) -> Result<Attributes> {
        let mut out = Attributes::default();
        if !self.s.eat("[") {
            return Ok(out);
        }
        loop {
            self.space(true);
            let start = self.s.at;
            let name = self.s.while_(name_char);
            self.space(true);
            let value = self.s.eat("=");
            self.space(true);
            match name {
                "capture" if value => drop(self.attribute_text()?),
                "capture" => {}
                "lazy" if !value => out.lazy = true,
                "suffix" if value => out.suffix = Some(self.end_mark()?),
                "stop" if value => {
                    if self.s.peek() != Some('"') || !self.s.quoted()?.is_empty() {
                        let reason = "stop takes text back that was written, which is not supported; suffix keeps it";
                        return Err(Error::at(self.s.text, start, reason));
                    }
                }
                "max_tokens" => {
                    let reason = "max_tokens of a rule is not supported; a repeat bounds its text, as in /.{0,100}/";
                    return Err(Error::at(self.s.text, start, reason));
                }
                "temperature" => {
                    let reason = "temperature of a rule is not supported; a request has one for all of its text";
                    return Err(Error::at(self.s.text, start, reason));
                }
                "" => return Err(self.s.want("an attribute")),
                other => return Err(Error::at(self.s.text, start, format!("the attribute {:?} is not supported", other))),
            }
            self.space(true);
            if self.s.eat("]") {
                return Ok(out);
            }
            if !self.s.eat(",") {
                return Err(self.s.want("',' or ']'"));
            }
        }
    }

    fn attribute_text(&mut self) -> Result<String> {
        if self.s.peek() != Some('"') {
            return Err(self.s.want("a text in quotes"));
        }
        self.s.quoted()
    }

    // What a rule ends with: a text, a pattern or a terminal's name.
    fn end_mark(&mut self) -> Result<Ex> {
        self.terminal = true;
        let mark = match self.s.peek() {
            Some('"') | Some('/') => self.text(),
            Some(c) if name_char(c) => Ok(self.name()),
            _ => Err(self.s.want("a text, a pattern or a terminal")),
        };
        self.terminal = false;
        mark
    }

    // Bodies of rules that end at the first possible position: texts that do not begin with a
    // shorter one.
    pub(super) fn end_early(&mut self) -> Result<()> {
        let mut known = HashMap::new();
        for l in std::mem::take(&mut self.lazy) {
            let r = match self.regex(l.body, 0, &mut known) {
                Some(r) => r,
                None => {
                    let reason = "a rule with lazy or suffix is made of terminals: patterns, texts and names in capitals";
                    return Err(Error::at(self.s.text, l.at, reason));
                }
            };
            let p = &mut self.b.p;
            let byte = p.bytes(range(0, 255));
            let more = p.cat(byte, ALL);
            let longer = p.cat(r, more);
            let first = p.minus(r, longer);
            let x = self.b.term(first);
            let x = self.spaced(x);
            self.b.define(l.rule, x);
        }
        Ok(())
    }

    // An expression of terminals as a regular expression.
    fn regex(&mut self, x: Ex, depth: usize, known: &mut HashMap<Ex, Re>) -> Option<Re> {
        if let Some(&r) = known.get(&x) {
            return Some(r);
        }
        if depth > MAX_DEPTH || self.b.p.full() {
            return None;
        }
        let r = match self.b.expr(x).clone() {
            Expr::Term(r) => r,
            Expr::Rule(rule) => {
                let (name, body) = &self.b.rules[rule as usize];
                match (is_terminal(name), *body) {
                    (true, Some(body)) => self.regex(body, depth + 1, known)?,
                    _ => return None,
                }
            }
            Expr::Seq(v) => {
                let parts = v.into_iter().map(|x| self.regex(x, depth + 1, known)).collect::<Option<Vec<Re>>>()?;
                self.b.p.seq(&parts)
            }
            Expr::Choice(v) => {
                let parts = v.into_iter().map(|x| self.regex(x, depth + 1, known)).collect::<Option<Vec<Re>>>()?;
                self.b.p.or(parts)
            }
            Expr::Times(x, min, max) => {
                let r = self.regex(x, depth + 1, known)?;
                self.b.p.rep(r, min, max)
            }
            _ => return None,
        };
        known.insert(x, r);
        Some(r)
    }

    // `%regex {"substring_chunks": [...]}`: any run of consecutive pieces, or none.
    pub(super) fn parts_of_text(&mut self, start: usize) -> Result<Ex> {
        let (value, end) = json::parse_at(self.s.text, self.s.at)?;
        self.s.at = end;
        let wrong = |reason: String| Error::at(self.s.text, start, reason);
        let chunks: Option<Vec<String>> = match &value {
            json::Value::Obj(m) => match &m[..] {
                [(k, json::Value::Arr(v))] if k == "substring_chunks" => {
                    v.iter().map(|c| c.as_str().map(String::from)).collect()
                }
                [(k, json::Value::Str(s))] if k == "substring_chars" => Some(s.chars().map(String::from).collect()),
                _ => None,
            },
            _ => None,
        };
        let chunks = chunks.ok_or_else(|| {
            wrong("%regex: want {\"substring_chunks\": [texts]} or {\"substring_chars\": text}; others are not supported".into())
        })?;
        if chunks.len() > MAX_CHUNKS {
            return Err(wrong(format!("%regex: at most {} pieces of a text are read, got {}", MAX_CHUNKS, chunks.len())));
        }
        let p = &mut self.b.p;
        let (mut from, mut parts) = (EMPTY, vec![EMPTY]);
        for c in chunks.iter().rev() {
            let text = p.literal(c.as_bytes());
            let more = p.cat(text, from);
            parts.push(more);
            from = p.opt(more);
        }
        let r = p.or(parts);
        let x = self.b.term(r);
        Ok(self.spaced(x))
    }
}
