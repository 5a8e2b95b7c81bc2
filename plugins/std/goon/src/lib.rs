//! Where guards refused all of a program's answers, one is written on from the place that they refuse, as they would
//! have the model do themselves.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::vec::Vec;
use tgi_plugin::program::{failure, Context, Failure, Reason, Request, Settings};
use tgi_plugin::Result;

/// How often another token is tried; then the text ends.
const TRIES: usize = 64;

/// How many of the likeliest tokens are tried at a place.
const LIKELY: usize = 32;

/// How many tokens are written between two looks of the guards.
const PIECE: usize = 8;

/// Emits an answer that guards refused as a whole, token by token, and writes on behind what they leave of it, with the
/// next token in place of the one refused. The text ends where it cannot go on: no room, no token that they let pass, or
/// a grammar of the request, which no later run can go on with.
pub fn go_on(r: &Request, c: Context) -> Result<()> {
    match write(r, c) {
        Err(_) if matches!(failure(), Some(Failure::Purse) | Some(Failure::Room)) => Ok(()),
        other => other,
    }
}

fn write(r: &Request, c: Context) -> Result<()> {
    let start = c.span().from;
    let held = r.settings.get("grammar").is_true();
    let mut refused: Vec<(usize, u32)> = Vec::new();
    let (mut at, mut over) = (start, c.span().reason != Reason::Length);
    loop {
        while at < c.len() {
            let why = match c.emit(at, 1) {
                Ok(()) => {
                    at += 1;
                    continue;
                }
                Err(why) => why,
            };
            if failure() != Some(Failure::Refused) {
                return Err(why);
            }
            let Some(left) = left(&why) else {
                return Err(why);
            };
            at = start + left.min(at - start);
            refused.push((at, c.tokens(at)[0]));
            if held || refused.len() > TRIES {
                return Ok(());
            }
            c.rewind(at)?;
            let next = c.top(LIKELY)?.into_iter().map(|l| l.id).find(|&id| !refused.contains(&(at, id)));
            match next {
                Some(id) => c.push(&[id])?,
                None => return Ok(()),
            }
            over = false;
        }
        let room = (r.max_new_tokens as usize).saturating_sub(c.len() - start);
        if over || room == 0 {
            return Ok(());
        }
        over = c.generate(&Settings::new().max_tokens(PIECE.min(room)))?.reason != Reason::Length;
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
