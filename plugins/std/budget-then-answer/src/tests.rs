use super::*;
use tgi_plugin::testing::{self, program};

fn setup() {
    testing::vocabulary(&["Q", " hm", "</think>", "\n", "Stop.", " four", "</s>"]);
    program::model(|before| {
        if before.ends_with('Q') {
            " hm hm hm</think> four".to_string()
        } else {
            " four".to_string()
        }
    });
}

#[test]
fn thoughts_end_in_time() {
    setup();
    program::run::<Budget>(r#"{"budget":20}"#, "Q").unwrap();
    let runs = program::runs();
    assert_eq!(runs.len(), 2);
    assert!(runs[0].contains("\"max_tokens\":20") && runs[0].contains("\"stop\":[\"</think>\"]"), "{}", runs[0]);
    assert!(runs.iter().all(|r| r.contains("\"emit\":true")), "{:?}", runs);
}

#[test]
fn time_is_up() {
    setup();
    let out = program::run::<Budget>(r#"{"budget":2,"hint":"Stop."}"#, "Q").unwrap();
    assert_eq!(out, " hm hmStop.\n four"); // the end of the thoughts is a special token, so it is not shown
    assert!(program::runs()[1].contains("emit"));
}
