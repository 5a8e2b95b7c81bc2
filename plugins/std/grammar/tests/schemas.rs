//! What a JSON Schema's grammar admits beyond single keywords: order, names that
//! come twice, white space, escapes, what is refused and what lenient leaves out.

mod matcher;

use grammar::{compile, Compiled, Options, Whitespace};

fn options() -> Options {
    Options { whitespace: Whitespace::Compact, ..Options::default() }
}

fn check_with(o: &Options, schema: &str, yes: &[&str], no: &[&str]) -> Compiled {
    let c = compile("json_schema", schema, o).unwrap_or_else(|e| panic!("{}: {}", schema, e));
    let g = matcher::Grammar::read(&c.ir);
    for (texts, want) in [(yes, true), (no, false)] {
        for t in texts {
            assert_eq!(g.admits(t.as_bytes()), want, "{}\non {}", schema, t);
        }
    }
    c
}

fn check(schema: &str, yes: &[&str], no: &[&str]) {
    check_with(&options(), schema, yes, no);
}

fn refused(schema: &str) -> String {
    match compile("json_schema", schema, &options()) {
        Ok(_) => panic!("{} is not refused", schema),
        Err(e) => e.to_string(),
    }
}

#[test]
fn members_come_in_order_and_once() {
    let s = r#"{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"null"},"c":true},"required":["a"]}"#;
    check(
        s,
        &[r#"{"a":null}"#, r#"{"b":1,"a":null,"c":[]}"#, r#"{"a":null,"x":1,"y":2}"#, r#"{"b":1,"a":null,"x":{}}"#],
        &[
            "{}",
            r#"{"a":null,"b":1}"#,
            r#"{"a":null,"a":null}"#,
            r#"{"a":null,"x":1,"c":2}"#,
            r#"{"x":1,"a":null}"#,
            r#"{"a":null,"b":"x"}"#,
        ],
    );
    // No name that the schema gives comes among the others, however it is written.
    check(
        r#"{"properties":{"a":{}},"type":"object"}"#,
        &[r#"{"a":1,"ab":2}"#, r#"{"\"":1}"#],
        &[r#"{"x":1,"a":2}"#, r#"{"\u0061":1}"#],
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"null"}},"patternProperties":{"^a":{"type":["null","integer"]},"b$":{"type":"integer"}},"additionalProperties":false}"#,
        &[r#"{"a":null}"#, r#"{"ac":null,"b":1}"#, r#"{"ab":1}"#],
        &[r#"{"a":1}"#, r#"{"ab":null}"#, r#"{"c":1}"#, r#"{"ac":1,"a":null}"#],
    );
    check(
        r##"{"allOf":[{"properties":{"z":{"type":"integer"}},"required":["z"]},{"$ref":"#/$defs/y"}],"type":"object","$defs":{"y":{"properties":{"y":{"maximum":3},"z":{"minimum":2}}}},"additionalProperties":false,"properties":{"y":true,"z":true}}"##,
        &[r#"{"z":2}"#, r#"{"z":5,"y":3}"#],
        &["{}", r#"{"z":1}"#, r#"{"z":5,"y":4}"#, r#"{"y":3,"z":5}"#],
    );
}

#[test]
fn strings() {
    check(r#"{"type":"string"}"#, &[r#""""#, r#""a\n\/é\u00e9\ud83d\ude00""#], &[r#""\ud83d""#, "\"\n\"", "\"a"]);
    check(
        r#"{"type":"string","minLength":2,"maxLength":3}"#,
        &[r#""😀é""#, r#""\u00e9\n\ud83d\ude00""#],
        &[r#""😀""#, r#""\n""#, r#""abcd""#],
    );
    check(
        r#"{"type":"string","pattern":"^\"\\s+$","maxLength":3}"#,
        &[r#""\" ""#, r#""\"\n\t""#],
        &[r#""\"""#, r#""\" \u000a""#, r#""\"    ""#],
    );
    check(
        r#"{"enum":["a\"b","é","\u0001",null,[1,{"a":"b"}],1.50,true]}"#,
        &[r#""a\"b""#, r#""é""#, r#""\u0001""#, "null", r#"[1,{"a":"b"}]"#, "1.5", "true"],
        &[r#""\u00e9""#, "1.50", "false", "[1,{}]"],
    );
    check(
        r#"{"type":"string","format":"date","pattern":"^2024"}"#,
        &[r#""2024-02-29""#],
        &[r#""2023-01-01""#, r#""2024-02-30""#],
    );
    check(r#"{"type":"string","not":{"enum":["a","b"]}}"#, &[r#""c""#, r#""""#, r#""ab""#], &[r#""a""#, r#""b""#]);
}

#[test]
fn numbers() {
    check(
        r#"{"type":"integer","minimum":-3,"exclusiveMaximum":12.5}"#,
        &["-3", "0", "12", "9"],
        &["-4", "13", "1.0", "-0", "1e1"],
    );
    check(
        r#"{"type":"number","exclusiveMinimum":0.1,"maximum":1}"#,
        &["0.11", "1", "1.0", "0.5"],
        &["0.1", "0.10", "1.01", "0", "1e-1"],
    );
    check(
        r#"{"type":"integer","multipleOf":7,"minimum":0}"#,
        &["0", "7", "14", "7000", "49"],
        &["1", "13", "70001", "07"],
    );
    check(r#"{"type":"number","multipleOf":0.01}"#, &["0.01", "1.5", "-3", "2.50"], &["0.001", "1.555"]);
    check(r#"{"type":"number"}"#, &["1E+3", "-0.5e-3", "12", "-0"], &["1.", ".5", "01", "1e"]);
    check(r#"{"type":"integer","format":"int32"}"#, &["2147483647", "-2147483648"], &["2147483648"]);
}

#[test]
fn arrays() {
    check(
        r#"{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3}"#,
        &["[1,2]", "[1,2,3]"],
        &["[1]", "[]", "[1,2,3,4]", "[1,null]"],
    );
    check(
        r#"{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},"minItems":1}"#,
        &["[1]", "[1,\"a\"]", "[1,\"a\",null,null]"],
        &["[]", "[\"a\"]", "[1,\"a\",1]"],
    );
    check(
        r#"{"type":"array","items":{"enum":[1,2,"a"]},"uniqueItems":true,"minItems":1}"#,
        &["[1]", "[2,1,\"a\"]"],
        &["[]", "[1,1]", "[1,2,\"a\",1]"],
    );
    check(
        r#"{"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"minContains":1,"maxContains":2}"#,
        &["[5]", "[1,7,2,9]"],
        &["[]", "[1,2]", "[5,6,7]", "[5,null]"],
    );
    assert_eq!(
        refused(r#"{"properties":{"a":{"type":"array","uniqueItems":true}}}"#),
        "#/properties/a: uniqueItems: items have more than 24 values"
    );
}

// Alternatives are told apart by their members, whose values may be the alternatives again.
#[test]
fn alternatives_of_themselves() {
    check(
        r##"{"oneOf":[{"const":"leaf"},{"type":"object","properties":{"k":{"$ref":"#"}},"required":["k"],"additionalProperties":false}]}"##,
        &["\"leaf\"", r#"{"k":"leaf"}"#, r#"{"k":{"k":"leaf"}}"#],
        &["{}", r#"{"k":"tree"}"#, r#"{"k":{"k":1}}"#],
    );
    check(
        r##"{"oneOf":[{"type":"integer"},{"type":"object","properties":{"op":{"const":"+"},"l":{"$ref":"#"},"r":{"$ref":"#"}},"required":["op","l","r"]},{"type":"object","properties":{"op":{"const":"neg"},"l":{"$ref":"#"}},"required":["op","l"]}]}"##,
        &["1", r#"{"op":"+","l":1,"r":{"op":"neg","l":2}}"#],
        &[r#"{"op":"+","l":1}"#, r#"{"op":"neg","l":"x"}"#, r#"{"op":"*","l":1,"r":2}"#],
    );
    // What is no object is of both, and so is every object with k that is of the second.
    check(
        r##"{"oneOf":[{},{"properties":{"k":{"$ref":"#"}},"required":["k"]}]}"##,
        &["{}", r#"{"a":1}"#, r#"{"k":1}"#, r#"{"k":{"k":{}}}"#],
        &["1", r#"{"k":{}}"#, r#"{"k":{"a":1}}"#],
    );
}

#[test]
fn combinations() {
    let tagged = r#"{"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"x":{"type":"integer"}},"required":["t","x"]},{"type":"object","properties":{"t":{"const":"b"}},"required":["t"]}]}"#;
    check(tagged, &[r#"{"t":"a","x":1}"#, r#"{"t":"b"}"#, r#"{"t":"b","x":null}"#], &[r#"{"t":"a"}"#, r#"{"t":"c"}"#]);
    check(
        r#"{"oneOf":[{"type":"integer","multipleOf":2},{"type":"integer","multipleOf":3}]}"#,
        &["2", "3", "9", "10"],
        &["6", "12", "1"],
    );
    check(
        r#"{"oneOf":[{"type":"object","required":["a"]},{"type":"object","required":["b"]}]}"#,
        &[r#"{"a":1}"#, r#"{"b":1}"#],
        &[r#"{"a":1,"b":1}"#, r#"{"b":1,"a":1}"#, "{}"],
    );
    check(
        r#"{"type":"object","if":{"properties":{"k":{"const":1}},"required":["k"]},"then":{"required":["v"]},"else":{"properties":{"v":false}}}"#,
        &[r#"{"k":1,"v":2}"#, r#"{"k":2}"#, "{}"],
        &[r#"{"k":1}"#, r#"{"k":2,"v":1}"#],
    );
    check(
        r##"{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"],"additionalProperties":false}}}"##,
        &[r#"{"v":1,"next":{"v":2,"next":null}}"#],
        &[r#"{"v":1}"#, r#"{"v":1,"next":{}}"#],
    );
    assert_eq!(
        refused(r##"{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}"##),
        "nothing satisfies the grammar"
    );
    assert_eq!(
        refused(r##"{"$ref":"#"}"##),
        "#: the schema refers to itself without an end, or through too many others"
    );
}

#[test]
fn counted_members() {
    let s = r#"{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"additionalProperties":false,"minProperties":2,"maxProperties":2}"#;
    check(
        s,
        &[r#"{"a":null,"b":null}"#, r#"{"a":null,"c":null}"#, r#"{"b":null,"c":null}"#],
        &["{}", r#"{"a":null}"#, r#"{"a":null,"b":null,"c":null}"#],
    );
    check(
        r#"{"type":"object","minProperties":1,"maxProperties":2}"#,
        &[r#"{"x":1}"#, r#"{"x":1,"y":1}"#],
        &["{}", r#"{"x":1,"y":1,"z":1}"#],
    );
    check(
        r#"{"type":"object","propertyNames":{"enum":["a","b","c"]},"minProperties":2}"#,
        &[r#"{"a":1,"b":1}"#],
        &[r#"{"a":1}"#, r#"{"a":1,"a":2}"#, r#"{"d":1,"a":1}"#],
    );
}

#[test]
fn white_space() {
    let s = r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"],"additionalProperties":false}"#;
    let with = |w| Options { whitespace: w, ..Options::default() };
    let pretty = "{\n  \"a\": [\n    1,\n    2\n  ]\n}";
    check_with(
        &with(Whitespace::Space),
        s,
        &["{\"a\":[1,2]}", "{ \"a\" : [ 1 , 2 ] }", "{\"a\":[ ]}"],
        &["{  \"a\":[]}", pretty, " {\"a\":[]}", "{\"a\":[]} "],
    );
    check_with(
        &with(Whitespace::Flexible { indent: 4 }),
        s,
        &["{\"a\":[1,2]}", "{ \"a\" : [ 1 , 2 ] }", pretty],
        &["{\n\n\"a\":[]}", "{\n     \"a\":[]}", "{  \"a\":[]}"],
    );
    check_with(&with(Whitespace::Compact), s, &["{\"a\":[1,2]}"], &["{\"a\": [1,2]}"]);
}

#[test]
fn refusals_name_pointer_keyword_and_reason() {
    for (schema, want) in [
        (
            r#"{"properties":{"a/b":{"items":{"type":"string","pattern":"(?<=x)y"}}}}"#,
            "#/properties/a~1b/items: pattern: line 1, column 1: look-behind is not supported",
        ),
        (r#"{"type":"string","format":"regex"}"#, "#: format: the format \"regex\" is not supported"),
        (r#"{"$ref":"other.json"}"#, "#: $ref: \"other.json\" is not in this document, and others are not loaded"),
        (r##"{"$ref":"#/$defs/x"}"##, "#: $ref: there is nothing at \"#/$defs/x\""),
        (r#"{"type":"strin"}"#, "#: type: \"strin\" is no type"),
        (r#"{"properties":{"a":5}}"#, "#/properties/a: a schema is an object or a boolean, not a number"),
        (r#"{"minLength":-1}"#, "#: minLength: want a whole number from 0 on, got -1"),
        (r#"{"multipleOf":0}"#, "#: multipleOf: want a number above 0, got 0"),
        (r#"{"multipleOf":-2.5e0}"#, "#: multipleOf: want a number above 0, got -2.5e0"),
        (r#"{"not":{"minLength":-5}}"#, "#/not: minLength: want a whole number from 0 on, got -5"),
        (
            r#"{"required":["a"],"additionalProperties":false,"properties":{"a":{"maxLength":-5}}}"#,
            "#/properties/a: maxLength: want a whole number from 0 on, got -5",
        ),
        (
            r#"{"type":"object","required":["a"],"properties":{"b":{},"a":{"enum":[]}}}"#,
            "#/properties/a: enum: [] allows no value: nothing satisfies the grammar",
        ),
        (r#"{"enum":3}"#, "#: enum: want an array, got a number"),
        (r#"{"type":"string","type":"null"}"#, "line 1, column 18: the name \"type\" comes twice"),
        (r#"{"type":"string","minLength":3,"maxLength":2}"#, "nothing satisfies the grammar"),
    ] {
        assert_eq!(refused(schema), want, "{}", schema);
    }
    // A keyword that concerns no value that can come is no reason to refuse.
    check(r#"{"type":"integer","uniqueItems":true,"format":"regex","pattern":"(?<=x)"}"#, &["1"], &["\"a\""]);
}

#[test]
fn lenient_lists_what_it_leaves_out() {
    let o = Options { lenient: true, ..options() };
    let s = r#"{"type":"object","properties":{"a":{"type":"string","format":"regex"},"b":{"type":"array","items":{"type":"integer"},"uniqueItems":true}},"required":["a","b"]}"#;
    let c = check_with(&o, s, &[r#"{"a":"(","b":[1,1]}"#], &[r#"{"a":1,"b":[]}"#, r#"{"a":"","b":["x"]}"#]);
    let dropped: Vec<String> = c.dropped.iter().map(|d| format!("{} {}", d.pointer, d.keyword)).collect();
    assert_eq!(dropped, ["#/properties/a format", "#/properties/b uniqueItems"]);
    let c = check_with(&o, r#"{"$ref":"other.json"}"#, &["1", "{}"], &["x"]);
    assert_eq!(c.dropped[0].keyword, "$ref");
    let c = check_with(&o, r#"{"type":"string","not":{"format":"regex"}}"#, &["\"a\""], &["1"]);
    assert_eq!(c.dropped.len(), 1);
    assert!(check_with(&options(), r#"{"type":"null"}"#, &["null"], &[]).dropped.is_empty());
}

#[test]
fn members_of_several_kinds_are_asked_for_at_once() {
    let of = |x: &str, other: &str| {
        format!(
            r#"{{"type":"object","not":{{"anyOf":[{{"patternProperties":{{"^x":{}}}}},{{"patternProperties":{{"^x":true}},"additionalProperties":{}}}]}}}}"#,
            x, other
        )
    };
    let s = of(r#"{"type":"string"}"#, r#"{"type":"boolean"}"#);
    let (yes, no) = (
        [r#"{"x":1,"a":1}"#, r#"{"a":1,"x1":1,"b":null}"#, r#"{"x":"","a":true,"x":2,"c":3}"#],
        ["{}", r#"{"x":1}"#, r#"{"a":1}"#, r#"{"x":"","a":1}"#, r#"{"x":1,"a":true}"#, r#"{"x":1,"a":1,"x":""}"#],
    );
    check(&s, &yes, &no);
    check_with(&Options { any_order: true, ..options() }, &s, &yes, &no);
    // With their number.
    let few = s.replacen('{', r#"{"maxProperties":3,"minProperties":2,"#, 1);
    check(&few, &[r#"{"a":1,"x":1,"b":1}"#, r#"{"x":1,"a":1}"#], &[r#"{"a":1,"b":1,"x":1,"c":1}"#]);
    let two = s.replacen('{', r#"{"maxProperties":1,"#, 1);
    assert_eq!(refused(&two), "nothing satisfies the grammar");
    // Members of which one might be both are not told apart.
    let both = r#"{"not":{"anyOf":[{"patternProperties":{"x":{"type":"string"}}},{"patternProperties":{"y":{"type":"number"}}}]},"type":"object"}"#;
    assert_eq!(refused(both), "#: two kinds of members that may have the same names are asked for at once");
}

#[test]
fn order_of_members_is_spelt_right() {
    for (schema, want) in [
        (r#"{"x-order":"anny"}"#, r#"#: x-order: want "any" or "schema", got "anny""#),
        (r##"{"$ref":"#/$defs/a","x-order":1,"$defs":{"a":{}}}"##, r#"#: x-order: want "any" or "schema", got 1"#),
        (r#"{"x-oder":"any"}"#, r#"#: x-oder: there is no such keyword; did you mean "x-order"?"#),
        (r#"{"properties":{"a":{"X-Order":"schema"}}}"#, r#"#/properties/a: X-Order: there is no such keyword; did you mean "x-order"?"#),
        (r#"{"properties":{"a":{"x-order":"any"}}}"#, "#/properties/a: x-order: only the root of a schema sets the order of members"),
    ] {
        let refused = grammar::compile("json_schema", schema, &options()).unwrap_err();
        assert_eq!(refused.to_string(), want, "{}", schema);
    }
    for schema in [
        r#"{"x-border":"thin","x-variant":"any"}"#,
        r#"{"type":"string","x-order":"schema"}"#,
        r#"{"properties":{"a":{"type":"string","x-order":3}}}"#, // numbered, as OpenAPI generators do
    ] {
        assert!(grammar::compile("json_schema", schema, &options()).is_ok(), "{}", schema);
    }
}

// What a schema's automata may take is bounded, whatever it asks for: 150,000 moves are some tens of milliseconds.
#[test]
fn questions_about_automata_end_early() {
    let primes = [7, 11, 13, 17, 19, 23, 29, 31].map(|p| format!(r#"{{"multipleOf":{}}}"#, p)).join(",");
    let patterns: Vec<String> = ('a'..='m').map(|c| format!(r#""[a-z]*{}[a-z]{{8}}":{{"maxLength":{}}}"#, c, c as u32)).collect();
    for (schema, most) in [
        (format!(r#"{{"type":"number","allOf":[{}],"minimum":3}}"#, primes), 160_000),
        (r#"{"type":"number","multipleOf":3999,"minimum":-1e30,"maximum":1e30}"#.into(), 160_000),
        (format!(r#"{{"patternProperties":{{{}}}}}"#, patterns.join(",")), 160_000),
        // Names of 1 to 255 characters are no list: that takes no automaton.
        (r#"{"patternProperties":{"^[0-9a-zA-Z_-]{1,255}$":{}},"additionalProperties":false}"#.into(), 500),
        // One pattern is told apart from itself among others at once.
        (r#"{"allOf":[{"patternProperties":{"^(abc[.])?import$":{},"^x-.*$":{}},"additionalProperties":false},
            {"patternProperties":{"^(abc[.])?import$":{},"^x-.*$":{}},"additionalProperties":false}]}"#.into(), 500),
    ] {
        let b = grammar::build::Builder::over(grammar::prepare::pool());
        let before = b.p.walked();
        let value = grammar::json::parse(&schema).unwrap();
        // What is refused gives no builder back, so the pool is asked by a compilation that goes on.
        let lenient = Options { lenient: true, ..options() };
        if let Ok((b, _)) = grammar::schema::compile(b, &value, &lenient, &mut Vec::new()) {
            let moves = b.p.walked() - before;
            assert!(moves < most, "{}: {} moves", schema, moves);
        }
    }
}

#[test]
fn members_in_any_order() {
    let any = Options { any_order: true, ..options() };
    let s = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{"type":"boolean"}},"required":["a","c"],"additionalProperties":false}"#;
    check_with(
        &any,
        s,
        &[r#"{"a":1,"c":true}"#, r#"{"c":true,"a":1}"#, r#"{"b":null,"c":true,"a":1}"#, r#"{"c":true,"b":null,"a":1}"#],
        &["{}", r#"{"a":1}"#, r#"{"c":true,"b":null}"#, r#"{"c":true,"c":true,"a":1}"#, r#"{"c":true,"d":1,"a":1}"#, r#"{"a":1,"c":true,}"#],
    );
    // The schema may say so itself, and then for itself alone.
    let own = s.replacen('{', r#"{"x-order":"any","#, 1);
    check(&own, &[r#"{"c":true,"a":1}"#], &[r#"{"c":true}"#]);
    check(s, &[r#"{"a":1,"c":true}"#], &[r#"{"c":true,"a":1}"#]);
    check_with(&any, &own.replacen("any", "schema", 1), &[], &[r#"{"c":true,"a":1}"#]);
    // What has no name of its own may stand anywhere, as often as it likes, but never takes a name that has.
    check_with(
        &any,
        r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"patternProperties":{"^x":{"type":"null"}},"additionalProperties":{"type":"boolean"}}"#,
        &[r#"{"x1":null,"a":1,"y":true}"#, r#"{"y":true,"z":false,"a":1}"#, r#"{"a":1}"#],
        &[r#"{"x1":null,"y":true}"#, r#"{"x1":true,"a":1}"#, r#"{"a":1,"a":2}"#, r#"{"a":1,"y":null}"#],
    );
    // Their number, and dependencies on each other.
    check_with(
        &any,
        r#"{"type":"object","properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,"minProperties":2,"maxProperties":2}"#,
        &[r#"{"c":1,"a":1}"#, r#"{"b":1,"a":1}"#],
        &["{}", r#"{"c":1}"#, r#"{"c":1,"b":1,"a":1}"#],
    );
    check_with(
        &any,
        r#"{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false,"dependentRequired":{"a":["b"]}}"#,
        &[r#"{"b":1,"a":1}"#, r#"{"a":1,"b":1}"#, r#"{"b":1}"#, "{}"],
        &[r#"{"a":1}"#],
    );
    check_with(
        &any,
        r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{}},"not":{"additionalProperties":{"type":"null"},"properties":{"a":{},"b":{}}}}"#,
        &[r#"{"b":1,"x":1}"#, r#"{"b":1,"a":1,"x":null,"y":1}"#],
        &["{}", r#"{"b":1}"#, r#"{"x":null}"#],
    );
    // Nothing is written out: forty members in any order are forty members.
    let many: Vec<String> = (0..2000).map(|i| format!("\"p{}\":{{\"type\":\"integer\"}}", i)).collect();
    let many = format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", many.join(","));
    let c = compile("json_schema", &many, &any).unwrap();
    assert!(matcher::Grammar::read(&c.ir).size() < 20_000);
    let huge: Vec<String> = (0..5000).map(|i| format!("\"p{}\":{{}}", i)).collect();
    let e = compile("json_schema", &format!("{{\"properties\":{{{}}}}}", huge.join(",")), &any).unwrap_err();
    assert_eq!(e.to_string(), "#: 5001 members in any order, at most 4096 are read");
}

#[test]
fn members_that_are_needed_have_different_names() {
    for any_order in [false, true] {
        let o = Options { any_order, ..options() };
        check_with(
            &o,
            r#"{"type":"object","minProperties":2,"additionalProperties":{"type":"integer"}}"#,
            &[r#"{"a":1,"b":2}"#, r#"{"a":1,"ab":3,"9":2}"#, r#"{"":1,"a":2}"#],
            &["{}", r#"{"a":1}"#, r#"{"a":1,"a":2}"#, r#"{"a":1,"b":"x"}"#],
        );
        check_with(
            &o,
            r#"{"type":"object","properties":{"a":{},"b":{}},"required":["b"],"minProperties":3,"maxProperties":4}"#,
            &[r#"{"a":1,"b":2,"c":3}"#, r#"{"b":1,"x":3,"y":2}"#, r#"{"a":1,"b":2,"c":1,"d":2}"#],
            &[r#"{"a":1,"b":1}"#, r#"{"b":1,"x":1}"#, r#"{"b":1,"x":1,"x":1}"#, r#"{"a":1,"b":2,"c":1,"d":2,"e":1}"#],
        );
        check_with(
            &o,
            r#"{"type":"object","patternProperties":{"^x":{"type":"null"}},"additionalProperties":false,"minProperties":1}"#,
            &[r#"{"x":null}"#, r#"{"x":null,"x":null}"#],
            &["{}", r#"{"y":null}"#],
        );
    }
    let e = refused(r#"{"type":"object","patternProperties":{"^x":{}},"additionalProperties":false,"minProperties":2}"#);
    assert!(e.starts_with("#: minProperties: 2 members"), "{}", e);
}

#[test]
fn unknown_formats_are_annotations() {
    let s = r#"{"type":"object","properties":{"a b":{"type":"string","format":"color"},"c":{"type":"integer","format":"port"}},"required":["a b"]}"#;
    for lenient in [false, true] {
        let o = Options { lenient, ..options() };
        let c = check_with(&o, s, &[r#"{"a b":"?"}"#, r#"{"a b":"","c":7}"#], &[r#"{"a b":1}"#]);
        let dropped: Vec<String> =
            c.dropped.iter().map(|d| format!("{} {}: {}", d.pointer, d.keyword, d.reason)).collect();
        let want = [
            "#/properties/a b format: the format \"color\" is not known, so it is an annotation",
            "#/properties/c format: the format \"port\" is not known, so it is an annotation",
        ];
        assert_eq!(dropped, want);
    }
    let off = Options { formats: false, ..options() };
    assert!(check_with(&off, s, &[r#"{"a b":"?"}"#], &[]).dropped.is_empty());
    // In some documents it is base64, in others it is not.
    let c = check_with(&options(), r#"{"type":"string","format":"byte"}"#, &["\"any text\"", "\"eA==\""], &["1"]);
    assert!(c.dropped.is_empty());
}

// Sizes are counted, not timed: a grammar's size bounds what was done for it.
#[test]
fn large_and_hostile_schemas_stay_bounded() {
    let size = |schema: &str| matcher::Grammar::read(&compile("json_schema", schema, &options()).unwrap().ir).size();
    let words: Vec<String> = (0..10_000).map(|i| format!("\"entry number {}\"", i * 7919)).collect();
    assert!(size(&format!("{{\"enum\":[{}]}}", words.join(","))) < 20);
    let numbers: Vec<String> = (0..10_000).map(|i| (i * 37).to_string()).collect();
    assert!(size(&format!("{{\"enum\":[{}]}}", numbers.join(","))) < 20);
    let optional: Vec<String> = (0..2000).map(|i| format!("\"p{}\":{{\"type\":\"integer\"}}", i)).collect();
    assert!(size(&format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", optional.join(","))) < 40_000);
    let deep = format!("{}true{}", "{\"items\":".repeat(190), "}".repeat(190));
    assert!(size(&deep) < 20_000);
    let chain: Vec<String> = (0..3000)
        .map(|i| format!("\"d{}\":{{\"properties\":{{\"x\":{{\"$ref\":\"#/$defs/d{}\"}}}}}}", i, i + 1))
        .collect();
    assert!(size(&format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{},\"d3000\":{{}}}}}}", chain.join(","))) < 200_000);
    let direct: Vec<String> = (0..3000).map(|i| format!("\"d{}\":{{\"$ref\":\"#/$defs/d{}\"}}", i, i + 1)).collect();
    assert!(refused(&format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{},\"d3000\":{{}}}}}}", direct.join(",")))
        .contains("through too many others"));
    let overlapping: Vec<String> = (0..40).map(|i| format!("{{\"required\":[\"r{}\"]}}", i)).collect();
    assert!(refused(&format!("{{\"type\":\"object\",\"oneOf\":[{}]}}", overlapping.join(","))).contains("oneOf"));
    let dependent: Vec<String> = (0..30).map(|i| format!("\"a{}\":[\"b{}\"]", i, i)).collect();
    assert!(refused(&format!("{{\"type\":\"object\",\"dependentRequired\":{{{}}}}}", dependent.join(",")))
        .contains("more than 600 alternatives"));
    assert!(size(r#"{"type":"string","pattern":"[ab]*a[ab]{13}","minLength":900000,"maxLength":1000000}"#) < 100);
    assert!(size(&format!("{{\"type\":\"string\",\"pattern\":\"^{}$\"}}", "a?".repeat(30_000))) < 60_000);
    assert!(size(r#"{"type":"array","items":{"type":"integer"},"minItems":900000,"maxItems":1000000}"#) < 100);
    assert!(refused(&format!("{{\"type\":\"string\",\"pattern\":\"{}\"}}", "(".repeat(60_000)))
        .contains("groups nested deeper than 100"));
}
