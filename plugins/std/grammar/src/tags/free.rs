//! Free text and what it is interrupted by.
//!
//! There are two kinds. Free text is characters, whatever tokens they are cut
//! into, without special tokens; it is a regular expression. Free tokens are any
//! ordinary tokens but those excluded, whatever they spell.

use super::read::{flag, items, words, Mark, Stops, Token};
use super::Lower;
use crate::build::Ex;
use crate::chars::{self, Form};
use crate::error::{Error, Result};
use crate::json::Value;
use crate::re::{Re, ALL, MANY};

/// What interrupts: a mark, and the formats that may follow it.
pub struct Rule {
    pub mark: Mark,
    pub behind: Vec<Ex>,
}

/// How free parts and rules take turns.
pub struct Turns {
    /// Whole rules that the text has to begin with one of; None: none has to come.
    pub first: Option<Ex>,
    /// After one rule the end.
    pub once: bool,
}

impl Lower<'_> {
    /// All texts in which none of these comes.
    pub fn without(&mut self, words: &[String]) -> Re {
        let p = &mut self.b.p;
        let all = chars::text(p, Form::Raw);
        if words.is_empty() {
            return all;
        }
        let found = p.words(words);
        let found = p.seq(&[ALL, found, ALL]);
        p.minus(all, found)
    }

    /// Free text, of at most so many characters.
    pub fn free_text(&mut self, without: &[String], most: u32) -> Ex {
        let mut r = self.without(without);
        if most < MANY {
            let c = chars::any(&mut self.b.p, Form::Raw);
            let short = self.b.p.rep(c, 0, most);
            r = self.b.p.and2(short, r);
        }
        self.b.term(r)
    }

    /// One ordinary token, none of these. The form names excluded tokens by id, so
    /// that texts are looked up in the vocabulary; special tokens are none anyway.
    pub fn free_token(&mut self, without: &[Token], at: &str, k: &str) -> Result<Ex> {
        let mut ids = Vec::new();
        for t in without {
            match t {
                Token::Id(id) => ids.push(*id),
                Token::Text(t) => match self.vocabulary.token(t) {
                    Some((id, true)) => ids.push(id),
                    Some(_) => {}
                    None => return Err(Error::pointer(at, k, format!("{:?} is not one token here", t))),
                },
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(self.b.token(ids.into_iter().map(|id| (id, id)).collect(), true))
    }

    /// Free text up to a mark, what follows that, and so on. Free text never spells
    /// a mark, nor does a token of a mark slip into it.
    pub fn interrupted(&mut self, rules: &[Rule], turns: Turns, excluded: Vec<String>) -> Ex {
        let texts: Vec<String> = rules.iter().filter_map(|r| text_of(&r.mark)).collect();
        let mut never = excluded;
        for r in rules {
            match &r.mark {
                // Or the text trigger would be excluded with it.
                Mark::Token(Token::Text(t)) if !texts.iter().any(|w| w.contains(t)) => never.push(t.clone()),
                _ => {}
            }
        }
        let mut words = texts.clone();
        words.extend(never.iter().cloned());
        let free = self.free_text(&words, MANY);
        let mut parts = Vec::new();
        for r in rules.iter().filter(|r| !r.behind.is_empty()) {
            let up_to = match &r.mark {
                Mark::Text(t) => {
                    let up_to = self.up_to(&texts, t, &never);
                    self.b.term(up_to)
                }
                Mark::Token(t) => {
                    let token = self.token(t);
                    self.b.seq(&[free, token])
                }
            };
            let behind = self.b.choice(&r.behind);
            parts.push(self.b.seq(&[up_to, behind]));
        }
        let part = self.b.choice(&parts);
        self.turns(part, free, turns)
    }

    /// The same with free tokens.
    pub fn interrupted_tokens(
        &mut self,
        rules: &[(Token, Vec<Ex>)],
        turns: Turns,
        mut excluded: Vec<Token>,
        at: &str,
    ) -> Result<Ex> {
        excluded.extend(rules.iter().map(|r| r.0.clone()));
        let free = self.free_token(&excluded, at, "exclude_tokens")?;
        let free = self.b.times(free, 0, MANY);
        let mut parts = Vec::new();
        for (token, behind) in rules.iter().filter(|r| !r.1.is_empty()) {
            let (token, behind) = (self.token(token), self.b.choice(behind));
            parts.push(self.b.seq(&[free, token, behind]));
        }
        let part = self.b.choice(&parts);
        Ok(self.turns(part, free, turns))
    }

    fn turns(&mut self, part: Ex, free: Ex, turns: Turns) -> Ex {
        let more = self.b.times(part, 0, MANY);
        match (turns.first, turns.once) {
            (Some(first), true) => first,
            (Some(first), false) => self.b.seq(&[first, more, free]),
            (None, true) => self.b.choice(&[part, free]),
            (None, false) => self.b.seq(&[more, free]),
        }
    }

    /// Text up to and with a trigger, in which no trigger ends before and nothing
    /// excluded comes.
    fn up_to(&mut self, triggers: &[String], this: &str, excluded: &[String]) -> Re {
        let p = &mut self.b.p;
        let (all, this) = (chars::text(p, Form::Raw), p.literal(this.as_bytes()));
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

    /// `dispatch` and `token_dispatch`: pairs of a mark and a format.
    pub fn dispatch(&mut self, v: &Value, at: &str, stops: &Stops, by_token: bool) -> Result<Ex> {
        let list = items(v, at, "rules")?;
        if list.is_empty() {
            return Err(Error::pointer(at, "rules", "want at least one"));
        }
        let mut rules: Vec<Rule> = Vec::new();
        for (i, pair) in list.iter().enumerate() {
            let here = format!("{}/rules/{}", at, i);
            let (mark, content) = match pair {
                Value::Arr(p) if p.len() == 2 => (&p[0], &p[1]),
                _ => return Err(Error::pointer(&here, "", "want an array of a pattern and a format")),
            };
            let mark = match mark {
                _ if by_token => Mark::Token(super::read::token(mark, &here, "0")?),
                Value::Str(s) if !s.is_empty() => Mark::Text(s.clone()),
                _ => return Err(Error::pointer(&here, "0", "want a string that is not empty")),
            };
            let x = self.format(content, &format!("{}/1", here), stops)?;
            match rules.iter_mut().find(|r| r.mark == mark) {
                Some(r) => r.behind.push(x),
                None => rules.push(Rule { mark, behind: vec![x] }),
            }
        }
        let turns = Turns { first: None, once: !flag(v, at, "loop", true)? };
        if !by_token {
            let mut excluded = words(v, at, "excludes")?;
            excluded.extend_from_slice(&stops.texts);
            return Ok(self.interrupted(&rules, turns, excluded));
        }
        let mut excluded = super::read::tokens(v, at, "exclude_tokens")?;
        excluded.extend_from_slice(&stops.tokens);
        let rules: Vec<(Token, Vec<Ex>)> =
            rules.into_iter().filter_map(|r| Some((token_of(r.mark)?, r.behind))).collect();
        self.interrupted_tokens(&rules, turns, excluded, at)
    }
}

fn text_of(m: &Mark) -> Option<String> {
    match m {
        Mark::Text(t) => Some(t.clone()),
        Mark::Token(_) => None,
    }
}

fn token_of(m: Mark) -> Option<Token> {
    match m {
        Mark::Text(_) => None,
        Mark::Token(t) => Some(t),
    }
}
