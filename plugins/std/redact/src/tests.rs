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
    for (text, want) in [("the Project X is secret", "the *** is ***"), ("project x, secre", "project x, secre"), ("a@b.com", "a@b.com")] {
        everyhow(p, text, want);
    }
    everyhow(r#"{"strings":["secret"],"ignore_case":true,"with":""}"#, "SeCrEt secretsecret", "[redacted] [redacted][redacted]");
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
        (r#"{"patterns":["phone"]}"#, "patterns: entry 1 is none of email, card, key"),
        (r#"{"strings":[""]}"#, "strings: entry 1 has 0 bytes, want 1 to 256"),
        (r#"{"with":1}"#, "with: want a string"),
        (r#"{"what":1}"#, "unknown parameter: what"),
    ] {
        let got = Redact::begin(params.as_bytes(), &[]).err().unwrap();
        assert!(got.contains(want), "{}: {}", params, got);
    }
}
