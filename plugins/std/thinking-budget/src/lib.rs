//! thinking-budget: limits the number of reasoning tokens, and ends the reasoning at the limit.
//! README.md has the parameters.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::UnsafeCell;

use settings::{whole, Defaults};
use tgi_plugin::{host, json::Reader, plugin, Logits, Result, Step, MAX_FORCED};
use words::Index;

mod marker;

use marker::Marker;

/// The most tokens of budget and min.
const MOST: u32 = 1_000_000;
/// The most bytes of a marker, and of the message.
const MARKER: usize = 64;
const MESSAGE: usize = 2000;
/// How much of the prompt is searched if a marker is not one special token.
const SEARCHED: usize = 32_768;

#[derive(Clone)]
struct Settings {
    budget: u32,
    min: u32,
    open: String,
    close: String,
    message: String,
    /// None: detected from the prompt.
    start_inside: Option<bool>,
}

impl Settings {
    const fn initial() -> Settings {
        Settings { budget: 1024, min: 0, open: String::new(), close: String::new(), message: String::new(), start_inside: None }
    }

    fn open(&self) -> &str {
        or(&self.open, "<think>")
    }

    fn close(&self) -> &str {
        or(&self.close, "</think>")
    }
}

fn or<'a>(set: &'a str, default: &'a str) -> &'a str {
    if set.is_empty() {
        default
    } else {
        set
    }
}

fn text(r: &mut Reader, field: &str, least: usize, most: usize) -> String {
    if r.peek() != b'"' {
        r.fail(&format!("{}: want a string", field));
    }
    let s = r.string();
    if s.len() < least || s.len() > most {
        r.fail(&format!("{}: {} bytes, want {} to {}", field, s.len(), least, most));
    }
    s
}

fn inside(r: &mut Reader, field: &str) -> Option<bool> {
    match r.peek() {
        b't' | b'f' => return Some(r.boolean()),
        b'"' if r.string() == "auto" => {}
        _ => r.fail(&format!("{}: want true, false or \"auto\"", field)),
    }
    None
}

impl settings::Settings for Settings {
    fn member(&mut self, r: &mut Reader, name: &str) -> bool {
        match name {
            "budget" => self.budget = whole(r, name, 0, MOST),
            "min" => self.min = whole(r, name, 0, MOST),
            "open" => self.open = text(r, name, 1, MARKER),
            "close" => self.close = text(r, name, 1, MARKER),
            "message" => self.message = text(r, name, 0, MESSAGE),
            "start_inside" => self.start_inside = inside(r, name),
            _ => return false,
        }
        true
    }

    fn check(&mut self) -> Result<()> {
        if self.min > self.budget {
            return Err(format!("min: {} is more than the budget of {}", self.min, self.budget));
        }
        Ok(())
    }
}

/// What init leaves for all sequences.
struct Shared {
    settings: Settings,
    index: Index,
    ends: Vec<u32>,
}

struct Cell(UnsafeCell<Option<Shared>>);

// A guest has one thread.
unsafe impl Sync for Cell {}

static SHARED: Cell = Cell(UnsafeCell::new(None));

/// Reads configuration and vocabulary.
pub fn init(config: &[u8]) -> Result<()> {
    let settings = Defaults::new(Settings::initial()).with(config)?;
    let ends = (0..host::vocab_size()).filter(|&id| host::is_end(id)).collect();
    let index = Index::new(true, false);
    forced(&settings)?;
    // Called once, before any sequence begins.
    unsafe { *SHARED.0.get() = Some(Shared { settings, index, ends }) };
    Ok(())
}

/// The tokens that end the thinking: the message, then the marker.
fn forced(s: &Settings) -> Result<Vec<u32>> {
    let mut ids = encode(&s.message);
    ids.extend_from_slice(&encode(s.close()));
    if ids.len() > MAX_FORCED {
        return Err(format!("message: {} tokens with the closing marker, want at most {}", ids.len(), MAX_FORCED));
    }
    Ok(ids)
}

fn encode(text: &str) -> Vec<u32> {
    if text.is_empty() {
        return Vec::new();
    }
    host::encode(text).unwrap_or_default()
}

/// One sequence.
pub struct Budget {
    shared: &'static Shared,
    open: Marker,
    close: Marker,
    /// The tokens that end the thinking.
    forced: Vec<u32>,
    budget: usize,
    min: usize,
    /// How many more tokens a partly written closing marker may take.
    grace: usize,
    inside: bool,
    /// Thinking has been closed at least once.
    closed: bool,
    used: usize,
    denied: Vec<u32>,
}

impl Budget {
    fn new(shared: &'static Shared, s: &Settings) -> Result<Budget> {
        Ok(Budget {
            open: Marker::new(&shared.index, s.open(), &encode(s.open())),
            close: Marker::new(&shared.index, s.close(), &encode(s.close())),
            forced: forced(s)?,
            budget: s.budget as usize,
            min: s.min as usize,
            grace: s.close().len(),
            inside: s.start_inside == Some(true),
            closed: false,
            used: 0,
            denied: Vec::with_capacity(shared.ends.len() + 64),
            shared,
        })
    }

    fn read_prompt(&mut self, prompt: &[u32]) {
        let tokens = matches!((&self.open, &self.close), (Marker::Token(_), Marker::Token(_)));
        let from = if tokens { 0 } else { prompt.len().saturating_sub(SEARCHED) };
        prompt[from..].iter().for_each(|&t| self.follow(t));
        self.used = 0;
        self.closed = false;
    }

    /// Processes a token of the text. It counts if the thinking is open before and after it.
    fn follow(&mut self, token: u32) {
        let mut bytes = self.shared.index.bytes(token);
        let before = self.inside;
        loop {
            let marker = if self.inside { &mut self.close } else { &mut self.open };
            let n = match marker.find(token, bytes) {
                Some(n) => n,
                None => break,
            };
            marker.clear();
            self.closed |= self.inside;
            self.inside = !self.inside;
            bytes = &bytes[n..];
            if bytes.is_empty() {
                break;
            }
        }
        self.used += (before && self.inside) as usize;
    }

    /// Whether the thinking must end here. A partly written closing marker may be completed.
    fn over(&self) -> bool {
        let late = self.used >= self.budget.saturating_add(self.grace);
        self.used >= self.budget && (late || !self.close.begun())
    }
}

impl Logits for Budget {
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self> {
        let shared = unsafe { (*SHARED.0.get()).as_ref() }.ok_or_else(|| "begin before init".to_string())?;
        let s = Defaults::new(shared.settings.clone()).with(params)?;
        let mut b = Budget::new(shared, &s)?;
        if s.start_inside.is_none() {
            b.read_prompt(prompt);
        }
        Ok(b)
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        s.tokens[s.tokens.len() - s.new..].iter().for_each(|&t| self.follow(t));
        self.denied.clear();
        if self.inside && self.over() {
            s.force(&self.forced);
        } else if self.inside && self.used < self.min {
            self.close.completing(&self.shared.index, &mut self.denied);
            self.denied.extend_from_slice(&self.shared.ends);
        } else if !self.inside && self.closed && self.used >= self.budget {
            self.open.completing(&self.shared.index, &mut self.denied);
        }
        if !self.denied.is_empty() {
            s.deny(&self.denied);
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"thinking-budget","version":"1.0.2","config":true,"kinds":["logits"],"modes":["deny","force"],"#,
        r#""doc":"Bounds how many tokens a model thinks, and closes the thinking where it would go on.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""budget":{"description":"tokens of thinking after which it is closed","type":"integer","minimum":0,"maximum":1000000,"default":1024},"#,
        r#""min":{"description":"tokens of thinking before which it may not be closed","type":"integer","minimum":0,"maximum":1000000,"default":0},"#,
        r#""open":{"description":"text that opens the thinking","type":"string","minLength":1,"maxLength":64,"default":"<think>"},"#,
        r#""close":{"description":"text that closes the thinking","type":"string","minLength":1,"maxLength":64,"default":"</think>"},"#,
        r#""message":{"description":"text put in front of the closing marker when the budget is used up","type":"string","maxLength":2000,"default":""},"#,
        r#""start_inside":{"description":"whether the generated text begins inside thinking","enum":[true,false,"auto"],"default":"auto"}}}}"#
    ),
    init: init,
    logits: Budget,
}

#[cfg(test)]
mod tests;
