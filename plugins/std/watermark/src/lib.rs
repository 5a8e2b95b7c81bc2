//! watermark: favours, among the likely tokens, the green ones by a keyed hash of the context and
//! the token itself, so that the text can be recognised with the key. README.md has parameters and
//! sources.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::UnsafeCell;

use settings::{boolean, decimal, number, whole, Defaults};
use tgi_plugin::{host, json::Reader, plugin, Entry, Logits, Result, Step};

#[cfg(not(target_arch = "wasm32"))]
pub mod detect;
mod lanes;
pub mod scheme;
mod siphash;
mod torch;

use scheme::{Agreed, Greens, Scheme};

/// Whole numbers up to here are exact in JSON.
const MOST: u64 = 9_007_199_254_740_991;

/// What configuration and parameters set.
#[derive(Clone, Debug, PartialEq)]
struct Settings {
    agreed: Agreed,
    bias: f64,
    locked: bool,
    /// The configuration has been read: what follows is a request's.
    running: bool,
}

const INITIAL: Settings = Settings {
    agreed: Agreed { scheme: Scheme::Keyed, ratio: 0.25, key: 15_485_863, width: 4 },
    bias: 2.0,
    locked: false,
    running: false,
};

fn key(r: &mut Reader, field: &str) -> u64 {
    if r.peek() != b'0' {
        r.fail(&format!("{}: want a whole number from 1 to {}", field, MOST));
        return 1;
    }
    let v = r.number();
    if !(1.0..=MOST as f64).contains(&v) || v != v as u64 as f64 {
        r.fail(&format!("{}: {} is not a whole number from 1 to {}", field, decimal(v), MOST));
    }
    v as u64
}

fn scheme(r: &mut Reader, field: &str) -> Scheme {
    let name = if r.peek() == b'"' { r.string() } else { String::new() };
    match name.as_str() {
        "keyed" => return Scheme::Keyed,
        "transformers" => {}
        _ => r.fail(&format!("{}: want \"keyed\" or \"transformers\", not \"{}\"", field, name)),
    }
    Scheme::Transformers
}

impl settings::Settings for Settings {
    fn member(&mut self, r: &mut Reader, name: &str) -> bool {
        if self.running && (self.locked || matches!(name, "hashing_key" | "locked")) {
            r.fail(&format!("{}: only the server's configuration sets this", name));
        }
        match name {
            "scheme" => self.agreed.scheme = scheme(r, name),
            "greenlist_ratio" => self.agreed.ratio = number(r, name, 0.01, 0.99),
            "bias" => self.bias = number(r, name, 0.0, 100.0),
            "hashing_key" => self.agreed.key = key(r, name),
            "context_width" => self.agreed.width = whole(r, name, 1, 32) as usize,
            "locked" => self.locked = boolean(r, name),
            _ => return false,
        }
        true
    }
}

/// What init leaves for all sequences.
struct Shared {
    settings: Settings,
    table: Vec<u32>,
}

struct Cell(UnsafeCell<Option<Shared>>);

// A guest has one thread.
unsafe impl Sync for Cell {}

static SHARED: Cell = Cell(UnsafeCell::new(None));

/// Reads the configuration and makes the table of transformers.
pub fn init(config: &[u8]) -> Result<()> {
    let settings = Defaults::new(INITIAL).with(config)?;
    let table = scheme::table(settings.agreed.key, host::vocab_size());
    // Called once, before any sequence begins.
    unsafe { *SHARED.0.get() = Some(Shared { settings: Settings { running: true, ..settings }, table }) };
    Ok(())
}

/// One sequence.
pub struct Watermark {
    greens: Greens<'static>,
    width: usize,
    bias: f32,
    candidates: Vec<u32>,
    entries: Vec<Entry>,
}

impl Logits for Watermark {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let shared = unsafe { (*SHARED.0.get()).as_ref() }.ok_or_else(|| "begin before init".to_string())?;
        let s = Defaults::new(shared.settings.clone()).with(params)?;
        Ok(Watermark {
            width: s.agreed.width,
            bias: s.bias as f32,
            greens: Greens::new(s.agreed, &shared.table, host::vocab_size()),
            candidates: Vec::with_capacity(VIEW),
            entries: Vec::with_capacity(VIEW),
        })
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        if s.tokens.len() < self.width || self.bias == 0.0 {
            return Ok(());
        }
        let before = &s.tokens[s.tokens.len() + 1 - self.width..];
        self.candidates.clear();
        self.candidates.extend(s.view.iter().filter(|e| e.value > f32::NEG_INFINITY).map(|e| e.id));
        self.entries.clear();
        let Watermark { greens, candidates, entries, bias, .. } = self;
        greens.each(before, candidates, |i| entries.push(Entry { id: candidates[i], value: *bias }));
        if !self.entries.is_empty() {
            s.bias(&self.entries);
        }
        Ok(())
    }
}

/// How many of the most likely tokens are considered, as in transformers.
const VIEW: usize = 40;

plugin! {
    description: concat!(
        r#"{"name":"watermark","version":"1.0.0","config":true,"kinds":["logits"],"modes":["sparse"],"needs":["topk:40"],"state":"none","#,
        r#""doc":"Makes text recognisable: favours tokens that a keyed hash of the context makes green.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""scheme":{"description":"keyed: found with detect.py; transformers: found with its WatermarkDetector","enum":["keyed","transformers"],"default":"keyed"},"#,
        r#""bias":{"description":"added to the logits of green tokens","type":"number","minimum":0,"maximum":100,"default":2},"#,
        r#""greenlist_ratio":{"description":"share of the vocabulary that is green","type":"number","minimum":0.01,"maximum":0.99,"default":0.25},"#,
        r#""context_width":{"description":"tokens that make a token green or not, itself included","type":"integer","minimum":1,"maximum":32,"default":4}}}}"#
    ),
    init: init,
    logits: Watermark,
}

#[cfg(test)]
mod tests;
