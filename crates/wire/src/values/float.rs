//! Floats as text: the fewest digits that read back as the same number, laid out as PostgreSQL does.
//!
//! Rust finds the fewest digits as well, but takes a decimal that lies just halfway to the next float where rounding to even would lead
//! back. PostgreSQL does not trust whoever reads to round so (`1e23` has 16 digits there), so such decimals get another digit here. And of
//! two decimals that are as near, PostgreSQL takes the even one.

use std::fmt::LowerExp;
use std::io::{Cursor, Write as _};

/// What is known of a finite float: `mantissa * 2^exponent`, and below which exponent of ten it is written with one.
struct Parts {
    mantissa: u64,
    exponent: i32,
    /// The next smaller float is only half as far away.
    narrow_below: bool,
}

impl Parts {
    /// Of the bits of a float: `fraction` has `bits` of them, `exponent` is `bias` too much for a whole mantissa.
    fn new(fraction: u64, exponent: i32, bits: u32, bias: i32) -> Self {
        Parts {
            mantissa: if exponent == 0 {
                fraction
            } else {
                fraction | 1 << bits
            },
            exponent: exponent.max(1) - bias,
            narrow_below: fraction == 0 && exponent > 1,
        }
    }
}

/// Appends a `double precision`.
pub fn float8(out: &mut Vec<u8>, value: f64) {
    if special(out, value) {
        return;
    }
    let bits = value.to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
    let parts = Parts::new(fraction, exponent, 52, 1075);
    let value = value.abs();
    let print = |digits| Printed::of(value, digits);
    let is_same = |text: &str| text.parse() == Ok(value);
    write(out, bits >> 63 != 0, 15, &parts, 17, print, is_same);
}

/// Appends a `real`.
pub fn float4(out: &mut Vec<u8>, value: f32) {
    if special(out, f64::from(value)) {
        return;
    }
    let bits = value.to_bits();
    let (fraction, exponent) = (u64::from(bits & ((1 << 23) - 1)), (bits >> 23 & 0xff) as i32);
    let parts = Parts::new(fraction, exponent, 23, 150);
    let value = value.abs();
    let print = |digits| Printed::of(value, digits);
    let is_same = |text: &str| text.parse() == Ok(value);
    write(out, bits >> 31 != 0, 6, &parts, 9, print, is_same);
}

fn special(out: &mut Vec<u8>, value: f64) -> bool {
    let text: &[u8] = if value.is_nan() {
        b"NaN"
    } else if value == f64::INFINITY {
        b"Infinity"
    } else if value == f64::NEG_INFINITY {
        b"-Infinity"
    } else if value == 0.0 {
        if value.is_sign_negative() { b"-0" } else { b"0" }
    } else {
        return false;
    };
    out.extend(text);
    true
}

/// Longest text of a float here: 17 digits, their point, and the exponent.
const PRINTED_BYTES: usize = 32;

/// A float as Rust prints it: `d.ddde±x`, without memory of its own.
struct Printed(Cursor<[u8; PRINTED_BYTES]>);

impl Printed {
    /// With so many digits, or the fewest that read back as the same.
    fn of(value: impl LowerExp, digits: Option<usize>) -> Printed {
        let mut text = Cursor::new([0; PRINTED_BYTES]);
        // It has room.
        _ = match digits {
            None => write!(text, "{value:e}"),
            Some(digits) => write!(text, "{value:.*e}", digits - 1),
        };
        Printed(text)
    }

    fn text(&self) -> &str {
        let bytes = &self.0.get_ref()[..self.0.position() as usize];
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn digits(&self) -> Digits {
        let text = self.text();
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut found = Digits {
            bytes: [0; PRINTED_BYTES],
            count: 0,
            exponent: exponent.parse().unwrap_or(0),
        };
        for digit in digits.bytes().filter(u8::is_ascii_digit) {
            found.bytes[found.count] = digit;
            found.count += 1;
        }
        while found.bytes[..found.count].ends_with(b"0") {
            found.count -= 1;
        }
        found
    }
}

/// `d.ddd * 10^exponent`, without zeros at its end.
struct Digits {
    bytes: [u8; PRINTED_BYTES],
    count: usize,
    exponent: i32,
}

impl Digits {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

fn write(
    out: &mut Vec<u8>,
    negative: bool,
    exponent_from: i32,
    parts: &Parts,
    digits_max: usize,
    print: impl Fn(Option<usize>) -> Printed,
    is_same: impl Fn(&str) -> bool,
) {
    let mut digits = print(None).digits();
    let mut count = digits.count;
    // Two decimals are as near only where a unit of their last digit is no more than the distance to the next float. Rust rounds to a
    // number of digits as PostgreSQL does.
    if count + 1 >= digits_max {
        let rounded = print(Some(count));
        if is_same(rounded.text()) {
            digits = rounded.digits();
        }
    }
    while is_boundary(&digits, parts) && count < digits_max {
        count += 1;
        digits = print(Some(count)).digits();
    }
    let exponent = digits.exponent;
    if negative {
        out.push(b'-');
    }
    let digits = digits.bytes();
    let count = digits.len() as i32;
    if exponent < -4 || exponent >= exponent_from {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing into memory does not fail.
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    } else if exponent < 0 {
        out.extend(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend(digits);
    } else if count <= exponent + 1 {
        out.extend(digits);
        out.extend(std::iter::repeat_n(b'0', (exponent + 1 - count) as usize));
    } else {
        let (whole, fraction) = digits.split_at((exponent + 1) as usize);
        out.extend(whole);
        out.push(b'.');
        out.extend(fraction);
    }
}

/// Whether `d.ddd * 10^exponent` lies exactly halfway between this float and one of its neighbours.
fn is_boundary(digits: &Digits, parts: &Parts) -> bool {
    let value = digits.bytes().iter();
    let value = value.fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    // The decimal is digits * 10^ten = odd * 2^two, if it is a whole number of a power of two at all.
    let ten = digits.exponent + 1 - digits.count as i32;
    let mut odd = u128::from(value);
    match ten {
        // 5^24 is beyond the 55 bits of a halfway mantissa.
        0..=23 => odd *= 5u128.pow(ten as u32),
        -23..0 => {
            let five = 5u128.pow(ten.unsigned_abs());
            if odd % five != 0 {
                return false;
            }
            odd /= five;
        }
        _ => return false,
    }
    let two = ten + odd.trailing_zeros() as i32;
    odd >>= odd.trailing_zeros();
    let halfway = |mantissa: u64, exponent: i32| {
        let zeros = mantissa.trailing_zeros();
        odd == u128::from(mantissa >> zeros) && two == exponent + zeros as i32
    };
    let below = if parts.narrow_below {
        halfway(4 * parts.mantissa - 1, parts.exponent - 2)
    } else {
        halfway(2 * parts.mantissa - 1, parts.exponent - 1)
    };
    below || halfway(2 * parts.mantissa + 1, parts.exponent - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text8(value: f64) -> String {
        let mut out = Vec::new();
        float8(&mut out, value);
        String::from_utf8(out).expect("ASCII")
    }

    fn text4(value: f32) -> String {
        let mut out = Vec::new();
        float4(&mut out, value);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn as_postgresql_lays_them_out() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123456789012345.6, "123456789012345.6"),
            (1.2345e20, "1.2345e+20"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text8(value), text);
        }
        for (value, text) in [
            (1.5f32, "1.5"),
            (100000.0, "100000"),
            (1e6, "1e+06"),
            (0.1, "0.1"),
            (16777216.0, "1.6777216e+07"),
            (f32::MAX, "3.4028235e+38"),
        ] {
            assert_eq!(text4(value), text);
        }
    }

    #[test]
    fn halfway_decimals_are_not_trusted() {
        assert_eq!(text8(1e23), "9.999999999999999e+22");
        assert_eq!(text8(1e22), "1e+22");
    }

    #[test]
    fn of_two_that_are_as_near_the_even_one() {
        assert_eq!(text8(2f64.powi(-25)), "2.9802322387695312e-08");
    }

    proptest::proptest! {
        #[test]
        fn texts_read_back(bits: u64, few: u32) {
            let (value, small) = (f64::from_bits(bits), f32::from_bits(few));
            if value.is_finite() {
                assert_eq!(text8(value).parse::<f64>().expect("a number").to_bits(), bits);
            }
            if small.is_finite() {
                assert_eq!(text4(small).parse::<f32>().expect("a number").to_bits(), few);
            }
        }
    }
}
