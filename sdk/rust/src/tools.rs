//! The kind tools: splits the model's text into content, reasoning and tool calls.

use alloc::string::String;
use alloc::vec::Vec;

use crate::grammar::Dropped;
use crate::json::Value;
use crate::template::no_parameters;
use crate::{host, Result};

/// A plugin that finds tool calls in what the model writes; one value serves
/// one sequence. The same text must give the same events however it is cut into
/// pieces.
pub trait Tools: Sized {
    /// Reads the configuration, as [`crate::Template::open`] does.
    fn open(config: &Value) -> Result<Self>;

    /// Looks at the request's parameters, as [`crate::Template::validate`] does.
    fn validate(&self, params: &Value) -> Result<()> {
        no_parameters(params)
    }

    /// Starts a sequence. An error ends it.
    fn begin(&mut self, request: &Request) -> Result<()>;

    /// Takes the next piece of the text, cut where the tokens are. `special`
    /// says that it is the text of one special token: markup of the model, and
    /// never content.
    fn feed(&mut self, piece: &str, special: bool, events: &mut Events);

    /// Takes the end of the text; a call that is still open has failed.
    fn finish(&mut self, end: Finish, events: &mut Events);

    /// Returns a constraint on the text that makes calls valid as they are generated. It is called
    /// before the first token of a request that forces a call, offers a strict tool, or has an
    /// answer, in an instance in which nothing else is called. An error refuses the request.
    /// Without this method there is no constraint.
    fn constraint(&mut self, _request: &Request) -> Result<Constraint> {
        Ok(Constraint::default())
    }
}

/// A grammar of all that a model writes: free text, reasoning, and calls. The default is no
/// constraint.
#[derive(Clone, Debug, Default)]
pub struct Constraint {
    /// Of the source: one that an installed plugin of kind grammar knows, mostly
    /// `structural_tag`.
    pub language: String,
    /// The grammar; empty means no constraint.
    pub source: String,
    /// A JSON object for that plugin, or null.
    pub params: Value,
    /// The request continues without the grammar if the source can't be compiled.
    pub optional: bool,
    /// The grammar constrains a text that is not a call to the request's answer. Without it a
    /// request that has one is refused.
    pub answer: bool,
    /// What may come first, and has to end.
    pub reasoning: Option<Reasoning>,
    /// What places of the source come from.
    pub places: Vec<Place>,
    /// What the request asks for and the grammar does not enforce, with pointers into the request;
    /// it is listed in the reply.
    pub dropped: Vec<Dropped>,
}

/// Reasoning that the model may write before the calls or the answer. The server ends it after half
/// of the tokens that the message may have: the end marker may follow at any point.
#[derive(Clone, Debug, Default)]
pub struct Reasoning {
    /// The message begins inside it.
    pub open: bool,
    /// The texts that begin it, at the message's start.
    pub begin: Vec<String>,
    /// The texts that end it; the server writes the first.
    pub end: Vec<String>,
}

/// What a place of a source comes from.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// A JSON pointer into the source, as `#/content/json_schema`.
    pub at: String,
    /// One into the request, as `#/tools/0/function/parameters`.
    pub pointer: String,
    /// The name of the tool that it belongs to.
    pub tool: String,
}

impl Constraint {
    /// What the contract hands to the server, empty where there is nothing.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
    pub(crate) fn json(&self) -> String {
        let text = |s: &str| Value::Text(String::from(s));
        let member = |name: &str, v: Value| (String::from(name), v);
        if self.source.is_empty() {
            return String::new();
        }
        let mut all = Vec::from([
            member("language", text(&self.language)),
            member("source", text(&self.source)),
            member("optional", Value::Bool(self.optional)),
            member("answer", Value::Bool(self.answer)),
        ]);
        if !self.params.is_null() {
            all.push(member("params", self.params.clone()));
        }
        if let Some(r) = &self.reasoning {
            let texts = |list: &[String]| Value::Array(list.iter().map(|s| text(s)).collect());
            all.push(member(
                "reasoning",
                Value::Object(Vec::from([
                    member("open", Value::Bool(r.open)),
                    member("begin", texts(&r.begin)),
                    member("end", texts(&r.end)),
                ])),
            ));
        }
        let place = |p: &Place| {
            Value::Object(Vec::from([member("at", text(&p.at)), member("pointer", text(&p.pointer)), member("tool", text(&p.tool))]))
        };
        all.push(member("places", Value::Array(self.places.iter().map(place).collect())));
        Value::Object(all).json()
    }
}

/// Why the text ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finish {
    /// The model ended it, or a stop string did.
    End,
    /// The length limit cut it.
    Cut,
}

/// Which tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Any or none.
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// What the request says of tools.
#[derive(Clone, Debug)]
pub struct Request {
    /// As in OpenAI's API.
    pub tools: Vec<Value>,
    /// Which of them the model may call.
    pub choice: Choice,
    /// More than one call is allowed.
    pub parallel: bool,
    /// The end of the prompt's text, at most 1024 bytes.
    pub prompt_end: String,
    /// What a text that is no call is to be, an object of `language`, `source` and
    /// `params`; null for anything. Only [`Tools::constraint`] has to look at it.
    pub answer: Value,
    /// The request's parameters for this plugin.
    pub params: Value,
}

impl Request {
    /// Reads the JSON that the server hands over.
    pub fn parse(json: &[u8]) -> Result<Request> {
        let v = Value::parse(json)?;
        let choice = v.get("tool_choice");
        Ok(Request {
            tools: v.get("tools").items().to_vec(),
            choice: match (choice.text(), choice.get("name").text()) {
                (Some("none"), _) => Choice::None,
                (Some("required"), _) => Choice::Required,
                (_, Some(name)) => Choice::Named(String::from(name)),
                _ => Choice::Auto,
            },
            parallel: *v.get("parallel_tool_calls") != Value::Bool(false),
            prompt_end: v.get("prompt_end").text().map(String::from).unwrap_or_default(),
            answer: v.get("answer").clone(),
            params: v.get("params").clone(),
        })
    }

    /// Whether the model may call this tool: it is offered, and no other is demanded.
    pub fn allows(&self, name: &str) -> bool {
        let named = |t: &Value| t.get("function").get("name").text().or_else(|| t.get("name").text()) == Some(name);
        let offered = self.tools.iter().any(named);
        match &self.choice {
            Choice::None => false,
            Choice::Named(n) => offered && n == name,
            _ => offered,
        }
    }
}

/// Why a call can't be used.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
#[repr(u32)]
pub enum Failure {
    /// The text ended inside the call.
    Incomplete = 0,
    /// The tool was not offered, or another was demanded.
    Unknown = 1,
    /// Not what the format demands, or no JSON object.
    Malformed = 2,
    /// Longer or deeper than the parser takes.
    TooLong = 3,
    /// More calls than are allowed.
    TooMany = 4,
}

/// Kinds of events, numbers of the contract.
pub mod kind {
    #![allow(missing_docs)]
    pub const CONTENT: u32 = 0;
    pub const REASONING: u32 = 1;
    pub const BEGIN: u32 = 2;
    pub const ARGUMENTS: u32 = 3;
    pub const END: u32 = 4;
    pub const FAILED: u32 = 5;
}

/// The flag of a piece that is the text of one special token.
pub const PIECE_SPECIAL: u32 = 1;
/// The reason of a text that the length limit cut.
pub const FINISH_CUT: u32 = 1;
/// The index in [`Event`] of a call that failed before it began.
pub const NO_CALL: u32 = 0xffff_ffff;

/// An event as the contract lays it out: texts by address and bytes. While the
/// events of a call are collected, addresses count from the room's beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Raw {
    pub kind: u32,
    pub index: u32,
    pub text: u32,
    pub text_bytes: u32,
    pub name: u32,
    pub name_bytes: u32,
    pub id: u32,
    pub id_bytes: u32,
    pub reason: u32,
}

/// Where a parser writes what it found. Calls are numbered here: one is open
/// from [`Events::begin`] to [`Events::end`] or [`Events::failed`].
#[derive(Debug, Default)]
pub struct Events {
    pub(crate) list: Vec<Raw>,
    pub(crate) room: String,
    calls: u32,
    open: bool,
}

impl Events {
    /// No events yet, no call begun.
    pub const fn new() -> Events {
        Events { list: Vec::new(), room: String::new(), calls: 0, open: false }
    }

    /// Forgets the events, not the calls.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.room.clear();
    }

    fn keep(&mut self, s: &str) -> (u32, u32) {
        let at = self.room.len();
        self.room.push_str(s);
        (at as u32, s.len() as u32)
    }

    /// Appends a text to the last event if that is of the same kind and call.
    fn text(&mut self, kind: u32, index: u32, s: &str) {
        if s.is_empty() {
            return;
        }
        let (text, text_bytes) = self.keep(s);
        match self.list.last_mut() {
            Some(last) if last.kind == kind && last.index == index => last.text_bytes += text_bytes,
            _ => self.list.push(Raw { kind, index, text, text_bytes, ..Raw::default() }),
        }
    }

    /// How many calls have begun.
    pub fn calls(&self) -> usize {
        self.calls as usize
    }

    /// A part of the answer.
    pub fn content(&mut self, s: &str) {
        self.text(kind::CONTENT, 0, s)
    }

    /// A part of what the model thinks.
    pub fn reasoning(&mut self, s: &str) {
        self.text(kind::REASONING, 0, s)
    }

    /// A call begins. Name and id are not empty, of at most 256 bytes each.
    pub fn begin(&mut self, name: &str, id: &str) {
        let (index, (name, name_bytes), (id, id_bytes)) = (self.calls, self.keep(name), self.keep(id));
        self.list.push(Raw { kind: kind::BEGIN, index, name, name_bytes, id, id_bytes, ..Raw::default() });
        self.calls += 1;
        self.open = true;
    }

    /// The next part of the open call's arguments. The parts of a call that
    /// ends are together a JSON object.
    pub fn arguments(&mut self, s: &str) {
        self.text(kind::ARGUMENTS, self.calls.wrapping_sub(1), s)
    }

    /// The open call is complete and may be executed.
    pub fn end(&mut self) {
        self.list.push(Raw { kind: kind::END, index: self.calls.wrapping_sub(1), ..Raw::default() });
        self.open = false;
    }

    /// The open call, or one that has not begun, can't be used. The text is
    /// what the model wrote of it.
    pub fn failed(&mut self, why: Failure, s: &str) {
        let index = if self.open { self.calls - 1 } else { NO_CALL };
        let (text, text_bytes) = self.keep(s);
        self.list.push(Raw { kind: kind::FAILED, index, text, text_bytes, reason: why as u32, ..Raw::default() });
        self.open = false;
    }
}

/// An id for a call as OpenAI's are, of the host's random numbers: the same for
/// the same seed of the request.
pub fn call_id() -> String {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut id = String::from("call_");
    for _ in 0..24 {
        id.push(ALPHABET[((host::rand() >> 32) * 62 >> 32) as usize] as char);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints() {
        assert_eq!(Constraint::default().json(), "");
        let c = Constraint {
            language: "regex".into(),
            source: "a\"".into(),
            params: Value::parse(br#"{"x": 1}"#).unwrap(),
            places: [Place { at: "#/a".into(), pointer: "#/tools/0".into(), tool: "f".into() }].into(),
            ..Constraint::default()
        };
        let v = Value::parse(c.json().as_bytes()).unwrap();
        assert_eq!((v.get("language").text(), v.get("source").text()), (Some("regex"), Some("a\"")));
        assert_eq!((v.get("params").get("x").number(), v.get("optional").is_true()), (Some(1.0), false));
        assert_eq!(v.get("places").items()[0].get("pointer").text(), Some("#/tools/0"));
    }
}
