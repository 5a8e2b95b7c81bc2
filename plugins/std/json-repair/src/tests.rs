use super::*;
use tgi_plugin::testing::{self, program};

/// The tests' host knows one grammar: its source, literally.
#[test]
fn mistakes_are_taken_back() {
    testing::vocabulary(&["?", "{\"a\": ", "1", "2", "}", " oops", "</s>"]);
    program::model(|before| match before {
        "?" => "{\"a\": 2 oops".to_string(), // the schema wants 1
        "?{\"a\": " => "1}".to_string(),
        _ => String::new(),
    });
    let out = program::run::<Repair>(r#"{"schema":{"a":1}}"#, "?").unwrap();
    assert_eq!(out, "{\"a\": 1}");
    let runs = program::runs();
    assert!(runs[0].contains("\"grammar\":null") && runs[1].contains("\"grammar_from\":1"), "{:?}", runs);
    assert!(runs[1].contains("\"max_tokens\":8"), "{:?}", runs);
}

#[test]
fn what_is_right_stays() {
    testing::vocabulary(&["?", "{\"a\": ", "1", "}", "</s>"]);
    program::model(|before| if before == "?" { "{\"a\": 1}".to_string() } else { String::new() });
    assert_eq!(program::run::<Repair>(r#"{"schema":{"a":1}}"#, "?").unwrap(), "{\"a\": 1}");
    assert_eq!(program::runs().len(), 2, "one freely, one for the end");
}

#[test]
fn parameters() {
    testing::vocabulary(&["?", "</s>"]);
    program::model(|_| String::new());
    assert!(program::run::<Repair>(r#"{"held":0}"#, "?").unwrap_err().contains("held"));
}
