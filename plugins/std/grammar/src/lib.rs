//! Grammars for the token loop: compiles JSON Schema, regular expressions, choices, GBNF, Lark and
//! structural tags for the host.
//!
//! A constraint is enforced exactly or refused with its position and the reason; `lenient` leaves
//! it out instead and lists it.
#![warn(missing_docs)]

pub mod build;
pub mod chars;
pub mod decimal;
pub mod error;
pub mod explore;
pub mod gbnf;
pub mod hash;
pub mod ir;
pub mod json;
pub mod lark;
pub mod options;
pub mod pattern;
pub mod prepare;
pub mod re;
pub mod scan;
#[allow(missing_docs)]
pub mod schema;
pub mod tags;

pub use error::{Error, Result};
pub use options::{Options, Whitespace};

use build::Builder;
use chars::Form;
use re::Pool;

/// A constraint that the grammar does not enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// JSON pointer of the schema, with `#` in front.
    pub pointer: String,
    /// The keyword.
    pub keyword: String,
    /// Why it cannot be enforced.
    pub reason: String,
}

/// A compiled source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The grammar in the form of `plugins/grammar/ir`.
    pub ir: Vec<u8>,
    /// What `lenient` left out, in the order of the schema's keywords.
    pub dropped: Vec<Dropped>,
}

/// The vocabulary for which a source is compiled.
pub trait Vocabulary {
    /// The token with this text, and whether it is ordinary: neither special nor an end. None if
    /// there is none.
    fn token(&self, text: &str) -> Option<(u32, bool)>;
}

/// No vocabulary: no token is known by its text.
pub struct NoVocabulary;

impl Vocabulary for NoVocabulary {
    fn token(&self, _: &str) -> Option<(u32, bool)> {
        None
    }
}

/// Most bytes of a source.
pub const MAX_SOURCE: usize = 4 << 20;

/// The languages that `compile` knows.
pub const LANGUAGES: &[&str] =
    &["json", "json_object", "json_schema", "regex", "choice", "gbnf", "lark", "structural_tag"];

/// Compiles a source. Limits on the result bound time and memory; recursion is bounded everywhere.
pub fn compile(language: &str, source: &str, o: &Options) -> Result<Compiled> {
    compile_for(language, source, o, &NoVocabulary)
}

/// Compiles a source for a vocabulary. Few sources need it: structural tags that exclude tokens by
/// text.
pub fn compile_for(language: &str, source: &str, o: &Options, vocabulary: &dyn Vocabulary) -> Result<Compiled> {
    compile_with(&mut Pool::new(), language, source, o, vocabulary)
}

/// The same with a pool that has common expressions already (`prepare::pool`). The caller keeps the
/// pool, to which expressions were added; after an error it may be a new one. The grammar has the
/// same meaning, but its parts may be in another order.
pub fn compile_with(
    pool: &mut Pool,
    language: &str,
    source: &str,
    o: &Options,
    vocabulary: &dyn Vocabulary,
) -> Result<Compiled> {
    if source.len() > MAX_SOURCE {
        return Err(Error::whole(format!("the source has {} bytes, at most {} are read", source.len(), MAX_SOURCE)));
    }
    let mut dropped = Vec::new();
    let mut b = Builder::over(std::mem::take(pool));
    let start = b.declare("start");
    let (mut b, x) = match language {
        "json" => schema::anything(b, false, o)?,
        "json_object" => schema::anything(b, true, o)?,
        "json_schema" => schema::compile(b, &json::parse(source)?, o, &mut dropped)?,
        "regex" => {
            let r = pattern::compile(&mut b.p, source, Form::Raw, pattern::Match::Full)?;
            let x = b.term(r);
            (b, x)
        }
        "choice" => {
            let words = choices(source)?;
            let r = b.p.words(&words);
            let x = b.term(r);
            (b, x)
        }
        "gbnf" => gbnf::compile(b, source)?,
        "lark" => lark::compile(b, source, o, &mut dropped)?,
        "structural_tag" => tags::compile(b, source, o, vocabulary, &mut dropped)?,
        other => {
            return Err(Error::whole(format!("the language {:?} is not known; {} are", other, LANGUAGES.join(", "))))
        }
    };
    b.define(start, x);
    if matches!(language, "gbnf" | "lark") {
        b.join();
    }
    let ir = ir::write(&mut b, start);
    *pool = b.p;
    Ok(Compiled { ir: ir?, dropped })
}

// A choice is a JSON array of strings.
fn choices(source: &str) -> Result<Vec<String>> {
    let items = match json::parse(source)? {
        json::Value::Arr(v) => v,
        v => return Err(Error::whole(format!("want an array of strings, got {}", v.kind()))),
    };
    items
        .into_iter()
        .enumerate()
        .map(|(i, v)| match v {
            json::Value::Str(s) => Ok(s),
            v => Err(Error::pointer(&format!("/{}", i), "", format!("want a string, got {}", v.kind()))),
        })
        .collect()
}
