use super::*;
use tgi_plugin::{mode, testing, Answer};

const WORDS: [&str; 12] = ["fo", "o", "f", "Foo", " foo", "bar", "a", "xfoox", "foolish", ".", "<s>", "</s>"];

type Sequence = testing::Sequence<Banned>;

fn texts(a: &Answer) -> Vec<&'static str> {
    let denied: Vec<u32> = match a.mode {
        mode::PASS => Vec::new(),
        mode::DENY => a.ids.clone(),
        mode::BITMASK => (0..WORDS.len() as u32).filter(|t| a.ids[*t as usize / 32] >> (t % 32) & 1 == 0).collect(),
        m => panic!("mode {}", m),
    };
    let mut t: Vec<&str> = denied.iter().map(|&t| WORDS[t as usize]).collect();
    t.sort_unstable();
    t.dedup();
    t
}

fn id(word: &str) -> u32 {
    WORDS.iter().position(|w| *w == word).unwrap() as u32
}

/// What is denied after each token.
fn play(params: &str, prompt: &[&str], tokens: &[&str]) -> Vec<Vec<&'static str>> {
    let prompt: Vec<u32> = prompt.iter().map(|w| id(w)).collect();
    let mut s = Sequence::begin(params, &prompt).unwrap();
    let mut all = vec![texts(&s.step(&[]).unwrap())];
    for t in tokens {
        all.push(texts(&s.step(&[id(t)]).unwrap()));
    }
    all
}

/// One test, since init sets what all sequences of the program share.
#[test]
fn plugin() {
    testing::vocabulary(&WORDS);
    init(b"{}").unwrap();
    assert_eq!(play("{}", &[], &["fo"]), [[""; 0]; 2]);
    let foo = r#"{"words":["foo"]}"#;
    let inside = [" foo", "foolish", "xfoox"];
    let after_fo = [" foo", "foolish", "o", "xfoox"];
    assert_eq!(play(foo, &[], &["f", "f"]), [&inside[..], &inside[..], &inside[..]]);
    assert_eq!(play(foo, &[], &["fo", "f", "."]), [&inside[..], &after_fo[..], &inside[..], &inside[..]]);
    // A special token is no text: the user sees "fo" and what comes next side by side.
    assert_eq!(play(foo, &[], &["fo", "<s>"])[2], after_fo);
    // The prompt counts on request.
    assert_eq!(play(foo, &["a", "fo"], &[])[0], inside);
    assert_eq!(play(r#"{"words":["foo"],"from_prompt":true}"#, &["a", "fo"], &[])[0], after_fo);
    let any = r#"{"words":["FOO"],"ignore_case":true}"#;
    assert_eq!(play(any, &[], &["a", "fo"])[1..], [vec![" foo", "Foo", "foolish", "xfoox"], vec![" foo", "Foo", "foolish", "o", "xfoox"]]);
    let whole = r#"{"words":["foo"],"whole_word":true}"#;
    assert_eq!(play(whole, &[], &["fo", ".", "a", "fo"]), [vec![" foo"], vec![" foo", "o"], vec![" foo"], vec![" foo"], vec![" foo"]]);

    init(br#"{"words":["bar"],"whole_word":true}"#).unwrap();
    assert_eq!(play("{}", &[], &["a"]), [vec!["bar"], vec![]]);
    assert_eq!(play(r#"{"words":["."]}"#, &[], &["a"]), [vec![".", "bar"], vec!["."]]);

    for (params, want) in [
        (r#"{"words":"foo"}"#, "words: want a list of strings"),
        (r#"{"words":["foo",1]}"#, "words[1]: want a string"),
        (r#"{"words":["foo",""]}"#, "words[1] has 0 bytes, want 1 to 256"),
        (r#"{"ignore_case":1}"#, "ignore_case: want true or false"),
        (r#"{"word":[]}"#, "unknown parameter: word"),
    ] {
        assert_eq!(Sequence::begin(params, &[]).err(), Some(want.to_string()), "{}", params);
    }
    let many = |n: usize, word: &str| format!("{{\"words\":[{}\"x\"]}}", format!("\"{}\",", word).repeat(n));
    assert_eq!(Sequence::begin(&many(256, "a"), &[]).err(), Some("words: more than 256 entries".into()));
    assert_eq!(Sequence::begin(&many(1, &"a".repeat(257)), &[]).err(), Some("words[0] has 257 bytes, want 1 to 256".into()));
    assert_eq!(Sequence::begin(&many(16, &"a".repeat(256)), &[]).err(), Some("words: more than 4096 bytes in all".into()));
    init(many(500, "a").as_bytes()).unwrap();
    modes();
    refused_for_what_it_denies();
}

/// A list where few tokens are denied, a mask where many are.
fn modes() {
    let numbers: Vec<String> = (0..1000).map(|i| format!("{:03}", i)).collect();
    testing::vocabulary(&numbers.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    init(b"{}").unwrap();
    for (word, chosen, want_mode, want) in [("77", 1, mode::DENY, 19), ("1", 22, mode::BITMASK, 271), ("12", 1, mode::BITMASK, 119)] {
        let mut s = Sequence::begin(&format!("{{\"words\":[\"{}\"]}}", word), &[]).unwrap();
        s.step(&[]).unwrap();
        let a = s.step(&[chosen]).unwrap();
        assert_eq!(a.mode, want_mode, "{}", word);
        let denied: Vec<u32> = match a.mode {
            mode::DENY => a.ids,
            _ => (0..1000).filter(|t| a.ids[*t as usize / 32] >> (t % 32) & 1 == 0).collect(),
        };
        let expected: Vec<u32> = (0..1000).filter(|t| format!("{:03}{:03}", chosen, t).contains(word)).collect();
        let mut sorted = denied;
        sorted.sort_unstable();
        assert_eq!((sorted.len(), sorted), (want, expected), "{}", word);
    }
}

/// Words of which behind some text more tokens complete one than a step has fuel for.
fn refused_for_what_it_denies() {
    let numbers: Vec<String> = (100_000..190_000).map(|i| i.to_string()).collect();
    testing::vocabulary(&numbers.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    let error = |n: usize| {
        Some(format!("words: behind some texts {} tokens complete one, configured ones too, want at most 50000", n))
    };
    init(b"{}").unwrap();
    assert_eq!(Sequence::begin(r#"{"words":["x1"]}"#, &[]).err(), error(90_000));
    assert_eq!(Sequence::begin(r#"{"words":["x10","z120","yx130"]}"#, &[]).err(), None);
    let all: Vec<String> = (10..19).map(|i| format!("\"x{}\"", i)).collect();
    assert_eq!(Sequence::begin(&format!("{{\"words\":[{}]}}", all.join(",")), &[]).err(), error(90_000));
    init(br#"{"words":["x1"]}"#).unwrap();
    assert!(Sequence::begin("{}", &[]).is_ok());
    assert_eq!(Sequence::begin(r#"{"words":["y"]}"#, &[]).err(), error(90_000));
}
