//! Where guards refused what a program emits, it is written on from the place that they refuse, as they would have the
//! model do themselves.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use tgi_plugin::program::{failure, Context, Failure, Grammar, Reason, Request, Settings};
use tgi_plugin::Result;

/// How often another token is tried; then the text ends.
const TRIES: usize = 64;

/// How many tokens are written between two looks of the guards.
const PIECE: usize = 8;

/// Emits an answer, the last run of a context, that guards refused as a whole, token by token, and writes on behind what
/// they leave of it, without the token that they refuse there, held to what the request is. The text ends where it
/// cannot go on: no room, or no token that they let pass.
pub fn go_on(r: &Request, c: Context) -> Result<()> {
    let start = c.span().from;
    Text { r, c, start, grammar: r.has_grammar().then(Grammar::default) }.write(start)
}

/// Goes on so with what a context has from `start` on, which is all that was emitted, or was to be, and which a guard
/// refused, as `why` says. It is held to the grammar from there on, if there is one.
pub fn go_on_behind(r: &Request, c: Context, start: usize, grammar: Option<Grammar>, why: String) -> Result<()> {
    let Some(left) = left(&why) else {
        return Err(why);
    };
    Text { r, c, start, grammar }.write(start + left.min(c.len() - start))
}

struct Text<'a> {
    r: &'a Request,
    c: Context,
    start: usize,
    grammar: Option<Grammar>,
}

impl Text<'_> {
    /// Emits what is there from a place on, and goes on.
    fn write(&self, from: usize) -> Result<()> {
        match self.rest(from) {
            Err(_) if matches!(failure(), Some(Failure::Purse) | Some(Failure::Room) | Some(Failure::Grammar)) => Ok(()),
            other => other,
        }
    }

    fn rest(&self, mut at: usize) -> Result<()> {
        let c = self.c;
        let mut refused: Vec<(usize, u32)> = Vec::new(); // each behind the same tokens as the others of its place
        let mut tries = 0;
        loop {
            match self.emit(at)? {
                None if c.ended() => return Ok(()),
                None => at = c.len(),
                Some(place) => {
                    at = place;
                    tries += 1;
                    if tries > TRIES {
                        return Ok(());
                    }
                    refused.retain(|r| r.0 <= at); // what comes behind it now is another text
                    refused.push((at, c.tokens(at).first().copied().unwrap_or(c.span().end)));
                    c.rewind(at)?;
                }
            }
            let room = (self.r.max_new_tokens as usize).saturating_sub(at - self.start);
            if room == 0 {
                return Ok(());
            }
            let mut run = Settings::new().max_tokens(PIECE.min(room));
            if let Some(g) = &self.grammar {
                run = run.grammar_from(g, self.start);
            }
            let deny: Vec<u32> = refused.iter().filter(|r| r.0 == at).map(|r| r.1).collect();
            if c.generate(&run.deny(&deny))?.reason == Reason::Denied {
                return Ok(());
            }
        }
    }

    /// Emits what is there from a place on, token by token, and the end, if there is one. It returns the place that
    /// guards refuse, None where they let all pass.
    fn emit(&self, from: usize) -> Result<Option<usize>> {
        let end = self.c.len() + usize::from(self.c.ended());
        for at in from..end {
            let Err(why) = self.c.emit(at, 1) else {
                continue;
            };
            return match left(&why) {
                Some(left) if failure() == Some(Failure::Refused) => Ok(Some(self.start + left.min(at - self.start))),
                _ => Err(why),
            };
        }
        Ok(None)
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
