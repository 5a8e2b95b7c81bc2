//! Regular expressions as ECMA-262 writes them (with its `u` flag) and as
//! Python's `re` does where the two agree.
//!
//! Look-ahead is exact: its condition is intersected with the rest of the text. Look-behind and
//! back references are refused. Flags may precede the pattern or a group, as in `(?i)` and
//! `(?s:.*)`; supported are `i`, `s` and `u`.

use crate::chars::{self, complement, union, Form, Ranges};
use crate::error::{Error, Result};
use crate::re::{Pool, Re, ALL, EMPTY, MANY, NEVER};

/// Deepest nesting of groups.
pub const MAX_DEPTH: usize = 100;

/// Largest bound of a counted repeat.
pub const MAX_COUNT: u32 = 1_000_000;

// Maximum number of parts of a pattern, copies included.
const MAX_WORK: usize = 200_000;

/// The relation of a text to the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Contain a match somewhere, as JSON Schema's `pattern` means it.
    Search,
    /// Be a match.
    Full,
    /// Be a match inside a larger grammar: look-around is not allowed.
    Part,
}

/// The flags of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Letters match in both cases (simple mappings).
    pub any_case: bool,
    /// A dot matches line ends too.
    pub dot_all: bool,
}

/// The texts that a pattern matches. Errors name the position in the pattern.
pub fn compile(p: &mut Pool, source: &str, form: Form, how: Match) -> Result<Re> {
    compile_with(p, source, form, how, Flags::default())
}

/// The same with flags.
pub fn compile_with(p: &mut Pool, source: &str, form: Form, how: Match, flags: Flags) -> Result<Re> {
    let mut parser = Parser { text: source, at: 0, depth: 0, flags, python: how == Match::Full };
    if parser.python {
        parser.flags_in_front();
    }
    let tree = parser.alternatives()?;
    if parser.at < source.len() {
        return Err(parser.fail("unmatched ')'"));
    }
    let mut l = Lower { p, form, source, work: 0 };
    let r = match how {
        Match::Part if tree.looks() => {
            return Err(Error::whole("anchors and look-ahead are not supported in a part of a grammar"))
        }
        Match::Full | Match::Part => l.at(&tree, true, EMPTY, EMPTY)?,
        Match::Search => l.search(&tree)?,
    };
    if p.full() {
        return Err(Error::whole("the pattern takes too many states"));
    }
    Ok(r)
}

/// What is written between slashes or in a pattern.
#[derive(Debug)]
enum Tree {
    Class(Ranges),
    Cat(Vec<Tree>),
    Alt(Vec<Tree>),
    Rep(Box<Tree>, u32, u32, usize),
    Start,
    End,
    Ahead(Box<Tree>, bool),
}

impl Tree {
    // Whether it depends on more than the characters it matches.
    fn looks(&self) -> bool {
        match self {
            Tree::Class(_) => false,
            Tree::Cat(v) | Tree::Alt(v) => v.iter().any(Tree::looks),
            Tree::Rep(t, ..) => t.looks(),
            Tree::Start | Tree::End | Tree::Ahead(..) => true,
        }
    }

    fn has_start(&self) -> bool {
        match self {
            Tree::Class(_) | Tree::End => false,
            Tree::Cat(v) | Tree::Alt(v) => v.iter().any(Tree::has_start),
            Tree::Rep(t, ..) | Tree::Ahead(t, _) => t.has_start(),
            Tree::Start => true,
        }
    }
}

struct Lower<'a> {
    p: &'a mut Pool,
    form: Form,
    source: &'a str,
    work: usize,
}

impl Lower<'_> {
    fn search(&mut self, t: &Tree) -> Result<Re> {
        let all = chars::text(self.p, self.form);
        let later = self.at(t, false, all, all)?;
        if !t.has_start() {
            return Ok(self.p.cat(all, later));
        }
        let first = self.at(t, true, all, all)?;
        let c = chars::any(self.p, self.form);
        let some = self.p.rep(c, 1, MANY);
        let later = self.p.cat(some, later);
        Ok(self.p.or2(first, later))
    }

    // The texts from here to the end: `t` matches a prefix of them. What follows is in `first` if
    // nothing was read before (start) or by t, otherwise in `rest`.
    fn at(&mut self, t: &Tree, start: bool, first: Re, rest: Re) -> Result<Re> {
        // Repeats with look-around are expanded, nested ones too.
        self.work += 1;
        if self.work > MAX_WORK {
            return Err(Error::whole("repeats of anchors and look-ahead within each other take too many steps"));
        }
        let here = if start { first } else { rest };
        if !t.looks() {
            let r = self.plain(t);
            if !start || first == rest || !self.p.nullable(r) {
                return Ok(self.p.cat(r, rest));
            }
            let some = self.p.minus(r, EMPTY);
            let read = self.p.cat(some, rest);
            return Ok(self.p.or2(first, read));
        }
        match t {
            Tree::Class(_) => Ok(NEVER), // looks() is false
            Tree::Start => Ok(if start { first } else { NEVER }),
            Tree::End => Ok(self.p.and2(here, EMPTY)),
            Tree::Ahead(t, wanted) => {
                let all = chars::text(self.p, self.form);
                let ahead = self.at(t, start, all, all)?;
                Ok(if *wanted { self.p.and2(here, ahead) } else { self.p.minus(here, ahead) })
            }
            Tree::Cat(v) => {
                let (mut first, mut rest) = (first, rest);
                for t in v.iter().rev() {
                    let f = if start { self.at(t, true, first, rest)? } else { NEVER };
                    rest = self.at(t, false, first, rest)?;
                    first = f;
                }
                Ok(if start { first } else { rest })
            }
            Tree::Alt(v) => {
                let parts = v.iter().map(|t| self.at(t, start, first, rest)).collect::<Result<Vec<_>>>()?;
                Ok(self.p.or(parts))
            }
            Tree::Rep(t, min, max, offset) => self.repeated(t, (*min, *max, *offset), start, (first, rest)),
        }
    }

    fn repeated(
        &mut self,
        t: &Tree,
        (min, max, offset): (u32, u32, usize),
        start: bool,
        behind: (Re, Re),
    ) -> Result<Re> {
        if max > 8 {
            return Err(Error::at(self.source, offset, "anchors and look-ahead are not supported inside a repeat"));
        }
        let (mut first, mut rest) = behind;
        for i in (0..max).rev() {
            let f = if start { self.at(t, true, first, rest)? } else { NEVER };
            let r = self.at(t, false, first, rest)?;
            // The copies beyond the minimum are optional.
            first = if i < min { f } else { self.p.or2(f, behind.0) };
            rest = if i < min { r } else { self.p.or2(r, behind.1) };
        }
        Ok(if start { first } else { rest })
    }

    fn plain(&mut self, t: &Tree) -> Re {
        match t {
            Tree::Class(set) => chars::class(self.p, set, self.form),
            Tree::Cat(v) => {
                let parts: Vec<Re> = v.iter().map(|t| self.plain(t)).collect();
                self.p.seq(&parts)
            }
            Tree::Alt(v) => {
                let parts = v.iter().map(|t| self.plain(t)).collect();
                self.p.or(parts)
            }
            Tree::Rep(t, min, max, _) => {
                let r = self.plain(t);
                self.p.rep(r, *min, *max)
            }
            Tree::Start | Tree::End | Tree::Ahead(..) => ALL, // looks() is true
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    flags: Flags,
    // Whether what Python alone knows is understood: flags in front, \A, \z and \Z.
    python: bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, what: &str) -> bool {
        let found = self.text[self.at..].starts_with(what);
        if found {
            self.at += what.len();
        }
        found
    }

    // (?i), (?s) or both at the very beginning.
    fn flags_in_front(&mut self) {
        let letters = self.text.strip_prefix("(?").and_then(|t| t.find(')').map(|i| &t[..i])).unwrap_or("");
        if !letters.is_empty() && letters.bytes().all(|b| b == b'i' || b == b's') {
            self.flags.any_case |= letters.contains('i');
            self.flags.dot_all |= letters.contains('s');
            self.at = letters.len() + 3;
        }
    }

    // The flags inside a group: those of `(?:`, `(?s:`, `(?-i:` or `(?i-s:`, behind the question
    // mark.
    fn group_flags(&mut self) -> Option<Flags> {
        let (mut flags, mut on) = (self.flags, true);
        for (i, c) in self.text[self.at..].char_indices() {
            match c {
                'i' => flags.any_case = on,
                's' => flags.dot_all = on,
                // Characters are Unicode's either way.
                'u' if on => {}
                '-' if on => on = false,
                ':' => {
                    self.at += i + 1;
                    return Some(flags);
                }
                _ => return None,
            }
        }
        None
    }

    fn fail(&self, reason: &str) -> Error {
        Error::at(self.text, self.at, reason)
    }

    fn alternatives(&mut self) -> Result<Tree> {
        let mut parts = vec![self.sequence()?];
        while self.eat("|") {
            parts.push(self.sequence()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::Alt(parts) })
    }

    fn sequence(&mut self) -> Result<Tree> {
        let mut parts = Vec::new();
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let start = self.at;
            let atom = self.atom(c)?;
            parts.push(self.repeat(atom, start)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::Cat(parts) })
    }

    fn repeat(&mut self, atom: Tree, start: usize) -> Result<Tree> {
        let from = self.at;
        let (min, max) = match self.peek() {
            Some('*') => (0, MANY),
            Some('+') => (1, MANY),
            Some('?') => (0, 1),
            Some('{') => match self.counts()? {
                Some(c) => c,
                None => return Ok(atom),
            },
            _ => return Ok(atom),
        };
        if self.at == from {
            self.at += 1;
        }
        if matches!(atom, Tree::Start | Tree::End) {
            return Err(Error::at(self.text, from, "nothing to repeat"));
        }
        // A lazy repeat matches the same texts.
        if !self.eat("?") && self.peek() == Some('+') {
            return Err(self.fail("possessive repeats are not supported"));
        }
        if matches!(self.peek(), Some('*' | '+' | '?')) {
            return Err(self.fail("nothing to repeat"));
        }
        Ok(Tree::Rep(Box::new(atom), min, max, start))
    }

    // {n}, {n,} or {n,m}; None where the brace stands for itself.
    fn counts(&mut self) -> Result<Option<(u32, u32)>> {
        let body = &self.text[self.at + 1..];
        let end = match body.find('}') {
            Some(i) => i,
            None => return Ok(None),
        };
        let inside = &body[..end];
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        let (low, high) = match inside.find(',') {
            Some(i) => (&inside[..i], Some(&inside[i + 1..])),
            None => (inside, None),
        };
        if !digits(low) || !high.map_or(true, |h| h.is_empty() || digits(h)) {
            return Ok(None);
        }
        let number = |s: &str| match s.parse::<u32>() {
            Ok(n) if n <= MAX_COUNT => Ok(n),
            _ => Err(self.fail(&format!("a repeat counts to {} at most, not {}", MAX_COUNT, s))),
        };
        let min = number(low)?;
        let max = match high {
            None => min,
            Some("") => MANY,
            Some(h) => number(h)?,
        };
        if min > max {
            return Err(self.fail(&format!("want a repeat of at least and at most times, got {} and {}", min, max)));
        }
        self.at += end + 2;
        Ok(Some((min, max)))
    }

    fn atom(&mut self, c: char) -> Result<Tree> {
        match c {
            '(' => self.group(),
            '[' => self.set(),
            '\\' => self.escape(),
            '*' | '+' | '?' => Err(self.fail("nothing to repeat")),
            _ => {
                self.next();
                Ok(match c {
                    '.' if self.flags.dot_all => Tree::Class(vec![(0, chars::LAST)]),
                    '.' => Tree::Class(complement(vec![(10, 10), (13, 13), (0x2028, 0x2029)])),
                    '^' => Tree::Start,
                    '$' => Tree::End,
                    _ => self.class(vec![(c as u32, c as u32)]),
                })
            }
        }
    }

    fn group(&mut self) -> Result<Tree> {
        if self.depth == MAX_DEPTH {
            return Err(self.fail(&format!("groups nested deeper than {}", MAX_DEPTH)));
        }
        let start = self.at;
        self.at += 1;
        let (mut ahead, mut inner) = (None, self.flags);
        if self.eat("?") {
            if self.eat("=") {
                ahead = Some(true);
            } else if self.eat("!") {
                ahead = Some(false);
            } else if self.text[self.at..].starts_with("<=") || self.text[self.at..].starts_with("<!") {
                return Err(Error::at(self.text, start, "look-behind is not supported"));
            } else if self.eat("<") || self.eat("P<") {
                match self.text[self.at..].find('>') {
                    Some(i) => self.at += i + 1,
                    None => return Err(self.fail("want '>' behind the name of the group")),
                }
            } else if let Some(flags) = self.group_flags() {
                inner = flags;
            } else {
                return Err(Error::at(
                    self.text,
                    start,
                    "want '(?:', '(?=', '(?!', '(?<name>' or '(?' with the flags i, s or u; other groups are not supported",
                ));
            }
        }
        self.depth += 1;
        let outer = std::mem::replace(&mut self.flags, inner);
        let inside = self.alternatives()?;
        self.flags = outer;
        self.depth -= 1;
        if !self.eat(")") {
            return Err(Error::at(self.text, start, "the group is not closed"));
        }
        Ok(match ahead {
            Some(wanted) => Tree::Ahead(Box::new(inside), wanted),
            // An empty group repeats like any other atom.
            None => inside,
        })
    }

    fn escape(&mut self) -> Result<Tree> {
        let start = self.at;
        let next = self.text[start + 1..].chars().next();
        let refused = match next {
            None => Some("a backslash at the end"),
            Some('b' | 'B') => Some("word boundaries are not supported"),
            Some('1'..='9' | 'k') => Some("back references are not supported"),
            Some('A') if self.python => {
                self.at += 2;
                return Ok(Tree::Start);
            }
            Some('z' | 'Z') if self.python => {
                self.at += 2;
                return Ok(Tree::End);
            }
            Some('A' | 'z' | 'Z' | 'G') => Some("\\A, \\z and \\Z are no escapes of ECMA-262; use ^ and $"),
            _ => None,
        };
        match refused {
            Some(reason) => Err(self.fail(reason)),
            None => {
                let set = self.class_escape()?;
                Ok(self.class(set))
            }
        }
    }

    fn class(&self, set: Ranges) -> Tree {
        Tree::Class(if self.flags.any_case { chars::any_case(&set) } else { set })
    }

    // An escape that stands for one character out of a set.
    fn class_escape(&mut self) -> Result<Ranges> {
        let start = self.at;
        self.at += 1;
        let c = match self.next() {
            Some(c) => c,
            None => return Err(Error::at(self.text, start, "a backslash at the end")),
        };
        let one = |c: u32| Ok(vec![(c, c)]);
        match c {
            'd' => Ok(vec![(0x30, 0x39)]),
            'D' => Ok(complement(vec![(0x30, 0x39)])),
            'w' => Ok(chars::word()),
            'W' => Ok(complement(chars::word())),
            's' => Ok(chars::space()),
            'S' => Ok(complement(chars::space())),
            't' => one(9),
            'n' => one(10),
            'v' => one(11),
            'f' => one(12),
            'r' => one(13),
            '0' if !matches!(self.peek(), Some('0'..='9')) => one(0),
            'c' => match self.next() {
                Some(l) if l.is_ascii_alphabetic() => one(l as u32 & 31),
                _ => Err(Error::at(self.text, start, "want a letter behind \\c")),
            },
            'x' => self.hex(2, start).and_then(one),
            'u' => self.unicode(start).and_then(one),
            'p' | 'P' => self.property(c == 'P', start),
            c if c.is_ascii_alphanumeric() => Err(Error::at(self.text, start, format!("unknown escape \\{}", c))),
            c => one(c as u32),
        }
    }

    fn hex(&mut self, digits: usize, start: usize) -> Result<u32> {
        let text = self.text.as_bytes().get(self.at..self.at + digits);
        let text = text.and_then(|t| std::str::from_utf8(t).ok()).filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()));
        match text.and_then(|t| u32::from_str_radix(t, 16).ok()) {
            Some(v) => {
                self.at += digits;
                Ok(v)
            }
            None => Err(Error::at(self.text, start, format!("want {} hexadecimal digits", digits))),
        }
    }

    fn unicode(&mut self, start: usize) -> Result<u32> {
        if self.eat("{") {
            let end = self.text[self.at..].find('}').map(|i| self.at + i);
            let v = end.and_then(|e| u32::from_str_radix(&self.text[self.at..e], 16).ok());
            return match (end, v) {
                (Some(e), Some(v)) if v <= chars::LAST => {
                    self.at = e + 1;
                    Ok(v)
                }
                _ => Err(Error::at(self.text, start, "want a code point in \\u{...}")),
            };
        }
        let high = self.hex(4, start)?;
        let mark = self.at;
        if (0xD800..0xDC00).contains(&high) && self.eat("\\u") {
            match self.hex(4, start) {
                Ok(low) if (0xDC00..0xE000).contains(&low) => {
                    return Ok(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                }
                _ => self.at = mark,
            }
        }
        Ok(high)
    }

    fn property(&mut self, negated: bool, start: usize) -> Result<Ranges> {
        let end = match (self.eat("{"), self.text[self.at..].find('}')) {
            (true, Some(i)) => self.at + i,
            _ => return Err(Error::at(self.text, start, "want \\p{name}")),
        };
        let name = &self.text[self.at..end];
        let set = match chars::property(name) {
            Some(s) => s,
            None => {
                return Err(Error::at(
                    self.text,
                    start,
                    format!("the property {:?} is not supported; general categories are", name),
                ))
            }
        };
        self.at = end + 1;
        Ok(if negated { complement(set) } else { set })
    }

    fn set(&mut self) -> Result<Tree> {
        let start = self.at;
        self.at += 1;
        let negated = self.eat("^");
        let mut out = Vec::new();
        loop {
            let from = self.at;
            match self.peek() {
                None => return Err(Error::at(self.text, start, "the set is not closed")),
                Some(']') => {
                    self.at += 1;
                    let set = if self.flags.any_case { chars::any_case(&out) } else { out };
                    return Ok(Tree::Class(if negated { complement(set) } else { union(set) }));
                }
                Some(_) => {}
            }
            let low = self.member()?;
            let dash = self.text[self.at..].starts_with('-') && !self.text[self.at..].starts_with("-]");
            if !dash {
                out.extend(low);
                continue;
            }
            self.at += 1;
            let high = self.member()?;
            match (single(&low), single(&high)) {
                (Some(a), Some(b)) if a <= b => out.push((a, b)),
                (Some(_), Some(_)) => return Err(Error::at(self.text, from, "the range runs backwards")),
                // A dash beside a class such as \d stands for itself.
                _ => {
                    out.extend(low);
                    out.extend(high);
                    out.push((0x2D, 0x2D));
                }
            }
        }
    }

    fn member(&mut self) -> Result<Ranges> {
        if self.eat("\\b") {
            return Ok(vec![(8, 8)]);
        }
        match self.peek() {
            Some('\\') => self.class_escape(),
            Some(c) => {
                self.next();
                Ok(vec![(c as u32, c as u32)])
            }
            None => Err(self.fail("the set is not closed")),
        }
    }
}

fn single(r: &Ranges) -> Option<u32> {
    match r[..] {
        [(a, b)] if a == b => Some(a),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
