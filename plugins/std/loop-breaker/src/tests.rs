use tgi_plugin::guard::{reason, verdict};
use tgi_plugin::testing::{self, Watched};

use super::*;

fn watch(params: &str) -> Watched<Breaker> {
    let words: Vec<String> = (0..64).map(|i| format!("{} ", i)).collect();
    testing::vocabulary(&words.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    Watched::begin(params, &[1, 2]).unwrap()
}

/// Writes rounds until one is taken back; returns how many tokens are left, and how many went out.
fn rounds(params: &str, round: &[u32], before: &[u32]) -> (usize, usize) {
    let mut w = watch(params);
    for &t in before {
        w.push(t, reason::NONE).unwrap();
    }
    for i in 0..2000 {
        let v = w.push(round[i % round.len()], reason::NONE).unwrap();
        let shown = w.shown.split_whitespace().count();
        assert!(shown < before.len() + round.len() + FEW, "a second round of {:?} is out: {}", round, w.shown);
        if v.kind == verdict::REWIND {
            return (w.output().len(), shown);
        }
    }
    panic!("{:?} goes on", round);
}

#[test]
fn breaks_every_loop() {
    for period in 1..=60u32 {
        let round: Vec<u32> = (0..period).collect();
        let before = [63, 62, 61];
        let (left, shown) = rounds("{}", &round, &before);
        assert!(shown <= left && left < before.len() + round.len() + FEW, "period {}: {}", period, left);
    }
}

#[test]
fn leaves_others_alone() {
    let mut w = watch("{}");
    // twice the same is no loop, nor is what differs in one token
    for i in 0..400u32 {
        let t = if i % 20 < 19 { i % 20 } else { 20 + i / 20 };
        let v = w.push(t, reason::NONE).unwrap();
        assert_eq!(v.kind, verdict::RELEASE, "token {}", i);
    }
    assert_eq!(w.shown.split_whitespace().count(), 400);
}

/// The token that broke the loop, and then the loop again: it is broken again.
#[test]
fn breaks_again() {
    let mut w = watch(r#"{"tokens":4}"#);
    let mut back = 0;
    for i in 0..300u32 {
        let t = if i % 50 == 49 { 50 + i / 50 } else { i % 2 };
        back += (w.push(t, reason::NONE).unwrap().kind == verdict::REWIND) as u32;
    }
    assert!(back > 30, "{}", back);
    assert!(w.shown.split_whitespace().count() < 120);
}

#[test]
fn refuses() {
    for (params, want) in [(r#"{"rounds":1}"#, "rounds: 1 is not a whole number from 2 to 64"), (r#"{"n":1}"#, "unknown parameter: n")] {
        let got = Breaker::begin(params.as_bytes(), &[]).err().unwrap();
        assert!(got.contains(want), "{}: {}", params, got);
    }
}
