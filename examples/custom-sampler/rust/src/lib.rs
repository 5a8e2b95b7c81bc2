//! top-n-sigma: a sampler. It keeps the candidates whose logit lies within "n"
//! (default 1) standard deviations of the greatest, and draws one of them by
//! its probability (Tang et al. 2024, arXiv:2411.07641).
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::format;
use tgi_plugin::{host, json::Reader, math, plugin, Candidate, Result, Sampler};

/// The sampler of one sequence.
pub struct Sigma {
    n: f64,
}

impl Sampler for Sigma {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let mut n = 1.0;
        let mut r = Reader::new(params);
        r.object(|r, key| match key {
            "n" => {
                n = r.number();
                if n <= 0.0 || n > 100.0 {
                    r.fail("n: want a number above 0, at most 100");
                }
            }
            _ => r.fail(&format!("unknown parameter: {}", key)),
        });
        r.close()?;
        Ok(Sigma { n })
    }

    fn sample(&mut self, c: &[Candidate]) -> Result<usize> {
        let reach = self.n * self.n * variance(c);
        let near = c.iter().take_while(|x| square((c[0].logit - x.logit) as f64) <= reach);
        let mut left = host::rand_float() * near.clone().map(probability).sum::<f64>();
        let mut last = 0;
        for (i, x) in near.enumerate() {
            left -= probability(x);
            last = i;
            if left < 0.0 {
                break;
            }
        }
        Ok(last)
    }
}

/// The square of the logits' standard deviation.
fn variance(c: &[Candidate]) -> f64 {
    let n = c.len() as f64;
    let mean: f64 = c.iter().map(|x| x.logit as f64 / n).sum();
    c.iter().map(|x| square(x.logit as f64 - mean)).sum::<f64>() / n
}

fn probability(c: &Candidate) -> f64 {
    math::exp(c.logprob as f64)
}

fn square(x: f64) -> f64 {
    x * x
}

plugin! {
    description: concat!(
        r#"{"name":"top-n-sigma","version":"1.0.0","kinds":["sampler"],"candidates":1024,"#,
        r#""doc":"Draws among the tokens within n standard deviations of the best logit.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"n":{"type":"number","exclusiveMinimum":0,"maximum":100}}}}"#
    ),
    sampler: Sigma,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::testing;

    #[test]
    fn parameters() {
        for (params, want) in [
            (r#"{"n":0}"#, "n: want a number above 0, at most 100"),
            (r#"{"n":1e400}"#, "n: want a number above 0, at most 100"),
            (r#"{"n":"1"}"#, "want a JSON number for n"),
            (r#"{"sigma":1}"#, "unknown parameter: sigma"),
            ("{", "JSON ends too early"),
        ] {
            assert_eq!(Sigma::begin(params.as_bytes(), &[]).err().as_deref(), Some(want), "{}", params);
        }
    }

    // The logits lie one standard deviation above and below their mean, so the
    // lower two are two deviations away from the best.
    #[test]
    fn shares() {
        testing::vocabulary(&[]);
        let c = [0.4f32, 0.4, 0.1, 0.1].map(|p| Candidate { id: 0, logit: p.ln(), logprob: p.ln() });
        for (params, want) in [
            ("{}", [0.5, 0.5, 0.0, 0.0]),
            (r#"{"n":1.9}"#, [0.5, 0.5, 0.0, 0.0]),
            (r#"{"n":2.1}"#, [0.4, 0.4, 0.1, 0.1]),
        ] {
            let mut s = Sigma::begin(params.as_bytes(), &[]).unwrap();
            let mut share = [0f64; 4];
            for _ in 0..10_000 {
                share[s.sample(&c).unwrap()] += 1e-4;
            }
            for (got, want) in share.iter().zip(want) {
                assert!((got - want).abs() < 0.02 && (want > 0.0 || *got == 0.0), "{}: {:?}", params, share);
            }
        }
    }
}
