use tgi_plugin::guard::{reason, verdict};
use tgi_plugin::testing::{self, Watched};

use super::*;

const WORDS: &[&str] = &["a", " de", "lve", "delve", " into", "D", "e", "l", "v", " x", "</s>", "é", "s"];

fn watch(params: &str) -> Watched<Banned> {
    testing::vocabulary(WORDS);
    Watched::begin(params, &[9]).unwrap()
}

/// What a client has after the tokens, and the positions that were taken back to.
fn run(params: &str, tokens: &[u32]) -> (String, Vec<usize>) {
    let mut w = watch(params);
    let mut back = Vec::new();
    for (i, &t) in tokens.iter().enumerate() {
        let why = if i + 1 == tokens.len() { reason::LENGTH } else { reason::NONE };
        let v = w.push(t, why).unwrap();
        if v.kind == verdict::REWIND {
            back.push(v.position);
        }
    }
    (w.shown, back)
}

#[test]
fn holds_partial_matches_only() {
    let mut w = watch(r#"{"strings":["delve"]}"#);
    for (t, shown) in [(0, "a"), (1, "a"), (9, "a de x"), (1, "a de x"), (6, "a de x dee")] {
        w.push(t, reason::NONE).unwrap();
        assert_eq!(w.shown, shown);
    }
}

#[test]
fn takes_back_to_where_the_string_begins() {
    assert_eq!(run(r#"{"strings":["delve"]}"#, &[0, 1, 2, 9, 9]), ("a x x".into(), vec![2]));
    assert_eq!(run(r#"{"strings":["DELVE INTO"]}"#, &[0, 3, 4, 9]), ("a x".into(), vec![2]));
    assert_eq!(run(r#"{"strings":["DELVE"],"ignore_case":false}"#, &[0, 3, 4]), ("adelve into".into(), vec![]));
    // the last token completes it, and a stop there is none
    assert_eq!(run(r#"{"strings":["delve"]}"#, &[0, 1, 2]), ("a".into(), vec![2]));
    // of two, the one that begins first
    assert_eq!(run(r#"{"strings":["ve into","delve i"]}"#, &[0, 3, 4, 0]), ("aa".into(), vec![2]));
}

#[test]
fn whole_words() {
    let p = r#"{"strings":["delve"],"whole_word":true}"#;
    assert_eq!(run(p, &[0, 3, 9]), ("adelve x".into(), vec![])); // "adelve"
    assert_eq!(run(p, &[9, 1, 2, 12, 9]), (" x delves x".into(), vec![]));
    assert_eq!(run(p, &[9, 1, 2, 9, 9]), (" x x".into(), vec![2]));
    assert_eq!(run(p, &[9, 1, 2]), (" x".into(), vec![2]));
}

/// However the text is cut into tokens, nothing of the string is shown, and all before it is.
#[test]
fn over_every_split() {
    let spelled: &[&[u32]] = &[&[3], &[5, 6, 7, 8, 6], &[1, 2], &[1, 7, 8, 6]];
    for end in 0..2 {
        for s in spelled {
            let mut tokens = vec![0, 11];
            tokens.extend_from_slice(s);
            if end == 0 {
                tokens.push(9);
            }
            let (shown, back) = run(r#"{"strings":["delve"]}"#, &tokens);
            assert_eq!((shown.as_str(), back.len()), (if end == 0 { "aé x" } else { "aé" }, 1), "{:?}", s);
        }
    }
}

/// Tried again and again, a place is left for those before it.
#[test]
fn goes_back_further() {
    let mut w = watch(r#"{"strings":["delve"],"depth":2}"#);
    w.push(0, reason::NONE).unwrap();
    w.push(9, reason::NONE).unwrap();
    w.push(9, reason::NONE).unwrap();
    assert_eq!(w.shown, "a");
    let mut places = Vec::new();
    for _ in 0..8 {
        while w.output().len() < 3 {
            w.push(9, reason::NONE).unwrap();
        }
        places.push(w.push(3, reason::NONE).unwrap().position);
    }
    assert_eq!(places, [4, 4, 4, 3, 3, 3, 2, 2]);
}

#[test]
fn refuses() {
    testing::vocabulary(WORDS);
    let long = format!(r#"{{"strings":["{}"]}}"#, "x".repeat(257));
    for (params, want) in [
        (r#"{"strings":"a"}"#, "strings: want a list of strings"),
        (r#"{"strings":[""]}"#, "strings: entry 1 has 0 bytes, want 1 to 256"),
        (long.as_str(), "strings: entry 1 has 257 bytes, want 1 to 256"),
        (r#"{"strings":["a",1]}"#, "strings: entry 2 is not a string"),
        (r#"{"depth":17}"#, "depth: 17 is not a whole number from 0 to 16"),
        (r#"{"words":[]}"#, "unknown parameter: words"),
    ] {
        let got = Banned::begin(params.as_bytes(), &[]).err().unwrap();
        assert!(got.contains(want), "{}: {}", params, got);
    }
}

/// Parameters that nobody may set need strings that the operator has set.
#[test]
fn locked_without_strings() {
    let why = DEFAULTS.with(br#"{"locked":true}"#).err().unwrap();
    assert!(why.contains("locked is true and strings is empty"), "{}", why);
    assert!(DEFAULTS.with(br#"{"locked":true,"strings":["a"]}"#).is_ok());
    assert!(DEFAULTS.with(br#"{"locked":false}"#).is_ok());
}

/// A string may begin in the prompt; one that ends there is none.
#[test]
fn begins_in_the_prompt() {
    testing::vocabulary(WORDS);
    for (prompt, tokens, back) in [
        (&[9, 1][..], &[2, 9][..], Some((0, 0))),
        (&[1, 6][..], &[2, 9][..], None),
        (&[9, 3][..], &[9, 9][..], None),
        (&[9, 3][..], &[11, 3][..], Some((1, 1))),
    ] {
        let mut w = Watched::<Banned>::begin(r#"{"strings":["delve"]}"#, prompt).unwrap();
        let mut got = None;
        for (i, &t) in tokens.iter().enumerate() {
            let v = w.push(t, reason::NONE).unwrap();
            if v.kind == verdict::REWIND {
                got = Some((i, v.position - prompt.len()));
                break;
            }
        }
        assert_eq!(got, back, "{:?} {:?}", prompt, tokens);
    }
}
