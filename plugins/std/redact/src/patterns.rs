//! What is looked for. Each kind says of a place in the text whether something begins there.
//!
//! A client says where a text ends: by its length, a stop string or a grammar. So where nothing follows (`over`), what
//! has half of what makes it sure counts as well, or a client would read it in pieces.

use alloc::vec::Vec;

use Found::{Maybe, No, To};

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
    /// Something that ends before this place. Where that is the end of the text it may go on: see [`Longs`].
    To(usize),
}

impl Found {
    /// What two kinds say together: to wait comes first, then what is longest.
    pub fn or(self, other: Found) -> Found {
        match (self, other) {
            (Maybe, _) | (_, Maybe) => Maybe,
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

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Set {
    Upper,
    Letters,
    Dash,
    Token,
    Dotted,
    Domain,
}

const SETS: [Set; 6] = [Set::Upper, Set::Letters, Set::Dash, Set::Token, Set::Dotted, Set::Domain];

impl Set {
    fn has(self, b: u8) -> bool {
        match self {
            Set::Upper => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Set::Letters => b.is_ascii_alphanumeric(),
            Set::Dash => b.is_ascii_alphanumeric() || b == b'-',
            Set::Token => b.is_ascii_alphanumeric() || b == b'_' || b == b'-',
            Set::Dotted => b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.',
            Set::Domain => b.is_ascii_alphanumeric() || b == b'-' || b == b'.',
        }
    }
}

/// What may be longer than what is held back: it is sure somewhere, and goes on as long as bytes of a set come, or up to
/// the last line of a PEM block. Who looks at a text has one for that text.
pub struct Longs {
    runs: [Run; SETS.len()],
    /// Where the first line of a PEM block ends, and the block.
    block: (usize, usize),
    /// What was found since the last look.
    pub found: Vec<Long>,
}

/// Where bytes of a set are.
#[derive(Clone, Copy)]
struct Run {
    from: usize,
    to: usize,
    /// What goes on in it is sure from here on.
    sure: usize,
}

const NONE: Run = Run { from: usize::MAX, to: 0, sure: usize::MAX };
const NO_BLOCK: (usize, usize) = (usize::MAX, 0);

/// Something long.
pub struct Long {
    /// So much of the text makes it sure, whatever follows.
    pub sure: usize,
    /// Behind more of the text than this it does not go on.
    pub to: usize,
    /// What it is.
    pub bit: u8,
}

/// The bit of PEM blocks. Those of sets are below.
const BLOCK: u8 = 1 << SETS.len();

impl Longs {
    pub fn new() -> Longs {
        Longs { runs: [NONE; SETS.len()], block: NO_BLOCK, found: Vec::new() }
    }

    /// Begins with a text, in which all that has a bit goes on at `at`. It returns where that ends. Nothing in front of
    /// `from` is looked at.
    pub fn begin(&mut self, text: &[u8], from: usize, at: usize, bits: u8) -> usize {
        self.runs = [NONE; SETS.len()];
        self.block = NO_BLOCK;
        self.found.clear();
        let mut end = at;
        for set in SETS.into_iter().filter(|&set| bits & 1 << set as u8 != 0) {
            let to = at + run(&text[at..], set);
            self.runs[set as usize] = Run { from, to, sure: 0 };
            self.found.push(Long { sure: at, to, bit: 1 << set as u8 });
            end = end.max(to);
        }
        if bits & BLOCK != 0 {
            end = end.max(self.block_to(text, at, at.saturating_sub(PEM_END.len() - 1)));
        }
        end
    }

    /// Where the bytes of a set end that begin at `from`.
    fn run_to(&mut self, text: &[u8], from: usize, set: Set) -> usize {
        let r = &mut self.runs[set as usize];
        if from < r.from || from > r.to {
            *r = Run { from, to: from + run(&text[from..], set), sure: usize::MAX };
        }
        r.to
    }

    /// What goes on in the bytes of a set that were looked at last is sure from a place on.
    fn sure(&mut self, set: Set, sure: usize) {
        let r = &mut self.runs[set as usize];
        if sure < r.sure {
            r.sure = sure;
            self.found.push(Long { sure, to: r.to, bit: 1 << set as u8 });
        }
    }

    /// Where a PEM block ends whose first line does so at `line`; its last one ends behind `from`.
    fn block_to(&mut self, text: &[u8], line: usize, from: usize) -> usize {
        if self.block.0 != line {
            let last = text[from..].windows(PEM_END.len()).position(|w| w == PEM_END);
            let end = last.map(|i| from + i + PEM_END.len());
            self.found.push(Long { sure: line, to: end.map_or(usize::MAX, |end| end - 1), bit: BLOCK });
            self.block = (line, end.unwrap_or(text.len()));
        }
        self.block.1
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

/// A key is sure when it has so many bytes, and an address when its domain has, however it goes on.
const SURE: usize = 128;
const LOCAL: usize = 64;
/// What has no bit in [`Longs`] is shorter, but for strings.
pub const LONGEST: usize = LOCAL + 1 + SURE;
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
    pub fn look(self, text: &[u8], at: usize, over: bool, longs: &mut Longs) -> Found {
        match self {
            Kind::Email => email(text, at, over, longs),
            Kind::Card => card(text, at, over),
            Kind::Key => key(text, at, over, longs).or(pem(text, at, over, longs)),
        }
    }
}

/// Whether something of any kind may begin at a place: nothing does at most.
#[inline(always)]
pub fn may_begin(text: &[u8], at: usize) -> bool {
    let before = |is: fn(&u8) -> bool| at > 0 && is(&text[at - 1]);
    match text[at] {
        b'-' => true,
        b'.' | b'_' | b'%' | b'+' => !before(local),
        b'2'..=b'6' => !before(u8::is_ascii_digit),
        b => b.is_ascii_alphanumeric() && !before(u8::is_ascii_alphanumeric),
    }
}

fn run(text: &[u8], set: Set) -> usize {
    text.iter().take_while(|&&b| set.has(b)).count()
}

fn local(b: &u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-')
}

fn email(text: &[u8], at: usize, over: bool, longs: &mut Longs) -> Found {
    // where a name begins, or a word in one that is too long
    let word = |i: usize| text[i].is_ascii_alphanumeric();
    if !local(&text[at]) || at > 0 && local(&text[at - 1]) && (word(at - 1) || !word(at)) {
        return No;
    }
    let n = text[at..].iter().take(LOCAL + 1).take_while(|b| local(b)).count();
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
    let mut end = longs.run_to(text, sign + 1, Set::Domain);
    let domain = end - sign - 1;
    if domain >= SURE {
        longs.sure(Set::Domain, sign + 1 + SURE);
        return To(end);
    }
    let open = end == text.len();
    if open && !over {
        return Maybe;
    }
    while matches!(text[end - 1], b'.' | b'-') {
        end -= 1;
    }
    let labels = &text[(sign + 1).min(end)..end];
    let top = |w: &[u8]| w[0] == b'.' && w[1].is_ascii_alphabetic() && w[2].is_ascii_alphabetic();
    if labels.get(1..).map_or(false, |rest| rest.windows(3).any(top)) {
        To(end)
    } else if open && domain > 0 {
        To(text.len())
    } else {
        No
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

fn key(text: &[u8], at: usize, over: bool, longs: &mut Longs) -> Found {
    let first = text[at];
    if !matches!(first, b's' | b'r' | b'A' | b'g' | b'x' | b'h' | b'n' | b'e') || at > 0 && text[at - 1].is_ascii_alphanumeric() {
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
        let end = longs.run_to(text, from, set);
        let n = end - from;
        best = best.or(if end - at >= SURE {
            longs.sure(set, at + SURE);
            To(end)
        } else if end == text.len() && !over {
            Maybe
        } else if n >= least || end == text.len() && 2 * n >= least {
            To(end)
        } else {
            No
        });
    }
    best
}

fn pem(text: &[u8], at: usize, over: bool, longs: &mut Longs) -> Found {
    let here = &text[at..];
    if !PEM.iter().zip(here).all(|(a, b)| a == b) {
        return No;
    }
    let name = &here[PEM.len().min(here.len())..];
    let name = &name[..name.len().min(PEM_NAME + PEM_KEY.len())];
    if let Some(i) = name.windows(PEM_KEY.len()).position(|w| w == PEM_KEY) {
        let line = at + PEM.len() + i + PEM_KEY.len();
        return To(longs.block_to(text, line, line));
    }
    if over || name.len() == PEM_NAME + PEM_KEY.len() || name.contains(&b'\n') {
        return No;
    }
    Maybe
}
