//! The text at the end of a prompt. A client chooses where prompts end and outputs begin, so what a guard looks for may
//! begin in the one and end in the other.
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

extern crate alloc;

use alloc::vec::Vec;
use tgi_plugin::host;

/// The last bytes of a prompt's text behind its last special token, at most so many.
pub fn tail(prompt: &[u32], most: usize) -> Vec<u8> {
    let mut list = Vec::with_capacity(most);
    for &id in prompt.iter().rev().take(most) {
        if host::is_special(id) || list.len() >= most {
            break;
        }
        list.extend(host::token_bytes(id).unwrap_or_default().iter().rev());
    }
    list.truncate(most);
    list.reverse();
    list
}
