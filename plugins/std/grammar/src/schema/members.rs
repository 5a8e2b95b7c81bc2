//! Keywords about the items of arrays and the members of objects.

use super::expr::*;
use super::load::{Draft, Location};
use super::Compiler;
use crate::chars::{self, Form};
use crate::error::Result;
use crate::json::Value;
use crate::pattern::{self, Match};
use crate::re::{Re, MANY};

impl<'a> Compiler<'a> {
    pub(super) fn array_keyword(&mut self, l: &Location<'a>, k: &str, v: &'a Value) -> Result<Sx> {
        match (k, v) {
            ("prefixItems", Value::Arr(items)) | ("items", Value::Arr(items)) => {
                let mut parts = Vec::new();
                for (i, s) in items.iter().enumerate() {
                    let x = self.at(l.child(s, &[k, &i.to_string()]));
                    parts.push(self.a.make(Shape::Item(i as u32, x)));
                }
                Ok(self.a.and(parts))
            }
            ("items", _) => {
                let from = self.prefix(l);
                let x = self.at(l.child(v, &[k]));
                Ok(self.a.make(Shape::Items(from, x)))
            }
            // Counts only beside an array of items.
            ("additionalItems", _) => match l.value.get("items") {
                Some(Value::Arr(items)) => {
                    let x = self.at(l.child(v, &[k]));
                    Ok(self.a.make(Shape::Items(items.len() as u32, x)))
                }
                _ => Ok(ANY),
            },
            ("contains", _) => {
                let (mut min, mut max) = (1, MANY);
                if l.draft != Draft::Seven {
                    if let Some(v) = l.value.get("minContains") {
                        min = self.count(l, "minContains", v)?;
                    }
                    if let Some(v) = l.value.get("maxContains") {
                        max = self.count(l, "maxContains", v)?;
                    }
                }
                if min > max {
                    return Ok(self.a.types(TYPES & !ARR));
                }
                let x = self.at(l.child(v, &[k]));
                Ok(self.a.make(Shape::Contains(0, x, min, max)))
            }
            ("uniqueItems", Value::Bool(true)) => Ok(self.a.make(Shape::Unique)),
            ("uniqueItems", Value::Bool(false)) => Ok(ANY),
            _ => Err(self.wrong(l, k, if k == "uniqueItems" { "a boolean" } else { "an array of schemas" }, v)),
        }
    }

    /// How many items have schemas of their own.
    pub(super) fn prefix(&self, l: &Location) -> u32 {
        match (l.draft, l.value.get("prefixItems")) {
            (Draft::Current, Some(Value::Arr(v))) => v.len() as u32,
            _ => 0,
        }
    }

    fn members<'v>(&self, l: &Location, k: &str, v: &'v Value) -> Result<&'v [(String, Value)]> {
        match v {
            Value::Obj(m) => Ok(m),
            v => Err(self.wrong(l, k, "an object", v)),
        }
    }

    fn strings(&self, l: &Location, k: &str, v: &Value) -> Result<Vec<String>> {
        let items = match v {
            Value::Arr(v) => v.as_slice(),
            // Up to draft 4 `required` was a flag of a property.
            Value::Bool(_) if k == "required" => return Ok(Vec::new()),
            v => return Err(self.wrong(l, k, "an array of names", v)),
        };
        items.iter().map(|v| v.as_str().map(String::from).ok_or_else(|| self.wrong(l, k, "a name", v))).collect()
    }

    /// The names that a pattern of `patternProperties` matches. None: refused.
    pub(super) fn pattern_names(&mut self, l: &Location, pattern: &str) -> std::result::Result<Re, Sx> {
        pattern::compile(&mut self.b.p, pattern, Form::Json, Match::Search).map_err(|e| {
            let text = format!("{:?}: {}", pattern, e);
            self.refuse(l, "patternProperties", &text, OBJ)
        })
    }

    /// The names that `properties` and `patternProperties` of a schema cover.
    pub(super) fn covered(&mut self, l: &Location) -> (Vec<String>, Vec<Re>) {
        let names = match l.value.get("properties") {
            Some(Value::Obj(m)) => m.iter().map(|m| m.0.clone()).collect(),
            _ => Vec::new(),
        };
        let mut patterns = Vec::new();
        if let Some(Value::Obj(m)) = l.value.get("patternProperties") {
            for (pattern, _) in m {
                patterns.extend(self.pattern_names(l, pattern).ok());
            }
        }
        (names, patterns)
    }

    fn require(&mut self, names: &[String]) -> Sx {
        let parts = names
            .iter()
            .map(|n| {
                let name = self.name(n);
                self.a.make(Shape::Some(name, ANY))
            })
            .collect();
        self.a.and(parts)
    }

    // Where there is a member of that name, x holds.
    fn dependent(&mut self, name: &str, x: Sx) -> Sx {
        let name = self.name(name);
        let (absent, present) = (self.a.make(Shape::All(name, NONE)), self.a.make(Shape::Some(name, ANY)));
        let then = self.a.and(vec![present, x]);
        self.a.or(vec![absent, then])
    }

    pub(super) fn object_keyword(&mut self, l: &Location<'a>, k: &str, v: &'a Value) -> Result<Sx> {
        let mut parts = Vec::new();
        match k {
            "required" => {
                let names = self.strings(l, k, v)?;
                return Ok(self.require(&names));
            }
            "additionalProperties" => {
                let (names, patterns) = self.covered(l);
                let others = self.other_names(&names, &patterns);
                let x = self.at(l.child(v, &[k]));
                return Ok(self.a.make(Shape::All(others, x)));
            }
            "propertyNames" => {
                let x = self.at(l.child(v, &[k]));
                let names = self.strings_of(x)?;
                let all = chars::text(&mut self.b.p, Form::Json);
                let texts = names.texts(&mut self.b.p);
                let others = self.b.p.minus(all, texts);
                return Ok(self.a.make(Shape::All(others, NONE)));
            }
            _ => {}
        }
        for (name, s) in match v {
            Value::Obj(m) => m,
            _ => return self.members(l, k, v).map(|_| ANY),
        } {
            let part = match (k, s) {
                ("properties", _) => {
                    let (n, x) = (self.name(name), self.at(l.child(s, &[k, name])));
                    self.a.make(Shape::All(n, x))
                }
                ("patternProperties", _) => match self.pattern_names(l, name) {
                    Ok(names) => {
                        let x = self.at(l.child(s, &[k, name]));
                        self.a.make(Shape::All(names, x))
                    }
                    Err(refused) => refused,
                },
                ("dependentRequired", _) | ("dependencies", Value::Arr(_)) => {
                    let names = self.strings(l, k, s)?;
                    let x = self.require(&names);
                    self.dependent(name, x)
                }
                _ => {
                    let x = self.at(l.child(s, &[k, name]));
                    self.dependent(name, x)
                }
            };
            parts.push(part);
        }
        Ok(self.a.and(parts))
    }
}
