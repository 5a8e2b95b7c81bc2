//! Objects written as parameters in tags, as models write the arguments of calls:
//! each member of the outermost object in a tag of its own, strings in them as
//! they are, all other values as JSON.
//!
//! One line end before and one after a value belong to the tags. Strings with constraints other
//! than their length contain no quotes, backslashes and control characters here: their languages
//! are those of JSON texts.

use super::expand::Set;
use super::expr::*;
use super::strings::Strings;
use super::{whitespace, Compiler};
use crate::build::Ex;
use crate::chars::{self, Form};
use crate::error::{Error, Result};
use crate::json::{self, Value};
use crate::re::{range, Re, ALL, MANY, NEVER};
use crate::Whitespace;

/// How parameters are written; the names are XGrammar's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `<parameter=name>value</parameter>`
    Qwen,
    /// `<parameter name="name">value</parameter>`
    Minimax,
    /// `<arg_key>name</arg_key><arg_value>value</arg_value>`
    Glm,
}

impl Style {
    /// The style with this name.
    pub fn named(name: &str) -> Option<Style> {
        match name {
            "qwen_xml" => Some(Style::Qwen),
            "minimax_xml" => Some(Style::Minimax),
            "glm_xml" => Some(Style::Glm),
            _ => None,
        }
    }

    // What stands before the name, between name and value, and behind.
    fn tags(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Style::Qwen => ("<parameter=", &[">"], "</parameter>"),
            Style::Minimax => ("<parameter name=\"", &["\">"], "</parameter>"),
            Style::Glm => ("<arg_key>", &["</arg_key>", "<arg_value>"], "</arg_value>"),
        }
    }
}

impl<'a> Compiler<'a> {
    /// The objects of an expression, written as parameters.
    pub(super) fn parameters(&mut self, x: Sx, style: Style) -> Result<Ex> {
        let cases = self.cases(x, false, OBJ)?;
        self.style = Some(style);
        let mut parts = Vec::new();
        for case in cases.iter() {
            parts.push(self.object(case)?);
        }
        self.style = None;
        Ok(self.b.choice(&parts))
    }

    /// White space between parameters.
    pub(super) fn line(&mut self) -> Ex {
        whitespace(&mut self.b, Whitespace::Flexible { indent: 20 })
    }

    pub(super) fn parameter(&mut self, style: Style, name: Re, value: Sx) -> Result<Ex> {
        let (open, between, end) = style.tags();
        let key = match self.singles.get(&name).cloned() {
            Some(text) => {
                let raw = unescaped(&text);
                if raw.is_empty() || raw.contains(|c: char| "<>\"&".contains(c) || c.is_control()) {
                    return Err(Error::whole(format!("{:?} can't be the name of a parameter", raw)));
                }
                self.b.lit(raw.as_bytes())
            }
            None => {
                let names = identifiers(&mut self.b.p);
                let r = self.b.p.and2(name, names);
                self.b.term(r)
            }
        };
        let mut parts = vec![self.b.lit(open.as_bytes()), key];
        for (i, t) in between.iter().enumerate() {
            if i > 0 {
                let line = self.line();
                parts.push(line);
            }
            parts.push(self.b.lit(t.as_bytes()));
        }
        parts.push(self.valued(value, end)?);
        Ok(self.b.seq(&parts))
    }

    // A value and the end of its tag.
    fn valued(&mut self, value: Sx, end: &str) -> Result<Ex> {
        let strings = match self.set(value, false, STR)? {
            Set::Str(s) => self.raw(s, end),
            _ => NEVER,
        };
        let close = self.b.p.literal(end.as_bytes());
        let strings = self.b.p.cat(strings, close);
        let others = self.a.types(TYPES & !STR);
        let others = self.a.and(vec![others, value]);
        let others = self.value(others)?;
        let newline = self.b.lit(b"\n");
        let newline = self.b.opt(newline);
        let close = self.b.lit(end.as_bytes());
        let others = self.b.seq(&[newline, others, newline, close]);
        let strings = self.b.term(strings);
        Ok(self.b.choice(&[strings, others]))
    }

    // A set of strings as they are, without the end of the tag in them.
    fn raw(&mut self, s: Strings, end: &str) -> Re {
        let words = match s {
            Strings::Texts(r) => self.b.p.lists.get(&r).cloned(),
            Strings::Len(..) => None,
        };
        let p = &mut self.b.p;
        let end = p.literal(end.as_bytes());
        let closing = p.seq(&[ALL, end, ALL]);
        let inside = match (s, words) {
            (_, Some(words)) => {
                let raw: Vec<String> = words.iter().map(|w| unescaped(&String::from_utf8_lossy(w))).collect();
                p.words(&raw)
            }
            (Strings::Texts(r), None) => {
                let backslash = p.byte(b'\\');
                let escaped = p.seq(&[ALL, backslash, ALL]);
                p.minus(r, escaped)
            }
            (Strings::Len(min, max), None) => {
                let c = chars::any(p, Form::Raw);
                let all = p.rep(c, min, max);
                if (min, max) == (0, MANY) {
                    return p.minus(all, closing);
                }
                all
            }
        };
        let inside = p.minus(inside, closing);
        // Without line ends at its edges, or between two that are not its own.
        let newline = p.byte(b'\n');
        let (first, last) = (p.cat(newline, ALL), p.cat(ALL, newline));
        let edge = p.or2(first, last);
        let (alone, between) = (p.minus(inside, edge), p.seq(&[newline, inside, newline]));
        p.or2(alone, between)
    }
}

fn identifiers(p: &mut crate::re::Pool) -> Re {
    let (mut first, mut rest) = (range(b'A', b'Z'), range(b'0', b'9'));
    for (i, w) in range(b'a', b'z').iter().enumerate() {
        first[i] |= w | range(b'_', b'_')[i];
    }
    for (i, w) in first.iter().enumerate() {
        rest[i] |= w;
    }
    let (first, rest) = (p.bytes(first), p.bytes(rest));
    let rest = p.rep(rest, 0, MANY);
    p.cat(first, rest)
}

// The string that a canonical text stands for.
fn unescaped(text: &str) -> String {
    match json::parse(&format!("\"{}\"", text)) {
        Ok(Value::Str(s)) => s,
        _ => String::new(),
    }
}
