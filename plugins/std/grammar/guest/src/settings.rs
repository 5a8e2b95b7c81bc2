//! The settings of the plugin: the configuration sets them for all requests, a
//! request's parameters for itself.

use compiler::json::Value;
use compiler::schema::Draft;
use compiler::{Options, Whitespace};

/// The JSON Schema of the settings, for people.
pub const SCHEMA: &str = concat!(
    r#"{"type":"object","additionalProperties":false,"properties":{"#,
    r#""whitespace":{"description":"White space in JSON: none, at most one space around punctuation, or also line ends with indentation.","enum":["compact","space","flexible"],"default":"flexible"},"#,
    r#""indent":{"description":"Most spaces or tabs behind a line end, where whitespace is flexible.","type":"integer","minimum":0,"maximum":100,"default":20},"#,
    r#""lenient":{"description":"Leave out what cannot be enforced, and list it, instead of refusing it.","type":"boolean","default":false},"#,
    r#""formats":{"description":"Enforce format.","type":"boolean","default":true},"#,
    r#""draft":{"description":"Draft of schemas that do not name theirs.","enum":["7","2019-09","2020-12"],"default":"2020-12"}}}"#
);

/// Most spaces behind a line end that can be asked for.
const MAX_INDENT: u32 = 100;

/// Reads the members of `v`, an object, over what `o` says.
pub fn read(mut o: Options, v: &Value) -> Result<Options, String> {
    let members = match v {
        Value::Obj(m) => m,
        other => return Err(format!("want an object, got {}", other.kind())),
    };
    let mut indent = None;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("lenient", Value::Bool(b)) => o.lenient = *b,
            ("formats", Value::Bool(b)) => o.formats = *b,
            ("indent", Value::Num(n)) => indent = Some(whole(n)?),
            ("whitespace", Value::Str(s)) => o.whitespace = whitespace(s)?,
            ("draft", Value::Str(s)) => o.draft = draft(s)?,
            ("lenient" | "formats" | "indent" | "whitespace" | "draft", other) => {
                return Err(format!("{}: {} is not what it takes", name, other.kind()))
            }
            _ => return Err(format!("unknown setting {:?}: draft, formats, indent, lenient and whitespace are known", name)),
        }
    }
    match (indent, &mut o.whitespace) {
        (Some(n), Whitespace::Flexible { indent }) => *indent = n,
        (Some(_), _) => return Err("indent goes together with whitespace \"flexible\" alone".into()),
        _ => {}
    }
    Ok(o)
}

fn whitespace(s: &str) -> Result<Whitespace, String> {
    match s {
        "compact" => Ok(Whitespace::Compact),
        "space" => Ok(Whitespace::Space),
        "flexible" => Ok(Whitespace::Flexible { indent: 20 }),
        _ => Err(format!("whitespace {:?} is none of compact, space and flexible", s)),
    }
}

fn draft(s: &str) -> Result<Draft, String> {
    match s {
        "7" => Ok(Draft::Seven),
        "2019-09" => Ok(Draft::Nineteen),
        "2020-12" => Ok(Draft::Current),
        _ => Err(format!("draft {:?} is none of 7, 2019-09 and 2020-12", s)),
    }
}

fn whole(n: &str) -> Result<u32, String> {
    match n.parse() {
        Ok(n) if n <= MAX_INDENT => Ok(n),
        _ => Err(format!("indent {} is no whole number from 0 to {}", n, MAX_INDENT)),
    }
}
