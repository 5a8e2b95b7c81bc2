//! call-lines: a parser of tool calls for an invented format. A line
//! `CALL name(json)` is a call, everything else is content. The setting "word"
//! is what stands in the place of CALL.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, string::String, string::ToString};
use tgi_plugin::json::{Reader, Value};
use tgi_plugin::tools::{call_id, Choice, Events, Failure, Finish, Request, Tools};
use tgi_plugin::{plugin, Result};

/// The greatest length of a call's line, in bytes.
const LONGEST: usize = 4096;

/// The parser of one sequence.
pub struct Lines {
    /// The word and a space.
    word: String,
    request: Option<Request>,
    /// The line so far, while it is a call or may become one.
    held: String,
    /// The line is content.
    text: bool,
}

impl Tools for Lines {
    fn open(config: &Value) -> Result<Self> {
        let mut word = "CALL".to_string();
        for (name, value) in config.members() {
            match name.as_str() {
                "model" => {}
                "word" => match value.text() {
                    Some(w) if (1..=16).contains(&w.len()) && w.bytes().all(|c| c.is_ascii_uppercase()) => word = w.to_string(),
                    _ => return Err("word: want 1 to 16 capital letters".to_string()),
                },
                _ => return Err(format!("unknown setting: {}", name)),
            }
        }
        Ok(Lines { word: word + " ", request: None, held: String::new(), text: false })
    }

    fn begin(&mut self, r: &Request) -> Result<()> {
        if !r.tools.is_empty() && r.choice != Choice::None {
            self.request = Some(r.clone());
        }
        Ok(())
    }

    fn feed(&mut self, piece: &str, special: bool, events: &mut Events) {
        if special {
            return;
        }
        if self.request.is_none() {
            return events.content(piece);
        }
        for part in piece.split_inclusive('\n') {
            let line = part.strip_suffix('\n');
            if !self.text {
                self.held.push_str(line.unwrap_or(part));
                self.text = !self.held.starts_with(&self.word) && !self.word.starts_with(&self.held);
                if !self.text && line.is_some() {
                    self.line("\n", events);
                } else if self.text {
                    events.content(&self.held);
                    self.held.clear();
                    events.content(if line.is_some() { "\n" } else { "" });
                }
            } else {
                events.content(part);
            }
            self.text = self.text && line.is_none();
        }
    }

    fn finish(&mut self, end: Finish, events: &mut Events) {
        if end == Finish::Cut && self.held.starts_with(&self.word) {
            events.failed(Failure::Incomplete, &self.held);
        } else {
            self.line("", events);
        }
    }
}

impl Lines {
    /// Takes the line that is held, which ends here, and what ends it.
    fn line(&mut self, end: &str, events: &mut Events) {
        let line = core::mem::take(&mut self.held);
        let r = match &self.request {
            Some(r) if line.starts_with(&self.word) => r,
            _ => {
                events.content(&line);
                return events.content(end);
            }
        };
        match call(&line[self.word.len()..], r) {
            Ok(_) if line.len() > LONGEST => self.refuse(Failure::TooLong, &line, end, events),
            Ok(_) if !r.parallel && events.calls() > 0 => events.failed(Failure::TooMany, &line),
            Ok((name, arguments)) => {
                events.begin(name, &call_id());
                events.arguments(arguments);
                events.end();
            }
            Err(why) => self.refuse(why, &line, end, events),
        }
    }

    /// A line that is no call after all is content, unless the request demands calls.
    fn refuse(&self, why: Failure, line: &str, end: &str, events: &mut Events) {
        if matches!(&self.request, Some(r) if r.choice != Choice::Auto) {
            return events.failed(why, line);
        }
        events.content(line);
        events.content(end);
    }
}

/// Reads `name(json)`.
fn call<'a>(s: &'a str, r: &Request) -> core::result::Result<(&'a str, &'a str), Failure> {
    let s = s.trim_end_matches(|c| c == ' ' || c == '\t' || c == '\r');
    let (name, rest) = s.split_once('(').ok_or(Failure::Malformed)?;
    let arguments = rest.strip_suffix(')').ok_or(Failure::Malformed)?;
    if !(1..=64).contains(&name.len()) || !name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-') {
        return Err(Failure::Malformed);
    }
    let mut json = Reader::new(arguments.as_bytes());
    if json.peek() != b'{' {
        return Err(Failure::Malformed);
    }
    json.skip();
    json.close().map_err(|_| Failure::Malformed)?;
    if !r.allows(name) {
        return Err(Failure::Unknown);
    }
    Ok((name, arguments))
}

plugin! {
    description: concat!(
        r#"{"name":"call-lines","version":"1.0.0","config":true,"kinds":["tools"],"#,
        r#""doc":"Tool calls of the form CALL name(json), each on a line of its own."}"#
    ),
    tools: Lines,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{string::String, vec::Vec};
    use tgi_plugin::{testing, tools::kind, tools::NO_CALL};

    /// The texts that the examples of all languages are tested with, whole and
    /// character by character.
    #[test]
    fn vectors() {
        let cases = Value::parse(include_bytes!("../../../../testdata/vectors/call-lines.json")).unwrap();
        assert!(cases.items().len() > 10);
        for c in cases.items() {
            let config = if c.get("config").is_null() { "{}".to_string() } else { c.get("config").json() };
            let whole: Vec<(&str, bool)> =
                c.get("text").items().iter().map(|p| (p.text().unwrap_or_else(|| p.items()[0].text().unwrap()), p.text().is_none())).collect();
            let mut single = Vec::new();
            for &(p, special) in &whole {
                if special {
                    single.push((p, true));
                } else {
                    single.extend(p.split("").filter(|c| !c.is_empty()).map(|c| (c, false)));
                }
            }
            let want: Vec<&str> = c.get("events").items().iter().filter_map(Value::text).collect();
            let end = if c.get("cut").is_true() { Finish::Cut } else { Finish::End };
            for pieces in [whole, single] {
                testing::vocabulary(&[]);
                match testing::parse::<Lines>(&config, &c.get("request").json(), &pieces, end) {
                    Err(e) => assert_eq!(Some(e.as_str()), c.get("error").text(), "{}", c.get("about").json()),
                    Ok(events) => {
                        assert_eq!(events.iter().map(told).collect::<Vec<_>>(), want, "{}", c.get("about").json());
                        assert!(c.get("error").is_null());
                    }
                }
            }
        }
    }

    fn told(e: &testing::Event) -> String {
        let index = if e.index == NO_CALL { "-".to_string() } else { e.index.to_string() };
        assert_eq!(e.id.len(), if e.kind == kind::BEGIN { 29 } else { 0 });
        match e.kind {
            kind::CONTENT => format!("content {}", e.text),
            kind::REASONING => format!("reasoning {}", e.text),
            kind::BEGIN => format!("begin {} {}", index, e.name),
            kind::ARGUMENTS => format!("arguments {} {}", index, e.text),
            kind::END => format!("end {}", index),
            _ => format!("failed {} {} {}", index, e.reason, e.text),
        }
    }
}
