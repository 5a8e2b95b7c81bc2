//! known-phrases: a draft, as ../../c/known-phrases.c. It guesses that a text goes on as one of the phrases of the
//! request does, where its last tokens stand in the phrase: "phrases" is an array of texts, such as answers that are
//! on file.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, vec::Vec};
use tgi_plugin::{host, json::Reader, plugin, Draft, Result};

const MOST_PHRASES: usize = 64;
const MOST_TOKENS: usize = 8192;
const LEAST: usize = 2;
const LONGEST: usize = 8;

/// One sequence. It is not taken back with it.
pub struct Phrases(Vec<Vec<u32>>);

impl Draft for Phrases {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let (mut phrases, mut used) = (Vec::new(), 0);
        let mut r = Reader::new(params);
        r.object(|r, key| match key {
            "phrases" => r.array(|r| {
                let ids = host::encode(&r.string()).unwrap_or_default();
                used += ids.len();
                if phrases.len() == MOST_PHRASES {
                    r.fail("phrases: want at most 64");
                } else if used > MOST_TOKENS {
                    r.fail("phrases: want at most 8192 tokens in all");
                } else {
                    phrases.push(ids);
                }
            }),
            _ => r.fail(&format!("unknown parameter: {}", key)),
        });
        r.close()?;
        Ok(Phrases(phrases))
    }

    fn propose(&mut self, tokens: &[u32], _fresh: usize, room: &mut [u32]) -> Result<usize> {
        let (mut best, mut rest) = (LEAST - 1, &[][..]);
        for ids in &self.0 {
            for at in LEAST..ids.len() {
                let n = same(tokens, &ids[..at]);
                if n > best {
                    best = n;
                    rest = &ids[at..];
                }
            }
        }
        let n = rest.len().min(room.len());
        room[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

/// How many tokens before the ends of both are equal, at most LONGEST.
fn same(a: &[u32], b: &[u32]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take(LONGEST).take_while(|(x, y)| x == y).count()
}

plugin! {
    description: concat!(
        r#"{"name":"known-phrases","version":"1.0.0","kinds":["draft"],"#,
        r#""doc":"Guesses that a text goes on as one of the given phrases.","#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""phrases":{"type":"array","maxItems":64,"items":{"type":"string"}}}}}"#
    ),
    draft: Phrases,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::testing;

    #[test]
    fn guesses_what_follows_in_a_phrase() {
        testing::vocabulary(&["a", "b", "c", "d", "e", "</s>"]);
        let mut p = Phrases::begin(br#"{"phrases": ["abcde", "bbca"]}"#, &[]).unwrap();
        for (tokens, room, want) in
            [(&[4, 0, 1, 2][..], 8, &[3, 4][..]), (&[4, 0, 1, 2], 1, &[3]), (&[1, 1, 2], 8, &[0]), (&[2, 2], 8, &[])]
        {
            let mut to = [9; 8];
            let n = p.propose(tokens, tokens.len(), &mut to[..room]).unwrap();
            assert_eq!(&to[..n], want);
        }
    }

    #[test]
    fn parameters() {
        testing::vocabulary(&["a", "b", "c", "d", "e", "</s>"]);
        let many = format!(r#"{{"phrases": [{}"a"]}}"#, r#""a","#.repeat(64));
        let long = format!(r#"{{"phrases": ["{}"]}}"#, "a".repeat(8193));
        for bad in [r#"{"phrases": [1]}"#, r#"{"phrase": []}"#, "{", &many, &long] {
            assert!(Phrases::begin(bad.as_bytes(), &[]).is_err(), "{:.40}", bad);
        }
    }
}
