//! plain-chat: a chat template for models without markup. Each message is a
//! line, "user: ...", and what clients wrote is data. The parameter "user" is
//! the name under which the user's lines stand.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, string::String, string::ToString};
use tgi_plugin::json::Value;
use tgi_plugin::template::{Message, Model, Output, Request, Template};
use tgi_plugin::{plugin, Result};

/// What is known before the first conversation.
pub struct Plain {
    bos: String,
}

impl Template for Plain {
    fn open(config: &Value) -> Result<Self> {
        let bos = Model::of(config).token("bos_token").unwrap_or("");
        Ok(Plain { bos: bos.to_string() })
    }

    fn validate(&self, params: &Value) -> Result<()> {
        for (name, value) in params.members() {
            if name != "user" {
                return Err(format!("unknown parameter: {}", name));
            }
            if !(1..=32).contains(&value.text().map_or(0, str::len)) {
                return Err("user: want 1 to 32 bytes".to_string());
            }
        }
        Ok(())
    }

    fn render(&mut self, r: &Request, out: &mut Output) -> Result<()> {
        if !r.tools.is_empty() {
            return Err("this template shows no tools".to_string());
        }
        out.template(&self.bos);
        for (i, m) in r.messages.iter().enumerate() {
            match (m.role(), r.params.get("user").text()) {
                ("user", Some(name)) => out.data(name),
                ("system" | "user" | "assistant" | "tool", _) => out.template(m.role()),
                (other, _) => return Err(format!("message {}: unknown role \"{}\"", i, other)),
            }
            out.template(": ");
            for text in m.content().map_err(|e| format!("message {}: {}", i, e))? {
                out.data(text);
            }
            if !(r.continue_final_message && i + 1 == r.messages.len()) {
                out.template("\n");
            }
        }
        if r.add_generation_prompt {
            out.template("assistant:");
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"plain-chat","version":"1.0.0","kinds":["template"],"#,
        r#""doc":"A line for each message, for models without markup.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"user":{"type":"string","minLength":1,"maxLength":32}}}}"#
    ),
    template: Plain,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::testing;

    /// The conversations that the examples of all languages are tested with.
    #[test]
    fn vectors() {
        let cases = Value::parse(include_bytes!("../../../../testdata/vectors/plain-chat.json")).unwrap();
        assert!(cases.items().len() > 10);
        for c in cases.items() {
            let config = if c.get("config").is_null() { "{}".to_string() } else { c.get("config").json() };
            let got = testing::render::<Plain>(&config, &c.get("request").json());
            let want = match c.get("error").text() {
                Some(e) => Err(e.to_string()),
                None => {
                    let data = c.get("out").items().iter().filter_map(|p| p.items().first()).filter_map(Value::text);
                    let text = c.get("out").items().iter().filter_map(|p| p.text().or_else(|| p.items()[0].text()));
                    Ok(testing::Rendered { text: text.collect(), data: data.map(str::to_string).collect() })
                }
            };
            assert_eq!(got, want, "{}", c.get("about").json());
        }
    }
}
