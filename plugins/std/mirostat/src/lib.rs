//! mirostat: a sampler that keeps the surprise of the text at a target, by
//! Mirostat 2.0 (Basu, Ramachandran, Keskar, Varshney: Mirostat: a neural text
//! decoding algorithm that directly controls perplexity, ICLR 2021), as
//! llama.cpp does it. Surprise is the negative logarithm of a token's
//! probability to the base 2.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use core::f64::consts::LOG2_E;
use settings::{Defaults, Settings};
use tgi_plugin::{host, json::Reader, math, plugin, Candidate, Result, Sampler};

#[derive(Clone)]
struct Params {
    tau: f64,
    eta: f64,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params { tau: 5.0, eta: 0.1 });

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "tau" => self.tau = settings::number(r, key, 0.0, 20.0),
            "eta" => self.eta = settings::number(r, key, 0.0, 1.0),
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
pub struct Mirostat {
    params: Params,
    /// The maximum surprise of a token; the feedback adjusts it.
    mu: f64,
}

impl Sampler for Mirostat {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let params = DEFAULTS.with(params)?;
        let mu = 2.0 * params.tau;
        Ok(Mirostat { params, mu })
    }

    fn sample(&mut self, candidates: &[Candidate]) -> Result<usize> {
        let kept = &candidates[..self.cut(candidates)];
        let sum: f64 = kept.iter().map(|c| weight(kept, c)).sum();
        let mut left = host::rand_float() * sum;
        let mut chosen = kept.len() - 1; // in case rounding leaves a remainder after the last
        for (i, c) in kept.iter().enumerate() {
            left -= weight(kept, c);
            if left < 0.0 {
                chosen = i;
                break;
            }
        }
        self.learn(weight(kept, &kept[chosen]) / sum);
        Ok(chosen)
    }
}

/// The probability of c, relative to that of the first.
fn weight(kept: &[Candidate], c: &Candidate) -> f64 {
    math::exp(c.logit as f64 - kept[0].logit as f64)
}

impl Mirostat {
    /// How many candidates are below the bound; one is always kept.
    fn cut(&self, candidates: &[Candidate]) -> usize {
        candidates.iter().take_while(|c| -c.logprob as f64 * LOG2_E <= self.mu).count().max(1)
    }

    /// Moves the bound after a token that had probability p among those kept.
    fn learn(&mut self, p: f64) {
        let surprise = -math::ln(p) * LOG2_E;
        self.mu -= self.params.eta * (surprise - self.params.tau);
    }
}

plugin! {
    description: concat!(
        r#"{"name":"mirostat","version":"1.0.0","config":true,"kinds":["sampler"],"candidates":1024,"#,
        r#""doc":"Keeps the surprise of the text at a target (Mirostat 2.0).","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""tau":{"type":"number","minimum":0,"maximum":20,"default":5,"description":"the surprise to keep to, in bits per token"},"#,
        r#""eta":{"type":"number","minimum":0,"maximum":1,"default":0.1,"description":"how fast it is approached"}}}}"#
    ),
    init: init,
    sampler: Mirostat,
}

#[cfg(test)]
mod tests;
