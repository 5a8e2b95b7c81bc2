//! A host for native tests: a small vocabulary for this thread, sequences that
//! are fed step by step, conversations and texts of the model.
//!
//! ```ignore
//! testing::vocabulary(&["a", "b", " the", "</s>"]);
//! let mut s = testing::Sequence::<MyPlugin>::begin(r#"{"ban":[1]}"#, &[0])?;
//! assert_eq!(s.step(&[])?.ids, [1]);
//!
//! let r = testing::render::<MyTemplate>("{}", r#"{"messages":[...]}"#)?;
//! assert_eq!((r.text.as_str(), r.data.as_slice()), ("user: Hi\n", &["Hi".to_string()][..]));
//!
//! let events = testing::parse::<MyTools>("{}", request, &[("CALL f({})", false)], Finish::End)?;
//! ```

pub mod program;

use std::cell::RefCell;

use crate::json::Value;
use crate::grammar;
use crate::guard::{unfinished, Guard, Held, Verdict};
use crate::template::{self, Output};
use crate::tools::{self, kind, Events, Finish, Raw};
use crate::{Answer, Entry, Grammar, Logits, Result, Step, Template, Tools};

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
    vocabulary_bytes(words);
}

/// Sets the words of this thread's vocabulary, as `vocabulary` does: of a real one many are parts of characters.
pub fn vocabulary_bytes(words: &[impl AsRef<[u8]>]) {
    STATE.with(|s| *s.borrow_mut() = State { words: words.iter().map(|w| w.as_ref().to_vec()).collect(), seed: 1, lines: Vec::new() });
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

    /// Takes back all but the first tokens, the prompt's included, as a guard does, and then is [`Self::step`].
    pub fn step_back(&mut self, left: usize, chosen: &[u32]) -> Result<Answer> {
        self.tokens.truncate(left);
        self.step(chosen)
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

/// One sequence of a guard, with words as tokens: what it holds back, and what a client has.
pub struct Watched<G> {
    /// What went out.
    pub shown: String,
    guard: G,
    tokens: Vec<u32>,
    prompt: usize,
    released: usize,
    new: usize,
    seen_text: usize,
}

impl<G: Guard> Watched<G> {
    /// Starts a sequence, as the server does for a request.
    pub fn begin(params: &str, prompt: &[u32]) -> Result<Self> {
        let guard = G::begin(params.as_bytes(), prompt)?;
        let n = prompt.len();
        Ok(Watched { shown: String::new(), guard, tokens: prompt.to_vec(), prompt: n, released: n, new: 0, seen_text: 0 })
    }

    /// The tokens that were generated and not taken back.
    pub fn output(&self) -> &[u32] {
        &self.tokens[self.prompt..]
    }

    /// How many bytes of the model's text went out, or other text for them.
    pub fn gone(&self) -> usize {
        self.seen_text
    }

    /// Shows the guard a token and does what it says, but for biases and the text of insertions: what is taken
    /// back is gone from [`Self::output`]. `reason` is one of [`crate::guard::reason`]. A position or edits that the
    /// server refuses are an error.
    pub fn push(&mut self, token: u32, reason: u32) -> Result<Verdict> {
        self.add(token, reason, false)
    }

    /// The same where another guard holds all that did not go out: nothing does, whatever the guard says.
    pub fn push_held(&mut self, token: u32) -> Result<Verdict> {
        self.add(token, crate::guard::reason::NONE, true)
    }

    /// Takes back the last `n` tokens, as another guard may with those that did not go out.
    pub fn take_back(&mut self, n: usize) {
        let to = self.tokens.len() - n;
        assert!(to >= self.released, "{} tokens are held, not {}", self.tokens.len() - self.released, n);
        self.tokens.truncate(to);
        self.new = self.new.saturating_sub(n);
    }

    /// The bytes of a character that the prompt leaves unfinished.
    fn begun(&self) -> Vec<u8> {
        let text: Vec<u8> = self.tokens[self.prompt.saturating_sub(3)..self.prompt].iter().flat_map(|&t| bytes(t)).collect();
        text[text.len() - unfinished(&text)..].to_vec()
    }

    fn add(&mut self, token: u32, reason: u32, held: bool) -> Result<Verdict> {
        self.tokens.push(token);
        self.new += 1;
        loop {
            let mut text = self.begun();
            let mut ends = Vec::new();
            for (i, &t) in self.tokens.iter().enumerate().skip(self.prompt) {
                text.extend(bytes(t));
                if i >= self.released {
                    ends.push(text.len() as u32);
                }
            }
            let from = self.seen_text.saturating_sub(4096);
            ends.iter_mut().for_each(|e| *e -= from as u32);
            let mut v = Verdict::new();
            v.clear(self.tokens.len());
            self.guard.check(&mut Held {
                tokens: &self.tokens,
                prompt: self.prompt,
                new: self.new,
                released: self.released,
                text: &text[from..],
                context: self.seen_text - from,
                ends: &ends,
                reason,
                verdict: &mut v,
            })?;
            self.new = 0;
            let most = self.tokens.len();
            let (least, most) = match v.kind {
                crate::guard::verdict::RELEASE if reason != crate::guard::reason::NONE => (most, most),
                crate::guard::verdict::REWIND => (self.released, most - 1),
                crate::guard::verdict::REPLACE => (self.released + 1, most),
                _ => (self.released, most),
            };
            if v.position < least || v.position > most {
                let name = ["release", "rewind", "insert", "replace", "stop"][v.kind as usize];
                return Err(format!("verdict {}: position {}, want {} to {}", name, v.position, least, most));
            }
            let end = |position: usize| ends.get((position - self.released).wrapping_sub(1)).map_or(self.seen_text, |&e| e as usize + from);
            use crate::guard::verdict::*;
            match v.kind {
                REWIND | INSERT => self.tokens.truncate(v.position),
                _ if held => {}
                REPLACE => {
                    let to = end(v.position);
                    v.check(&text[from..], self.seen_text - from, to - from)?;
                    self.shown.push_str(&v.replacement(&text[self.seen_text..to], self.seen_text - from));
                    self.seen_text = to;
                    self.released = v.position;
                    if self.released < self.tokens.len() {
                        continue;
                    }
                }
                _ => {
                    let to = end(v.position);
                    self.shown.push_str(&String::from_utf8_lossy(&text[self.seen_text..to]));
                    self.seen_text = to;
                    self.released = v.position;
                }
            }
            return Ok(v);
        }
    }
}

fn bytes(t: u32) -> Vec<u8> {
    STATE.with(|s| s.borrow().words.get(t as usize).cloned().unwrap_or_default()).to_vec()
}

/// What a template wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The whole text.
    pub text: String,
    /// The stretches of it that are data.
    pub data: Vec<String>,
}

/// Renders one conversation, as the server does: config and request are JSON.
pub fn render<T: Template>(config: &str, request: &str) -> Result<Rendered> {
    let mut plugin = T::open(&Value::parse(config.as_bytes())?)?;
    let request = template::Request::parse(request.as_bytes())?;
    if !request.params.is_null() {
        plugin.validate(&request.params)?;
    }
    let mut out = Output::new();
    plugin.render(&request, &mut out)?;
    let data = out.spans.iter().map(|&[from, to]| out.text[from as usize..to as usize].to_string()).collect();
    Ok(Rendered { text: out.text, data })
}

/// One event of a parser. Fields that its kind does not use are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// See [`kind`].
    pub kind: u32,
    /// The call, [`tools::NO_CALL`] where none had begun.
    pub index: u32,
    /// Of content, reasoning, arguments, failures.
    pub text: String,
    /// Of a call that begins.
    pub name: String,
    /// Of a call that begins.
    pub id: String,
    /// A [`tools::Failure`], as number.
    pub reason: u32,
}

/// Feeds a text in pieces, each with whether it is a special token. What the
/// text is cut into shows no more: events that say together what one would say
/// are joined.
pub fn parse<T: Tools>(config: &str, request: &str, pieces: &[(&str, bool)], end: Finish) -> Result<Vec<Event>> {
    let mut plugin = T::open(&Value::parse(config.as_bytes())?)?;
    let request = tools::Request::parse(request.as_bytes())?;
    if !request.params.is_null() {
        plugin.validate(&request.params)?;
    }
    plugin.begin(&request)?;
    let (mut events, mut all) = (Events::new(), Vec::new());
    for &(piece, special) in pieces {
        plugin.feed(piece, special, &mut events);
        take(&mut events, &mut all);
    }
    plugin.finish(end, &mut events);
    take(&mut events, &mut all);
    Ok(all)
}

/// Compiles a source, as the server has it done: config and request are JSON. What
/// it gives is held to texts by [`crate::form::matches`].
pub fn compile<G: Grammar>(config: &str, request: &str) -> Result<grammar::Compiled> {
    let mut plugin = G::open(&Value::parse(config.as_bytes())?)?;
    let request = grammar::Request::parse(request.as_bytes())?;
    if !request.params.is_null() {
        plugin.validate(&request.params)?;
    }
    plugin.compile(&request)
}

/// What the text that answers a request is held to.
pub fn constraint<T: Tools>(config: &str, request: &str) -> Result<tools::Constraint> {
    let mut plugin = T::open(&Value::parse(config.as_bytes())?)?;
    let request = tools::Request::parse(request.as_bytes())?;
    if !request.params.is_null() {
        plugin.validate(&request.params)?;
    }
    plugin.constraint(&request)
}

fn take(events: &mut Events, all: &mut Vec<Event>) {
    let of = |at: u32, bytes: u32| events.room[at as usize..(at + bytes) as usize].to_string();
    for &Raw { kind, index, text, text_bytes, name, name_bytes, id, id_bytes, reason } in &events.list {
        let e = Event { kind, index, text: of(text, text_bytes), name: of(name, name_bytes), id: of(id, id_bytes), reason };
        match all.last_mut() {
            Some(last) if last.kind == kind && last.index == index && matches!(kind, kind::CONTENT | kind::REASONING | kind::ARGUMENTS) => {
                last.text.push_str(&e.text)
            }
            _ => all.push(e),
        }
    }
    events.clear();
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
