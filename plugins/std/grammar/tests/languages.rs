//! Every language but JSON Schema: what is admitted, and what errors say.

mod matcher;

use grammar::{compile, Options, Whitespace};

fn check(language: &str, source: &str, yes: &[&str], no: &[&str]) {
    let o = Options { whitespace: Whitespace::Compact, ..Options::default() };
    let c = compile(language, source, &o).unwrap_or_else(|e| panic!("{}: {}", source, e));
    let g = matcher::Grammar::read(&c.ir);
    for (texts, want) in [(yes, true), (no, false)] {
        for t in texts {
            assert_eq!(g.admits(t.as_bytes()), want, "{}\non {:?}", source, t);
        }
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
    check("gbnf", "root ::= <think> \"a\" !<[7]>? <[3]>?", &["<think>a"], &["a", "think"]);
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
    check("lark", "start: <|end|> \"a\" | [\"b\"]", &["<|end|>a", "", "b"], &["a"]);
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
            r#"{"format":{"type":"json_schema","json_schema":{"properties":{"a":{"type":"string","format":"x"}}}}}"#,
            "#/format/json_schema/properties/a: format: the format \"x\" is not supported",
        ),
        (
            r#"{"format":{"type":"triggered_tags","triggers":["<a"],"tags":[{"begin":"<b","content":{"type":"any_text"},"end":""}]}}"#,
            "#/format/tags/0: begin: \"<b\" begins with 0 of the triggers, want exactly one",
        ),
        ("[1", "line 1, column 3: want ',' or ']', found the end of the text"),
    ] {
        assert_eq!(error("structural_tag", source), want);
    }
}
