//! Guards: what decides which of the generated tokens go out.

use alloc::string::String;
use alloc::vec::Vec;

use crate::step::Entry;
use crate::Result;

/// A plugin that decides which of the generated tokens go out; one value serves one sequence. It is not
/// taken back with the sequence: it keeps what it knows.
pub trait Guard: Sized {
    /// Starts a sequence, as [`crate::Logits::begin`] does.
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self>;
    /// Looks at what is held back and calls one of the methods that set the verdict; calling none releases
    /// everything. An error ends the sequence.
    fn check(&mut self, held: &mut Held) -> Result<()>;
}

/// Verdicts of the contract.
pub mod verdict {
    #![allow(missing_docs)]
    pub const RELEASE: u32 = 0;
    pub const REWIND: u32 = 1;
    pub const INSERT: u32 = 2;
    pub const REPLACE: u32 = 3;
    pub const STOP: u32 = 4;
}

/// Why a sequence is about to end.
pub mod reason {
    #![allow(missing_docs)]
    pub const NONE: u32 = 0;
    pub const EOS: u32 = 1;
    pub const LENGTH: u32 = 2;
    pub const STOP: u32 = 3;
    pub const GUARD: u32 = 4;
}

/// What is held back behind a token. Positions count tokens of the sequence, the prompt's included.
pub struct Held<'a> {
    /// The sequence so far, the prompt first.
    pub tokens: &'a [u32],
    /// How many of `tokens` are the prompt.
    pub prompt: usize,
    /// How many of `tokens`, at the end, came since the last call: one that was taken back and came again is one of them.
    pub new: usize,
    /// How many of `tokens` are final: the prompt and what went out.
    pub released: usize,
    /// The model's own text, also where the client got other text for it: the end of that of the released tokens, and
    /// behind it that of the tokens that are held back. Special tokens have none. A character at the front may be cut.
    pub text: &'a [u8],
    /// How many bytes of `text` are of released tokens: a search begins there.
    pub context: usize,
    /// For each token that is held back: where its text ends in `text`.
    pub ends: &'a [u32],
    /// See [`reason`]. At the end everything is to be released, or taken back.
    pub reason: u32,
    pub(crate) verdict: &'a mut Verdict,
}

/// What a guard says: kept from call to call so that its memory is used again.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// See [`verdict`].
    pub kind: u32,
    /// Of the sequence.
    pub position: usize,
    /// Of a rewind.
    pub biases: Vec<Entry>,
    /// Of the other verdicts.
    pub text: String,
    /// Not to be asked again.
    pub done: bool,
}

impl Verdict {
    #[cfg_attr(not(any(target_arch = "wasm32", test)), allow(dead_code))]
    pub(crate) const fn new() -> Self {
        Verdict { kind: 0, position: 0, biases: Vec::new(), text: String::new(), done: false }
    }

    pub(crate) fn clear(&mut self, tokens: usize) {
        self.kind = verdict::RELEASE;
        self.position = tokens;
        self.biases.clear();
        self.text.clear();
        self.done = false;
    }

    fn set(&mut self, kind: u32, position: usize, text: &str) {
        self.kind = kind;
        self.position = position;
        self.biases.clear();
        self.text.clear();
        self.text.push_str(text);
    }
}

impl Held<'_> {
    /// The position of the token that has byte `i` of the text, which is held back.
    pub fn token_at(&self, i: usize) -> usize {
        self.released + self.ends.iter().take_while(|&&end| end as usize <= i).count()
    }

    /// Whether the sequence is about to end.
    pub fn ends_here(&self) -> bool {
        self.reason != reason::NONE
    }

    /// Lets the tokens before `position` go out and holds the others back.
    pub fn release(&mut self, position: usize) {
        self.verdict.set(verdict::RELEASE, position, "");
    }

    /// Takes back all tokens from `position` on. The biases are added to the logits of the token that comes
    /// there instead; -Inf forbids. Without any, the token that was there is forbidden.
    pub fn rewind(&mut self, position: usize, biases: &[Entry]) {
        self.verdict.set(verdict::REWIND, position, "");
        self.verdict.biases.extend_from_slice(biases);
    }

    /// Takes back all tokens from `position` on and goes on with a text.
    pub fn insert(&mut self, position: usize, text: &str) {
        self.verdict.set(verdict::INSERT, position, text);
    }

    /// Gives the client a text instead of the tokens before `position`.
    pub fn replace(&mut self, position: usize, text: &str) {
        self.verdict.set(verdict::REPLACE, position, text);
    }

    /// Lets the tokens before `position` go out and ends the text; the client is told why.
    pub fn stop(&mut self, position: usize, why: &str) {
        self.verdict.set(verdict::STOP, position, why);
    }

    /// The guard is not to be asked again: all that comes is released.
    pub fn done(&mut self) {
        self.verdict.done = true;
    }
}
