//! Sets of numbers as languages of their decimal texts.
//!
//! Inside the compiler a set has every spelling without an exponent of each of its values (`1`,
//! `1.0`, `1.00`), so intersection and complement of languages are those of the sets. The spelling
//! is chosen at the end: whole numbers without a fraction, no negative zero, exponents only if any
//! number is allowed.

use crate::build::{Builder, Ex};
use crate::decimal::Decimal;
use crate::ir;
use crate::re::{range, Divisor, Kept, Node, Pool, Re, EMPTY, MANY, NEVER};

/// Largest modulus of a divisibility automaton.
pub const MAX_MODULUS: u64 = 4000;

fn digits(p: &mut Pool, min: u32, max: u32) -> Re {
    let d = p.bytes(range(b'0', b'9'));
    p.rep(d, min, max)
}

fn digit(p: &mut Pool, lo: u8, hi: u8) -> Re {
    if lo > hi {
        return NEVER;
    }
    p.bytes(range(b'0' + lo, b'0' + hi))
}

// 0 or digits that do not begin with 0.
fn whole(p: &mut Pool) -> Re {
    let (zero, first, rest) = (p.byte(b'0'), digit(p, 1, 9), digits(p, 0, MANY));
    let more = p.cat(first, rest);
    p.or2(zero, more)
}

fn signed(p: &mut Pool, r: Re) -> Re {
    let minus = p.byte(b'-');
    let minus = p.opt(minus);
    p.cat(minus, r)
}

// Behind a dot, or nothing.
fn fraction(p: &mut Pool, digits: Re, optional: bool) -> Re {
    let dot = p.byte(b'.');
    let f = p.cat(dot, digits);
    if optional {
        p.opt(f)
    } else {
        f
    }
}

fn magnitude(p: &mut Pool) -> Re {
    p.keep(Kept::Magnitude, |p| {
        let (w, d) = (whole(p), digits(p, 1, MANY));
        let f = fraction(p, d, true);
        p.cat(w, f)
    })
}

/// All numbers.
pub fn all(p: &mut Pool) -> Re {
    p.keep(Kept::Numbers, |p| {
        let m = magnitude(p);
        signed(p, m)
    })
}

/// Whole numbers.
pub fn integers(p: &mut Pool) -> Re {
    p.keep(Kept::Integers, |p| {
        let (w, zero) = (whole(p), p.byte(b'0'));
        let zeros = p.rep(zero, 1, MANY);
        let f = fraction(p, zeros, true);
        let w = p.cat(w, f);
        signed(p, w)
    })
}

// Magnitudes from |d| on; above |d| where strict.
fn from(p: &mut Pool, d: &Decimal, strict: bool) -> Option<Re> {
    let (w, f) = d.plain()?;
    let n = w.len() as u32;
    let some = digits(p, 1, MANY);
    let any_fraction = fraction(p, some, true);
    let mut parts = Vec::new();
    // More digits, or the same digits up to one that is larger.
    let (first, rest) = (digit(p, 1, 9), digits(p, n, MANY));
    parts.push(p.seq(&[first, rest, any_fraction]));
    for (i, &c) in w.iter().enumerate() {
        let prefix: Vec<u8> = w[..i].iter().map(|d| b'0' + d).collect();
        let (prefix, larger, rest) =
            (p.literal(&prefix), digit(p, c + 1, 9), digits(p, n - 1 - i as u32, n - 1 - i as u32));
        parts.push(p.seq(&[prefix, larger, rest, any_fraction]));
    }
    let same: Vec<u8> = w.iter().map(|d| b'0' + d).collect();
    let (same, tail) = (p.literal(&same), fraction_from(p, &f, strict));
    parts.push(p.cat(same, tail));
    let r = p.or(parts);
    let m = magnitude(p);
    Some(p.and2(r, m))
}

fn fraction_from(p: &mut Pool, f: &[u8], strict: bool) -> Re {
    let (any, nonzero) = (digits(p, 0, MANY), digit(p, 1, 9));
    let beyond = p.seq(&[any, nonzero, any]);
    if f.is_empty() {
        let some = digits(p, 1, MANY);
        return if strict { fraction(p, beyond, false) } else { fraction(p, some, true) };
    }
    let mut parts = Vec::new();
    for (i, &c) in f.iter().enumerate() {
        let prefix: Vec<u8> = f[..i].iter().map(|d| b'0' + d).collect();
        let (prefix, larger) = (p.literal(&prefix), digit(p, c + 1, 9));
        parts.push(p.seq(&[prefix, larger, any]));
    }
    let same: Vec<u8> = f.iter().map(|d| b'0' + d).collect();
    let same = p.literal(&same);
    parts.push(p.cat(same, if strict { beyond } else { any }));
    let r = p.or(parts);
    fraction(p, r, false)
}

/// Numbers of at least `d`; above it where strict. None: too many digits.
pub fn at_least(p: &mut Pool, d: &Decimal, strict: bool) -> Option<Re> {
    if !d.neg && !d.is_zero() {
        return from(p, d, strict);
    }
    // Negative numbers whose magnitude is below that of d; zero has both signs.
    let beyond = from(p, d, !strict)?;
    let m = magnitude(p);
    let small = p.minus(m, beyond);
    let minus = p.byte(b'-');
    let negative = p.cat(minus, small);
    let positive = if d.is_zero() && strict { from(p, d, true)? } else { m };
    Some(p.or2(positive, negative))
}

/// Numbers of at most `d`; below it where strict. None: too many digits.
pub fn at_most(p: &mut Pool, d: &Decimal, strict: bool) -> Option<Re> {
    let above = at_least(p, d, !strict)?;
    let all = all(p);
    Some(p.minus(all, above))
}

/// The texts of one number. None: too many digits.
pub fn one(p: &mut Pool, d: &Decimal) -> Option<Re> {
    let (w, f) = d.plain()?;
    let text: Vec<u8> = w.iter().map(|d| b'0' + d).collect();
    let zero = p.byte(b'0');
    let (w, zeros) = (p.literal(&text), p.rep(zero, 0, MANY));
    let f = if f.is_empty() {
        let some = p.rep(zero, 1, MANY);
        fraction(p, some, true)
    } else {
        let text: Vec<u8> = f.iter().map(|d| b'0' + d).collect();
        let f = p.literal(&text);
        let f = p.cat(f, zeros);
        fraction(p, f, false)
    };
    let r = p.cat(w, f);
    let minus = p.byte(b'-');
    Some(match (d.is_zero(), d.neg) {
        (true, _) => signed(p, r),
        (false, true) => p.cat(minus, r),
        (false, false) => r,
    })
}

/// The texts of several numbers. None: too many digits.
pub fn several(p: &mut Pool, values: &[Decimal]) -> Option<Re> {
    let (mut whole, mut broken, mut parts, mut texts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for d in values {
        let text = d.text()?;
        texts.push(text.clone().into_bytes());
        match (d.is_zero(), d.is_int()) {
            (true, _) => parts.push(one(p, d)?),
            (false, true) => whole.push(text),
            (false, false) => broken.push(text),
        }
    }
    let (zero, whole, broken) = (p.byte(b'0'), p.words(&whole), p.words(&broken));
    let (some, any) = (p.rep(zero, 1, MANY), p.rep(zero, 0, MANY));
    let nothing = fraction(p, some, true);
    parts.push(p.cat(whole, nothing));
    parts.push(p.cat(broken, any));
    let r = p.or(parts);
    p.numbers.insert(r, texts);
    Some(r)
}

/// Multiples of `d`, which is above 0. None: the automaton is too large.
pub fn multiples(p: &mut Pool, d: &Decimal) -> Option<Re> {
    let all = all(p);
    let value = d.digits.iter().try_fold(0u64, |v, &d| v.checked_mul(10)?.checked_add(d as u64))?;
    let (modulus, shift) =
        if d.exp >= 0 { (value.checked_mul(10u64.checked_pow(d.exp as u32)?)?, 0) } else { (value, -d.exp as u64) };
    if modulus > MAX_MODULUS || shift > 400 || modulus * (shift + 2) > 10 * MAX_MODULUS {
        return None;
    }
    let r = p.divisible(Divisor { modulus: modulus as u32, shift: shift as u32 });
    Some(p.and2(all, r))
}

/// The shortest text of each number: no zeros at the end of a fraction, no
/// negative zero.
fn shortest(p: &mut Pool) -> Re {
    p.keep(Kept::Shortest, |p| {
        let (w, any, last) = (whole(p), digits(p, 0, MANY), digit(p, 1, 9));
        let f = p.cat(any, last);
        let f = fraction(p, f, false);
        let tail = p.opt(f);
        let r = p.cat(w, tail);
        let r = signed(p, r);
        let zero = p.literal(b"-0");
        p.minus(r, zero)
    })
}

/// The shortest texts of a finite set; None where there are more than `limit`.
pub fn values(p: &mut Pool, set: Re, limit: usize) -> Option<Vec<Vec<u8>>> {
    let s = shortest(p);
    let r = p.and2(set, s);
    p.finite(r, limit)
}

// Most states of the automaton that is written for a set.
const MAX_WRITTEN: usize = 20_000;

// Whether a set that has no largest number is divisible by so much that its automaton is too large:
// it tells apart all remainders of the least common multiple without its factors 2 and 5, by which
// the last digits decide.
fn too_divisible(p: &mut Pool, set: Re) -> bool {
    let members = match p.node(set) {
        Node::And(v) => v.clone(),
        _ => return false,
    };
    let (mut multiple, mut rest) = (1u64, Vec::new());
    for r in members {
        let mut m = match p.divisor(r) {
            Some(d) => d.modulus as u64,
            None => {
                rest.push(r);
                continue;
            }
        };
        for factor in [2, 5] {
            while m % factor == 0 {
                m /= factor;
            }
        }
        multiple = (multiple * (m / common(multiple, m))).min(u32::MAX as u64);
    }
    if multiple <= MAX_WRITTEN as u64 {
        return false;
    }
    let w = whole(p);
    rest.push(signed(p, w));
    let rest = p.and(rest);
    p.cycles(rest, MAX_WRITTEN)
}

// The greatest common divisor.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        common(b, a % b)
    }
}

/// The spellings of a set.
pub fn written(b: &mut Builder, set: Re) -> Option<Ex> {
    if set == NEVER {
        return Some(b.never());
    }
    let p = &mut b.p;
    let (any, whole_numbers, w) = (all(p), integers(p), whole(p));
    if set == any {
        let (e, sign, d, some) = (p.literal(b"e"), p.literal(b"+"), digits(p, 1, MANY), digits(p, 1, MANY));
        let (upper, minus) = (p.literal(b"E"), p.literal(b"-"));
        let (e, sign) = (p.or2(e, upper), p.or2(sign, minus));
        let sign = p.opt(sign);
        let exponent = p.seq(&[e, sign, d]);
        let (exponent, f) = (p.opt(exponent), fraction(p, some, true));
        let r = p.seq(&[w, f, exponent]);
        let r = signed(p, r);
        return Some(b.term(r));
    }
    if set == whole_numbers {
        let r = signed(p, w);
        return Some(b.term(r));
    }
    if too_divisible(p, set) {
        return None;
    }
    let listed = p.numbers.get(&set).cloned();
    if let Some(words) = listed.or_else(|| values(p, set, 64)) {
        let r = p.words(&words);
        return Some(b.term(r));
    }
    let some = digits(p, 1, MANY);
    let f = fraction(p, some, false);
    let with_fraction = p.cat(w, f);
    let zero = p.literal(b"-0");
    let plain = signed(p, w);
    let plain = p.minus(plain, zero);
    let beyond = p.minus(set, whole_numbers);
    let form = if p.is_empty(beyond)? {
        plain
    } else {
        let f = signed(p, with_fraction);
        p.or2(plain, f)
    };
    let r = p.and2(set, form);
    if ir::divides(p, r) {
        return ir::automaton(b, r, "multiple", MAX_WRITTEN);
    }
    debug_assert!(r != EMPTY);
    Some(b.term(r))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    const SAMPLES: &[&str] = &[
        "0", "-0", "0.0", "0.5", "-0.5", "0.05", "1", "1.0", "-1", "9", "9.99", "10", "10.00", "10.01", "11", "99",
        "100", "-9.5", "-10", "-10.5", "-11", "-100", "0.4999", "12345", "1.25", "-1.25", "1.250", "1.2501", "1.2499",
    ];

    #[test]
    fn bounds_are_exact() {
        for bound in ["0", "10", "-10", "0.5", "-0.5", "1.25", "-1.25", "99", "0.05"] {
            let d = Decimal::parse(bound).unwrap();
            let mut p = Pool::new();
            for strict in [false, true] {
                let (low, high) = (at_least(&mut p, &d, strict).unwrap(), at_most(&mut p, &d, strict).unwrap());
                for s in SAMPLES {
                    let order = Decimal::parse(s).unwrap().compare(&d);
                    let same = order == Ordering::Equal && !strict;
                    assert_eq!(
                        p.matches(low, s.as_bytes()),
                        order == Ordering::Greater || same,
                        "{} >= {} ({})",
                        s,
                        bound,
                        strict
                    );
                    assert_eq!(
                        p.matches(high, s.as_bytes()),
                        order == Ordering::Less || same,
                        "{} <= {} ({})",
                        s,
                        bound,
                        strict
                    );
                }
            }
            let only = one(&mut p, &d).unwrap();
            for s in SAMPLES {
                assert_eq!(p.matches(only, s.as_bytes()), Decimal::parse(s).unwrap() == d, "{} == {}", s, bound);
            }
        }
    }

    #[test]
    fn finite_sets() {
        let mut p = Pool::new();
        let (low, high) = (
            at_least(&mut p, &Decimal::int(-2), false).unwrap(),
            at_most(&mut p, &Decimal::parse("1.5").unwrap(), false).unwrap(),
        );
        let (whole, half) = (integers(&mut p), multiples(&mut p, &Decimal::parse("0.5").unwrap()).unwrap());
        let r = p.and(vec![low, high, whole]);
        assert_eq!(values(&mut p, r, 9).unwrap(), [&b"-1"[..], b"-2", b"0", b"1"]);
        let r = p.and(vec![low, high, half]);
        assert_eq!(values(&mut p, r, 9).unwrap(), [&b"-0.5"[..], b"-1", b"-1.5", b"-2", b"0", b"0.5", b"1", b"1.5"]);
        let r = p.and(vec![low, high]);
        assert_eq!(values(&mut p, r, 9), None);
    }
}
