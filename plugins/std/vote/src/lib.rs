//! vote: writes several answers at the same time and sends one that says what most of them say (self-consistency,
//! Wang et al. 2022). What an answer says is its text behind the last marker, or all of it.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{string::String, vec::Vec};
use settings::{Defaults, Settings};
use tgi_plugin::json::{Reader, Value};
use tgi_plugin::program::{failure, generate, Failure, Request, Settings as Run};
use tgi_plugin::{plugin, Program, Result};

#[derive(Clone)]
struct Params {
    n: usize,
    temperature: f64,
    marker: String,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params { n: 5, temperature: 0.8, marker: String::new() });

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "n" => self.n = settings::whole(r, key, 1, 32) as usize,
            "temperature" => self.temperature = settings::number(r, key, 0.01, 10.0),
            "marker" => self.marker = r.string(),
            _ => return false,
        }
        true
    }
}

/// What an answer says.
fn said<'a>(text: &'a str, marker: &str) -> &'a str {
    let end = if marker.is_empty() { text } else { text.rsplit(marker).next().unwrap_or(text) };
    end.trim().trim_end_matches(['.', '!'])
}

/// The places of the votes: those that more others equal come first, and of equals the first.
fn ranking(votes: &[&str]) -> Vec<usize> {
    let count = |i: usize| votes.iter().filter(|v| v.eq_ignore_ascii_case(votes[i])).count();
    let mut places: Vec<usize> = (0..votes.len()).collect();
    places.sort_by_key(|&i| core::cmp::Reverse(count(i)));
    places
}

/// The plugin.
pub struct Vote;

impl Program for Vote {
    fn open(config: &Value) -> Result<Self> {
        DEFAULTS.configure(config.json().as_bytes())?;
        Ok(Vote)
    }

    fn validate(&self, params: &Value) -> Result<()> {
        DEFAULTS.with(params.json().as_bytes()).map(|_| ())
    }

    fn run(&mut self, r: &Request) -> Result<()> {
        let p = DEFAULTS.with(r.params.json().as_bytes())?;
        let kids = r.context.fork_n(p.n)?;
        let mut run = Run::new();
        if r.settings.get("temperature").number().unwrap_or(0.0) == 0.0 && p.n > 1 {
            run = run.temperature(p.temperature as f32); // or all would be the same
        }
        generate(&kids, &run)?;
        let texts: Vec<String> = kids.iter().map(|k| k.span_text()).collect();
        let votes: Vec<&str> = texts.iter().map(|t| said(t, &p.marker)).collect();
        let places = ranking(&votes);
        for &i in &places {
            let sent = kids[i].emit_to_end(kids[i].span().from);
            if sent.is_ok() || failure() != Some(Failure::Refused) {
                return sent; // what a guard refuses has no say
            }
        }
        goon::go_on(r, kids[places[0]])
    }
}

plugin! {
    description: concat!(
        r#"{"name":"vote","version":"1.3.0","config":true,"kinds":["program"],"contexts":8,"#,
        r#""doc":"Writes several answers and sends one that says what most of them say.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""n":{"type":"integer","minimum":1,"maximum":32,"default":5,"description":"answers that vote"},"#,
        r#""temperature":{"type":"number","minimum":0.01,"maximum":10,"default":0.8,"#,
        r#""description":"of the answers, where the request takes the most likely tokens"},"#,
        r#""marker":{"type":"string","description":"the vote is the text behind the last of these; without it all of the text"}}}}"#
    ),
    program: Vote,
}

#[cfg(test)]
mod tests;
