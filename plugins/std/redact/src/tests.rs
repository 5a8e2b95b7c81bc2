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
        ("see _bob@ex.com_ end", "see [redacted]_ end"),
        ("--bob@ex.com, .bob@ex.com, +b@ex.com %a_@ex.com", "[redacted], [redacted], [redacted] [redacted]"),
        ("bob@ex.com4 bob@ex.com.1 bob@ex.com-4 bob@ex.com.4th.", "[redacted] [redacted] [redacted] [redacted]."),
        ("bob@ex.com4111 1111 1111 1111\"", "[redacted]\""),
        ("v@1.2.3, a@b.c-d, a@.com!", "v@1.2.3, a@b.c-d, a@.com!"),
        ("...and so on - _this_ is 50% more+less.", "...and so on - _this_ is 50% more+less."),
    ] {
        everyhow("{}", text, want);
    }
    let long = format!("{}@x.com", "a".repeat(65));
    everyhow("{}", &long, &long);
    everyhow("{}", &format!("{}.bob@x.com", "a".repeat(65)), &format!("{}.[redacted]", "a".repeat(65)));
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
        ("_ghp_0123456789abcdefghij0123456789abcdef_", "_[redacted]_"),
        ("-AKIAIOSFODNN7EXAMPLE", "-[redacted]"),
        ("task-management-of-all-the-things", "task-management-of-all-the-things"),
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

/// Where a text ends inside a character, it has U+FFFD at its end. What stands in front of that is the half of a string,
/// or is not, as it would be without.
#[test]
fn ends_inside_a_character() {
    let p = r#"{"patterns":[],"strings":["極秘計画アルファ","Süß","🚀N世","日本","abc\ufffd","x\ufffdyz\ufffd漢"]}"#;
    for (text, want) in [
        ("It is 極秘計画アルフ\u{fffd}", "It is [redacted]"),
        ("It is 極秘計画\u{fffd}", "It is [redacted]"),
        ("It is 極\u{fffd}", "It is 極\u{fffd}"),
        ("極秘計画アルファ\u{fffd}", "[redacted]\u{fffd}"),
        ("極秘計画アルフ\u{fffd}.", "極秘計画アルフ\u{fffd}."),
        ("\u{fffd}", "\u{fffd}"),
        ("日", "日"),
        ("It is 日\u{fffd}", "It is [redacted]"),
        ("Sü\u{fffd}", R),
        ("S\u{fffd}", "S\u{fffd}"),
        // the model may write it itself
        ("an abc\u{fffd}", "an [redacted]"),
        ("an abc\u{fffd}.", "an [redacted]."),
        ("an x\u{fffd}yz", "an [redacted]"),
        ("an x\u{fffd}yz\u{fffd}", "an [redacted]"),
        ("an x\u{fffd}yz\u{fffd}\u{fffd}", "an [redacted]"),
        ("\\u6975秘計画アルフ\u{fffd}", R),
    ] {
        for step in 1..8 {
            assert_eq!(behind(p, "", text, step, reason::LENGTH), want, "{:?} by {}", text, step);
            assert_eq!(behind(p, "x", text, step, reason::EOS), want, "{:?} by {}", text, step);
        }
    }
    // Of some tokenizers each byte has one.
    testing::vocabulary(&["j🚀N", "\u{fffd}\u{fffd}"]);
    let mut w = Watched::<Redact>::begin(p, &[]).unwrap();
    w.push(0, reason::NONE).unwrap();
    w.push(1, reason::LENGTH).unwrap();
    assert_eq!(w.shown, "j[redacted]");
}

/// The first tokens of a character have no text. What began in the prompt is replaced with the last of them.
#[test]
fn first_tokens_have_no_text() {
    testing::vocabulary(&["Hi é", "", "", "é", " yes"]);
    let mut w = Watched::<Redact>::begin(r#"{"patterns":[],"strings":["éé"]}"#, &[0]).unwrap();
    for t in 1..5 {
        w.push(t, if t == 4 { reason::EOS } else { reason::NONE }).unwrap();
    }
    assert_eq!(w.shown, "[redacted] yes");
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
        (p, r"It is \n<Proj\u0065ct\u0020Falcon>\\, they say".into(), r"Proj\u0065c".len()),
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

/// Whatever the strings have in common with each other and with the text, and however its characters are spelled, at
/// each place there is what a search for one after the other finds.
#[test]
fn strings_one_by_one() {
    const ALPHABETS: [(&[&str], &[&str]); 5] = [
        (&["a", "A", "b"], &["a", "A", "b"]),
        (&["a"], &["a"]),
        (&["é", "É", "a", " "], &["é", "É", "a", " "]),
        (&["a", "\\", "n"], &["a", "\\", "n", "\\n", "\\u0061", "\\u005C"]),
        (&["a", "😀", "\n"], &["a", "A", "😀", "\\n", "\\ud83d\\ude00", "\\", "\\u0061", "\\\\"]),
    ];
    let mut below = numbers(7);
    let mut found = [[0; 3]; 2];
    for round in 0..10_000 {
        let (of_strings, of_text) = ALPHABETS[round % 5];
        let mut any = |alphabet: &[&str], most: usize| {
            (0..1 + below(most)).map(|_| alphabet[below(alphabet.len())]).collect::<String>()
        };
        let list: Vec<String> =
            (0..1 + round / 3 % 7).map(|_| any(of_strings, if round % 2 == 0 { 4 } else { 24 })).collect();
        let mut text = any(of_text, 40).into_bytes();
        // the text may end within an escape
        text.truncate(text.len().saturating_sub(below(12)).max(1));
        let (from, ignore_case, over) = (below(text.len()), below(2) == 0, below(2) == 0);
        let to = from + below(text.len() - from) + 1;
        let (strings, mut room) = (Strings::new(&list, ignore_case), Room::default());
        let mut places = strings.read(&text, from, to, &mut room);
        let (bytes, starts, cut) = unescape(&text);
        // what begins there of all strings, and where in the text it ends
        let search = |bytes: &[u8], i: usize, place: &dyn Fn(usize) -> usize| {
            let rest = &bytes[i..];
            list.iter().map(|s| s.as_bytes()).fold(Found::No, |found, s| {
                let n = s.len().min(rest.len());
                let same = if ignore_case { s[..n].eq_ignore_ascii_case(&rest[..n]) } else { s[..n] == rest[..n] };
                found.or(match (same, n == s.len()) {
                    (false, _) => Found::No,
                    (true, true) => Found::To(place(i + n)),
                    (true, false) if !over => Found::Maybe,
                    (true, false) if patterns::enough(n, s.len()) => Found::To(text.len()),
                    _ => Found::No,
                })
            })
        };
        for at in from..to {
            let mut want = search(&text, at, &|i| i);
            let plain = want;
            match starts.iter().position(|&s| s == at) {
                Some(i) if i < bytes.len() => want = want.or(search(&bytes, i, &|i| starts[i])),
                Some(_) if cut && !over => want = Found::Maybe,
                _ => {}
            }
            let got = places.look(&text, at, over, 0);
            let text = String::from_utf8_lossy(&text);
            assert_eq!(got, want, "{:?} in {:?}, at {} of {} to {}, over {} {}", list, text, at, from, to, over, ignore_case);
            found[(got != plain) as usize][match got {
                Found::To(to) if to < text.len() => 0,
                Found::To(_) => 1,
                Found::Maybe => 2,
                _ => continue,
            }] += 1;
        }
    }
    assert!(found[0].iter().all(|&n| n > 1500) && found[1].iter().all(|&n| n > 30), "{:?}", found);
}

/// Strings as JSON spells them: with the escapes that it needs, all that writers of it may make, and a mixture.
#[test]
fn spelled_with_escapes() {
    let p = r#"{"patterns":[],"strings":["Jürgen 😀","a/b\\c","say \"hush\"\n"],"with":"***"}"#;
    for (text, want) in [
        (r#"{"name": "J\u00fcrgen \ud83d\ude00!"}"#, r#"{"name": "***!"}"#),
        (r#"{"name": "J\u00FCrgen \uD83D\uDE00\n"}"#, r#"{"name": "***\n"}"#),
        (r#"{"name": "Jürgen 😀", "n": "Jürgen \ud83d\ude01"}"#, r#"{"name": "***", "n": "Jürgen \ud83d\ude01"}"#),
        (r#"["J\u00fcrgen 😀", "\u004a\u00fc\u0072gen\u0020😀"]"#, r#"["***", "***"]"#),
        (r#"["a\/b\\c", "a/b\\c", "a\/b\u005cc", "a/b\c"]"#, r#"["***", "***", "***", "***"]"#),
        (r#"["say \"hush\"\n", "say \u0022hush\u0022\u000a", "say \\\"hush"]"#, r#"["***", "***", "say \\\"hush"]"#),
        // the backslash is the string's own
        (r#"["a\/b\\\u0063a/b\\c"]"#, r#"["******"]"#),
        // no escapes: each backslash belongs to the one before
        (r#"["J\\u00fcrgen 😀", "\\\\a/b\\c"]"#, r#"["J\\u00fcrgen 😀", "\\\\***"]"#),
        (r"\frac{a}{b} \u \ud83d \x41 \", r"\frac{a}{b} \u \ud83d \x41 \"),
    ] {
        everyhow(p, text, want);
    }
    // at the end half of it is enough
    everyhow(p, r"J\u00fcrge", "***");
    everyhow(p, r"J\u00fcrgen \ud83d\ude", "***");
    everyhow(p, r"J\u00fc", r"J\u00fc");
    everyhow(r#"{"strings":["über"],"ignore_case":true}"#, r"\u00fcBER \u00fc\u0042er \u00dcber", r"[redacted] [redacted] \u00dcber");
}

/// A source of numbers below others.
fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |n| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    }
}

/// What a text stands for, the place of each byte of that, and of its end, and whether an escape may be cut there.
fn unescape(text: &[u8]) -> (Vec<u8>, Vec<usize>, bool) {
    let (mut bytes, mut starts, mut at) = (Vec::new(), Vec::new(), 0);
    let cut = loop {
        match text[at..].first().map(|_| escapes::unit(&text[at..])) {
            None => break false,
            Some(escapes::Unit::Cut) => break true,
            Some(escapes::Unit::Byte) => {
                bytes.push(text[at]);
                starts.push(at);
                at += 1;
            }
            Some(escapes::Unit::Escape(c, n)) => {
                bytes.extend(c.to_string().bytes());
                starts.resize(bytes.len(), at);
                at += n;
            }
        }
    };
    starts.push(at);
    (bytes, starts, cut)
}

/// What a client gets of a text behind so many bytes of prompt, where `*` stands for what is found: place by place.
fn reference(strings: &[String], kinds: &[Kind], ignore_case: bool, text: &str, prompt: usize) -> String {
    let b = text.as_bytes();
    // what is found covers these bytes, and these together with the one in front
    let (mut covered, mut joined) = (vec![false; b.len()], vec![false; b.len()]);
    let mut found = |at: usize, to: usize| {
        covered[at..to].fill(true);
        joined[at + 1..to].fill(true);
    };
    let (spelled, starts, _) = unescape(b);
    let plain: Vec<usize> = (0..=b.len()).collect();
    for (bytes, places) in [(b, &plain), (&spelled[..], &starts)] {
        for (i, s) in (0..bytes.len()).flat_map(|i| strings.iter().map(move |s| (i, s.as_bytes()))) {
            // within a character that is spelled with an escape nothing begins
            if i > 0 && places[i - 1] == places[i] {
                continue;
            }
            let n = s.len().min(bytes.len() - i);
            let here = &bytes[i..i + n];
            let same = if ignore_case { s[..n].eq_ignore_ascii_case(here) } else { s[..n] == *here };
            if same && n == s.len() {
                found(places[i], places[i + n]);
            } else if same && patterns::enough(n, s.len()) {
                found(places[i], b.len());
            }
        }
    }
    for at in 0..b.len() {
        for k in kinds {
            if let Found::To(to) = k.look(b, at, true, &mut Longs::new()) {
                found(at, to);
            }
        }
    }
    let mut out = String::new();
    for i in prompt..b.len() {
        match (covered[i], i > prompt && joined[i]) {
            (true, false) => out.push('*'),
            (true, true) => {}
            _ => out.push(b[i] as char),
        }
    }
    out
}

/// Cuts a text and its prompt into tokens of up to so many bytes, and shows them to a guard, beside another one that
/// holds some where it is to: what the client gets, and the most bytes that were held for it.
fn shown(
    params: &str,
    text: &str,
    prompt: usize,
    most: usize,
    others: bool,
    below: &mut impl FnMut(usize) -> usize,
) -> (String, usize) {
    let (mut words, mut before, mut from) = (Vec::new(), 0, 0);
    while from < text.len() {
        let end = if from < prompt { prompt } else { text.len() };
        let to = (from + 1 + below(most)).min(end);
        before += (from < prompt) as usize;
        words.push(&text[from..to]);
        from = to;
    }
    words.push("");
    testing::vocabulary(&words);
    let tokens: Vec<u32> = (0..words.len() as u32).collect();
    let mut w = Watched::<Redact>::begin(params, &tokens[..before]).unwrap();
    let (mut seen, mut held) = (0, 0);
    for &t in &tokens[before..] {
        let over = t as usize + 1 == words.len();
        seen += words[t as usize].len();
        match others && !over && below(3) > 0 {
            true => drop(w.push_held(t).unwrap()),
            false => drop(w.push(t, if over { reason::EOS } else { reason::NONE }).unwrap()),
        }
        if !others {
            held = held.max(seen - w.gone());
        }
    }
    (w.shown, held)
}

/// Texts of few letters: all that is found is replaced, what overlaps once, wherever the prompt ends and the tokens do.
#[test]
fn all_that_overlaps() {
    const ALPHABETS: [(&[&str], &[&str]); 5] = [
        (&["a", "b", "c"], &["a", "b", "c"]),
        (&["a", "b"], &["a", "b"]),
        (&["a"], &["a"]),
        (&["a", "A", "b", "a@", "b.ab"], &["a", "A", "b", "a@", "b.ab"]),
        (&["a", "b", "\\", "\""], &["a", "b", "\\", "\\\\", "\\\"", "\\u0061", "\\u00", "62", "\\n", "\\ud83d"]),
    ];
    let mut below = numbers(17);
    let (mut found, mut touch) = (0, 0);
    for round in 0..8000 {
        let (of_strings, of_text) = ALPHABETS[round % 5];
        let mut any = |alphabet: &[&str], most: usize| {
            (0..1 + below(most)).map(|_| alphabet[below(alphabet.len())]).collect::<String>()
        };
        let strings: Vec<String> =
            (0..1 + round / 5 % 5).map(|i| any(of_strings, if i == 4 { 12 } else { 5 })).collect();
        let text = any(of_text, 30);
        let (prompt, ignore_case, most) = (below(text.len() + 1), below(2) == 0, 1 + below(5));
        let params = format!(r#"{{"strings":{:?},"ignore_case":{},"with":"*"}}"#, strings, ignore_case);
        let want = reference(&strings, patterns::ALL, ignore_case, &text, prompt);
        let (got, _) = shown(&params, &text, prompt, most, round % 3 == 0, &mut below);
        assert_eq!(got, want, "{} | {} by {} {}", &text[..prompt], &text[prompt..], most, params);
        found += want.contains('*') as usize;
        touch += want.contains("**") as usize;
    }
    assert!(found > 5000 && touch > 1000, "{} {}", found, touch);
}

/// Texts of what the patterns look for, which strings overlap.
#[test]
fn all_that_overlaps_patterns() {
    let pieces = [
        "a", "@", "b.co", ".", " ", "-", "_", "x--", "ann", "sk-", "ghp_", "AKIA", "eyJ", "4111 1111 1111 ", "1111 ",
        "-----BEGIN ", "RSA ", "PRIVATE KEY-----", "KEY-----", "0123456789abcdefghij", "QQQQQQQQQQQQQQQQ",
        "bcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP",
    ];
    let mut below = numbers(23);
    let (mut found, mut most_held) = (0, 0);
    for round in 0..3000 {
        let size = if round % 100 == 0 { 900 } else { 24 };
        let mut text = String::new();
        for _ in 0..1 + below(size) {
            let piece = pieces[below(pieces.len())];
            (0..1 + below(3) * below(2)).for_each(|_| text.push_str(piece));
        }
        let strings: Vec<String> = (0..below(4))
            .map(|_| {
                let from = below(text.len());
                text[from..(from + 1 + below(if round % 2 == 0 { 6 } else { 40 })).min(text.len())].into()
            })
            .collect();
        let most = if size > 24 { 60 } else { [1, 3, 8, 60][below(4)] };
        let prompt = below(text.len().min(300) + 1);
        let params = format!(r#"{{"strings":{:?},"with":"*"}}"#, strings);
        let want = reference(&strings, patterns::ALL, false, &text, prompt);
        let (got, held) = shown(&params, &text, prompt, most, round % 3 == 0, &mut below);
        assert_eq!(got, want, "{} | {} by {} {}", &text[..prompt], &text[prompt..], most, params);
        found += want.contains('*') as usize;
        if most == 1 {
            most_held = most_held.max(held);
        }
    }
    assert!(found > 2000 && most_held > 100 && most_held < 200, "{} {}", found, most_held);
}

/// A client's strings keep none of the operator's, and nothing of a pattern, from being found, and cut nothing of it.
#[test]
fn no_string_hides_another() {
    let falcon = r#""SECRETWORD","Project Falcon""#;
    for (strings, text, want) in [
        (r#""e S""#, "the SECRETWORD is here", "th* is here"),
        (r#""l bob""#, "mail bob@x.io now", "mai* now"),
        (r#""d 4111""#, "card 4111 1111 1111 1111.", "car*."),
        (r#""y AK""#, "my AKIAIOSFODNN7EXAMPLE.", "m*."),
        (r#""x---""#, "x-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----.", "*."),
        (r#""abcd","cdef""#, "abcdefgh", "*gh"),
        (r#""aa""#, "aaaaaaa b", "* b"),
        (r#""aa""#, "aaaa aa", "* *"),
    ] {
        everyhow(&format!(r#"{{"strings":[{},{}],"with":"*"}}"#, strings, falcon), text, want);
    }
    let p = r#"{"strings":["acbbcabcc","ca"],"ignore_case":true,"with":"*"}"#;
    assert_eq!(behind(p, "hi bcbabacbbcabcc", "accccb", 1, reason::EOS), "*ccccb");
}

/// What overlaps itself without an end goes out as it comes.
#[test]
fn holds_no_more_than_one() {
    let mut below = numbers(3);
    for (strings, piece, most) in [(r#""aa""#, "a", 2), (r#""aba""#, "ab", 4), (r#""0a""#, "eyJ0a.", 140)] {
        let params = format!(r#"{{"patterns":["key"],"strings":[{}],"with":"*"}}"#, strings);
        let (got, held) = shown(&params, &piece.repeat(1500 / piece.len()), 0, 1, false, &mut below);
        assert!(got.starts_with('*') && got.len() < 3 && held <= most, "{}: {} {}", piece, got, held);
    }
}

/// Addresses whose domains have up to as many bytes as one may have, and more.
#[test]
fn long_domains() {
    for n in [1, 60, 63, 110, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 200, 249, 250, 300, 2000] {
        for label in ["b", "b.", "bc-"] {
            let text = format!("<ann@{}b.com>", label.repeat(n / label.len()));
            for size in [if n < 300 { 1 } else { 20 }, 7, 300] {
                let places: Vec<usize> = (1..text.len()).step_by(size).collect();
                assert_eq!(cut("{}", &text, &places), "<[redacted]>", "{}", text);
            }
        }
    }
}

/// Another guard holds a text and takes back what decided it: what goes out is what the text that stays becomes.
#[test]
fn beside_another_guard() {
    beside(&["a", "b", "aa", "ab", "ba", " ", " a", "c"], &["aab", "abab", "aaaa", "b a"], 20_000);
}

/// The same of a text with escapes, which are cut as well.
#[test]
fn escapes_beside_another_guard() {
    let alphabet = ["a", "\\", "b", "\\u0061", "\\u00", "61", "\\\"", "\"", "n", "u0061b", "\\n\\"];
    beside(&alphabet, &["aa", "b\\\"", "\\\\aab", "a\\na"], 10_000);
}

/// The strings are those of the parameters: they are spelled as JSON has them.
fn beside(alphabet: &[&str], strings: &[&str], rounds: usize) {
    let words = [alphabet, &[""]].concat();
    testing::vocabulary(&words);
    let end = alphabet.len() as u32;
    let mut below = numbers(11);
    let (mut replaced, mut decisive) = (0, 0);
    for _ in 0..rounds {
        let params: Vec<String> = strings[..1 + below(4)].iter().map(|s| format!("\"{}\"", s)).collect();
        let params = format!(r#"{{"patterns":[],"strings":[{}],"with":"*"}}"#, params.join(","));
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
    assert!(4 * replaced > rounds && 2 * decisive > rounds, "{} {}", replaced, decisive);
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

/// Of more in the configuration than a request can make ready both searches are there.
fn more_than_a_request_has(folds: bool) {
    let some = alloc::vec![format!("\"{}\"", "y".repeat(256)); 128].join(",");
    let (lower, upper) = (format!("a{}", "x".repeat(255)), format!("A{}", "x".repeat(255)));
    let config = format!(r#"{{"strings":["{}",{}],"ignore_case":{}}}"#, upper, some, folds);
    DEFAULTS.configure(config.as_bytes()).unwrap();
    let found = |params: &str, text: &str| cut(params, text, &[]) != text;
    assert_eq!(found("{}", &lower), folds);
    assert!(found("{}", &upper));
    assert!(found(r#"{"ignore_case":true}"#, &lower));
    assert!(!found(r#"{"ignore_case":false}"#, &lower));
    assert!(found(r#"{"ignore_case":false}"#, &upper));
    assert!(DEFAULTS.with(br#"{"strings":["y"]}"#).is_err());
}

#[test]
fn more_than_a_request_has_with_case() {
    more_than_a_request_has(false);
}

#[test]
fn more_than_a_request_has_without_case() {
    more_than_a_request_has(true);
}

/// How much a client has of a text after each of its characters.
fn had(params: &str, text: &str) -> Vec<usize> {
    let words: Vec<String> = text.chars().map(String::from).collect();
    testing::vocabulary(&words.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    let mut w = Watched::<Redact>::begin(params, &[]).unwrap();
    (0..words.len() as u32)
        .map(|t| {
            w.push(t, reason::NONE).unwrap();
            w.shown.replace('*', "secret").len()
        })
        .collect()
}

/// With `steady` nobody sees by what is held how much a text has of a string, as it is or escaped.
#[test]
fn steady() {
    let fill = ".".repeat(60);
    let texts = |secret: &str| {
        [format!("a {}{}", secret, fill), format!("a \\u0073{}{}", &secret[1..], fill), format!("s{}{}", secret, fill)]
    };
    let (all, some, none) = (texts("secret"), texts("secreX"), texts("XXXXXX"));
    let config = r#"{"patterns":[],"strings":["secret"],"with":"*","#;
    let (other, there, not) = (format!("{}\"steady\":false}}", config), some.clone(), none.clone());
    std::thread::spawn(move || {
        DEFAULTS.configure(other.as_bytes()).unwrap();
        assert!((0..3).all(|i| had("{}", &there[i]) != had("{}", &not[i])));
        assert!(DEFAULTS.with(br#"{"steady":true}"#).is_err(), "a request may set it");
    })
    .join()
    .unwrap();
    DEFAULTS.configure(format!("{}\"steady\":true}}", config).as_bytes()).unwrap();
    for i in 0..3 {
        assert_eq!(had("{}", &some[i]), had("{}", &none[i]));
        assert!(cut("{}", &all[i], &[5]).contains('*') && !cut("{}", &some[i], &[5]).contains('*'));
    }
    let long = "x".repeat(41);
    let why = DEFAULTS.with(format!(r#"{{"strings":["{}"]}}"#, long).as_bytes()).err().unwrap();
    assert_eq!(why, "strings[1] has 41 bytes, want at most 40: `steady` holds back what as many may have as escapes");
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
