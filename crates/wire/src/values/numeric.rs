//! [`Numeric`]: decimal numbers of any length, in groups of four digits as PostgreSQL keeps them.

use std::io::Write as _;

use crate::error::{Refusal, code};

/// Digits before the point that PostgreSQL allows.
const WHOLE_DIGITS_MAX: i64 = 131_072;
/// Digits behind it.
const SCALE_MAX: i64 = 16_383;
/// Digits in a group.
const GROUP: i64 = 4;

/// A number of type `numeric`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numeric {
    /// Not a number.
    NaN,
    /// More than all others.
    Infinity,
    /// Less than all others.
    NegativeInfinity,
    /// A decimal.
    Finite(Decimal),
}

/// A decimal: groups of four digits, the first of which is worth `10000^weight`; no group at either end is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    weight: i32,
    scale: u16,
    groups: Vec<u16>,
}

fn overflow() -> Refusal {
    Refusal::new(code::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

impl Decimal {
    /// `unscaled / 10^scale`.
    pub fn from_i128(unscaled: i128, scale: u8) -> Self {
        let digits = unscaled.unsigned_abs().to_string();
        let point = digits.len() as i64 - i64::from(scale);
        Self::from_digits(unscaled < 0, digits.as_bytes(), point, u16::from(scale))
    }

    /// `self * 10^scale`, where it is a whole number and fits.
    pub fn to_i128(&self, scale: u8) -> Option<i128> {
        let mut value = 0i128;
        // Each group is worth this many digits more than the unscaled number.
        let mut exponent = GROUP * i64::from(self.weight) + i64::from(scale);
        for group in &self.groups {
            let mut group = i128::from(*group);
            // The end of a group that is below the scale must be zero.
            for _ in exponent..0 {
                if group % 10 != 0 {
                    return None;
                }
                group /= 10;
            }
            let power = 10i128.checked_pow(u32::try_from(exponent.max(0)).ok()?);
            value = match power {
                Some(power) => value.checked_add(group.checked_mul(power)?)?,
                None if group == 0 => value,
                None => return None,
            };
            exponent -= GROUP;
        }
        Some(if self.negative { -value } else { value })
    }

    /// `self * 10^scale`, rounded to a whole number, halves away from zero; `None`: it does not fit.
    pub fn rounded(&self, scale: u8) -> Option<i128> {
        let mut value = 0i128;
        let mut exponent = GROUP * i64::from(self.weight) + i64::from(scale);
        let mut rounds_up = false;
        for group in &self.groups {
            let group = i128::from(*group);
            if exponent >= 0 {
                let power = u32::try_from(exponent)
                    .ok()
                    .and_then(|power| 10i128.checked_pow(power));
                value = match power {
                    Some(power) => value.checked_add(group.checked_mul(power)?)?,
                    None if group == 0 => value,
                    None => return None,
                };
            } else {
                // The first digit that is left out is one of this group, or it is a zero before it.
                if exponent >= -GROUP {
                    let first = 10i128.pow((-exponent - 1) as u32);
                    value = value.checked_add(group / (first * 10))?;
                    rounds_up = group / first % 10 >= 5;
                }
                break;
            }
            exponent -= GROUP;
        }
        let value = value.checked_add(i128::from(rounds_up))?;
        Some(if self.negative { -value } else { value })
    }

    /// The same number without zeros at the end of what is behind its point.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        // Groups of zeros at the end are not kept.
        let behind = i64::try_from(self.groups.len()).unwrap_or(0) - 1 - i64::from(self.weight);
        let zeros = match self.groups.last() {
            Some(last) if behind > 0 => (1..4).take_while(|digits| last % 10u16.pow(*digits) == 0).count(),
            _ => 0,
        };
        let scale = (behind.max(0) * GROUP) as u64 - zeros as u64;
        self.scale = self.scale.min(u16::try_from(scale).unwrap_or(u16::MAX));
        self
    }

    /// From digits in ASCII, the point behind the first `point` of them (which may be none of theirs).
    fn from_digits(negative: bool, digits: &[u8], point: i64, scale: u16) -> Self {
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        let (digits, point) = (&digits[zeros..], point - zeros as i64);
        let weight = (point - 1).div_euclid(GROUP);
        // Zeros that the first group begins with.
        let lead = (GROUP * (weight + 1) - point) as usize;
        let mut groups = Vec::with_capacity(digits.len() / 4 + 2);
        let (mut group, mut filled) = (0u16, lead);
        for digit in digits {
            group = group * 10 + u16::from(digit - b'0');
            filled += 1;
            if filled == 4 {
                groups.push(std::mem::take(&mut group));
                filled = 0;
            }
        }
        if filled > 0 && !digits.is_empty() {
            groups.push(group * 10u16.pow(4 - filled as u32));
        }
        let weight = i32::try_from(weight).unwrap_or(0);
        Self {
            negative,
            weight,
            scale,
            groups,
        }
        .normal()
    }

    /// Without groups of zeros at either end.
    fn normal(mut self) -> Self {
        let zeros = self.groups.iter().take_while(|group| **group == 0).count();
        self.groups.drain(..zeros);
        self.weight -= zeros as i32;
        while self.groups.last() == Some(&0) {
            self.groups.pop();
        }
        if self.groups.is_empty() {
            (self.weight, self.negative) = (0, false);
        }
        self
    }

    fn group(&self, weight: i32) -> u16 {
        let at = usize::try_from(self.weight - weight).ok();
        at.and_then(|at| self.groups.get(at)).copied().unwrap_or(0)
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        // Writing into memory does not fail.
        let _ = write!(out, "{}", self.group(self.weight.max(0)));
        for weight in (0..self.weight).rev() {
            let _ = write!(out, "{:04}", self.group(weight));
        }
        if self.scale == 0 {
            return;
        }
        out.push(b'.');
        let end = out.len() + usize::from(self.scale);
        let mut weight = -1;
        while out.len() < end {
            let _ = write!(out, "{:04}", self.group(weight));
            weight -= 1;
        }
        out.truncate(end);
    }
}

impl Numeric {
    /// `unscaled / 10^scale`.
    pub fn from_i128(unscaled: i128, scale: u8) -> Self {
        Self::Finite(Decimal::from_i128(unscaled, scale))
    }

    /// Reads a text, without blanks around it.
    ///
    /// # Errors
    /// A text that is no number, or a number with more digits than PostgreSQL allows.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let wrong = || {
            let what = format!("invalid input syntax for type numeric: \"{text}\"");
            Refusal::new(code::INVALID_TEXT_REPRESENTATION, what)
        };
        let (negative, rest) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"nan") && rest.len() == text.len() {
            return Ok(Self::NaN);
        }
        if rest.eq_ignore_ascii_case(b"infinity") || rest.eq_ignore_ascii_case(b"inf") {
            return Ok(if negative {
                Self::NegativeInfinity
            } else {
                Self::Infinity
            });
        }
        let mantissa = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = rest.split_at(mantissa.unwrap_or(rest.len()));
        let exponent = match exponent {
            [] => 0,
            [_, exponent @ ..] => read_exponent(exponent).ok_or_else(wrong)?,
        };
        let point = mantissa.iter().position(|byte| *byte == b'.');
        let (whole, fraction) = mantissa.split_at(point.unwrap_or(mantissa.len()));
        let fraction = fraction.get(1..).unwrap_or_default();
        let digits = [whole, fraction].concat();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(wrong());
        }
        let scale = (fraction.len() as i64 - exponent).max(0);
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        let before = whole.len() as i64 + exponent - zeros as i64;
        if scale > SCALE_MAX || (zeros < digits.len() && before > WHOLE_DIGITS_MAX) {
            return Err(overflow());
        }
        let point = whole.len() as i64 + exponent;
        Ok(Self::Finite(Decimal::from_digits(
            negative,
            &digits,
            point,
            scale as u16,
        )))
    }

    /// Appends it as text.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::NaN => out.extend(b"NaN"),
            Self::Infinity => out.extend(b"Infinity"),
            Self::NegativeInfinity => out.extend(b"-Infinity"),
            Self::Finite(decimal) => decimal.write(out),
        }
    }

    /// Appends it in binary.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        const fn nothing(scale: u16) -> Decimal {
            Decimal {
                negative: false,
                weight: 0,
                scale,
                groups: Vec::new(),
            }
        }
        const NOTHING: &Decimal = &nothing(0);
        // What PostgreSQL reads out of its own header of an infinite one.
        const INFINITE: &Decimal = &nothing(32);
        let (sign, decimal) = match self {
            Self::NaN => (0xc000u16, NOTHING),
            Self::Infinity => (0xd000, INFINITE),
            Self::NegativeInfinity => (0xf000, INFINITE),
            Self::Finite(decimal) => (if decimal.negative { 0x4000 } else { 0 }, decimal),
        };
        let groups = decimal.groups.iter().copied();
        for word in [
            decimal.groups.len() as u16,
            decimal.weight as u16,
            sign,
            decimal.scale,
        ]
        .into_iter()
        .chain(groups)
        {
            out.extend(word.to_be_bytes());
        }
    }

    /// Reads its binary form.
    ///
    /// # Errors
    /// What `numeric_recv` refuses.
    pub fn read_binary(bytes: &[u8]) -> Result<Self, Refusal> {
        let wrong = |what: &str| {
            let what = format!("invalid {what} in external \"numeric\" value");
            Refusal::new(code::INVALID_BINARY_REPRESENTATION, what)
        };
        let (words, odd) = bytes.as_chunks::<2>();
        let mut words = words.iter().map(|word| u16::from_be_bytes(*word));
        let mut next = || words.next();
        let (Some(count), Some(weight), Some(sign), Some(scale)) = (next(), next(), next(), next()) else {
            return Err(Refusal::new(
                code::PROTOCOL_VIOLATION,
                "insufficient data left in message",
            ));
        };
        match sign {
            0xc000 => return Ok(Self::NaN),
            0xd000 => return Ok(Self::Infinity),
            0xf000 => return Ok(Self::NegativeInfinity),
            0 | 0x4000 => {}
            _ => return Err(wrong("sign")),
        }
        if i64::from(scale) > SCALE_MAX {
            return Err(wrong("scale"));
        }
        if words.len() < usize::from(count) {
            return Err(Refusal::new(
                code::PROTOCOL_VIOLATION,
                "insufficient data left in message",
            ));
        }
        if words.len() > usize::from(count) || !odd.is_empty() {
            return Err(wrong("length"));
        }
        let mut groups: Vec<u16> = words.collect();
        if groups.iter().any(|group| *group > 9999) {
            return Err(wrong("digit"));
        }
        let weight = i32::from(weight as i16);
        cut(&mut groups, weight, scale);
        let decimal = Decimal {
            negative: sign != 0,
            weight,
            scale,
            groups,
        };
        Ok(Self::Finite(decimal.normal()))
    }
}

/// Cuts off digits that are below the scale, as PostgreSQL does with what it receives.
fn cut(groups: &mut Vec<u16>, weight: i32, scale: u16) {
    let digits = GROUP * (i64::from(weight) + 1) + i64::from(scale);
    let whole = usize::try_from(digits.div_euclid(GROUP)).unwrap_or(0);
    let rest = digits.rem_euclid(GROUP);
    if digits <= 0 {
        return groups.clear();
    }
    if let Some(group) = groups.get_mut(whole) {
        let unit = 10u16.pow(4 - rest as u32);
        *group = if rest == 0 { 0 } else { *group / unit * unit };
    }
    groups.truncate(whole + usize::from(rest > 0));
}

/// An exponent of ten; one beyond all numbers stays beyond them.
fn read_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(1 << 40)
    });
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: &Numeric) -> String {
        let mut out = Vec::new();
        number.write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn texts() {
        for (given, shown) in [
            ("0", "0"),
            ("-0.00", "0.00"),
            ("1.50", "1.50"),
            ("  12".trim(), "12"),
            ("0.00012345", "0.00012345"),
            ("-123456789.000010", "-123456789.000010"),
            ("1e3", "1000"),
            ("1.5e-7", "0.00000015"),
            ("12345e-2", "123.45"),
            ("10000", "10000"),
            ("1e20", "100000000000000000000"),
            ("nan", "NaN"),
            ("-inf", "-Infinity"),
            (".5", "0.5"),
            ("5.", "5"),
        ] {
            assert_eq!(text(&Numeric::parse(given).expect(given)), shown);
        }
        for wrong in ["", ".", "-", "1e", "e5", "1.2.3", "0x1", "1 2", "-nan", "1e5.5"] {
            let refusal = Numeric::parse(wrong).expect_err(wrong);
            assert_eq!(refusal.code, code::INVALID_TEXT_REPRESENTATION, "{wrong}");
        }
        for large in ["1e131073", "1e-16384", "1e99999999999999999999"] {
            let refusal = Numeric::parse(large).expect_err(large);
            assert_eq!(refusal.code, code::NUMERIC_VALUE_OUT_OF_RANGE, "{large}");
        }
        assert_eq!(text(&Numeric::parse("0e99999999").expect("zero")), "0");
    }

    #[test]
    fn decimals_of_fixed_scale() {
        assert_eq!(text(&Numeric::from_i128(-12345, 2)), "-123.45");
        assert_eq!(text(&Numeric::from_i128(5, 38)), format!("0.{}5", "0".repeat(37)));
        assert_eq!(text(&Numeric::from_i128(i128::MIN, 0)), i128::MIN.to_string());
        let Numeric::Finite(found) = Numeric::parse("123.45").expect("a number") else {
            panic!("finite");
        };
        assert_eq!(found.to_i128(2), Some(12345));
        assert_eq!(found.to_i128(4), Some(1_234_500));
        assert_eq!(found.to_i128(1), None);
        assert_eq!(found.to_i128(38), None);
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let rounded = |text: &str, scale| match Numeric::parse(text).expect("a number") {
            Numeric::Finite(decimal) => decimal.rounded(scale),
            _ => None,
        };
        for (text, scale, wanted) in [
            ("1.005", 2, 101),
            ("-1.005", 2, -101),
            ("1.0049999", 2, 100),
            ("0.5", 0, 1),
            ("0.49999", 0, 0),
            ("-0.5", 0, -1),
            ("0.00005", 0, 0),
            ("0.00005", 4, 1),
            ("0.000005", 4, 0),
            ("9999.99995", 4, 100_000_000),
            ("12345.678", 2, 1_234_568),
            ("12345.678", 6, 12_345_678_000),
            ("1e-300", 38, 0),
            ("0", 38, 0),
        ] {
            assert_eq!(rounded(text, scale), Some(wanted), "{text} {scale}");
        }
        assert_eq!(rounded("1e38", 1), None);
        assert_eq!(rounded("1e300", 0), None);
    }

    #[test]
    fn zeros_at_the_end_are_cut_off() {
        for (given, wanted) in [
            ("1.5000", "1.5"),
            ("1.0000000000", "1"),
            ("100", "100"),
            ("100.00", "100"),
            ("0.00", "0"),
            ("0.00012300", "0.000123"),
            ("-12345.678900", "-12345.6789"),
            ("1.12345", "1.12345"),
            ("10000.0001", "10000.0001"),
        ] {
            let Numeric::Finite(decimal) = Numeric::parse(given).expect(given) else {
                panic!("{given} is finite");
            };
            assert_eq!(text(&Numeric::Finite(decimal.trimmed())), wanted);
        }
    }

    #[test]
    fn binary_that_is_cut_or_refused() {
        let binary = |words: &[u16]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            Numeric::read_binary(&bytes)
        };
        assert_eq!(text(&binary(&[2, 0, 0, 1, 12, 3456]).expect("a number")), "12.3");
        assert_eq!(
            text(&binary(&[1, 3, 0x4000, 0, 1]).expect("a number")),
            "-1000000000000"
        );
        assert!(binary(&[1, 0, 0, 0, 10_000]).is_err());
        assert!(binary(&[1, 0, 0x1234, 0, 1]).is_err());
        assert!(binary(&[1, 0, 0, 0x4000, 1]).is_err());
        assert!(binary(&[2, 0, 0, 0, 1]).is_err());
        assert!(binary(&[1, 0, 0, 0, 1, 1]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn round_trips(unscaled: i128, scale in 0u8..60) {
            let number = Numeric::from_i128(unscaled, scale);
            assert_eq!(Numeric::parse(&text(&number)).expect("a number"), number);
            let mut bytes = Vec::new();
            number.write_binary(&mut bytes);
            assert_eq!(Numeric::read_binary(&bytes).expect("a number"), number);
            let Numeric::Finite(decimal) = number else { panic!("finite") };
            assert_eq!(decimal.to_i128(scale), Some(unscaled));
            assert_eq!(decimal.rounded(scale), Some(unscaled));
        }

        #[test]
        fn any_text(text in "[-+.0-9eE]{0,40}") {
            let _ = Numeric::parse(&text);
        }
    }
}
