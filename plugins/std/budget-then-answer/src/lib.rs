//! budget-then-answer: lets the model think for so many tokens, tells it that the time is up where it has not come to an
//! end, and lets it answer. All of it goes to the client as it comes. Where the request has a grammar, the thoughts are
//! free and stay here, and the client gets the answer alone.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::string::String;
use settings::{Defaults, Settings};
use tgi_plugin::json::{Reader, Value};
use tgi_plugin::program::{failure, Context, Failure, Grammar, Reason, Request, Settings as Run};
use tgi_plugin::{host, plugin, Program, Result};

#[derive(Clone)]
struct Params {
    budget: usize,
    end: String,
    /// None: HINT. An empty one puts nothing in.
    hint: Option<String>,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params { budget: 256, end: String::new(), hint: None });

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "budget" => self.budget = settings::whole(r, key, 1, 1_000_000) as usize,
            "end" => self.end = r.string(),
            "hint" => self.hint = Some(r.string()),
            _ => return false,
        }
        true
    }
}

/// What ends the thoughts where nobody says what does.
const END: &str = "</think>";

/// What the model is told where nobody says what it is.
const HINT: &str = "\nTime is up.\n";

/// Tokens that the purse keeps for what is written between thoughts and answer.
const BETWEEN: usize = 1024;

impl Params {
    /// What ends the thoughts; None where nobody says, and the model has no token for the usual marker.
    fn end(&self) -> Option<&str> {
        if !self.end.is_empty() {
            return Some(&self.end);
        }
        host::encode(END).filter(|ids| ids.len() == 1).map(|_| END)
    }

    /// Tells the model that the budget is used up.
    fn give_hint(&self, c: Context) -> Result<()> {
        match self.hint.as_deref().unwrap_or(HINT) {
            "" => Ok(()),
            hint => c.append(hint).map(|_| ()),
        }
    }

    /// Thinks without a word to the client, in the purse.
    fn think(&self, r: &Request, end: &str) -> Result<()> {
        let (c, start) = (r.context, r.context.len());
        let answer = start + r.max_new_tokens as usize + BETWEEN;
        let most = self.budget.min((r.purse as usize).saturating_sub(answer)).max(1);
        let thought = c.generate(&Run::new().free().max_tokens(most).stop(&[end]))?;
        if thought.reason == Reason::Length {
            if thought.count < most {
                c.rewind(start + thought.count / 2)?; // the model has no room for more: half of it is the answer's
            }
            self.give_hint(c)?;
        }
        if thought.reason != Reason::Stop {
            c.append_special(end)?; // the operator's text, or a client's about its own reply
        }
        c.append("\n").map(|_| ())
    }

    /// Thinks and answers, for the client to see.
    fn think_aloud(&self, c: Context, end: &str) -> Result<()> {
        let run = Run::new().free().stop(&[end]).emit();
        c.generate(&run.clone().max_tokens(self.budget))?;
        let called = c.finish_call(&run)?; // nothing is put into a call of a tool
        match c.span().reason {
            Reason::End => return Ok(()), // it answered without an end of its thoughts
            Reason::Stop => {}
            _ if called => {} // it goes on with its answer
            _ => {
                let from = c.len();
                self.give_hint(c)?;
                c.append_special(end)?; // the operator's text, or a client's about its own reply
                c.append("\n")?;
                c.emit_from(from)?;
            }
        }
        c.generate(&Run::new().emit()).map(|_| ())
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
        let (c, mut start) = (r.context, r.context.len());
        let end = p.end(); // a model that does not mark thoughts has none to bound
        if let (Some(end), true) = (end, r.has_grammar()) {
            if let Err(why) = p.think(r, end) {
                if failure() != Some(Failure::Room) {
                    return Err(why);
                }
                c.rewind(start)?; // the answer alone has room
            }
            start = c.len();
        }
        let sent = match end {
            Some(end) if !r.has_grammar() => p.think_aloud(c, end),
            _ => c.generate(&Run::new().emit()).map(|_| ()),
        };
        match sent.and_then(|_| c.emit_to_end(c.len())) {
            Err(why) if failure() == Some(Failure::Refused) => {
                goon::go_on_behind(r, c, start, r.has_grammar().then(Grammar::default), why)
            }
            sent => sent,
        }
    }
}

plugin! {
    description: concat!(
        r#"{"name":"budget-then-answer","version":"1.5.0","config":true,"kinds":["program"],"contexts":1,"#,
        r#""doc":"Lets the model think within a budget of tokens, and answer then.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""budget":{"type":"integer","minimum":1,"maximum":1000000,"default":256,"description":"tokens to think"},"#,
        r#""end":{"type":"string","description":"what ends the thoughts; without it </think>, if that is one token"},"#,
        r#""hint":{"type":"string","default":"\nTime is up.\n","description":"what the model is told where the budget is used up; an empty one tells it nothing"}}}}"#
    ),
    program: Budget,
}

#[cfg(test)]
mod tests;
