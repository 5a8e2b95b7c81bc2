use super::*;
use std::cell::Cell;
use tgi_plugin::testing::{self, program};

thread_local!(static RUNS: Cell<usize> = Cell::new(0));

/// A model that says one, two, three in turns, and finds "two" right.
fn setup() {
    testing::vocabulary(&["Count", " one", " two", " three", "\n\nRight?\n", "yes", "no", "</s>"]);
    RUNS.with(|r| r.set(0));
    program::model(|_| {
        let n = RUNS.with(|r| r.replace(r.get() + 1));
        [" one", " two", " three"][n % 3].to_string()
    });
    program::likely(|before, word| match (before.contains("two"), word) {
        (true, "yes") | (false, "no") => -0.1,
        _ => -3.0,
    });
}

#[test]
fn the_best_is_sent() {
    setup();
    let out = program::run::<Judge>(r#"{"n":3,"question":"Right?"}"#, "Count").unwrap();
    assert_eq!(out, " two");
    assert_eq!(program::runs().len(), 3);
    assert!(program::runs()[0].contains("temperature"), "greedy answers would be the same");
}

#[test]
fn one_is_sent_as_it_is() {
    setup();
    assert_eq!(program::run::<Judge>(r#"{"n":1,"question":"Right?"}"#, "Count").unwrap(), " one");
    assert!(!program::runs()[0].contains("temperature"));
}

#[test]
fn parameters() {
    setup();
    let same = r#"`yes` and `no` are both "no": they must differ"#;
    for (params, want) in [
        (r#"{"n":0}"#, "n"),
        (r#"{"n":33}"#, "n"),
        (r#"{"m":1}"#, "unknown parameter: m"),
        (r#"{"yes":"no"}"#, same),
        (r#"{"yes":"no","no":"no"}"#, same),
    ] {
        let got = program::run::<Judge>(params, "Count").unwrap_err();
        assert!(got.contains(want), "{}: {}", params, got);
    }
}

#[test]
fn conversations_are_asked_as_such() {
    let messages = Value::parse(br#"[{"role":"user","content":"Hi"}]"#).unwrap();
    let got = conversation(&messages, "a \"b\"", "Right?");
    let v = Value::parse(got.as_bytes()).unwrap();
    assert_eq!(v.get("messages").items().len(), 3);
    assert_eq!(v.get("messages").items()[1].get("content").text(), Some("a \"b\""));
}
