//! banned-strings takes the texts of its parameter "strings" back before a client sees them, and has the model go
//! another way: {"strings": ["delve", "as an AI"]}. A text is taken back with the token it begins in.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::vec::Vec;
use tgi_plugin::{guard::Held, json::Reader, plugin, Guard, Result};

/// One sequence. It is not taken back with it.
pub struct Banned {
    strings: Vec<Vec<u8>>,
}

impl Guard for Banned {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let mut strings: Vec<Vec<u8>> = Vec::new();
        let mut r = Reader::new(params);
        r.object(|r, key| match key {
            "strings" => r.array(|r| {
                let text = r.string().into_bytes();
                if text.is_empty() || text.len() > 100 {
                    r.fail("strings: want 1 to 100 bytes each");
                } else if strings.len() == 16 {
                    r.fail("strings: want at most 16");
                } else {
                    strings.push(text);
                }
            }),
            _ => r.fail("unknown parameter, want strings"),
        });
        r.close()?;
        Ok(Banned { strings })
    }

    fn check(&mut self, held: &mut Held) -> Result<()> {
        let text = held.text;
        let mut bytes = held.context..text.len();
        if let Some(i) = bytes.clone().find(|&i| self.strings.iter().any(|s| text[i..].starts_with(s))) {
            held.rewind(held.token_at(i), &[]);
        } else if held.ends_here() {
            // no more can come: all of it goes out
        } else if let Some(i) = bytes.find(|&i| self.strings.iter().any(|s| s.starts_with(&text[i..]))) {
            held.release(held.token_at(i)); // one may begin here
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"banned-strings","version":"1.0.0","kinds":["guard"],"revision":2,"#,
        r#""guard":{"hold":100,"verdicts":["rewind"]},"doc":"Takes texts back and has the model go another way.","#,
        r#""params":{"type":"object","properties":{"strings":{"type":"array","items":{"type":"string"}}}}}"#
    ),
    guard: Banned,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::guard::{reason, verdict};
    use tgi_plugin::testing::{self, Watched};

    /// Shows the guard tokens, and checks what the client has and how many generated tokens are left.
    fn push(w: &mut Watched<Banned>, token: u32, why: u32, kind: u32, shown: &str, left: usize) {
        assert_eq!(w.push(token, why).unwrap().kind, kind, "token {}", token);
        assert_eq!((w.shown.as_str(), w.output().len()), (shown, left));
    }

    #[test]
    fn takes_texts_back() {
        testing::vocabulary(&["a", " de", "lve", " x", "</s>", "lta", "d"]);
        let mut w = Watched::<Banned>::begin(r#"{"strings": ["delve", "delta"]}"#, &[0]).unwrap();
        push(&mut w, 0, reason::NONE, verdict::RELEASE, "a", 1);
        push(&mut w, 1, reason::NONE, verdict::RELEASE, "a", 2); // it may be the beginning
        push(&mut w, 2, reason::NONE, verdict::REWIND, "a", 1); // it was: the token " de" goes
        push(&mut w, 1, reason::NONE, verdict::RELEASE, "a", 2);
        push(&mut w, 5, reason::NONE, verdict::REWIND, "a", 1); // the other text
        push(&mut w, 1, reason::NONE, verdict::RELEASE, "a", 2);
        push(&mut w, 3, reason::NONE, verdict::RELEASE, "a de x", 3); // neither
        push(&mut w, 1, reason::LENGTH, verdict::RELEASE, "a de x de", 4); // nothing more comes
    }

    #[test]
    fn begins_in_any_token() {
        testing::vocabulary(&["a", " de", "lve", " x", "</s>", "lta", "d"]);
        let mut w = Watched::<Banned>::begin(r#"{"strings": ["d de?", " delve"]}"#, &[0]).unwrap();
        push(&mut w, 6, reason::NONE, verdict::RELEASE, "", 1);
        push(&mut w, 1, reason::NONE, verdict::RELEASE, "", 2);
        push(&mut w, 2, reason::NONE, verdict::REWIND, "", 1); // it begins where the first of the held tokens ends
        let mut w = Watched::<Banned>::begin("{}", &[0]).unwrap();
        push(&mut w, 1, reason::NONE, verdict::RELEASE, " de", 1);
        push(&mut w, 2, reason::NONE, verdict::RELEASE, " delve", 2);
    }

    #[test]
    fn parameters() {
        let many = format!(r#"{{"strings": [{}"a"]}}"#, r#""a","#.repeat(16));
        let long = format!(r#"{{"strings": ["{}"]}}"#, "a".repeat(101));
        for bad in [r#"{"strings": [""]}"#, r#"{"strings": [7]}"#, r#"{"ban": []}"#, "{", &many, &long] {
            assert!(Banned::begin(bad.as_bytes(), &[]).is_err(), "{}", bad);
        }
    }
}
