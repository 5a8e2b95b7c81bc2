//! every-mode: does what its parameters say, in every mode that the contract
//! has, and holds the host to the contract. For tests of servers and SDKs.
//!
//! - mode: "pass" (default), "allow", "deny", "sparse", "bitmask", "topk", "row"
//! - ids: tokens that the mode speaks of; bias (default 1): what sparse, topk
//!   and row add to them; only: others are denied (sparse, topk)
//! - stop_at, fail_at, trap_at, force_at: at which output token (0 is the first)
//! - force: tokens that come from force_at on
//! - temperature: of every step
//! - pick: sampler: index of the candidate; random: any candidate
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::{format, string::ToString, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tgi_plugin::{host, json::Reader, mode, plugin, Candidate, Entry, Logits, Result, Sampler, Step};

const MODES: [&str; 7] = ["pass", "allow", "deny", "sparse", "bitmask", "topk", "row"];
const NEVER: u32 = u32::MAX;
const MOST: usize = 256;

struct Options {
    mode: u32,
    ids: Vec<u32>,
    force: Vec<u32>,
    stop_at: u32,
    fail_at: u32,
    trap_at: u32,
    force_at: u32,
    pick: u32,
    only: bool,
    random: bool,
    bias: f32,
    temperature: Option<f32>,
}

fn list(r: &mut Reader) -> Vec<u32> {
    let mut ids = Vec::new();
    r.array(|r| {
        ids.push(r.uint());
        if ids.len() > MOST {
            r.fail("more than 256 tokens");
        }
    });
    ids
}

fn set(o: &mut Options, r: &mut Reader, key: &str) {
    match key {
        "mode" => {
            let name = r.string();
            match MODES.iter().position(|m| *m == name) {
                Some(m) => o.mode = m as u32,
                None => r.fail("mode: no such mode"),
            }
        }
        "ids" => o.ids = list(r),
        "force" => o.force = list(r),
        "bias" => o.bias = r.number() as f32,
        "only" => o.only = r.boolean(),
        "random" => o.random = r.boolean(),
        "stop_at" => o.stop_at = r.uint(),
        "fail_at" => o.fail_at = r.uint(),
        "trap_at" => o.trap_at = r.uint(),
        "force_at" => o.force_at = r.uint(),
        "pick" => o.pick = r.uint(),
        "temperature" => o.temperature = Some(r.number() as f32),
        _ => r.fail(&format!("unknown parameter: {}", key)),
    }
}

fn read(params: &[u8]) -> Result<Options> {
    let mut o = Options {
        mode: mode::PASS,
        ids: Vec::new(),
        force: Vec::new(),
        stop_at: NEVER,
        fail_at: NEVER,
        trap_at: NEVER,
        force_at: NEVER,
        pick: 0,
        only: false,
        random: false,
        bias: 1.0,
        temperature: None,
    };
    let mut r = Reader::new(params);
    r.object(|r, key| set(&mut o, r, key));
    r.close()?;
    if o.ids.iter().chain(&o.force).any(|&id| id >= host::vocab_size()) {
        return Err("no such token id".to_string());
    }
    Ok(o)
}

/// Tells whether the memory has served a sequence before.
fn first(begun: &AtomicBool) -> Result<()> {
    if begun.load(Relaxed) {
        return Err("this memory has served another sequence".to_string());
    }
    begun.store(true, Relaxed);
    Ok(())
}

static BEGUN_LOGITS: AtomicBool = AtomicBool::new(false);
static BEGUN_SAMPLER: AtomicBool = AtomicBool::new(false);

/// The processor of one sequence.
pub struct Processor {
    options: Options,
    seen: usize,
    entries: Vec<Entry>,
    words: Vec<u32>,
}

impl Logits for Processor {
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self> {
        first(&BEGUN_LOGITS)?;
        let options = read(params)?;
        let mut words = Vec::new();
        words.resize((host::vocab_size() as usize + 31) / 32, 0);
        let mut entries = Vec::new();
        for &id in &options.ids {
            words[id as usize / 32] |= 1 << (id % 32);
            entries.push(Entry { id, value: options.bias });
        }
        Ok(Processor { options, seen: prompt.len(), entries, words })
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        if s.tokens.len() < s.prompt || s.tokens.len() - s.new != self.seen {
            return Err("host: new_count does not go on from the last call".to_string());
        }
        self.seen = s.tokens.len();
        let o = &self.options;
        let at = (s.tokens.len() - s.prompt) as u32;
        if at == o.trap_at {
            panic!("asked to trap");
        }
        if at == o.fail_at {
            return Err(format!("asked to fail at {}", at));
        }
        if at == o.stop_at {
            s.stop();
        }
        if at == o.force_at {
            s.force(&o.force);
        }
        if let Some(t) = o.temperature {
            s.temperature(t);
        }
        self.result(s)
    }
}

impl Processor {
    fn result(&self, s: &mut Step) -> Result<()> {
        let o = &self.options;
        match o.mode {
            mode::ALLOW => s.allow(&o.ids),
            mode::DENY => s.deny(&o.ids),
            mode::SPARSE => s.bias(&self.entries),
            mode::BITMASK => s.mask(&self.words),
            mode::VIEW => {
                if s.view.is_empty() {
                    return Err("host: the view is missing".to_string());
                }
                let kept = self.edit(s.view);
                s.edit_view(kept);
            }
            mode::ROW => {
                if s.row.len() != host::vocab_size() as usize {
                    return Err("host: the row is missing".to_string());
                }
                for &id in &o.ids {
                    s.row[id as usize] += o.bias;
                }
                s.edit_row();
            }
            _ => {}
        }
        if o.only && (o.mode == mode::SPARSE || o.mode == mode::VIEW) {
            s.only();
        }
        Ok(())
    }

    /// Adds the bias in the view and with only drops the rest of it.
    fn edit(&self, view: &mut [Entry]) -> usize {
        let mut kept = 0;
        for i in 0..view.len() {
            let mut e = view[i];
            if self.options.ids.contains(&e.id) {
                e.value += self.options.bias;
            } else if self.options.only {
                continue;
            }
            view[kept] = e;
            kept += 1;
        }
        kept
    }
}

/// The sampler of one sequence.
pub struct Picker(Options);

impl Sampler for Picker {
    fn begin(params: &[u8], _prompt: &[u32]) -> Result<Self> {
        first(&BEGUN_SAMPLER)?;
        read(params).map(Picker)
    }

    fn sample(&mut self, c: &[Candidate]) -> Result<usize> {
        if self.0.random {
            return Ok(((host::rand() >> 32) * c.len() as u64 >> 32) as usize);
        }
        Ok((self.0.pick as usize).min(c.len() - 1))
    }
}

plugin! {
    description: concat!(
        r#"{"name":"every-mode","version":"1.0.0","kinds":["logits","sampler"],"#,
        r#""doc":"Does what its parameters say, for tests.","#,
        r#""modes":["allow","deny","sparse","bitmask","topk","row","stop","force","temperature"],"#,
        r#""needs":["topk:16","row"],"candidates":64}"#
    ),
    logits: Processor,
    sampler: Picker,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::{flag, testing};

    fn begin(params: &str) -> Result<testing::Sequence<Processor>> {
        testing::vocabulary(&["x"; 40]);
        BEGUN_LOGITS.store(false, Relaxed);
        testing::Sequence::begin(params, &[0])
    }

    // One test: the statics that tell used memory are the process's.
    #[test]
    fn steps() {
        for (m, name) in MODES.iter().enumerate() {
            let mut s = begin(&format!(r#"{{"mode":"{}","ids":[0,5,33],"bias":2,"only":true}}"#, name)).unwrap();
            s.view = [(33, 4.0), (2, 1.0)].map(|(id, value)| Entry { id, value }).to_vec();
            s.row = [0.0; 40].to_vec();
            let a = s.step(&[]).unwrap();
            let entries = m as u32 == mode::SPARSE || m as u32 == mode::VIEW;
            assert_eq!((a.mode, a.flags), (m as u32, if entries { flag::ONLY } else { 0 }), "{}", name);
            match a.mode {
                mode::BITMASK => assert_eq!(a.ids, [0x21, 2]),
                mode::VIEW => assert_eq!((a.kept, s.view[0].value), (1, 6.0)),
                mode::ROW => assert_eq!((s.row[33], s.row[1]), (2.0, 0.0)),
                _ => {}
            }
        }
        let mut s = begin(r#"{"stop_at":2,"force":[3,4],"force_at":0,"temperature":0.5,"fail_at":3}"#).unwrap();
        let a = s.step(&[]).unwrap();
        assert_eq!((a.force, a.flags, a.temperature), ([3, 4].to_vec(), 0, 0.5));
        let a = s.step(&[3, 4]).unwrap();
        assert_eq!((a.force.len(), a.flags), (0, flag::STOP));
        assert_eq!(s.step(&[5]).err(), Some("asked to fail at 3".to_string()));
        let used = testing::Sequence::<Processor>::begin("{}", &[]).err();
        assert_eq!(used, Some("this memory has served another sequence".to_string()));
    }
}
