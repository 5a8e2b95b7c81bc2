//! Builds in advance what most schemas have in common: the expressions of JSON's strings and
//! numbers, of formats and of common patterns. The plugin does this before the snapshot, so that
//! requests find them cached.

use crate::build::Builder;
use crate::re::Pool;
use crate::{json, schema, Options};

// Each represents the expressions of similar schemas. No enumerations: a pool stores them as lists
// of words, which rarely occur again.
const SAMPLES: &[&str] = &[
    "true",
    r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"}},"required":["a"],"additionalProperties":false}"#,
    r#"{"type":"array","items":{"type":"integer","minimum":0},"minItems":1}"#,
    r#"{"type":"integer","minimum":1,"maximum":100}"#,
    r#"{"type":"number","minimum":0}"#,
    r#"{"type":"number","minimum":0,"maximum":1}"#,
    r#"{"type":"number","exclusiveMinimum":0}"#,
    r#"{"type":"string","minLength":1,"maxLength":100}"#,
    r#"{"type":"string","format":"date-time"}"#,
    r#"{"type":"string","format":"date"}"#,
    r#"{"type":"string","format":"time"}"#,
    r#"{"type":"string","format":"email"}"#,
    r#"{"type":"string","format":"uuid"}"#,
    r#"{"type":"string","format":"uri"}"#,
    r#"{"type":"string","pattern":"^[A-Za-z0-9_]+$"}"#,
    r#"{"type":"string","pattern":"^\\d{4}-[a-z][0-9A-Z]*\\s?\\w+.$"}"#,
];

/// A pool with these expressions. A compilation with this pool finds them by their shape, like
/// those that it built itself.
pub fn pool() -> Pool {
    let o = Options::default();
    let mut b = Builder::default();
    for text in SAMPLES {
        // Each compilation numbers the expressions of its grammar from 0.
        b = Builder::over(b.p);
        let made = json::parse(text).and_then(|v| schema::compile(std::mem::take(&mut b), &v, &o, &mut Vec::new()));
        if let Ok((mut made, _)) = made {
            // Encoding checks which terminals match some text.
            made.productive();
            b = made;
        }
    }
    b.p.freeze();
    b.p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_schemas_and_what_they_need_is_there() {
        let mut b = Builder::over(pool());
        for text in SAMPLES {
            let before = b.p.len();
            let (made, _) =
                schema::compile(b, &json::parse(text).unwrap(), &Options::default(), &mut Vec::new()).unwrap();
            assert_eq!(made.p.len(), before, "{}", text);
            b = Builder::over(made.p);
        }
    }
}
