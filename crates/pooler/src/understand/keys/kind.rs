//! [`key_of_text`] and `image`: how values of a type become keys.
//!
//! A key is an `i64` in the order of the values. Integers, dates and timestamps have a key each; texts and UUIDs share one among all
//! that begin with the same 8 bytes, so a key says less there than the value did: [`Image::whole`] tells.
//!
//! What it is not: a check. A value that PostgreSQL would refuse, or reads in another form than its ISO one, has no key. A
//! timestamp without a time zone is read as UTC whatever the session's zone is, texts are ordered byte by byte whatever their
//! collation: keys decide where a statement runs, never what it returns.

use corun_model::pooler::ranges::{Kind as KeyKind, prefix_key};

use super::calendar::{DAY_US, Moment};
use crate::understand::rough;

/// A value as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) key: i64,
    /// No other value has this key. Otherwise the value is this key's, and others below and above it may be too.
    pub(super) whole: bool,
}

impl Image {
    fn whole(key: i64) -> Image {
        Image { key, whole: true }
    }

    fn part(key: i64) -> Image {
        Image { key, whole: false }
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// PostgreSQL's text form.
    Text,
    /// The same between quotes: quotes in it are doubled.
    Quoted,
    /// PostgreSQL's binary form.
    Binary,
}

/// The key of a value in PostgreSQL's text form, as in settings: `42`, `2026-11-22`, `2026-11-22 10:00:00+00`, `any text`,
/// `01234567-89ab-cdef-0123-456789abcdef`. `None` if it is none of this kind.
pub fn key_of_text(kind: KeyKind, text: &[u8]) -> Option<i64> {
    image(kind, Form::Text, text, false).map(|image| image.key)
}

/// A value as a key; with a minus before it if it is `negative`, which is for numbers only.
pub(super) fn image(kind: KeyKind, form: Form, value: &[u8], negative: bool) -> Option<Image> {
    if negative && kind != KeyKind::Integer {
        return None;
    }
    match (kind, form) {
        (KeyKind::Integer, Form::Binary) => {
            let image = binary_integer(value)?;
            match (negative, image.whole) {
                (false, _) => Some(image),
                (true, true) => image.key.checked_neg().map(Image::whole),
                (true, false) => None,
            }
        }
        (KeyKind::Integer, _) => number(value, negative),
        (KeyKind::Date, Form::Binary) => match *value {
            [a, b, c, d] => Some(Image::whole(i64::from(i32::from_be_bytes([a, b, c, d])))),
            // A timestamp: a part of the day.
            _ => Some(Image::part(binary_i64(value)?.div_euclid(DAY_US))),
        },
        (KeyKind::Date, _) => {
            let moment = Moment::of(value)?;
            // As a date the time is ignored, as a timestamp it is a part of the day.
            Some(Image {
                key: moment.days,
                whole: moment.time_us.is_none(),
            })
        }
        (KeyKind::Timestamp, Form::Binary) => match *value {
            [a, b, c, d] => {
                let days = i64::from(i32::from_be_bytes([a, b, c, d]));
                days.checked_mul(DAY_US).map(Image::whole)
            }
            _ => binary_i64(value).map(Image::whole),
        },
        (KeyKind::Timestamp, _) => Moment::of(value)?.timestamp_us().map(Image::whole),
        (KeyKind::Text, Form::Quoted) => Some(Image::part(prefix_of_quoted(value))),
        (KeyKind::Text, _) => Some(Image::part(prefix_key(value))),
        (KeyKind::Uuid, Form::Binary) => {
            let bytes: &[u8; 16] = value.try_into().ok()?;
            Some(Image::part(prefix_key(bytes)))
        }
        (KeyKind::Uuid, _) => uuid(value),
    }
}

/// The key of a text whose quotes are doubled.
fn prefix_of_quoted(text: &[u8]) -> i64 {
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(rough::Unquoted(text)) {
        *to = from;
    }
    prefix_key(&first)
}

fn uuid(text: &[u8]) -> Option<Image> {
    let text = text.trim_ascii();
    let text = match text {
        [b'{', inside @ .., b'}'] => inside,
        _ => text,
    };
    let (mut bits, mut digits) = (0_u64, 0);
    for (at, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'-' if at > 0 && digits % 4 == 0 => continue,
            _ => return None,
        };
        if digits < 16 {
            bits = bits << 4 | u64::from(digit);
        }
        digits += 1;
    }
    (digits == 32).then(|| Image::part(prefix_key(&bits.to_be_bytes())))
}

/// A number in decimal digits. With a fraction: its integer below.
fn number(text: &[u8], mut negative: bool) -> Option<Image> {
    let mut rest = text.trim_ascii();
    if let [sign @ (b'+' | b'-'), behind @ ..] = rest {
        negative ^= *sign == b'-';
        rest = behind;
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut value = 0_u64;
    for digit in &rest[..digits] {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    match &rest[digits..] {
        [] if digits > 0 => floor(value, negative, true),
        [b'.', fraction @ ..] if digits + fraction.len() > 0 && fraction.iter().all(u8::is_ascii_digit) => {
            floor(value, negative, fraction.iter().all(|digit| *digit == b'0'))
        }
        // An exponent, or no number. Rounding keeps the order, so it may widen what is touched and never narrows it.
        [b'.' | b'e' | b'E', ..] => {
            const EXACT: f64 = (1_u64 << 53) as f64;
            let value: f64 = std::str::from_utf8(rest).ok()?.parse().ok()?;
            let value = if negative { -value } else { value };
            (value.abs() < EXACT).then(|| Image::part(value.floor() as i64))
        }
        _ => None,
    }
}

/// The integer at or below a number, from the digits before its point and whether those behind it are all zero.
fn floor(digits: u64, negative: bool, whole: bool) -> Option<Image> {
    let key = if negative {
        0_i64.checked_sub_unsigned(digits)?
    } else {
        i64::try_from(digits).ok()?
    };
    match (whole, negative) {
        (true, _) => Some(Image::whole(key)),
        (false, true) => key.checked_sub(1).map(Image::part),
        (false, false) => Some(Image::part(key)),
    }
}

fn binary_i64(value: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(value.try_into().ok()?))
}

/// `smallint`, `integer`, `bigint` by their length; `numeric`, which is longer unless it is 0.
fn binary_integer(value: &[u8]) -> Option<Image> {
    match *value {
        [a, b] => Some(Image::whole(i64::from(i16::from_be_bytes([a, b])))),
        [a, b, c, d] => Some(Image::whole(i64::from(i32::from_be_bytes([a, b, c, d])))),
        [_, _, _, _, _, _, _, _] => binary_i64(value).map(Image::whole),
        _ => binary_numeric(value),
    }
}

/// Counts of digits to the base of 10,000, the weight of the first, sign, digits behind the point; then the digits.
fn binary_numeric(value: &[u8]) -> Option<Image> {
    let (head, digits) = value.split_first_chunk::<8>()?;
    let field = |at: usize| i16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight) = (usize::try_from(field(0)).ok()?, field(2));
    let negative = match field(4).cast_unsigned() {
        0 => false,
        0x4000 => true,
        _ => return None,
    };
    if digits.len() != 2 * count {
        return None;
    }
    let mut digits = digits
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let mut number = 0_u64;
    // Five digits to the base of 10,000 are more than fits.
    if weight > 4 {
        return None;
    }
    for _ in 0..=weight {
        let digit = digits.next().unwrap_or(0);
        number = number.checked_mul(10_000)?.checked_add(u64::from(digit))?;
    }
    floor(number, negative, digits.all(|digit| digit == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: KeyKind, text: &str) -> Option<(i64, bool)> {
        image(kind, Form::Text, text.as_bytes(), false).map(|image| (image.key, image.whole))
    }

    #[test]
    fn numbers() {
        for (text, expected) in [
            ("0", Some((0, true))),
            ("-0", Some((0, true))),
            (" +42 ", Some((42, true))),
            ("-17", Some((-17, true))),
            ("9223372036854775807", Some((i64::MAX, true))),
            ("-9223372036854775808", Some((i64::MIN, true))),
            ("9223372036854775808", None),
            ("5.0", Some((5, true))),
            ("5.", Some((5, true))),
            (".5", Some((0, false))),
            ("5.5", Some((5, false))),
            ("-5.5", Some((-6, false))),
            ("1e3", Some((1000, false))),
            ("-2.5E0", Some((-3, false))),
            ("1e300", None),
            (".", None),
            ("", None),
            ("-", None),
            ("x", None),
            ("1 2", None),
            ("0x10", None),
            ("1.2.3", None),
            ("1einf", None),
            ("NaN", None),
        ] {
            assert_eq!(of(KeyKind::Integer, text), expected, "{text}");
        }
        let negative = image(KeyKind::Integer, Form::Text, b"5.5", true);
        assert_eq!(negative, Some(Image::part(-6)));
    }

    #[test]
    fn texts_and_uuids_keep_their_order() {
        let texts = ["", "a", "ab", "b", "zzzzzzzy", "zzzzzzzz", "ä", "\u{10ffff}"];
        let keys: Vec<_> = texts
            .iter()
            .map(|text| key_of_text(KeyKind::Text, text.as_bytes()))
            .collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(keys[0], Some(i64::MIN));
        assert_eq!(
            image(KeyKind::Text, Form::Quoted, b"it''s", false),
            image(KeyKind::Text, Form::Text, b"it's", false)
        );
        let canonical = "01234567-89ab-cdef-0123-456789abcdef";
        let key = key_of_text(KeyKind::Uuid, canonical.as_bytes());
        assert_eq!(key, Some(prefix_key(&0x0123_4567_89ab_cdef_u64.to_be_bytes())));
        for same in [
            "0123456789abcdef0123456789abcdef",
            "{01234567-89AB-CDEF-0123-456789ABCDEF}",
            "0123-4567-89ab-cdef-0123-4567-89ab-cdef",
        ] {
            assert_eq!(key_of_text(KeyKind::Uuid, same.as_bytes()), key, "{same}");
        }
        let binary = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128.to_be_bytes();
        let image = image(KeyKind::Uuid, Form::Binary, &binary, false);
        assert_eq!(image.map(|image| image.key), key);
        for other in [
            "",
            "0123",
            "01234567-89ab-cdef-0123-456789abcdeg",
            &canonical[1..],
        ] {
            assert_eq!(key_of_text(KeyKind::Uuid, other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn binary_forms() {
        let of = |kind, bytes: &[u8]| {
            image(kind, Form::Binary, bytes, false).map(|image| (image.key, image.whole))
        };
        use KeyKind::{Date, Integer, Timestamp};
        assert_eq!(of(Integer, &(-7_i16).to_be_bytes()), Some((-7, true)));
        assert_eq!(of(Integer, &(-7_i32).to_be_bytes()), Some((-7, true)));
        assert_eq!(of(Integer, &(-7_i64).to_be_bytes()), Some((-7, true)));
        assert_eq!(of(Integer, &[1, 2, 3]), None);
        assert_eq!(of(Integer, &[]), None);
        let numeric = |weight: i16, sign: u16, digits: &[u16]| {
            let mut out = Vec::new();
            out.extend((digits.len() as u16).to_be_bytes());
            out.extend(weight.to_be_bytes());
            out.extend(sign.to_be_bytes());
            out.extend([0, 0]);
            digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
            out
        };
        assert_eq!(of(Integer, &numeric(0, 0, &[42])), Some((42, true)));
        assert_eq!(of(Integer, &numeric(1, 0x4000, &[3, 17])), Some((-30_017, true)));
        assert_eq!(of(Integer, &numeric(2, 0, &[5])), Some((500_000_000, true)));
        assert_eq!(of(Integer, &numeric(0, 0, &[5, 5000])), Some((5, false)));
        assert_eq!(of(Integer, &numeric(0, 0x4000, &[5, 5000])), Some((-6, false)));
        assert_eq!(of(Integer, &numeric(-1, 0, &[5000])), Some((0, false)));
        assert_eq!(of(Integer, &numeric(9, 0, &[1])), None);
        assert_eq!(of(Integer, &numeric(i16::MIN, 0, &[1])), Some((0, false)));
        assert_eq!(of(Integer, &numeric(4, 0, &[9999, 9999, 9999, 9999, 9999])), None);
        assert_eq!(of(Integer, &numeric(0, 0xc000, &[1])), None);
        assert_eq!(of(Date, &9_822_i32.to_be_bytes()), Some((9_822, true)));
        assert_eq!(of(Date, &(-1_i64).to_be_bytes()), Some((-1, false)));
        assert_eq!(of(Timestamp, &1_i32.to_be_bytes()), Some((DAY_US, true)));
        assert_eq!(of(Timestamp, &5_i64.to_be_bytes()), Some((5, true)));
        assert_eq!(of(Timestamp, &[0; 3]), None);
    }
}
