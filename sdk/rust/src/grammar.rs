//! The kind grammar: the allowed tokens by a grammar of the request. A guest compiles sources,
//! which the server runs, or follows the text itself step by step, for what no compiled grammar can
//! express.

use alloc::string::String;
use alloc::vec::Vec;

use crate::json::Value;
use crate::template::no_parameters;
use crate::{host, Result};

/// The grammar of a request.
#[derive(Clone, Debug)]
pub struct Request {
    /// One of the description's "languages".
    pub language: String,
    /// The grammar.
    pub source: String,
    /// The request's parameters for this plugin.
    pub params: Value,
}

impl Request {
    /// Reads the JSON that the server hands over.
    pub fn parse(json: &[u8]) -> Result<Request> {
        let v = Value::parse(json)?;
        let text = |name| v.get(name).text().map(String::from).unwrap_or_default();
        Ok(Request { language: text("language"), source: text("source"), params: v.get("params").clone() })
    }
}

/// Something that a source asks for and that the grammar does not enforce.
#[derive(Clone, Debug, Default)]
pub struct Dropped {
    /// Its place in the source.
    pub pointer: String,
    /// Its name.
    pub keyword: String,
    /// Why it is left out.
    pub reason: String,
}

/// A compiled source.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// The grammar, in the form that plugins/grammar/ir/README.md describes;
    /// [`crate::form::Builder`] puts it together.
    pub form: Vec<u8>,
    /// What it does not enforce; it is listed in the reply.
    pub dropped: Vec<Dropped>,
}

/// A plugin that compiles grammars; one value compiles one source.
pub trait Grammar: Sized {
    /// Reads the JSON object of the configuration, once, before the server's
    /// snapshot. An error refuses the plugin.
    fn open(config: &Value) -> Result<Self>;

    /// Validates the JSON object of the request's parameters. A plugin without this method accepts
    /// none.
    fn validate(&self, params: &Value) -> Result<()> {
        no_parameters(params)
    }

    /// Compiles a source. An error says to the client why it can't be compiled,
    /// best with the place.
    fn compile(&mut self, request: &Request) -> Result<Compiled>;
}

/// A plugin that follows a text itself; one value follows one text. Its
/// description has the mode "steps".
pub trait Steps: Sized {
    /// As [`Grammar::open`].
    fn open(config: &Value) -> Result<Self>;

    /// As [`Grammar::validate`].
    fn validate(&self, params: &Value) -> Result<()> {
        no_parameters(params)
    }

    /// Begins the text. An error refuses the request.
    fn begin(&mut self, request: &Request) -> Result<()>;

    /// Accepts a token. An error, for one that is not allowed, ends the sequence.
    fn accept(&mut self, token: u32) -> Result<()>;

    /// Allows the tokens that may come next, and where the text may end those that end it. It must
    /// not change the state.
    fn mask(&mut self, mask: &mut Mask);

    /// Identifies the state, 0 for none: states of one request with the same key allow the same
    /// tokens, so the server asks once.
    fn key(&mut self) -> u64 {
        0
    }

    /// The tokens that must come next; none if there is a choice.
    fn forced(&mut self) -> Vec<u32> {
        Vec::new()
    }
}

/// Which tokens may come next: none at first.
#[derive(Debug)]
pub struct Mask<'a> {
    words: &'a mut [u32],
    pub(crate) all: bool,
}

impl<'a> Mask<'a> {
    /// A mask in some words, which are set to 0.
    pub fn new(words: &'a mut [u32]) -> Mask<'a> {
        words.iter_mut().for_each(|w| *w = 0);
        Mask { words, all: false }
    }

    /// Allows a token. One outside the vocabulary is ignored.
    pub fn allow(&mut self, token: u32) {
        if token < host::vocab_size() {
            if let Some(w) = self.words.get_mut(token as usize / 32) {
                *w |= 1 << (token % 32);
            }
        }
    }

    /// Allows the tokens whose bits are set in a prepared mask: bit t%32 of word t/32 is token t.
    pub fn allow_words(&mut self, words: &[u32]) {
        self.words.iter_mut().zip(words).for_each(|(to, w)| *to |= w);
    }

    /// Allows every token, special ones included.
    pub fn allow_all(&mut self) {
        self.all = true;
    }
}

/// The JSON array of what was dropped, no text for nothing.
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
pub(crate) fn notes(list: &[Dropped]) -> String {
    let members = |d: &Dropped| {
        let text = |s: &str| Value::Text(String::from(s));
        Value::Object(Vec::from([
            (String::from("pointer"), text(&d.pointer)),
            (String::from("keyword"), text(&d.keyword)),
            (String::from("reason"), text(&d.reason)),
        ]))
    };
    if list.is_empty() {
        return String::new();
    }
    Value::Array(list.iter().map(members).collect()).json()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn requests_and_notes() {
        let r = Request::parse(br#"{"language":"a","source":"b\n","params":{"n":1},"new":[]}"#).unwrap();
        assert_eq!((r.language.as_str(), r.source.as_str(), r.params.get("n").number()), ("a", "b\n", Some(1.0)));
        assert_eq!(notes(&[]), "");
        let d = Dropped { pointer: "#/a".into(), keyword: "not".into(), reason: "\"".into() };
        assert_eq!(notes(&[d]), r##"[{"pointer": "#/a", "keyword": "not", "reason": "\""}]"##);
        let mut words = vec![7, 7];
        assert!(!Mask::new(&mut words).all);
        assert_eq!(words, [0, 0]);
        Mask::new(&mut words).allow_words(&[4, 0, 1]);
        assert_eq!(words, [4, 0]);
    }
}
