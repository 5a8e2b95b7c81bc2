//! Structural tags: XGrammar's JSON form for free text with structured parts,
//! the older form with `structures` and `triggers` included.

use crate::build::{Builder, Ex};
use crate::chars::{self, Form};
use crate::error::{Error, Result};
use crate::json::{self, Value};
use crate::pattern::{self, Match};
use crate::re::{Re, ALL, MANY};
use crate::{gbnf, schema, Dropped, Options};

struct Lower<'o> {
    b: Builder,
    options: &'o Options,
    dropped: &'o mut Vec<Dropped>,
}

/// Adds the rules of a structural tag.
pub fn compile(b: Builder, source: &str, options: &Options, dropped: &mut Vec<Dropped>) -> Result<(Builder, Ex)> {
    let v = json::parse(source)?;
    let mut l = Lower { b, options, dropped };
    let x = match (v.get("format"), v.get("structures")) {
        (Some(f), _) => l.format(f, "/format", &[])?,
        (None, Some(Value::Arr(items))) => l.older(&v, items)?,
        // A format alone.
        _ => l.format(&v, "", &[])?,
    };
    Ok((l.b, x))
}

fn text<'v>(v: &'v Value, at: &str, k: &str) -> Result<&'v str> {
    match v.get(k) {
        Some(Value::Str(s)) => Ok(s),
        Some(other) => Err(Error::pointer(at, k, format!("want a string, got {}", other.kind()))),
        None => Err(Error::pointer(at, k, "is missing")),
    }
}

// One string or several.
fn texts(v: &Value, at: &str, k: &str) -> Result<Vec<String>> {
    let wrong = |v: &Value| Error::pointer(at, k, format!("want strings, got {}", v.kind()));
    match v.get(k) {
        None => Ok(Vec::new()),
        Some(Value::Str(s)) => Ok(vec![s.clone()]),
        Some(Value::Arr(items)) => items.iter().map(|i| i.as_str().map(String::from).ok_or_else(|| wrong(i))).collect(),
        Some(v) => Err(wrong(v)),
    }
}

fn items<'v>(v: &'v Value, at: &str, k: &str) -> Result<&'v [Value]> {
    match v.get(k) {
        Some(Value::Arr(items)) => Ok(items),
        Some(other) => Err(Error::pointer(at, k, format!("want an array, got {}", other.kind()))),
        None => Err(Error::pointer(at, k, "is missing")),
    }
}

fn flag(v: &Value, at: &str, k: &str) -> Result<bool> {
    match v.get(k) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(b)) => Ok(*b),
        Some(other) => Err(Error::pointer(at, k, format!("want a boolean, got {}", other.kind()))),
    }
}

fn count(v: &Value, at: &str, k: &str, default: u32) -> Result<u32> {
    match v.get(k) {
        None | Some(Value::Null) => Ok(default),
        // XGrammar's sign for no bound.
        Some(Value::Num(n)) if n == "-1" => Ok(MANY),
        Some(Value::Num(n)) => match n.parse::<u32>() {
            Ok(n) if n <= crate::scan::MAX_COUNT => Ok(n),
            _ => Err(Error::pointer(at, k, format!("want a whole number up to {}, got {}", crate::scan::MAX_COUNT, n))),
        },
        Some(other) => Err(Error::pointer(at, k, format!("want a number, got {}", other.kind()))),
    }
}

/// A tag: how it begins, and what comes behind that.
struct Tag {
    begin: String,
    rest: Ex,
}

impl Lower<'_> {
    fn older(&mut self, v: &Value, structures: &[Value]) -> Result<Ex> {
        let mut tags = Vec::new();
        for (i, s) in structures.iter().enumerate() {
            let at = format!("/structures/{}", i);
            let schema = s.get("schema").cloned().unwrap_or(Value::Bool(true));
            let content =
                Value::Obj(vec![("type".into(), Value::Str("json_schema".into())), ("json_schema".into(), schema)]);
            let tag = Value::Obj(vec![
                ("begin".into(), Value::Str(text(s, &at, "begin")?.into())),
                ("content".into(), content),
                ("end".into(), Value::Str(text(s, &at, "end")?.into())),
            ]);
            tags.push(self.tag(&tag, &at)?);
        }
        let triggers = texts(v, "", "triggers")?;
        self.triggered(v, "", triggers, tags, &[])
    }

    // Free text in a format ends before any of the stops.
    fn format(&mut self, v: &Value, at: &str, stops: &[String]) -> Result<Ex> {
        let kind = text(v, at, "type")?;
        let x = match kind {
            "const_string" => {
                let t = text(v, at, "value")?;
                self.b.lit(t.as_bytes())
            }
            "json_schema" => self.schema(v, at)?,
            "regex" => {
                let r = pattern::compile(&mut self.b.p, text(v, at, "pattern")?, Form::Raw, Match::Part);
                let r = r.map_err(|e| Error::pointer(at, "pattern", e.to_string()))?;
                self.b.term(r)
            }
            "grammar" => {
                let source = text(v, at, "grammar")?;
                let (b, x) = gbnf::compile(std::mem::take(&mut self.b), source)
                    .map_err(|e| Error::pointer(at, "grammar", e.to_string()))?;
                self.b = b;
                x
            }
            "any_text" => {
                for k in ["max_tokens", "max_chars"] {
                    if v.get(k).map_or(false, |v| *v != Value::Null) {
                        return Err(Error::pointer(at, k, "is not supported"));
                    }
                }
                let mut without = texts(v, at, "excludes")?;
                without.extend_from_slice(stops);
                let r = self.without(&without);
                self.b.term(r)
            }
            "sequence" | "or" => {
                let list = items(v, at, "elements")?;
                let mut parts = Vec::new();
                for (i, e) in list.iter().enumerate() {
                    // Only the last of a sequence stands before what comes behind it.
                    let last = kind == "or" || i + 1 == list.len();
                    parts.push(self.format(e, &format!("{}/elements/{}", at, i), if last { stops } else { &[] })?);
                }
                if kind == "or" {
                    self.b.choice(&parts)
                } else {
                    self.b.seq(&parts)
                }
            }
            "optional" | "star" | "plus" | "repeat" => {
                let content = self.member(v, at, "content", stops)?;
                let (min, max) = match kind {
                    "optional" => (0, 1),
                    "star" => (0, MANY),
                    "plus" => (1, MANY),
                    _ => (count(v, at, "min", 0)?, count(v, at, "max", MANY)?),
                };
                if min > max {
                    return Err(Error::pointer(at, "min", format!("{} is above max, {}", min, max)));
                }
                self.b.times(content, min, max)
            }
            "tag" => {
                let tag = self.tag(v, at)?;
                self.whole(&tag)
            }
            "triggered_tags" => {
                let tags = self.tags(v, at)?;
                let triggers = texts(v, at, "triggers")?;
                self.triggered(v, at, triggers, tags, stops)?
            }
            "tags_with_separator" => {
                let tags = self.tags(v, at)?;
                let parts: Vec<Ex> = tags.iter().map(|t| self.whole(t)).collect();
                let (tag, between) = (self.b.choice(&parts), self.b.lit(text(v, at, "separator")?.as_bytes()));
                let min = flag(v, at, "at_least_one")? as u32;
                let max = if flag(v, at, "stop_after_first")? { 1 } else { MANY };
                self.b.list(tag, between, min, max)
            }
            "token" => self.b.token_text(text(v, at, "token")?),
            other => return Err(Error::pointer(at, "type", format!("{:?} is not supported", other))),
        };
        if self.b.full() {
            return Err(Error::pointer(at, "", "the grammar is too large"));
        }
        // A rule of its own: what is written once is shared.
        Ok(x)
    }

    fn member(&mut self, v: &Value, at: &str, k: &str, stops: &[String]) -> Result<Ex> {
        match v.get(k) {
            Some(m) => self.format(m, &format!("{}/{}", at, k), stops),
            None => Err(Error::pointer(at, k, "is missing")),
        }
    }

    fn schema(&mut self, v: &Value, at: &str) -> Result<Ex> {
        if let Some(s) = v.get("style").filter(|s| s.as_str() != Some("json")) {
            return Err(Error::pointer(
                at,
                "style",
                format!("{:?} is not supported; \"json\" is", s.as_str().unwrap_or(s.kind())),
            ));
        }
        let parsed;
        let schema = match v.get("json_schema") {
            Some(Value::Str(s)) => {
                parsed = json::parse(s).map_err(|e| Error::pointer(at, "json_schema", e.to_string()))?;
                &parsed
            }
            Some(s) => s,
            None => return Err(Error::pointer(at, "json_schema", "is missing")),
        };
        let before = self.dropped.len();
        let (b, x) =
            schema::compile(std::mem::take(&mut self.b), schema, self.options, self.dropped).map_err(|mut e| {
                e.place = format!("#{}/json_schema{}", at, e.place.trim_start_matches('#'));
                e
            })?;
        for d in &mut self.dropped[before..] {
            d.pointer = format!("#{}/json_schema{}", at, d.pointer.trim_start_matches('#'));
        }
        self.b = b;
        Ok(x)
    }

    // All texts in which none of these comes.
    fn without(&mut self, words: &[String]) -> Re {
        let p = &mut self.b.p;
        let all = chars::text(p, Form::Raw);
        if words.is_empty() {
            return all;
        }
        let found = p.words(words);
        let found = p.seq(&[ALL, found, ALL]);
        p.minus(all, found)
    }

    fn tags(&mut self, v: &Value, at: &str) -> Result<Vec<Tag>> {
        let list = items(v, at, "tags")?;
        if list.is_empty() {
            return Err(Error::pointer(at, "tags", "want at least one"));
        }
        list.iter().enumerate().map(|(i, t)| self.tag(t, &format!("{}/tags/{}", at, i))).collect()
    }

    fn tag(&mut self, v: &Value, at: &str) -> Result<Tag> {
        let ends = texts(v, at, "end")?;
        if v.get("end").is_none() {
            return Err(Error::pointer(at, "end", "is missing"));
        }
        let stops: Vec<String> = ends.iter().filter(|e| !e.is_empty()).cloned().collect();
        let content = self.member(v, at, "content", &stops)?;
        let parts: Vec<Ex> = ends.iter().map(|e| self.b.lit(e.as_bytes())).collect();
        let end = self.b.choice(&parts);
        Ok(Tag { begin: text(v, at, "begin")?.into(), rest: self.b.seq(&[content, end]) })
    }

    fn whole(&mut self, t: &Tag) -> Ex {
        let begin = self.b.lit(t.begin.as_bytes());
        self.b.seq(&[begin, t.rest])
    }

    // Free text up to a trigger, then the rest of a tag that begins with it, and
    // so on.
    fn triggered(
        &mut self,
        v: &Value,
        at: &str,
        triggers: Vec<String>,
        tags: Vec<Tag>,
        stops: &[String],
    ) -> Result<Ex> {
        if triggers.is_empty() || triggers.iter().any(String::is_empty) {
            return Err(Error::pointer(at, "triggers", "want at least one, and none empty"));
        }
        let mut behind: Vec<Vec<Ex>> = vec![Vec::new(); triggers.len()];
        for (i, t) in tags.iter().enumerate() {
            let fits: Vec<usize> = (0..triggers.len()).filter(|&j| t.begin.starts_with(&triggers[j])).collect();
            if fits.len() != 1 {
                let reason = format!("{:?} begins with {} of the triggers, want exactly one", t.begin, fits.len());
                return Err(Error::pointer(&format!("{}/tags/{}", at, i), "begin", reason));
            }
            let more = self.b.lit(&t.begin.as_bytes()[triggers[fits[0]].len()..]);
            behind[fits[0]].push(self.b.seq(&[more, t.rest]));
        }
        let mut excluded = texts(v, at, "excludes")?;
        excluded.extend_from_slice(stops);
        let mut parts = Vec::new();
        for (j, rests) in behind.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
            let up_to = self.up_to(&triggers, j, &excluded);
            let (up_to, rest) = (self.b.term(up_to), self.b.choice(rests));
            parts.push(self.b.seq(&[up_to, rest]));
        }
        let part = self.b.choice(&parts);
        let mut words = triggers;
        words.extend(excluded);
        let free = self.without(&words);
        let free = self.b.term(free);
        let once = flag(v, at, "stop_after_first")?;
        if !flag(v, at, "at_least_one")? {
            return Ok(if once {
                self.b.choice(&[part, free])
            } else {
                let calls = self.b.times(part, 0, MANY);
                self.b.seq(&[calls, free])
            });
        }
        // The first tag comes at once.
        let first: Vec<Ex> = tags.iter().map(|t| self.whole(t)).collect();
        let first = self.b.choice(&first);
        if once {
            return Ok(first);
        }
        let calls = self.b.times(part, 0, MANY);
        Ok(self.b.seq(&[first, calls, free]))
    }

    // Text up to and with trigger j, in which no trigger ends before and nothing
    // excluded comes.
    fn up_to(&mut self, triggers: &[String], j: usize, excluded: &[String]) -> Re {
        let p = &mut self.b.p;
        let (all, this) = (chars::text(p, Form::Raw), p.literal(triggers[j].as_bytes()));
        let with = p.cat(all, this);
        let any = p.bytes([u64::MAX; 4]);
        let some = p.rep(any, 1, MANY);
        let found = p.words(triggers);
        let early = p.seq(&[ALL, found, some]);
        let r = p.minus(with, early);
        if excluded.is_empty() {
            return r;
        }
        let words = p.words(excluded);
        let bad = p.seq(&[ALL, words, ALL]);
        p.minus(r, bad)
    }
}
