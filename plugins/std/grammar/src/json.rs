//! JSON values that keep what the meaning of a schema depends on: the order of members, and numbers
//! as text.

use crate::error::{Error, Result};

/// Deepest nesting of arrays and objects that is read.
pub const MAX_DEPTH: usize = 200;

/// One value of a JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it was written.
    Num(String),
    /// A string, escapes resolved.
    Str(String),
    /// An array.
    Arr(Vec<Value>),
    /// An object; members in the order of the text, no name twice.
    Obj(Vec<(String, Value)>),
}

impl Value {
    /// The member `name` of an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Obj(m) => m.iter().find(|(k, _)| k == name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Num(_) => "a number",
            Value::Str(_) => "a string",
            Value::Arr(_) => "an array",
            Value::Obj(_) => "an object",
        }
    }
}

/// Reads one JSON text. Duplicate member names and unpaired surrogates are errors.
pub fn parse(text: &str) -> Result<Value> {
    let mut r = Reader { text, at: 0, depth: 0 };
    let v = r.value()?;
    r.space();
    if r.at < text.len() {
        return Err(r.want("the end of the text"));
    }
    Ok(v)
}

/// Reads one JSON value at byte `at` of a larger text; also returns its end.
pub fn parse_at(text: &str, at: usize) -> Result<(Value, usize)> {
    let mut r = Reader { text, at, depth: 0 };
    let v = r.value()?;
    Ok((v, r.at))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn want(&self, what: &str) -> Error {
        let found = match self.text[self.at..].chars().next() {
            Some(c) => format!("found {:?}", c),
            None => "found the end of the text".into(),
        };
        Error::at(self.text, self.at, format!("want {}, {}", what, found))
    }

    fn value(&mut self) -> Result<Value> {
        self.space();
        match self.peek() {
            b'{' | b'[' => {
                if self.depth == MAX_DEPTH {
                    return Err(Error::at(self.text, self.at, format!("nested deeper than {}", MAX_DEPTH)));
                }
                self.depth += 1;
                let v = if self.peek() == b'{' { self.object() } else { self.array() };
                self.depth -= 1;
                v
            }
            b'"' => Ok(Value::Str(self.string()?)),
            b'-' | b'0'..=b'9' => self.number(),
            _ => {
                for (word, v) in [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))] {
                    if self.text[self.at..].starts_with(word) {
                        self.at += word.len();
                        return Ok(v);
                    }
                }
                Err(self.want("a JSON value"))
            }
        }
    }

    fn array(&mut self) -> Result<Value> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == b']' {
            self.at += 1;
            return Ok(Value::Arr(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            match self.peek() {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Value::Arr(items));
                }
                _ => return Err(self.want("',' or ']'")),
            }
        }
    }

    fn object(&mut self) -> Result<Value> {
        self.at += 1;
        let mut members: Vec<(String, Value)> = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        self.space();
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(Value::Obj(members));
        }
        loop {
            self.space();
            let start = self.at;
            if self.peek() != b'"' {
                return Err(self.want("a member's name"));
            }
            let name = self.string()?;
            if !names.insert(name.clone()) {
                return Err(Error::at(self.text, start, format!("the name {:?} comes twice", name)));
            }
            self.space();
            if self.peek() != b':' {
                return Err(self.want("':'"));
            }
            self.at += 1;
            members.push((name, self.value()?));
            self.space();
            match self.peek() {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(Value::Obj(members));
                }
                _ => return Err(self.want("',' or '}'")),
            }
        }
    }

    fn digits(&mut self) -> Result<()> {
        if !self.peek().is_ascii_digit() {
            return Err(self.want("a digit"));
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value> {
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        if self.peek() == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Value::Num(self.text[start..self.at].into()))
    }

    fn hex4(&mut self) -> Result<u32> {
        let mut v = 0;
        for _ in 0..4 {
            match (self.peek() as char).to_digit(16) {
                Some(d) => v = v * 16 + d,
                None => return Err(self.want("a hexadecimal digit")),
            }
            self.at += 1;
        }
        Ok(v)
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let from = self.at;
            while !matches!(self.peek(), b'"' | b'\\' | 0..=0x1F) {
                self.at += 1;
            }
            out.push_str(&self.text[from..self.at]);
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return Err(self.want("the end of the string; control characters must be escaped")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let start = self.at - 1;
        let c = match self.peek() {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                let mut v = self.hex4()?;
                if (0xD800..0xDC00).contains(&v) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.hex4()?;
                    v = if (0xDC00..0xE000).contains(&low) {
                        0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00)
                    } else {
                        v
                    };
                }
                return char::from_u32(v)
                    .ok_or_else(|| Error::at(self.text, start, "a surrogate without its other half"));
            }
            _ => return Err(self.want("an escape sequence")),
        };
        self.at += 1;
        Ok(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_number_texts() {
        let v = parse(r#" {"b":1.50e+2, "a":[null,true,"x\n\u00e9\ud83d\ude00"]} "#).unwrap();
        let want = Value::Obj(vec![
            ("b".into(), Value::Num("1.50e+2".into())),
            ("a".into(), Value::Arr(vec![Value::Null, Value::Bool(true), Value::Str("x\né😀".into())])),
        ]);
        assert_eq!(v, want);
    }

    #[test]
    fn errors_name_the_place() {
        let deep = "[".repeat(60_000);
        for (text, want) in [
            ("{\"a\":1,\n \"a\":2}", "line 2, column 2: the name \"a\" comes twice"),
            ("[1,]", "line 1, column 4: want a JSON value, found ']'"),
            ("[01]", "line 1, column 3: want ',' or ']', found '1'"),
            ("\"\\ud800\"", "line 1, column 2: a surrogate without its other half"),
            ("\"é\n", "line 1, column 3: want the end of the string; control characters must be escaped, found '\\n'"),
            ("{} x", "line 1, column 4: want the end of the text, found 'x'"),
            ("", "line 1, column 1: want a JSON value, found the end of the text"),
            (deep.as_str(), "line 1, column 201: nested deeper than 200"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), want);
        }
    }
}
