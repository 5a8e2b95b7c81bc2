//! banned-and-boost: parameters {"ban": [token...], "boost": {token: bias}, "only": [token...]}.
//!
//! A token is its id or its text; as a member name in boost, "#17" is the token
//! of id 17. ban denies, only denies all others, boost adds to the logit. The
//! cheapest mode that can say it is used.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, string::ToString, vec::Vec};
use tgi_plugin::{host, json::Reader, plugin, Entry, Logits, Result, Step};

/// What every step of one sequence gets, put together once.
pub struct Plan {
    ids: Vec<u32>,
    entries: Vec<Entry>,
    bias: bool,
    only: bool,
}

fn known(r: &mut Reader, field: &str, id: f64) -> u32 {
    if id < 0.0 || id >= host::vocab_size() as f64 || id != id as u32 as f64 {
        r.fail(&format!("{}: no such token id", field));
        return 0;
    }
    id as u32
}

fn by_text(r: &mut Reader, field: &str, text: &str) -> u32 {
    if r.failed() {
        return 0;
    }
    match host::encode(text).as_deref() {
        Some(&[id]) => id,
        _ => {
            r.fail(&format!("{}: want the text of one token, not {}", field, text));
            0
        }
    }
}

fn tokens(r: &mut Reader, field: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    r.array(|r| {
        ids.push(if r.peek() == b'"' {
            let text = r.string();
            by_text(r, field, &text)
        } else {
            let id = r.number();
            known(r, field, id)
        })
    });
    ids
}

fn named(r: &mut Reader, key: &str) -> u32 {
    match key.strip_prefix('#') {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|d| d.is_ascii_digit()) => {
            known(r, "boost", digits.parse().unwrap_or(f64::INFINITY))
        }
        _ => by_text(r, "boost", key),
    }
}

fn biases(r: &mut Reader) -> Vec<Entry> {
    let mut entries = Vec::new();
    r.object(|r, key| {
        let id = named(r, key);
        let value = r.number();
        if !(-100.0..=100.0).contains(&value) {
            r.fail(&format!("boost: want a bias from -100 to 100 for {}", key));
        }
        entries.push(Entry { id, value: value as f32 });
    });
    entries
}

impl Logits for Plan {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        let (mut ban, mut only, mut boost) = (Vec::new(), None, Vec::new());
        let mut r = Reader::new(params);
        r.object(|r, key| match key {
            "ban" => ban = tokens(r, key),
            "only" => only = Some(tokens(r, key)),
            "boost" => boost = biases(r),
            _ => r.fail(&format!("unknown parameter: {}", key)),
        });
        r.close()?;
        let mut p = Plan { ids: Vec::new(), entries: Vec::new(), bias: !boost.is_empty(), only: only.is_some() };
        let (base, value) = match &only {
            Some(only) => (only, 0.0),
            None => (&ban, f32::NEG_INFINITY),
        };
        for &id in base {
            if !(p.only && ban.contains(&id)) {
                p.ids.push(id);
                p.entries.push(Entry { id, value });
            }
        }
        for e in boost {
            if !ban.contains(&e.id) && only.as_ref().map_or(true, |o| o.contains(&e.id)) {
                p.entries.push(e);
            }
        }
        if p.only && p.entries.is_empty() {
            return Err("only: every token of it is banned".to_string());
        }
        Ok(p)
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        if self.bias {
            s.bias(&self.entries);
            if self.only {
                s.only();
            }
        } else if self.only {
            s.allow(&self.ids);
        } else if !self.ids.is_empty() {
            s.deny(&self.ids);
        }
        Ok(())
    }
}

plugin! {
    description: concat!(
        r#"{"name":"banned-and-boost","version":"1.0.0","kinds":["logits"],"#,
        r#""doc":"Denies, requires or favours tokens.","modes":["allow","deny","sparse"],"needs":[],"#,
        r#""params":{"type":"object","additionalProperties":false,"properties":{"#,
        r#""ban":{"type":"array","items":{"type":["integer","string"]}},"#,
        r#""only":{"type":"array","items":{"type":["integer","string"]}},"#,
        r#""boost":{"type":"object","additionalProperties":{"type":"number","minimum":-100,"maximum":100}}}}}"#
    ),
    logits: Plan,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::{flag, mode, testing};

    fn begin(params: &str) -> Result<testing::Sequence<Plan>> {
        testing::vocabulary(&["a", "b", "ab", " the", "<s>", "</s>", "é", "\"", "😀"]);
        testing::Sequence::begin(params, &[0, 3])
    }

    #[test]
    fn faults() {
        for (params, want) in [
            ("", "want a JSON object"),
            (r#"{"ban":[9]}"#, "ban: no such token id"),
            (r#"{"ban":[1.5]}"#, "ban: no such token id"),
            (r#"{"ban":["aab"]}"#, "ban: want the text of one token, not aab"),
            (r#"{"ban":[""]}"#, "ban: want the text of one token, not "),
            (r#"{"ban":["a"#, "a JSON string has no end"),
            (r#"{"boost":{"#, "JSON ends too early"),
            (r##"{"boost":{"#9":1}}"##, "boost: no such token id"),
            (r#"{"boost":{"a":1e400}}"#, "boost: want a bias from -100 to 100 for a"),
            (r#"{"bann":[]}"#, "unknown parameter: bann"),
            (r#"{"only":[1],"ban":["b"]}"#, "only: every token of it is banned"),
        ] {
            assert_eq!(begin(params).err(), Some(want.to_string()), "{}", params);
        }
    }

    #[test]
    fn answers() {
        let a = begin("{}").unwrap().step(&[]).unwrap();
        assert_eq!(a.mode, mode::PASS);
        let a = begin(r#"{"ban":[1,"\u00e9","\ud83d\ude00","\""]}"#).unwrap().step(&[]).unwrap();
        assert_eq!((a.mode, a.ids), (mode::DENY, [1, 6, 8, 7].to_vec()));
        let a = begin(r##"{"ban":[1],"boost":{"ab":-1.25e+1,"b":3,"#3":0.5}}"##).unwrap().step(&[]).unwrap();
        let want = [(1, f32::NEG_INFINITY), (2, -12.5), (3, 0.5)].map(|(id, value)| Entry { id, value });
        assert_eq!((a.mode, a.entries, a.flags), (mode::SPARSE, want.to_vec(), 0));
        let a = begin(r#"{"only":[0,1,"</s>"],"ban":[1]}"#).unwrap().step(&[]).unwrap();
        assert_eq!((a.mode, a.ids), (mode::ALLOW, [0, 5].to_vec()));
        let a = begin(r#"{"only":[0,1],"boost":{"a":2,"ab":2}}"#).unwrap().step(&[]).unwrap();
        assert_eq!((a.mode, a.entries.len(), a.flags), (mode::SPARSE, 3, flag::ONLY));
    }
}
