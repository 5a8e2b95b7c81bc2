//! Every language but JSON Schema: what is admitted, and what errors say.

mod matcher;

use grammar::{compile, compile_for, Options, Vocabulary, Whitespace};

/// Knows two tokens.
struct Two;

impl Vocabulary for Two {
    fn token(&self, text: &str) -> Option<(u32, bool)> {
        match text {
            "plain" => Some((5, true)),
            "<eos>" => Some((6, false)),
            _ => None,
        }
    }
}

// In the texts, «x» is the single token x, «#5» the one with the id 5.
fn check(language: &str, source: &str, yes: &[&str], no: &[&str]) {
    let o = Options { whitespace: Whitespace::Compact, ..Options::default() };
    let c = compile_for(language, source, &o, &Two).unwrap_or_else(|e| panic!("{}: {}", source, e));
    let g = matcher::Grammar::read(&c.ir);
    for (texts, want) in [(yes, true), (no, false)] {
        for t in texts {
            let bytes: Vec<u8> = t.chars().flat_map(marked).collect();
            assert_eq!(g.admits(&bytes), want, "{}\non {:?}", source, t);
        }
    }
}

fn marked(c: char) -> Vec<u8> {
    match c {
        '«' => vec![255],
        '»' => vec![254],
        c => c.to_string().into_bytes(),
    }
}

fn error(language: &str, source: &str) -> String {
    match compile(language, source, &Options::default()) {
        Ok(_) => panic!("{:?} is not refused", source),
        Err(e) => e.to_string(),
    }
}

#[test]
fn regex_and_choice() {
    check("regex", "[ab]*a[ab]{3}", &["aaaa", "babbb"], &["bbbb", "aaa", "xaaaa"]);
    check("regex", "^(?!no)\\w+$", &["yes", "n"], &["no", "not", ""]);
    check("choice", r#"["red","green","red\n","é"]"#, &["red", "green", "red\n", "é"], &["", "re", "blue"]);
    assert_eq!(error("choice", r#"["a",1]"#), "#/1: want a string, got a number");
    assert_eq!(error("choice", "[]"), "nothing satisfies the grammar");
    assert_eq!(error("regex", "a(b"), "line 1, column 2: the group is not closed");
    assert!(error("yacc", "").starts_with("the language \"yacc\" is not known"));
}

#[test]
fn json_values() {
    let yes = &["{}", "[1,2.5e-3,{\"a\":null}]", "\"\\u00e9\\n\"", "-0", "{\"a\":{},\"b\":[]}"];
    check("json", "", yes, &["", "{a:1}", "[1,]", "01", "\"\\ud800\"", "[1 ,2]", "+1"]);
    check("json_object", "", &["{}", "{\"a\":[]}"], &["[]", "1"]);
}

#[test]
fn gbnf() {
    check(
        "gbnf",
        "# a list\nroot ::= \"[\" item (\",\" ws item)* \"]\"\nitem ::= [0-9]{1,3} | str\n  | root # nested\nstr ::= \"\\\"\" [^\"\\\\]* \"\\\"\"\nws ::= [ \\t]?\n",
        &["[1]", "[12, \"é\",[3]]", "[\"\"]"],
        &["[]", "[1234]", "[1,  2]", "[1"],
    );
    check("gbnf", "root ::= root \"a\" | \"b\"", &["b", "baa"], &["a", "", "ab"]);
    check(
        "gbnf",
        "root ::= ( \"x\" |\n \"y\"\n){2} .{0,1} \"\\x41\\u00e9\\U0001F600\"",
        &["xyAé😀", "yy😀Aé😀"],
        &["xAé😀"],
    );
    check("gbnf", "root ::= [a-cx\\-] | [\\]\\\\] | [^a-z\\n]\n", &["b", "x", "-", "]", "\\", "é"], &["d", "\n"]);
    check(
        "gbnf",
        "root ::= <think> \"a\" !<[7]>? <[3]>?",
        &["«<think>»a", "«<think>»a«#3»", "«<think>»a«#8»«#3»"],
        &["a", "<think>a", "«<think>»a«#7»"],
    );
    check("gbnf", "root ::= a?\na ::= (\"(\" a \")\")*", &["", "()", "(()())()"], &["(", ")("]);
}

#[test]
fn gbnf_errors() {
    for (source, want) in [
        ("root ::= \"a", "line 1, column 10: the text is not closed"),
        ("root ::= a\nb ::= \"x\"", "line 1, column 10: the rule \"a\" is not defined"),
        ("a ::= \"x\"", "there is no rule \"root\""),
        ("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule \"root\" is defined twice"),
        ("root = \"a\"", "line 1, column 6: want '::=', found '='"),
        ("root ::= (\"a\"", "line 1, column 10: the group is not closed"),
        ("root ::= \"a\" ;", "line 1, column 14: want an element, '|' or the end of the line, found ';'"),
        ("root ::= [z-a]", "line 1, column 11: the range runs backwards"),
        ("root ::= \"é\"{3,2}", "line 1, column 13: want a repeat of at least and at most times, got 3 and 2"),
        ("root ::= \"a\"{99999999}", "line 1, column 14: a repeat counts to 1000000 at most, not 99999999"),
        ("root ::= \"\\q\"", "line 1, column 11: unknown escape sequence"),
        ("root ::= \"a\" root", "nothing satisfies the grammar"),
    ] {
        assert_eq!(error("gbnf", source), want);
    }
    let deep = format!("root ::= {}", "(".repeat(60_000));
    assert_eq!(error("gbnf", &deep), "line 1, column 110: groups nested deeper than 100");
}

// What each rule has twice is not written out: sizes are counted, not timed.
#[test]
fn rules_that_double_stay_small() {
    let rules = |define: &dyn Fn(usize) -> String, last: &str| {
        (0..400).map(define).collect::<Vec<String>>().join("\n") + last
    };
    for (language, source) in [
        ("gbnf", rules(&|i| format!("r{} ::= r{} r{} | \"\"", i, i + 1, i + 1), "\nr400 ::= \"x\"\nroot ::= r0")),
        ("gbnf", rules(&|i| format!("r{} ::= r{} r{}", i, i + 1, i + 1), "\nr400 ::= \"x\"\nroot ::= r0")),
        ("gbnf", rules(&|i| format!("r{} ::= (r{} r{}){{0,9}}", i, i + 1, i + 1), "\nr400 ::= \"x\"\nroot ::= r0")),
        ("lark", rules(&|i| format!("r{}: r{} r{} | \"\"", i, i + 1, i + 1), "\nr400: \"x\"\nstart: r0")),
        ("lark", rules(&|i| format!("R{}: R{} R{}", i, i + 1, i + 1), "\nR400: \"x\"\nstart: R0")),
    ] {
        let size = matcher::Grammar::read(&compile(language, &source, &Options::default()).unwrap().ir).size();
        assert!(size < 40_000, "{}: {} nodes", &source[..30], size);
    }
}

#[test]
fn lark() {
    check(
        "lark",
        "// calls\nstart: (call \";\")+\ncall.2: NAME \"(\" [arg (\",\" arg)*] \")\" -> call\n?arg: NUMBER | ESCAPED_STRING\n    | call\n\
         %import common (NUMBER, ESCAPED_STRING)\n%import common.CNAME -> NAME\n%import common.WS\n%ignore WS\n%ignore /#[^\\n]*/\n",
        &["f();", " f ( 1 , \"a\\\"b\" ) ; # x\n", "f(g(1.5e3));h();"],
        &["f()", "f(1 2);", "", "f(\"a);"],
    );
    check(
        "lark",
        "start: A~2 B~1..3 \"x\"i \"0\"..\"9\" /[a-c]+/i\nA: \"a\" | \"é\"\nB: C \"b\"\nC: \"c\"?",
        &["aébX5Bca", "aacbbx0C"],
        &["abx0a", "aa x0a", "aabx0"],
    );
    check("lark", "start: %json {\"type\":\"integer\",\"minimum\":3} \"!\"", &["3!", "10!"], &["2!", "3"]);
    check("lark", "start: <|end|> \"a\" | [\"b\"]", &["«<|end|>»a", "", "b"], &["a", "<|end|>a"]);
}

#[test]
fn lark_of_llguidance() {
    let rules = "\n\nstart: A \"b\"\nA: /a+/\n%ignore \" \"";
    check("lark", &rules[2..], &["ab", " ab", "a b "], &["b"]);
    // Its grammars ignore nothing before the first terminal, unless they say so.
    check("lark", &format!("%llguidance {{}}{}", rules), &["ab", "a b "], &[" ab"]);
    let more = format!("%llguidance {{ \"no_forcing\": true, \"allow_initial_skip\": true }}{}", rules);
    check("lark", &more, &["ab", " ab"], &["b"]);
    for (header, want) in [
        ("[]", "line 1, column 1: %llguidance: want an object, got an array"),
        ("{\"no_forcing\": 1}", "line 1, column 1: %llguidance: no_forcing: want true or false, got a number"),
        ("{\"turbo\": true}", "line 1, column 1: %llguidance: turbo is not supported"),
    ] {
        assert_eq!(error("lark", &format!("%llguidance {}{}", header, rules)), want);
    }
}

#[test]
fn lark_attributes_of_rules() {
    let source = "start: \"a\" x y\nx[capture]: X\nX: /b+/\ny[ capture=\"z\" , capture ]: \"c\"";
    check("lark", source, &["abc", "abbc"], &["ac", "ab"]);
    for (attributes, want) in [
        (
            "[capture, max_tokens=20]",
            "line 2, column 12: max_tokens of a rule is not supported; a repeat bounds its text, as in /.{0,100}/",
        ),
        (
            "[temperature=0.5]",
            "line 2, column 3: temperature of a rule is not supported; a request has one for all of its text",
        ),
        (
            "[stop=\"x\"]",
            "line 2, column 3: stop takes text back that was written, which is not supported; suffix keeps it",
        ),
        ("[stop_capture=\"x\"]", "line 2, column 3: the attribute \"stop_capture\" is not supported"),
        ("[suffix=y]: \"b\"\ny", "line 2, column 1: a rule with lazy or suffix is made of terminals: patterns, texts and names in capitals"),
        ("[]", "line 2, column 3: want an attribute, found ']'"),
        ("[capture=x]", "line 2, column 11: want a text in quotes, found 'x'"),
        ("[capture", "line 2, column 10: want ',' or ']', found ':'"),
    ] {
        assert_eq!(error("lark", &format!("start: x\nx{}: \"b\"", attributes)), want);
    }
    assert_eq!(error("lark", "start: X\nX[capture]: \"b\""), "line 2, column 2: want ':', found '['");
}

// What guidance's gen() sends, and rules that end where they first can.
#[test]
fn lark_rules_that_end_early() {
    let open = "%llguidance {}\n\nstart: \"a: \" gen\ngen[capture=\"x\", stop=\"\"]: /(?s:.*)/\n";
    check("lark", open, &["a: ", "a: b\nc"], &["a:", "b"]);
    let suffix = "start: \"<\" x \"!\"\nx[capture, suffix=\"end\"]: /(?s:.*)/";
    check("lark", suffix, &["<end!", "<a\nbend!", "<eend!"], &["<!", "<endend!", "<aend", "<a endb end!"]);
    let lazy = "start: x \"b\"\nx[lazy]: A\nA: /a+/ B?\nB: \"c\"\n%ignore \" \"";
    check("lark", lazy, &["ab", "a b"], &["aab", "acb", "a"]);
    check("lark", "start: x\nx[lazy]: /.*<end>/", &["<end>", "a<end>"], &["a<end>b<end>", "a"]);
    check("lark", "start: x \"2\"\nx[suffix=END]: /[a-z]*/\nEND: /[0-9]/", &["ab12", "12"], &["ab2", "ab122"]);
}

#[test]
fn lark_parts_of_a_text() {
    let chunks = "start: \"<\" x \">\"\nx: %regex {\"substring_chunks\": [\"abc\", \"de\", \"fg\"]}";
    check("lark", chunks, &["<>", "<abc>", "<de>", "<abcde>", "<defg>", "<abcdefg>"], &["<ab>", "<cde>", "<abcfg>"]);
    check("lark", "start: %regex {\"substring_chars\": \"äbc\"}", &["", "äb", "bc", "äbc"], &["äc", "cb"]);
    let want = "line 1, column 8: %regex: want {\"substring_chunks\": [texts]} or {\"substring_chars\": text}; others are not supported";
    assert_eq!(error("lark", "start: %regex {\"substring_words\": \"a b\"}"), want);
}

#[test]
fn flags_of_groups() {
    check("regex", "a(?s:.)b(?i:c.)", &["a\nbcx", "a\nbCx"], &["a\nBcx", "a\nbc\n"]);
    check("regex", "(?i)a(?-i:b)c", &["abc", "AbC"], &["aBc"]);
    check("regex", "(?is:a.(?-s:.))", &["A\nx"], &["A\n\n"]);
    let want = "line 1, column 1: want '(?:', '(?=', '(?!', '(?<name>' or '(?' with the flags i, s or u; other groups are not supported";
    assert_eq!(error("regex", "(?x:a)"), want);
}

#[test]
fn lark_errors() {
    for (source, want) in [
        ("start: a", "line 1, column 8: \"a\" is not defined"),
        ("a: \"x\"", "there is no rule \"start\""),
        ("start \"a\"", "line 1, column 7: want ':', found '\"'"),
        ("start: \"a\"\n%declare X", "line 2, column 1: %declare is not supported"),
        ("start{a}: \"x\"", "line 1, column 6: templates are not supported"),
        ("%import common.FOO\nstart: FOO", "line 1, column 1: common.FOO is not there"),
        ("%import python.NAME", "line 1, column 9: want 'common': other libraries are not there, found 'p'"),
        (
            "start: /a(?=b)/",
            "line 1, column 8: in the pattern: anchors and look-ahead are not supported in a part of a grammar",
        ),
        ("start: /a", "line 1, column 8: the pattern is not closed"),
        ("start: /a/x", "line 1, column 8: the flag 'x' is not supported"),
        ("start: \"ab\"..\"c\"", "line 1, column 8: want a range of one character to a later one"),
        ("start: %json {\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "nothing satisfies the grammar"),
    ] {
        assert_eq!(error("lark", source), want);
    }
    let deep = format!("start: {}", "[".repeat(60_000));
    assert_eq!(error("lark", &deep), "line 1, column 108: groups nested deeper than 100");
}

const CALL: &str = r#"{"begin":"<f=a>","content":{"type":"json_schema","json_schema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}},"end":"</f>"}"#;

fn triggered(more: &str) -> String {
    format!(
        r#"{{"type":"structural_tag","format":{{"type":"triggered_tags","triggers":["<f="],"tags":[{},{{"begin":"<f=b>","content":{{"type":"any_text"}},"end":["</f>","</g>"]}}]{}}}}}"#,
        CALL, more
    )
}

#[test]
fn structural_tags() {
    let a = "<f=a>{\"x\":1}</f>";
    check(
        "structural_tag",
        &triggered(""),
        &["", "hi <f", a, &format!("say {}{} and <f=b>any <x></g> end", a, a)],
        &["<f=", "<f=c>", "<f=a>{}</f>", "<f=a>{\"x\":1}"],
    );
    check(
        "structural_tag",
        &triggered(",\"at_least_one\":true"),
        &[a, &format!("{}x{}", a, a)],
        &["", "x", &format!("x{}", a)],
    );
    check(
        "structural_tag",
        &triggered(",\"stop_after_first\":true"),
        &["x", &format!("x{}", a)],
        &[&format!("{}x", a)],
    );
    let list = format!(r#"{{"type":"tags_with_separator","tags":[{}],"separator":", ","at_least_one":true}}"#, CALL);
    check("structural_tag", &list, &[a, &format!("{}, {}", a, a)], &["", &format!("{},{}", a, a)]);
    let rest = r#"{"format":{"type":"sequence","elements":[{"type":"const_string","value":"A"},{"type":"or","elements":[{"type":"regex","pattern":"[0-9]{2}"},{"type":"grammar","grammar":"root ::= \"g\"+"}]},
        {"type":"optional","content":{"type":"const_string","value":"?"}},{"type":"repeat","min":1,"max":2,"content":{"type":"const_string","value":"r"}},{"type":"any_text","excludes":["stop"]}]}}"#;
    check("structural_tag", rest, &["A12rr", "Agg?rsto", "A00r top"], &["A1r", "A12", "A12rstop"]);
    let older = r#"{"type":"structural_tag","structures":[{"begin":"<t>","schema":{"type":"null"},"end":"</t>"}],"triggers":["<t"]}"#;
    check("structural_tag", older, &["a<t>null</t>b", ""], &["<t>1</t>", "<t"]);
}

// A tag with marks of both kinds; its content is the integer x.
fn tag(begin: &str, end: &str) -> String {
    format!(
        r#"{{"begin":{},"content":{{"type":"json_schema","json_schema":{{"type":"integer"}}}},"end":{}}}"#,
        begin, end
    )
}

fn one(token: &str) -> String {
    format!(r#"{{"type":"token","token":{}}}"#, token)
}

#[test]
fn structural_tags_with_tokens() {
    let (open, close) = (one("\"<c>\""), one("\"</c>\""));
    let t = format!(
        r##"{{"type":"tag","begin":{},"content":{{"type":"any_text"}},"end":[{},"#end",{}]}}"##,
        open,
        close,
        one("7")
    );
    check(
        "structural_tag",
        &t,
        &["«<c>»hi«</c>»", "«<c>»#en#end", "«<c>»«#7»", "«<c>»</b>«</c>»"],
        &["<c>hi«</c>»", "«<c>»hi</c>", "«<c>»</c>«</c>»", "«<c>»#end«</c>»", "«<c>»a«<c>»«</c>»"],
    );
    // Triggers of both kinds.
    let mixed = |more: &str| {
        format!(
            r#"{{"type":"triggered_tags","triggers":["<f=",{}],"tags":[{},{},{}]{}}}"#,
            open,
            tag("\"<f=a>\"", "\"</f>\""),
            tag(&open, &close),
            tag("\"<f=b>\"", &close),
            more
        )
    };
    check(
        "structural_tag",
        &mixed(""),
        &["", "a <f", "a<f=a>1</f>b«<c>»2«</c>»<f=b>3«</c>»<", "«<c>»-4«</c>»«<c>»5«</c>»"],
        &["<c>", "«<c>»", "x<c>1", "«<c>»1</f>", "<f=a>1«</c>»", "<f=c>", "«</c>»", "a«<d>»"],
    );
    check("structural_tag", &mixed(",\"at_least_one\":true"), &["«<c>»1«</c>»", "<f=a>1</f>x"], &["", "x«<c>»1«</c>»"]);
    let once = mixed(",\"at_least_one\":true,\"stop_after_first\":true");
    check("structural_tag", &once, &["«<c>»1«</c>»", "<f=a>1</f>"], &["«<c>»1«</c>»x", "«<c>»1«</c>»«<c>»1«</c>»"]);
    // A text trigger that holds the text of a token trigger.
    let both = format!(
        r#"{{"type":"triggered_tags","triggers":["<c>x",{}],"tags":[{},{}]}}"#,
        open,
        tag("\"<c>x\"", "\"</f>\""),
        tag(&open, &close),
    );
    check("structural_tag", &both, &["<c>x1</f>", "«<c>»1«</c>»", "a<c>"], &["<c>x", "«<c>»1</f>"]);
    // The end of a tag around free text.
    let outer = format!(r#"{{"type":"tag","begin":"[","content":{},"end":"]"}}"#, mixed(""));
    check("structural_tag", &outer, &["[a«<c>»1«</c>»b]", "[]"], &["[a]b]", "[«<c>»1]"]);
    let list = format!(
        r#"{{"type":"tags_with_separator","tags":[{}],"separator":{},"at_least_one":true}}"#,
        tag(&open, &close),
        one("9")
    );
    check(
        "structural_tag",
        &list,
        &["«<c>»1«</c>»", "«<c>»1«</c>»«#9»«<c>»2«</c>»"],
        &["", "«<c>»1«</c>»«<c>»2«</c>»"],
    );
}

#[test]
fn token_formats() {
    check("structural_tag", r#"{"type":"token","token":12}"#, &["«#12»"], &["", "«#13»", "12"]);
    check(
        "structural_tag",
        r#"{"type":"exclude_token","exclude_tokens":[3,"plain","<eos>"]}"#,
        &["«#4»"],
        &["«#3»", "«#5»", "", "a"],
    );
    let any = r#"{"type":"tag","begin":"(","content":{"type":"any_tokens","exclude_tokens":["plain"],"max_tokens":2},"end":{"type":"token","token":8}}"#;
    check(
        "structural_tag",
        any,
        &["(«#1»«#2»«#8»", "(«#8»"],
        &["(«#1»", "(«#8»«#8»", "(«#5»«#8»", "(«#1»«#1»«#1»«#8»"],
    );
    let dispatched = |more: &str| {
        format!(
            r#"{{"type":"token_triggered_tags","trigger_tokens":["<c>",4],"tags":[{},{}],"exclude_tokens":["<eos>",2]{}}}"#,
            tag(&one("\"<c>\""), &one("\"</c>\"")),
            tag(&one("4"), "\"$\""),
            more
        )
    };
    // The text of the trigger has to be known too.
    assert_eq!(error("structural_tag", &dispatched("")), "#: exclude_tokens: \"<eos>\" is not one token here");
    let ids = dispatched("").replace("\"<c>\"", "\"<eos>\"");
    check(
        "structural_tag",
        &ids,
        &["", "«#1»«#9»", "«#1»«#4»7$«#1»«<eos>»1«</c>»"],
        &["a", "«#2»", "«#4»", "«#4»7«</c>»", "«<eos>»"],
    );
    check(
        "structural_tag",
        &ids.replace("exclude_tokens\":[\"<eos>\",2]", "at_least_one\":true,\"stop_after_first\":true"),
        &["«#4»7$"],
        &["«#1»«#4»7$", "«#4»7$«#1»"],
    );
}

#[test]
fn dispatches() {
    let text = r#"{"type":"tag","begin":"[","content":{"type":"dispatch","rules":[["<f>",{"type":"const_string","value":"1"}],["<f>",{"type":"const_string","value":"2"}],["g:",{"type":"regex","pattern":"[a-z]"}]],"excludes":["bad"]},"end":"]"}"#;
    check(
        "structural_tag",
        text,
        &["[]", "[x<f>1 <f>2g:q]", "[ba<f>1d]"],
        &["[<f>]", "[<f>3]", "[a bad x]", "[g:]", "[a]]"],
    );
    let once = r#"{"type":"dispatch","rules":[["<f>",{"type":"const_string","value":"1"}]],"loop":false}"#;
    check("structural_tag", once, &["x", "x<f>1"], &["x<f>1x", "<f>"]);
    let tokens = r#"{"type":"token_dispatch","rules":[[5,{"type":"const_string","value":"1"}],["plain",{"type":"const_string","value":"2"}]],"exclude_tokens":[7]}"#;
    check("structural_tag", tokens, &["", "«#4»«#5»1«#4»«plain»2"], &["«#5»", "«#7»", "«#5»2", "a"]);
}

#[test]
fn schemas_with_options_of_their_own() {
    let o = Options::default();
    let schema = r#""json_schema":{"type":"object","properties":{"a":{"type":"string","format":"idn-hostname"}}}"#;
    let source = |first: &str, second: &str| {
        format!(
            r#"{{"type":"sequence","elements":[{{"type":"json_schema",{}{}}},{{"type":"json_schema",{}{}}}]}}"#,
            schema, first, schema, second
        )
    };
    let lenient = ",\"lenient\":true";
    assert_eq!(
        error("structural_tag", &source(lenient, "")),
        "#/elements/1/json_schema/properties/a: format: the format \"idn-hostname\" is not supported"
    );
    let c = compile("structural_tag", &source(lenient, lenient), &o).unwrap();
    let pointers: Vec<&str> = c.dropped.iter().map(|d| d.pointer.as_str()).collect();
    assert_eq!(pointers, ["#/elements/0/json_schema/properties/a", "#/elements/1/json_schema/properties/a"]);
    let strict = Options { lenient: true, ..o.clone() };
    assert!(compile("structural_tag", &source("", ",\"lenient\":false"), &strict).is_err());
    for (more, second_first) in [("", false), (",\"any_order\":true", true), (",\"x-order\":\"any\"", true)] {
        let s = format!(
            r#"{{"type":"json_schema","json_schema":{{"properties":{{"a":true,"b":true}},"required":["a","b"],"type":"object"}}{}}}"#,
            more
        );
        let g = matcher::Grammar::read(&compile("structural_tag", &s, &o).unwrap().ir);
        assert!(g.admits(br#"{"a":1,"b":2}"#));
        assert_eq!(g.admits(br#"{"b":2,"a":1}"#), second_first, "{}", s);
    }
    let list = |more: &str| format!(r#"{{"type":"json_schema","json_schema":{{"const":[1,2]}}{}}}"#, more);
    let admits = |more: &str, text: &str| {
        matcher::Grammar::read(&compile("structural_tag", &list(more), &o).unwrap().ir).admits(text.as_bytes())
    };
    for (more, spaces, want) in [
        ("", "[1,\n   2]", true),
        (",\"whitespace\":\"compact\"", "[1, 2]", false),
        (",\"whitespace\":\"space\"", "[1, 2]", true),
        (",\"whitespace\":\"space\"", "[1,\n2]", false),
        (",\"indent\":2", "[1,\n   2]", false),
        (",\"max_whitespace_cnt\":3", "[1,\n  2]", true),
        (",\"max_whitespace_cnt\":3", "[1,\n   2]", false),
        (",\"max_whitespace_cnt\":0", "[1, 2]", false),
    ] {
        assert_eq!(admits(more, spaces), want, "{} {:?}", more, spaces);
    }
}

#[test]
fn any_text_counts_characters() {
    let t = r#"{"type":"tag","begin":"","content":{"type":"any_text","max_chars":3,"excludes":["b"]},"end":";"}"#;
    check("structural_tag", t, &[";", "éé\u{1F600};"], &["aaaa;", "ab;", "a;;"]);
}

#[test]
fn structural_tag_errors() {
    for (source, want) in [
        (r#"{"format":{"type":"any"}}"#, "#/format: type: \"any\" is not supported"),
        (r#"{"format":{"type":"tag","begin":"a","content":{"type":"any_text"}}}"#, "#/format: end: is missing"),
        (
            r#"{"format":{"type":"regex","pattern":"("}}"#,
            "#/format: pattern: line 1, column 1: the group is not closed",
        ),
        (
            r#"{"format":{"type":"json_schema","json_schema":{"properties":{"a":{"type":"string","format":"regex"}}}}}"#,
            "#/format/json_schema/properties/a: format: the format \"regex\" is not supported",
        ),
        (
            r#"{"format":{"type":"triggered_tags","triggers":["<a"],"tags":[{"begin":"<b","content":{"type":"any_text"},"end":""}]}}"#,
            "#/format/tags/0: begin: \"<b\" begins with 0 of the triggers, want exactly one",
        ),
        (
            r#"{"type":"tag","begin":{"type":"token","token":""},"content":{"type":"any_text"},"end":""}"#,
            "#/begin: token: the text of a token is not empty",
        ),
        (
            r#"{"type":"tag","begin":{"type":"regex","pattern":"a"},"content":{"type":"any_text"},"end":""}"#,
            "#: begin: want a string or a format of type \"token\", got an object",
        ),
        (r#"{"type":"tag","begin":"","content":{"type":"any_text"},"end":[]}"#, "#: end: want at least one"),
        (
            r#"{"type":"tag","begin":"","content":{"type":"any_text"},"end":["a",{"token":-1}]}"#,
            "#/end/1: token: want the id of a token, 0 to 2147483647, got -1",
        ),
        (
            r#"{"type":"triggered_tags","triggers":["a"],"tags":[{"begin":{"type":"token","token":"a"},"content":{"type":"any_text"},"end":""}]}"#,
            "#/tags/0: begin: the token \"a\" begins with 0 of the triggers, want exactly one",
        ),
        (
            r#"{"type":"any_text","max_tokens":3}"#,
            "#: max_tokens: is not supported: a text is not counted in tokens; max_chars is, and any_tokens",
        ),
        (r#"{"type":"any_text","excludes":["a",""]}"#, "#: excludes: an empty string is in every text"),
        (
            r#"{"type":"json_schema","json_schema":true,"style":"toml"}"#,
            "#: style: \"toml\" is not supported; \"json\", \"qwen_xml\", \"minimax_xml\" and \"glm_xml\" are",
        ),
        (
            r#"{"type":"json_schema","json_schema":true,"x-order":"some"}"#,
            "#: x-order: want \"schema\" or \"any\", got \"some\"",
        ),
        (r#"{"type":"json_schema","json_schema":true,"lenient":1}"#, "#: lenient: want true or false, got 1"),
        (
            r#"{"type":"exclude_token","exclude_tokens":["plain"]}"#,
            "#: exclude_tokens: \"plain\" is not one token here",
        ),
        (r#"{"type":"dispatch","rules":[["",{"type":"any_text"}]]}"#, "#/rules/0: 0: want a string that is not empty"),
        ("[1", "line 1, column 3: want ',' or ']', found the end of the text"),
    ] {
        assert_eq!(error("structural_tag", source), want);
    }
}

#[test]
fn parameters_in_tags() {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1},"unit":{"enum":["C","F","\n"]},"code":{"type":"string","pattern":"^[A-Z].$"},"short":{"type":"string","minLength":2,"maxLength":3},"where":{"type":["object","null"],"properties":{"x":{"type":"number"}},"additionalProperties":false}},"required":["city"],"additionalProperties":false}"#;
    let styled = |style: &str| {
        format!(
            r#"{{"type":"tag","begin":"<f>","content":{{"type":"json_schema","json_schema":{},"style":"{}"}},"end":"</f>"}}"#,
            schema, style
        )
    };
    check(
        "structural_tag",
        &styled("qwen_xml"),
        &[
            "<f><parameter=city>Aix \"en\" <Provence>\\</parameter></f>",
            "<f>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n</f>",
            "<f><parameter=city></parameter><parameter=unit>C</parameter><parameter=code>\nA:\n</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=unit>\n\n\n</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=short>\nab\n</parameter><parameter=where>{\"x\":1}</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=short>a\nb</parameter><parameter=where>\nnull</parameter></f>",
        ],
        &[
            "<f></f>",
            "<f><parameter=days>3</parameter></f>",
            "<f><parameter=city>a</parameter>b</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=days>0</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=days>\"3\"</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=unit>K</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=unit>\"C\"</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=unit>\n</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=code>A\"</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=code>AB:</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=short>\na\n</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=short>abcd</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=where>{\"y\":1}</parameter></f>",
            "<f><parameter=city>a</parameter><parameter=other>b</parameter></f>",
            "<f>{\"city\":\"a\"}</f>",
        ],
    );
    check(
        "structural_tag",
        &styled("minimax_xml"),
        &["<f><parameter name=\"city\">a</parameter></f>"],
        &["<f><parameter=city>a</parameter></f>"],
    );
    check(
        "structural_tag",
        &styled("glm_xml"),
        &["<f><arg_key>city</arg_key>\n<arg_value>a</arg_value>\n<arg_key>days</arg_key><arg_value>2</arg_value></f>"],
        &[
            "<f><arg_key>city</arg_key><arg_value>a</arg_key></f>",
            "<f><arg_key>days</arg_key><arg_value>2</arg_value></f>",
        ],
    );
    let free = r#"{"type":"qwen_xml_parameter","json_schema":{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":["boolean","string"]},"minProperties":1}}"#;
    check(
        "structural_tag",
        free,
        &[
            "<parameter=a>1</parameter>",
            "<parameter=b_2>x</parameter>",
            "<parameter=a>1</parameter><parameter=b>true</parameter>",
        ],
        &["", "<parameter=a>x</parameter>", "<parameter=2b>x</parameter>", "<parameter=b>x"],
    );
    assert_eq!(
        error("structural_tag", r#"{"type":"qwen_xml_parameter","json_schema":{"properties":{"a>":true}}}"#),
        "#/json_schema: \"a>\" can't be the name of a parameter"
    );
    assert_eq!(
        error("structural_tag", r#"{"type":"qwen_xml_parameter","json_schema":{"type":"string"}}"#),
        "nothing satisfies the grammar"
    );
}
