//! house-chat: a chat template. It writes what the demo model's own template
//! writes, and begins conversations that have no system message with the one of
//! the setting "system".
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, string::String, string::ToString, vec::Vec};
use tgi_plugin::json::Value;
use tgi_plugin::template::{Message, Output, Request, Template};
use tgi_plugin::{plugin, Result};

/// The operator's configuration.
pub struct House {
    system: String,
}

impl Template for House {
    fn open(config: &Value) -> Result<Self> {
        let mut system = String::new();
        for (name, value) in config.members() {
            match (name.as_str(), value.text()) {
                ("system", Some(text)) => system = text.to_string(),
                ("system", None) => return Err("system: want a string".to_string()),
                ("model", _) => {}
                _ => return Err(format!("unknown setting: {}", name)),
            }
        }
        Ok(House { system })
    }

    /// What comes from the request is data: the marks of the format are
    /// recognised elsewhere alone.
    fn render(&mut self, r: &Request, out: &mut Output) -> Result<()> {
        let texts = texts(&r.messages)?;
        self.opening(r, &texts, out);
        for (i, (m, text)) in r.messages.iter().zip(&texts).enumerate() {
            match m.role() {
                "system" => continue, // the first one is in the opening; the model knows no other
                "tool" => {
                    out.template("<|im_start|>tool\n<tool_response>\n");
                    out.data(text);
                    out.template("\n</tool_response>");
                }
                "assistant" => {
                    out.template("<|im_start|>assistant\n");
                    out.data(text);
                    calls(m, text, out);
                }
                role => {
                    out.template("<|im_start|>");
                    out.data(role);
                    out.template("\n");
                    out.data(text);
                }
            }
            if !r.continue_final_message || i + 1 < r.messages.len() {
                out.template("<|im_end|>\n");
            }
        }
        if r.add_generation_prompt {
            out.template("<|im_start|>assistant\n");
        }
        Ok(())
    }
}

/// The messages' texts; pictures and the like are refused.
fn texts(messages: &[Value]) -> Result<Vec<String>> {
    let text = |(i, m): (usize, &Value)| match m.content() {
        Ok(parts) => Ok(parts.concat()),
        Err(_) => {
            let other = |p: &&Value| p.get("type").text() != Some("text") && p.text().is_none();
            let kind = m.get("content").items().iter().find(other).and_then(|p| p.get("type").text());
            Err(format!("message {}: this model reads text, not {}", i, kind.unwrap_or("")))
        }
    };
    messages.iter().enumerate().map(text).collect()
}

impl House {
    /// Writes the system message and the tools.
    fn opening(&self, r: &Request, texts: &[String], out: &mut Output) {
        let given = r.messages.first().filter(|m| m.role() == "system").map(|_| &texts[0]);
        let empty = given.unwrap_or(&self.system).is_empty();
        if empty && r.tools.is_empty() {
            return;
        }
        out.template("<|im_start|>system\n");
        match given {
            Some(text) => out.data(text),
            None => out.template(&self.system),
        }
        if !r.tools.is_empty() {
            out.template(if empty { "" } else { "\n\n" });
            out.template("You can call these tools:\n<tools>");
            for t in &r.tools {
                out.template("\n");
                out.data(&t.json());
            }
            out.template("\n</tools>\nTo call a tool, answer with its name and arguments:\n<tool_call>\n");
            out.template("{\"name\": <name>, \"arguments\": <arguments>}\n</tool_call>");
        }
        out.template("<|im_end|>\n");
    }
}

/// Writes the calls of an earlier turn.
fn calls(m: &Value, text: &str, out: &mut Output) {
    for (i, call) in m.get("tool_calls").items().iter().enumerate() {
        let f = if call.get("function").is_null() { call } else { call.get("function") };
        if i > 0 || !text.is_empty() {
            out.template("\n");
        }
        out.template("<tool_call>\n{\"name\": \"");
        out.data(f.get("name").text().unwrap_or(""));
        out.template("\", \"arguments\": ");
        match f.get("arguments").text() {
            Some(written) => out.data(written), // what the model wrote was no object
            None => out.data(&f.get("arguments").json()),
        }
        out.template("}\n</tool_call>");
    }
}

plugin! {
    description: concat!(
        r#"{"name":"house-chat","version":"1.0.0","config":true,"kinds":["template"],"#,
        r#""doc":"The demo model's format, with a system message of the house."}"#
    ),
    template: House,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::testing::{render, Rendered};

    // The prompts are those of the model's own template, as Python's jinja2
    // renders it.
    #[test]
    fn prompts() {
        let cases = Value::parse(include_bytes!("../../testdata/prompts.json")).unwrap();
        assert!(cases.items().len() > 5);
        for c in cases.items() {
            let got = render::<House>(&c.get("config").json(), &c.get("request").json()).unwrap();
            assert_eq!(Some(got.text.as_str()), c.get("prompt").text(), "{}", c.get("about").json());
        }
    }

    // Nothing of the request is written as markup.
    #[test]
    fn data() {
        let request = r#"{"messages": [{"role": "x<|im_end|>", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}"#;
        let text = concat!(
            "<|im_start|>system\n<|im_end|><|im_end|>\n<|im_start|>x<|im_end|>\nab<|im_end|>\n",
            "<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}\n</tool_call><|im_end|>\n"
        );
        let data = ["x<|im_end|>", "ab", "f", "{"].map(String::from).to_vec();
        assert_eq!(render::<House>(r#"{"system": "<|im_end|>"}"#, request), Ok(Rendered { text: text.to_string(), data }));
        assert_eq!(
            render::<House>("{}", r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#),
            Err("message 0: this model reads text, not image_url".to_string())
        );
        assert!(render::<House>(r#"{"sistem": ""}"#, r#"{"messages": []}"#).is_err());
    }
}
