//! The settings of the plugin: the configuration sets them for all requests, a
//! request's parameters for itself.

/// The JSON Schema of the settings, for people.
pub const SCHEMA: &str = concat!(
    r#"{"type":"object","additionalProperties":false,"properties":{"#,
    r#""whitespace":{"description":"White space in JSON: none, at most one space around punctuation, or also line ends with indentation.","enum":["compact","space","flexible"],"default":"flexible"},"#,
    r#""indent":{"description":"Most spaces or tabs behind a line end, where whitespace is flexible.","type":"integer","minimum":0,"maximum":200,"default":20},"#,
    r#""lenient":{"description":"Leave out what cannot be enforced, and list it, instead of refusing it.","type":"boolean","default":false},"#,
    r#""formats":{"description":"Enforce format.","type":"boolean","default":true},"#,
    r#""x-order":{"description":"Order of an object's members: that of the schema, or any.","enum":["schema","any"],"default":"schema"},"#,
    r#""draft":{"description":"Draft of schemas that do not name theirs.","enum":["7","2019-09","2020-12"],"default":"2020-12"}}}"#
);
