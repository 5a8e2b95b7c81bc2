//! dry: Don't Repeat Yourself. A token that would continue a repetition of the
//! sequence's end gets a penalty that grows exponentially with the length of
//! what repeats. Invented by p-e-w for text-generation-webui (pull request
//! 5677); breakers of several tokens and the bounds are those of llama.cpp.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod breakers;
mod repeats;

use alloc::{format, string::String, vec::Vec};
use breakers::Breakers;
use repeats::Repeats;
use settings::{Defaults, Settings};
use tgi_plugin::{json::Reader, math, plugin, Entry, Logits, Result, Step};

/// How long a sequence breaker may be, in bytes.
const LONGEST_BREAKER: usize = 40;
/// The largest penalty: it makes a token impossible but stays finite, so the plugin never denies
/// the last allowed token.
const HARDEST: f64 = 1e38;
/// The logarithm of the largest f32, at which llama.cpp stops the growth of the penalty.
const LOG_MAX: f64 = 88.7228391;

#[derive(Clone)]
struct Params {
    multiplier: f64,
    base: f64,
    allowed_length: u32,
    range: u32,
    /// None: those of `breakers::USUAL`.
    breakers: Option<Vec<String>>,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params {
    multiplier: 0.8,
    base: 1.75,
    allowed_length: 2,
    range: 0,
    breakers: None,
});

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "multiplier" => self.multiplier = settings::number(r, key, 0.0, 100.0),
            "base" => self.base = settings::number(r, key, 1.0, 10.0),
            "allowed_length" => self.allowed_length = settings::whole(r, key, 1, 1024),
            "range" => self.range = settings::whole(r, key, 0, 1 << 24),
            "sequence_breakers" => self.breakers = Some(strings(r, key)),
            _ => return false,
        }
        true
    }
}

fn strings(r: &mut Reader, field: &str) -> Vec<String> {
    let mut list = Vec::new();
    if r.peek() != b'[' {
        r.fail(&format!("{}: want a list of strings", field));
    }
    r.array(|r| {
        if r.peek() != b'"' {
            return r.fail(&format!("{}: want a list of strings", field));
        }
        let s = r.string();
        if !(1..=LONGEST_BREAKER).contains(&s.len()) {
            return r.fail(&format!("{}: a string of {} bytes is not from 1 to {} bytes long", field, s.len(), LONGEST_BREAKER));
        }
        list.push(s);
        if list.len() > breakers::MOST {
            r.fail(&format!("{}: more than {} strings", field, breakers::MOST));
        }
    });
    list
}

/// Reads the configuration.
pub fn init(config: &[u8]) -> Result<()> {
    DEFAULTS.configure(config)
}

/// The penalty of a repetition.
struct Penalty {
    multiplier: f64,
    base: f64,
    allowed: u32,
    /// The length from which the penalty is constant.
    longest: u32,
}

impl Penalty {
    /// multiplier * base^(length - allowed), by squaring.
    fn of(&self, length: u32) -> f64 {
        let (mut p, mut square) = (self.multiplier, self.base);
        let mut e = length.min(self.longest) - self.allowed;
        while e > 0 {
            p *= if e & 1 == 1 { square } else { 1.0 };
            square *= square;
            e >>= 1;
        }
        if p < HARDEST {
            p
        } else {
            HARDEST
        }
    }
}

/// One sequence.
pub struct Dry {
    penalty: Penalty,
    repeats: Repeats,
    entries: Vec<Entry>,
}

impl Logits for Dry {
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self> {
        let p = DEFAULTS.with(params)?;
        let growth = if p.base > 1.000001 { (LOG_MAX / math::ln(p.base)) as u32 } else { 0 };
        let longest = p.allowed_length.saturating_add(growth);
        let usual = || breakers::USUAL.iter().map(|s| String::from(*s)).collect();
        let breakers = Breakers::new(&p.breakers.unwrap_or_else(usual));
        Ok(Dry {
            penalty: Penalty { multiplier: p.multiplier, base: p.base, allowed: p.allowed_length, longest },
            repeats: Repeats::new(p.range as usize, prompt, breakers),
            entries: Vec::new(),
        })
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        if self.penalty.multiplier == 0.0 {
            return Ok(());
        }
        self.repeats.extend(s.tokens, s.new);
        self.entries.clear();
        for &(id, length) in self.repeats.continuations(s.tokens, self.penalty.allowed) {
            self.entries.push(Entry { id, value: -self.penalty.of(length) as f32 });
        }
        if !self.entries.is_empty() {
            s.bias(&self.entries);
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"dry","version":"1.1.0","config":true,"state":"none","kinds":["logits"],"modes":["sparse"],"needs":[],"#,
        r#""doc":"Penalises tokens that would continue a repetition, the more the longer it is.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""multiplier":{"type":"number","minimum":0,"maximum":100,"default":0.8,"description":"penalty of a repetition of allowed_length; 0 switches it off"},"#,
        r#""base":{"type":"number","minimum":1,"maximum":10,"default":1.75,"description":"factor for each further token of the repetition"},"#,
        r#""allowed_length":{"type":"integer","minimum":1,"maximum":1024,"default":2,"description":"shorter repetitions are free; in tokens"},"#,
        r#""range":{"type":"integer","minimum":0,"maximum":16777216,"default":0,"description":"how many tokens back to look; 0 is all"},"#,
        r#""sequence_breakers":{"type":"array","maxItems":64,"items":{"type":"string","minLength":1,"maxLength":40},"#,
        r#""default":["\n",":","\"","*"],"description":"texts that end a repetition"}}}}"#
    ),
    init: init,
    logits: Dry,
}

#[cfg(test)]
mod tests;
