//! Which characters belong to words: letters, marks and digits (the general categories L, M and N of Unicode 14) and
//! the underscore. Variation selectors and enclosing marks are left out, as emoji end with them. Texts are bytes that may
//! be cut anywhere; bytes that are no character belong to no word.
//!
//! The standard library's `is_alphanumeric` is another set: it leaves out marks, such as a combining accent, and has
//! symbols, such as 🅰. So the table is our own; `make_letters.py` makes it.
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

use core::str::from_utf8;

/// Ranges by rising code points, four bytes each: 20 bits of the first, 12 bits of how many are behind it.
const RANGES: &[u8] = include_bytes!("letters.bin");

/// The most bytes of a character.
pub const LONGEST: usize = 4;

fn range(i: usize) -> (u32, u32) {
    let r = match RANGES[4 * i..4 * i + 4] {
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    };
    (r >> 12, r & 0xfff)
}

/// Whether the character belongs to a word.
pub fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    let (mut low, mut high) = (0, RANGES.len() / 4);
    while low < high {
        let middle = (low + high) / 2;
        if range(middle).0 <= c as u32 {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low > 0 && {
        let (first, behind) = range(low - 1);
        c as u32 - first <= behind
    }
}

fn is_word_text(s: &str) -> bool {
    s.chars().next().map_or(false, is_word)
}

/// Whether the text begins with a character of a word; `None` where it ends before that is known.
pub fn begins(text: &[u8]) -> Option<bool> {
    let head = &text[..text.len().min(LONGEST)];
    match from_utf8(head) {
        Ok("") => None,
        Ok(s) => Some(is_word_text(s)),
        Err(e) if e.valid_up_to() > 0 => from_utf8(&head[..e.valid_up_to()]).ok().map(is_word_text),
        Err(e) => e.error_len().map(|_| false),
    }
}

/// Whether the text ends with a character of a word. A character that is cut at the text's end is none.
pub fn ends(text: &[u8]) -> bool {
    match text.last() {
        Some(b) if b.is_ascii() => return is_word(*b as char),
        _ => {}
    }
    let last = text.len().saturating_sub(continued(text.iter().rev()) + 1);
    from_utf8(&text[last..]).map_or(false, |s| s.chars().count() == 1 && is_word_text(s))
}

/// How many of the first bytes go on with a character that begins before them; at most three do.
pub fn continued<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    bytes.take(LONGEST - 1).take_while(|&&b| b & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library knows letters and digits, and some marks, of a newer Unicode.
    #[test]
    fn as_the_standard_library_has_it() {
        let (mut checked, mut symbols) = (0, 0);
        for c in (0..=0x10ffff).filter_map(char::from_u32) {
            let circled = matches!(c as u32, 0x24b6..=0x24e9 | 0x1f130..=0x1f149 | 0x1f150..=0x1f169 | 0x1f170..=0x1f189);
            symbols += circled as u32;
            if circled {
                assert!(c.is_alphanumeric() && !is_word(c), "{:x}", c as u32);
            } else if is_word(c) && c != '_' && !c.is_alphanumeric() {
                // A mark: nothing of the standard library says so but that it has no case and no width of its own.
                assert!(c > '\u{2ff}' && !c.is_whitespace() && !c.is_control(), "{:x}", c as u32);
                checked += 1;
            } else if c.is_ascii() {
                assert_eq!(is_word(c), c.is_alphanumeric() || c == '_', "{:?}", c);
            }
        }
        assert_eq!(symbols, 52 + 26 + 26 + 26);
        assert!((800..900).contains(&checked), "{} marks", checked);
        for c in "azAZ09_éßñжЖ漢字あ한٣½²Ⅷ\u{301}\u{94d}\u{20d0}".chars() {
            assert!(is_word(c), "{:?}", c);
        }
        for c in " \t\n.-—–…“”‘’«»„。、！\u{a0}\u{2003}\u{3000}\u{200b}\u{200d}€©™→🙂🅰Ⓐ\u{fe0f}\u{20e3}\u{e0100}".chars() {
            assert!(!is_word(c), "{:?}", c);
        }
    }

    #[test]
    fn at_the_ends_of_texts() {
        for (text, want) in [
            (&b""[..], None),
            (b"a", Some(true)),
            (b"-a", Some(false)),
            ("é".as_bytes(), Some(true)),
            ("é—".as_bytes(), Some(true)),
            ("—é".as_bytes(), Some(false)),
            ("𝒜".as_bytes(), Some(true)),
            ("🙂".as_bytes(), Some(false)),
            (b"\xc3", None),
            (b"\xe2\x80", None),
            (b"\xf0\x9f\x99", None),
            (b"\xc3a", Some(false)),
            (b"\x80a", Some(false)),
            (b"\xff", Some(false)),
            (b"\xed\xa0\x80", Some(false)),
        ] {
            assert_eq!(begins(text), want, "{:?}", text);
        }
        for (text, want) in [
            (&b""[..], false),
            (b"a", true),
            (b"a-", false),
            ("-é".as_bytes(), true),
            ("a—".as_bytes(), false),
            ("a𝒜".as_bytes(), true),
            ("a🙂".as_bytes(), false),
            (b"a\xc3", false),
            (b"a\xe2\x80", false),
            (b"\xa9", false),
            (b"a\xa9", false),
            (b"\xc3\xa9\x80", false),
            (b"\xa9\xa9\xa9\xa9a", true),
            (b"\xa9\xa9\xa9\xa9", false),
        ] {
            assert_eq!(ends(text), want, "{:?}", text);
        }
    }
}
