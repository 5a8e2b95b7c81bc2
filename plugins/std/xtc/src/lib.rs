//! xtc: changes nothing yet.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use tgi_plugin::{plugin, Logits, Result, Step};

/// One sequence.
pub struct Nothing;

impl Logits for Nothing {
    fn begin(_params: &[u8], _prompt: &[u32]) -> Result<Self> {
        Ok(Nothing)
    }

    fn process(&mut self, _s: &mut Step) -> Result<()> {
        Ok(())
    }
}

plugin! {
    description: r#"{"name":"xtc","version":"1.0.0","kinds":["logits"]}"#,
    logits: Nothing,
}
