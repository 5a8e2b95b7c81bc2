use alloc::vec::Vec;

/// The greatest count of forced tokens of one step.
pub const MAX_FORCED: usize = 256;

/// A token with a logit (in the view) or a bias (in a sparse result).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The token.
    pub id: u32,
    /// Its logit or bias.
    pub value: f32,
}

/// A token that a sampler may choose.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its logit, after temperature.
    pub logit: f32,
    /// The natural logarithm of its probability.
    pub logprob: f32,
}

/// One position of the sequence for which a token is to be chosen.
pub struct Step<'a> {
    /// The sequence so far, the prompt first.
    pub tokens: &'a [u32],
    /// How many of `tokens` are the prompt.
    pub prompt: usize,
    /// How many of `tokens`, at the end, the last call did not have, or where a guard took others back: 0 in the
    /// first call, then 1, more after forced tokens.
    pub new: usize,
    /// The most likely tokens, by falling logit, if the description needs them.
    pub view: &'a mut [Entry],
    /// The logits of all tokens, if the description needs them.
    pub row: &'a mut [f32],
    pub(crate) answer: &'a mut Answer,
}

/// What a plugin answered: kept from step to step so that its memory is used again.
#[derive(Clone, Debug)]
pub struct Answer {
    /// A mode of the contract, see [`mode`].
    pub mode: u32,
    /// Tokens of `ALLOW` and `DENY`, words of `BITMASK`.
    pub ids: Vec<u32>,
    /// Entries of `SPARSE`.
    pub entries: Vec<Entry>,
    /// How many entries of the view `VIEW` keeps.
    pub kept: usize,
    /// See [`flag`].
    pub flags: u32,
    /// NaN leaves the request's.
    pub temperature: f32,
    /// Tokens that come next.
    pub force: Vec<u32>,
}

/// Modes of an [`Answer`].
pub mod mode {
    #![allow(missing_docs)]
    pub const PASS: u32 = 0;
    pub const ALLOW: u32 = 1;
    pub const DENY: u32 = 2;
    pub const SPARSE: u32 = 3;
    pub const BITMASK: u32 = 4;
    pub const VIEW: u32 = 5;
    pub const ROW: u32 = 6;
}

/// Flags of an [`Answer`].
pub mod flag {
    /// Tokens without an entry are denied.
    pub const ONLY: u32 = 1;
    /// The sequence ends here.
    pub const STOP: u32 = 2;
}

impl Answer {
    /// An answer that changes nothing.
    pub const fn new() -> Answer {
        Answer { mode: mode::PASS, ids: Vec::new(), entries: Vec::new(), kept: 0, flags: 0, temperature: f32::NAN, force: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.mode = mode::PASS;
        self.ids.clear();
        self.entries.clear();
        self.force.clear();
        self.kept = 0;
        self.flags = 0;
        self.temperature = f32::NAN;
    }
}

impl Default for Answer {
    fn default() -> Answer {
        Answer::new()
    }
}

impl<'a> Step<'a> {
    fn ids(&mut self, mode: u32, ids: &[u32]) {
        self.answer.mode = mode;
        self.answer.ids.clear();
        self.answer.ids.extend_from_slice(ids);
    }

    /// Denies every token but these.
    pub fn allow(&mut self, ids: &[u32]) {
        self.ids(mode::ALLOW, ids)
    }

    /// Denies these tokens.
    pub fn deny(&mut self, ids: &[u32]) {
        self.ids(mode::DENY, ids)
    }

    /// Adds each entry's value to its token's logit; negative infinity denies.
    /// Entries of one token add up.
    pub fn bias(&mut self, entries: &[Entry]) {
        self.answer.mode = mode::SPARSE;
        self.answer.entries.clear();
        self.answer.entries.extend_from_slice(entries);
    }

    /// Denies every token `t` whose bit `t % 32` in `words[t / 32]` is 0. There
    /// must be `(vocab_size() + 31) / 32` words.
    pub fn mask(&mut self, words: &[u32]) {
        self.ids(mode::BITMASK, words)
    }

    /// Takes the first `n` entries of `view`, edited in place: each sets its
    /// token's logit, negative infinity denies.
    pub fn edit_view(&mut self, n: usize) {
        self.answer.mode = mode::VIEW;
        self.answer.kept = n;
    }

    /// Takes `row`, edited in place.
    pub fn edit_row(&mut self) {
        self.answer.mode = mode::ROW;
    }

    /// Makes `bias` and `edit_view` deny the tokens that have no entry.
    pub fn only(&mut self) {
        self.answer.flags |= flag::ONLY;
    }

    /// Ends the sequence at this position.
    pub fn stop(&mut self) {
        self.answer.flags |= flag::STOP;
    }

    /// Makes `ids`, at most [`MAX_FORCED`], the tokens from this position on.
    /// `process` is called again when they are in the sequence.
    pub fn force(&mut self, ids: &[u32]) {
        self.answer.force.clear();
        self.answer.force.extend_from_slice(ids);
    }

    /// Sets the temperature of this step; 0 takes the most likely token.
    pub fn temperature(&mut self, t: f32) {
        self.answer.temperature = t;
    }
}
