//! The constraints of each keyword of JSON Schema.

use super::expr::*;
use super::formats::{self, Format};
use super::load::{Draft, Location};
use super::{numbers, Compiler};
use crate::chars::{self, Form};
use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::json::Value;
use crate::pattern::{self, Match};
use crate::re::{Re, MANY};

/// Keywords whose place in a schema says in which order members come.
const FIRST: &[&str] = &["$ref", "$dynamicRef", "properties", "allOf"];

/// A number as it was written, or the beginning of a long one.
fn given(v: &Value) -> &str {
    match v {
        Value::Num(n) => &n[..n.len().min(32)],
        v => v.kind(),
    }
}

impl<'a> Compiler<'a> {
    /// The constraints of the schema at a location.
    pub fn lower(&mut self, id: u32) -> Result<Sx> {
        if let Some(&x) = self.lowered.get(&id) {
            return Ok(x);
        }
        let l = self.locations[id as usize].clone();
        let members = match l.value {
            Value::Bool(true) => return Ok(ANY),
            Value::Bool(false) => return Ok(NONE),
            Value::Obj(m) => m,
            v => {
                return Err(Error::pointer(
                    &l.pointer,
                    "",
                    format!("a schema is an object or a boolean, not {}", v.kind()),
                ))
            }
        };
        if !self.lowering.insert(id) {
            return Err(Error::pointer(&l.pointer, "", "the names of members refer to the schema itself"));
        }
        let x = self.lower_members(&l, members);
        self.lowering.remove(&id); // an error, too, may be asked for again
        let x = x?;
        self.lowered.insert(id, x);
        Ok(x)
    }

    fn lower_members(&mut self, l: &Location<'a>, members: &'a [(String, Value)]) -> Result<Sx> {
        let alone = l.draft == Draft::Seven && l.value.get("$ref").is_some();
        let mut parts = Vec::new();
        for first in [true, false] {
            for (k, v) in members {
                if FIRST.contains(&k.as_str()) == first && (!alone || k == "$ref") {
                    let x = self.keyword(l, k, v)?;
                    parts.push(x);
                }
            }
        }
        if l.draft != Draft::Seven {
            let x = self.unevaluated(l)?;
            parts.push(x);
        }
        Ok(self.a.and(parts))
    }

    fn keyword(&mut self, l: &Location<'a>, k: &str, v: &'a Value) -> Result<Sx> {
        match k {
            "$ref" | "$dynamicRef" => self.reference(l, k, v),
            "$recursiveRef" => Ok(self.refuse(l, k, "is not supported", TYPES)),
            "type" => self.types(l, v),
            "enum" => self.one_of_values(l, v),
            "const" => self.constant(l, v),
            "allOf" | "anyOf" | "oneOf" => self.combined(l, k, v),
            "not" => {
                let x = self.at(l.child(v, &[k]));
                Ok(self.a.not(x))
            }
            "if" => self.conditional(l, v),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => self.number(l, k, v),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                self.bound(l, k, v)
            }
            "pattern" => {
                let text = self.text(l, k, v)?;
                Ok(match pattern::compile(&mut self.b.p, text, Form::Json, Match::Search) {
                    Ok(r) => self.a.make(Shape::Str(r)),
                    Err(e) => self.refuse(l, k, &e.to_string(), STR),
                })
            }
            "format" => self.format(l, v),
            // Assertions up to draft 7, annotations since.
            "contentEncoding" | "contentMediaType" if l.draft == Draft::Seven && self.formats => self.content(l, k, v),
            "items" | "prefixItems" | "additionalItems" | "contains" | "uniqueItems" => self.array_keyword(l, k, v),
            "properties"
            | "patternProperties"
            | "additionalProperties"
            | "required"
            | "propertyNames"
            | "dependentRequired"
            | "dependentSchemas"
            | "dependencies" => self.object_keyword(l, k, v),
            // Annotations, keywords that others look at, and unknown ones: JSON
            // Schema gives them no say in what is valid.
            _ => self.annotation(l, k, v),
        }
    }

    fn text<'v>(&self, l: &Location, k: &str, v: &'v Value) -> Result<&'v str> {
        v.as_str().ok_or_else(|| self.wrong(l, k, "a string", v))
    }

    pub(super) fn wrong(&self, l: &Location, k: &str, want: &str, v: &Value) -> Error {
        Error::pointer(&l.pointer, k, format!("want {}, got {}", want, v.kind()))
    }

    /// A keyword that cannot be enforced; it matters only if a value of one of these types is
    /// possible.
    pub(super) fn refuse(&mut self, l: &Location, k: &str, reason: &str, types: u8) -> Sx {
        let e = Error::pointer(&l.pointer, k, reason);
        let i = match self.refusals.iter().position(|r| *r == e) {
            Some(i) => i,
            None => {
                self.refusals.push(e);
                self.refusals.len() - 1
            }
        };
        self.a.make(Shape::Refused(i as u32, types))
    }

    /// The schema at a location as an expression.
    pub(super) fn at(&mut self, l: Location<'a>) -> Sx {
        match l.value {
            Value::Bool(true) => return ANY,
            Value::Bool(false) => return NONE,
            _ => {}
        }
        let l = self.names.scoped(l);
        let key = (l.value as *const Value as usize, l.scope.clone());
        let id = match self.location_of.get(&key) {
            Some(&id) => id,
            None => {
                self.locations.push(l);
                let id = self.locations.len() as u32 - 1;
                self.location_of.insert(key, id);
                id
            }
        };
        self.a.make(Shape::Loc(id))
    }

    pub(super) fn target(&mut self, l: &Location<'a>, k: &str, v: &Value) -> Result<Option<Location<'a>>> {
        let text = self.text(l, k, v)?;
        match self.names.follow(l, k, text) {
            Ok(t) => Ok(Some(t)),
            Err(_) if self.lenient => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn reference(&mut self, l: &Location<'a>, k: &str, v: &'a Value) -> Result<Sx> {
        let text = self.text(l, k, v)?;
        match self.names.follow(l, k, text) {
            Ok(t) => Ok(self.at(t)),
            Err(e) => Ok(self.refuse(l, k, &e.reason, TYPES)),
        }
    }

    fn types(&mut self, l: &Location, v: &Value) -> Result<Sx> {
        let names: Vec<&Value> = match v {
            Value::Arr(v) => v.iter().collect(),
            v => vec![v],
        };
        let (mut mask, mut integer) = (0, false);
        for n in names {
            mask |= match n.as_str() {
                Some("null") => NULL,
                Some("boolean") => BOOL,
                Some("number") => NUM,
                Some("string") => STR,
                Some("array") => ARR,
                Some("object") => OBJ,
                Some("integer") => {
                    integer = true;
                    0
                }
                Some(other) => return Err(Error::pointer(&l.pointer, "type", format!("{:?} is no type", other))),
                None => return Err(self.wrong(l, "type", "a type's name or an array of them", n)),
            };
        }
        let types = self.a.types(mask | if integer { NUM } else { 0 });
        if !integer || mask & NUM != 0 {
            return Ok(types);
        }
        let r = numbers::integers(&mut self.b.p);
        let whole = self.a.make(Shape::Num(r));
        Ok(self.a.and(vec![types, whole]))
    }

    /// A member's name as a language of one text.
    pub(super) fn name(&mut self, name: &str) -> Re {
        let text = chars::escape(name);
        let r = self.b.p.literal(text.as_bytes());
        self.singles.entry(r).or_insert(text);
        r
    }

    /// All names but these.
    pub(super) fn other_names(&mut self, names: &[String], patterns: &[Re]) -> Re {
        let words: Vec<String> = names.iter().map(|n| chars::escape(n)).collect();
        let all = chars::text(&mut self.b.p, Form::Json);
        let mut parts = patterns.to_vec();
        if !words.is_empty() {
            parts.push(self.b.p.words(&words));
        }
        let known = self.b.p.or(parts);
        self.b.p.minus(all, known)
    }

    fn typed(&mut self, mask: u8, s: Shape) -> Sx {
        let (t, x) = (self.a.types(mask), self.a.make(s));
        self.a.and(vec![t, x])
    }

    fn decimal(&mut self, l: &Location, k: &str, v: &Value) -> Result<Option<Decimal>> {
        match v {
            Value::Num(n) => Ok(Decimal::parse(n)),
            v => Err(self.wrong(l, k, "a number", v)),
        }
    }

    /// Equality with a value.
    fn constant(&mut self, l: &Location, v: &Value) -> Result<Sx> {
        Ok(match v {
            Value::Null => self.a.types(NULL),
            Value::Bool(b) => self.typed(BOOL, Shape::Bool(*b)),
            Value::Str(s) => {
                let r = self.b.p.words(&[chars::escape(s)]);
                self.typed(STR, Shape::Str(r))
            }
            Value::Num(n) => match Decimal::parse(n).and_then(|d| numbers::one(&mut self.b.p, &d)) {
                Some(r) => self.typed(NUM, Shape::Num(r)),
                None => self.refuse(l, "const", "the number has too many digits", TYPES),
            },
            Value::Arr(items) => {
                let n = items.len() as u32;
                let mut parts = vec![self.typed(ARR, Shape::Count(n, n))];
                for (i, item) in items.iter().enumerate() {
                    let x = self.constant(l, item)?;
                    parts.push(self.a.make(Shape::Item(i as u32, x)));
                }
                self.a.and(parts)
            }
            Value::Obj(members) => {
                let mut parts = vec![self.a.types(OBJ)];
                for (k, v) in members {
                    let (name, x) = (self.name(k), self.constant(l, v)?);
                    parts.push(self.a.make(Shape::All(name, x)));
                    parts.push(self.a.make(Shape::Some(name, ANY)));
                }
                let names: Vec<String> = members.iter().map(|m| m.0.clone()).collect();
                let others = self.other_names(&names, &[]);
                parts.push(self.a.make(Shape::All(others, NONE)));
                self.a.and(parts)
            }
        })
    }

    fn one_of_values(&mut self, l: &Location, v: &Value) -> Result<Sx> {
        let values = match v {
            Value::Arr(v) => v,
            v => return Err(self.wrong(l, "enum", "an array", v)),
        };
        if values.is_empty() {
            let why = "[] allows no value: nothing satisfies the grammar";
            self.b.barren.push(Error::pointer(&l.pointer, "enum", why));
        }
        let (mut words, mut numbers, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for v in values {
            match v {
                Value::Str(s) => words.push(chars::escape(s)),
                Value::Num(n) => match Decimal::parse(n) {
                    Some(d) => numbers.push(d),
                    None => return Ok(self.refuse(l, "enum", "the exponent of a number is too large", TYPES)),
                },
                v => parts.push(self.constant(l, v)?),
            }
        }
        if !words.is_empty() {
            let r = self.b.p.words(&words);
            parts.push(self.typed(STR, Shape::Str(r)));
        }
        if !numbers.is_empty() {
            match numbers::several(&mut self.b.p, &numbers) {
                Some(r) => parts.push(self.typed(NUM, Shape::Num(r))),
                None => return Ok(self.refuse(l, "enum", "a number has too many digits", TYPES)),
            }
        }
        Ok(self.a.or(parts))
    }

    fn combined(&mut self, l: &Location<'a>, k: &str, v: &'a Value) -> Result<Sx> {
        let items = match v {
            Value::Arr(v) => v,
            v => return Err(self.wrong(l, k, "an array of schemas", v)),
        };
        let parts: Vec<Sx> = items.iter().enumerate().map(|(i, s)| self.at(l.child(s, &[k, &i.to_string()]))).collect();
        Ok(match k {
            "allOf" => self.a.and(parts),
            "anyOf" => self.a.or(parts),
            _ => self.exactly_one(l, parts),
        })
    }

    pub(super) fn exactly_one(&mut self, l: &Location, parts: Vec<Sx>) -> Sx {
        if parts.len() == 1 {
            return parts[0];
        }
        let why = self.refuse(l, "oneOf", "its alternatives overlap in more ways than can be told apart", TYPES);
        let why = match *self.a.shape(why) {
            Shape::Refused(i, _) => i,
            _ => 0,
        };
        self.a.make(Shape::One(parts, why))
    }

    fn conditional(&mut self, l: &Location<'a>, v: &'a Value) -> Result<Sx> {
        let cond = self.at(l.child(v, &["if"]));
        let mut branch = |k: &str| l.value.get(k).map_or(ANY, |s| self.at(l.child(s, &[k])));
        let (then, other) = (branch("then"), branch("else"));
        if (then, other) == (ANY, ANY) {
            return Ok(ANY);
        }
        let not = self.a.not(cond);
        let (yes, no) = (self.a.and(vec![cond, then]), self.a.and(vec![not, other]));
        Ok(self.a.or(vec![yes, no]))
    }

    fn number(&mut self, l: &Location, k: &str, v: &Value) -> Result<Sx> {
        // Up to draft 4 exclusive bounds are flags beside the others.
        if let Value::Bool(_) = v {
            return if k.starts_with("exclusive") { Ok(ANY) } else { Err(self.wrong(l, k, "a number", v)) };
        }
        let flag = |k: &str| l.value.get(k) == Some(&Value::Bool(true));
        let d = match self.decimal(l, k, v)? {
            Some(d) => d,
            None => return Ok(self.refuse(l, k, "the exponent is too large", NUM)),
        };
        let p = &mut self.b.p;
        let r = match k {
            "minimum" => numbers::at_least(p, &d, flag("exclusiveMinimum")),
            "maximum" => numbers::at_most(p, &d, flag("exclusiveMaximum")),
            "exclusiveMinimum" => numbers::at_least(p, &d, true),
            "exclusiveMaximum" => numbers::at_most(p, &d, true),
            _ if d.neg || d.is_zero() => {
                return Err(Error::pointer(&l.pointer, k, format!("want a number above 0, got {}", given(v))))
            },
            _ => numbers::multiples(p, &d),
        };
        Ok(match r {
            Some(r) => self.a.make(Shape::Num(r)),
            None => self.refuse(l, k, "the number has too many digits", NUM),
        })
    }

    pub(super) fn count(&mut self, l: &Location, k: &str, v: &Value) -> Result<u32> {
        match self.decimal(l, k, v)?.and_then(|d| d.count()) {
            Some(n) => Ok(n.min(MANY - 1)),
            None => Err(Error::pointer(&l.pointer, k, format!("want a whole number from 0 on, got {}", given(v)))),
        }
    }

    fn bound(&mut self, l: &Location, k: &str, v: &Value) -> Result<Sx> {
        let n = self.count(l, k, v)?;
        let low = k.starts_with("min");
        if low && n > super::MAX_COUNT {
            return Ok(self.refuse(
                l,
                k,
                &format!("more than {}", super::MAX_COUNT),
                if k.ends_with("Length") { STR } else { ARR | OBJ },
            ));
        }
        // A bound that no text reaches is none.
        let (min, max) = if low { (n, MANY) } else { (0, if n > super::MAX_COUNT { MANY } else { n }) };
        Ok(self.a.make(match &k[3..] {
            "Length" => Shape::Len(min, max),
            "Items" => Shape::Count(min, max),
            _ => Shape::Props(min, max),
        }))
    }

    fn content(&mut self, l: &Location, k: &str, v: &Value) -> Result<Sx> {
        let name = self.text(l, k, v)?;
        if let ("contentEncoding", "base64", Some(Format::Texts(r))) = (k, name, formats::find(&mut self.b.p, formats::BASE64)) {
            return Ok(self.a.make(Shape::Str(r)));
        }
        Ok(self.refuse(l, k, &format!("{:?} is not supported", name), STR))
    }

    fn format(&mut self, l: &Location, v: &Value) -> Result<Sx> {
        let name = self.text(l, "format", v)?;
        if !self.formats {
            return Ok(ANY);
        }
        Ok(match formats::find(&mut self.b.p, name) {
            Some(Format::Texts(r)) => self.a.make(Shape::Str(r)),
            Some(Format::Free) => ANY,
            Some(Format::Unknown) => {
                let reason = format!("the format {:?} is not known, so it is an annotation", name);
                self.loose.insert((format!("#{}", l.pointer), "format".into()), reason);
                ANY
            }
            Some(Format::Int(bits, signed)) => {
                let top = 1u128 << if signed { bits - 1 } else { bits };
                let parse = |v: String| Decimal::parse(&v).unwrap_or_else(|| Decimal::int(0));
                let low = parse(if signed { format!("-{}", top) } else { "0".into() });
                let p = &mut self.b.p;
                let (low, high, whole) = (
                    numbers::at_least(p, &low, false),
                    numbers::at_most(p, &parse((top - 1).to_string()), false),
                    numbers::integers(p),
                );
                let parts = low.into_iter().chain(high).chain(Some(whole)).collect();
                let r = p.and(parts);
                self.a.make(Shape::Num(r))
            }
            None => self.refuse(l, "format", &format!("the format {:?} is not supported", name), STR),
        })
    }
}
