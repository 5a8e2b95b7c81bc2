//! The kind template: renders the conversation of a chat request into the prompt.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json::Value;
use crate::Result;

/// A plugin that renders conversations; one value renders one of them.
pub trait Template: Sized {
    /// Reads the JSON object of the configuration, once, before the server's
    /// snapshot. Its member "model" is what [`Model`] holds. An error refuses
    /// the plugin.
    fn open(config: &Value) -> Result<Self>;

    /// Looks at the JSON object of the request's parameters, when the request
    /// is admitted; they come again in [`Request::params`]. An error refuses the
    /// request. A template without this method takes no parameters.
    fn validate(&self, params: &Value) -> Result<()> {
        no_parameters(params)
    }

    /// Writes the conversation. An error tells the client why it can't be rendered; the text
    /// written is then discarded.
    fn render(&mut self, request: &Request, out: &mut Output) -> Result<()>;
}

/// Refuses every parameter.
pub(crate) fn no_parameters(params: &Value) -> Result<()> {
    if params.members().is_empty() {
        return Ok(());
    }
    Err(String::from("the plugin takes no parameters"))
}

/// What the server knows of the model, from the configuration's member "model".
#[derive(Clone, Debug)]
pub struct Model<'a>(&'a Value);

impl<'a> Model<'a> {
    /// Looks into a configuration.
    pub fn of(config: &'a Value) -> Model<'a> {
        Model(config.get("model"))
    }

    /// The model's name, empty where it has none.
    pub fn name(&self) -> &'a str {
        self.0.get("name").text().unwrap_or("")
    }

    /// The text of a special token by its name in Hugging Face's files, such as
    /// "bos_token".
    pub fn token(&self, name: &str) -> Option<&'a str> {
        self.0.get("tokens").get(name).text()
    }

    /// A Jinja source of the model, usually with the name "default".
    pub fn template(&self, name: &str) -> Option<&'a str> {
        self.0.get("templates").get(name).text()
    }
}

/// One conversation.
#[derive(Clone, Debug)]
pub struct Request {
    /// Objects as OpenAI's API has them, see [`Message`].
    pub messages: Vec<Value>,
    /// The tools that are offered.
    pub tools: Vec<Value>,
    /// The documents to answer from.
    pub documents: Vec<Value>,
    /// End where the assistant's turn begins.
    pub add_generation_prompt: bool,
    /// End where the last message ends.
    pub continue_final_message: bool,
    /// The request's chat_template_kwargs.
    pub kwargs: Value,
    /// The name of one of several templates.
    pub template: Option<String>,
    /// The time of the request, RFC 3339 with its zone.
    pub now: String,
    /// The request's parameters for this plugin.
    pub params: Value,
}

impl Request {
    /// Reads the JSON that the server hands over.
    pub fn parse(json: &[u8]) -> Result<Request> {
        let v = Value::parse(json)?;
        let list = |name| v.get(name).items().to_vec();
        Ok(Request {
            messages: list("messages"),
            tools: list("tools"),
            documents: list("documents"),
            add_generation_prompt: v.get("add_generation_prompt").is_true(),
            continue_final_message: v.get("continue_final_message").is_true(),
            kwargs: v.get("kwargs").clone(),
            template: v.get("template").text().map(String::from),
            now: v.get("now").text().map(String::from).unwrap_or_default(),
            params: v.get("params").clone(),
        })
    }
}

/// What templates read of a message.
pub trait Message {
    /// "system", "user", "assistant" or "tool", and whatever else clients send.
    fn role(&self) -> &str;

    /// The text: of a string itself, of an array the texts of its parts one
    /// after the other, of nothing the empty one. The error names the first
    /// part that is not text.
    fn content(&self) -> Result<Vec<&str>>;
}

impl Message for Value {
    fn role(&self) -> &str {
        self.get("role").text().unwrap_or("")
    }

    fn content(&self) -> Result<Vec<&str>> {
        let content = self.get("content");
        if let Some(text) = content.text() {
            return Ok(Vec::from([text]));
        }
        content.items().iter().map(part).collect()
    }
}

/// The text of one part; a bare string is one too.
fn part(p: &Value) -> Result<&str> {
    let kind = p.get("type").text().unwrap_or("a part without type");
    match p.text().or_else(|| p.get("text").text()) {
        Some(text) if kind == "text" || p.text().is_some() => Ok(text),
        _ if kind == "text" => Err(String::from("a part of type text has none")),
        _ => Err(format!("only text is understood, not {}", kind)),
    }
}

/// The text written so far, and which of it is data.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub(crate) text: String,
    pub(crate) spans: Vec<[u32; 2]>,
}

impl Output {
    /// No text yet.
    pub const fn new() -> Output {
        Output { text: String::new(), spans: Vec::new() }
    }

    /// Writes markup of the template's own: special tokens in it are recognised.
    pub fn template(&mut self, s: &str) {
        self.text.push_str(s);
    }

    /// Writes text of the request: no special token is recognised in it, so nobody can forge one.
    pub fn data(&mut self, s: &str) {
        if s.is_empty() {
            return;
        }
        let from = self.text.len() as u32;
        self.text.push_str(s);
        let to = self.text.len() as u32;
        match self.spans.last_mut() {
            Some(last) if last[1] == from => last[1] = to,
            _ => self.spans.push([from, to]),
        }
    }
}
