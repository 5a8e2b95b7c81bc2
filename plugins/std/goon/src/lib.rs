//! Where guards refused what a program emits, it is written on from the place that they refuse, as they would have the
//! model do themselves.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use tgi_plugin::program::{failure, grammar_prefix, Calls, Context, Failure, Grammar, Reason, Request, Settings};
use tgi_plugin::Result;

/// How often another token is tried; then the text ends.
const TRIES: usize = 64;

/// How many of the likeliest tokens are tried at a place.
const LIKELY: usize = 32;

/// How many tokens are written between two looks of the guards.
const PIECE: usize = 8;

/// Emits an answer that guards refused as a whole, token by token, and writes on behind what they leave of it, with the
/// next token in place of the one refused, held to the grammar of the request. The text ends where it cannot go on: no
/// room, or no token that they let pass.
pub fn go_on(r: &Request, c: Context) -> Result<()> {
    let text = Text { r, c, start: c.span().from, grammar: r.has_grammar().then(Grammar::default) };
    text.write(c.span().from, c.span().reason != Reason::Length)
}

/// Goes on so with what a context has from `start` on, which is all that was emitted, or was to be, and which a guard
/// refused, as `why` says. It is held to the grammar from there on, if there is one. `whole` says that it is a whole text.
pub fn go_on_behind(
    r: &Request,
    c: Context,
    start: usize,
    grammar: Option<Grammar>,
    why: String,
    whole: bool,
) -> Result<()> {
    let Some(left) = left(&why) else {
        return Err(why);
    };
    Text { r, c, start, grammar }.write(start + left.min(c.len() - start), whole)
}

struct Text<'a> {
    r: &'a Request,
    c: Context,
    start: usize,
    grammar: Option<Grammar>,
}

impl Text<'_> {
    /// Emits what is there from a place on, and goes on. over says that the text ends there.
    fn write(&self, from: usize, over: bool) -> Result<()> {
        match self.rest(from, over) {
            Err(_) if matches!(failure(), Some(Failure::Purse) | Some(Failure::Room) | Some(Failure::Grammar)) => Ok(()),
            other => other,
        }
    }

    fn rest(&self, mut at: usize, mut over: bool) -> Result<()> {
        let (c, start) = (self.c, self.start);
        let mut refused: Vec<(usize, u32)> = Vec::new();
        loop {
            while at < c.len() {
                let why = match c.emit(at, 1) {
                    Ok(()) => {
                        at += 1;
                        continue;
                    }
                    Err(why) => why,
                };
                let left = match left(&why) {
                    Some(left) if failure() == Some(Failure::Refused) => left,
                    _ => return Err(why),
                };
                at = start + left.min(at - start);
                refused.push((at, c.tokens(at)[0]));
                if refused.len() > TRIES {
                    return Ok(());
                }
                c.rewind(at)?;
                if !self.push_other(at, &refused)? {
                    return Ok(());
                }
                over = false;
            }
            let room = (self.r.max_new_tokens as usize).saturating_sub(c.len() - start);
            if over || room == 0 {
                return Ok(());
            }
            let run = match &self.grammar {
                Some(g) => Settings::new().grammar_from(g, start),
                None => Settings::new(),
            };
            over = c.generate(&run.max_tokens(PIECE.min(room)))?.reason != Reason::Length;
        }
    }

    /// Appends the likeliest token that was not refused at a place and that the grammar allows there, or, without one,
    /// the request's strict tools. Where there is a grammar it is one with text: whether it allows the end is known to
    /// its runs alone.
    fn push_other(&self, at: usize, refused: &[(usize, u32)]) -> Result<bool> {
        let before = self.c.bytes(self.start).len();
        for id in self.c.top(LIKELY)?.into_iter().map(|l| l.id).filter(|&id| !refused.contains(&(at, id))) {
            self.c.push(&[id])?;
            let text = self.c.text(self.start);
            let allowed = match &self.grammar {
                Some(g) => text.len() > before && grammar_prefix(g, &text)? == text.len(),
                None => self.c.calls()? != Calls::Broken,
            };
            if allowed {
                return Ok(true);
            }
            self.c.rewind(at)?;
        }
        Ok(false)
    }
}

/// How many tokens are left of all that was emitted, as a guard's refusal says behind its name; None for another.
fn left(why: &str) -> Option<usize> {
    let (_, said) = why.rsplit_once(" takes it back; ")?;
    said.strip_suffix(" tokens are left of all that was emitted")?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_refusals() {
        let why = "emit: guard a 7 takes it back; 12 tokens are left of all that was emitted";
        assert_eq!(super::left(why), Some(12));
        for why in ["emit: the text has ended", "emit: guard a takes it back", "emit: guard a takes it back; few tokens"] {
            assert_eq!(super::left(why), None);
        }
    }
}
