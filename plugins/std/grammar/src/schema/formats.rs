//! Formats of strings, as patterns of the whole text.

use crate::chars::Form;
use crate::pattern::{self, Match};
use crate::re::{Pool, Re};

const ASCII: &str = "A-Za-z0-9";
const HEX: &str = "[0-9A-Fa-f]";
// RFC 3986, appendix A.
const UNRESERVED: &str = "A-Za-z0-9\\-._~";
const SUB: &str = "!$&'()*+,;=";
// RFC 3987: characters beyond ASCII that an IRI has, and those that only its query has.
const UCS: &str = "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}\\u{30000}-\\u{3FFFD}\
\\u{40000}-\\u{4FFFD}\\u{50000}-\\u{5FFFD}\\u{60000}-\\u{6FFFD}\\u{70000}-\\u{7FFFD}\\u{80000}-\\u{8FFFD}\\u{90000}-\\u{9FFFD}\
\\u{A0000}-\\u{AFFFD}\\u{B0000}-\\u{BFFFD}\\u{C0000}-\\u{CFFFD}\\u{D0000}-\\u{DFFFD}\\u{E1000}-\\u{EFFFD}";
const PRIVATE: &str = "\\u{E000}-\\u{F8FF}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}";

/// What a format means for strings.
pub enum Format {
    /// A language of canonical texts.
    Texts(Re),
    /// Nothing: it is known and says nothing about the text.
    Free,
    /// Whole numbers of so many bits, signed or not.
    Int(u32, bool),
    /// Nothing that is known: the standard takes it for an annotation.
    Unknown,
}

/// The name under which texts in base64 are found. It is no format's.
pub const BASE64: &str = " base64";

/// The meaning of a format's name. None: the standard has it, and it is not supported.
pub fn find(p: &mut Pool, name: &str) -> Option<Format> {
    if let Some(&r) = p.formats.get(name) {
        return Some(Format::Texts(r));
    }
    let found = fresh(p, name)?;
    if let Format::Texts(r) = found {
        p.formats.insert(name.into(), r);
    }
    Some(found)
}

fn fresh(p: &mut Pool, name: &str) -> Option<Format> {
    let source = match name {
        "date" => date(),
        "time" => format!("(?:{})|(?:{})", time(), leap_seconds()),
        "date-time" => format!("(?:{})[Tt](?:(?:{})|(?:{}))", date(), time(), leap_seconds()),
        "duration" => duration(),
        "email" => return email(p, "", &labels(ASCII, 1)).map(Format::Texts),
        "idn-email" => {
            return email(p, "\\u{80}-\\u{10FFFF}", &labels("A-Za-z0-9\\p{L}\\p{M}\\p{Nd}", 0)).map(Format::Texts)
        }
        "hostname" => labels(ASCII, 0),
        "ipv4" => IPV4.into(),
        "ipv6" => ipv6(),
        "uuid" => format!("{0}{{8}}-{0}{{4}}-{0}{{4}}-{0}{{4}}-{0}{{12}}", HEX),
        "uri" => uri("", "", true),
        "uri-reference" => uri("", "", false),
        "iri" => uri(UCS, PRIVATE, true),
        "iri-reference" => uri(UCS, PRIVATE, false),
        "uri-template" => template(),
        "json-pointer" => "(?:/(?:[^/~]|~[01])*)*".into(),
        "relative-json-pointer" => "(?:0|[1-9]\\d*)(?:#|(?:/(?:[^/~]|~[01])*)*)".into(),
        // No format but `contentEncoding` of draft 7.
        BASE64 => "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?".into(),
        // OpenAPI's registry. What it calls byte is base64 in some documents and any
        // text in others, those of Kubernetes among them.
        "byte" | "password" | "binary" | "float" | "double" => return Some(Format::Free),
        "int32" => return Some(Format::Int(32, true)),
        "int64" => return Some(Format::Int(64, true)),
        "uint32" => return Some(Format::Int(32, false)),
        "uint64" => return Some(Format::Int(64, false)),
        // Of the standard, and beyond what is done here.
        "regex" | "idn-hostname" => return None,
        _ => return Some(Format::Unknown),
    };
    let r = pattern::compile(p, &source, Form::Json, Match::Full).ok()?;
    Some(Format::Texts(if name == "hostname" { short(p, r, 253) } else { r }))
}

// At most so many characters.
fn short(p: &mut Pool, r: Re, most: u32) -> Re {
    let c = crate::chars::any(p, Form::Json);
    let short = p.rep(c, 0, most);
    p.and2(r, short)
}

// RFC 5321: at most 64 characters before the @. The labels of `email` have a dot among
// them: a domain of one is no address on the Internet, and validators that clients use
// refuse it. Those of `idn-email` need none, which would take masks beyond their limit.
fn email(p: &mut Pool, more: &str, labels: &str) -> Option<Re> {
    let local = pattern::compile(p, &local(more), Form::Json, Match::Full).ok()?;
    let local = short(p, local, 64);
    let host = pattern::compile(p, labels, Form::Json, Match::Full).ok()?;
    let host = short(p, host, 253);
    let address = pattern::compile(p, &address_literal(), Form::Json, Match::Full).ok()?;
    let (at, domain) = (p.byte(b'@'), p.or2(host, address));
    Some(p.seq(&[local, at, domain]))
}

// RFC 1123 and 5890: labels of at most 63 characters. Those with hyphens in the
// third and fourth place are encodings, whose meaning is not checked here; they
// are left out. `a` is what a label begins and ends with, `least` how many dots there
// must be.
fn labels(a: &str, least: u32) -> String {
    let x = format!("[{}\\-]", a);
    let a = format!("[{}]", a);
    let label = format!("{0}(?:{0}|{1}{0}|{1}{1}{0}|{1}(?:{0}{1}|-{0}){1}{{0,58}}{0})?", a, x);
    format!("{0}(?:\\.{0}){{{1},}}", label, least)
}

fn date() -> String {
    let leap = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    let days =
        "(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8])";
    format!("\\d{{4}}-(?:{})|{}-02-29", days, leap)
}

fn time() -> String {
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:[zZ]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)".into()
}

// 23:59:60 UTC, in zones of full and half hours.
fn leap_seconds() -> String {
    let mut parts = vec!["23:59:60(?:\\.\\d+)?[zZ]".to_string()];
    for off in (0..24 * 60).step_by(30) {
        for (sign, local) in [('+', 1439 + off), ('-', 1439 + 1440 - off)] {
            let local = local % 1440;
            parts.push(format!(
                "{:02}:{:02}:60(?:\\.\\d+)?\\{}{:02}:{:02}",
                local / 60,
                local % 60,
                sign,
                off / 60,
                off % 60
            ));
        }
    }
    parts.join("|")
}

fn duration() -> String {
    let second = "\\d+S";
    let minute = format!("\\d+M(?:{})?", second);
    let hour = format!("\\d+H(?:{})?", minute);
    let time = format!("T(?:{}|{}|{})", hour, minute, second);
    let day = "\\d+D";
    let month = format!("\\d+M(?:{})?", day);
    let year = format!("\\d+Y(?:{})?", month);
    format!("P(?:(?:{}|{}|{})(?:{})?|{}|\\d+W)", day, month, year, time, time)
}

// RFC 5321: Local-part, with further characters where they are given.
fn local(more: &str) -> String {
    let atom = format!("[A-Za-z0-9!#$%&'*+\\-/=?^_`{{|}}~{}]+", more);
    format!("{0}(?:\\.{0})*|\"(?:[\\x20\\x21\\x23-\\x5B\\x5D-\\x7E{1}]|\\\\[\\x20-\\x7E])*\"", atom, more)
}

fn address_literal() -> String {
    format!("\\[(?:{}|IPv6:(?:{}))\\]", IPV4, ipv6())
}

const IPV4: &str = "(?:(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

// RFC 3986, IPv6address.
fn ipv6() -> String {
    let h = format!("{}{{1,4}}", HEX);
    let last = format!("(?:{0}:{0}|{1})", h, IPV4);
    let mut parts = vec![format!("(?:{}:){{6}}{}", h, last)];
    // Behind "::" come fewer and fewer groups, before it may be more and more.
    for before in 0..8u32 {
        let head = if before == 0 { String::new() } else { format!("(?:(?:{0}:){{0,{1}}}{0})?", h, before - 1) };
        parts.push(match before {
            0..=5 => format!("{}::(?:{}:){{{}}}{}", head, h, 5 - before, last),
            6 => format!("{}::{}", head, h),
            _ => format!("{}::", head),
        });
    }
    parts.join("|")
}

// RFC 3986 and, with more characters, RFC 3987.
fn uri(ucs: &str, private: &str, absolute: bool) -> String {
    let pct = format!("%{0}{0}", HEX);
    let unreserved = format!("{}{}", UNRESERVED, ucs);
    let pchar = format!("(?:[{}{}:@]|{})", unreserved, SUB, pct);
    let segments = format!("(?:/{}*)*", pchar);
    let future = format!("[vV]{}+\\.[{}{}:]+", HEX, UNRESERVED, SUB);
    let host = format!("(?:\\[(?:{}|{})\\]|(?:[{}{}]|{})*)", ipv6(), future, unreserved, SUB, pct);
    let authority = format!("(?:(?:[{}{}:]|{})*@)?{}(?::\\d*)?", unreserved, SUB, pct, host);
    let rooted = format!("/(?:{}+{})?", pchar, segments);
    let query = format!("(?:\\?(?:{}|[/?{}])*)?", pchar, private);
    let fragment = format!("(?:#(?:{}|[/?])*)?", pchar);
    let rootless = format!("{}+{}", pchar, segments);
    let full = format!(
        "[A-Za-z][A-Za-z0-9+\\-.]*:(?://{}{}|{}|{}|){}{}",
        authority, segments, rooted, rootless, query, fragment
    );
    if absolute {
        return full;
    }
    // The first segment of a relative path has no colon.
    let no_scheme = format!("(?:[{}{}@]|{})+{}", unreserved, SUB, pct, segments);
    format!("{}|(?://{}{}|{}|{}|){}{}", full, authority, segments, rooted, no_scheme, query, fragment)
}

// RFC 6570.
fn template() -> String {
    let pct = format!("%{0}{0}", HEX);
    let literal = format!("[!#$&-;=?-\\[\\]_a-z~{}{}]|{}", UCS, PRIVATE, pct);
    let c = format!("(?:[A-Za-z0-9_]|{})", pct);
    let name = format!("{0}+(?:\\.{0}+)*", c);
    let spec = format!("{}(?::[1-9]\\d{{0,3}}|\\*)?", name);
    format!("(?:{0}|\\{{[+#./;?&=,!@|]?{1}(?:,{1})*\\}})*", literal, spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_has_texts() {
        for name in "date time date-time duration email idn-email hostname ipv4 ipv6 uuid uri uri-reference iri iri-reference uri-template json-pointer relative-json-pointer".split(' ') {
            let mut p = Pool::new();
            match find(&mut p, name) {
                Some(Format::Texts(r)) => assert_eq!(p.is_empty(r), Some(false), "{}", name),
                _ => panic!("{} is missing", name),
            }
        }
        let base64 = find(&mut Pool::new(), BASE64);
        assert!(matches!(base64, Some(Format::Texts(_))));
        for name in ["byte", "password"] {
            assert!(matches!(find(&mut Pool::new(), name), Some(Format::Free)), "{}", name);
        }
        for name in ["regex", "idn-hostname"] {
            assert!(find(&mut Pool::new(), name).is_none(), "{}", name);
        }
        assert!(matches!(find(&mut Pool::new(), "color"), Some(Format::Unknown)));
    }

    #[test]
    fn samples() {
        for (name, yes, no) in [
            (
                "date",
                &["2024-02-29", "2000-02-29", "1999-12-31"][..],
                &["2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01"][..],
            ),
            (
                "time",
                &["23:59:60Z", "01:29:60+01:30", "15:59:60-08:00", "08:30:06.28z"],
                &["22:59:60Z", "24:00:00Z", "08:30:06"],
            ),
            ("duration", &["P4DT12H30M5S", "P1Y2M", "PT36H", "P1W"], &["P", "PT", "P1W2D", "P1YT", "PT1D", "1D"]),
            (
                "ipv6",
                &["::", "::1", "1::8", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1:2::7:8", "1::1.2.3.4"],
                &["1:2:3:4:5:6:7", "1::2::3", "12345::", ":1", "1:2:3:4:5:6:7::8:9"],
            ),
            (
                "email",
                &["joe.bloggs@example.com", "\\\"a b\\\"@x.y", "te~st@[127.0.0.1]"],
                &["a", "a@b", ".a@b.c", "a@-b.c", "a..b@c.d", "a@b@c.d"],
            ),
            (
                "uri",
                &["http://a.b/c?d#e", "urn:x:y", "ldap://[2001:db8::7]/c"],
                &["//a", "a b:c", "http:// x", "http://a/<>"],
            ),
            ("hostname", &["a.b-c", "1x"], &["-a", "a_", "a..b", "xn--x", ""]),
        ] {
            let mut p = Pool::new();
            let r = match find(&mut p, name) {
                Some(Format::Texts(r)) => r,
                _ => panic!("{} is missing", name),
            };
            yes.iter().for_each(|t| assert!(p.matches(r, t.as_bytes()), "{} {}", name, t));
            no.iter().for_each(|t| assert!(!p.matches(r, t.as_bytes()), "{} {}", name, t));
        }
    }
}
