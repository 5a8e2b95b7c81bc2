use super::*;
use crate::detect::score;
use tgi_plugin::{mode, testing};

const GOLDENS: &[u8] = include_bytes!("../../testdata/watermark_goldens.json");

#[derive(Default)]
struct Golden {
    vocab: u32,
    ratio: f64,
    key: u64,
    width: usize,
    steps: Vec<[Vec<u32>; 4]>,
    tokens: Vec<u32>,
    bias: f64,
    scored: usize,
    green: usize,
    z: f64,
    keyed: usize,
    keyed_z: f64,
}

fn ids(r: &mut Reader) -> Vec<u32> {
    let mut v = Vec::new();
    r.array(|r| v.push(r.uint()));
    v
}

fn golden(r: &mut Reader) -> Golden {
    let mut g = Golden::default();
    r.object(|r, name| match name {
        "vocab" => g.vocab = r.uint(),
        "ratio" => g.ratio = r.number(),
        "key" => g.key = r.number() as u64,
        "width" => g.width = r.uint() as usize,
        "bias" => g.bias = r.number(),
        "tokens" => g.tokens = ids(r),
        "scored" => g.scored = r.uint() as usize,
        "green" => g.green = r.uint() as usize,
        "z" => g.z = r.number(),
        "keyed" => g.keyed = r.uint() as usize,
        "keyed_z" => g.keyed_z = r.number(),
        "steps" => r.array(|r| {
            let mut step: [Vec<u32>; 4] = Default::default();
            r.object(|r, name| {
                let at = ["tokens", "candidates", "green", "keyed"].iter().position(|n| *n == name).unwrap();
                step[at] = ids(r);
            });
            g.steps.push(step);
        }),
        _ => r.fail("unknown member"),
    });
    g
}

fn goldens(part: &str) -> Vec<Golden> {
    let mut found = Vec::new();
    let mut r = Reader::new(GOLDENS);
    r.object(|r, name| if name == part { r.array(|r| found.push(golden(r))) } else { r.skip() });
    r.close().unwrap();
    found
}

fn agreed(g: &Golden, scheme: Scheme) -> Agreed {
    Agreed { scheme, ratio: g.ratio, key: g.key, width: g.width }
}

#[test]
fn as_transformers_and_the_detector_script() {
    let mut compared = 0;
    for g in goldens("cases") {
        let table = scheme::table(g.key, g.vocab);
        for (scheme, at) in [(Scheme::Transformers, 2), (Scheme::Keyed, 3)] {
            let mut greens = Greens::new(agreed(&g, scheme), &table, g.vocab);
            for s in &g.steps {
                let before = &s[0][s[0].len() + 1 - g.width..];
                let mut got = Vec::new();
                greens.each(before, &s[1], |i| got.push(s[1][i]));
                assert_eq!(got, s[at], "vocabulary {} {:?}", g.vocab, scheme);
                compared += got.len();
            }
        }
    }
    assert!(compared > 500);
}

#[test]
fn scores_as_the_detectors() {
    let texts = goldens("texts");
    assert_eq!(texts.len(), 2);
    for g in texts {
        let table = scheme::table(g.key, g.vocab);
        for (scheme, green, z) in [(Scheme::Transformers, g.green, g.z), (Scheme::Keyed, g.keyed, g.keyed_z)] {
            let mut greens = Greens::new(agreed(&g, scheme), &table, g.vocab);
            let got = score(&g.tokens, g.width, g.ratio, &mut greens, true);
            assert_eq!((got.scored, got.green), (g.scored, green));
            assert!((got.z - z).abs() < 1e-9);
            assert_eq!(got.z > 4.0, scheme == Scheme::Transformers && g.bias > 0.0, "{:?} {:?}", scheme, got);
        }
    }
}

/// A text of 200 tokens by a model whose likely tokens change from place to
/// place; each step goes through the plugin.
fn text(params: &str, seed: u64) -> Vec<u32> {
    let mut s = testing::Sequence::<Watermark>::begin(params, &[1, 2, 3, 4, 5]).unwrap();
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut out: Vec<u32> = Vec::new();
    for _ in 0..200 {
        s.view = (0..VIEW).map(|i| Entry { id: (random() * 2048.0) as u32, value: -(i as f32) / 4.0 }).collect();
        let chosen: Vec<u32> = out.last().copied().into_iter().collect();
        let a = s.step(&chosen).unwrap();
        let bias = |id| a.entries.iter().find(|e| e.id == id).map_or(0.0, |e| e.value);
        let weights: Vec<f64> = s.view.iter().map(|e| ((e.value + bias(e.id)) as f64).exp()).collect();
        let mut u = random() * weights.iter().sum::<f64>();
        let mut at = 0;
        while at + 1 < VIEW && u >= weights[at] {
            u -= weights[at];
            at += 1;
        }
        out.push(s.view[at].id);
    }
    out
}

fn z(tokens: &[u32], greens: &mut Greens) -> f64 {
    score(tokens, 4, 0.25, greens, true).z
}

/// One test for all that goes through init, which sets what sequences share.
#[test]
fn plugin() {
    let words: Vec<String> = (0..2048).map(|i| i.to_string()).collect();
    testing::vocabulary(&words.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    for (config, want) in [
        (r#"{"scheme":"lefthash"}"#, r#"scheme: want "keyed" or "transformers", not "lefthash""#),
        (r#"{"greenlist_ratio":1}"#, "greenlist_ratio: 1 is not from 0.01 to 0.99"),
        (r#"{"bias":-1}"#, "bias: -1 is not from 0 to 100"),
        (r#"{"hashing_key":1.5}"#, "hashing_key: 1.5 is not a whole number from 1 to 9007199254740991"),
        (r#"{"hashing_key":"x"}"#, "hashing_key: want a whole number from 1 to 9007199254740991"),
        (r#"{"context_width":33}"#, "context_width: 33 is not a whole number from 1 to 32"),
        (r#"{"gamma":0.5}"#, "unknown parameter: gamma"),
    ] {
        assert_eq!(init(config.as_bytes()), Err(want.to_string()), "{}", config);
    }
    init(b"{\"hashing_key\":99}").unwrap();
    for field in ["hashing_key", "locked"] {
        let params = format!("{{\"{}\":true}}", field);
        let got = Watermark::begin(params.as_bytes(), &[]).err();
        assert_eq!(got, Some(format!("{}: only the server's configuration sets this", field)));
    }
    let (table, other_table) = (scheme::table(99, 2048), scheme::table(100, 2048));
    for scheme in [Scheme::Keyed, Scheme::Transformers] {
        let params = format!("{{\"scheme\":\"{}\"}}", if scheme == Scheme::Keyed { "keyed" } else { "transformers" });
        let right = Agreed { scheme, ratio: 0.25, key: 99, width: 4 };
        let other = Agreed { key: 100, ..right.clone() };
        let (mut right, mut other) = (Greens::new(right, &table, 2048), Greens::new(other, &other_table, 2048));
        for seed in 0..5 {
            let marked = text(&params, seed);
            let found = z(&marked, &mut right);
            assert!(found > 5.0, "{:?} seed {}: z of watermarked text {}", scheme, seed, found);
            let other = z(&marked, &mut other);
            assert!(other < 4.0, "{:?} seed {}: z under another key {}", scheme, seed, other);
            let plain = z(&text("{\"bias\":0}", seed), &mut right);
            assert!(plain < 4.0, "{:?} seed {}: z of plain text {}", scheme, seed, plain);
        }
    }
    let mut s = testing::Sequence::<Watermark>::begin("{}", &[1, 2]).unwrap();
    s.view = (0..40).map(|id| Entry { id, value: if id < 20 { 1.0 } else { f32::NEG_INFINITY } }).collect();
    assert_eq!(s.step(&[3]).unwrap().mode, mode::PASS, "3 tokens are less than the window");
    let a = s.step(&[4]).unwrap();
    assert!(a.mode == mode::SPARSE && a.entries.iter().all(|e| e.id < 20 && e.value == 2.0), "{:?}", a);
    init(b"{\"locked\":true}").unwrap();
    let got = Watermark::begin(b"{\"bias\":0}", &[]).err();
    assert_eq!(got, Some("bias: only the server's configuration sets this".to_string()));
    assert!(Watermark::begin(b"{}", &[]).is_ok());
}
