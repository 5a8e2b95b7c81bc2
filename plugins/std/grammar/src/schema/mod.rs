//! JSON Schema, draft 7 and 2020-12.
//!
//! A schema becomes a Boolean expression over constraints (`keywords`, `expr`),
//! that expression a set or a few alternatives per type of value (`expand`), and
//! those become rules (`object`, `array`, `numbers`, `strings`). Every pair of
//! expression and rule is made once, so recursive schemas end.

mod array;
mod expand;
mod expr;
mod formats;
mod impossible;
mod keywords;
mod load;
mod members;
mod numbers;
mod object;
mod order;
mod parameters;
mod strings;
mod unevaluated;
mod uri;

pub use load::Draft;
pub use parameters::Style;

use crate::build::{Builder, Ex};
use crate::chars;
use crate::error::{Error, Result};
use crate::hash::{Map, Seen};
use crate::json::Value;
use crate::re::Re;
use crate::{Dropped, Options, Whitespace};
use expand::{Case, Set};
use expr::*;
use load::{Location, Names};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Largest lower bound of a count.
pub const MAX_COUNT: u32 = 1_000_000;

/// Most expressions of one schema.
pub const MAX_SHAPES: usize = 100_000;

struct Compiler<'a> {
    b: Builder,
    a: Arena,
    names: Names<'a>,
    locations: Vec<Location<'a>>,
    // By value and scope.
    location_of: Map<(usize, Rc<Vec<String>>), u32>,
    lowered: Map<u32, Sx>,
    lowering: Seen<u32>,
    // Languages of one name, and that name's canonical text.
    singles: Map<Re, String>,
    refusals: Vec<Error>,
    dropped: BTreeSet<usize>,
    // What else is left out, by pointer and keyword.
    loose: BTreeMap<(String, String), String>,
    sets: Map<(Sx, bool, u8), Set>,
    expanded: Map<(Sx, bool, u8), Rc<Vec<Case>>>,
    impossibles: Map<(Sx, u32), bool>,
    inside: u32,
    // The expressions being expanded to cases, and whether for a look-ahead.
    expanding: Seen<(Sx, bool, u8)>,
    marking: bool,
    chain: Vec<u32>,
    rules: Map<Sx, Ex>,
    waiting: Vec<(u32, Sx, Ex)>,
    lenient: bool,
    formats: bool,
    any_order: bool,
    space: Ex,
    compact: bool,
    // The origin of the rules being built, for messages.
    place: String,
    // While the members of an object are written as parameters.
    style: Option<Style>,
}

/// Adds the rules for a schema to `b`; returns the expression for its values.
/// What `lenient` leaves out is added to `dropped`.
pub fn compile(b: Builder, schema: &Value, o: &Options, dropped: &mut Vec<Dropped>) -> Result<(Builder, Ex)> {
    compile_as(b, schema, o, None, dropped)
}

/// The same; with a style only for objects, whose members are written as parameters.
pub fn compile_as(
    b: Builder,
    schema: &Value,
    o: &Options,
    style: Option<Style>,
    dropped: &mut Vec<Dropped>,
) -> Result<(Builder, Ex)> {
    let root = Names::root(schema, o.draft);
    let names = Names::of(&root);
    let mut c = Compiler {
        b,
        a: Arena::new(),
        names,
        locations: Vec::new(),
        location_of: Map::default(),
        lowered: Map::default(),
        lowering: Seen::default(),
        singles: Map::default(),
        refusals: Vec::new(),
        dropped: BTreeSet::new(),
        loose: BTreeMap::new(),
        sets: Map::default(),
        expanded: Map::default(),
        impossibles: Map::default(),
        inside: 0,
        expanding: Seen::default(),
        marking: false,
        chain: Vec::new(),
        rules: Map::default(),
        waiting: Vec::new(),
        lenient: o.lenient,
        formats: o.formats,
        any_order: order::of_root(schema)?.unwrap_or(o.any_order),
        space: 0,
        compact: o.whitespace == Whitespace::Compact,
        place: String::new(),
        style: None,
    };
    let apart = std::mem::replace(&mut c.b.apart, true);
    c.space = whitespace(&mut c.b, o.whitespace);
    let x = c.at(root);
    let start = match style {
        None => c.value(x)?,
        Some(style) => c.parameters(x, style).map_err(|e| placed(e, "#"))?,
    };
    c.finish()?;
    for &i in &c.dropped {
        let r = &c.refusals[i];
        dropped.push(Dropped { pointer: r.place.clone(), keyword: r.keyword.clone(), reason: r.reason.clone() });
    }
    for ((pointer, keyword), reason) in std::mem::take(&mut c.loose) {
        dropped.push(Dropped { pointer, keyword, reason });
    }
    c.b.apart = apart;
    Ok((c.b, start))
}

fn whitespace(b: &mut Builder, w: Whitespace) -> Ex {
    match w {
        Whitespace::Compact => b.empty(),
        Whitespace::Space => {
            let s = b.p.byte(b' ');
            let s = b.p.opt(s);
            b.term(s)
        }
        Whitespace::Flexible { indent } => {
            let (s, n, tab) = (b.p.byte(b' '), b.p.byte(b'\n'), b.p.byte(b'\t'));
            let blank = b.p.or2(s, tab);
            let deep = b.p.rep(blank, 0, indent);
            let line = b.p.cat(n, deep);
            let r = b.p.or2(s, line);
            let r = b.p.opt(r);
            b.term(r)
        }
    }
}

impl<'a> Compiler<'a> {
    /// Punctuation with white space around it.
    fn spaced(&mut self, text: &[u8]) -> Ex {
        let x = self.b.lit(text);
        if self.compact {
            return x;
        }
        self.b.seq(&[self.space, x, self.space])
    }

    /// The values of an expression. Arrays and objects become rules whose bodies
    /// are made later, so that depth costs no stack.
    fn value(&mut self, x: Sx) -> Result<Ex> {
        if let Some(&e) = self.rules.get(&x) {
            return Ok(e);
        }
        // Another value: references seen on the way here do not count.
        let chain = std::mem::take(&mut self.chain);
        let scalars = self.scalars(x);
        let scalars = scalars.and_then(|s| Ok((s, self.cases(x, false, ARR)?, self.cases(x, false, OBJ)?)));
        self.chain = chain;
        let (scalars, arrays, objects) = scalars.map_err(|e| {
            let name = self.name_of(x);
            placed(e, if name.starts_with('#') { &name } else { &self.place })
        })?;
        let nested = !(arrays.is_empty() && objects.is_empty());
        let e = if nested {
            let name = self.name_of(x);
            let rule = self.b.declare(&name);
            self.waiting.push((rule, x, scalars));
            self.b.rule(rule)
        } else {
            scalars
        };
        self.rules.insert(x, e);
        if self.b.full() || self.a.len() > MAX_SHAPES {
            return Err(Error::whole("the schema takes too many rules"));
        }
        Ok(e)
    }

    fn name_of(&self, x: Sx) -> String {
        match *self.a.shape(x) {
            Shape::Loc(id) => format!("#{}", self.locations[id as usize].pointer),
            Shape::Any => "value".into(),
            _ => String::new(),
        }
    }

    fn scalars(&mut self, x: Sx) -> Result<Ex> {
        let mut parts = Vec::new();
        if self.set(x, false, NULL)? == Set::Bits(1) {
            parts.push(self.b.lit(b"null"));
        }
        if let Set::Bits(bits) = self.set(x, false, BOOL)? {
            if bits & 1 != 0 {
                parts.push(self.b.lit(b"false"));
            }
            if bits & 2 != 0 {
                parts.push(self.b.lit(b"true"));
            }
        }
        if let Set::Num(r) = self.set(x, false, NUM)? {
            match numbers::written(&mut self.b, r) {
                Some(e) => parts.push(e),
                None => return Err(Error::whole("bounds and multiples of a number take too many states together")),
            }
        }
        if let Set::Str(s) = self.set(x, false, STR)? {
            parts.push(strings::written(&mut self.b, s));
        }
        Ok(self.b.choice(&parts))
    }

    fn finish(&mut self) -> Result<()> {
        while let Some((rule, x, scalars)) = self.waiting.pop() {
            self.place = self.name_of(x);
            let mut parts = vec![scalars];
            for case in self.cases(x, false, OBJ)?.iter() {
                parts.push(self.object(case).map_err(|e| placed(e, &self.place))?);
            }
            for case in self.cases(x, false, ARR)?.iter() {
                parts.push(self.array(case).map_err(|e| placed(e, &self.place))?);
            }
            let body = self.b.choice(&parts);
            self.b.define(rule, body);
        }
        Ok(())
    }

    /// A keyword that is not enforced: refused, or dropped if lenient.
    fn drop_or_fail(&mut self, keyword: &str, reason: &str) -> Result<()> {
        let place = if self.place.starts_with('#') { self.place.clone() } else { "#".into() };
        if !self.lenient {
            return Err(Error { place, keyword: keyword.into(), reason: reason.into() });
        }
        self.loose.insert((place, keyword.into()), reason.into());
        Ok(())
    }

    fn many_free(&mut self, needed: u32) -> Result<()> {
        let reason = format!(
            "{} members without names of their own are needed, and so many are not kept apart by their first letters",
            needed
        );
        self.drop_or_fail("minProperties", &reason)
    }
}

// An error that has no place yet happened where the rules are made for.
fn placed(mut e: Error, place: &str) -> Error {
    if e.place.is_empty() && place.starts_with('#') {
        e.place = place.into();
    }
    e
}

/// Any JSON value, or any object.
pub fn anything(b: Builder, object: bool, o: &Options) -> Result<(Builder, Ex)> {
    let schema =
        if object { Value::Obj(vec![("type".into(), Value::Str("object".into()))]) } else { Value::Bool(true) };
    compile(b, &schema, o, &mut Vec::new())
}

/// The canonical text of a string, for those who compare.
pub fn quoted(s: &str) -> String {
    format!("\"{}\"", chars::escape(s))
}
