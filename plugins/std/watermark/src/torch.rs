//! The random numbers of PyTorch's CPU generator, as far as green lists need
//! them: `torch.Generator.manual_seed` is MT19937 (Matsumoto and Nishimura,
//! 1998) seeded with the low 32 bits, and `torch.randperm` a Fisher-Yates
//! shuffle from the front that takes one 32-bit draw modulo what is left
//! (ATen/native/TensorFactories.cpp, randperm_cpu).

use alloc::vec::Vec;

use crate::lanes::Lanes;

const N: usize = 624;
const M: usize = 397;

/// Four generators side by side.
pub struct Generators {
    state: [Lanes; N],
}

#[inline(always)]
fn twist(a: Lanes, b: Lanes, far: Lanes) -> Lanes {
    let y = a.and(Lanes::splat(0x8000_0000)).or(b.and(Lanes::splat(0x7fff_ffff)));
    let odd = Lanes::splat(0).sub(b.and(Lanes::splat(1))).and(Lanes::splat(0x9908_b0df));
    far.xor(y.shr(1)).xor(odd)
}

#[inline(always)]
fn temper(y: Lanes) -> Lanes {
    let y = y.xor(y.shr(11));
    let y = y.xor(y.shl(7).and(Lanes::splat(0x9d2c_5680)));
    let y = y.xor(y.shl(15).and(Lanes::splat(0xefc6_0000)));
    y.xor(y.shr(18))
}

impl Generators {
    /// Generators without a seed.
    pub const fn new() -> Generators {
        Generators { state: [Lanes::new([0; 4]); N] }
    }

    fn seed(&mut self, seeds: [u32; 4]) {
        let mut s = Lanes::new(seeds);
        self.state[0] = s;
        for j in 1..N {
            s = s.xor(s.shr(30)).mul(Lanes::splat(1_812_433_253)).add(Lanes::splat(j as u32));
            self.state[j] = s;
        }
    }

    /// Gives draws of four bits of 32 to `each` until it answers false.
    #[inline(always)]
    fn draw(&mut self, mut each: impl FnMut(Lanes) -> bool) {
        let s = &mut self.state;
        loop {
            for j in 0..N - M {
                s[j] = twist(s[j], s[j + 1], s[j + M]);
                if !each(temper(s[j])) {
                    return;
                }
            }
            for j in N - M..N - 1 {
                s[j] = twist(s[j], s[j + 1], s[j + M - N]);
                if !each(temper(s[j])) {
                    return;
                }
            }
            s[N - 1] = twist(s[N - 1], s[0], s[M - 1]);
            if !each(temper(s[N - 1])) {
                return;
            }
        }
    }

    /// `torch.randperm(n)` after `manual_seed(seed)`, its first `keep` entries.
    pub fn permutation(&mut self, seed: u32, n: u32, keep: usize) -> Vec<u32> {
        // First what stays: the room of the whole lies behind it and goes back.
        let mut kept = Vec::with_capacity(keep.min(n as usize));
        let mut all: Vec<u32> = (0..n).collect();
        self.seed([seed; 4]);
        let mut i = 0;
        self.draw(|y| {
            if i + 1 >= n {
                return false;
            }
            all.swap(i as usize, (i + y.array()[0] % (n - i)) as usize);
            i += 1;
            true
        });
        kept.extend_from_slice(&all[..keep.min(n as usize)]);
        kept
    }

    /// For each of four pairs of seed and token: whether the token is among the
    /// first `size` entries of `randperm(n)`. `size` lies from 1 to n - 1.
    ///
    /// No permutation is made. A token moves only when a swap touches its place:
    /// a swap into the part already shuffled ends its way, and the swap of the
    /// place that it stands at carries it elsewhere.
    pub fn among_first(&mut self, seeds: [u32; 4], tokens: [u32; 4], n: u32, size: u32) -> [bool; 4] {
        self.seed(seeds);
        let mut walk = Walk { at: tokens, green: [false; 4] };
        let mut at = Lanes::new(tokens);
        let (mut i, mut left) = (0, n);
        let exact = !divides_well(n, n - size);
        // A little more than what is left, so that a quotient is never too great.
        let mut divisor = n as f32 + slack(n);
        self.draw(|y| {
            let to = at.sub(Lanes::splat(i));
            let d = Lanes::splat(left);
            let over = y.sub(y.quotient(divisor).mul(d)).sub(to); // 0, or d where the quotient is 1 too small
            let zero = Lanes::splat(0);
            let hit = over.eq(zero).or(over.eq(d)).or(to.eq(zero));
            if exact || hit.any() {
                at = walk.swap(y, i, left);
            }
            i += 1;
            left -= 1;
            divisor -= 1.0;
            i < size && walk.green != [true; 4]
        });
        walk.green
    }
}

/// A power of two from n / 2^21 to n / 2^20, a multiple of the last place of n.
fn slack(n: u32) -> f32 {
    (1u32 << (31 - n.max(1).leading_zeros())) as f32 / (1 << 20) as f32
}

/// Whether quotients of 32-bit numbers by `smallest` to n are at most 1 too
/// small: the error is below 2^32 / d * slack / d and what three roundings add,
/// less than as much again.
fn divides_well(n: u32, smallest: u32) -> bool {
    n < 1 << 23 && smallest as u64 * smallest as u64 > 8192 * n as u64
}

/// The positions of four tokens.
struct Walk {
    at: [u32; 4],
    green: [bool; 4],
}

/// The place of a token that has arrived: no swap can hit it.
const ARRIVED: u32 = u32::MAX;

impl Walk {
    /// Step i of the shuffles: place i is swapped with place i + draw % left.
    fn swap(&mut self, draws: Lanes, i: u32, left: u32) -> Lanes {
        for (l, draw) in draws.array().iter().enumerate() {
            if self.green[l] {
                continue;
            }
            let to = draw % left;
            if self.at[l] - i == to {
                self.green[l] = true;
                self.at[l] = ARRIVED;
            } else if self.at[l] == i {
                self.at[l] = i + to;
            }
        }
        Lanes::new(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers() {
        // MT19937 seeded with 5489: the 10000th number is 4123659995 (C++ standard, 26.6.5).
        let mut g = Generators::new();
        g.seed([5489, 5489, 1, 2]);
        let mut n = 0;
        let mut last = [0; 4];
        g.draw(|y| {
            n += 1;
            last = y.array();
            n < 10000
        });
        assert_eq!(last[..2], [4123659995; 2]);
    }

    #[test]
    fn walk_is_the_permutation() {
        let mut g = Generators::new();
        let mut greens = 0;
        for (n, size) in [(2, 1), (7, 3), (40, 39), (259, 64), (2048, 512), (32000, 8000), (40000, 30000), (128_256, 32064)] {
            for seed in [0, 1, 77, u32::MAX] {
                let first = g.permutation(seed, n, size as usize);
                for t in 0..20u32 {
                    let tokens = [t % n, (n - 1).wrapping_sub(t) % n, first[t as usize % first.len()], t.wrapping_mul(2654435761) % n];
                    let got = g.among_first([seed; 4], tokens, n, size);
                    let want = tokens.map(|t| first.contains(&t));
                    assert_eq!(got, want, "n {} seed {} tokens {:?}", n, seed, tokens);
                    greens += want.iter().filter(|g| **g).count();
                }
            }
        }
        assert!(greens > 100);
    }

    #[test]
    fn quotients() {
        for (n, size) in [(32000u32, 8000u32), (50257, 12564), (128_256, 32064), (151_936, 37984), (151_936, 75968), (1_000_000, 500_000)] {
            assert!(divides_well(n, n - size));
            for i in (0..size).step_by(97).chain([size - 1]) {
                let d = n - i;
                // The divisor is counted down in steps of 1, without a rounding.
                let divisor = (n as f32 + slack(n)) - i as f32;
                assert_eq!(divisor as f64, (n as f32 + slack(n)) as f64 - i as f64);
                for k in [1u32, 2, 1000, u32::MAX / d, u32::MAX / d - 1] {
                    for y in [(k * d).wrapping_sub(1), k * d, k * d + 1, u32::MAX] {
                        let q = Lanes::splat(y).quotient(divisor).array()[0];
                        assert!(q == y / d || q + 1 == y / d, "{} / {} = {}", y, d, q);
                    }
                }
            }
        }
    }
}
