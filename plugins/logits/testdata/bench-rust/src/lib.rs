//! bench.c's guest for mode row, in Rust. Cargo.toml tells how to build it.
#![cfg_attr(target_arch = "wasm32", no_std)]

use tgi_plugin::{plugin, Logits, Result, Step};

pub struct Sequence;

impl Logits for Sequence {
    fn begin(_params: &[u8], _prompt: &[u32]) -> Result<Self> {
        Ok(Sequence)
    }

    fn process(&mut self, s: &mut Step) -> Result<()> {
        for i in 0..5 {
            s.row[1000 * i + 7] += 1.5;
        }
        s.edit_row();
        Ok(())
    }
}

plugin! {
    description: r#"{"name":"bench","version":"1","kinds":["logits"],"modes":["row"],"needs":["row"]}"#,
    logits: Sequence,
}
