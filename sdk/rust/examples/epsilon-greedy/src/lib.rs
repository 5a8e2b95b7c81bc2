//! epsilon-greedy: a sampler. It takes the most likely token, and with
//! probability "epsilon" (default 0.1) any of those whose log-probability lies
//! within "margin" (default 2) of it, all alike.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, string::ToString};
use tgi_plugin::{host, json::Reader, plugin, Candidate, Result, Sampler};

/// The sampler of one sequence.
pub struct Greedy {
    epsilon: f64,
    margin: f64,
}

impl Sampler for Greedy {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let mut g = Greedy { epsilon: 0.1, margin: 2.0 };
        let mut r = Reader::new(params);
        r.object(|r, key| match key {
            "epsilon" => g.epsilon = r.number(),
            "margin" => g.margin = r.number(),
            _ => r.fail(&format!("unknown parameter: {}", key)),
        });
        r.close()?;
        if !(0.0..=1.0).contains(&g.epsilon) {
            return Err("epsilon: want a number from 0 to 1".to_string());
        }
        if g.margin < 0.0 {
            return Err("margin: want a number from 0 up".to_string());
        }
        Ok(g)
    }

    fn sample(&mut self, c: &[Candidate]) -> Result<usize> {
        if host::rand_float() >= self.epsilon {
            return Ok(0);
        }
        let near = c.iter().take_while(|x| c[0].logprob as f64 - x.logprob as f64 <= self.margin).count().max(1);
        Ok(((host::rand() >> 32) * near as u64 >> 32) as usize)
    }
}

plugin! {
    description: concat!(
        r#"{"name":"epsilon-greedy","version":"1.0.0","kinds":["sampler"],"candidates":256,"#,
        r#""doc":"The most likely token, or now and then one of those near it.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""epsilon":{"type":"number","minimum":0,"maximum":1},"margin":{"type":"number","minimum":0}}}}"#
    ),
    sampler: Greedy,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::testing;

    #[test]
    fn sample() {
        testing::vocabulary(&["a", "b", "c"]);
        for bad in [r#"{"epsilon":1.5}"#, r#"{"epsilon":-1}"#, r#"{"margin":-1}"#, r#"{"eps":1}"#, "{"] {
            assert!(Greedy::begin(bad.as_bytes(), &[]).is_err(), "{}", bad);
        }
        let c = [0.5f32, 0.4, 0.1].map(|p| Candidate { id: 0, logit: p.ln(), logprob: p.ln() });
        for (params, want) in [
            (r#"{"epsilon":0}"#, [true, false, false]),
            (r#"{"epsilon":1,"margin":1}"#, [true, true, false]),
            (r#"{"epsilon":1,"margin":9}"#, [true, true, true]),
        ] {
            let mut g = Greedy::begin(params.as_bytes(), &[]).unwrap();
            let mut seen = [false; 3];
            for _ in 0..100 {
                seen[g.sample(&c).unwrap()] = true;
            }
            assert_eq!(seen, want, "{}", params);
        }
    }
}
