//! Which tokens are green after a context.
//!
//! Both schemes are SelfHash of Kirchenbauer et al. (2023, "On the Reliability
//! of Watermarks for Large Language Models", section 3 and appendix): an
//! anchored minhash over a window of tokens whose last, the anchor, is the
//! candidate itself. They differ in the hash and in how membership is drawn.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::siphash::siphash;
use crate::torch::Generators;

/// The table of transformers: its size, a prime.
const TABLE: u32 = 1_000_003;

/// How a green list is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// SipHash-2-4 under the key.
    Keyed,
    /// WatermarkLogitsProcessor of transformers with seeding_scheme="selfhash".
    Transformers,
}

/// What generator and detector must agree on.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreed {
    pub scheme: Scheme,
    pub ratio: f64,
    pub key: u64,
    /// Tokens of the window, the candidate included.
    pub width: usize,
}

/// The hash table of transformers, as far as token ids reach.
pub fn table(key: u64, vocabulary: u32) -> Vec<u32> {
    Generators::new().permutation(key as u32, TABLE, vocabulary as usize)
}

/// Tells green tokens.
pub struct Greens<'a> {
    agreed: Agreed,
    table: &'a [u32],
    vocabulary: u32,
    generators: Box<Generators>,
}

impl<'a> Greens<'a> {
    /// `table` is that of the same key.
    pub fn new(agreed: Agreed, table: &'a [u32], vocabulary: u32) -> Self {
        Greens { agreed, table, vocabulary, generators: Box::new(Generators::new()) }
    }

    /// Calls `green` with the index of each candidate that is green after
    /// `before`, the width - 1 tokens in front of it.
    pub fn each(&mut self, before: &[u32], candidates: &[u32], mut green: impl FnMut(usize)) {
        match self.agreed.scheme {
            Scheme::Keyed => {
                for (i, &c) in candidates.iter().enumerate() {
                    if self.keyed(before, c) {
                        green(i);
                    }
                }
            }
            Scheme::Transformers => {
                for (group, four) in candidates.chunks(4).enumerate() {
                    let is = self.four(before, four);
                    for (i, _) in four.iter().enumerate().filter(|(i, _)| is[*i]) {
                        green(4 * group + i);
                    }
                }
            }
        }
    }

    fn keyed(&self, before: &[u32], c: u32) -> bool {
        let key = [self.agreed.key, 0];
        let pair = |x: u32| siphash(key, &[x as u64 | (c as u64) << 32], 0, 0);
        let seed = before.iter().fold(pair(c), |least, &x| least.min(pair(x)));
        let drawn = siphash(key, &[seed], c as u64, 4);
        drawn < (self.agreed.ratio * 18_446_744_073_709_551_616.0) as u64
    }

    fn four(&mut self, before: &[u32], four: &[u32]) -> [bool; 4] {
        let size = (self.vocabulary as f64 * self.agreed.ratio) as u32;
        if size == 0 {
            return [false; 4];
        }
        let at = |i: usize| four[i.min(four.len() - 1)];
        let tokens = [at(0), at(1), at(2), at(3)];
        let seeds = tokens.map(|c| self.seed(before, c));
        self.generators.among_first(seeds, tokens, self.vocabulary, size)
    }

    /// The low half of what transformers hands to manual_seed: products are
    /// those of 64-bit tensors, which wrap, and so is the least of them.
    fn seed(&self, before: &[u32], c: u32) -> u32 {
        let entry = |t: u32| self.table[(t % TABLE) as usize] as i64 + 1;
        let anchor = entry(c);
        let product = |x: u32| (self.agreed.key as i64).wrapping_mul(entry(x)).wrapping_mul(anchor);
        let least = before.iter().fold(product(c), |least, &x| least.min(product(x)));
        // seed % (2^64 - 1), which Python keeps from 0 up.
        if least < 0 {
            (least as u32).wrapping_sub(1)
        } else {
            least as u32
        }
    }
}
