//! Guards: what decides which of the generated tokens go out.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

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

/// How many bytes at the end of a text are the beginning of a character. Where a prompt ends in such bytes,
/// [`Held::text`] has them in front of the rest of the character.
pub fn unfinished(text: &[u8]) -> usize {
    let begins = |n: &usize| match core::str::from_utf8(&text[text.len() - n..]) {
        Err(e) => e.valid_up_to() == 0 && e.error_len().is_none(),
        Ok(_) => false,
    };
    (1..=text.len().min(3)).find(begins).unwrap_or(0)
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
    /// Of the other verdicts; the words of edits one behind the other.
    pub text: String,
    /// Of [`Held::edit`].
    pub edits: Vec<Edit>,
    /// It is one of [`Held::edit`].
    pub exact: bool,
    /// Not to be asked again.
    pub done: bool,
}

/// Words that stand instead of bytes of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Edit {
    /// Bytes of the text that are taken.
    pub from: u32,
    /// Where they end.
    pub to: u32,
    /// Where the words begin in [`Verdict::text`]; their address, once the server reads it.
    pub(crate) words: u32,
    pub(crate) len: u32,
}

impl Verdict {
    #[cfg_attr(not(any(target_arch = "wasm32", test)), allow(dead_code))]
    pub(crate) const fn new() -> Self {
        Verdict { kind: 0, position: 0, biases: Vec::new(), text: String::new(), edits: Vec::new(), exact: false, done: false }
    }

    pub(crate) fn clear(&mut self, tokens: usize) {
        self.kind = verdict::RELEASE;
        self.position = tokens;
        self.biases.clear();
        self.text.clear();
        self.edits.clear();
        self.exact = false;
        self.done = false;
    }

    /// The words of an edit.
    pub fn words(&self, e: &Edit) -> &str {
        &self.text[e.words as usize..(e.words + e.len) as usize]
    }

    /// What the server would say of the edits, in `text` of which that of the tokens before the position ends at `end`.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn check(&self, text: &[u8], context: usize, end: usize) -> Result<()> {
        use alloc::format;
        let (mut done, mut size) = (context, end - context);
        let inside = |at: usize| text.get(at).map_or(false, |b| b & 0xc0 == 0x80);
        if self.edits.len() > 4096 {
            return Err(format!("verdict replace: {} edits, the limit is 4096", self.edits.len()));
        }
        for (i, e) in self.edits.iter().enumerate() {
            let (from, to) = (e.from as usize, e.to as usize);
            let takes = format!("verdict replace: edit {} takes bytes {} to {}", i, from, to);
            if from < done || to < from || to > end {
                return Err(format!("{}, want them in order from {} to {}", takes, done, end));
            }
            if inside(from) || inside(to) {
                return Err(format!("{}, which are no whole characters", takes));
            }
            done = to;
            size = size + e.len as usize + from - to;
        }
        if self.exact && size > 4096 {
            return Err(format!("verdict replace: a text of {} bytes, the limit is 4096", size));
        }
        Ok(())
    }

    /// What a replacement makes of `text`, that of the tokens before its position; `from` is the first byte of that.
    pub fn replacement(&self, text: &[u8], from: usize) -> String {
        if !self.exact {
            return self.text.clone();
        }
        let (mut out, mut at) = (Vec::new(), 0);
        for e in &self.edits {
            out.extend_from_slice(&text[at..e.from as usize - from]);
            out.extend_from_slice(self.words(e).as_bytes());
            at = e.to as usize - from;
        }
        out.extend_from_slice(&text[at..]);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn set(&mut self, kind: u32, position: usize, text: &str) {
        self.kind = kind;
        self.position = position;
        self.biases.clear();
        self.edits.clear();
        self.exact = false;
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

    /// Gives the client a text instead of the tokens before `position`. Where other guards replace as well, what this
    /// one changes is guessed from the text, and more may go; [`Self::edit`] says it.
    pub fn replace(&mut self, position: usize, text: &str) {
        self.verdict.set(verdict::REPLACE, position, text);
    }

    /// Gives the client the text of the tokens before `position` with other words instead of some bytes of `text`, in
    /// their order.
    pub fn edit<'w>(&mut self, position: usize, edits: impl IntoIterator<Item = (Range<usize>, &'w str)>) {
        self.verdict.set(verdict::REPLACE, position, "");
        let v = &mut *self.verdict;
        v.exact = true;
        for (at, words) in edits {
            match v.edits.last_mut() {
                Some(e) if words.is_empty() && e.to as usize == at.start => e.to = at.end as u32,
                _ => {
                    let e = Edit { from: at.start as u32, to: at.end as u32, words: v.text.len() as u32, len: words.len() as u32 };
                    v.edits.push(e);
                    v.text.push_str(words);
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Edits that the server refuses fail a test, with its words.
    #[test]
    fn refused_edits() {
        for (edits, want) in [
            (vec![(2..4, "<>"), (4..4, "!")], ""),
            (vec![(1..3, "")], "edit 0 takes bytes 1 to 3, want them in order from 2 to 7"),
            (vec![(2..8, "")], "edit 0 takes bytes 2 to 8, want them in order from 2 to 7"),
            (vec![(2..4, "a"), (3..4, "b")], "edit 1 takes bytes 3 to 4, want them in order from 4 to 7"),
            (vec![(2..5, "")], "edit 0 takes bytes 2 to 5, which are no whole characters"),
            (vec![(2..4, &*"a".repeat(5000))], "a text of 5003 bytes, the limit is 4096"),
        ] {
            let mut v = Verdict::new();
            Held { tokens: &[0, 1, 2], prompt: 0, new: 1, released: 1, text: "abcd\u{e9}f".as_bytes(), context: 2,
                ends: &[4, 7], reason: reason::NONE, verdict: &mut v }.edit(3, edits);
            let got = v.check("abcd\u{e9}f".as_bytes(), 2, 7).err().unwrap_or_default();
            assert!(got.ends_with(want) && got.is_empty() == want.is_empty(), "{}", got);
        }
    }
}
