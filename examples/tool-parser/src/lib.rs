//! short-calls: a parser of tool calls for an invented format. A message that
//! is a JSON object whose one member bears the name of a tool calls it: the
//! value is the arguments, or their member "value" where it is no object. So
//! {"pin": 4821} calls the tool pin with {"value": 4821}.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, string::String};
use tgi_plugin::json::Value;
use tgi_plugin::tools::{call_id, Choice, Events, Failure, Finish, Request, Tools};
use tgi_plugin::{plugin, Result};

/// The parser of one message.
pub struct Short {
    /// None: calls are not looked for.
    request: Option<Request>,
    /// The message is content.
    text: bool,
    /// The message so far, until it is known to be content.
    held: String,
}

impl Tools for Short {
    fn open(_config: &Value) -> Result<Self> {
        Ok(Short { request: None, text: false, held: String::new() })
    }

    fn begin(&mut self, r: &Request) -> Result<()> {
        if !r.tools.is_empty() && r.choice != Choice::None {
            self.request = Some(r.clone());
        }
        Ok(())
    }

    /// A message is content as soon as it does not begin with a brace, and then
    /// passes through; the rest waits for its end.
    fn feed(&mut self, piece: &str, special: bool, events: &mut Events) {
        if special {
            return;
        }
        self.held.push_str(piece);
        let start = self.held.trim_start();
        if !self.text && (start.is_empty() || (start.starts_with('{') && self.request.is_some())) {
            return;
        }
        self.text = true;
        events.content(&self.held);
        self.held.clear();
    }

    fn finish(&mut self, end: Finish, events: &mut Events) {
        let demanded = matches!(&self.request, Some(r) if r.choice != Choice::Auto);
        let braces = self.held.trim_start().starts_with('{');
        let why = match (&self.request, call(&self.held)) {
            _ if braces && end == Finish::Cut => Failure::Incomplete,
            (Some(r), Some((name, _))) if !r.allows(&name) => Failure::Unknown,
            (Some(_), Some((name, arguments))) => {
                events.begin(&name, &call_id());
                events.arguments(&arguments);
                return events.end();
            }
            _ => Failure::Malformed,
        };
        // What is no call after all is content, unless calls are demanded. A
        // part of a call is neither.
        if braces && (demanded || why == Failure::Incomplete) {
            events.failed(why, &self.held);
        } else {
            events.content(&self.held);
        }
    }
}

/// The tool's name and the arguments of a call, JSON.
fn call(message: &str) -> Option<(String, String)> {
    let v = Value::parse(message.as_bytes()).ok()?;
    match v.members() {
        [(name, arguments @ Value::Object(_))] => Some((name.clone(), arguments.json())),
        [(name, value)] => Some((name.clone(), format!("{{\"value\": {}}}", value.json()))),
        _ => None,
    }
}

plugin! {
    description: concat!(
        r#"{"name":"short-calls","version":"1.0.0","kinds":["tools"],"#,
        r#""doc":"Tool calls of the form {\"tool\": value}."}"#
    ),
    tools: Short,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec, vec::Vec};
    use tgi_plugin::testing::{self, Event};
    use tgi_plugin::tools::{kind, NO_CALL};

    const TOOLS: &str = r#""tools": [{"type": "function", "function": {"name": "pin"}}, {"type": "function", "function": {"name": "add"}}]"#;

    /// The events of a text, which must be the same however it is cut in two.
    fn parse(choice: &str, text: &str, end: Finish) -> Vec<Event> {
        let request = format!("{{{}, \"tool_choice\": {}}}", TOOLS, choice);
        let run = |pieces: &[(&str, bool)]| {
            testing::vocabulary(&[]);
            testing::parse::<Short>(r#"{"model": {}}"#, &request, pieces, end).unwrap()
        };
        let whole = run(&[(text, false), ("<|im_end|>", true)]);
        for (at, _) in text.char_indices() {
            assert_eq!(run(&[(&text[..at], false), (&text[at..], false)]), whole, "cut at {}", at);
        }
        whole
    }

    fn content(text: &str) -> Vec<Event> {
        vec![Event { kind: kind::CONTENT, text: text.to_string(), ..Event::default() }]
    }

    #[test]
    fn calls() {
        for (text, name, arguments) in [
            (r#"{"pin": 4821}"#, "pin", r#"{"value": 4821}"#),
            ("\n {\"add\":{\"a\":1,\"b\":[2]}}\n", "add", r#"{"a": 1, "b": [2]}"#),
            (r#"{"pin": "é\n"}"#, "pin", r#"{"value": "é\n"}"#),
        ] {
            let e = parse("\"auto\"", text, Finish::End);
            assert_eq!(e.iter().map(|e| e.kind).collect::<Vec<_>>(), [kind::BEGIN, kind::ARGUMENTS, kind::END], "{}", text);
            assert_eq!((e[0].name.as_str(), e[1].text.as_str(), e[0].id.len()), (name, arguments, 29));
        }
    }

    #[test]
    fn others() {
        for text in ["Hello.", "so: {\"pin\": 1}", "{", "{}", r#"{"rm": 1}"#, r#"{"pin": 1, "add": 2}"#, r#"{"pin": 1} {"#] {
            assert_eq!(parse("\"auto\"", text, Finish::End), content(text));
        }
        assert_eq!(parse("\"none\"", r#"{"pin": 1}"#, Finish::End), content(r#"{"pin": 1}"#));
        assert_eq!(parse("\"auto\"", "", Finish::End), []);
    }

    #[test]
    fn failures() {
        for (choice, text, end, why) in [
            ("\"auto\"", r#"{"pin": 48"#, Finish::Cut, Failure::Incomplete),
            ("\"auto\"", r#"{"pin": 48}"#, Finish::Cut, Failure::Incomplete),
            ("\"required\"", r#"{"rm": 1}"#, Finish::End, Failure::Unknown),
            (r#"{"name": "add"}"#, r#"{"pin": 1}"#, Finish::End, Failure::Unknown),
            ("\"required\"", "{pin}", Finish::End, Failure::Malformed),
        ] {
            let want = Event { kind: kind::FAILED, index: NO_CALL, text: text.to_string(), reason: why as u32, ..Event::default() };
            assert_eq!(parse(choice, text, end), [want]);
        }
    }
}
