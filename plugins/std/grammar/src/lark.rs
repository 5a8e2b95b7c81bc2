//! A subset of Lark's grammars.
//!
//! Rules, terminals, strings, regular expressions, ranges, repeats, `%ignore`, `%import
//! common.NAME` and, as in llguidance, `%llguidance {...}`, `%json {schema}`, `%regex {...}`,
//! `<token>` and the attributes `capture`, `lazy`, `suffix` and an empty `stop`. Templates,
//! `%declare`, `%extend` and `%override` are refused.
//!
//! There is no scanner: a text belongs to the grammar if any split into pieces matches its
//! terminals. What `%ignore` names may come before the first and after every terminal that a rule
//! uses.

mod attributes;

use crate::build::{Builder, Ex};
use crate::chars::{self, Form};
use crate::error::{Error, Result};
use crate::json;
use crate::pattern::{self, Flags, Match};
use crate::re::MANY;
use crate::scan::Scanner;
use crate::{schema, Dropped, Options};
use attributes::{Attributes, Lazy};
use std::collections::HashMap;

/// Terminals of Lark's library, as regular expressions.
const COMMON: &[(&str, &str)] = &[
    ("DIGIT", "[0-9]"),
    ("HEXDIGIT", "[a-fA-F0-9]"),
    ("INT", "[0-9]+"),
    ("SIGNED_INT", "[+-]?[0-9]+"),
    ("DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"),
    ("FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
    ("SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"),
    ("NUMBER", "[0-9]+(?:[eE][+-]?[0-9]+)?|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
    ("SIGNED_NUMBER", "[+-]?(?:[0-9]+(?:[eE][+-]?[0-9]+)?|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"),
    ("ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""),
    ("LCASE_LETTER", "[a-z]"),
    ("UCASE_LETTER", "[A-Z]"),
    ("LETTER", "[a-zA-Z]"),
    ("WORD", "[a-zA-Z]+"),
    ("CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"),
    ("WS_INLINE", "[ \\t]+"),
    ("WS", "[ \\t\\f\\r\\n]+"),
    ("CR", "\\r"),
    ("LF", "\\n"),
    ("NEWLINE", "(?:\\r?\\n)+"),
    ("SH_COMMENT", "#[^\\n]*"),
    ("CPP_COMMENT", "//[^\\n]*"),
    ("C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/"),
    ("SQL_COMMENT", "--[^\\n]*"),
];

struct Parser<'a, 'o> {
    s: Scanner<'a>,
    b: Builder,
    rules: HashMap<String, u32>,
    used: HashMap<u32, usize>,
    defined: HashMap<u32, bool>,
    // Inside a terminal nothing is ignored.
    terminal: bool,
    // The rule for ignored text; its body is known at the end.
    gap: u32,
    ignored: Vec<Ex>,
    // Whether ignored text may come before anything else.
    leading: bool,
    lazy: Vec<Lazy>,
    options: &'o Options,
    dropped: &'o mut Vec<Dropped>,
}

/// Adds the rules of a grammar; returns the expression for its `start`.
pub fn compile(mut b: Builder, source: &str, options: &Options, dropped: &mut Vec<Dropped>) -> Result<(Builder, Ex)> {
    let gap = b.declare("ignored");
    let mut p = Parser {
        s: Scanner::new(source),
        b,
        rules: HashMap::new(),
        used: HashMap::new(),
        defined: HashMap::new(),
        terminal: false,
        gap,
        ignored: Vec::new(),
        leading: true,
        lazy: Vec::new(),
        options,
        dropped,
    };
    loop {
        p.space(true);
        match p.s.peek() {
            None => break,
            Some('%') => p.statement()?,
            _ => p.rule()?,
        }
    }
    if let Some((&rule, &at)) = p.used.iter().filter(|(r, _)| !p.defined.contains_key(r)).min_by_key(|(_, at)| **at) {
        let name = p.rules.iter().find(|(_, r)| **r == rule).map_or("", |(n, _)| n);
        return Err(Error::at(source, at, format!("{:?} is not defined", name)));
    }
    p.end_early()?;
    let ignored = p.b.choice(&p.ignored);
    let ignored = p.b.times(ignored, 0, MANY);
    p.b.define(gap, ignored);
    match p.rules.get("start") {
        Some(&r) if p.defined.contains_key(&r) => {
            let (gap, x) = (p.b.rule(gap), p.b.rule(r));
            let x = if p.leading { p.b.seq(&[gap, x]) } else { x };
            Ok((p.b, x))
        }
        _ => Err(Error::whole("there is no rule \"start\"")),
    }
}

fn name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

// Names of terminals are in capitals, whatever underscores are in front.
fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_').starts_with(|c: char| c.is_ascii_uppercase())
}

impl Parser<'_, '_> {
    fn space(&mut self, lines: bool) {
        loop {
            self.s.while_(|c| c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'));
            if !(self.s.rest().starts_with("//") || self.s.peek() == Some('#')) {
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

    fn define(&mut self, name: &str, at: usize, body: Ex) -> Result<()> {
        let rule = self.id(name);
        if self.defined.insert(rule, true).is_some() {
            return Err(Error::at(self.s.text, at, format!("{:?} is defined twice", name)));
        }
        self.b.define(rule, body);
        Ok(())
    }

    fn statement(&mut self) -> Result<()> {
        let start = self.s.at;
        self.s.take();
        match self.s.while_(name_char) {
            "ignore" => {
                self.space(false);
                self.terminal = true;
                let x = self.alternatives()?;
                self.terminal = false;
                self.ignored.push(x);
                self.end_of_line()
            }
            "import" => {
                self.space(false);
                self.import(start)
            }
            "llguidance" => self.header(start),
            other => Err(Error::at(self.s.text, start, format!("%{} is not supported", other))),
        }
    }

    // What llguidance's grammars begin with: an object of settings. There is nothing to
    // be told about forcing, which changes no text.
    fn header(&mut self, start: usize) -> Result<()> {
        let (value, end) = json::parse_at(self.s.text, self.s.at)?;
        self.s.at = end;
        let members = match value {
            json::Value::Obj(m) => m,
            v => return Err(Error::at(self.s.text, start, format!("%llguidance: want an object, got {}", v.kind()))),
        };
        self.leading = false;
        for (k, v) in members {
            match (k.as_str(), v) {
                ("no_forcing", json::Value::Bool(_)) => {}
                ("allow_initial_skip", json::Value::Bool(b)) => self.leading = b,
                ("no_forcing" | "allow_initial_skip", v) => {
                    let reason = format!("%llguidance: {}: want true or false, got {}", k, v.kind());
                    return Err(Error::at(self.s.text, start, reason));
                }
                _ => return Err(Error::at(self.s.text, start, format!("%llguidance: {} is not supported", k))),
            }
        }
        self.end_of_line()
    }

    fn import(&mut self, start: usize) -> Result<()> {
        if !self.s.eat("common") {
            return Err(self.s.want("'common': other libraries are not there"));
        }
        let mut names = Vec::new();
        if self.s.eat(".") {
            let name = self.s.while_(name_char);
            self.space(false);
            let alias = if self.s.eat("->") {
                self.space(false);
                self.s.while_(name_char)
            } else {
                name
            };
            names.push((name, alias));
        } else {
            self.space(false);
            if !self.s.eat("(") {
                return Err(self.s.want("'.' or '('"));
            }
            while !self.s.eat(")") {
                self.space(true);
                let name = self.s.while_(name_char);
                names.push((name, name));
                self.space(true);
                if !self.s.eat(",") && self.s.peek() != Some(')') {
                    return Err(self.s.want("',' or ')'"));
                }
            }
        }
        for (name, alias) in names {
            let source = match COMMON.iter().find(|c| c.0 == name) {
                Some(c) => c.1,
                None => return Err(Error::at(self.s.text, start, format!("common.{} is not there", name))),
            };
            let r = pattern::compile(&mut self.b.p, source, Form::Raw, Match::Part)?;
            let x = self.b.term(r);
            self.define(alias, start, x)?;
        }
        self.end_of_line()
    }

    fn end_of_line(&mut self) -> Result<()> {
        self.space(false);
        match self.s.peek() {
            None | Some('\n') => Ok(()),
            _ => Err(self.s.want("an element, '|' or the end of the line")),
        }
    }

    fn rule(&mut self) -> Result<()> {
        while self.s.eat("?") || self.s.eat("!") {}
        let start = self.s.at;
        let name = self.s.while_(name_char);
        if name.is_empty() {
            return Err(self.s.want("a rule, a terminal or '%'"));
        }
        if self.s.peek() == Some('{') {
            return Err(self.s.fail("templates are not supported"));
        }
        let attributes = if is_terminal(name) { Attributes::default() } else { self.attributes()? };
        // A priority, which has no effect without a scanner.
        if self.s.eat(".") {
            self.s.eat("-");
            self.s.count()?;
        }
        self.space(true);
        if !self.s.eat(":") {
            return Err(self.s.want("':'"));
        }
        self.space(true);
        let lazy = attributes.lazy || attributes.suffix.is_some();
        self.terminal = is_terminal(name) || lazy;
        let body = self.alternatives()?;
        self.terminal = false;
        if lazy {
            let parts: Vec<Ex> = Some(body).into_iter().chain(attributes.suffix).collect();
            let (rule, body) = (self.id(name), self.b.seq(&parts));
            self.lazy.push(Lazy { rule, body, at: start });
        }
        self.define(name, start, body)?;
        self.end_of_line()
    }

    fn alternatives(&mut self) -> Result<Ex> {
        let mut parts = Vec::new();
        self.s.eat("|");
        self.space(true);
        loop {
            parts.push(self.sequence()?);
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

    fn sequence(&mut self) -> Result<Ex> {
        let mut parts = Vec::new();
        loop {
            let atom = match self.s.peek() {
                Some('(') => self.group(")")?,
                Some('[') => {
                    let x = self.group("]")?;
                    self.b.opt(x)
                }
                Some('"') | Some('/') => self.text()?,
                Some('<') => self.token()?,
                Some('%') => self.json()?,
                Some(c) if name_char(c) => self.name(),
                _ => break,
            };
            parts.push(self.repeated(atom)?);
            self.space(self.s.depth > 0);
        }
        if self.s.eat("->") {
            self.space(false);
            if self.s.while_(name_char).is_empty() {
                return Err(self.s.want("the name of an alternative"));
            }
            self.space(self.s.depth > 0);
        }
        Ok(self.b.seq(&parts))
    }

    fn name(&mut self) -> Ex {
        let start = self.s.at;
        let name = self.s.while_(name_char);
        let r = self.id(name);
        self.used.entry(r).or_insert(start);
        let x = self.b.rule(r);
        if is_terminal(name) {
            self.spaced(x)
        } else {
            x
        }
    }

    // A terminal that a rule uses.
    fn spaced(&mut self, x: Ex) -> Ex {
        if self.terminal {
            return x;
        }
        let gap = self.b.rule(self.gap);
        self.b.seq(&[x, gap])
    }

    fn group(&mut self, close: &str) -> Result<Ex> {
        let start = self.s.at;
        self.s.enter()?;
        self.s.take();
        self.space(true);
        let x = self.alternatives()?;
        self.space(true);
        if !self.s.eat(close) {
            let e = self.s.want(&format!("an element, '|' or '{}'", close));
            return Err(if self.s.peek().is_none() {
                Error::at(self.s.text, start, "the group is not closed")
            } else {
                e
            });
        }
        self.s.depth -= 1;
        Ok(x)
    }

    fn repeated(&mut self, x: Ex) -> Result<Ex> {
        let (min, max) = if self.s.eat("*") {
            (0, MANY)
        } else if self.s.eat("+") {
            (1, MANY)
        } else if self.s.eat("?") {
            (0, 1)
        } else {
            let here = self.s.at;
            self.space(false);
            if !self.s.eat("~") {
                self.s.at = here;
                return Ok(x);
            }
            self.space(false);
            let min = self.s.count()?;
            let here = self.s.at;
            self.space(false);
            if self.s.eat("..") {
                self.space(false);
                let max = self.s.count()?;
                if min > max {
                    return Err(self
                        .s
                        .fail(format!("want a repeat of at least and at most times, got {} and {}", min, max)));
                }
                (min, max)
            } else {
                self.s.at = here;
                (min, min)
            }
        };
        Ok(self.b.times(x, min, max))
    }

    // "text", "text"i, "a".."z" or /pattern/flags.
    fn text(&mut self) -> Result<Ex> {
        let x = if self.s.peek() == Some('"') {
            let start = self.s.at;
            let text = self.s.quoted()?;
            if self.s.rest().starts_with("..") {
                self.s.at += 2;
                if self.s.peek() != Some('"') {
                    return Err(self.s.want("the end of the range in quotes"));
                }
                let end = self.s.quoted()?;
                let (mut a, mut z) = (text.chars(), end.chars());
                match (a.next(), a.next(), z.next(), z.next()) {
                    (Some(a), None, Some(z), None) if a <= z => {
                        let r = chars::class(&mut self.b.p, &[(a as u32, z as u32)], Form::Raw);
                        self.b.term(r)
                    }
                    _ => return Err(Error::at(self.s.text, start, "want a range of one character to a later one")),
                }
            } else if self.s.rest().starts_with('i') && !self.s.rest()[1..].starts_with(name_char) {
                self.s.take();
                let mut parts = Vec::new();
                for c in text.chars() {
                    let set = chars::any_case(&[(c as u32, c as u32)]);
                    parts.push(chars::class(&mut self.b.p, &set, Form::Raw));
                }
                let r = self.b.p.seq(&parts);
                self.b.term(r)
            } else {
                self.b.lit(text.as_bytes())
            }
        } else {
            self.pattern()?
        };
        Ok(self.spaced(x))
    }

    fn pattern(&mut self) -> Result<Ex> {
        let start = self.s.at;
        self.s.take();
        let mut escaped = false;
        let mut in_set = false;
        let body = self.s.rest();
        let end = body.find(|c| {
            let end = c == '/' && !escaped && !in_set;
            if !escaped && c == '[' {
                in_set = true;
            } else if !escaped && c == ']' {
                in_set = false;
            }
            escaped = c == '\\' && !escaped;
            end || c == '\n'
        });
        let n = match end {
            Some(n) if body[n..].starts_with('/') => n,
            _ => return Err(Error::at(self.s.text, start, "the pattern is not closed")),
        };
        self.s.at += n + 1;
        let mut flags = Flags::default();
        for f in self.s.while_(|c| c.is_ascii_lowercase()).chars() {
            match f {
                'i' => flags.any_case = true,
                's' => flags.dot_all = true,
                'u' => {}
                f => return Err(Error::at(self.s.text, start, format!("the flag {:?} is not supported", f))),
            }
        }
        let r = pattern::compile_with(&mut self.b.p, &body[..n], Form::Raw, Match::Part, flags);
        let r = r.map_err(|e| Error::at(self.s.text, start, format!("in the pattern: {}", e)))?;
        Ok(self.b.term(r))
    }

    fn token(&mut self) -> Result<Ex> {
        let start = self.s.at;
        let end = match self.s.rest().find('>') {
            Some(n) => start + n,
            None => return Err(Error::at(self.s.text, start, "the token is not closed")),
        };
        self.s.at = end + 1;
        let text = &self.s.text[start..=end];
        let x = match text.strip_prefix("<[").and_then(|t| t.strip_suffix("]>")) {
            None => self.b.token_text(text),
            Some(ids) => {
                let mut ranges = Vec::new();
                for part in ids.split(',') {
                    let (low, high) = part.split_once('-').unwrap_or((part, part));
                    match (low.trim().parse::<u32>(), high.trim().parse::<u32>()) {
                        (Ok(a), Ok(z)) if a <= z => ranges.push((a, z)),
                        _ => return Err(Error::at(self.s.text, start, format!("want ids of tokens, got {:?}", part))),
                    }
                }
                self.b.token(ranges, false)
            }
        };
        Ok(self.spaced(x))
    }

    fn json(&mut self) -> Result<Ex> {
        let start = self.s.at;
        if self.s.eat("%regex") {
            return self.parts_of_text(start);
        }
        if self.s.eat("%lark") {
            return Err(Error::at(self.s.text, start, "%lark, a grammar within a grammar, is not supported"));
        }
        if !self.s.eat("%json") {
            return Err(Error::at(
                self.s.text,
                start,
                "want '%json' and a schema, or '%regex'; other statements stand at the beginning of a line",
            ));
        }
        let (value, end) = json::parse_at(self.s.text, self.s.at)?;
        self.s.at = end;
        let b = std::mem::take(&mut self.b);
        let (b, x) = schema::compile(b, &value, self.options, self.dropped)?;
        self.b = b;
        Ok(self.spaced(x))
    }
}
