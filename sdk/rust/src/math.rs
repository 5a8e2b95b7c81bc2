//! Functions of numbers that core lacks. [`exp`] and [`ln`] are within 2 units in
//! the last place, the same bits everywhere, and the same as tgi_math.h in C;
//! [`sqrt`], [`floor`], [`ceil`] and [`trunc`] are exact, as IEEE 754 has them.

const LN2_HI: f64 = 0.6931471803691238; // 0x1.62e42feep-1
const LN2_LO: f64 = 1.9082149292705877e-10; // 0x1.a39ef35793c76p-33

/// x * 2^k for -1100 < k < 1100.
fn scale(x: f64, k: i32) -> f64 {
    let half = k / 2;
    let power = |k: i32| f64::from_bits(((1023 + k) as u64) << 52);
    x * power(half) * power(k - half)
}

/// e to the power of x.
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 710.0 {
        return f64::INFINITY;
    }
    if x < -746.0 {
        return 0.0;
    }
    let k = (x * core::f64::consts::LOG2_E + if x < 0.0 { -0.5 } else { 0.5 }) as i32;
    let r = (x - k as f64 * LN2_HI) - k as f64 * LN2_LO;
    let p = (1..=14).rev().fold(1.0, |p, n| 1.0 + p * r / n as f64);
    scale(p, k)
}

/// The natural logarithm of x: NaN below 0, negative infinity at 0.
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    let (x, mut e) = if x < f64::MIN_POSITIVE { (x * (1u64 << 54) as f64, -54) } else { (x, 0) };
    let b = x.to_bits();
    e += (b >> 52) as i32 - 1023;
    let mut m = f64::from_bits((b & 0xf_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if m > core::f64::consts::SQRT_2 {
        m *= 0.5;
        e += 1;
    }
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let p = (1..=11).rev().fold(0.0, |p, i| (p + 1.0 / (2 * i + 1) as f64) * z);
    // ln(1+f) = 2s + 2sp, and 2s = f - sf: written so that f comes in whole.
    e as f64 * LN2_HI + (f - s * (f - 2.0 * p) + e as f64 * LN2_LO)
}

/// Functions that WebAssembly has as instructions: of SIMD, since core offers
/// only those.
macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident $wide:ident)*) => {$(
        $(#[$doc])*
        pub fn $name(x: f64) -> f64 {
            #[cfg(target_arch = "wasm32")]
            {
                use core::arch::wasm32::{f64x2_extract_lane, f64x2_splat, $wide};
                f64x2_extract_lane::<0>($wide(f64x2_splat(x)))
            }
            #[cfg(not(target_arch = "wasm32"))]
            x.$name()
        }
    )*};
}

instructions! {
    /// The square root of x: NaN below 0.
    sqrt f64x2_sqrt
    /// The greatest whole number that is not above x.
    floor f64x2_floor
    /// The least whole number that is not below x.
    ceil f64x2_ceil
    /// x without its fraction.
    trunc f64x2_trunc
    /// x without its sign.
    abs f64x2_abs
}

/// The logarithm of x to base 2; [`ln`] says of which x.
pub fn log2(x: f64) -> f64 {
    ln(x) * core::f64::consts::LOG2_E
}

/// The logarithm of x to base 10; [`ln`] says of which x.
pub fn log10(x: f64) -> f64 {
    ln(x) * core::f64::consts::LOG10_E
}

/// x to the power of n, by multiplication.
pub fn powi(x: f64, n: i32) -> f64 {
    let (mut result, mut factor, mut rest) = (1.0, x, n.unsigned_abs());
    while rest > 0 {
        if rest & 1 == 1 {
            result *= factor;
        }
        factor *= factor;
        rest >>= 1;
    }
    if n < 0 {
        1.0 / result
    } else {
        result
    }
}

/// x, which is not negative, to the power of y: as exp(y ln x), which is
/// inexact in proportion to y ln x.
pub fn pow(x: f64, y: f64) -> f64 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    exp(y * ln(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64) -> bool {
        if got == want || got.is_nan() && want.is_nan() {
            return true;
        }
        got.is_finite() && want.is_finite() && (got.to_bits() as i64).wrapping_sub(want.to_bits() as i64).abs() <= 2
    }

    #[test]
    fn others_as_the_machine() {
        for x in [0.0, -0.0, 1.0, -1.5, 2.0, 2.5, 1e300, -7.99, 0.1, f64::INFINITY] {
            assert!(close(sqrt(x), x.sqrt()) && close(floor(x), x.floor()) && close(ceil(x), x.ceil()));
            assert!(close(trunc(x), x.trunc()) && close(abs(x), x.abs()));
            let near = |got: f64, want: f64| close(got, want) || (got - want).abs() <= 1e-13 * want.abs();
            assert!(near(log2(x), x.log2()) && near(log10(x), x.log10()), "logarithms of {}", x);
            for n in [-3, 0, 1, 2, 7] {
                assert!(near(powi(x, n), x.powi(n)), "{} to the {}: {}", x, n, powi(x, n));
                assert!(x < 0.0 || near(pow(x, n as f64 / 2.0), x.powf(n as f64 / 2.0)), "{} to the {}: {}", x, n as f64 / 2.0, pow(x, n as f64 / 2.0));
            }
        }
    }

    #[test]
    fn as_the_machine() {
        assert_eq!((LN2_HI.to_bits(), LN2_LO.to_bits()), (0x3fe62e42fee00000, 0x3dea39ef35793c76));
        for x in [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 709.78, 710.0, -745.1, -746.0, 1e-320, 1e308, f64::MIN_POSITIVE, 0.5] {
            assert!(close(exp(x), x.exp()), "exp({}) = {}", x, exp(x));
            assert!(close(ln(x), x.ln()), "ln({}) = {}", x, ln(x));
        }
        let mut seed = 1u64;
        for i in 0..200_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let u = (seed >> 11) as f64 / (1u64 << 53) as f64;
            let x = (u - 0.5) * 1400.0;
            let y = if i % 2 == 1 { x.exp() } else { u * 3.0 };
            assert!(close(exp(x), x.exp()), "exp({}) = {}", x, exp(x));
            assert!(close(ln(y), y.ln()), "ln({}) = {}", y, ln(y));
        }
    }
}
