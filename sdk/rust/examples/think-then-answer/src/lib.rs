//! think-then-answer lets the model think for "budget" tokens (default 64). Where it has not come to "end" by then,
//! it is told that the time is up. Then it answers. All of it goes out as it comes; where the request has a grammar,
//! the thoughts are free and stay here, and the answer that the grammar holds goes out. Without "end" that is
//! "</think>"; a model that has no token for it marks no thoughts, and answers as ever.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::string::String;
use tgi_plugin::json::Value;
use tgi_plugin::program::{Reason, Request, Settings};
use tgi_plugin::{host, plugin, Program, Result};

/// The plugin.
pub struct Think;

struct Params {
    budget: usize,
    end: String,
    hint: String,
}

fn read(v: &Value) -> Result<Params> {
    let mut p = Params { budget: 64, end: String::new(), hint: String::from("\nTime is up.\n") };
    for (name, value) in v.members() {
        match name.as_str() {
            "budget" => {
                let n = value.number().unwrap_or(0.0);
                if !(1.0..=100000.0).contains(&n) || n != n as u32 as f64 {
                    return Err(String::from("budget: want a whole number from 1 to 100000"));
                }
                p.budget = n as usize;
            }
            "end" | "hint" => {
                let text = String::from(value.text().unwrap_or(""));
                if text.is_empty() {
                    return Err(String::from("end, hint: want a text"));
                }
                *(if name == "end" { &mut p.end } else { &mut p.hint }) = text;
            }
            _ => return Err(String::from("unknown parameter, want budget, end or hint")),
        }
    }
    Ok(p)
}

impl Program for Think {
    fn open(_config: &Value) -> Result<Self> {
        Ok(Think)
    }

    fn validate(&self, params: &Value) -> Result<()> {
        read(params).map(|_| ())
    }

    fn run(&mut self, r: &Request) -> Result<()> {
        let (mut p, c) = (read(&r.params)?, r.context);
        if p.end.is_empty() {
            p.end = String::from("</think>");
            if !r.has_grammar() && host::encode(&p.end).map_or(true, |ids| ids.len() != 1) {
                return c.generate(&Settings::new().emit()).map(|_| ());
            }
        }
        let (shown, think) = (!r.has_grammar(), Settings::new().free().stop(&[&p.end]));
        let think = if shown { think.emit() } else { think };
        c.generate(&think.clone().max_tokens(p.budget))?;
        let called = shown && c.finish_call(&think)?; // nothing is put into a call of a tool
        let reason = c.span().reason;
        if reason == Reason::End && shown {
            return Ok(()); // it answered without an end of its thoughts
        }
        if reason != Reason::Stop && !called {
            let from = c.len();
            if reason == Reason::Length {
                c.append(&p.hint)?;
            }
            c.append_special(&p.end)?; // it may be a special token; it is a client's word about its own reply
            if shown {
                c.emit_from(from)?;
            }
        }
        c.generate(&Settings::new().emit()).map(|_| ())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"think-then-answer","version":"1.0.0","kinds":["program"],"contexts":1,"revision":2,"#,
        r#""doc":"Lets the model think within a budget of tokens, and answer then.","params":{"type":"object","#,
        r#""properties":{"budget":{"type":"integer","minimum":1,"maximum":100000},"end":{"type":"string"},"#,
        r#""hint":{"type":"string"}}}}"#
    ),
    program: Think,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::program::Calls;
    use tgi_plugin::testing::{self, program};

    /// What it emits where the model thinks something, and in how many runs.
    fn gives(params: &str, said: &'static str, want: Result<&str>, runs: usize) {
        testing::vocabulary(&["Q", " hm", "</think>", " 4", "\nTime is up.\n", "hint", "</s>"]);
        program::model(move |text| String::from(if text == "Q" { said } else { " 4" }));
        let got = program::run::<Think>(params, "Q");
        assert_eq!((got.as_deref().map_err(String::clone), program::runs().len()), (want, runs), "{}", params);
    }

    #[test]
    fn thinks_within_a_budget() {
        gives(r#"{"budget": 9}"#, " hm hm</think> more", Ok(" hm hm 4"), 2); // markup has no text
        gives(r#"{"budget": 2}"#, " hm hm hm</think>", Ok(" hm hm\nTime is up.\n 4"), 2);
        gives(r#"{"budget": 2, "hint": "hint"}"#, " hm hm hm", Ok(" hm hmhint 4"), 2);
        gives("{}", " 4", Ok(" 4"), 1); // it ends its text
        let lost = Err(String::from("the text is not in the vocabulary"));
        gives(r#"{"budget": 1, "hint": "elsewhere"}"#, " hm hm", lost, 1);
    }

    /// Where the budget ends inside a call of a tool, or of what may be one, that is finished. Behind a call nothing is
    /// put.
    #[test]
    fn finishes_calls() {
        for (said, want) in [
            (" [tool] x x x[/tool]", " [tool] x x x[/tool]"), // the model ends its text there
            (" [tool] x x[/tool] 4 4 4", " [tool] x x[/tool] 4 4 4"), // and here it goes on
            (" [ x x x", " [ x\nTime is up.\n 4"),
            (" x x x", " x\nTime is up.\n 4"),
        ] {
            testing::vocabulary(&["Q", " [", "tool]", " x", "[/tool]", " 4", "\nTime is up.\n", "</think>", "</s>"]);
            program::model(move |text| match text.contains("Time is up") {
                true => String::from(" 4"),
                false => String::from(said.strip_prefix(&text[1..]).unwrap()),
            });
            program::calls(|text| match () {
                _ if text.ends_with("[/tool]") || text.ends_with(" 4") => Calls::Made,
                _ if text.ends_with(" [") || text.contains("tool]") => Calls::Open,
                _ => Calls::None,
            });
            assert_eq!(program::run::<Think>(r#"{"budget": 1}"#, "Q").unwrap(), want);
        }
    }

    /// A model without a token for the usual end of thoughts answers, unless the end is named.
    #[test]
    fn no_marker() {
        for (params, want) in [("", " 4 4"), (r#","end":"</think>""#, " 4 up</think> 4 4")] {
            testing::vocabulary(&["Q", " 4", " up", "</", "think>", "</s>"]);
            program::model(|_| String::from(" 4 4"));
            let params = alloc::format!(r#"{{"budget":1,"hint":" up"{}}}"#, params);
            assert_eq!(program::run::<Think>(&params, "Q").unwrap(), want);
        }
    }

    #[test]
    fn held_to_the_requests_grammar() {
        for (budget, said, before) in [(9, " hm</think> more", "Q hm"), (1, " hm hm", "Q hm\nTime is up.\n"), (9, " hm", "Q hm")] {
            testing::vocabulary(&["Q", " hm", "</think>", " 4", "\nTime is up.\n", " more", "</s>"]);
            program::model(move |text| String::from(if text == before { " 4" } else { said }));
            program::grammar(" 4");
            let params = alloc::format!(r#"{{"budget":{}}}"#, budget);
            assert_eq!(program::run::<Think>(&params, "Q").unwrap(), " 4"); // the thoughts stay here
            let runs = program::runs();
            assert!(runs.len() == 2 && runs[0].contains("\"grammar\":null") && !runs[0].contains("emit"), "{:?}", runs);
            assert_eq!(runs[1], r#"{"emit":true}"#);
        }
    }

    #[test]
    fn parameters() {
        for bad in [r#"{"budget": 0}"#, r#"{"budget": 1.5}"#, r#"{"end": ""}"#, r#"{"hint": 7}"#, r#"{"x": 1}"#] {
            assert!(read(&Value::parse(bad.as_bytes()).unwrap()).is_err(), "{}", bad);
        }
        assert!(read(&Value::parse(br#"{"budget": 3, "end": "</t>"}"#).unwrap()).is_ok());
    }
}
