//! The vocabulary that the server has, for what a source asks about it.

use compiler::Vocabulary;

#[link(wasm_import_module = "tgi")]
extern "C" {
    fn token_bytes(id: u32, to: *mut u8, room: u32) -> i32;
    fn token_flags(id: u32) -> i32;
    fn encode(text: *const u8, len: u32, to: *mut u32, room: u32) -> i32;
}

/// The server's.
pub struct Host;

impl Vocabulary for Host {
    fn token(&self, text: &str) -> Option<(u32, bool)> {
        let (mut id, mut bytes) = (0, vec![0; text.len()]);
        // Both write only what fits, and give the size of all.
        let alone = unsafe { encode(text.as_ptr(), text.len() as u32, &mut id, 1) } == 1;
        let same = alone && unsafe { token_bytes(id, bytes.as_mut_ptr(), bytes.len() as u32) } == bytes.len() as i32;
        if !same || bytes != text.as_bytes() {
            return None;
        }
        Some((id, unsafe { token_flags(id) } == 0))
    }
}
