//! Drafts: guesses of the tokens that come next.

use crate::Result;

/// A plugin that guesses which tokens come next; one value serves one sequence. A step of the model computes
/// the guesses too, and keeps those that it would have chosen: the text is faster, and never another one.
pub trait Draft: Sized {
    /// Starts a sequence, as [`crate::Logits::begin`] does.
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self>;
    /// Writes tokens that it expects behind `tokens`, the next one first, to `room` and returns their number;
    /// 0 is no guess. `tokens` is the sequence so far, the prompt first; the last `fresh` of them are others
    /// than in the last call. After an error the sequence goes on without the plugin.
    fn propose(&mut self, tokens: &[u32], fresh: usize, room: &mut [u32]) -> Result<usize>;
}
