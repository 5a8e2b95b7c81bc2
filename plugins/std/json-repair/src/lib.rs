//! json-repair: lets the model write JSON freely and takes back only what the schema does not allow. A mask from the
//! first token on costs a mask at every step and steers a model that would have been right anyway; here the mask is there
//! for the few tokens behind a mistake, and for the end.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::string::String;
use settings::{Defaults, Settings};
use tgi_plugin::json::{Reader, Value};
use tgi_plugin::program::{failure, grammar_prefix, Context, Failure, Grammar, Reason, Request, Settings as Run};
use tgi_plugin::{plugin, Program, Result};

#[derive(Clone)]
struct Params {
    schema: String,
    tries: usize,
    held: usize,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params { schema: String::new(), tries: 4, held: 8 });

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "schema" => self.schema = String::from(r.raw()),
            "tries" => self.tries = settings::whole(r, key, 0, 64) as usize,
            "held" => self.held = settings::whole(r, key, 1, 1024) as usize,
            _ => return false,
        }
        true
    }
}

impl Params {
    /// What the reply is held to: what the client says, and what the configuration says where the client is silent.
    fn grammar(&self, r: &Request) -> Result<Grammar> {
        if r.has_grammar() {
            return match r.params.get("schema").is_null() {
                true => Ok(Grammar::default()),
                false => Err(String::from(
                    "`schema` and what the request itself holds its reply to (`response_format`, `grammar`, a `tool_choice` \
                     that demands a call) exclude each other",
                )),
            };
        }
        Ok(self.own())
    }

    fn own(&self) -> Grammar {
        if self.schema.is_empty() {
            return Grammar { language: String::from("json_object"), source: String::new() };
        }
        Grammar { language: String::from("json_schema"), source: self.schema.clone() }
    }
}

/// The tokens of the first piece that is written freely.
const FIRST: usize = 4;

/// Writes freely, and returns how much of the text behind `start` the grammar allows, and its length, in bytes. It looks
/// after pieces that double, so that little is written behind a mistake, and a right text is looked at a few times only.
fn write(c: &Context, g: &Grammar, start: usize, left: impl Fn() -> usize) -> Result<(usize, usize)> {
    let mut piece = FIRST;
    loop {
        let span = c.generate(&Run::new().free().max_tokens(piece.min(left())))?;
        let bytes = c.bytes(start);
        let (text, goes_on) = match core::str::from_utf8(&bytes) {
            Ok(text) => (text, true),
            // A character may be complete behind the next piece. What is none is no JSON.
            Err(e) => (core::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or(""), e.error_len().is_none()),
        };
        let good = grammar_prefix(g, text)?;
        if good < text.len() || !goes_on || span.reason != Reason::Length || left() == 0 {
            return Ok((good, bytes.len()));
        }
        piece *= 2;
    }
}

/// The plugin.
pub struct Repair;

impl Program for Repair {
    fn open(config: &Value) -> Result<Self> {
        DEFAULTS.configure(config.json().as_bytes())?;
        Ok(Repair)
    }

    fn validate(&self, params: &Value) -> Result<()> {
        DEFAULTS.with(params.json().as_bytes()).map(|_| ())
    }

    fn run(&mut self, r: &Request) -> Result<()> {
        let p = DEFAULTS.with(r.params.json().as_bytes())?;
        let (c, g, start) = (r.context, p.grammar(r)?, r.context.len());
        if !r.has_grammar() {
            grammar_prefix(&g, "")?; // a wrong schema refuses the request before the model computes anything
        }
        let left = || (r.max_new_tokens as usize).saturating_sub(c.len() - start);
        for _ in 0..p.tries {
            if left() == 0 {
                break;
            }
            let (good, all) = match write(&c, &g, start, left) {
                Err(_) if r.has_grammar() && failure() == Some(Failure::Grammar) => {
                    c.rewind(start)?; // one that says token by token what may come, and nothing of a text
                    break;
                }
                written => written?,
            };
            if good == all {
                break; // a beginning of what the schema allows, or all of it
            }
            c.rewind_bytes(start, good)?; // to a border of tokens
            if left() == 0 {
                break;
            }
            c.generate(&Run::new().grammar_from(&g, start).max_tokens(p.held.min(left())))?;
        }
        if left() > 0 {
            c.generate(&Run::new().grammar_from(&g, start).max_tokens(left()))?; // only its end, if it is whole
        }
        match c.emit_to_end(start) {
            Err(why) if failure() == Some(Failure::Refused) => goon::go_on_behind(r, c, start, Some(g), why),
            sent => sent,
        }
    }
}

plugin! {
    description: concat!(
        r#"{"name":"json-repair","version":"1.4.1","config":true,"kinds":["program"],"contexts":1,"#,
        r#""doc":"Lets the model write JSON freely, and takes back and writes anew what the schema does not allow.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""schema":{"type":"object","description":"JSON Schema of the reply; without it what the request says, or any object"},"#,
        r#""tries":{"type":"integer","minimum":0,"maximum":64,"default":4,"description":"how often it writes freely"},"#,
        r#""held":{"type":"integer","minimum":1,"maximum":1024,"default":8,"description":"tokens that are held to the schema behind a mistake"}}}}"#
    ),
    program: Repair,
}

#[cfg(test)]
mod tests;
