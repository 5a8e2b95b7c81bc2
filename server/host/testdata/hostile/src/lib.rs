//! Does what its parameter says, over and over, whatever the server answers.
#![cfg_attr(target_arch = "wasm32", no_std)]
extern crate alloc;

use alloc::{format, string::String, vec::Vec};
use tgi_plugin::json::Value;
use tgi_plugin::program::{
    emit_text, failure, generate, grammar_prefix, race, render, wait, Failure, Grammar, Request, Settings,
};
use tgi_plugin::{plugin, Program, Result};

struct Hostile;

impl Program for Hostile {
    fn open(_: &Value) -> Result<Self> {
        Ok(Hostile)
    }

    fn validate(&self, _: &Value) -> Result<()> {
        Ok(())
    }

    fn run(&mut self, r: &Request) -> Result<()> {
        let c = r.context;
        let what = String::from(r.params.get("do").text().unwrap_or(""));
        let deaf = r.params.get("deaf").text().is_some(); // to refusals
        let mut refused = 0;
        let mut kept = Vec::new();
        for round in 0u64.. {
            let result = match what.as_str() {
                "plain" => {
                    c.generate(&Settings::new())?;
                    return c.emit_span();
                }
                "stream" => {
                    c.generate(&Settings::new().emit())?;
                    return Ok(());
                }
                "split" => {
                    // in runs of one token, with a fork and a rewind between them
                    for _ in 0..r.max_new_tokens {
                        let from = c.len();
                        let s = c.generate(&Settings::new().max_tokens(1))?;
                        let f = c.fork()?;
                        f.append(" and more")?;
                        f.generate(&Settings::new().max_tokens(3))?;
                        f.rewind(from)?;
                        f.generate(&Settings::new().max_tokens(1))?;
                        if f.tokens(from) != c.tokens(from) {
                            return Err(format!("{:?} and {:?}", f.tokens(from), c.tokens(from)));
                        }
                        f.close();
                        c.emit_span()?;
                        if s.reason != tgi_plugin::program::Reason::Length {
                            break;
                        }
                    }
                    return Ok(());
                }
                "score" => {
                    // the same number by score, by top and by row
                    let top = c.top(5)?;
                    let row = c.row()?;
                    let best = row.iter().enumerate().fold((0, f32::NEG_INFINITY), |b, (i, &v)| if v > b.1 { (i, v) } else { b });
                    let one = c.score_tokens(&[top[0].id])?[0];
                    let two = c.score_tokens(&[top[0].id, top[1].id])?;
                    if best.0 as u32 != top[0].id || (one - top[0].logprob).abs() > 1e-4 || (two[0] - one).abs() > 1e-4 {
                        return Err(format!("{:?}, best {:?}, one {}, two {:?}", top, best, one, two));
                    }
                    if c.entropy()? < 0.0 || c.len() as u32 == 0 {
                        return Err(String::from("entropy"));
                    }
                    return emit_text("even");
                }
                "mix" => {
                    // classifier-free guidance by hand: the second context is the prompt's last token, as without a
                    // second prompt; of logits, since what makes them log-probabilities moves all alike
                    let scale = r.params.get("scale").number().unwrap_or(1.0) as f32;
                    let (n, u) = (c.len(), c.fork()?);
                    u.rewind(0)?;
                    u.push(&c.tokens(n - 1))?;
                    for _ in 0..r.max_new_tokens {
                        c.ask("")?;
                        u.ask("")?;
                        wait(&[c, u])?;
                        let (a, b) = (c.row()?, u.row()?);
                        let mixed = |i: usize| b[i] + scale * (a[i] - b[i]);
                        let best = (1..a.len()).fold(0, |m, i| if mixed(i) > mixed(m) { i } else { m });
                        c.push(&[best as u32])?;
                        u.push(&[best as u32])?;
                    }
                    return c.emit_from(n);
                }
                "texts" => {
                    // the first of some texts that is not refused
                    for text in ["the secret word", "nothing to see, "] {
                        match emit_text(text) {
                            Err(_) if failure() == Some(Failure::Refused) => (),
                            result => return result.and_then(|_| emit_text("and more")),
                        }
                    }
                    return Ok(());
                }
                "long fork" => {
                    // of a context that is too long to be a prompt
                    let n = c.len();
                    while c.len() < n + 50 {
                        c.append("more and more and more")?;
                    }
                    let f = c.fork()?;
                    f.rewind(n)?;
                    f.generate(&Settings::new().max_tokens(2))?;
                    return emit_text("forked");
                }
                "sleep" => {
                    // a run that lasts as long as the request may
                    c.generate(&Settings::new())?;
                    return emit_text("awake");
                }
                "fork" => c.fork().map(|_| ()),
                "render" => render(r#"{"messages":[{"role":"user","content":"Hi"}]}"#).map(|_| ()),
                "render and drop" => render(r#"{"messages":[{"role":"user","content":"Hi"}]}"#).map(|c| c.close()),
                "spin" => {
                    unsafe { SPUN = SPUN.wrapping_add(round) };
                    Ok(())
                }
                "rewind" => c.generate(&Settings::new().max_tokens(4)).and_then(|s| c.rewind(s.from)),
                "look" => c.entropy().and_then(|_| c.generate(&Settings::new().max_tokens(1))).map(|_| ()),
                "race" => c.start(&Settings::new().max_tokens(2)).and_then(|_| race(&[c])).map(|_| ()),
                "prefix" => prefix("regex", "[a-z]{0,1000000}"), // which no cache can hold
                "prefix known" => prefix("regex", "[a-z]*"),
                "prefix deep" => prefix("gbnf", "root ::= root root | [a-z]"),
                "wait" => wait(&[c]),
                "nothing" => wait(&[]),
                "stay" => c.rewind(c.len()),
                "top" => c.top(5).map(|_| ()),
                "row" => c.row().map(|_| ()),
                "one" => c.score_tokens(&[1]).map(|_| ()),
                "two" => c.score_tokens(&[1, 1]).map(|_| ()),
                "long error" => return Err("\u{1b}[31mno\n".repeat(400)),
                "emit" => emit_text("more and more "),
                "append" => c.append("more and more and more and more").map(|_| ()),
                "kids" => c.fork_n(8).and_then(|k| {
                    let r = generate(&k, &Settings::new());
                    k.into_iter().for_each(|x| x.close());
                    r
                }),
                "unpaid" => {
                    // runs whose ends nobody asks for, beside one that takes as long
                    let n = c.len();
                    if kept.is_empty() {
                        kept = c.fork_n(8)?;
                    }
                    kept.iter().try_for_each(|k| k.start(&Settings::new().max_tokens(8)))?;
                    c.generate(&Settings::new().max_tokens(12))?;
                    c.rewind(n)?;
                    kept.iter().try_for_each(|k| k.rewind(n))
                }
                "abandon" => c.fork().and_then(|k| {
                    k.start(&Settings::new())?;
                    k.close(); // while it runs
                    Ok(())
                }),
                "memory" => {
                    let v: Vec<u8> = Vec::with_capacity(1 << 20);
                    core::mem::forget(v);
                    Ok(())
                }
                "error" => return Err(String::from("no, thank you")),
                "trap" => panic!("trapped"),
                "grammar" => c.start(&Settings::new().stop(&[""])),
                other => return Err(format!("do {}", other)),
            };
            if result.is_err() && !deaf {
                refused += 1;
                if refused > 100 && failure() != Some(Failure::Plugin) {
                    return emit_text(&format!("refused {:?}", failure().unwrap()));
                }
            }
        }
        Ok(())
    }
}

/// Has a grammar read almost a megabyte.
fn prefix(language: &str, source: &str) -> Result<()> {
    let g = Grammar { language: String::from(language), source: String::from(source) };
    grammar_prefix(&g, &"abcdefgh".repeat(120_000)).map(|_| ())
}

static mut SPUN: u64 = 0;

plugin! {
    description: r#"{"name":"hostile","version":"1.0.0","kinds":["program"],"contexts":4}"#,
    program: Hostile,
}
