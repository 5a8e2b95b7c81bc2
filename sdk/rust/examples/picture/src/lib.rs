//! picture: a grammar of texts that look like its source, in which # stands for
//! a digit, @ for a small letter, and everything else for itself. It follows the
//! text itself and says at each step which tokens may come.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use tgi_plugin::grammar::{Mask, Request};
use tgi_plugin::json::Value;
use tgi_plugin::{host, plugin, Result, Steps};

const LONGEST: usize = 64;

/// One text.
pub struct Picture {
    picture: String,
    /// How much of it is written.
    at: usize,
    /// For each place, and for the end, the tokens that may come.
    masks: Vec<Vec<u32>>,
}

impl Picture {
    fn set(&mut self, place: usize, id: u32) {
        self.masks[place][id as usize / 32] |= 1 << (id % 32);
    }

    /// Puts a token into the masks of all places in which its bytes can stand.
    fn place(&mut self, id: u32, bytes: &[u8]) {
        let looks = |(&c, &p): (&u8, &u8)| match p {
            b'#' => c.is_ascii_digit(),
            b'@' => c.is_ascii_lowercase(),
            _ => c == p,
        };
        for from in 0..self.picture.len() {
            let rest = &self.picture.as_bytes()[from..];
            if !bytes.is_empty() && bytes.len() <= rest.len() && bytes.iter().zip(rest).all(looks) {
                self.set(from, id);
            }
        }
    }
}

impl Steps for Picture {
    fn open(_config: &Value) -> Result<Self> {
        Ok(Picture { picture: String::new(), at: 0, masks: Vec::new() })
    }

    fn begin(&mut self, r: &Request) -> Result<()> {
        if r.source.is_empty() || r.source.len() > LONGEST {
            return Err(format!("the picture has {} bytes, want 1 to 64", r.source.len()));
        }
        self.picture = r.source.clone();
        self.masks = vec![vec![0; (host::vocab_size() as usize + 31) / 32]; self.picture.len() + 1];
        for id in 0..host::vocab_size() {
            if host::is_end(id) {
                self.set(self.picture.len(), id);
            } else if !host::is_special(id) {
                self.place(id, &host::token_bytes(id).unwrap_or_default());
            }
        }
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<()> {
        if token >= host::vocab_size() || self.masks[self.at][token as usize / 32] >> (token % 32) & 1 == 0 {
            return Err("the token may not come here".to_string());
        }
        if self.at < self.picture.len() {
            self.at += host::token_bytes(token).unwrap_or_default().len();
        }
        Ok(())
    }

    fn mask(&mut self, mask: &mut Mask) {
        mask.allow_words(&self.masks[self.at]);
    }

    fn key(&mut self) -> u64 {
        1 + self.at as u64
    }

    /// What stands for itself, up to the next # or @, unless special tokens spell it.
    fn forced(&mut self) -> Vec<u32> {
        let rest = self.picture.get(self.at..).unwrap_or(""); // nothing inside a character
        let fixed = &rest[..rest.find(|c| c == '#' || c == '@').unwrap_or(rest.len())];
        let ids = host::encode(fixed).unwrap_or_default();
        if ids.iter().any(|&id| host::is_special(id)) {
            return Vec::new();
        }
        ids
    }
}

plugin! {
    description: concat!(
        r#"{"name":"picture","version":"1.0.0","kinds":["grammar"],"modes":["steps"],"languages":["picture"],"#,
        r##""doc":"Texts that look like the source: # is a digit, @ a small letter."}"##
    ),
    steps: Picture,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use tgi_plugin::testing;

    fn texts(v: &Value) -> Vec<&str> {
        v.items().iter().map(|s| s.text().unwrap()).collect()
    }

    fn ids(v: &Value) -> Vec<u32> {
        v.items().iter().map(|n| n.number().unwrap() as u32).collect()
    }

    fn allowed(p: &mut Picture, words: &[&str]) -> String {
        let mut bits = [0; 1];
        p.mask(&mut Mask::new(&mut bits));
        let may: Vec<&str> = words.iter().enumerate().filter(|(i, _)| bits[0] >> i & 1 == 1).map(|(_, w)| *w).collect();
        may.join(" ")
    }

    /// The pictures that the examples of all languages are tested with.
    #[test]
    fn vectors() {
        let cases = Value::parse(include_bytes!("../../../../testdata/vectors/picture.json")).unwrap();
        assert_eq!(cases.items().len(), 10);
        for c in cases.items() {
            let (about, words) = (c.get("about").json(), texts(c.get("words")));
            testing::vocabulary(&words);
            let mut p = Picture::open(&Value::Null).unwrap();
            let begun = p.begin(&Request::parse(c.get("request").json().as_bytes()).unwrap());
            assert_eq!(begun.as_ref().err().map(String::as_str), c.get("error").text(), "{}", about);
            if begun.is_err() {
                continue;
            }
            let (wanted, mut masks) = (texts(c.get("allowed")), HashMap::new()); // masks by key: of equal keys they are equal
            for (i, want) in wanted.iter().enumerate() {
                if i > 0 {
                    p.accept(ids(c.get("tokens"))[i - 1]).unwrap();
                }
                assert_eq!(allowed(&mut p, &words), *want, "{}", about);
                assert_eq!(p.forced(), ids(&c.get("forced").items()[i]), "{}", about);
                assert_eq!(masks.insert(p.key(), want).unwrap_or(want), want, "{}", about);
            }
            if let Some(bad) = c.get("bad").number() {
                assert!(p.accept(bad as u32).is_err(), "{}", about);
            }
        }
    }
}
