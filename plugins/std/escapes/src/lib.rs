//! The escapes of JSON in a text of which nobody says whether it is JSON. The arguments of a tool call are, and the
//! client reads what the escapes stand for. What is no escape of JSON stands for itself.
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

/// The most bytes of an escape: those of a pair of surrogates.
pub const LONGEST: usize = 12;

/// A byte of UTF-8 is spelled with at most so many: an ASCII character as `\u0061`.
pub const WIDEST: usize = 6;

const BYTES: usize = 6;

/// What a text begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// A byte that stands for itself.
    Byte,
    /// A character that is spelled with so many bytes.
    Escape(char, usize),
    /// An escape perhaps: its end is missing.
    Cut,
}

/// What a text begins with that is not empty.
pub fn unit(text: &[u8]) -> Unit {
    if text[0] != b'\\' {
        return Unit::Byte;
    }
    let c = match text.get(1) {
        None => return Unit::Cut,
        Some(b'u') => return by_number(text),
        Some(b'b') => '\x08',
        Some(b'f') => '\x0c',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(&c @ (b'"' | b'\\' | b'/')) => c as char,
        Some(_) => return Unit::Byte,
    };
    Unit::Escape(c, 2)
}

/// A character as one number, or as two surrogates.
fn by_number(text: &[u8]) -> Unit {
    match number(text) {
        Ok(high @ 0xd800..=0xdbff) => match number(&text[BYTES..]) {
            Ok(low @ 0xdc00..=0xdfff) => escape(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), LONGEST),
            Ok(_) => Unit::Byte,
            Err(other) => other,
        },
        Ok(code) => escape(code, BYTES),
        Err(other) => other,
    }
}

fn escape(code: u32, bytes: usize) -> Unit {
    char::from_u32(code).map_or(Unit::Byte, |c| Unit::Escape(c, bytes))
}
/// The number of `\u00e9`, or what the text begins with instead.
fn number(text: &[u8]) -> Result<u32, Unit> {
    let mut n = 0;
    for (i, &b) in text.iter().take(BYTES).enumerate() {
        let digit = match (i, b) {
            (0, b'\\') | (1, b'u') => 0,
            (0 | 1, _) => return Err(Unit::Byte),
            _ => (b as char).to_digit(16).ok_or(Unit::Byte)?,
        };
        n = n << 4 | digit;
    }
    if text.len() < BYTES {
        return Err(Unit::Cut);
    }
    Ok(n)
}

/// A place from which a text can be read so that what begins at `at` or behind is read as from the text's beginning. In
/// front of it may be an escape, or a row of backslashes.
pub fn before(at: usize, backslash: impl Fn(usize) -> bool) -> usize {
    let mut from = at.saturating_sub(LONGEST);
    while from > 0 && backslash(from - 1) {
        from -= 1;
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, want) in [
            ("a", Unit::Byte),
            ("é", Unit::Byte),
            (r#"\""#, Unit::Escape('"', 2)),
            (r"\\n", Unit::Escape('\\', 2)),
            (r"\/", Unit::Escape('/', 2)),
            (r"\n", Unit::Escape('\n', 2)),
            (r"\t", Unit::Escape('\t', 2)),
            (r"\b", Unit::Escape('\x08', 2)),
            (r"\f", Unit::Escape('\x0c', 2)),
            (r"\r", Unit::Escape('\r', 2)),
            (r"\x41", Unit::Byte),
            (r"\u00fcb", Unit::Escape('ü', 6)),
            (r"\u00FC", Unit::Escape('ü', 6)),
            (r"\u001f", Unit::Escape('\x1f', 6)),
            (r"\uD83D\ude00", Unit::Escape('😀', 12)),
            (r"\ud83d", Unit::Cut),
            (r"\ud83d\ude0", Unit::Cut),
            (r"\ud83d!", Unit::Byte),
            (r"\ud83d\n", Unit::Byte),
            (r"\ud83d\u0041", Unit::Byte),
            (r"\ude00", Unit::Byte),
            (r"\", Unit::Cut),
            (r"\u", Unit::Cut),
            (r"\u00f", Unit::Cut),
            (r"\u00g", Unit::Byte),
            (r"\u+041", Unit::Byte),
        ] {
            assert_eq!(unit(text.as_bytes()), want, "{}", text);
        }
    }

    /// From any place the rest of the text is read as from its beginning.
    #[test]
    fn from_any_place() {
        const ALPHABET: [&str; 9] = ["\\", "\\", "u", "00", "d83d", "de00", "n", "\\u0061", "\\ud83d\\ude00"];
        let mut state = 9u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        for _ in 0..20_000 {
            let text: String = (0..1 + below(14)).map(|_| ALPHABET[below(9)]).collect();
            let text = text.as_bytes();
            let places = |mut from: usize, at: usize| {
                let mut all = Vec::new();
                while from < text.len() {
                    let n = match unit(&text[from..]) {
                        Unit::Byte => 1,
                        Unit::Escape(_, n) => n,
                        Unit::Cut => break,
                    };
                    if from >= at {
                        all.push((from, n));
                    }
                    from += n;
                }
                all
            };
            let at = below(text.len());
            let from = before(at, |i| text[i] == b'\\');
            assert_eq!(places(from, at), places(0, at), "{} from {}", String::from_utf8_lossy(text), at);
        }
    }
}
