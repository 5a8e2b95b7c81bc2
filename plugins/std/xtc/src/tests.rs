use super::*;
use std::collections::BTreeSet;
use tgi_plugin::{mode, testing, testing::Sequence, Answer};

/// What llama.cpp excludes at probability 1, made by testdata/make_llama_cpp.py:
/// seed of the logits, threshold, excluded tokens.
const GOLDEN: &str = include_str!("../../testdata/xtc.txt");

/// The logits of make_llama_cpp.py, most likely first.
fn view(seed: u64, n: u32, span: u64) -> Vec<Entry> {
    let mut state = seed;
    let mut row: Vec<Entry> = (0..n)
        .map(|id| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            Entry { id, value: ((state >> 33) % (span * 65536)) as f32 / 65536.0 }
        })
        .collect();
    row.sort_by(|a, b| b.value.partial_cmp(&a.value).unwrap());
    row
}

#[test]
fn as_llama_cpp() {
    testing::vocabulary(&["a"; 40]);
    let mut excluding = 0;
    for line in GOLDEN.split_terminator('\n') {
        let f: Vec<f64> = line.split(' ').map(|w| w.parse().unwrap()).collect();
        let mut s = Sequence::<Exclude>::begin(&format!(r#"{{"probability":1,"threshold":{}}}"#, f[1]), &[]).unwrap();
        s.view = view(f[0] as u64, 40, 2 + f[0] as u64);
        let a = s.step(&[]).unwrap();
        let want: BTreeSet<u32> = f[2..].iter().map(|&id| id as u32).collect();
        assert_eq!(a.mode, if want.is_empty() { mode::PASS } else { mode::DENY });
        assert_eq!(a.ids.into_iter().collect::<BTreeSet<u32>>(), want, "{}", line);
        excluding += !want.is_empty() as usize;
    }
    assert!(excluding > 15, "{} lines of {} exclude", excluding, GOLDEN.lines().count());
}

fn step(words: &[&str], params: &str, probabilities: &[f32]) -> Answer {
    testing::vocabulary(words);
    let mut s = Sequence::<Exclude>::begin(params, &[]).unwrap();
    s.view = probabilities.iter().enumerate().map(|(id, p)| Entry { id: id as u32, value: p.ln() }).collect();
    s.step(&[]).unwrap()
}

#[test]
fn keeps_the_least_likely_top_choice() {
    let words = ["a", "b", "c", "d", "</s>", "\n"];
    let always = r#"{"probability":1}"#;
    assert_eq!(step(&words, always, &[0.5, 0.3, 0.15, 0.05]).ids, [0, 1]);
    assert_eq!(step(&words, always, &[0.95, 0.04, 0.01]).mode, mode::PASS);
    assert_eq!(step(&words, always, &[1.0]).mode, mode::PASS);
    assert_eq!(step(&words, always, &[0.6, 0.4, 0.0, 0.0]).ids, [0], "with tokens that are forbidden");
    assert_eq!(step(&words, r#"{"probability":1,"threshold":0.51}"#, &[0.5, 0.5]).mode, mode::PASS);
    assert_eq!(step(&words, r#"{"probability":0}"#, &[0.5, 0.5]).mode, mode::PASS);
}

#[test]
fn keeps_ends() {
    let always = r#"{"probability":1}"#;
    for word in ["</s>", "\n"] {
        assert_eq!(step(&["a", word, "b"], always, &[0.5, 0.3, 0.2]).mode, mode::PASS, "{:?}", word);
        assert_eq!(step(&["a", "b", word], always, &[0.5, 0.3, 0.2]).ids, [0, 1], "{:?} would stay", word);
    }
}

#[test]
fn as_often_as_asked() {
    testing::vocabulary(&["a", "b"]);
    let mut s = Sequence::<Exclude>::begin(r#"{"probability":0.3}"#, &[]).unwrap();
    s.view = [0, 1].map(|id| Entry { id, value: 0.0 }).to_vec();
    let n = (0..4000).filter(|_| s.step(&[]).unwrap().mode == mode::DENY).count();
    assert!((1050..1350).contains(&n), "{} of 4000", n); // 5 standard deviations around 1200
}

#[test]
fn refusals() {
    for (params, want) in [
        (r#"{"probability":1.5}"#, "probability: 1.5 is not from 0 to 1"),
        (r#"{"probability":true}"#, "probability: want a number from 0 to 1"),
        (r#"{"threshold":0}"#, "threshold: 0 is not from 0.01 to 1"),
        (r#"{"min_keep":1}"#, "unknown parameter: min_keep"),
    ] {
        assert_eq!(Sequence::<Exclude>::begin(params, &[]).err().as_deref(), Some(want));
        assert_eq!(init(params.as_bytes()), Err(want.into()));
    }
}
