//! Reads the members of formats: texts, tokens, counts.

use crate::error::{Error, Result};
use crate::json::Value;
use crate::re::MANY;

/// A token, by its text or by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Text(String),
    Id(u32),
}

/// What a tag begins or ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    Text(String),
    Token(Token),
}

/// Where free text in a format ends.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    /// Before these texts. Of a token, its text: should the vocabulary count it as
    /// an ordinary one, it is no part of free text either.
    pub texts: Vec<String>,
    /// Before these tokens, where the format counts in tokens.
    pub tokens: Vec<Token>,
}

impl Stops {
    pub fn of(marks: &[Mark]) -> Stops {
        let mut s = Stops::default();
        for m in marks {
            if let Mark::Token(t) = m {
                s.tokens.push(t.clone());
            }
            s.texts.extend(m.spelt().map(String::from));
        }
        s
    }
}

impl Mark {
    /// Its text, unless there is none or it is empty.
    pub fn spelt(&self) -> Option<&str> {
        match self {
            Mark::Text(t) | Mark::Token(Token::Text(t)) if !t.is_empty() => Some(t),
            _ => None,
        }
    }

    /// How errors name it.
    pub fn shown(&self) -> String {
        match self {
            Mark::Text(t) => format!("{:?}", t),
            Mark::Token(Token::Text(t)) => format!("the token {:?}", t),
            Mark::Token(Token::Id(id)) => format!("the token {}", id),
        }
    }
}

/// The member's value, or the error that it is missing.
pub fn member<'v>(v: &'v Value, at: &str, k: &str) -> Result<&'v Value> {
    v.get(k).ok_or_else(|| Error::pointer(at, k, "is missing"))
}

pub fn text<'v>(v: &'v Value, at: &str, k: &str) -> Result<&'v str> {
    match member(v, at, k)? {
        Value::Str(s) => Ok(s),
        other => Err(Error::pointer(at, k, format!("want a string, got {}", other.kind()))),
    }
}

/// Strings, none of them empty; none where the member is missing.
pub fn words(v: &Value, at: &str, k: &str) -> Result<Vec<String>> {
    let list = match v.get(k) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Arr(list)) => list.iter().collect(),
        Some(v) => vec![v],
    };
    let word = |v: &Value| match v {
        Value::Str(s) if !s.is_empty() => Ok(s.clone()),
        Value::Str(_) => Err(Error::pointer(at, k, "an empty string is in every text")),
        v => Err(Error::pointer(at, k, format!("want strings, got {}", v.kind()))),
    };
    list.into_iter().map(word).collect()
}

pub fn items<'v>(v: &'v Value, at: &str, k: &str) -> Result<&'v [Value]> {
    match member(v, at, k)? {
        Value::Arr(items) => Ok(items),
        other => Err(Error::pointer(at, k, format!("want an array, got {}", other.kind()))),
    }
}

pub fn flag(v: &Value, at: &str, k: &str, default: bool) -> Result<bool> {
    match v.get(k) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(b)) => Ok(*b),
        Some(other) => Err(Error::pointer(at, k, format!("want a boolean, got {}", other.kind()))),
    }
}

/// A count; None where there is no bound, which XGrammar writes null or -1.
pub fn count(v: &Value, at: &str, k: &str) -> Result<Option<u32>> {
    match v.get(k) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Num(n)) if n == "-1" => Ok(Some(MANY)),
        Some(Value::Num(n)) => match n.parse::<u32>() {
            Ok(n) if n <= crate::scan::MAX_COUNT => Ok(Some(n)),
            _ => Err(Error::pointer(at, k, format!("want a whole number up to {}, got {}", crate::scan::MAX_COUNT, n))),
        },
        Some(other) => Err(Error::pointer(at, k, format!("want a number, got {}", other.kind()))),
    }
}

/// A token: its text or its id.
pub fn token(v: &Value, at: &str, k: &str) -> Result<Token> {
    match v {
        Value::Str(s) if s.is_empty() => Err(Error::pointer(at, k, "the text of a token is not empty")),
        Value::Str(s) if s.len() > MAX_TOKEN => {
            Err(Error::pointer(at, k, format!("the text of a token has at most {} bytes, got {}", MAX_TOKEN, s.len())))
        }
        Value::Str(s) => Ok(Token::Text(s.clone())),
        Value::Num(n) => match n.parse::<u32>() {
            Ok(id) if id <= MAX_ID => Ok(Token::Id(id)),
            _ => Err(Error::pointer(at, k, format!("want the id of a token, 0 to {}, got {}", MAX_ID, n))),
        },
        v => Err(Error::pointer(at, k, format!("want the text or the id of a token, got {}", v.kind()))),
    }
}

// The bounds of the form that is written.
const MAX_TOKEN: usize = 256;
const MAX_ID: u32 = i32::MAX as u32;

/// A list of tokens; none where the member is missing.
pub fn tokens(v: &Value, at: &str, k: &str) -> Result<Vec<Token>> {
    match v.get(k) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Arr(list)) => list.iter().map(|t| token(t, at, k)).collect(),
        Some(v) => Err(Error::pointer(at, k, format!("want an array, got {}", v.kind()))),
    }
}

/// A text, or `{"type": "token", "token": ...}`.
pub fn mark(v: &Value, at: &str, k: &str) -> Result<Mark> {
    match v {
        Value::Str(s) => Ok(Mark::Text(s.clone())),
        Value::Obj(_) if v.get("type").map_or(true, |t| t.as_str() == Some("token")) => {
            let inner = format!("{}/{}", at, k);
            Ok(Mark::Token(token(member(v, &inner, "token")?, &inner, "token")?))
        }
        v => Err(Error::pointer(at, k, format!("want a string or a format of type \"token\", got {}", v.kind()))),
    }
}

/// One mark, or a list of several.
pub fn marks(v: &Value, at: &str, k: &str) -> Result<Vec<Mark>> {
    match member(v, at, k)? {
        Value::Arr(list) if list.is_empty() => Err(Error::pointer(at, k, "want at least one")),
        Value::Arr(list) => {
            let at = format!("{}/{}", at, k);
            list.iter().enumerate().map(|(i, m)| mark(m, &at, &i.to_string())).collect()
        }
        v => Ok(vec![mark(v, at, k)?]),
    }
}
