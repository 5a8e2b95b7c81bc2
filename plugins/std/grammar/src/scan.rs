//! Reading grammar sources: positions, names, quoted texts, counts.

use crate::error::{Error, Result};

/// Deepest nesting of groups in a grammar.
pub const MAX_DEPTH: usize = 100;

/// Largest bound of a counted repeat of rules.
pub const MAX_COUNT: u32 = 1_000_000;

/// A source and a place in it.
pub struct Scanner<'a> {
    /// The source.
    pub text: &'a str,
    /// Byte offset of what comes next.
    pub at: usize,
    /// Groups that are open.
    pub depth: usize,
}

impl<'a> Scanner<'a> {
    /// At the beginning of a source.
    pub fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0, depth: 0 }
    }

    /// What is left.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next character.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes the next character.
    pub fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Takes `what` if it comes next.
    pub fn eat(&mut self, what: &str) -> bool {
        let found = self.rest().starts_with(what);
        if found {
            self.at += what.len();
        }
        found
    }

    /// An error here.
    pub fn fail(&self, reason: impl Into<String>) -> Error {
        Error::at(self.text, self.at, reason)
    }

    /// An error that names what was expected and what is there.
    pub fn want(&self, what: &str) -> Error {
        match self.peek() {
            Some(c) => self.fail(format!("want {}, found {:?}", what, c)),
            None => self.fail(format!("want {}, found the end", what)),
        }
    }

    /// Takes characters while `f` holds.
    pub fn while_(&mut self, f: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let n = rest.find(|c| !f(c)).unwrap_or(rest.len());
        self.at += n;
        &rest[..n]
    }

    /// Opens a group.
    pub fn enter(&mut self) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(self.fail(format!("groups nested deeper than {}", MAX_DEPTH)));
        }
        self.depth += 1;
        Ok(())
    }

    /// A whole number up to MAX_COUNT.
    pub fn count(&mut self) -> Result<u32> {
        let start = self.at;
        let digits = self.while_(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.want("a number"));
        }
        match digits.parse::<u32>() {
            Ok(n) if n <= MAX_COUNT => Ok(n),
            _ => Err(Error::at(self.text, start, format!("a repeat counts to {} at most, not {}", MAX_COUNT, digits))),
        }
    }

    /// The character that an escape sequence stands for; the backslash has been taken.
    pub fn escaped(&mut self) -> Result<char> {
        let start = self.at - 1;
        let digits = match self.take() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('f') => return Ok('\u{c}'),
            Some('v') => return Ok('\u{b}'),
            Some('b') => return Ok('\u{8}'),
            Some('0') => return Ok('\0'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(c) if !c.is_alphanumeric() => return Ok(c),
            _ => return Err(Error::at(self.text, start, "unknown escape sequence")),
        };
        let value = self.rest().get(..digits).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        match value.and_then(|h| u32::from_str_radix(h, 16).ok()).and_then(char::from_u32) {
            Some(c) => {
                self.at += digits;
                Ok(c)
            }
            None => Err(Error::at(self.text, start, format!("want {} hexadecimal digits of a character", digits))),
        }
    }

    /// A text in double quotes; the first has not been taken.
    pub fn quoted(&mut self) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            match self.take() {
                Some('"') => return Ok(out),
                Some('\\') => out.push(self.escaped()?),
                Some(c) => out.push(c),
                None => return Err(Error::at(self.text, start, "the text is not closed")),
            }
        }
    }
}
