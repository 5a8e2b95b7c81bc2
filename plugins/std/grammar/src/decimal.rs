//! Exact decimal numbers, as in JSON texts. Schemas' bounds and multiples are compared and written
//! without conversion to floating point.

use std::cmp::Ordering;

/// Most digits of a number written out without an exponent.
pub const MAX_DIGITS: i64 = 2000;

/// digits * 10^exp, negated if `neg`. Canonical: no leading or trailing zero
/// among the digits; zero has none, exponent 0 and no sign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    /// Below zero.
    pub neg: bool,
    /// Values 0 to 9, most significant first.
    pub digits: Vec<u8>,
    /// Power of ten of the last digit.
    pub exp: i64,
}

impl Decimal {
    /// Reads a JSON number. None if the exponent has more than 18 digits.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (neg, rest) = match text.strip_prefix('-') {
            Some(r) => (true, r),
            None => (false, text),
        };
        let (mantissa, exp) = match rest.find(&['e', 'E'][..]) {
            Some(i) => {
                let e = rest[i + 1..].trim_start_matches('+');
                (&rest[..i], if e.len() > 18 { return None } else { e.parse::<i64>().ok()? })
            }
            None => (rest, 0),
        };
        let (whole, frac) = match mantissa.find('.') {
            Some(i) => (&mantissa[..i], &mantissa[i + 1..]),
            None => (mantissa, ""),
        };
        let digits: Vec<u8> = whole.bytes().chain(frac.bytes()).map(|b| b.wrapping_sub(b'0')).collect();
        if digits.is_empty() || digits.iter().any(|&d| d > 9) {
            return None;
        }
        Some(Decimal { neg, digits, exp: exp - frac.len() as i64 }.canonical())
    }

    /// A whole number.
    pub fn int(v: i64) -> Decimal {
        let text = v.to_string();
        let (neg, digits) = (v < 0, text.trim_start_matches('-').bytes().map(|b| b - b'0').collect());
        Decimal { neg, digits, exp: 0 }.canonical()
    }

    fn canonical(mut self) -> Decimal {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exp += 1;
        }
        let lead = self.digits.iter().take_while(|&&d| d == 0).count();
        self.digits.drain(..lead);
        if self.digits.is_empty() {
            return Decimal { neg: false, digits: Vec::new(), exp: 0 };
        }
        self
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Whether it is a whole number.
    pub fn is_int(&self) -> bool {
        self.exp >= 0
    }

    /// The magnitude as digits before the point (at least one) and after it (no
    /// trailing zeros). None where that takes more than MAX_DIGITS.
    pub fn plain(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.exp.abs() > MAX_DIGITS || self.digits.len() as i64 > MAX_DIGITS {
            return None;
        }
        let mut d = self.digits.clone();
        if self.exp >= 0 {
            d.resize(d.len() + self.exp as usize, 0);
            return Some((if d.is_empty() { vec![0] } else { d }, Vec::new()));
        }
        let after = (-self.exp) as usize;
        if d.len() <= after {
            let mut padded = vec![0; after + 1 - d.len()];
            padded.extend(d);
            d = padded;
        }
        let frac = d.split_off(d.len() - after);
        Some((d, frac))
    }

    /// The text without an exponent.
    pub fn text(&self) -> Option<String> {
        let (whole, frac) = self.plain()?;
        let mut s = String::from(if self.neg { "-" } else { "" });
        s.extend(whole.iter().map(|d| (b'0' + d) as char));
        if !frac.is_empty() {
            s.push('.');
            s.extend(frac.iter().map(|d| (b'0' + d) as char));
        }
        Some(s)
    }

    /// The value as a count, for keywords such as `minItems`; values beyond
    /// `u32::MAX` are given as that. None for negative and fractional ones.
    pub fn count(&self) -> Option<u32> {
        if self.neg || !self.is_int() {
            return None;
        }
        if self.exp + self.digits.len() as i64 > 10 {
            return Some(u32::MAX);
        }
        let v = self.digits.iter().fold(0u64, |v, &d| v * 10 + d as u64) * 10u64.pow(self.exp as u32);
        Some(v.min(u32::MAX as u64) as u32)
    }

    /// Compares by value.
    pub fn compare(&self, other: &Decimal) -> Ordering {
        let sign = |d: &Decimal| {
            if d.is_zero() {
                0
            } else if d.neg {
                -1
            } else {
                1
            }
        };
        let (a, b) = (sign(self), sign(other));
        if a != b || a == 0 {
            return a.cmp(&b);
        }
        let top = |d: &Decimal| d.exp + d.digits.len() as i64;
        // Digits from the same power of ten on compare like strings.
        let mag = top(self).cmp(&top(other)).then_with(|| self.digits.cmp(&other.digits));
        if self.neg {
            mag.reverse()
        } else {
            mag
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (text, want) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("1.50", "1.5"),
            ("12e3", "12000"),
            ("-12.5e-3", "-0.0125"),
            ("1E+2", "100"),
            ("0.00012", "0.00012"),
            ("100.0", "100"),
        ] {
            assert_eq!(Decimal::parse(text).unwrap().text().unwrap(), want);
        }
        assert_eq!(Decimal::parse("1e400000").unwrap().text(), None);
        assert_eq!(Decimal::parse("1e9999999999999999999"), None);
    }

    #[test]
    fn order() {
        let sorted = ["-1e3", "-999.5", "-1", "-0.5", "0", "1e-9", "0.5", "0.51", "1", "9", "10", "10.01", "1e308"];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                let (a, b) = (Decimal::parse(a).unwrap(), Decimal::parse(b).unwrap());
                assert_eq!(a.compare(&b), i.cmp(&j));
            }
        }
    }

    #[test]
    fn counts() {
        for (text, want) in
            [("3", Some(3)), ("2.0", Some(2)), ("2.5", None), ("-1", None), ("1e30", Some(u32::MAX)), ("0", Some(0))]
        {
            assert_eq!(Decimal::parse(text).unwrap().count(), want);
        }
    }
}
