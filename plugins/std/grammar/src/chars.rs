//! Sets of characters: as ranges of code points, by Unicode category, and as regular expressions
//! over their bytes.

use crate::re::{range, Kept, Pool, Re, EMPTY, MANY, NEVER};

/// Ranges of code points, sorted, not touching.
pub type Ranges = Vec<(u32, u32)>;

/// The last code point.
pub const LAST: u32 = 0x10FFFF;

/// How a character is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As itself, in UTF-8.
    Raw,
    /// As in the canonical text of a JSON string: as itself, except for the
    /// quote, the backslash and control characters, which are escaped in the
    /// short form where there is one and as `\u00xx` elsewhere.
    Json,
}

/// Sorts and merges.
pub fn union(mut r: Ranges) -> Ranges {
    r.sort_unstable();
    let mut out: Ranges = Vec::with_capacity(r.len());
    for (lo, hi) in r {
        match out.last_mut() {
            Some((_, h)) if lo <= h.saturating_add(1) => *h = (*h).max(hi),
            _ => out.push((lo, hi)),
        }
    }
    out
}

/// Every code point that is not in `r`.
pub fn complement(r: Ranges) -> Ranges {
    let (mut out, mut next) = (Vec::new(), 0);
    for (lo, hi) in union(r) {
        if lo > next {
            out.push((next, lo - 1));
        }
        next = hi + 1;
    }
    if next <= LAST {
        out.push((next, LAST));
    }
    out
}

/// What is in both.
pub fn intersect(a: Ranges, b: Ranges) -> Ranges {
    let (mut not, other) = (complement(a), complement(b));
    not.extend(other);
    complement(not)
}

/// The set with both cases of its letters, by mappings of one character to one.
/// Ranges of more than 1,000 characters take part with their ASCII letters only.
pub fn any_case(set: &[(u32, u32)]) -> Ranges {
    let mut out = set.to_vec();
    for &(lo, hi) in set {
        let hi = if hi - lo > 1000 { hi.min(0x7F) } else { hi };
        for c in (lo..=hi).filter_map(char::from_u32) {
            let (mut l, mut u) = (c.to_lowercase(), c.to_uppercase());
            if let (Some(l), None) = (l.next(), l.next()) {
                out.push((l as u32, l as u32));
            }
            if let (Some(u), None) = (u.next(), u.next()) {
                out.push((u as u32, u as u32));
            }
        }
    }
    union(out)
}

/// `\s` of ECMA-262: white space and line ends.
pub fn space() -> Ranges {
    let s = [
        (9, 13),
        (32, 32),
        (160, 160),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ];
    s.to_vec()
}

/// `\w`.
pub fn word() -> Ranges {
    vec![(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
}

const CATEGORIES: &[u8] = include_bytes!("unicode.bin");

// In the order of unicode.bin.
const NAMES: &[(&str, &str)] = &[
    ("Lu", "Uppercase_Letter"),
    ("Ll", "Lowercase_Letter"),
    ("Lt", "Titlecase_Letter"),
    ("Lm", "Modifier_Letter"),
    ("Lo", "Other_Letter"),
    ("Mn", "Nonspacing_Mark"),
    ("Mc", "Spacing_Mark"),
    ("Me", "Enclosing_Mark"),
    ("Nd", "Decimal_Number"),
    ("Nl", "Letter_Number"),
    ("No", "Other_Number"),
    ("Pc", "Connector_Punctuation"),
    ("Pd", "Dash_Punctuation"),
    ("Ps", "Open_Punctuation"),
    ("Pe", "Close_Punctuation"),
    ("Pi", "Initial_Punctuation"),
    ("Pf", "Final_Punctuation"),
    ("Po", "Other_Punctuation"),
    ("Sm", "Math_Symbol"),
    ("Sc", "Currency_Symbol"),
    ("Sk", "Modifier_Symbol"),
    ("So", "Other_Symbol"),
    ("Zs", "Space_Separator"),
    ("Zl", "Line_Separator"),
    ("Zp", "Paragraph_Separator"),
    ("Cc", "Control"),
    ("Cf", "Format"),
    ("Cs", "Surrogate"),
    ("Co", "Private_Use"),
    ("Cn", "Unassigned"),
];

const GROUPS: &[(&str, &str)] = &[
    ("Letter", "L"),
    ("Mark", "M"),
    ("Combining_Mark", "M"),
    ("Number", "N"),
    ("Punctuation", "P"),
    ("punct", "P"),
    ("Symbol", "S"),
    ("Separator", "Z"),
    ("Other", "C"),
    ("digit", "Nd"),
    ("cntrl", "Cc"),
];

/// The characters with a property of Unicode, as `\p{name}` writes it: general
/// categories (`L`, `Lu`, `Letter`, `gc=L`), `Any`, `ASCII`, `ASCII_Hex_Digit`,
/// `White_Space`. None for all others.
pub fn property(name: &str) -> Option<Ranges> {
    match name {
        "Any" => return Some(vec![(0, LAST)]),
        "ASCII" => return Some(vec![(0, 127)]),
        "ASCII_Hex_Digit" | "AHex" => return Some(vec![(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)]),
        "White_Space" | "space" => {
            let mut s = space();
            s.retain(|r| r.0 != 0xFEFF);
            s.push((0x85, 0x85));
            return Some(union(s));
        }
        _ => {}
    }
    let name = name.strip_prefix("gc=").or_else(|| name.strip_prefix("General_Category=")).unwrap_or(name);
    let name = GROUPS.iter().find(|g| g.0 == name).map_or(name, |g| g.1);
    let mut wanted = [false; 30];
    for (i, (short, long)) in NAMES.iter().enumerate() {
        let cased = name == "LC" && i < 3;
        wanted[i] = name == *short || name == *long || cased || (name.len() == 1 && short.starts_with(name));
    }
    if !wanted.contains(&true) {
        return None;
    }
    let (mut out, mut at, mut start) = (Vec::new(), 0, 0u32);
    while at < CATEGORIES.len() {
        let category = CATEGORIES[at] as usize;
        at += 1;
        let (mut n, mut shift) = (0u32, 0);
        loop {
            let b = CATEGORIES[at];
            at += 1;
            n |= ((b & 127) as u32) << shift;
            shift += 7;
            if b < 128 {
                break;
            }
        }
        if wanted[category] {
            out.push((start, start + n - 1));
        }
        start += n;
    }
    Some(union(out))
}

// Appends the canonical text of a character inside a JSON string.
fn push_escaped(out: &mut String, c: char) {
    let short = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        c if c < ' ' => return out.push_str(&format!("\\u{:04x}", c as u32)),
        c => return out.push(c),
    };
    out.push_str(short);
}

/// The canonical text of a string between its quotes.
pub fn escape(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    s.chars().for_each(|c| push_escaped(&mut out, c));
    out
}

/// One character of a set. Surrogates are left out: no text holds them.
pub fn class(p: &mut Pool, set: &[(u32, u32)], form: Form) -> Re {
    let key = (form, set.to_vec());
    if let Some(&r) = p.classes.get(&key) {
        return r;
    }
    let r = match form {
        Form::Raw => raw(p, set),
        Form::Json => {
            let mut parts = Vec::new();
            for c in (0..=0x1F).chain([0x22, 0x5C]) {
                if set.iter().any(|&(lo, hi)| lo <= c && c <= hi) {
                    let text = escape(&char::from(c as u8).to_string());
                    parts.push(p.literal(text.as_bytes()));
                }
            }
            let plain = intersect(set.to_vec(), vec![(0x20, 0x21), (0x23, 0x5B), (0x5D, LAST)]);
            parts.push(class(p, &plain, Form::Raw));
            p.or(parts)
        }
    };
    p.classes.insert(key, r);
    r
}

fn raw(p: &mut Pool, set: &[(u32, u32)]) -> Re {
    let set = intersect(set.to_vec(), vec![(0, 0xD7FF), (0xE000, LAST)]);
    let mut parts = Vec::new();
    for &(lo, hi) in &set {
        // Encodings of one length each.
        for &(from, to) in &[(0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, LAST)] {
            if lo.max(from) <= hi.min(to) {
                let (a, b) = (encode(lo.max(from)), encode(hi.min(to)));
                let r = between(p, &a, &b);
                parts.push(r);
            }
        }
    }
    let r = p.or(parts);
    if r != NEVER {
        p.chars.insert(r, set);
    }
    r
}

fn encode(c: u32) -> Vec<u8> {
    // The ends of ranges are not surrogates, but ends of their block may be.
    char::from_u32(c).map_or_else(Vec::new, |c| c.to_string().into_bytes())
}

// Byte strings of one length from a to b, where only the last 6 bits of each
// byte but the first count.
fn between(p: &mut Pool, a: &[u8], b: &[u8]) -> Re {
    if a.is_empty() {
        return EMPTY;
    }
    let n = a.len() - 1;
    let any = p.bytes(range(0x80, 0xBF));
    let free = p.rep(any, n as u32, n as u32);
    if a[0] == b[0] {
        let (head, tail) = (p.byte(a[0]), between(p, &a[1..], &b[1..]));
        return p.cat(head, tail);
    }
    let (low, high) = (vec![0x80; n], vec![0xBF; n]);
    let (first, last) = (p.byte(a[0]), p.byte(b[0]));
    let (from, to) = (between(p, &a[1..], &high), between(p, &low, &b[1..]));
    let mut parts = vec![p.cat(first, from), p.cat(last, to)];
    if b[0] - a[0] > 1 {
        let middle = p.bytes(range(a[0] + 1, b[0] - 1));
        parts.push(p.cat(middle, free));
    }
    p.or(parts)
}

/// Any character.
pub fn any(p: &mut Pool, form: Form) -> Re {
    class(p, &[(0, LAST)], form)
}

/// Any text.
pub fn text(p: &mut Pool, form: Form) -> Re {
    let make = |p: &mut Pool| {
        let c = any(p, form);
        p.rep(c, 0, MANY)
    };
    match form {
        Form::Json => p.keep(Kept::Text, make),
        Form::Raw => make(p),
    }
}

/// One character inside a JSON string in any spelling that JSON allows, including unnecessary
/// escapes. Surrogates are allowed only in pairs.
pub fn free(p: &mut Pool) -> Re {
    p.keep(Kept::Free, escaped_or_not)
}

fn escaped_or_not(p: &mut Pool) -> Re {
    let plain = class(p, &[(0x20, 0x21), (0x23, 0x5B), (0x5D, LAST)], Form::Raw);
    let mut short = range(b'"', b'"');
    for b in *b"\\/bfnrt" {
        short[b as usize >> 6] |= 1 << (b & 63);
    }
    let short = p.bytes(short);
    let hex = |p: &mut Pool, text: &str| {
        let s = text.bytes().fold([0u64; 4], |mut s, b| {
            s[b as usize >> 6] |= 1 << (b & 63);
            s
        });
        p.bytes(s)
    };
    let (u, d, x) = (p.byte(b'u'), hex(p, "dD"), hex(p, "0123456789abcdefABCDEF"));
    let (not_d, low, high) = (hex(p, "0123456789abcefABCEF"), hex(p, "89abAB"), hex(p, "cdefCDEF"));
    let (not_surrogate, back) = (hex(p, "01234567"), p.byte(b'\\'));
    let bmp = p.seq(&[u, not_d, x, x, x]);
    let beside = p.seq(&[u, d, not_surrogate, x, x]);
    let pair = p.seq(&[u, d, low, x, x, back, u, d, high, x, x]);
    let escape = p.or(vec![short, bmp, beside, pair]);
    let escape = p.cat(back, escape);
    p.or2(plain, escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_exact() {
        let mut p = Pool::new();
        let set = vec![(0x61, 0x7F), (0x3B1, 0x900), (0xD000, 0xF000), (0xFFFE, 0x10005), (0x10FFFF, 0x10FFFF)];
        let r = class(&mut p, &set, Form::Raw);
        for c in (0..0x11000).chain(0x10FF00..=LAST).filter_map(char::from_u32) {
            let want = set.iter().any(|&(lo, hi)| (lo..=hi).contains(&(c as u32)));
            assert_eq!(p.matches(r, c.to_string().as_bytes()), want, "{:?}", c);
        }
    }

    #[test]
    fn json_characters() {
        let mut p = Pool::new();
        let (canonical, free) = (any(&mut p, Form::Json), free(&mut p));
        for (text, c, f) in [
            ("a", true, true),
            ("\\n", true, true),
            ("\\u000a", false, true),
            ("\\u0001", true, true),
            ("\\/", false, true),
            ("\\u00E9", false, true),
            ("\\ud83d\\uDE00", false, true),
            ("\\ud83d", false, false),
            ("\\ude00", false, false),
            ("\\ud7ff", false, true),
            ("\"", false, false),
            ("\n", false, false),
            ("\u{7f}", true, true),
            ("😀", true, true),
            ("ab", false, false),
            ("\\x", false, false),
        ] {
            assert_eq!((p.matches(canonical, text.as_bytes()), p.matches(free, text.as_bytes())), (c, f), "{}", text);
        }
    }

    #[test]
    fn properties() {
        let member =
            |name: &str, c: char| property(name).unwrap().iter().any(|&(lo, hi)| (lo..=hi).contains(&(c as u32)));
        assert!(member("L", 'é') && member("Letter", 'ß') && !member("L", '1'));
        assert!(member("Nd", '৪') && member("Lu", 'É') && !member("Lu", 'é') && member("gc=Sc", '€'));
        assert!(member("Any", '\u{10FFFF}') && property("Script=Greek").is_none() && property("X").is_none());
    }
}
