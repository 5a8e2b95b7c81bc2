//! Functions of the server that a plugin may call.

use alloc::vec::Vec;

/// Level of [`log`].
pub const DEBUG: u32 = 0;
/// Level of [`log`].
pub const INFO: u32 = 1;
/// Level of [`log`].
pub const WARN: u32 = 2;
/// Level of [`log`]. If the plugin traps, the fault contains the last line logged.
pub const ERROR: u32 = 3;

const SPECIAL: i32 = 1;
const END: i32 = 2;

#[cfg(target_arch = "wasm32")]
mod import {
    #[link(wasm_import_module = "tgi")]
    extern "C" {
        pub fn log(level: u32, text: *const u8, len: u32);
        pub fn vocab_size() -> u32;
        pub fn token_bytes(id: u32, to: *mut u8, room: u32) -> i32;
        pub fn token_flags(id: u32) -> i32;
        pub fn encode(text: *const u8, len: u32, to: *mut u32, room: u32) -> i32;
        pub fn rand_u64() -> u64;
    }
}

#[cfg(not(target_arch = "wasm32"))]
use crate::testing::import;

/// Writes to the server's log; text beyond 4 KiB is cut.
pub fn log(level: u32, text: &str) {
    unsafe { import::log(level, text.as_ptr(), text.len() as u32) }
}

/// The number of token ids, 0 to `vocab_size() - 1`.
pub fn vocab_size() -> u32 {
    unsafe { import::vocab_size() }
}

/// The bytes that a token stands for; of a special token, its text. `None`
/// where there is no such token.
pub fn token_bytes(id: u32) -> Option<Vec<u8>> {
    let mut room = 64;
    loop {
        let mut b = Vec::with_capacity(room);
        let n = unsafe { import::token_bytes(id, b.as_mut_ptr(), room as u32) };
        if n < 0 {
            return None;
        }
        if n as usize <= room {
            // The server has written n bytes.
            unsafe { b.set_len(n as usize) };
            return Some(b);
        }
        room = n as usize;
    }
}

/// Whether a token is markup of the model and not text.
pub fn is_special(id: u32) -> bool {
    has(id, SPECIAL)
}

/// Whether choosing the token ends the sequence.
pub fn is_end(id: u32) -> bool {
    has(id, END)
}

fn has(id: u32, bit: i32) -> bool {
    let f = unsafe { import::token_flags(id) };
    f >= 0 && f & bit != 0
}

/// The token ids of a text; special tokens in it are recognised, none are added.
pub fn encode(text: &str) -> Option<Vec<u32>> {
    let mut room = 16;
    loop {
        let mut ids = Vec::with_capacity(room);
        let n = unsafe { import::encode(text.as_ptr(), text.len() as u32, ids.as_mut_ptr(), room as u32) };
        if n < 0 {
            return None;
        }
        if n as usize <= room {
            // The server has written n ids.
            unsafe { ids.set_len(n as usize) };
            return Some(ids);
        }
        room = n as usize;
    }
}

/// 64 random bits: the same for the same seed of the request.
pub fn rand() -> u64 {
    unsafe { import::rand_u64() }
}

/// A random number from 0 to below 1.
pub fn rand_float() -> f64 {
    (rand() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}
