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
fn written_in_pieces() {
    // A text that is right is looked at after 4, 12 and 28 tokens; one that goes wrong at the sixth is cut there.
    testing::vocabulary(&["?", "[", "1", ", ", "]", "x", "</s>"]);
    let text = |n: usize| {
        let mut all = "[1".to_string();
        (1..n).for_each(|_| all += ", 1");
        all + "]"
    };
    program::model(move |before| text(7)[before.len() - 1..].to_string());
    let params = format!(r#"{{"schema":{}}}"#, text(7));
    assert_eq!(program::run::<Repair>(&params, "?").unwrap(), text(7));
    let runs = program::runs();
    assert_eq!(runs.len(), 4, "{:?}", runs); // 4, 8, the end of 15, and the grammar's end
    assert!(runs[0].contains("\"max_tokens\":4") && runs[1].contains("\"max_tokens\":8"), "{:?}", runs);

    let wrong = std::cell::Cell::new(true);
    program::model(move |before| match before.len() {
        6 if wrong.replace(false) => "x, 1, 1".to_string(),
        n => text(7)[n - 1..].to_string(),
    });
    assert_eq!(program::run::<Repair>(&params, "?").unwrap(), text(7));
    assert!(program::runs().len() <= 6, "{:?}", program::runs());
}

#[test]
fn parameters() {
    testing::vocabulary(&["?", "</s>"]);
    program::model(|_| String::new());
    assert!(program::run::<Repair>(r#"{"held":0}"#, "?").unwrap_err().contains("held"));
}

#[test]
fn the_requests_grammar() {
    let text = |before: &str| match before {
        "?" => "{\"a\": 2 oops".to_string(), // the request wants 1
        "?{\"a\": " => "1}".to_string(),
        _ => String::new(),
    };
    testing::vocabulary(&["?", "{\"a\": ", "1", "2", "}", " oops", "</s>"]);
    program::model(text);
    program::grammar("{\"a\": 1}");
    assert_eq!(program::run::<Repair>("{}", "?").unwrap(), "{\"a\": 1}");
    let runs = program::runs();
    assert!(runs[0].contains("\"grammar\":null"), "{:?}", runs);
    assert_eq!(runs[1], r#"{"grammar_from":1,"max_tokens":8}"#);
    program::model(text);
    program::grammar("{\"a\": 1}");
    let both = program::run::<Repair>(r#"{"schema":{"a":1}}"#, "?").unwrap_err();
    assert!(both.contains("schema") && both.contains("response_format"), "{}", both);
    assert!(program::runs().is_empty());
}
