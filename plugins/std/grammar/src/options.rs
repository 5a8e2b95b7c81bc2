//! Compiler options, and reading them from a plugin's configuration.

use crate::error::{Error, Result};
use crate::json::{self, Value};
use crate::schema::Draft;

/// White space in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whitespace {
    /// None.
    Compact,
    /// At most one space around punctuation, as TGI.
    Space,
    /// Around punctuation at most one space, or a line end and at most so many spaces or tabs.
    Flexible {
        /// Most spaces or tabs behind a line end.
        indent: u32,
    },
}

/// Compiler options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// White space in JSON.
    pub whitespace: Whitespace,
    /// Leave out what cannot be enforced instead of refusing it.
    pub lenient: bool,
    /// Whether `format` is enforced.
    pub formats: bool,
    /// Whether members of objects come in any order; otherwise in that of the schema.
    pub any_order: bool,
    /// The draft of schemas that do not name theirs.
    pub draft: Draft,
}

/// Most spaces or tabs of an indent.
pub const MAX_INDENT: u32 = 200;

impl Default for Options {
    fn default() -> Self {
        Options {
            whitespace: Whitespace::Flexible { indent: 20 },
            lenient: false,
            formats: true,
            any_order: false,
            draft: Draft::Current,
        }
    }
}

impl Options {
    /// These options with the changes of a JSON object: `whitespace` ("compact", "space",
    /// "flexible"), `indent` (0 to 200, of flexible), `lenient`, `formats` (booleans), `x-order`
    /// ("schema", "any"), `draft` ("7", "2019-09", "2020-12"). Other members are an error.
    pub fn with(&self, text: &str) -> Result<Options> {
        match json::parse(text)? {
            Value::Obj(m) => self.with_members(&m),
            v => Err(Error::whole(format!("want an object, got {}", v.kind()))),
        }
    }

    /// The same with the members of an object.
    pub fn with_members(&self, members: &[(String, Value)]) -> Result<Options> {
        let mut o = self.clone();
        let mut indent = None;
        for (k, v) in members {
            let wrong = |want: &str| Error::whole(format!("{}: want {}, got {}", k, want, shown(v)));
            match (k.as_str(), v) {
                ("whitespace", Value::Str(s)) if s == "compact" => o.whitespace = Whitespace::Compact,
                ("whitespace", Value::Str(s)) if s == "space" => o.whitespace = Whitespace::Space,
                ("whitespace", Value::Str(s)) if s == "flexible" => {
                    if !matches!(o.whitespace, Whitespace::Flexible { .. }) {
                        o.whitespace = Options::default().whitespace;
                    }
                }
                ("whitespace", _) => return Err(wrong("\"compact\", \"space\" or \"flexible\"")),
                ("indent", Value::Num(n)) => match n.parse::<u32>() {
                    Ok(n) if n <= MAX_INDENT => indent = Some(n),
                    _ => return Err(wrong(&format!("a whole number up to {}", MAX_INDENT))),
                },
                ("indent", _) => return Err(wrong("a number")),
                ("lenient", Value::Bool(b)) => o.lenient = *b,
                ("formats", Value::Bool(b)) => o.formats = *b,
                ("lenient" | "formats", _) => return Err(wrong("true or false")),
                ("x-order", Value::Str(s)) if s == "schema" || s == "any" => o.any_order = s == "any",
                ("x-order", _) => return Err(wrong("\"schema\" or \"any\"")),
                ("draft", Value::Str(s)) if s == "7" => o.draft = Draft::Seven,
                ("draft", Value::Str(s)) if s == "2019-09" => o.draft = Draft::Nineteen,
                ("draft", Value::Str(s)) if s == "2020-12" => o.draft = Draft::Current,
                ("draft", _) => return Err(wrong("\"7\", \"2019-09\" or \"2020-12\"")),
                _ => return Err(Error::whole(format!("unknown option: {}", k))),
            }
        }
        match (indent, &mut o.whitespace) {
            (Some(n), Whitespace::Flexible { indent }) => *indent = n,
            (Some(_), _) => return Err(Error::whole("indent: only flexible white space has one")),
            _ => {}
        }
        Ok(o)
    }
}

/// A value in an error text.
pub(crate) fn shown(v: &Value) -> String {
    match v {
        Value::Str(s) => format!("{:?}", s),
        Value::Num(n) => n.clone(),
        v => v.kind().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there() {
        let d = Options::default();
        assert_eq!(d.with("{}").unwrap(), d);
        let o = d.with(r#"{"whitespace":"compact","lenient":true,"formats":false,"draft":"7","x-order":"any"}"#).unwrap();
        let want = Options {
            whitespace: Whitespace::Compact,
            lenient: true,
            formats: false,
            any_order: true,
            draft: Draft::Seven,
        };
        assert_eq!(o, want);
        assert_eq!(
            o.with(r#"{"whitespace":"flexible","indent":4}"#).unwrap().whitespace,
            Whitespace::Flexible { indent: 4 }
        );
        assert_eq!(d.with(r#"{"whitespace":"space"}"#).unwrap().whitespace, Whitespace::Space);
    }

    #[test]
    fn refuses_the_rest() {
        for (text, want) in [
            ("[]", "want an object, got an array"),
            (r#"{"whitespace":"none"}"#, "whitespace: want \"compact\", \"space\" or \"flexible\", got \"none\""),
            (r#"{"indent":201}"#, "indent: want a whole number up to 200, got 201"),
            (r#"{"whitespace":"compact","indent":2}"#, "indent: only flexible white space has one"),
            (r#"{"lenient":1}"#, "lenient: want true or false, got 1"),
            (r#"{"draft":"4"}"#, "draft: want \"7\", \"2019-09\" or \"2020-12\", got \"4\""),
            (r#"{"x-order":true}"#, "x-order: want \"schema\" or \"any\", got a boolean"),
            (r#"{"strict":true}"#, "unknown option: strict"),
        ] {
            assert_eq!(Options::default().with(text).unwrap_err().to_string(), want);
        }
    }
}
