//! A hash table for guests, since alloc has none: it maps hashes to numbers
//! that the caller gives a meaning, so that keys are stored once, by the caller.
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

extern crate alloc;

use alloc::{vec, vec::Vec};

/// Marks a free slot; no value equals it.
const FREE: u32 = u32::MAX;
/// Slots of the first table: few sequences of plain chats outgrow it.
const FIRST: usize = 256;

/// Open addressing with linear probing, from an eighth to half full. Nothing is removed.
#[derive(Default)]
pub struct Table {
    slots: Vec<(u32, u32)>, // high half of the mixed hash, value
    filled: usize,
}

/// Spreads the bits of a weak hash, such as a token id: the finaliser of
/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
fn mix(mut h: u64) -> u64 {
    h = (h ^ h >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 27).wrapping_mul(0x94d049bb133111eb);
    h ^ h >> 31
}

impl Table {
    /// An empty table; it takes no memory.
    pub const fn new() -> Table {
        Table { slots: Vec::new(), filled: 0 }
    }

    /// The value kept under `hash` for which `same` is true. Values of other
    /// keys may have the same hash, hence `same`.
    pub fn get(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let h = mix(hash);
        let mut at = h as usize & (self.slots.len() - 1);
        loop {
            match self.slots[at] {
                (_, FREE) => return None,
                (high, value) if high == (h >> 32) as u32 && same(value) => return Some(value),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Keeps `value`, below 2^32-1, under `hash`. `hash_of` tells the hash of a
    /// value kept before, for when the table grows.
    pub fn insert(&mut self, hash: u64, value: u32, hash_of: impl Fn(u32) -> u64) {
        if self.filled * 2 >= self.slots.len() {
            self.grow(hash_of);
        }
        self.filled += 1;
        self.put(hash, value);
    }

    // Fuel is charged for all of a loop's body, so what is rare stays outside.
    #[inline(never)]
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let wider = vec![(0, FREE); (self.slots.len() * 4).max(FIRST)];
        for (_, v) in core::mem::replace(&mut self.slots, wider) {
            if v != FREE {
                self.put(hash_of(v), v);
            }
        }
    }

    #[inline(never)]
    fn put(&mut self, hash: u64, value: u32) {
        let h = mix(hash);
        let mut at = h as usize & (self.slots.len() - 1);
        while self.slots[at].1 != FREE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = ((h >> 32) as u32, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_all() {
        // Three keys share each hash, so that `same` has to tell them apart.
        let key = |v: u32| (v as u64 / 3).wrapping_mul(0x9e3779b97f4a7c15);
        let mut t = Table::new();
        assert_eq!(t.get(0, |_| true), None);
        for v in 0..5000 {
            assert_eq!(t.get(key(v), |x| x == v), None);
            t.insert(key(v), v, key);
        }
        for v in 0..5000 {
            assert_eq!(t.get(key(v), |x| x == v), Some(v));
        }
        assert_eq!(t.get(key(5001), |x| x == 5001), None);
        assert!(t.slots.len() <= 16384, "{} slots for 5000 values", t.slots.len());
    }
}
