//! Hash tables for small internal keys. The standard library's hash resists chosen keys and costs a
//! tenth of a compilation; keys here are indices and sets, and the number of entries is bounded.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;
/// A set.
pub type Seen<K> = HashSet<K, BuildHasherDefault<Mix>>;

/// Folds each word in with one multiplication of 64 bits: WebAssembly has none
/// that gives more. Its upper bits are the good ones, hence the rotations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
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
        self.0 = (self.0.rotate_left(26) ^ v ^ 0x243F_6A88_85A3_08D3).wrapping_mul(0x1319_8A2E_0370_7345);
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

/// A map whose entries are never written again once it is frozen.
#[derive(Clone, Debug)]
pub struct Layered<K, V> {
    now: Map<K, V>,
    before: Map<K, V>,
}

impl<K, V> Default for Layered<K, V> {
    fn default() -> Self {
        Layered { now: Map::default(), before: Map::default() }
    }
}

impl<K: Eq + std::hash::Hash, V> Layered<K, V> {
    /// The value of a key.
    pub fn get(&self, k: &K) -> Option<&V> {
        self.now.get(k).or_else(|| self.before.get(k))
    }

    /// Whether a key has a value.
    pub fn contains_key(&self, k: &K) -> bool {
        self.get(k).is_some()
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, k: K, v: V) {
        self.now.insert(k, v);
    }

    /// Freezes the present entries: later ones are stored separately. Called once.
    pub fn freeze(&mut self) {
        if self.before.is_empty() {
            std::mem::swap(&mut self.before, &mut self.now);
        }
    }
}

/// An index of things that are numbered from 0 and stored elsewhere: finds the number of one by its
/// hash. It is small, because each page of memory that a compilation writes to must be copied for
/// it.
#[derive(Clone, Debug, Default)]
pub struct Index {
    // Hash and number plus one, 0 where there is none. A power of two of them, at most three
    // quarters in use.
    slots: Vec<(u32, u32)>,
    used: usize,
    // The slots as they were when it was frozen. They are not written any more.
    frozen: Vec<(u32, u32)>,
}

impl Index {
    /// Freezes the present entries: later ones are stored separately.
    pub fn freeze(&mut self) {
        if self.frozen.is_empty() {
            self.frozen = std::mem::take(&mut self.slots);
            self.used = 0;
        }
    }

    /// The number with this hash for which `same` is true.
    pub fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = fold(hash);
        look(&self.frozen, hash, &same).or_else(|| look(&self.slots, hash, &same))
    }

    /// Adds a number that is not in it.
    pub fn add(&mut self, hash: u64, number: u32) {
        if self.used * 4 >= self.slots.len() * 3 {
            let size = (self.slots.len() * 2).max(64);
            let old = std::mem::replace(&mut self.slots, vec![(0, 0); size]);
            for (h, n) in old.into_iter().filter(|s| s.1 != 0) {
                self.place(h, n);
            }
        }
        self.place(fold(hash), number + 1);
        self.used += 1;
    }

    fn place(&mut self, hash: u32, n: u32) {
        let mut at = hash as usize & (self.slots.len() - 1);
        while self.slots[at].1 != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (hash, n);
    }
}

fn look(slots: &[(u32, u32)], hash: u32, same: &impl Fn(u32) -> bool) -> Option<u32> {
    if slots.is_empty() {
        return None;
    }
    let mut at = hash as usize & (slots.len() - 1);
    loop {
        match slots[at] {
            (_, 0) => return None,
            (h, n) if h == hash && same(n - 1) => return Some(n - 1),
            _ => at = (at + 1) & (slots.len() - 1),
        }
    }
}

fn fold(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}
