//! Hash tables for small keys of our own making. The hash of the standard
//! library withstands chosen keys and costs a tenth of a compilation; keys here
//! are indices and sets, and the number of entries is bounded.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;
/// A set.
pub type Seen<K> = HashSet<K, BuildHasherDefault<Mix>>;

/// Folds each word in with a 64 to 128 bit multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, v: u64) {
        // Digits of pi.
        let wide = (self.0 ^ v ^ 0x243F_6A88_85A3_08D3) as u128 * 0x1319_8A2E_0370_7345;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn write_u8(&mut self, v: u8) {
        self.write_u64(v as u64);
    }

    fn write_u32(&mut self, v: u32) {
        self.write_u64(v as u64);
    }

    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
}
