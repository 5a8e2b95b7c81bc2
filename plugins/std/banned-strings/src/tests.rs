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

/// A text with what its escapes stand for: its bytes, where each begins in the text, and where they end there.
fn unescaped(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut places, mut at) = (Vec::new(), Vec::new(), 0);
    while at < text.len() {
        match escapes::unit(&text[at..]) {
            escapes::Unit::Cut => break,
            escapes::Unit::Byte => {
                bytes.push(text[at]);
                places.push(at);
                at += 1;
            }
            escapes::Unit::Escape(c, n) => {
                bytes.extend(c.to_string().bytes());
                places.resize(bytes.len(), at);
                at += n;
            }
        }
    }
    places.push(at);
    (bytes, places)
}

/// What a search for one string after the other finds in a text that was seen up to `from`.
fn one_by_one(strings: &[String], text: &[u8], wanted: &Wanted, ignore_case: bool, whole_word: bool) -> search::Found {
    let same = |a: &[u8], b: &[u8]| if ignore_case { a.eq_ignore_ascii_case(b) } else { a == b };
    let mut found = search::Found { string: None, partial: text.len() };
    let mut search = |text: &[u8], place: &dyn Fn(usize) -> usize, waited: usize| {
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
                    found.partial = found.partial.min(place(at));
                } else if follows != Some(true)
                    && place(end) >= wanted.least
                    && place(end) + waited * whole_word as usize >= wanted.from
                {
                    found.string = Some(found.string.map_or(place(at), |f| f.min(place(at))));
                }
            }
        }
        found.partial = found.partial.min(place(text.len()));
    };
    search(text, &|i| i, letters::LONGEST - 1);
    let (bytes, places) = unescaped(text);
    search(&bytes, &|i| places[i], escapes::LONGEST - 1);
    found
}

/// Whatever the strings have in common with each other and with the text, and however its characters are spelled, each
/// token is judged as by a search for one string after the other, also where tokens were taken back, by another guard
/// too.
#[test]
fn as_one_by_one() {
    const ALPHABETS: [(&[&str], &[&str]); 6] = [
        (&["a", "A", "b"], &["a", "A", "b"]),
        (&["a", "-", "aa"], &["a", "-", "aa"]),
        (&["a"], &["a"]),
        (&["é", "E", "a", "-", "🙂", "\u{301}"], &["é", "E", "a", "-", "🙂", "\u{301}"]),
        (&["a", "\\", "n", "\n"], &["a", "\\", "n", "\\n", "\\u0061", "\\\\"]),
        (&["a", "é", "-", "🙂"], &["a", "é", "-", "\\ud83d\\ude42", "\\u00E9", "\\n", "\\u002d"]),
    ];
    let mut state = 5u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut backs, mut waits, mut escaped) = ([0; 6], [0; 6], 0);
    for round in 0..3000 {
        let (of_strings, of_text) = ALPHABETS[round % 6];
        let mut any = |alphabet: &[&str], most: usize| {
            (0..1 + below(most)).map(|_| alphabet[below(alphabet.len())]).collect::<String>()
        };
        let strings: Vec<String> = (0..1 + round / 6 % 7).map(|_| any(of_strings, 7)).collect();
        // each byte may be one of the text's tokens, and any text
        let mut words: Vec<Vec<u8>> = any(of_text, 40).into_bytes().chunks(1).map(|b| b.to_vec()).collect();
        words.extend((0..20).map(|_| any(of_text, 6).into_bytes()));
        words.push([0xff].to_vec());
        testing::vocabulary_bytes(&words);
        let (ignore_case, whole_word) = (below(2) == 0, below(2) == 0);
        let quoted = |s: &String| format!("\"{}\"", s.replace('\\', "\\\\").replace('\n', "\\n"));
        let list: Vec<String> = strings.iter().map(quoted).collect();
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
            let held = !over && below(4) == 0;
            let wanted = Wanted { from: ends[n - 1], least: ends[released] + 1, over };
            let want = one_by_one(&strings, &text, &wanted, ignore_case, whole_word);
            let v = match held {
                true => w.push_held(token as u32).unwrap(),
                false => w.push(token as u32, if over { reason::LENGTH } else { reason::NONE }).unwrap(),
            };
            let of = |byte: usize| (released..n).find(|&t| ends[t + 1] > byte.max(ends[released])).unwrap_or(n);
            let why = || {
                let text = String::from_utf8_lossy(&text);
                format!("{} after {:?}, {} of them released: {:?}, want {:?}", params, text, ends[released], v, want)
            };
            match want.string {
                Some(at) => {
                    assert_eq!((v.kind, v.position), (verdict::REWIND, of(at).min(n - 1)), "{}", why());
                    let plain = |s: &String| text.to_ascii_lowercase().windows(s.len()).any(|w| w == s.to_ascii_lowercase().as_bytes());
                    escaped += !strings.iter().any(plain) as usize;
                }
                None if over => assert_eq!((v.kind, v.position), (verdict::RELEASE, n), "{}", why()),
                None => {
                    // the first bytes of a character may be any
                    let cut = |text: &[u8]| {
                        let mut last = text.len().saturating_sub(3)..text.len();
                        last.find(|&i| letters::begins(&text[i..]).is_none()).unwrap_or(text.len())
                    };
                    let (bytes, places) = unescaped(&text);
                    let cut = cut(&text).min(places[cut(&bytes)]);
                    let least = if whole_word { of(want.partial.min(cut)) } else { of(want.partial) };
                    assert!(v.kind == verdict::RELEASE && (least..=of(want.partial)).contains(&v.position), "{}", why());
                    waits[round % 6] += (v.position < n) as usize;
                }
            }
            if v.kind != verdict::RELEASE {
                backs[round % 6] += 1;
            } else if !held {
                released = v.position;
            }
            if below(5) == 0 {
                let held = prompt.len() + w.output().len() - released;
                w.take_back(below(held.min(3) + 1));
            }
        }
    }
    assert!(backs.iter().chain(&waits).all(|&n| n > 700) && escaped > 300, "{:?} {:?} {}", backs, waits, escaped);
}

/// Strings as JSON spells them: with the escapes that it needs, all that writers of it may make, and a mixture. However
/// the text is cut, it is taken back to the token in which the string begins.
#[test]
fn spelled_with_escapes() {
    let list = r#""strings":["Jürgen 😀","a/b\\c","say \"hush\"\n"]"#;
    let many = format!(r#"{{"strings":["{}b"]}}"#, "a".repeat(20));
    let (free, word) = (format!("{{{}}}", list), format!("{{{},\"whole_word\":true}}", list));
    let long = format!("{}b", r"\u0061".repeat(100));
    for (params, text, begins) in [
        (&free, r#"{"name": "J\u00fcrgen \ud83d\ude00"}"#, Some(10)),
        (&free, r#"{"name": "J\u00FCRgen \uD83D\uDE00"}"#, Some(10)),
        (&free, r#"{"name": "Jürgen \ud83d\ude01"}"#, None),
        (&free, r#"["\u004a\u00fc\u0072gen\u0020😀"]"#, Some(2)),
        (&free, r#"["a\/b\\c"]"#, Some(2)),
        (&free, r#"["say \u0022hush\"\u000a"]"#, Some(2)),
        (&free, r#"["say \\\"hush\\\"\n"]"#, None),
        (&free, r#"["J\\u00fcrgen 😀"]"#, None),
        (&free, r"\frac{a}{b} \u \ud83d \x41 \", None),
        (&word, r#"["\nJ\u00fcrgen 😀\u0021"]"#, Some(4)),
        (&word, r#"["\u0065J\u00fcrgen 😀"]"#, None),
        (&word, r#"["a\/b\\c\u0065"]"#, None),
        (&word, r#"["a\/b\\c\u002e"]"#, Some(2)),
        (&word, r#"["a\/b\\c"#, Some(2)),
        (&many, &long, Some(80 * 6)),
    ] {
        for size in 1..8 {
            let tokens: Vec<String> = text.chars().collect::<Vec<_>>().chunks(size).map(|c| c.iter().collect()).collect();
            testing::vocabulary(&tokens.iter().map(|t| t.as_str()).collect::<Vec<_>>());
            let mut w = Watched::<Banned>::begin(params, &[]).unwrap();
            let mut back = None;
            for t in 0..tokens.len() {
                let v = w.push(t as u32, if t + 1 == tokens.len() { reason::LENGTH } else { reason::NONE }).unwrap();
                if v.kind == verdict::REWIND {
                    back = Some(v.position);
                    break;
                }
            }
            let mut end = 0;
            let want = begins.map(|at| tokens.iter().take_while(|t| { end += t.len(); end <= at }).count());
            assert_eq!(back, want, "{} by {}", text, size);
            let most = tokens[..want.unwrap_or(tokens.len())].concat();
            assert!(if want.is_none() { w.shown == most } else { most.starts_with(&w.shown) }, "{} by {}", text, size);
        }
    }
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
