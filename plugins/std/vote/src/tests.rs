use super::*;
use std::cell::Cell;
use tgi_plugin::testing::{self, program};

thread_local!(static RUNS: Cell<usize> = Cell::new(0));

fn model_says(answers: &'static [&'static str]) {
    testing::vocabulary(&["Sum", " I think", " Answer:", " 4", " 5", ".", "</s>"]);
    RUNS.with(|r| r.set(0));
    program::model(move |_| answers[RUNS.with(|r| r.replace(r.get() + 1)) % answers.len()].to_string());
}

#[test]
fn most_win() {
    model_says(&[" Answer: 5", " I think Answer: 4", " Answer: 4."]);
    let out = program::run::<Vote>(r#"{"n":3,"marker":"Answer:"}"#, "Sum").unwrap();
    assert_eq!(out, " I think Answer: 4");
    model_says(&[" 5", " 4", " 5."]);
    assert_eq!(program::run::<Vote>(r#"{"n":3}"#, "Sum").unwrap(), " 5");
}

#[test]
fn the_first_of_equals_wins() {
    assert_eq!(ranking(&["a", "b", "B", "A"]), [0, 1, 2, 3]);
    assert_eq!(ranking(&["a", "b", "B"]), [1, 2, 0]);
    assert_eq!(ranking(&["x"]), [0]);
}

#[test]
fn parameters() {
    model_says(&[" 4"]);
    assert!(program::run::<Vote>(r#"{"n":99}"#, "Sum").unwrap_err().contains("n"));
    assert!(program::run::<Vote>(r#"{"k":1}"#, "Sum").unwrap_err().contains("unknown parameter: k"));
}
