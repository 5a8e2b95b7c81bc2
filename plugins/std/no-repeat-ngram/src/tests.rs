use super::*;
use tgi_plugin::{mode, testing::Sequence};

/// What transformers denies; made by testdata/make_no_repeat_ngram.py.
const GOLDEN: &str = include_str!("../../testdata/no_repeat_ngram.txt");

fn sorted(mut ids: Vec<u32>) -> Vec<u32> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn as_transformers() {
    let mut lines = GOLDEN.split_terminator('\n').map(|l| l.split_whitespace().map(|w| w.parse().unwrap()).collect::<Vec<u32>>());
    let mut cases = 0;
    while let Some(case) = lines.next() {
        let (n, prompt, tokens) = (case[0], case[1] as usize, &case[2..]);
        let params = format!(r#"{{"n":{}}}"#, n);
        // Once token by token, once with the rest at once, as after forced tokens.
        let mut s = Sequence::<NoRepeat>::begin(&params, &tokens[..prompt]).unwrap();
        let mut last = Vec::new();
        for at in prompt..=tokens.len() {
            let a = s.step(if at == prompt { &[] } else { &tokens[at - 1..at] }).unwrap();
            last = lines.next().unwrap();
            assert_eq!(a.mode, if last.is_empty() { mode::PASS } else { mode::DENY });
            assert_eq!(sorted(a.ids), last, "n {} at {} of {:?}", n, at, tokens);
        }
        let mut s = Sequence::<NoRepeat>::begin(&params, &tokens[..prompt]).unwrap();
        s.step(&[]).unwrap();
        assert_eq!(sorted(s.step(&tokens[prompt..]).unwrap().ids), last);
        cases += 1;
    }
    assert_eq!(cases, 24);
}

/// The definition, by looking at every position.
fn scan(n: usize, tokens: &[u32]) -> Vec<u32> {
    let mut ids = Vec::new();
    if tokens.len() + 1 >= n {
        let last = &tokens[tokens.len() + 1 - n..];
        ids = tokens.windows(n).filter(|w| &w[..n - 1] == last).map(|w| w[n - 1]).collect();
    }
    sorted(ids)
}

#[test]
fn as_a_scan() {
    let mut seed = 7u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((seed >> 33) % below) as u32
    };
    for n in [1, 2, 3, 5, 8, 64] {
        for vocabulary in [1, 2, 40, 100_000] {
            let tokens: Vec<u32> = (0..700).map(|_| draw(vocabulary)).collect();
            let mut index = Index::new(n);
            for at in (0..=tokens.len()).step_by(7) {
                let mut ids = Vec::new();
                index.extend(&tokens[..at], 0);
                index.continuations(&tokens[..at], &mut ids);
                assert_eq!(sorted(ids), scan(n, &tokens[..at]), "n {} of {} at {}", n, vocabulary, at);
            }
        }
    }
}

/// What a sequence was taken back to is as if nothing had followed.
#[test]
fn taken_back() {
    let mut seed = 5u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    for n in [1, 2, 3, 5, 64] {
        for vocabulary in [1, 2, 40] {
            let mut tokens: Vec<u32> = (0..20).map(|_| draw(vocabulary) as u32).collect();
            let mut s = Sequence::<NoRepeat>::begin(&alloc::format!(r#"{{"n":{}}}"#, n), &tokens).unwrap();
            for _ in 0..300 {
                let left = if draw(3) == 0 { 20 + draw(tokens.len() - 19) } else { tokens.len() };
                tokens.truncate(left);
                tokens.extend((0..1 + draw(3)).map(|_| draw(vocabulary) as u32));
                let got = sorted(s.step_back(left, &tokens[left..]).unwrap().ids);
                assert_eq!(got, scan(n, &tokens), "n {} of {} at {}", n, vocabulary, tokens.len());
            }
        }
    }
}

#[test]
fn without_prompt() {
    let mut s = Sequence::<NoRepeat>::begin(r#"{"n":2,"prompt":false}"#, &[1, 2, 1]).unwrap();
    assert_eq!(s.step(&[]).unwrap().mode, mode::PASS);
    assert_eq!(s.step(&[1]).unwrap().mode, mode::PASS, "a run that began in the prompt counted");
    assert_eq!(s.step(&[3, 1]).unwrap().ids, [3]);
}

#[test]
fn refusals() {
    for (params, want) in [
        (r#"{"n":0}"#, "n: 0 is not a whole number from 1 to 64"),
        (r#"{"n":65}"#, "n: 65 is not a whole number from 1 to 64"),
        (r#"{"n":"3"}"#, "n: want a whole number from 1 to 64"),
        (r#"{"prompt":0}"#, "prompt: want true or false"),
        (r#"{"ngram":3}"#, "unknown parameter: ngram"),
    ] {
        assert_eq!(Sequence::<NoRepeat>::begin(params, &[]).err().as_deref(), Some(want));
        assert_eq!(init(params.as_bytes()), Err(want.into()));
    }
}
