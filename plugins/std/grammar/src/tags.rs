//! Structural tags: XGrammar's JSON form for free text with structured parts,
//! the older form with `structures` and `triggers` included.
//!
//! Where XGrammar has a text that a tag begins or ends with, a token may stand as
//! well; texts and tokens may be mixed in one list.

mod free;
mod read;

use crate::build::{Builder, Ex};
use crate::chars::Form;
use crate::error::{Error, Result};
use crate::json::{self, Value};
use crate::pattern::{self, Match};
use crate::re::MANY;
use crate::schema::Style;
use crate::{gbnf, lark, schema, Dropped, Options, Vocabulary, Whitespace};
use free::{Rule, Turns};
use read::{count, flag, items, mark, marks, member, text, token, tokens, words, Mark, Stops, Token};

struct Lower<'o> {
    b: Builder,
    options: &'o Options,
    vocabulary: &'o dyn Vocabulary,
    dropped: &'o mut Vec<Dropped>,
}

/// Adds the rules of a structural tag. Texts of excluded tokens are looked up in
/// the vocabulary; others are left to who runs the grammar.
pub fn compile(
    b: Builder,
    source: &str,
    options: &Options,
    vocabulary: &dyn Vocabulary,
    dropped: &mut Vec<Dropped>,
) -> Result<(Builder, Ex)> {
    let v = json::parse(source)?;
    let mut l = Lower { b, options, vocabulary, dropped };
    let none = Stops::default();
    let x = match (v.get("format"), v.get("structures")) {
        (Some(f), _) => l.format(f, "/format", &none)?,
        (None, Some(Value::Arr(items))) => l.older(&v, items)?,
        // A format alone.
        _ => l.format(&v, "", &none)?,
    };
    Ok((l.b, x))
}

/// A tag: how it begins, and what comes behind that.
struct Tag {
    begin: Mark,
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
        self.triggered(v, "", tags, &Stops::default())
    }

    // Free text in a format ends before any of the stops.
    fn format(&mut self, v: &Value, at: &str, stops: &Stops) -> Result<Ex> {
        let kind = text(v, at, "type")?;
        let x = match kind {
            "const_string" => {
                let t = text(v, at, "value")?;
                self.b.lit(t.as_bytes())
            }
            "json_schema" => {
                let style = self.style(v, at)?;
                self.schema(v, at, style)?
            }
            "qwen_xml_parameter" => self.schema(v, at, Some(Style::Qwen))?,
            "regex" => {
                // A whole one is looked at alone: its ends are where anchors match.
                let how = if flag(v, at, "whole", false)? { Match::Full } else { Match::Part };
                let r = pattern::compile(&mut self.b.p, text(v, at, "pattern")?, Form::Raw, how);
                let r = r.map_err(|e| Error::pointer(at, "pattern", e.to_string()))?;
                self.b.term(r)
            }
            "grammar" => {
                let source = text(v, at, "grammar")?;
                let b = std::mem::take(&mut self.b);
                let made = match v.get("syntax") {
                    None => gbnf::compile(b, source),
                    Some(Value::Str(s)) if s == "gbnf" => gbnf::compile(b, source),
                    Some(Value::Str(s)) if s == "lark" => lark::compile(b, source, self.options, self.dropped),
                    Some(_) => return Err(Error::pointer(at, "syntax", "want \"gbnf\" or \"lark\"")),
                };
                let (b, x) = made.map_err(|e| Error::pointer(at, "grammar", e.to_string()))?;
                self.b = b;
                x
            }
            "any_text" => {
                if count(v, at, "max_tokens")?.map_or(false, |n| n < MANY) {
                    let reason = "is not supported: a text is not counted in tokens; max_chars is, and any_tokens";
                    return Err(Error::pointer(at, "max_tokens", reason));
                }
                let mut without = words(v, at, "excludes")?;
                without.extend_from_slice(&stops.texts);
                let most = count(v, at, "max_chars")?.unwrap_or(MANY);
                self.free_text(&without, most)
            }
            "sequence" | "or" => {
                let mut parts = Vec::new();
                for (i, e) in items(v, at, "elements")?.iter().enumerate() {
                    parts.push(self.format(e, &format!("{}/elements/{}", at, i), stops)?);
                }
                if kind == "or" {
                    self.b.choice(&parts)
                } else {
                    self.b.seq(&parts)
                }
            }
            "optional" | "star" | "plus" | "repeat" => self.repeated(v, at, kind, stops)?,
            "tag" => {
                let tag = self.tag(v, at)?;
                self.whole(&tag)
            }
            "triggered_tags" => {
                let tags = self.tags(v, at)?;
                self.triggered(v, at, tags, stops)?
            }
            "tags_with_separator" => {
                let tags = self.tags(v, at)?;
                let parts: Vec<Ex> = tags.iter().map(|t| self.whole(t)).collect();
                let between = mark(member(v, at, "separator")?, at, "separator")?;
                let (tag, between) = (self.b.choice(&parts), self.mark(&between));
                let min = flag(v, at, "at_least_one", false)? as u32;
                let max = if flag(v, at, "stop_after_first", false)? { 1 } else { MANY };
                self.b.list(tag, between, min, max)
            }
            "dispatch" => self.dispatch(v, at, stops, false)?,
            "token" => {
                let t = token(member(v, at, "token")?, at, "token")?;
                self.token(&t)
            }
            "exclude_token" | "any_tokens" => {
                let mut without = tokens(v, at, "exclude_tokens")?;
                without.extend_from_slice(&stops.tokens);
                let one = self.free_token(&without, at, "exclude_tokens")?;
                if kind == "exclude_token" {
                    one
                } else {
                    let most = count(v, at, "max_tokens")?.unwrap_or(MANY);
                    self.b.times(one, 0, most)
                }
            }
            "token_triggered_tags" => {
                let tags = self.tags(v, at)?;
                self.token_triggered(v, at, tags, stops)?
            }
            "token_dispatch" => self.dispatch(v, at, stops, true)?,
            other => return Err(Error::pointer(at, "type", format!("{:?} is not supported", other))),
        };
        if self.b.full() {
            return Err(Error::pointer(at, "", "the grammar is too large"));
        }
        Ok(x)
    }

    fn repeated(&mut self, v: &Value, at: &str, kind: &str, stops: &Stops) -> Result<Ex> {
        let content = self.format(member(v, at, "content")?, &format!("{}/content", at), stops)?;
        let (min, max) = match kind {
            "optional" => (0, 1),
            "star" => (0, MANY),
            "plus" => (1, MANY),
            _ => (count(v, at, "min")?.unwrap_or(0), count(v, at, "max")?.unwrap_or(MANY)),
        };
        if min > max {
            return Err(Error::pointer(at, "min", format!("{} is above max, {}", min, max)));
        }
        Ok(self.b.times(content, min, max))
    }

    // How a schema's values are written; None: as JSON.
    fn style(&self, v: &Value, at: &str) -> Result<Option<Style>> {
        let known = "\"json\", \"qwen_xml\", \"minimax_xml\" and \"glm_xml\" are";
        let refused = |s| Err(Error::pointer(at, "style", format!("{} is not supported; {}", s, known)));
        match v.get("style") {
            None => Ok(None),
            Some(Value::Str(s)) if s == "json" => Ok(None),
            Some(Value::Str(s)) if Style::named(s).is_some() => Ok(Style::named(s)),
            Some(s) => refused(crate::options::shown(s)),
        }
    }

    fn schema(&mut self, v: &Value, at: &str, style: Option<Style>) -> Result<Ex> {
        let refused = |k: &str, reason: String| Err(Error::pointer(at, k, reason));
        if !words(v, at, "excludes")?.is_empty() {
            return refused("excludes", "is not supported in a schema".into());
        }
        let parsed;
        let schema = match member(v, at, "json_schema")? {
            Value::Str(s) => {
                parsed = json::parse(s).map_err(|e| Error::pointer(at, "json_schema", e.to_string()))?;
                &parsed
            }
            s => s,
        };
        let mut options = self.options_of(v, at)?;
        options.any_order = flag(v, at, "any_order", options.any_order)?;
        let (before, barren) = (self.dropped.len(), self.b.barren.len());
        let made = schema::compile_as(std::mem::take(&mut self.b), schema, &options, style, self.dropped);
        let (b, x) = made.map_err(|mut e| {
            e.place = format!("#{}/json_schema{}", at, e.place.trim_start_matches('#'));
            e
        })?;
        let whole = |pointer: &str| format!("#{}/json_schema{}", at, pointer.trim_start_matches('#'));
        for d in &mut self.dropped[before..] {
            d.pointer = whole(&d.pointer);
        }
        self.b = b;
        for e in &mut self.b.barren[barren..] {
            e.place = whole(&e.place);
        }
        Ok(x)
    }

    // The options, with what one schema has of its own.
    fn options_of(&self, v: &Value, at: &str) -> Result<Options> {
        let mut o = self.options.clone();
        for k in ["whitespace", "indent", "lenient", "formats", "draft", "x-order"] {
            if let Some(own) = v.get(k) {
                let own = [(k.to_string(), own.clone())];
                o = o.with_members(&own).map_err(|e| Error::pointer(at, "", e.reason))?;
            }
        }
        match count(v, at, "max_whitespace_cnt")? {
            None | Some(MANY) => {}
            Some(0) => o.whitespace = Whitespace::Compact,
            Some(n) => {
                if let Whitespace::Flexible { indent } = &mut o.whitespace {
                    // A line end is one of them.
                    *indent = (*indent).min(n - 1);
                }
            }
        }
        Ok(o)
    }

    fn tags(&mut self, v: &Value, at: &str) -> Result<Vec<Tag>> {
        let list = items(v, at, "tags")?;
        if list.is_empty() {
            return Err(Error::pointer(at, "tags", "want at least one"));
        }
        list.iter().enumerate().map(|(i, t)| self.tag(t, &format!("{}/tags/{}", at, i))).collect()
    }

    fn tag(&mut self, v: &Value, at: &str) -> Result<Tag> {
        let begin = mark(member(v, at, "begin")?, at, "begin")?;
        let ends = marks(v, at, "end")?;
        let content = self.format(member(v, at, "content")?, &format!("{}/content", at), &Stops::of(&ends))?;
        let parts: Vec<Ex> = ends.iter().map(|e| self.mark(e)).collect();
        let end = self.b.choice(&parts);
        Ok(Tag { begin, rest: self.b.seq(&[content, end]) })
    }

    fn mark(&mut self, m: &Mark) -> Ex {
        match m {
            Mark::Text(t) => self.b.lit(t.as_bytes()),
            Mark::Token(t) => self.token(t),
        }
    }

    fn token(&mut self, t: &Token) -> Ex {
        match t {
            Token::Text(t) => self.b.token_text(t),
            Token::Id(id) => self.b.token(vec![(*id, *id)], false),
        }
    }

    fn whole(&mut self, t: &Tag) -> Ex {
        let begin = self.mark(&t.begin);
        self.b.seq(&[begin, t.rest])
    }

    // What may stand at the beginning where a tag has to.
    fn first(&mut self, v: &Value, at: &str, tags: &[Tag]) -> Result<Turns> {
        let first = if flag(v, at, "at_least_one", false)? {
            let whole: Vec<Ex> = tags.iter().map(|t| self.whole(t)).collect();
            Some(self.b.choice(&whole))
        } else {
            None
        };
        Ok(Turns { first, once: flag(v, at, "stop_after_first", false)? })
    }

    // Free text up to a trigger, then the rest of a tag that begins with it, and
    // so on.
    fn triggered(&mut self, v: &Value, at: &str, tags: Vec<Tag>, stops: &Stops) -> Result<Ex> {
        let triggers = marks(v, at, "triggers")?;
        if triggers.iter().any(|t| *t == Mark::Text(String::new())) {
            return Err(Error::pointer(at, "triggers", "want none empty"));
        }
        let mut rules: Vec<Rule> = triggers.into_iter().map(|mark| Rule { mark, behind: Vec::new() }).collect();
        for (i, t) in tags.iter().enumerate() {
            let begins = |trigger: &Mark| match (&t.begin, trigger) {
                (Mark::Text(b), Mark::Text(t)) => b.strip_prefix(t.as_str()),
                (b, t) if b == t => Some(""),
                _ => None,
            };
            let fits: Vec<(usize, &str)> =
                rules.iter().enumerate().filter_map(|(j, r)| Some((j, begins(&r.mark)?))).collect();
            let (rule, more) = only(at, i, t, &fits)?;
            let more = self.b.lit(more.as_bytes());
            rules[rule].behind.push(self.b.seq(&[more, t.rest]));
        }
        let turns = self.first(v, at, &tags)?;
        let mut excluded = words(v, at, "excludes")?;
        excluded.extend_from_slice(&stops.texts);
        Ok(self.interrupted(&rules, turns, excluded))
    }

    fn token_triggered(&mut self, v: &Value, at: &str, tags: Vec<Tag>, stops: &Stops) -> Result<Ex> {
        let triggers = tokens(v, at, "trigger_tokens")?;
        if triggers.is_empty() {
            return Err(Error::pointer(at, "trigger_tokens", "want at least one"));
        }
        let mut rules: Vec<(Token, Vec<Ex>)> = triggers.into_iter().map(|t| (t, Vec::new())).collect();
        for (i, t) in tags.iter().enumerate() {
            let fits: Vec<(usize, &str)> =
                (0..rules.len()).filter(|&j| t.begin == Mark::Token(rules[j].0.clone())).map(|j| (j, "")).collect();
            let (rule, _) = only(at, i, t, &fits)?;
            rules[rule].1.push(t.rest);
        }
        let turns = self.first(v, at, &tags)?;
        let mut excluded = tokens(v, at, "exclude_tokens")?;
        excluded.extend_from_slice(&stops.tokens);
        self.interrupted_tokens(&rules, turns, excluded, at)
    }
}

// The one trigger that a tag begins with, and what of its beginning is left.
fn only<'t>(at: &str, i: usize, t: &Tag, fits: &[(usize, &'t str)]) -> Result<(usize, &'t str)> {
    match fits {
        [one] => Ok(*one),
        _ => {
            let reason = format!("{} begins with {} of the triggers, want exactly one", t.begin.shown(), fits.len());
            Err(Error::pointer(&format!("{}/tags/{}", at, i), "begin", reason))
        }
    }
}
