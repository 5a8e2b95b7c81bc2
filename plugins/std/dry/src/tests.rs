use super::*;
use breakers::Kind;
use tgi_plugin::{mode, testing, testing::Sequence, Answer};

/// What llama.cpp does; made by testdata/make_llama_cpp.py. Line "words": the
/// vocabulary in hexadecimal. Line "case": multiplier, base, allowed length,
/// range, length of the prompt, breakers in hexadecimal, tokens. After it, for
/// every length from the prompt's on, the penalties as id:penalty.
const GOLDEN: &str = include_str!("../../testdata/dry.txt");

fn text(hex: &str) -> String {
    let b = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap());
    String::from_utf8(b.collect()).unwrap()
}

fn quoted(s: &str) -> String {
    let escaped: String = s.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    format!("\"{}\"", escaped)
}

fn penalties(a: &Answer) -> Vec<(u32, f32)> {
    let mut list: Vec<_> = a.entries.iter().map(|e| (e.id, -e.value)).collect();
    list.sort_unstable_by_key(|e| e.0);
    list
}

fn near(a: &[(u32, f32)], b: &[(u32, f32)]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() <= 1e-6 * b.1)
}

#[test]
fn as_llama_cpp() {
    let mut lines = GOLDEN.split_terminator('\n');
    let words: Vec<String> = lines.next().unwrap().split(' ').skip(1).map(text).collect();
    testing::vocabulary(&words.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    let mut cases = 0;
    while let Some(line) = lines.next() {
        let f: Vec<&str> = line.split(' ').collect();
        let breakers: Vec<String> = f[6].split(',').filter(|b| *b != "-").map(|b| quoted(&text(b))).collect();
        let params = format!(
            r#"{{"multiplier":{},"base":{},"allowed_length":{},"range":{},"sequence_breakers":[{}]}}"#,
            f[1], f[2], f[3], f[4], breakers.join(",")
        );
        let prompt: usize = f[5].parse().unwrap();
        let tokens: Vec<u32> = f[7..].iter().map(|t| t.parse().unwrap()).collect();
        let mut s = Sequence::<Dry>::begin(&params, &tokens[..prompt]).unwrap();
        for at in prompt..=tokens.len() {
            let got = penalties(&s.step(if at == prompt { &[] } else { &tokens[at - 1..at] }).unwrap());
            let want: Vec<(u32, f32)> = lines.next().unwrap().split_whitespace().map(|p| p.split_once(':').unwrap()).map(|(id, p)| (id.parse().unwrap(), p.parse().unwrap())).collect();
            assert!(near(&got, &want), "at {} of {}\n got {:?}\nwant {:?}", at, line, got, want);
        }
        cases += 1;
    }
    assert_eq!(cases, 36);
}

/// What a sequence was taken back to is as if nothing had followed: however often, with whatever came instead, also
/// where several tokens came before the next look.
#[test]
fn taken_back() {
    testing::vocabulary(&["a", "b", "c", "\n", ":\n"]);
    let mut seed = 11u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    for (kinds, range) in [(2, 0), (3, 0), (3, 17), (5, 0), (5, 40), (1, 0)] {
        let params = format!(r#"{{"allowed_length":1,"range":{},"sequence_breakers":["\n","c\n"]}}"#, range);
        let mut tokens: Vec<u32> = (0..30).map(|_| draw(kinds) as u32).collect();
        let mut s = Sequence::<Dry>::begin(&params, &tokens).unwrap();
        for _ in 0..300 {
            let left = if draw(3) == 0 { 30 + draw(tokens.len() - 29) } else { tokens.len() };
            tokens.truncate(left);
            tokens.extend((0..1 + draw(3)).map(|_| draw(kinds) as u32));
            let got = penalties(&s.step_back(left, &tokens[left..]).unwrap());
            let fresh = penalties(&Sequence::<Dry>::begin(&params, &tokens).unwrap().step(&[]).unwrap());
            assert_eq!(got, fresh, "{} tokens of {}, range {}", tokens.len(), kinds, range);
        }
    }
}

#[test]
fn prompt_or_not() {
    // The Z-algorithm over a prompt finds what growing step by step finds.
    testing::vocabulary(&["a", "b", "c", "\n"]);
    let mut seed = 3u64;
    for (n, kinds) in [(60, 2), (90, 3), (200, 1), (200, 4)] {
        let tokens: Vec<u32> = (0..n)
            .map(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (seed >> 33) as u32 % kinds
            })
            .collect();
        for range in [0, 17] {
            let params = format!(r#"{{"allowed_length":1,"range":{}}}"#, range);
            let mut grown = Sequence::<Dry>::begin(&params, &[]).unwrap();
            for at in 0..n {
                let a = penalties(&grown.step(&tokens[at..=at]).unwrap());
                let b = penalties(&Sequence::<Dry>::begin(&params, &tokens[..=at]).unwrap().step(&[]).unwrap());
                assert_eq!(a, b, "{} tokens of {}, range {}", at + 1, kinds, range);
            }
            let mut at_once = Sequence::<Dry>::begin(&params, &tokens[..5]).unwrap();
            at_once.step(&[]).unwrap();
            assert_eq!(penalties(&at_once.step(&tokens[5..]).unwrap()), penalties(&grown.step(&[]).unwrap()));
        }
    }
}

#[test]
fn usual_breakers() {
    testing::vocabulary(&["a", "b", "c", " x: ", "d"]);
    let mut s = Sequence::<Dry>::begin("{}", &[0, 1, 2, 3, 0, 1]).unwrap();
    assert_eq!(penalties(&s.step(&[]).unwrap()), [(2, 0.8)]);
    assert_eq!(s.step(&[2]).unwrap().mode, mode::PASS, "a breaker has got a penalty");
    assert_eq!(s.step(&[3]).unwrap().mode, mode::PASS, "a repetition went on behind a breaker");
    let mut s = Sequence::<Dry>::begin(r#"{"sequence_breakers":[]}"#, &[0, 1, 2, 3, 0, 1, 2]).unwrap();
    assert!(near(&penalties(&s.step(&[]).unwrap()), &[(3, 1.4)]));
    let mut s = Sequence::<Dry>::begin(r#"{"multiplier":0}"#, &[0, 0, 0, 0]).unwrap();
    assert_eq!(s.step(&[]).unwrap().mode, mode::PASS);
}

#[test]
fn bounded() {
    testing::vocabulary(&["a", "b"]);
    let mut s = Sequence::<Dry>::begin(r#"{"multiplier":100,"base":10}"#, &[0; 500]).unwrap();
    assert_eq!(penalties(&s.step(&[]).unwrap()), [(0, 1e38)]);
}

#[test]
fn kinds() {
    testing::vocabulary(&["a", "é", "b", "xab", "abx", "ba", "aba"]);
    let mut b = Breakers::new(&["aéb".into(), "ab".into(), "ba".into()]);
    let tails = |b: &Breakers, tails: &[u32], want: &[&[u32]]| tails.len() == want.len() && want.iter().all(|w| tails.iter().any(|&t| b.is_tail(t, w)));
    let a = b.kind(0);
    assert!(!a.breaks && tails(&b, &a.tails, &[&[1, 2], &[2]]), "{:?}", a);
    assert_eq!(b.kind(1), Kind::default());
    let ba = b.kind(5);
    // "ba" holds one breaker and begins two others.
    assert!(ba.breaks && tails(&b, &ba.tails, &[&[1, 2], &[2]]), "{:?}", ba);
    let aba = b.kind(6);
    assert!(aba.breaks && tails(&b, &aba.tails, &[&[1, 2]]), "{:?}", aba);
    assert_eq!([3, 4].map(|id| b.kind(id).breaks), [true, true]);
    assert_eq!(b.longest_tail(), 2);
}

#[test]
fn refusals() {
    testing::vocabulary(&["a"]);
    let many = format!(r#"{{"sequence_breakers":[{}]}}"#, vec![r#""a""#; 65].join(","));
    let long = format!(r#"{{"sequence_breakers":["{}"]}}"#, "a".repeat(41));
    for (params, want) in [
        (r#"{"multiplier":-1}"#, "multiplier: -1 is not from 0 to 100"),
        (r#"{"base":0.5}"#, "base: 0.5 is not from 1 to 10"),
        (r#"{"allowed_length":0}"#, "allowed_length: 0 is not a whole number from 1 to 1024"),
        (r#"{"range":-1}"#, "range: -1 is not a whole number from 0 to 16777216"),
        (r#"{"sequence_breakers":"a"}"#, "sequence_breakers: want a list of strings"),
        (r#"{"sequence_breakers":[1]}"#, "sequence_breakers: want a list of strings"),
        (r#"{"sequence_breakers":[""]}"#, "sequence_breakers: a string of 0 bytes is not from 1 to 40 bytes long"),
        (&long, "sequence_breakers: a string of 41 bytes is not from 1 to 40 bytes long"),
        (&many, "sequence_breakers: more than 64 strings"),
        (r#"{"penalty":1}"#, "unknown parameter: penalty"),
    ] {
        assert_eq!(Sequence::<Dry>::begin(params, &[]).err().as_deref(), Some(want));
        assert_eq!(init(params.as_bytes()), Err(want.into()));
    }
}
