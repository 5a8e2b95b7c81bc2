use super::*;
use tgi_plugin::testing;

/// What llama.cpp does, made by testdata/make_llama_cpp.py: seed of the logits,
/// tau, eta, and for every step how many candidates it keeps : which it takes.
const GOLDEN: &str = include_str!("../../testdata/mirostat.txt");

fn candidates(logits: &[f32]) -> Vec<Candidate> {
    let sum: f64 = logits.iter().map(|&l| (l as f64).exp()).sum();
    let one = |(id, &logit): (usize, &f32)| Candidate { id: id as u32, logit, logprob: (logit as f64 - sum.ln()) as f32 };
    let mut c: Vec<Candidate> = logits.iter().enumerate().map(one).collect();
    c.sort_by(|a, b| b.logit.partial_cmp(&a.logit).unwrap());
    c
}

#[test]
fn as_llama_cpp() {
    for line in GOLDEN.split_terminator('\n') {
        let f: Vec<&str> = line.split(' ').collect();
        let mut state: u64 = f[0].parse().unwrap();
        let mut m = Mirostat::begin(format!(r#"{{"tau":{},"eta":{}}}"#, f[1], f[2]).as_bytes(), &[]).unwrap();
        assert_eq!(f.len(), 43);
        for (step, want) in f[3..].iter().enumerate() {
            let span = 2 + step as u64 % 9;
            let logits: Vec<f32> = (0..60)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    ((state >> 33) % (span * 65536)) as f32 / 65536.0
                })
                .collect();
            let c = candidates(&logits);
            let (kept, id) = want.split_once(':').unwrap();
            // Its draws are its own: here it is told what it drew.
            let n = m.cut(&c);
            assert_eq!(n, kept.parse::<usize>().unwrap(), "step {} of {}", step, line);
            let drawn = c[..n].iter().find(|c| c.id == id.parse().unwrap()).unwrap();
            let sum: f64 = c[..n].iter().map(|x| weight(&c[..n], x)).sum();
            m.learn(weight(&c[..n], drawn) / sum);
        }
    }
}

fn mean_surprise(params: &str, c: &[Candidate]) -> f64 {
    testing::vocabulary(&["a"]);
    let mut m = Mirostat::begin(params.as_bytes(), &[]).unwrap();
    let chosen: Vec<usize> = (0..6000).map(|_| m.sample(c).unwrap()).collect();
    let bits: f64 = chosen[1000..].iter().map(|&i| -c[i].logprob as f64 * LOG2_E).sum();
    bits / 5000.0
}

#[test]
fn keeps_to_the_target() {
    // Zipf's law over 500 tokens: 6.4 bits on average when nothing is cut.
    let logits: Vec<f32> = (1..=500).map(|k| -(k as f32).ln()).collect();
    let c = candidates(&logits);
    let mut last = 0.0;
    for tau in [1.0, 2.0, 4.0] {
        let mut m = Mirostat::begin(format!(r#"{{"tau":{}}}"#, tau).as_bytes(), &[]).unwrap();
        testing::vocabulary(&["a"]);
        let mut bits = 0.0;
        for step in 0..6000 {
            let n = m.cut(&c);
            let sum: f64 = c[..n].iter().map(|x| weight(&c[..n], x)).sum();
            let i = m.sample(&c).unwrap();
            bits -= if step < 1000 { 0.0 } else { (weight(&c[..n], &c[i]) / sum).log2() };
        }
        assert!((bits / 5000.0 - tau).abs() < 0.05, "tau {}: {} bits per token", tau, bits / 5000.0);
        let all = mean_surprise(&format!(r#"{{"tau":{}}}"#, tau), &c);
        assert!(all > last, "tau {} is not more surprising than the one before", tau);
        last = all;
    }
}

#[test]
fn draws_by_probability() {
    testing::vocabulary(&["a"]);
    let c = candidates(&[0.5f32.ln(), 0.3f32.ln(), 0.2f32.ln()]);
    let mut m = Mirostat::begin(br#"{"tau":20,"eta":0}"#, &[]).unwrap();
    let mut counts = [0i32; 3];
    for _ in 0..10_000 {
        counts[m.sample(&c).unwrap()] += 1;
    }
    for (n, want) in counts.iter().zip([5000, 3000, 2000]) {
        assert!((n - want).abs() < 250, "{:?}", counts); // 5 standard deviations
    }
    let mut m = Mirostat::begin(br#"{"tau":0}"#, &[]).unwrap();
    assert!((0..100).all(|_| m.sample(&c) == Ok(0)), "tau 0 takes others than the most likely token");
}

#[test]
fn refusals() {
    for (params, want) in [
        (r#"{"tau":21}"#, "tau: 21 is not from 0 to 20"),
        (r#"{"tau":null}"#, "tau: want a number from 0 to 20"),
        (r#"{"eta":-0.1}"#, "eta: -0.1 is not from 0 to 1"),
        (r#"{"mu":1}"#, "unknown parameter: mu"),
    ] {
        assert_eq!(Mirostat::begin(params.as_bytes(), &[]).err().as_deref(), Some(want));
        assert_eq!(init(params.as_bytes()), Err(want.into()));
    }
}
