//! budget-then-answer: lets the model think for so many tokens, tells it that the time is up where it has not come to an
//! end, and lets it answer. All of it goes to the client as it comes.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::string::String;
use settings::{Defaults, Settings};
use tgi_plugin::json::{Reader, Value};
use tgi_plugin::program::{Reason, Request, Settings as Run};
use tgi_plugin::{plugin, Program, Result};

#[derive(Clone)]
struct Params {
    budget: usize,
    end: String,
    hint: String,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params { budget: 256, end: String::new(), hint: String::new() });

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "budget" => self.budget = settings::whole(r, key, 1, 1_000_000) as usize,
            "end" => self.end = r.string(),
            "hint" => self.hint = r.string(),
            _ => return false,
        }
        true
    }

    fn check(&mut self) -> Result<()> {
        if self.end.is_empty() {
            self.end = String::from("</think>");
        }
        if self.hint.is_empty() {
            self.hint = String::from("\nTime is up.\n");
        }
        Ok(())
    }
}

/// The plugin.
pub struct Budget;

impl Program for Budget {
    fn open(config: &Value) -> Result<Self> {
        DEFAULTS.configure(config.json().as_bytes())?;
        Ok(Budget)
    }

    fn validate(&self, params: &Value) -> Result<()> {
        DEFAULTS.with(params.json().as_bytes()).map(|_| ())
    }

    fn run(&mut self, r: &Request) -> Result<()> {
        let p = DEFAULTS.with(r.params.json().as_bytes())?;
        let c = r.context;
        let thought = c.generate(&Run::new().free().max_tokens(p.budget).stop(&[&p.end]).emit())?;
        match thought.reason {
            Reason::End => return Ok(()), // it answered without an end of its thoughts
            Reason::Stop => {}
            _ => {
                let from = c.len();
                c.append(&p.hint)?;
                c.append_special(&p.end)?; // the operator's text, or a client's about its own reply
                c.append("\n")?;
                c.emit_from(from)?;
            }
        }
        c.generate(&Run::new().emit())?;
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"budget-then-answer","version":"1.0.0","config":true,"kinds":["program"],"contexts":1,"#,
        r#""doc":"Lets the model think within a budget of tokens, and answer then.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""budget":{"type":"integer","minimum":1,"maximum":1000000,"default":256,"description":"tokens to think"},"#,
        r#""end":{"type":"string","default":"</think>","description":"what ends the thoughts"},"#,
        r#""hint":{"type":"string","description":"what the model is told where the budget is used up"}}}}"#
    ),
    program: Budget,
}

#[cfg(test)]
mod tests;
