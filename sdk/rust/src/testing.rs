//! A host for native tests: a small vocabulary for this thread, and sequences
//! that are fed step by step.
//!
//! ```ignore
//! testing::vocabulary(&["a", "b", " the", "</s>"]);
//! let mut s = testing::Sequence::<MyPlugin>::begin(r#"{"ban":[1]}"#, &[0])?;
//! assert_eq!(s.step(&[])?.ids, [1]);
//! ```

use std::cell::RefCell;

use crate::{Answer, Entry, Logits, Result, Step};

#[derive(Default)]
struct State {
    words: Vec<Vec<u8>>,
    seed: u64,
    lines: Vec<String>,
}

thread_local!(static STATE: RefCell<State> = RefCell::new(State::default()));

/// Sets the words of this thread's vocabulary; one written `<so>` is special,
/// `</s>` ends the sequence. The seed becomes 1.
pub fn vocabulary(words: &[&str]) {
    STATE.with(|s| *s.borrow_mut() = State { words: words.iter().map(|w| w.as_bytes().to_vec()).collect(), seed: 1, lines: Vec::new() });
}

/// What was logged since the vocabulary was set.
pub fn lines() -> Vec<String> {
    STATE.with(|s| s.borrow().lines.clone())
}

/// One sequence of a logits plugin.
pub struct Sequence<L> {
    /// What the next step shows; the plugin may edit it.
    pub view: Vec<Entry>,
    /// What the next step shows; the plugin may edit it.
    pub row: Vec<f32>,
    plugin: L,
    answer: Answer,
    tokens: Vec<u32>,
    prompt: usize,
}

impl<L: Logits> Sequence<L> {
    /// Starts a sequence, as the server does for a request.
    pub fn begin(params: &str, prompt: &[u32]) -> Result<Self> {
        let plugin = L::begin(params.as_bytes(), prompt)?;
        Ok(Sequence { view: Vec::new(), row: Vec::new(), plugin, answer: Answer::new(), tokens: prompt.to_vec(), prompt: prompt.len() })
    }

    /// Appends the tokens chosen since the last step and returns the answer.
    pub fn step(&mut self, chosen: &[u32]) -> Result<Answer> {
        self.tokens.extend_from_slice(chosen);
        self.answer.clear();
        let mut step = Step {
            tokens: &self.tokens,
            prompt: self.prompt,
            new: chosen.len(),
            view: &mut self.view,
            row: &mut self.row,
            answer: &mut self.answer,
        };
        self.plugin.process(&mut step)?;
        Ok(self.answer.clone())
    }
}

/// The imports, natively.
pub(crate) mod import {
    use super::STATE;

    pub unsafe fn log(_level: u32, text: *const u8, len: u32) {
        let text = String::from_utf8_lossy(std::slice::from_raw_parts(text, len as usize)).into_owned();
        STATE.with(|s| s.borrow_mut().lines.push(text));
    }

    pub unsafe fn vocab_size() -> u32 {
        STATE.with(|s| s.borrow().words.len() as u32)
    }

    pub unsafe fn token_bytes(id: u32, to: *mut u8, room: u32) -> i32 {
        STATE.with(|s| match s.borrow().words.get(id as usize) {
            None => -1,
            Some(w) => {
                if w.len() <= room as usize {
                    std::ptr::copy_nonoverlapping(w.as_ptr(), to, w.len());
                }
                w.len() as i32
            }
        })
    }

    pub unsafe fn token_flags(id: u32) -> i32 {
        STATE.with(|s| match s.borrow().words.get(id as usize) {
            None => -1,
            Some(w) if w == b"</s>" => 3,
            Some(w) => (w.len() > 2 && w[0] == b'<' && w[w.len() - 1] == b'>') as i32,
        })
    }

    /// The longest word that fits, from left to right.
    pub unsafe fn encode(text: *const u8, len: u32, to: *mut u32, room: u32) -> i32 {
        let mut rest = if len == 0 { &[][..] } else { std::slice::from_raw_parts(text, len as usize) };
        let mut n = 0;
        STATE.with(|s| {
            while !rest.is_empty() {
                let state = s.borrow();
                let mut best = None;
                for (id, w) in state.words.iter().enumerate() {
                    if rest.starts_with(w) && w.len() > best.map_or(0, |(_, l)| l) {
                        best = Some((id as u32, w.len()));
                    }
                }
                let (id, l) = match best {
                    None => return -1,
                    Some(b) => b,
                };
                if n < room as usize {
                    *to.add(n) = id;
                }
                n += 1;
                rest = &rest[l..];
            }
            n as i32
        })
    }

    /// SplitMix64.
    pub unsafe fn rand_u64() -> u64 {
        STATE.with(|s| {
            let s = &mut s.borrow_mut().seed;
            *s = s.wrapping_add(0x9e3779b97f4a7c15);
            let mut z = *s;
            z = (z ^ z >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d049bb133111eb);
            z ^ z >> 31
        })
    }
}
