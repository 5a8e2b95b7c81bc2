use super::*;
use tgi_plugin::{mode, testing, Answer};

/// `<think>` and `</think>` are special; [[ and ]] are pieces of ordinary text.
const WORDS: [&str; 15] = ["a", "b", "<think>", "</think>", "</s>", "[", "]", "[[", "]]", "x]", "]y", "<", "/think", ">", "x]]y"];
const LAST: &str = "Stop.";

type Sequence = testing::Sequence<Budget>;

fn id(word: &str) -> u32 {
    WORDS.iter().position(|w| *w == word).unwrap_or(WORDS.len()) as u32
}

fn ids(words: &[&str]) -> Vec<u32> {
    words.iter().map(|w| id(w)).collect()
}

/// In short what an answer says.
fn say(a: &Answer) -> String {
    let names = |ids: &[u32]| {
        let mut n: Vec<&str> = ids.iter().map(|&i| WORDS.get(i as usize).copied().unwrap_or(LAST)).collect();
        if a.force.is_empty() {
            n.sort_unstable();
            n.dedup();
        }
        n.join(" ")
    };
    match (a.mode, a.force.is_empty()) {
        (mode::PASS, true) => "-".into(),
        (mode::PASS, false) => format!("force {}", names(&a.force)),
        (mode::DENY, true) => format!("deny {}", names(&a.ids)),
        (m, _) => panic!("mode {}", m),
    }
}

/// The answers before the first token and after each.
fn play(params: &str, prompt: &[&str], tokens: &[&str]) -> Vec<String> {
    let mut s = Sequence::begin(params, &ids(prompt)).unwrap();
    let mut said = vec![say(&s.step(&[]).unwrap())];
    said.extend(tokens.iter().map(|t| say(&s.step(&[id(t)]).unwrap())));
    said
}

fn vocabulary() {
    testing::vocabulary(&[&WORDS[..], &[LAST]].concat());
}

/// One test, since init sets what all sequences of the program share.
#[test]
fn plugin() {
    vocabulary();
    init(b"{}").unwrap();
    budgets();
    text_markers();
    prompts();
    minimum();
    refusals();
    init(br#"{"budget":1,"message":"Stop."}"#).unwrap();
    assert_eq!(play("{}", &[], &["<think>", "a"]), ["-", "-", "force Stop. </think>"]);
    assert_eq!(play(r#"{"budget":2,"message":""}"#, &[], &["<think>", "a", "b"])[2..], ["-", "force </think>"]);
}

fn budgets() {
    let two = r#"{"budget":2,"message":"Stop."}"#;
    assert_eq!(play(two, &[], &["a", "<think>", "a", "b"]), ["-", "-", "-", "-", "force Stop. </think>"]);
    // Where the force was not obeyed it is asked for again; spelled out, a special marker is text.
    assert_eq!(play(two, &[], &["<think>", "a", "b", "<", "/think", ">"])[4..], ["force Stop. </think>"; 3]);
    // Closed in time, what is left of the budget is for the next thinking; used up, there is none.
    assert_eq!(play(two, &[], &["<think>", "a", "</think>", "b", "<think>", "b", "</think>", "a"])[3..], ["-", "-", "-", "force Stop. </think>", "deny <think>", "deny <think>"]);
    // What is forced comes back in one piece.
    let mut s = Sequence::begin(two, &[]).unwrap();
    assert_eq!(say(&s.step(&ids(&["<think>", "a", "b"])).unwrap()), "force Stop. </think>");
    assert_eq!(say(&s.step(&ids(&[LAST, "</think>"])).unwrap()), "deny <think>");
    assert_eq!(play(r#"{"budget":0}"#, &[], &["a", "<think>", "</think>"]), ["-", "-", "force </think>", "deny <think>"]);
}

fn text_markers() {
    let two = r#"{"open":"[[","close":"]]","budget":2}"#;
    assert_eq!(play(two, &[], &["[[", "a", "b"]), ["-", "-", "-", "force ]]"]);
    // Pieces of the markers with text around them; a closing marker that has begun is waited for, not for ever.
    assert_eq!(play(two, &[], &["[", "[", "a", "x]", "]y", "b", "["]), ["-", "-", "-", "-", "-", "deny [[", "deny [[", "deny [ [["]);
    assert_eq!(play(two, &[], &["[[", "a", "x]", "x]", "x]"]), ["-", "-", "-", "-", "-", "force ]]"]);
    // Both markers in one token.
    let x = r#"{"open":"x","close":"]]","budget":1,"min":0}"#;
    assert_eq!(play(x, &[], &["x]]y", "a", "x]", "a"]), ["-", "-", "-", "-", "force ]]"]);
}

fn prompts() {
    let one = r#"{"budget":1}"#;
    assert_eq!(play(one, &["a", "<think>", "b", "b"], &["a"]), ["-", "force </think>"]);
    assert_eq!(play(one, &["<think>", "b", "</think>"], &["a", "b"]), ["-"; 3]);
    assert_eq!(play(r#"{"budget":1,"start_inside":true}"#, &[], &["a"]), ["-", "force </think>"]);
    assert_eq!(play(r#"{"budget":1,"start_inside":false}"#, &["<think>"], &["a"]), ["-", "-"]);
    let text = r#"{"open":"[[","close":"]]","budget":1}"#;
    assert_eq!(play(text, &["]]", "[["], &["a"]), ["-", "force ]]"]);
    assert_eq!(play(text, &["["], &["[", "a"]), ["-", "-", "force ]]"]);
    let far = [&["[["][..], &["a"; SEARCHED]].concat();
    assert_eq!(play(text, &far, &["a"]), ["-", "-"]);
    assert_eq!(play(text, &far[..SEARCHED], &["a"]), ["-", "force ]]"]);
}

fn minimum() {
    let two = r#"{"min":2,"budget":3}"#;
    let early = "deny </s> </think>";
    assert_eq!(play(two, &[], &["a", "<think>", "a", "b", "a"]), ["-", "-", early, early, "-", "force </think>"]);
    let text = r#"{"min":2,"open":"[[","close":"]]"}"#;
    let (early, begun) = ("deny </s> ]] x]]y", "deny </s> ] ]] ]y x]]y");
    assert_eq!(play(text, &[], &["[[", "x]", "a"]), ["-", early, begun, "-"]);
}

fn refusals() {
    let long = format!("{{\"message\":\"{}\"}}", "a".repeat(300));
    let longer = format!("{{\"message\":\"{}\"}}", "a".repeat(2001));
    for (params, want) in [
        (r#"{"budget":-1}"#, "budget: -1 is not a whole number from 0 to 1000000"),
        (r#"{"min":1025}"#, "min: 1025 is more than the budget of 1024"),
        (r#"{"open":""}"#, "open: 0 bytes, want 1 to 64"),
        (r#"{"close":7}"#, "close: want a string"),
        (r#"{"start_inside":"yes"}"#, "start_inside: want true, false or \"auto\""),
        (&long, "message: 301 tokens with the closing marker, want at most 256"),
        (&longer, "message: 2001 bytes, want 0 to 2000"),
        (r#"{"tokens":1}"#, "unknown parameter: tokens"),
    ] {
        assert_eq!(Sequence::begin(params, &[]).err(), Some(want.to_string()), "{}", params);
        assert_eq!(init(params.as_bytes()).err(), Some(want.to_string()), "{}", params);
    }
}
