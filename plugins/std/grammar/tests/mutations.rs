//! Sources that are nearly right: whatever comes in, the compiler answers, and
//! what it answers can be read. A fixed generator makes them, so failures repeat.

mod matcher;

use grammar::{compile, Options};

// xorshift64*; Vigna 2016.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % below
    }
}

const SOURCES: &[(&str, &str)] = &[
    ("json_schema", r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/x"},"b":{"enum":[1,"a",null,[1],{"k":2}]},"c":{"type":"array","items":{"type":"number","minimum":1.5,"maximum":3},"contains":{"multipleOf":0.5},"uniqueItems":true}},"required":["a"],"patternProperties":{"^x":{"type":"string","format":"date"}},"additionalProperties":false,"minProperties":1,"$defs":{"x":{"anyOf":[{"type":"string","minLength":1,"pattern":"^[a-z]+$"},{"not":{"type":["object","string"]}}]}}}"##),
    ("json_schema", r##"{"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},{"properties":{"k":{"const":"b"},"next":{"$ref":"#"}},"required":["k"]}],"if":{"minProperties":2},"then":{"required":["v"]},"else":{"maxProperties":1},"unevaluatedProperties":false,"dependentRequired":{"k":["v"]},"propertyNames":{"maxLength":5}}"##),
    ("regex", r"^(?=.*\d)(?!ab)[^\s\p{Lu}-]{2,5}|(?:a|b)*?\x41\u{1F600}$"),
    ("gbnf", "root ::= \"[\" (item (\",\" ws item)*)? \"]\" # c\nitem ::= [0-9]{1,3} | \"\\\"\" [^\"\\\\]* \"\\\"\" | root | !<[5]> | <t>\nws ::= [ \\t\\n]{0,2}"),
    ("lark", "start: (call \";\")+\ncall: NAME \"(\" [arg (\",\" arg)*] \")\" -> call\n?arg: NUMBER | /[a-z]+/i | \"0\"..\"9\" ~ 2..3 | %json {\"type\":\"null\"}\n%import common (NUMBER, CNAME)\nNAME: CNAME\n%ignore \" \"\n"),
    ("structural_tag", r#"{"format":{"type":"triggered_tags","triggers":["<f="],"tags":[{"begin":"<f=a>","content":{"type":"json_schema","json_schema":{"type":"integer"}},"end":["</f>"]}],"at_least_one":true,"excludes":["x"]}}"#),
    ("structural_tag", r#"{"type":"triggered_tags","triggers":["<f=",{"type":"token","token":"<c>"},{"token":7}],"tags":[{"begin":{"type":"token","token":"<c>"},"content":{"type":"any_tokens","exclude_tokens":[1],"max_tokens":3},"end":["</f>",{"type":"token","token":9}]},{"begin":"<f=a>","content":{"type":"dispatch","rules":[["a",{"type":"any_text","max_chars":4}]],"loop":false},"end":"b"}]}"#),
    ("choice", r#"["a","b\n","é"]"#),
];

#[test]
fn nearly_right_sources() {
    let mut r = Random(20_26);
    let pieces: Vec<&str> =
        SOURCES.iter().flat_map(|s| s.1.split_inclusive(|c: char| "{}[](),:|\"".contains(c))).collect();
    let (mut good, mut bad) = (0, 0);
    for round in 0..6000 {
        let (language, source) = SOURCES[round % SOURCES.len()];
        let mut text = source.to_string();
        for _ in 0..=r.next(2) {
            let cut = |r: &mut Random, text: &str| {
                (0..=r.next(text.len() + 1)).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
            };
            let (a, b) = (cut(&mut r, &text), cut(&mut r, &text));
            let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 12));
            let b = (a..=b).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(a);
            let piece = pieces[r.next(pieces.len())];
            match r.next(3) {
                0 => text.replace_range(a..b, ""),
                1 => text.replace_range(a..a, piece),
                _ => text.replace_range(a..b, piece),
            }
        }
        let o = Options { lenient: r.next(2) == 0, ..Options::default() };
        match compile(language, &text, &o) {
            Ok(c) => {
                good += 1;
                let g = matcher::Grammar::read(&c.ir);
                for t in ["", "1", "[]", "{\"a\":\"a\"}", "ab"] {
                    g.admits(t.as_bytes());
                }
            }
            Err(e) => {
                bad += 1;
                assert!(!e.reason.is_empty() && e.to_string().len() < 2000, "{}", text);
            }
        }
    }
    assert!(good > 300 && bad > 300, "{} good, {} bad: the mutations are no longer near the edge", good, bad);
}
