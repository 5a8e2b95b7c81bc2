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

/// What stands beside a word by Unicode, also where its bytes come one by one.
#[test]
fn whole_words_beyond_ascii() {
    let back = |text: &str| {
        let tokens: Vec<Vec<u8>> = text.bytes().map(|b| [b].to_vec()).collect();
        testing::vocabulary_bytes(&tokens);
        let mut w = Watched::<Banned>::begin(r#"{"strings":["delve"],"whole_word":true}"#, &[]).unwrap();
        (0..tokens.len()).any(|i| {
            let v = w.push(i as u32, if i + 1 == tokens.len() { reason::LENGTH } else { reason::NONE }).unwrap();
            v.kind == verdict::REWIND
        })
    };
    for beside in ["—", "“", "”", "’", "…", "\u{a0}", "🙂", "❤\u{fe0f}", "。", "€", "-", " "] {
        assert!(back(&format!("a {}delve{} a", beside, beside)), "{:?}", beside);
        assert!(back(&format!("a delve{}", beside)) && back(&format!("{}delve", beside)), "{:?}", beside);
    }
    for beside in ["é", "\u{301}", "漢", "٣", "Ⅷ", "𝒜", "\u{94d}", "_", "s", "7"] {
        assert!(!back(&format!("delve{} a", beside)) && !back(&format!("a {}delve", beside)), "{:?}", beside);
    }
}

/// However a text is cut into tokens, also within characters, it is taken back exactly where it has a whole word.
#[test]
fn whole_words_as_by_brute_force() {
    const ALPHABET: &[&str] = &["a", "b", "ab", "é", " ", "—", "\u{301}", "🙂", "_", "”", "𝒜", "aé"];
    let of_word = |c: Option<char>| c.map_or(false, |c| c.is_alphanumeric() || c == '_' || c == '\u{301}');
    let mut state = 3u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut hits, mut waits) = (0, 0);
    for _ in 0..12_000 {
        let mut any = |most: usize| (0..1 + below(most)).map(|_| ALPHABET[below(ALPHABET.len())]).collect::<String>();
        let (string, text) = (any(2), any(12));
        let mut tokens: Vec<Vec<u8>> = alloc::vec![Vec::new()];
        for b in text.bytes() {
            if below(2) == 0 && !tokens[tokens.len() - 1].is_empty() {
                tokens.push(Vec::new());
            }
            tokens.last_mut().unwrap().push(b);
        }
        let prompt = below(tokens.len());
        let out: usize = tokens[..prompt].iter().map(|t| t.len()).sum();
        let matches: Vec<usize> = (0..text.len())
            .filter(|&at| {
                let end = at + string.len();
                text.as_bytes()[at..].starts_with(string.as_bytes())
                    && end > out
                    && !(of_word(string.chars().next()) && of_word(text[..at].chars().last()))
                    && !(of_word(string.chars().last()) && of_word(text[end..].chars().next()))
            })
            .collect();
        testing::vocabulary_bytes(&tokens);
        let ids: Vec<u32> = (0..tokens.len() as u32).collect();
        let params = format!(r#"{{"strings":["{}"],"whole_word":true,"ignore_case":false}}"#, string);
        let mut w = Watched::<Banned>::begin(&params, &ids[..prompt]).unwrap();
        let mut back = None;
        for &t in &ids[prompt..] {
            let v = w.push(t, if t as usize + 1 == tokens.len() { reason::LENGTH } else { reason::NONE }).unwrap();
            if v.kind == verdict::REWIND {
                back = Some(v.position);
                break;
            }
        }
        let starts: Vec<usize> = matches
            .iter()
            .map(|&at| {
                let mut end = 0;
                tokens.iter().take_while(|t| { end += t.len(); end <= at }).count().max(prompt)
            })
            .collect();
        assert_eq!(back.is_some(), !starts.is_empty(), "{:?} in {:?}, prompt of {}: {:?}", string, tokens, prompt, back);
        if let Some(at) = back {
            assert!(starts.contains(&at), "{:?} in {:?}: {} of {:?}", string, tokens, at, starts);
            hits += 1;
            waits += tokens.iter().any(|t| core::str::from_utf8(t).is_err()) as usize;
        }
    }
    assert!(hits > 500 && waits > 300, "{} {}", hits, waits);
}

/// What a search for one string after the other finds in a text that was seen up to `from`.
fn one_by_one(strings: &[String], text: &[u8], wanted: &Wanted, ignore_case: bool, whole_word: bool) -> search::Found {
    let same = |a: &[u8], b: &[u8]| if ignore_case { a.eq_ignore_ascii_case(b) } else { a == b };
    let mut found = search::Found { string: None, partial: text.len() };
    for s in strings.iter().map(|s| s.as_bytes()) {
        for at in 0..text.len() {
            let end = (at + s.len()).min(text.len());
            if !same(&text[at..end], &s[..end - at])
                || whole_word && letters::begins(s) == Some(true) && letters::ends(&text[..at])
            {
                continue;
            }
            let follows = if whole_word && letters::ends(s) { letters::begins(&text[end..]) } else { Some(false) };
            if at + s.len() > text.len() || follows.is_none() && !wanted.over {
                found.partial = found.partial.min(at);
            } else if follows != Some(true) && end >= wanted.least && end + 3 * whole_word as usize >= wanted.from {
                found.string = Some(found.string.map_or(at, |f| f.min(at)));
            }
        }
    }
    found
}

/// Whatever the strings have in common with each other and with the text, each token is judged as by a search for one
/// string after the other, also where tokens were taken back.
#[test]
fn as_one_by_one() {
    const ALPHABETS: [&[&str]; 4] = [&["a", "A", "b"], &["a", "-", "aa"], &["a"], &["é", "E", "a", "-", "🙂", "\u{301}"]];
    let mut state = 5u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut backs, mut waits) = ([0; 4], [0; 4]);
    for round in 0..2000 {
        let alphabet = ALPHABETS[round % 4];
        let mut any = |most: usize| (0..1 + below(most)).map(|_| alphabet[below(alphabet.len())]).collect::<String>();
        let strings: Vec<String> = (0..1 + round / 4 % 7).map(|_| any(7)).collect();
        // each byte may be one of the text's tokens, and any text
        let mut words: Vec<Vec<u8>> = any(40).into_bytes().chunks(1).map(|b| b.to_vec()).collect();
        words.extend((0..20).map(|_| any(6).into_bytes()));
        words.push([0xff].to_vec());
        testing::vocabulary_bytes(&words);
        let (ignore_case, whole_word) = (below(2) == 0, below(2) == 0);
        let list: Vec<String> = strings.iter().map(|s| format!("\"{}\"", s)).collect();
        let params = format!(r#"{{"strings":[{}],"ignore_case":{},"whole_word":{}}}"#, list.join(","), ignore_case, whole_word);
        let prompt: Vec<u32> = (0..below(5)).map(|_| below(words.len()) as u32).collect();
        let mut w = Watched::<Banned>::begin(&params, &prompt).unwrap();
        let (mut released, mut next) = (prompt.len(), 0);
        for i in 0..30 {
            let token = if below(3) == 0 { below(words.len()) } else { next };
            next = (token + 1) % words.len();
            let tokens: Vec<u32> = prompt.iter().chain(w.output()).copied().chain([token as u32]).collect();
            let mut ends = alloc::vec![0];
            let mut text = Vec::new();
            for &t in &tokens {
                text.extend_from_slice(&words[t as usize]);
                ends.push(text.len());
            }
            let n = tokens.len();
            let over = i == 29;
            let wanted = Wanted { from: ends[n - 1], least: ends[released] + 1, over };
            let want = one_by_one(&strings, &text, &wanted, ignore_case, whole_word);
            let v = w.push(token as u32, if over { reason::LENGTH } else { reason::NONE }).unwrap();
            let of = |byte: usize| (released..n).find(|&t| ends[t + 1] > byte.max(ends[released])).unwrap_or(n);
            let why = || format!("{} after {:?}, {} of them released: {:?}, want {:?}", params, text, ends[released], v, want);
            match want.string {
                Some(at) => assert_eq!((v.kind, v.position), (verdict::REWIND, of(at).min(n - 1)), "{}", why()),
                None if over => assert_eq!((v.kind, v.position), (verdict::RELEASE, n), "{}", why()),
                None => {
                    // the first bytes of a character may be any
                    let cut = (text.len().saturating_sub(3)..text.len()).find(|&i| letters::begins(&text[i..]).is_none());
                    let least = if whole_word { of(want.partial.min(cut.unwrap_or(text.len()))) } else { of(want.partial) };
                    assert!(v.kind == verdict::RELEASE && (least..=of(want.partial)).contains(&v.position), "{}", why());
                    waits[round % 4] += (v.position < n) as usize;
                }
            }
            if v.kind == verdict::RELEASE {
                released = v.position;
            } else {
                backs[round % 4] += 1;
            }
        }
    }
    assert!(backs.iter().chain(&waits).all(|&n| n > 700), "{:?} {:?}", backs, waits);
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
    let list = |n: usize, s: &str| format!(r#"{{"strings":[{}]}}"#, alloc::vec![format!("\"{}\"", s); n].join(","));
    let (long, many, all) = (list(1, &"x".repeat(257)), list(1025, "x"), list(129, &"x".repeat(256)));
    for (params, want) in [
        (r#"{"strings":"a"}"#, "strings: want a list of strings"),
        (r#"{"strings":[""]}"#, "strings[0] has 0 bytes, want 1 to 256"),
        (long.as_str(), "strings[0] has 257 bytes, want 1 to 256"),
        (many.as_str(), "strings: more than 1024 with those of the configuration"),
        (all.as_str(), "strings: more than 32768 bytes with those of the configuration"),
        (r#"{"strings":["a",1]}"#, "strings[1]: want a string"),
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
