//! best-of-judge: writes several answers at the same time, asks the model of each whether it is right, and sends the one
//! of which it is surest. Every answer shares what is computed of the prompt, and no answer leaves the server but the
//! best.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, string::String, vec::Vec};
use core::cmp::Ordering;
use settings::{Defaults, Settings};
use tgi_plugin::json::{Reader, Value};
use tgi_plugin::program::{failure, generate, render, wait, Context, Failure, Request, Settings as Run};
use tgi_plugin::{plugin, Program, Result};

/// How many contexts run at once, as the description says.
const CONTEXTS: usize = 8;

#[derive(Clone)]
struct Params {
    n: usize,
    temperature: f64,
    question: String,
    yes: String,
    no: String,
}

static DEFAULTS: Defaults<Params> = Defaults::new(Params {
    n: 4,
    temperature: 0.8,
    question: String::new(),
    yes: String::new(),
    no: String::new(),
});

impl Settings for Params {
    fn member(&mut self, r: &mut Reader, key: &str) -> bool {
        match key {
            "n" => self.n = settings::whole(r, key, 1, 32) as usize,
            "temperature" => self.temperature = settings::number(r, key, 0.01, 10.0),
            "question" => self.question = r.string(),
            "yes" => self.yes = r.string(),
            "no" => self.no = r.string(),
            _ => return false,
        }
        true
    }
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() {
        otherwise
    } else {
        text
    }
}

/// The plugin.
pub struct Judge;

impl Program for Judge {
    fn open(config: &Value) -> Result<Self> {
        DEFAULTS.configure(config.json().as_bytes())?;
        DEFAULTS.with(b"{}")?.distinct()?;
        Ok(Judge)
    }

    fn validate(&self, params: &Value) -> Result<()> {
        DEFAULTS.with(params.json().as_bytes())?.distinct()
    }

    fn run(&mut self, r: &Request) -> Result<()> {
        let p = DEFAULTS.with(r.params.json().as_bytes())?;
        p.check(r)?;
        let kids = r.context.fork_n(p.n)?;
        let mut run = Run::new();
        if r.settings.get("temperature").number().unwrap_or(0.0) == 0.0 && p.n > 1 {
            run = run.temperature(p.temperature as f32); // or all would be the same
        }
        generate(&kids, &run)?;
        let mut sure: Vec<(Context, f64)> = Vec::new();
        for some in kids.chunks(CONTEXTS) {
            match p.judge(some, &r.messages) {
                Err(_) if failure() == Some(Failure::Purse) && !sure.is_empty() => break, // the others have no say
                judged => sure.extend(judged?),
            }
        }
        sure.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal)); // equals stay in their order
        for (k, _) in &sure {
            let sent = k.emit_to_end(k.span().from);
            if sent.is_ok() || failure() != Some(Failure::Refused) {
                return sent; // what a guard refuses is not the best
            }
        }
        goon::go_on(r, sure[0].0)
    }
}

impl Params {
    /// How much likelier "yes" is than "no" behind the question whether an answer is right, for several answers: the
    /// model computes them together.
    fn judge(&self, kids: &[Context], messages: &Value) -> Result<Vec<(Context, f64)>> {
        let (yes, no) = self.replies();
        let mut asked = Vec::new();
        for k in kids {
            asked.push(self.about(k, messages)?);
        }
        for reply in [yes, no] {
            for j in &asked {
                j.ask(reply)?; // nothing is left to compute where the first one told
            }
            wait(&asked)?;
        }
        let mut sure = Vec::new();
        for (&k, j) in kids.iter().zip(asked) {
            sure.push((k, j.score(yes)? - j.score(no)?));
            j.close();
        }
        Ok(sure)
    }

    fn question(&self) -> &str {
        or(&self.question, "Is this answer right? Reply with yes or no.")
    }

    fn replies(&self) -> (&str, &str) {
        (or(&self.yes, "yes"), or(&self.no, "no"))
    }

    /// Refuses replies that are the same: no answer would be surer than another.
    fn distinct(&self) -> Result<()> {
        match self.replies() {
            (yes, no) if yes == no => Err(format!("`yes` and `no` are both {:?}: they must differ", yes)),
            _ => Ok(()),
        }
    }

    /// Refuses a question that has no room behind the request and the beginning of an answer, or that costs more than all
    /// answers may: before the model computes anything, since a refusal later would be the program's failure.
    fn check(&self, r: &Request) -> Result<()> {
        let (c, start) = (r.context, r.context.len());
        let cost = if r.messages.items().is_empty() {
            let cost = c.append(&behind(self.question())).map_err(|why| no_room("question", &why));
            let cost = cost.and_then(|_| self.fits(&c)).map(|replies| c.len() - start + replies);
            c.rewind(start)?;
            cost?
        } else {
            let j = render(&conversation(&r.messages, ".", self.question())).map_err(|why| no_room("question", &why))?;
            let replies = self.fits(&j);
            let asked = j.len().saturating_sub(start);
            j.close();
            asked + replies?
        };
        if self.n * cost > r.purse as usize {
            return Err(format!(
                "`question` takes {} tokens with its replies, for each of `n` {} answers: {} in all, and the program may have {} \
                 computed",
                cost,
                self.n,
                self.n * cost,
                r.purse
            ));
        }
        Ok(())
    }

    /// Fails where a context has no room for the replies, and leaves it as it was. It returns their tokens.
    fn fits(&self, c: &Context) -> Result<usize> {
        let (n, (yes, no), mut all) = (c.len(), self.replies(), 0);
        for (name, reply) in [("yes", yes), ("no", no)] {
            let fits = c.append(reply).and_then(|k| c.push(&[0]).map(|_| k)); // what is scored has one more behind it
            c.rewind(n)?;
            all += fits.map_err(|why| no_room(name, &why))?;
        }
        Ok(all)
    }

    /// The context that asks about an answer. Of one that leaves no room for the question it reads the beginning.
    fn about(&self, k: &Context, messages: &Value) -> Result<Context> {
        let (span, text) = (k.span(), k.span_text());
        let mut part = 1; // of the answer
        loop {
            let asked = if messages.items().is_empty() {
                let j = k.fork()?;
                j.rewind(span.from + span.count / part)
                    .and_then(|_| j.append(&behind(self.question())))
                    .map(|_| j)
                    .inspect_err(|_| j.close())
            } else {
                let mut end = text.len() / part;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                render(&conversation(messages, &text[..end], self.question()))
            };
            let fitting = asked.and_then(|j| self.fits(&j).map(|_| j).inspect_err(|_| j.close()));
            if fitting.is_ok() || failure() != Some(Failure::Room) || part > span.count {
                return fitting;
            }
            part *= 2;
        }
    }
}

/// The error of a parameter that makes what the model would read too long; another stays as it is.
fn no_room(parameter: &str, why: &str) -> String {
    match failure() {
        Some(Failure::Room) => format!("`{}` is too long: {}", parameter, why),
        _ => String::from(why),
    }
}

/// The question behind a text that is no conversation.
fn behind(question: &str) -> String {
    format!("\n\n{}\n", question)
}

/// The conversation with an answer and the question about it.
fn conversation(messages: &Value, answer: &str, question: &str) -> String {
    let mut list: Vec<String> = messages.items().iter().map(|m| m.json()).collect();
    for (role, text) in [("assistant", answer), ("user", question)] {
        list.push(format!(r#"{{"role":"{}","content":{}}}"#, role, Value::Text(String::from(text)).json()));
    }
    format!(r#"{{"messages":[{}],"add_generation_prompt":true,"continue_final_message":false}}"#, list.join(","))
}

plugin! {
    description: concat!(
        r#"{"name":"best-of-judge","version":"1.3.0","config":true,"kinds":["program"],"contexts":8,"#,
        r#""doc":"Writes several answers and sends the one that the model itself judges to be right most surely.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""n":{"type":"integer","minimum":1,"maximum":32,"default":4,"description":"answers that compete"},"#,
        r#""temperature":{"type":"number","minimum":0.01,"maximum":10,"default":0.8,"#,
        r#""description":"of the answers, where the request takes the most likely tokens"},"#,
        r#""question":{"type":"string","description":"asked about each answer"},"#,
        r#""yes":{"type":"string","default":"yes","description":"the reply that speaks for it"},"#,
        r#""no":{"type":"string","default":"no","description":"the reply that speaks against it"}}}}"#
    ),
    program: Judge,
}

#[cfg(test)]
mod tests;
