use tgi_plugin::guard::reason;
use tgi_plugin::testing::{self, Watched};

use super::*;

/// What a client has of the text, cut into tokens at the places.
fn cut(params: &str, text: &str, cuts: &[usize]) -> String {
    let mut words = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([text.len()].iter()) {
        words.push(&text[from..to]);
        from = to;
    }
    words.push("</s>");
    testing::vocabulary(&words);
    let mut w = Watched::<Redact>::begin(params, &[]).unwrap();
    for t in 0..words.len() as u32 - 1 {
        w.push(t, reason::NONE).unwrap();
    }
    let before = w.shown.clone();
    // the end token has no text: see testing::Watched
    testing::vocabulary(&[&words[..words.len() - 1], &[""]].concat());
    w.push(words.len() as u32 - 1, reason::EOS).unwrap();
    assert!(w.shown.starts_with(&before));
    w.shown
}

/// The text with one token for each character, in tokens of two and three, whole, and cut at each place.
fn everyhow(params: &str, text: &str, want: &str) {
    let places: Vec<usize> = text.char_indices().map(|(i, _)| i).skip(1).collect();
    let mut ways = vec![places.clone(), vec![]];
    for step in 2..7 {
        ways.push(places.iter().copied().step_by(step).collect());
    }
    ways.extend(places.iter().map(|&p| vec![p]));
    for way in ways {
        assert_eq!(cut(params, text, &way), want, "{:?}", way);
    }
}

const R: &str = "[redacted]";

#[test]
fn emails() {
    for (text, want) in [
        ("Write to ann.b+x@mail.example.org.", "Write to [redacted]."),
        ("a@b, c@d.e, f@g.hi!", "a@b, c@d.e, [redacted]!"),
        ("é@b.com and <bob@x.io>", "é@b.com and <[redacted]>"),
        ("no mail @ all.com", "no mail @ all.com"),
        ("bob@x.io", R),
        ("bob@x.io-.", "[redacted]-."),
    ] {
        everyhow("{}", text, want);
    }
    let long = format!("{}@x.com", "a".repeat(65));
    everyhow("{}", &long, &long);
}

#[test]
fn cards() {
    for (text, want) in [
        ("Card 4111 1111 1111 1111, please", "Card [redacted], please"),
        ("4111-1111-1111-1112 is none", "4111-1111-1111-1112 is none"),
        ("378282246310005", R),
        ("4111 1111 1111 1111 123", "[redacted] 123"),
        ("14111111111111111", "14111111111111111"),
        ("in 2024 - 25 of 300", "in 2024 - 25 of 300"),
        ("41111111111111111111111", "41111111111111111111111"),
    ] {
        everyhow("{}", text, want);
    }
}

#[test]
fn keys() {
    let jwt = format!("eyJ{}.{}", "a".repeat(300), "b9_-".repeat(100));
    let pem = format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", "MIIEow+/==\n".repeat(60));
    for (text, want) in [
        ("key=sk-abcdefghij0123456789AB;", "key=[redacted];"),
        ("AKIAIOSFODNN7EXAMPLE", R),
        ("sk-short and risk-averse", "sk-short and risk-averse"),
        ("a ghp_0123456789abcdefghij0123456789abcdef.", "a [redacted]."),
        (&format!("Bearer {} ok", jwt), "Bearer [redacted] ok"),
        (&format!("x {} y", pem), "x [redacted] y"),
        ("-----BEGIN CERTIFICATE-----\nM", "-----BEGIN CERTIFICATE-----\nM"),
    ] {
        everyhow("{}", text, want);
    }
    assert_eq!(cut("{}", &pem[..pem.len() - 9], &[40, 100]), R); // the end is missing
}

#[test]
fn strings() {
    let p = r#"{"patterns":[],"strings":["Project X","secret"],"with":"***"}"#;
    for (text, want) in [("the Project X is secret", "the *** is ***"), ("project x, secr, sec", "project x, secr, sec"), ("the secr", "the ***"), ("a@b.com", "a@b.com")] {
        everyhow(p, text, want);
    }
    everyhow(r#"{"strings":["secret"],"ignore_case":true,"with":""}"#, "SeCrEt secretsecret", "[redacted] [redacted][redacted]");
}

/// What a client gets of an output behind a prompt; both have a token for each character, or as many as the step says.
fn behind(params: &str, prompt: &str, output: &str, step: usize, end: u32) -> String {
    let words: Vec<String> = [prompt, output]
        .iter()
        .flat_map(|t| t.chars().collect::<Vec<_>>().chunks(step).map(|c| c.iter().collect()).collect::<Vec<String>>())
        .collect();
    testing::vocabulary(&words.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    let n = (prompt.chars().count() + step - 1) / step;
    let tokens: Vec<u32> = (0..words.len() as u32).collect();
    let mut w = Watched::<Redact>::begin(params, &tokens[..n]).unwrap();
    for &t in &tokens[n..] {
        w.push(t, if t as usize + 1 == words.len() { end } else { reason::NONE }).unwrap();
    }
    w.shown
}

/// Texts with something in them, where that is, and how many bytes of it a client may read in pieces.
fn secrets() -> Vec<(&'static str, String, usize)> {
    let p = r#"{"patterns":[],"strings":["Project Falcon"]}"#;
    vec![
        ("{}", "Write to <ann.b+x@mail.example.org>.".into(), "ann.b+x@".len()),
        ("{}", "Card: <4111 1111 1111 1111>, please".into(), "4111 1111 ".len()),
        ("{}", "key=<sk-abcdefghij0123456789ABcdefghij>;".into(), "sk-".len() + 9),
        ("{}", "a <ghp_0123456789abcdefghij0123456789abcdef>.".into(), "ghp_".len() + 14),
        ("{}", format!("Bearer <eyJ{}.{}> ok", "a".repeat(70), "b9_-".repeat(20)), "eyJ".len() + 19),
        (p, "It is <Project Falcon>, they say".into(), "Projec".len()),
    ]
}

/// Something that begins in the prompt and ends in the output: nothing of it is shown, wherever the one ends and the
/// other begins, and all that stands behind it.
#[test]
fn begins_in_the_prompt() {
    for (params, marked, _) in secrets() {
        let (from, to) = (marked.find('<').unwrap(), marked.find('>').unwrap() - 1);
        let text = marked.replace(|c| c == '<' || c == '>', "");
        for cut in 1..text.len() {
            let want = match cut {
                c if c <= from => format!("{}{}{}", &text[c..from], R, &text[to..]),
                c if c < to => format!("{}{}", R, &text[to..]),
                c => text[c..].into(),
            };
            for step in [1, 2, 3, 5] {
                let got = behind(params, &text[..cut], &text[cut..], step, reason::EOS);
                assert_eq!(got, want, "{} | {} by {}", &text[..cut], &text[cut..], step);
            }
        }
    }
    let pem = format!("x -----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY----- y", "MIIEow+/==\n".repeat(20));
    for cut in "x -----BEGIN RSA PRIVATE KEY-----".len()..pem.len() - 2 {
        let got = behind("{}", &pem[..cut], &pem[cut..], 3, reason::EOS);
        assert_eq!(got, "[redacted] y", "{}", cut);
    }
    // markup is between the one and the other
    testing::vocabulary(&["ann@", "<s>", "x.io"]);
    let mut w = Watched::<Redact>::begin("{}", &[0, 1]).unwrap();
    w.push(2, reason::LENGTH).unwrap();
    assert_eq!(w.shown, "x.io");
}

/// A client that asks for a text in pieces of any length, whatever ends them, reads no more than the beginning: neither
/// one behind the other, each prompt with what the model wrote, nor with more and more of it from the same place.
#[test]
fn in_pieces() {
    for (params, marked, most) in secrets() {
        let (from, to) = (marked.find('<').unwrap(), marked.find('>').unwrap() - 1);
        let text = marked.replace(|c| c == '<' || c == '>', "");
        for end in [reason::LENGTH, reason::STOP, reason::EOS] {
            for size in [1, 2, 3, 7] {
                let mut at = 0;
                while at < text.len() {
                    let next = (at + size).min(text.len());
                    let got = behind(params, &text[..at], &text[at..next], 1, end);
                    // what is shown of it; a dot may end a sentence
                    let shows = got == text[at..next] && got.bytes().any(|b| b.is_ascii_alphanumeric());
                    let shown = if shows { next.min(to).saturating_sub(from) } else { 0 };
                    assert!(shown <= most || at >= to, "{} | {}: {}", &text[..at], &text[at..next], got);
                    at = next;
                }
            }
            for n in 1..text.len() {
                let got = behind(params, "Q: ", &text[..n], 1, end);
                let shown = got.chars().zip(text.chars()).take_while(|(a, b)| a == b).count();
                assert!(shown <= from + most, "{}: {}", &text[..n], got);
            }
        }
    }
}

/// A text that holds nothing is held for a word at most.
#[test]
fn holds_little() {
    testing::vocabulary(&["Hello", ",", " wor", "ld", " 4", " a-", "b"]);
    let mut w = Watched::<Redact>::begin("{}", &[]).unwrap();
    for (t, shown) in [(0, ""), (1, "Hello,"), (2, "Hello, "), (3, "Hello, "), (4, "Hello, world ")] {
        w.push(t, reason::NONE).unwrap();
        assert!(shown.starts_with(&w.shown) && shown.len() - w.shown.len() < 7, "{:?} {:?}", w.shown, shown);
    }
}

#[test]
fn locks() {
    testing::vocabulary(&["a"]);
    let d = Defaults::new(INITIAL);
    d.configure(br#"{"locked":true,"patterns":["card"]}"#).unwrap();
    assert_eq!(d.with(b"{}").unwrap().kinds, [Kind::Card]);
    assert!(d.with(br#"{"patterns":[]}"#).err().unwrap().contains("fixed the parameters"));
    let d = Defaults::new(INITIAL);
    d.configure(b"{}").unwrap();
    assert!(d.with(br#"{"patterns":[]}"#).is_ok());
    assert!(d.with(br#"{"locked":true}"#).err().unwrap().contains("unknown parameter: locked"));
}

#[test]
fn refuses() {
    testing::vocabulary(&["a"]);
    for (params, want) in [
        (r#"{"patterns":["phone"]}"#, "patterns[0] is none of email, card, key"),
        (r#"{"strings":[""]}"#, "strings[0] has 0 bytes, want 1 to 256"),
        (r#"{"with":1}"#, "with: want a string"),
        (r#"{"what":1}"#, "unknown parameter: what"),
    ] {
        let got = Redact::begin(params.as_bytes(), &[]).err().unwrap();
        assert!(got.contains(want), "{}: {}", params, got);
    }
}

/// Whatever the strings have in common with each other and with the text, at each place there is what a search for one
/// after the other finds.
#[test]
fn strings_one_by_one() {
    const ALPHABETS: [&[&str]; 3] = [&["a", "A", "b"], &["a"], &["é", "É", "a", " "]];
    let mut state = 7u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let mut found = [0; 3];
    for round in 0..3000 {
        let alphabet = ALPHABETS[round % 3];
        let mut any = |most: usize| (0..1 + below(most)).map(|_| alphabet[below(alphabet.len())]).collect::<String>();
        let list: Vec<String> = (0..1 + round / 3 % 7).map(|_| any(if round % 2 == 0 { 4 } else { 24 })).collect();
        let text = any(40).into_bytes();
        let (from, ignore_case, over) = (below(text.len()), below(2) == 0, below(2) == 0);
        let (strings, mut room) = (Strings::new(&list, ignore_case), Vec::new());
        let mut places = strings.read(&text, from, text.len(), &mut room);
        for at in from..text.len() {
            let rest = &text[at..];
            let mut want = Found::No;
            for s in list.iter().map(|s| s.as_bytes()) {
                let n = s.len().min(rest.len());
                let same = if ignore_case { s[..n].eq_ignore_ascii_case(&rest[..n]) } else { s[..n] == rest[..n] };
                want = want.or(match (same, n == s.len()) {
                    (false, _) => Found::No,
                    (true, true) => Found::To(at + n),
                    (true, false) if !over => Found::Maybe,
                    (true, false) if patterns::enough(n, s.len()) => Found::To(text.len()),
                    _ => Found::No,
                });
            }
            let got = places.look(&text, at, over);
            assert_eq!(got, want, "{:?} in {:?}, {} over {} {}", list, text, at, over, ignore_case);
            found[match got {
                Found::To(to) if to < text.len() => 0,
                Found::To(_) => 1,
                Found::Maybe => 2,
                _ => continue,
            }] += 1;
        }
    }
    assert!(found.iter().all(|&n| n > 1500), "{:?}", found);
}

/// Another guard holds a text and takes back what decided it: what goes out is what the text that stays becomes.
#[test]
fn beside_another_guard() {
    let alphabet = ["a", "b", "aa", "ab", "ba", " ", " a", "c"];
    let words = [&alphabet[..], &[""]].concat();
    testing::vocabulary(&words);
    let end = alphabet.len() as u32;
    let mut state = 11u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut replaced, mut decisive) = (0, 0);
    for _ in 0..20_000 {
        let params = ["aab", "abab", "aaaa", "b a"].map(|s| format!("\"{}\"", s))[..1 + below(4)].join(",");
        let params = format!(r#"{{"patterns":[],"strings":[{}],"with":"*"}}"#, params);
        let mut w = Watched::<Redact>::begin(&params, &[]).unwrap();
        for _ in 0..1 + below(4) {
            let mut held = 0;
            for _ in 0..below(8) {
                w.push_held(below(alphabet.len()) as u32).unwrap();
                held += 1;
                if below(3) == 0 {
                    let n = below(held + 1);
                    w.take_back(n);
                    held -= n;
                    decisive += n.min(1);
                }
            }
            w.push(below(alphabet.len()) as u32, reason::NONE).unwrap();
        }
        w.push(end, reason::EOS).unwrap();
        let stays = w.output().to_vec();
        let mut alone = Watched::<Redact>::begin(&params, &[]).unwrap();
        stays.iter().for_each(|&t| drop(alone.push(t, if t == end { reason::EOS } else { reason::NONE }).unwrap()));
        let text: String = stays.iter().map(|&t| words[t as usize]).collect();
        assert_eq!(w.shown, alone.shown, "{} {:?}", params, text);
        replaced += w.shown.contains('*') as usize;
    }
    assert!(replaced > 5000 && decisive > 5000, "{} {}", replaced, decisive);
}

/// A request's strings are made ready while it waits, those of the configuration before.
#[test]
fn bytes_of_all() {
    let list = |n: usize| format!(r#"{{"strings":[{}]}}"#, alloc::vec![format!("\"{}\"", "x".repeat(256)); n].join(","));
    DEFAULTS.configure(list(100).as_bytes()).unwrap();
    assert!(DEFAULTS.with(list(28).as_bytes()).is_ok());
    let why = DEFAULTS.with(list(29).as_bytes()).err().unwrap();
    assert_eq!(why, "strings: 33024 bytes with those of the configuration, want at most 32768");
}

/// A token with more parts than a replacement has room for.
#[test]
fn many_parts_in_a_token() {
    let params = format!(r#"{{"strings":["a"],"with":"{}"}}"#, "x".repeat(64));
    let got = cut(&params, &"a".repeat(300), &[]);
    assert_eq!(got, "x".repeat(MOST / 64 * 64));
    let got = cut(&params, &("a".repeat(100) + &"é".repeat(700)), &[]);
    assert_eq!(got, "x".repeat(2600 / 64 * 64) + &"é".repeat(700));
}
