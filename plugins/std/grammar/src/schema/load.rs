//! The locations of schemas in a document, and the resolution of references.

use super::uri;
use crate::error::{Error, Result};
use crate::json::Value;
use std::collections::HashMap;
use std::rc::Rc;

/// Which keywords there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draft {
    /// Draft 7 and older: nothing counts beside `$ref`.
    Seven,
    /// Draft 2019-09.
    Nineteen,
    /// Draft 2020-12.
    Current,
}

/// Draft of a `$schema` URI.
pub fn draft(uri: &str) -> Option<Draft> {
    let old = ["draft-03", "draft-04", "draft-06", "draft-07"];
    if old.iter().any(|d| uri.contains(&format!("json-schema.org/{}/", d))) {
        return Some(Draft::Seven);
    }
    let new = [("2019-09", Draft::Nineteen), ("2020-12", Draft::Current)];
    let known = new.iter().find(|d| uri.contains(&format!("json-schema.org/draft/{}/", d.0)));
    known.map(|d| d.1)
}

/// A schema in a document.
#[derive(Clone)]
pub struct Location<'a> {
    pub value: &'a Value,
    /// JSON pointer from the document's root.
    pub pointer: String,
    /// The URI that references are resolved against.
    pub base: String,
    pub draft: Draft,
    /// The resources on the way here that have dynamic anchors, outermost first.
    pub scope: Rc<Vec<String>>,
}

/// The names of a document's schemas.
pub struct Names<'a> {
    resources: HashMap<String, Location<'a>>,
    // By URI and name.
    anchors: HashMap<(String, String), Location<'a>>,
    // The resources that have a dynamic anchor, by URI and name.
    dynamic: HashMap<String, Vec<String>>,
}

/// A member's name in a JSON pointer.
pub fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

const SINGLE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const LIST: &[&str] = &["allOf", "anyOf", "items", "oneOf", "prefixItems"];
const MAP: &[&str] = &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

impl<'a> Location<'a> {
    /// A schema below this one: at a keyword and, where it has several, a step further.
    pub fn child(&self, value: &'a Value, steps: &[&str]) -> Location<'a> {
        let mut pointer = self.pointer.clone();
        for s in steps {
            pointer.push('/');
            pointer += &token(s);
        }
        let mut l = Location { value, pointer, base: self.base.clone(), draft: self.draft, scope: self.scope.clone() };
        l.enter();
        l
    }

    // Takes over the URI and draft that the schema gives itself.
    fn enter(&mut self) {
        let d = self.value.get("$schema").and_then(Value::as_str).and_then(draft);
        let id = self
            .value
            .get("$id")
            .or_else(|| self.value.get("id").filter(|_| d.or(Some(self.draft)) == Some(Draft::Seven)));
        // Up to draft 7 nothing counts beside $ref, and $id as "#name" is an anchor.
        let hidden = self.draft == Draft::Seven && self.value.get("$ref").is_some();
        if let (Some(id), false) = (id.and_then(Value::as_str), hidden) {
            let (uri, _) = uri::split(id);
            if !uri.is_empty() {
                self.base = uri::resolve(&self.base, uri);
            }
        }
        if let Some(d) = d {
            self.draft = d;
        }
    }
}

impl<'a> Names<'a> {
    /// Collects the names of all schemas of a document.
    pub fn of(root: &Location<'a>) -> Names<'a> {
        let mut n = Names { resources: HashMap::new(), anchors: HashMap::new(), dynamic: HashMap::new() };
        n.resources.insert(String::new(), root.clone());
        n.visit(root, None);
        n
    }

    /// Location of a document's root.
    pub fn root(value: &'a Value, default: Draft) -> Location<'a> {
        let mut l =
            Location { value, pointer: String::new(), base: String::new(), draft: default, scope: Rc::default() };
        l.enter();
        l
    }

    // Recursion is bounded by the depth of the document.
    fn visit(&mut self, l: &Location<'a>, outer: Option<&str>) {
        let members = match l.value {
            Value::Obj(m) => m,
            _ => return,
        };
        if outer != Some(l.base.as_str()) {
            self.resources.entry(l.base.clone()).or_insert_with(|| l.clone());
        }
        for (k, v) in members {
            let name = v.as_str();
            match (k.as_str(), name) {
                ("$anchor", Some(a)) => {
                    self.anchors.insert((l.base.clone(), a.into()), l.clone());
                }
                ("$dynamicAnchor", Some(a)) => {
                    self.anchors.insert((l.base.clone(), a.into()), l.clone());
                    self.dynamic.entry(l.base.clone()).or_default().push(a.into());
                }
                ("$id" | "id", Some(id)) if l.draft == Draft::Seven => {
                    if let (_, Some(a)) = uri::split(id) {
                        self.anchors.insert((l.base.clone(), a.into()), l.clone());
                    }
                }
                _ => {}
            }
            if SINGLE.contains(&k.as_str()) && !matches!(v, Value::Arr(_)) {
                self.visit(&l.child(v, &[k]), Some(&l.base));
            }
            match v {
                Value::Arr(items) if LIST.contains(&k.as_str()) => {
                    for (i, item) in items.iter().enumerate() {
                        self.visit(&l.child(item, &[k, &i.to_string()]), Some(&l.base));
                    }
                }
                Value::Obj(m) if MAP.contains(&k.as_str()) => {
                    for (name, item) in m {
                        self.visit(&l.child(item, &[k, name]), Some(&l.base));
                    }
                }
                _ => {}
            }
        }
    }

    /// A location with its own resource in its scope.
    pub fn scoped(&self, mut l: Location<'a>) -> Location<'a> {
        if self.dynamic.contains_key(&l.base) && !l.scope.contains(&l.base) {
            let mut scope = (*l.scope).clone();
            scope.push(l.base.clone());
            l.scope = Rc::new(scope);
        }
        l
    }

    /// The schema that a `$ref` or `$dynamicRef` at `from` means.
    pub fn follow(&self, from: &Location<'a>, keyword: &str, reference: &str) -> Result<Location<'a>> {
        let mut target = self.find(from, keyword, reference)?;
        let name = uri::split(reference).1.unwrap_or("");
        // A dynamic anchor is that of the outermost resource on the way that has it.
        if keyword == "$dynamicRef" && target.value.get("$dynamicAnchor").and_then(Value::as_str) == Some(name) {
            let has = |base: &&String| self.dynamic.get(*base).map_or(false, |v| v.iter().any(|n| n == name));
            let outer = from.scope.iter().find(has).and_then(|b| self.anchors.get(&(b.clone(), name.into())));
            target = outer.cloned().unwrap_or(target);
        }
        target.scope = from.scope.clone();
        Ok(target)
    }

    // The schema that a reference names.
    fn find(&self, from: &Location<'a>, keyword: &str, reference: &str) -> Result<Location<'a>> {
        let fail = |reason: String| Error::pointer(&from.pointer, keyword, reason);
        let (uri, fragment) = uri::split(reference);
        let target = if uri.is_empty() { from.base.clone() } else { uri::resolve(&from.base, uri) };
        let resource = match self.resources.get(&target) {
            Some(r) => r,
            None => return Err(fail(format!("{:?} is not in this document, and others are not loaded", reference))),
        };
        let fragment = match uri::unescape(fragment.unwrap_or("")) {
            Some(f) => f,
            None => return Err(fail(format!("{:?} is no UTF-8", reference))),
        };
        if fragment.is_empty() {
            return Ok(resource.clone());
        }
        if !fragment.starts_with('/') {
            let found = self.anchors.get(&(target, fragment));
            return found.cloned().ok_or_else(|| fail(format!("there is no schema called {:?}", reference)));
        }
        let mut at = resource.clone();
        for step in fragment[1..].split('/') {
            let name = step.replace("~1", "/").replace("~0", "~");
            let next = match at.value {
                Value::Obj(_) => at.value.get(&name),
                Value::Arr(v) => name.parse::<usize>().ok().and_then(|i| v.get(i)),
                _ => None,
            };
            at = match next {
                Some(v) => at.child(v, &[&name]),
                None => return Err(fail(format!("there is nothing at {:?}", reference))),
            };
        }
        Ok(at)
    }
}
