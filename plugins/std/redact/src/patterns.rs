//! What is looked for. Each kind says of a place in the text whether something begins there.
//!
//! A client says where a text ends: by its length, a stop string or a grammar. So where nothing follows (`over`), what
//! has half of what makes it sure counts as well, or a client would read it in pieces.

use Found::{Long, Maybe, No, To};

/// A kind of text that is replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Email,
    Card,
    Key,
}

/// All kinds.
pub const ALL: &[Kind] = &[Kind::Email, Kind::Card, Kind::Key];
/// Their names, for errors.
pub const NAMES: &str = "email, card, key";

/// What begins at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// Nothing.
    No,
    /// What follows the text decides.
    Maybe,
    /// Something that ends before this place.
    To(usize),
    /// Something that is sure up to this place, and goes on as the rest says.
    Long(usize, Rest),
}

impl Found {
    /// What two kinds say together: to wait comes first, then what is longest.
    pub fn or(self, other: Found) -> Found {
        match (self, other) {
            (Maybe, _) | (_, Maybe) => Maybe,
            (Long(..), _) => self,
            (_, Long(..)) => other,
            (To(a), To(b)) => To(a.max(b)),
            (No, x) | (x, No) => x,
        }
    }
}

/// So many bytes are enough of any string where nothing follows.
pub const ENOUGH: usize = 16;

/// Whether the first n bytes of a string of so many are enough of it where nothing follows.
pub fn enough(n: usize, of: usize) -> bool {
    n >= ENOUGH || n >= 4 && 2 * n >= of
}

/// How something goes on that is longer than what is held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rest {
    /// As long as bytes of a set come.
    Run(Set),
    /// Up to the last line of a PEM block.
    Pem,
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Set {
    Upper,
    Letters,
    Dash,
    Token,
    Dotted,
}

impl Set {
    fn has(self, b: u8) -> bool {
        match self {
            Set::Upper => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Set::Letters => b.is_ascii_alphanumeric(),
            Set::Dash => b.is_ascii_alphanumeric() || b == b'-',
            Set::Token => b.is_ascii_alphanumeric() || b == b'_' || b == b'-',
            Set::Dotted => b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.',
        }
    }
}

/// How keys begin, how many bytes follow at least, and of which set.
const KEYS: &[(&[u8], usize, Set)] = &[
    (b"sk-", 20, Set::Token),
    (b"sk_live_", 16, Set::Letters),
    (b"rk_live_", 16, Set::Letters),
    (b"AKIA", 16, Set::Upper),
    (b"ASIA", 16, Set::Upper),
    (b"ghp_", 30, Set::Letters),
    (b"gho_", 30, Set::Letters),
    (b"ghu_", 30, Set::Letters),
    (b"ghs_", 30, Set::Letters),
    (b"ghr_", 30, Set::Letters),
    (b"github_pat_", 22, Set::Token),
    (b"glpat-", 20, Set::Token),
    (b"xoxa-", 10, Set::Dash),
    (b"xoxb-", 10, Set::Dash),
    (b"xoxp-", 10, Set::Dash),
    (b"xoxs-", 10, Set::Dash),
    (b"AIza", 30, Set::Token),
    (b"hf_", 30, Set::Letters),
    (b"npm_", 30, Set::Letters),
    (b"eyJ", 40, Set::Dotted),
];

/// A key is sure when it has so many bytes, however it goes on.
const SURE: usize = 128;
const LOCAL: usize = 64;
const DOMAIN: usize = 120;
const PEM: &[u8] = b"-----BEGIN ";
const PEM_KEY: &[u8] = b"PRIVATE KEY-----";
const PEM_END: &[u8] = b"KEY-----";
/// A card has at most so many digits.
const CARD: usize = 19;
/// So many digits may be those of a card where nothing follows; a receipt may show eight of them.
const DIGITS: usize = 9;
/// The most bytes between PEM and PEM_KEY.
const PEM_NAME: usize = 24;

impl Kind {
    /// The kind of that name.
    pub fn named(s: &str) -> Option<Kind> {
        match s {
            "email" => Some(Kind::Email),
            "card" => Some(Kind::Card),
            "key" => Some(Kind::Key),
            _ => None,
        }
    }

    /// What begins at `at`; over says that nothing follows the text.
    pub fn look(self, text: &[u8], at: usize, over: bool) -> Found {
        match self {
            Kind::Email => email(text, at, over),
            Kind::Card => card(text, at, over),
            Kind::Key => key(text, at, over).or(pem(text, at, over)),
        }
    }
}

impl Rest {
    /// Where it ends behind `at`, and whether it may go on behind the text.
    pub fn end(self, text: &[u8], at: usize, over: bool) -> (usize, bool) {
        match self {
            Rest::Run(set) => {
                let to = at + run(&text[at..], set);
                (to, to == text.len() && !over)
            }
            Rest::Pem => match text[at..].windows(PEM_END.len()).position(|w| w == PEM_END) {
                Some(i) => (at + i + PEM_END.len(), false),
                None if over => (text.len(), false),
                None => (text.len().saturating_sub(PEM_END.len() - 1).max(at), true),
            },
        }
    }
}

fn run(text: &[u8], set: Set) -> usize {
    text.iter().take_while(|&&b| set.has(b)).count()
}

fn local(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-')
}

fn email(text: &[u8], at: usize, over: bool) -> Found {
    if !text[at].is_ascii_alphanumeric() || at > 0 && local(text[at - 1]) {
        return No;
    }
    let n = text[at..].iter().take(LOCAL + 1).take_while(|&&b| local(b)).count();
    let sign = at + n;
    if n > LOCAL {
        return No;
    }
    if sign == text.len() {
        return if over { No } else { Maybe };
    }
    if text[sign] != b'@' {
        return No;
    }
    let domain = text[sign + 1..].iter().take(DOMAIN).take_while(|&&b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-').count();
    let mut end = sign + 1 + domain;
    let open = end == text.len() && domain < DOMAIN;
    if open && !over {
        return Maybe;
    }
    while matches!(text[end - 1], b'.' | b'-') {
        end -= 1;
    }
    let labels = &text[(sign + 1).min(end)..end];
    match labels.iter().rposition(|&b| b == b'.') {
        Some(dot) if dot > 0 && labels.len() - dot > 2 && labels[dot + 1..].iter().all(|b| b.is_ascii_alphabetic()) => To(end),
        _ if open && domain > 0 => To(text.len()),
        _ => No,
    }
}

fn card(text: &[u8], at: usize, over: bool) -> Found {
    if !matches!(text[at], b'2'..=b'6') || at > 0 && text[at - 1].is_ascii_digit() {
        return No;
    }
    // where groups of digits end, and how many digits there are up to there
    let (mut n, mut i, mut found) = (0, at, No);
    // Luhn's sums (1954) if there is an even number of digits, and an odd one: it doubles every other one from the end
    let mut sums = [0; 2];
    loop {
        let here = text.get(i).copied();
        match here {
            Some(d) if d.is_ascii_digit() => {
                if n == CARD {
                    return found;
                }
                let d = (d - b'0') as u32;
                sums[n % 2] += 2 * d - 9 * (d > 4) as u32;
                sums[1 - n % 2] += d;
                n += 1;
                i += 1;
                continue;
            }
            None if !over => return Maybe,
            _ => {}
        }
        if n >= 13 && sums[n % 2] % 10 == 0 {
            found = To(i);
        }
        match (here, text.get(i + 1)) {
            (Some(b' ' | b'-'), Some(d)) if d.is_ascii_digit() => i += 1,
            (Some(b' ' | b'-'), None) if !over && n < CARD => return Maybe,
            (None, _) | (Some(b' ' | b'-'), None) if found == No && n >= DIGITS && n < CARD => return To(i),
            _ => return found,
        }
    }
}

fn key(text: &[u8], at: usize, over: bool) -> Found {
    let first = text[at];
    if !matches!(first, b's' | b'r' | b'A' | b'g' | b'x' | b'h' | b'n' | b'e') || at > 0 && Set::Token.has(text[at - 1]) {
        return No;
    }
    let mut best = No;
    for &(prefix, least, set) in KEYS {
        if prefix[0] != first || !prefix.iter().zip(&text[at..]).all(|(a, b)| a == b) {
            continue;
        }
        let from = at + prefix.len();
        if from > text.len() {
            best = best.or(if over { No } else { Maybe });
            continue;
        }
        let n = run(&text[from..], set);
        let end = from + n;
        best = best.or(match end == text.len() && !over {
            true if end - at >= SURE => Long(end, Rest::Run(set)),
            true => Maybe,
            _ if n >= least || end == text.len() && 2 * n >= least => To(end),
            _ => No,
        });
    }
    best
}

fn pem(text: &[u8], at: usize, over: bool) -> Found {
    let here = &text[at..];
    if !PEM.iter().zip(here).all(|(a, b)| a == b) {
        return No;
    }
    let name = &here[PEM.len().min(here.len())..];
    let name = &name[..name.len().min(PEM_NAME + PEM_KEY.len())];
    if let Some(i) = name.windows(PEM_KEY.len()).position(|w| w == PEM_KEY) {
        return Long(at + PEM.len() + i + PEM_KEY.len(), Rest::Pem);
    }
    if over || name.len() == PEM_NAME + PEM_KEY.len() || name.contains(&b'\n') {
        return No;
    }
    Maybe
}
