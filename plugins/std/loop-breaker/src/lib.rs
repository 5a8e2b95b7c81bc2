//! loop-breaker: takes back a text that goes round in circles, to where the first round is over, and forbids
//! the next one to begin as before. README.md has parameters, algorithm and limits.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::vec::Vec;

use settings::{boolean, whole, Defaults};
use tgi_plugin::{guard::Held, json::Reader, plugin, Guard, Result};

/// The longest round that is noticed, in tokens.
const PERIOD: usize = 100;
/// How many tokens have to be as before until more are held.
const FEW: usize = 4;
/// The most tokens that are held: a little below what the description says.
const HOLD: usize = 250;

#[derive(Clone)]
struct Settings {
    /// Requests may set nothing; `None` until the configuration was read.
    locked: Option<bool>,
    locking: bool,
    /// How often a round may be there, the first included.
    rounds: usize,
    /// How many tokens the rounds behind the first have at least.
    tokens: usize,
    /// The longest round.
    period: usize,
}

static DEFAULTS: Defaults<Settings> = Defaults::new(Settings { locked: None, locking: false, rounds: 3, tokens: 24, period: PERIOD });

impl settings::Settings for Settings {
    fn member(&mut self, r: &mut Reader, name: &str) -> bool {
        if self.locked == Some(true) {
            r.fail("the operator has fixed the parameters");
            return true;
        }
        match name {
            "locked" if self.locked.is_none() => self.locking = boolean(r, name),
            "rounds" => self.rounds = whole(r, name, 2, 64) as usize,
            "tokens" => self.tokens = whole(r, name, 2, 200) as usize,
            "period" => self.period = whole(r, name, 1, PERIOD as u32) as usize,
            _ => return false,
        }
        true
    }

    fn check(&mut self) -> Result<()> {
        self.locked = Some(self.locked.unwrap_or(self.locking));
        Ok(())
    }
}

/// Reads the configuration.
pub fn init(config: &[u8]) -> Result<()> {
    DEFAULTS.configure(config)
}

/// One sequence.
pub struct Breaker {
    s: Settings,
    /// For each period, how many tokens at the end equal the one a period before.
    same: Vec<usize>,
    seen: usize,
}

impl Breaker {
    /// Takes the last token into account.
    fn step(&mut self, text: &[u32]) {
        let n = text.len();
        for (i, same) in self.same.iter_mut().enumerate() {
            let period = i + 1;
            *same = if n > period && text[n - 1] == text[n - 1 - period] { *same + 1 } else { 0 };
        }
    }

    /// Reads a text that is not the last one and a token more.
    fn read(&mut self, text: &[u32]) {
        let n = text.len();
        for (i, same) in self.same.iter_mut().enumerate() {
            let before = &text[..n.saturating_sub(i + 1)];
            let alike = text.iter().rev().zip(before.iter().rev()).take(HOLD + PERIOD).take_while(|(a, b)| a == b);
            *same = alike.count();
        }
    }

    /// The tokens behind the first round of a loop, and whether they are too many. A few tokens that were there
    /// before may be the beginning of one; by then so many of them went out.
    fn look(&self) -> (usize, bool) {
        let mut most = 0;
        for (i, &same) in self.same.iter().enumerate() {
            let period = i + 1;
            if same >= self.s.tokens.max((self.s.rounds - 1) * period) {
                return (same, true);
            }
            if same >= period.min(FEW) {
                most = most.max(same);
            }
        }
        (most, false)
    }
}

impl Guard for Breaker {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let s = DEFAULTS.with(params)?;
        let same = [0usize; PERIOD][..s.period].to_vec();
        Ok(Breaker { s, same, seen: 0 })
    }

    fn check(&mut self, held: &mut Held) -> Result<()> {
        let text = &held.tokens[held.prompt..];
        if held.new == 1 && text.len() == self.seen + 1 {
            self.step(text);
        } else {
            self.read(text);
        }
        self.seen = text.len();
        let n = held.tokens.len();
        match self.look() {
            (same, true) => held.rewind((n - same).max(held.released).min(n - 1), &[]),
            (same, false) if !held.ends_here() => held.release((n - same.min(HOLD)).max(held.released)),
            _ => {}
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"loop-breaker","version":"1.0.1","config":true,"kinds":["guard"],"#,
        r#""guard":{"hold":256,"verdicts":["rewind"]},"#,
        r#""doc":"Notices a text that goes round in circles and takes it back to where it began to.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""rounds":{"description":"how often the same tokens have to follow each other","type":"integer","minimum":2,"maximum":64,"default":3},"#,
        r#""tokens":{"description":"how many tokens the rounds behind the first have at least","type":"integer","minimum":2,"maximum":200,"default":24},"#,
        r#""period":{"description":"the longest round, in tokens","type":"integer","minimum":1,"maximum":100,"default":100}}}}"#
    ),
    init: init,
    guard: Breaker,
}

#[cfg(test)]
mod tests;
