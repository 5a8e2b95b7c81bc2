use super::*;
use tgi_plugin::program::Calls;
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

/// Without a hint the end of the thoughts stands alone; without one of the request the default is there.
#[test]
fn an_empty_hint_tells_nothing() {
    for (params, want) in [
        (r#"{"budget":2,"hint":""}"#, " hm hm\n four"),
        (r#"{"budget":2}"#, " hm hm\nTime is up.\n\n four"),
    ] {
        testing::vocabulary(&["Q", " hm", "</think>", "\n", "\nTime is up.\n", " four", "</s>"]);
        program::model(|before| if before.ends_with('Q') { " hm hm hm</think> four".to_string() } else { " four".to_string() });
        assert_eq!(program::run::<Budget>(params, "Q").unwrap(), want);
        program::grammar(" four");
        assert_eq!(program::run::<Budget>(params, "Q").unwrap(), " four");
    }
}

#[test]
fn held_to_the_requests_grammar() {
    for (params, thought) in [(r#"{"budget":20}"#, " hm hm hm"), (r#"{"budget":2,"hint":"Stop."}"#, " hm hmStop.")] {
        setup();
        let before = format!("Q{}\n", thought);
        program::model(move |b| if b == before { " four".to_string() } else { " hm hm hm</think> hm".to_string() });
        program::grammar(" four");
        assert_eq!(program::run::<Budget>(params, "Q").unwrap(), " four"); // the thoughts stay here
        let runs = program::runs();
        assert!(runs.len() == 2 && runs[0].contains("\"grammar\":null") && !runs[0].contains("emit"), "{:?}", runs);
        assert_eq!(runs[1], r#"{"emit":true}"#);
    }
}

#[test]
fn no_marker_no_thoughts() {
    testing::vocabulary(&["Q", " four", "<", "/think>", "\n", "Stop.", "</s>"]);
    program::model(|_| " four four".to_string());
    assert_eq!(program::run::<Budget>(r#"{"budget":1,"hint":"Stop."}"#, "Q").unwrap(), " four four");
    assert_eq!(program::runs(), [r#"{"emit":true}"#]);
    let named = program::run::<Budget>(r#"{"budget":1,"hint":"Stop.","end":"</think>"}"#, "Q").unwrap();
    assert_eq!(named, " fourStop.</think>\n four four");
}

/// Where the budget ends inside a call of a tool, or of what may be one, that is finished. Behind a call nothing is put.
#[test]
fn finishes_calls() {
    for (said, want) in [
        (" [tool] x x x[/tool]", " [tool] x x x[/tool]"), // the model ends its text there
        (" [tool] x x[/tool] 4 4 4", " [tool] x x[/tool] 4 4 4"), // and here it goes on
        (" [ x x x", " [ xStop.\n 4"),
        (" [</think> x", " [ x"), // thoughts that come to an end meanwhile
        (" x x x", " xStop.\n 4"),
    ] {
        testing::vocabulary(&["Q", " [", "tool]", " x", "[/tool]", " 4", "Stop.", "\n", "</think>", "</s>"]);
        program::model(move |text| match text.contains("Stop") {
            true => " 4".to_string(),
            false => said.strip_prefix(&text[1..]).unwrap().to_string(),
        });
        program::calls(|text| match () {
            _ if text.ends_with("[/tool]") || text.ends_with(" 4") => Calls::Made,
            _ if text.ends_with(" [") || text.contains("tool]") => Calls::Open,
            _ => Calls::None,
        });
        assert_eq!(program::run::<Budget>(r#"{"budget":1,"hint":"Stop."}"#, "Q").unwrap(), want);
    }
}
