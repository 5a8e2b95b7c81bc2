use alloc::string::String;
use alloc::vec::Vec;

use crate::json::Reader;
use crate::Result;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// null, and what [`Value::get`] returns for a member that is not there.
    Null,
    /// true or false.
    Bool(bool),
    /// A number as it is written.
    Number(String),
    /// A string, its escapes resolved.
    Text(String),
    /// An array.
    Array(Vec<Value>),
    /// An object, its members in the order in which they are written.
    Object(Vec<(String, Value)>),
}

#[allow(clippy::derivable_impls)] // deriving it needs Rust 1.62
impl Default for Value {
    fn default() -> Value {
        Value::Null
    }
}

static NULL: Value = Value::Null;

impl Value {
    /// Reads a text that is one JSON value.
    pub fn parse(json: &[u8]) -> Result<Value> {
        let mut r = Reader::new(json);
        let v = Value::read(&mut r);
        r.close()?;
        Ok(v)
    }

    /// Reads the value that comes next; null after a fault, which the reader keeps.
    pub fn read(r: &mut Reader) -> Value {
        match r.peek() {
            b'{' => {
                let mut members = Vec::new();
                r.object(|r, name| members.push((String::from(name), Value::read(r))));
                Value::Object(members)
            }
            b'[' => {
                let mut items = Vec::new();
                r.array(|r| items.push(Value::read(r)));
                Value::Array(items)
            }
            b'"' => Value::Text(r.string()),
            b'0' => Value::Number(String::from(r.raw())),
            b't' | b'f' => Value::Bool(r.boolean()),
            _ => {
                r.skip();
                Value::Null
            }
        }
    }

    /// A member of an object, the last of that name; null where there is none.
    pub fn get(&self, name: &str) -> &Value {
        self.members().iter().rev().find(|(n, _)| n == name).map_or(&NULL, |(_, v)| v)
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }

    /// Whether it is true.
    pub fn is_true(&self) -> bool {
        *self == Value::Bool(true)
    }

    /// The string that it is.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(s) => Some(s),
            _ => None,
        }
    }

    /// The number that it is; one too large becomes an infinity.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(s) => s.parse().ok(),
            _ => None,
        }
    }

    /// The elements of an array; none of anything else.
    pub fn items(&self) -> &[Value] {
        match self {
            Value::Array(items) => items,
            _ => &[],
        }
    }

    /// The members of an object; none of anything else.
    pub fn members(&self) -> &[(String, Value)] {
        match self {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    /// The value as JSON, spaced as Python's `json.dumps` does and chat
    /// templates therefore show it: `{"a": [1, 2]}`. Numbers are as they were
    /// written, characters beyond ASCII are not escaped.
    pub fn json(&self) -> String {
        let mut s = String::new();
        self.write(&mut s);
        s
    }

    fn write(&self, to: &mut String) {
        match self {
            Value::Null => to.push_str("null"),
            Value::Bool(b) => to.push_str(if *b { "true" } else { "false" }),
            Value::Number(n) => to.push_str(n),
            Value::Text(s) => quote(s, to),
            Value::Array(items) => {
                to.push('[');
                for (i, v) in items.iter().enumerate() {
                    to.push_str(if i > 0 { ", " } else { "" });
                    v.write(to);
                }
                to.push(']');
            }
            Value::Object(members) => {
                to.push('{');
                for (i, (name, v)) in members.iter().enumerate() {
                    to.push_str(if i > 0 { ", " } else { "" });
                    quote(name, to);
                    to.push_str(": ");
                    v.write(to);
                }
                to.push('}');
            }
        }
    }
}

/// Writes a string as JSON does.
pub(crate) fn quote(s: &str, to: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    to.push('"');
    for c in s.chars() {
        match c {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\u{8}' => to.push_str("\\b"),
            '\u{c}' => to.push_str("\\f"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            c if (c as u32) < 32 => {
                to.push_str("\\u00");
                to.push(HEX[c as usize >> 4] as char);
                to.push(HEX[c as usize & 15] as char);
            }
            c => to.push(c),
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_python_writes_it() {
        // json.dumps(json.loads(text), ensure_ascii=False), but that numbers stay as they are.
        for (text, want) in [
            (r#" {"a":[1,-2.50e-3,true,null],"b":{}} "#, r#"{"a": [1, -2.50e-3, true, null], "b": {}}"#),
            (r#""\u00e9\ud83d\ude00\u0001\u007f\n\t\b\f\r\"\\\/""#, "\"\u{e9}\u{1f600}\\u0001\u{7f}\\n\\t\\b\\f\\r\\\"\\\\/\""),
            ("[]", "[]"),
            ("false", "false"),
        ] {
            assert_eq!(Value::parse(text.as_bytes()).unwrap().json(), want, "{}", text);
        }
        for bad in ["", "{", "[1,]", "{\"a\":1} x", "\"\\x\"", "01"] {
            assert!(Value::parse(bad.as_bytes()).is_err(), "{}", bad);
        }
    }

    #[test]
    fn members() {
        let v = Value::parse(br#"{"a":{"b":["x",2.5]},"t":true,"a2":1,"t":false}"#).unwrap();
        let list = v.get("a").get("b").items();
        assert_eq!((list[0].text(), list[1].number(), list.len()), (Some("x"), Some(2.5), 2));
        assert!(!v.get("t").is_true() && v.get("none").get("b").is_null());
        assert_eq!((v.members().len(), v.get("a2").text(), v.get("a").number()), (4, None, None));
    }
}
