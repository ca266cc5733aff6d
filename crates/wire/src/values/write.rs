//! Values appended to a buffer, one function for each type. What frames them ([`Row`](super::Row)) is the caller's.

use std::io::Write as _;

use super::calendar::{Date, Time, Timestamp};
use super::float;
use super::interval::Interval;
use super::kind::Format;
use super::numeric::Numeric;
use super::zone::TimeZone;

/// A `boolean`.
#[inline]
pub fn bool(out: &mut Vec<u8>, format: Format, value: bool) {
    out.push(match (format, value) {
        (Format::Text, true) => b't',
        (Format::Text, false) => b'f',
        (Format::Binary, value) => u8::from(value),
    });
}

/// Makes the function of a type of whole numbers.
macro_rules! whole_number {
    ($(#[$doc:meta])* $name:ident, $type:ty) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(out: &mut Vec<u8>, format: Format, value: $type) {
            match format {
                // Writing into memory does not fail.
                Format::Text => drop(write!(out, "{value}")),
                Format::Binary => out.extend(value.to_be_bytes()),
            }
        }
    };
}

whole_number!(
    /// A `smallint`.
    int2,
    i16
);
whole_number!(
    /// An `integer`.
    int4,
    i32
);
whole_number!(
    /// A `bigint`.
    int8,
    i64
);
whole_number!(
    /// An `oid`.
    oid,
    u32
);

/// A `real`.
pub fn float4(out: &mut Vec<u8>, format: Format, value: f32) {
    match format {
        Format::Text => float::float4(out, value),
        Format::Binary => out.extend(value.to_be_bytes()),
    }
}

/// A `double precision`.
pub fn float8(out: &mut Vec<u8>, format: Format, value: f64) {
    match format {
        Format::Text => float::float8(out, value),
        Format::Binary => out.extend(value.to_be_bytes()),
    }
}

/// A `numeric`.
pub fn numeric(out: &mut Vec<u8>, format: Format, value: &Numeric) {
    match format {
        Format::Text => value.write(out),
        Format::Binary => value.write_binary(out),
    }
}

/// A `numeric` of `unscaled / 10^scale`.
pub fn decimal(out: &mut Vec<u8>, format: Format, unscaled: i128, scale: u8) {
    numeric(out, format, &Numeric::from_i128(unscaled, scale));
}

/// A `text`, `varchar`, `character`, `name` or `json`: the same in both formats.
#[inline]
pub fn text(out: &mut Vec<u8>, value: &str) {
    out.extend(value.as_bytes());
}

/// A `bytea`.
pub fn bytea(out: &mut Vec<u8>, format: Format, value: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match format {
        Format::Binary => out.extend(value),
        Format::Text => {
            out.reserve(2 + 2 * value.len());
            out.extend(b"\\x");
            for byte in value {
                out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
        }
    }
}

/// A `date`.
pub fn date(out: &mut Vec<u8>, format: Format, value: Date) {
    match format {
        Format::Text => value.write(out),
        Format::Binary => out.extend(value.0.to_be_bytes()),
    }
}

/// A `time`.
pub fn time(out: &mut Vec<u8>, format: Format, value: Time) {
    match format {
        Format::Text => value.write(out),
        Format::Binary => out.extend(value.0.to_be_bytes()),
    }
}

/// A `timestamp`.
pub fn timestamp(out: &mut Vec<u8>, format: Format, value: Timestamp) {
    match format {
        Format::Text => value.write(out),
        Format::Binary => out.extend(value.0.to_be_bytes()),
    }
}

/// A `timestamptz`, as text in the session's time zone.
pub fn timestamptz(out: &mut Vec<u8>, format: Format, value: Timestamp, zone: &dyn TimeZone) {
    match format {
        Format::Text => value.write_in(out, zone),
        Format::Binary => out.extend(value.0.to_be_bytes()),
    }
}

/// An `interval`.
pub fn interval(out: &mut Vec<u8>, format: Format, value: &Interval) {
    match format {
        Format::Text => value.write(out),
        Format::Binary => {
            out.extend(value.microseconds.to_be_bytes());
            out.extend(value.days.to_be_bytes());
            out.extend(value.months.to_be_bytes());
        }
    }
}

/// A `uuid`.
pub fn uuid(out: &mut Vec<u8>, format: Format, value: &[u8; 16]) {
    match format {
        Format::Binary => out.extend(value),
        Format::Text => {
            for (at, byte) in value.iter().enumerate() {
                if matches!(at, 4 | 6 | 8 | 10) {
                    out.push(b'-');
                }
                // Writing into memory does not fail.
                let _ = write!(out, "{byte:02x}");
            }
        }
    }
}

/// A `jsonb`, given as its text. In binary a version stands before it.
pub fn jsonb(out: &mut Vec<u8>, format: Format, value: &str) {
    if format == Format::Binary {
        out.push(1);
    }
    text(out, value);
}
