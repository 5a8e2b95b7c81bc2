//! no-repeat-ngram: no n tokens in a row come twice. At every position it
//! denies each token that would complete a run of n tokens that the sequence
//! has already, as NoRepeatNGramLogitsProcessor of the Python package
//! transformers does.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod index;

use alloc::vec::Vec;
use index::Index;
use settings::{Defaults, Settings};
use tgi_plugin::{json::Reader, plugin, Logits, Result, Step};

/// The maximum n. It bounds the cost of a repetitive prompt.
const LONGEST: u32 = 64;

#[derive(Clone)]
struct Params {
    n: u32,
    prompt: bool,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params { n: 3, prompt: true });

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "n" => self.n = settings::whole(r, key, 1, LONGEST),
            "prompt" => self.prompt = settings::boolean(r, key),
            _ => return false,
        }
        true
    }
}

/// Reads the configuration.
pub fn init(config: &[u8]) -> Result<()> {
    DEFAULTS.configure(config)
}

/// One sequence.
pub struct NoRepeat {
    index: Index,
    /// Where the tokens that count begin.
    base: usize,
    denied: Vec<u32>,
}

impl Logits for NoRepeat {
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self> {
        let p = DEFAULTS.with(params)?;
        let base = if p.prompt { 0 } else { prompt.len() };
        let mut index = Index::new(p.n as usize);
        index.extend(&prompt[base..], 0);
        Ok(NoRepeat { index, base, denied: Vec::new() })
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        let counted = &s.tokens[self.base..];
        self.index.extend(counted, s.new);
        self.denied.clear();
        self.index.continuations(counted, &mut self.denied);
        if !self.denied.is_empty() {
            s.deny(&self.denied);
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"no-repeat-ngram","version":"1.1.0","config":true,"state":"none","kinds":["logits"],"modes":["deny"],"needs":[],"#,
        r#""doc":"No n tokens in a row come twice.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""n":{"type":"integer","minimum":1,"maximum":64,"default":3,"description":"length of the runs that may not come twice, in tokens"},"#,
        r#""prompt":{"type":"boolean","default":true,"description":"whether runs of the prompt count"}}}}"#
    ),
    init: init,
    logits: NoRepeat,
}

#[cfg(test)]
mod tests;
