//! banned-words: denies every token with which the generated text would contain
//! one of a list of strings. README.md has parameters, algorithm and limits.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ops::Deref;

use settings::{boolean, Defaults};
use tgi_plugin::{json::Reader, plugin, Logits, Result, Step};
use words::{Index, Matcher, Options, State};

/// The bounds of a list: words, bytes of one word, bytes of all.
struct Bounds {
    words: usize,
    word: usize,
    all: usize,
}

const OF_CONFIG: Bounds = Bounds { words: 10_000, word: 256, all: 131_072 };
const OF_PARAMS: Bounds = Bounds { words: 256, word: 256, all: 4_096 };

/// How many tokens may complete one of the words behind a text, so that denying them is within a step's fuel (some 33
/// for a token), whatever the text.
const MOST: usize = 50_000;

#[derive(Clone)]
struct Settings {
    words: Vec<String>,
    options: Options,
    from_prompt: bool,
    /// The configuration has been read: what follows is a request's.
    running: bool,
}

const INITIAL: Settings =
    Settings { words: Vec::new(), options: Options { ignore_case: false, whole_word: false }, from_prompt: false, running: false };

fn list(r: &mut Reader, field: &str, bounds: &Bounds) -> Vec<String> {
    let (mut words, mut all) = (Vec::new(), 0);
    if r.peek() != b'[' {
        r.fail(&format!("{}: want a list of strings", field));
    }
    r.array(|r| {
        if r.peek() != b'"' {
            r.fail(&format!("{}[{}]: want a string", field, words.len()));
        }
        let w = r.string();
        all += w.len();
        words.push(w);
        let (n, len) = (words.len(), words.last().map_or(0, |w| w.len()));
        if len == 0 || len > bounds.word {
            r.fail(&format!("{}[{}] has {} bytes, want 1 to {}", field, n - 1, len, bounds.word));
        } else if n > bounds.words {
            r.fail(&format!("{}: more than {} entries", field, bounds.words));
        } else if all > bounds.all {
            r.fail(&format!("{}: more than {} bytes in all", field, bounds.all));
        }
    });
    words
}

impl settings::Settings for Settings {
    fn member(&mut self, r: &mut Reader, name: &str) -> bool {
        match name {
            "words" => self.words = list(r, name, if self.running { &OF_PARAMS } else { &OF_CONFIG }),
            "ignore_case" => self.options.ignore_case = boolean(r, name),
            "whole_word" => self.options.whole_word = boolean(r, name),
            "from_prompt" => self.from_prompt = boolean(r, name),
            _ => return false,
        }
        true
    }
}

/// What init leaves for all sequences.
struct Shared {
    /// Without words; a request adds its own.
    settings: Settings,
    index: Index,
    matcher: Matcher,
}

struct Cell(UnsafeCell<Option<Shared>>);

// A guest has one thread.
unsafe impl Sync for Cell {}

static SHARED: Cell = Cell(UnsafeCell::new(None));

/// Reads configuration and vocabulary and looks the configured words up.
pub fn init(config: &[u8]) -> Result<()> {
    let s = Defaults::new(INITIAL).with(config)?;
    let index = Index::new(false, true);
    let matcher = Matcher::new(&index, &s.words, s.options);
    let settings = Settings { words: Vec::new(), running: true, ..s };
    // Called once, before any sequence begins.
    unsafe { *SHARED.0.get() = Some(Shared { settings, index, matcher }) };
    Ok(())
}

/// A list of words and the state of the text in matching it.
struct Follower {
    matcher: Words,
    state: State,
}

enum Words {
    Config(&'static Matcher),
    Request(Matcher),
}

impl Deref for Words {
    type Target = Matcher;

    fn deref(&self) -> &Matcher {
        match self {
            Words::Config(m) => m,
            Words::Request(m) => m,
        }
    }
}

/// One sequence.
pub struct Banned {
    index: &'static Index,
    followers: Vec<Follower>,
    /// The mask of the tokens that complete a word after any text, empty where
    /// they are few.
    base: Vec<u32>,
    out: Vec<u32>,
}

/// The number of denied tokens from which a mask of the vocabulary is shorter than a list.
fn words_of(index: &Index) -> usize {
    (index.size() + 31) / 32
}

impl Banned {
    fn new(shared: &'static Shared, s: &Settings) -> Banned {
        let mut followers = Vec::with_capacity(2);
        let mut follow = |matcher: Words| {
            let state = matcher.start();
            followers.push(Follower { matcher, state });
        };
        if !shared.matcher.is_empty() {
            follow(Words::Config(&shared.matcher));
        }
        if !s.words.is_empty() {
            follow(Words::Request(Matcher::new(&shared.index, &s.words, s.options)));
        }
        let mut b = Banned { index: &shared.index, followers, base: Vec::new(), out: Vec::new() };
        let n = words_of(b.index);
        b.out.reserve_exact(n);
        if b.followers.iter().map(|f| f.matcher.always().count).sum::<usize>() > n {
            b.base.resize(n, u32::MAX);
            for f in &b.followers {
                b.base.iter_mut().zip(&f.matcher.always().mask).for_each(|(b, m)| *b &= m);
            }
        }
        b
    }

    /// Reads the end of the prompt, as far as words may reach back into it.
    fn read_prompt(&mut self, prompt: &[u32]) {
        let most = self.followers.iter().map(|f| f.matcher.longest()).max().unwrap_or(0);
        let (mut from, mut bytes) = (prompt.len(), 0);
        while from > 0 && bytes <= most {
            from -= 1;
            bytes += self.index.bytes(prompt[from]).len();
        }
        self.feed(&prompt[from..]);
    }

    fn feed(&mut self, tokens: &[u32]) {
        for &t in tokens {
            let bytes = self.index.bytes(t);
            self.followers.iter_mut().for_each(|f| f.matcher.feed(&mut f.state, bytes));
        }
    }

    /// Calls `each` with all denied tokens but those of the base mask.
    fn pieces(&self, mut each: impl FnMut(&[u32])) {
        for f in &self.followers {
            if self.base.is_empty() {
                each(&f.matcher.always().ids);
            }
            f.matcher.completing(self.index, &f.state, &mut each);
        }
    }
}

fn clear(mask: &mut [u32], t: u32) {
    mask[t as usize / 32] &= !(1 << (t % 32));
}

impl Logits for Banned {
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self> {
        let shared = unsafe { (*SHARED.0.get()).as_ref() }.ok_or_else(|| "begin before init".to_string())?;
        let s = Defaults::new(shared.settings.clone()).with(params)?;
        let mut b = Banned::new(shared, &s);
        let most: usize = b.followers.iter().map(|f| f.matcher.most()).sum();
        if !s.words.is_empty() && most > MOST {
            return Err(format!("words: behind some texts {} tokens complete one, configured ones too, want at most {}", most, MOST));
        }
        if s.from_prompt {
            b.read_prompt(prompt);
        }
        Ok(b)
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        self.feed(&s.tokens[s.tokens.len() - s.new..]);
        let n = words_of(self.index);
        let mut count = 0;
        self.pieces(|p| count += p.len());
        let mut out = core::mem::take(&mut self.out);
        out.clear();
        if self.base.is_empty() && count <= n {
            self.pieces(|p| out.extend_from_slice(p));
            if !out.is_empty() {
                s.deny(&out);
            }
        } else {
            if self.base.is_empty() {
                out.resize(n, u32::MAX);
            } else {
                out.extend_from_slice(&self.base);
            }
            self.pieces(|p| p.iter().for_each(|&t| clear(&mut out, t)));
            s.mask(&out);
        }
        self.out = out;
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"banned-words","version":"1.1.1","config":true,"kinds":["logits"],"modes":["deny","bitmask"],"#,
        r#""doc":"Keeps strings out of the generated text, however tokens split them.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""words":{"description":"strings that the generated text must not contain, on top of the configured ones","type":"array","maxItems":256,"items":{"type":"string","minLength":1,"maxLength":256},"default":[]},"#,
        r#""ignore_case":{"description":"ASCII letters are equal in both cases","type":"boolean","default":false},"#,
        r#""whole_word":{"description":"only where no letter, mark, digit or underscore, by Unicode, stands beside the word","type":"boolean","default":false},"#,
        r#""from_prompt":{"description":"a string that begins in the prompt counts as well","type":"boolean","default":false}}}}"#
    ),
    init: init,
    logits: Banned,
}

#[cfg(test)]
mod tests;
