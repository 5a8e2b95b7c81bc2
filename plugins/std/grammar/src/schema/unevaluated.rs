//! `unevaluatedProperties` and `unevaluatedItems`.
//!
//! Which members and items are evaluated depends on which of a schema's alternatives match. So the
//! alternatives are split into branches that exclude each other, each with what it evaluates; the
//! keyword applies to the rest.

use super::expr::*;
use super::load::{Draft, Location};
use super::Compiler;
use crate::error::Result;
use crate::json::Value;
use crate::re::{Re, ALL, NEVER};

/// Most branches of one schema.
const MAX_BRANCHES: usize = 128;

/// What a branch has evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    // Names of members.
    names: Re,
    // How many items, from the first on.
    items: u32,
    // Items of these kinds.
    kinds: Vec<Sx>,
}

#[derive(Clone, Debug)]
struct Branch {
    // What holds here beside the schema itself.
    holds: Sx,
    seen: Seen,
}

const NOTHING: Seen = Seen { names: NEVER, items: 0, kinds: Vec::new() };

impl<'a> Compiler<'a> {
    /// The constraints of `unevaluatedProperties` and `unevaluatedItems` of a schema.
    pub(super) fn unevaluated(&mut self, l: &Location<'a>) -> Result<Sx> {
        let (members, items) = (l.value.get("unevaluatedProperties"), l.value.get("unevaluatedItems"));
        if members.is_none() && items.is_none() {
            return Ok(ANY);
        }
        let branches = match self.branches(l, true, &mut Vec::new())? {
            Some(b) => b,
            None => {
                return Ok(self.refuse(
                    l,
                    "unevaluatedProperties",
                    "what it applies to depends on too many alternatives",
                    ARR | OBJ,
                ))
            }
        };
        let mut out = Vec::new();
        for b in branches {
            let mut parts = vec![b.holds];
            if let Some(s) = members {
                let x = self.at(l.child(s, &["unevaluatedProperties"]));
                let every = crate::chars::text(&mut self.b.p, crate::chars::Form::Json);
                let rest = self.b.p.minus(every, b.seen.names);
                if rest != NEVER {
                    parts.push(self.a.make(Shape::All(rest, x)));
                }
            }
            if let Some(s) = items {
                let x = self.at(l.child(s, &["unevaluatedItems"]));
                let mut kinds = b.seen.kinds.clone();
                kinds.push(x);
                let x = self.a.or(kinds);
                parts.push(self.a.make(Shape::Items(b.seen.items, x)));
            }
            out.push(self.a.and(parts));
        }
        Ok(self.a.or(out))
    }

    // None: too many, or a schema that refers to itself.
    fn branches(&mut self, l: &Location<'a>, outer: bool, way: &mut Vec<usize>) -> Result<Option<Vec<Branch>>> {
        let key = l.value as *const Value as usize;
        if way.contains(&key) || way.len() > 60 {
            return Ok(None);
        }
        way.push(key);
        let l = &self.names.scoped(l.clone());
        let r = self.branches_of(l, outer, way);
        way.pop();
        r
    }

    fn branches_of(&mut self, l: &Location<'a>, outer: bool, way: &mut Vec<usize>) -> Result<Option<Vec<Branch>>> {
        let members = match l.value {
            Value::Obj(m) => m,
            _ => return Ok(Some(vec![Branch { holds: ANY, seen: NOTHING }])),
        };
        let own = self.own(l, outer);
        let mut out = vec![Branch { holds: ANY, seen: own }];
        for (k, v) in members {
            let next = match (k.as_str(), v) {
                ("$ref" | "$dynamicRef", _) => match self.target(l, k, v)? {
                    Some(t) => self.branches(&t, false, way)?,
                    None => None,
                },
                ("allOf", Value::Arr(items)) => {
                    let mut all = Some(vec![Branch { holds: ANY, seen: NOTHING }]);
                    for (i, s) in items.iter().enumerate() {
                        let b = self.branches(&l.child(s, &[k, &i.to_string()]), false, way)?;
                        all = self.combine(all, b);
                    }
                    all
                }
                ("anyOf", Value::Arr(items)) | ("oneOf", Value::Arr(items)) => self.alternatives(l, k, items, way)?,
                ("if", _) => self.conditional_branches(l, v, way)?,
                ("dependentSchemas", Value::Obj(m)) => {
                    let mut all = Some(vec![Branch { holds: ANY, seen: NOTHING }]);
                    for (name, s) in m {
                        let n = self.name(name);
                        let (absent, present) = (self.a.make(Shape::All(n, NONE)), self.a.make(Shape::Some(n, ANY)));
                        let t = l.child(s, &[k, name]);
                        let b = self.branches(&t, false, way)?;
                        let b = self.under(b, present);
                        let both = b.map(|mut b| {
                            b.push(Branch { holds: absent, seen: NOTHING });
                            b
                        });
                        all = self.combine(all, both);
                    }
                    all
                }
                _ => continue,
            };
            let next = self.merged(next);
            let combined = self.combine(Some(out), next);
            out = match self.merged(combined) {
                Some(b) => b,
                None => return Ok(None),
            };
        }
        Ok(Some(out))
    }

    // What a schema's own keywords evaluate.
    fn own(&mut self, l: &Location<'a>, outer: bool) -> Seen {
        let (names, patterns) = self.covered(l);
        let mut parts = patterns;
        if !names.is_empty() {
            let words: Vec<String> = names.iter().map(|n| crate::chars::escape(n)).collect();
            parts.push(self.b.p.words(&words));
        }
        let has = |k: &str| l.value.get(k).is_some();
        if has("additionalProperties") || (has("unevaluatedProperties") && !outer) {
            parts = vec![ALL];
        }
        let mut seen = NOTHING;
        seen.names = self.b.p.or(parts);
        let tuple = matches!(l.value.get("items"), Some(Value::Arr(_)));
        seen.items = match l.value.get("items") {
            Some(Value::Arr(v)) => v.len() as u32,
            _ => self.prefix(l),
        };
        if (has("items") && !tuple) || (tuple && has("additionalItems")) || (has("unevaluatedItems") && !outer) {
            seen.items = u32::MAX;
        }
        // In 2019-09 `contains` evaluates nothing.
        if let (Some(c), Draft::Current) = (l.value.get("contains"), l.draft) {
            seen.kinds.push(self.at(l.child(c, &["contains"])));
        }
        seen
    }

    fn alternatives(
        &mut self,
        l: &Location<'a>,
        k: &str,
        items: &'a [Value],
        way: &mut Vec<usize>,
    ) -> Result<Option<Vec<Branch>>> {
        let mut lists = Vec::new();
        for (i, s) in items.iter().enumerate() {
            let t = l.child(s, &[k, &i.to_string()]);
            let b = match self.branches(&t, false, way)? {
                Some(b) => b,
                None => return Ok(None),
            };
            let x = self.at(t);
            lists.push((x, self.under(Some(b), x).unwrap_or_default()));
        }
        // If none evaluates anything, it does not matter which match.
        if lists.iter().all(|l| l.1.iter().all(|b| b.seen == NOTHING)) {
            return Ok(Some(vec![Branch { holds: ANY, seen: NOTHING }]));
        }
        let mut all = Some(vec![Branch { holds: ANY, seen: NOTHING }]);
        for (x, b) in lists {
            let mut b = b;
            b.push(Branch { holds: self.a.not(x), seen: NOTHING });
            let combined = self.combine(all, Some(b));
            all = self.merged(combined);
        }
        Ok(all)
    }

    fn conditional_branches(
        &mut self,
        l: &Location<'a>,
        v: &'a Value,
        way: &mut Vec<usize>,
    ) -> Result<Option<Vec<Branch>>> {
        let t = l.child(v, &["if"]);
        let cond = self.at(t.clone());
        let yes = self.branches(&t, false, way)?;
        let mut yes = self.under(yes, cond);
        let not = self.a.not(cond);
        let mut no = Some(vec![Branch { holds: not, seen: NOTHING }]);
        for (k, list) in [("then", &mut yes), ("else", &mut no)] {
            if let Some(s) = l.value.get(k) {
                let b = self.branches(&l.child(s, &[k]), false, way)?;
                let before = list.take();
                *list = self.combine(before, b);
            }
        }
        Ok(match (yes, no) {
            (Some(y), Some(n)) => Some(y.into_iter().chain(n).collect()),
            _ => None,
        })
    }

    fn under(&mut self, b: Option<Vec<Branch>>, x: Sx) -> Option<Vec<Branch>> {
        let b = b?.into_iter().map(|b| Branch { holds: self.a.and(vec![x, b.holds]), seen: b.seen });
        Some(b.filter(|b| b.holds != NONE).collect())
    }

    fn combine(&mut self, a: Option<Vec<Branch>>, b: Option<Vec<Branch>>) -> Option<Vec<Branch>> {
        let (a, b) = (a?, b?);
        if a.len() * b.len() > 8 * MAX_BRANCHES {
            return None;
        }
        let mut out = Vec::new();
        for x in &a {
            for y in &b {
                let holds = self.a.and(vec![x.holds, y.holds]);
                let mut kinds = x.seen.kinds.clone();
                kinds.extend(y.seen.kinds.iter().filter(|k| !x.seen.kinds.contains(k)));
                let names = self.b.p.or2(x.seen.names, y.seen.names);
                let items = x.seen.items.max(y.seen.items);
                if holds != NONE {
                    out.push(Branch { holds, seen: Seen { names, items, kinds } });
                }
            }
        }
        Some(out)
    }

    // Joins branches that evaluated the same.
    fn merged(&mut self, b: Option<Vec<Branch>>) -> Option<Vec<Branch>> {
        let mut out: Vec<Branch> = Vec::new();
        for b in b? {
            match out.iter_mut().find(|o| o.seen == b.seen) {
                Some(o) => o.holds = self.a.or(vec![o.holds, b.holds]),
                None => out.push(b),
            }
        }
        Some(out).filter(|o| o.len() <= MAX_BRANCHES)
    }
}
