use super::*;

fn check(how: Match, pattern: &str, yes: &[&str], no: &[&str]) {
    let mut p = Pool::new();
    let r = compile(&mut p, pattern, Form::Raw, how).unwrap();
    for (texts, want) in [(yes, true), (no, false)] {
        for t in texts {
            assert_eq!(p.matches(r, t.as_bytes()), want, "{} on {:?}", pattern, t);
        }
    }
}

#[test]
fn searches() {
    for (pattern, yes, no) in [
        ("a", &["a", "xay", "\na"][..], &["", "b"][..]),
        ("^a", &["a", "ab"], &["ba", "b\na"]),
        ("a$", &["a", "ba"], &["ab", "a\n"]),
        ("^a|b$", &["ax", "xb", "a"], &["xa", "bx"]),
        ("(^|x)a", &["a", "yxa", "xab"], &["ya", "yaa"]),
        ("^(a|b)*$", &["", "abba"], &["abc"]),
        ("^(?!foo).*bar$", &["bar", "fobar"], &["foobar", "foobarbar"]),
        ("^(?=.*\\d)(?=.*[a-z]).{3,}$", &["a1x", "xx9"], &["a1", "abc", "123"]),
        ("^(?!.*--)[a-z-]+$", &["a-b-c"], &["a--b", ""]),
        ("x(?=y)", &["xy"], &["x", "xz"]),
        ("^$", &[""], &["a"]),
        ("^^a$$", &["a"], &["aa", ""]),
        ("a?^b", &["b", "bc"], &["ab", "cb"]),
        ("^(a|^b){2}$", &["aa", "ba"], &["ab", "bb"]),
        ("(^a)?b$", &["ab", "b", "xb", "xab"], &["bx"]),
        ("", &["", "x"], &[]),
    ] {
        check(Match::Search, pattern, yes, no);
    }
}

#[test]
fn atoms() {
    for (pattern, yes, no) in [
        ("[^\\d\\s]+", &["a-é"][..], &["1", "\u{a0}", ""][..]),
        ("\\w{2,3}", &["a_", "Z90"], &["a", "éé", "abcd"]),
        ("[a\\-z]|[b-]", &["a", "-", "z", "b"], &["c"]),
        ("[\\w-.]", &["-", ".", "a"], &["~"]),
        ("\\u{1F432}|\\uD83D\\uDC33|\\x41|\\cJ|\\0", &["🐲", "🐳", "A", "\n", "\0"], &["B"]),
        ("\\p{L}\\P{L}", &["é1"], &["1é", "ab"]),
        ("a{2}b{,3}", &["aab{,3}"], &["aabbb"]),
        ("(?<year>\\d{4})-(?:x|y)??", &["2024-", "2024-x"], &["24-"]),
        (".", &["a", "😀", "\t"], &["\n", "\u{2028}", ""]),
        ("[^]", &["\n"], &[""]),
        ("[]", &[], &["", "a"]),
        ("(){3}a()", &["a"], &[""]),
        ("[\\b]\\/\\.", &["\u{8}/."], &["b/x"]),
        ("(?is)\\Aa[b-c].\\Z", &["aB\n", "ACx"], &["ad\n", "ab"]),
    ] {
        check(Match::Full, pattern, yes, no);
    }
}

#[test]
fn errors() {
    let deep = "(".repeat(60_000);
    let copies = format!("{}^a?{}", "(".repeat(30), "){8}".repeat(30));
    for (pattern, want) in [
        ("a(b", "line 1, column 2: the group is not closed"),
        ("ab)", "line 1, column 3: unmatched ')'"),
        ("é\\1", "line 1, column 2: back references are not supported"),
        ("(?<=a)b", "line 1, column 1: look-behind is not supported"),
        ("a**", "line 1, column 3: nothing to repeat"),
        ("^*", "line 1, column 2: nothing to repeat"),
        ("[z-a]", "line 1, column 2: the range runs backwards"),
        ("[a", "line 1, column 1: the set is not closed"),
        ("a{3,2}", "line 1, column 2: want a repeat of at least and at most times, got 3 and 2"),
        ("a{9999999}", "line 1, column 2: a repeat counts to 1000000 at most, not 9999999"),
        ("\\p{Foo}", "line 1, column 1: the property \"Foo\" is not supported; general categories are"),
        ("\\y", "line 1, column 1: unknown escape \\y"),
        (
            "(?i)a",
            "line 1, column 1: want '(?:', '(?=', '(?!', '(?<name>' or '(?' with the flags i, s or u; other groups are not supported",
        ),
        ("(^a)*", "line 1, column 1: anchors and look-ahead are not supported inside a repeat"),
        (copies.as_str(), "repeats of anchors and look-ahead within each other take too many steps"),
        (deep.as_str(), "line 1, column 101: groups nested deeper than 100"),
    ] {
        let mut p = Pool::new();
        assert_eq!(compile(&mut p, pattern, Form::Raw, Match::Search).unwrap_err().to_string(), want);
    }
}

#[test]
fn json_form() {
    let mut p = Pool::new();
    let r = compile(&mut p, "^[\"a\\n]\\\\+$", Form::Json, Match::Search).unwrap();
    for (text, want) in
        [("\\\"\\\\", true), ("\\n\\\\\\\\", true), ("a\\\\", true), ("\"\\\\", false), ("\\u000a\\\\", false)]
    {
        assert_eq!(p.matches(r, text.as_bytes()), want, "{}", text);
    }
}
