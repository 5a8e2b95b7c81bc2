//! xtc: Exclude Top Choices. With a given probability, of the tokens that are
//! at least as likely as a threshold all but the least likely one are denied.
//! Invented by p-e-w for text-generation-webui (pull request 6335).
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::vec::Vec;
use settings::{Defaults, Settings};
use tgi_plugin::{host, json::Reader, math, plugin, Entry, Logits, Result, Step};

/// What a token weighs less than this does not change, next to the most likely one.
const NOTHING: f64 = 1e-9;

#[derive(Clone)]
struct Params {
    probability: f64,
    threshold: f64,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params { probability: 0.5, threshold: 0.1 });

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "probability" => self.probability = settings::number(r, key, 0.0, 1.0),
            "threshold" => self.threshold = settings::number(r, key, 0.01, 1.0),
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
pub struct Exclude {
    params: Params,
    /// The token of a line break, if there is one.
    newline: Option<u32>,
    denied: Vec<u32>,
}

impl Logits for Exclude {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let newline = host::encode("\n").and_then(|ids| ids.last().copied());
        Ok(Exclude { params: DEFAULTS.with(params)?, newline, denied: Vec::new() })
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        // Drawn at every step, so that what a step draws depends on its position alone.
        if host::rand_float() >= self.params.probability {
            return Ok(());
        }
        let n = excluded(s.view, self.params.threshold);
        self.denied.clear();
        self.denied.extend(s.view[..n].iter().map(|e| e.id));
        // As in the original: without them a text would neither break nor end.
        if self.denied.iter().any(|&id| Some(id) == self.newline || host::is_end(id)) {
            return Ok(());
        }
        if n > 0 {
            s.deny(&self.denied);
        }
        Ok(())
    }
}

/// How many of the most likely tokens go: all that reach the threshold but one.
fn excluded(view: &[Entry], threshold: f64) -> usize {
    let weight = |e: &Entry| math::exp(e.value as f64 - view[0].value as f64);
    if view.len() < 2 || weight(&view[1]) < threshold {
        return 0; // the second is less likely still: its share is at most its weight
    }
    let sum: f64 = view.iter().map(weight).take_while(|&w| w > NOTHING).sum();
    let reach = view.iter().take_while(|e| weight(e) >= threshold * sum).count();
    reach.saturating_sub(1)
}

plugin! {
    description: concat!(
        r#"{"name":"xtc","version":"1.0.0","config":true,"kinds":["logits"],"modes":["deny"],"needs":["topk:256"],"state":"none","#,
        r#""doc":"Excludes top choices: of the tokens that are likely enough, now and then all but the least likely one.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""probability":{"type":"number","minimum":0,"maximum":1,"default":0.5,"description":"how often tokens are excluded"},"#,
        r#""threshold":{"type":"number","minimum":0.01,"maximum":1,"default":0.1,"#,
        r#""description":"probability from which on a token is a top choice; above 0.5 there is never more than one"}}}}"#
    ),
    init: init,
    logits: Exclude,
}

#[cfg(test)]
mod tests;
