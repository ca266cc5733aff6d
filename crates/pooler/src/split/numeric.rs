//! Numbers of type `numeric` in binary format, put in order without being rounded.
//!
//! ```text
//!  digits (2 bytes) │ weight (2, signed) │ sign (2) │ digits behind the point (2) │ digit (2), base 10,000, ...
//! ```
//! The first digit counts 10,000 to the power of the weight.

use std::cmp::Ordering;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// A number as it came.
struct Number<'a> {
    /// Where it stands among the special ones: -infinity, negative, zero, positive, infinity, not a number.
    class: i8,
    weight: i16,
    digits: &'a [u8],
}

fn read(bytes: &[u8]) -> Option<Number<'_>> {
    let at = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (count, weight, sign) = (at(0)?, at(2)?, at(4)?);
    let digits = bytes.get(8..8 + 2 * usize::from(count))?;
    // Leading and trailing zeros are none of the value; a server sends none, but the order must not depend on that.
    let mut weight = weight as i16;
    let mut digits = digits;
    while let [0, 0, rest @ ..] = digits {
        digits = rest;
        weight = weight.wrapping_sub(1);
    }
    while let [rest @ .., 0, 0] = digits {
        digits = rest;
    }
    let class = match sign {
        NAN => 3,
        INFINITY => 2,
        NEGATIVE_INFINITY => -2,
        _ if digits.is_empty() => 0,
        NEGATIVE => -1,
        _ => 1,
    };
    Some(Number {
        class,
        weight,
        digits,
    })
}

/// Compares as PostgreSQL does: NaN equals itself and is beyond all. What is no number is the least.
pub(super) fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let (Some(one), Some(other)) = (read(one), read(other)) else {
        return read(one).is_some().cmp(&read(other).is_some());
    };
    one.class.cmp(&other.class).then_with(|| {
        let size = || {
            one.weight
                .cmp(&other.weight)
                .then_with(|| one.digits.cmp(other.digits))
        };
        match one.class {
            1 => size(),
            -1 => size().reverse(),
            _ => Ordering::Equal,
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A decimal number as a server sends it.
    fn binary(units: i128, scale: u32) -> Vec<u8> {
        // In units of 10^-8, so that two digits stand behind the point.
        let value = units * 10i128.pow(8 - scale);
        let mut digits = Vec::new();
        let mut rest = value.unsigned_abs();
        while rest > 0 {
            digits.push((rest % 10_000) as u16);
            rest /= 10_000;
        }
        let weight = digits.len() as i16 - 3;
        digits.reverse();
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let sign = if value < 0 { NEGATIVE } else { 0 };
        let head = [digits.len() as u16, weight as u16, sign, scale as u16];
        head.iter()
            .chain(&digits)
            .flat_map(|number| number.to_be_bytes())
            .collect()
    }

    proptest! {
        #[test]
        fn as_the_numbers(a in -1_000_000_000_000i64..1_000_000_000_000, b in any::<i32>(), p in 0u32..8, q in 0u32..8) {
            let (x, y) = (i128::from(a), i128::from(b));
            let expected = (x * 10i128.pow(8 - p)).cmp(&(y * 10i128.pow(8 - q)));
            prop_assert_eq!(compare(&binary(x, p), &binary(y, q)), expected);
        }
    }

    #[test]
    fn special_ones() {
        let special = |sign: u16| {
            [0, 0, sign, 0]
                .iter()
                .flat_map(|n: &u16| n.to_be_bytes())
                .collect::<Vec<u8>>()
        };
        let rising = [
            special(NEGATIVE_INFINITY),
            binary(-5, 0),
            binary(0, 2),
            binary(1, 6),
            special(INFINITY),
            special(NAN),
        ];
        for (number, one) in rising.iter().enumerate() {
            for (other_number, other) in rising.iter().enumerate() {
                assert_eq!(compare(one, other), number.cmp(&other_number));
            }
        }
        assert_eq!(compare(&[1], &binary(0, 0)), Ordering::Less);
    }
}
