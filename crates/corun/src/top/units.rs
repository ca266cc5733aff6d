//! Numbers for people, in few columns.

use std::time::Duration;

/// What is shown where nothing is known.
pub const UNKNOWN: &str = "-";

/// A whole number with commas.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Something a second: small ones with a decimal.
pub fn rate(number: f64) -> String {
    if number > 0.0 && number < 9.95 {
        format!("{number:.1}")
    } else {
        count(number.round() as u64)
    }
}

/// Bytes in powers of 1024.
pub fn bytes(number: f64) -> String {
    let mut number = number;
    for unit in ["B", "kB", "MB", "GB"] {
        if number < 999.5 {
            return if unit == "B" || number >= 99.95 {
                format!("{number:.0} {unit}")
            } else {
                format!("{number:.1} {unit}")
            };
        }
        number /= 1024.0;
    }
    format!("{number:.1} TB")
}

/// A time in three digits or so.
pub fn time(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..100_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        _ => format!("{} s", micros / 1_000_000),
    }
}

/// A part of a whole, in percent.
pub fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [rate(0.0), rate(0.44), rate(9.96), rate(12_345.6)],
            ["0", "0.4", "10", "12,346"]
        );
        assert_eq!(
            [
                bytes(0.0),
                bytes(999.0),
                bytes(1_000.0),
                bytes(150_000.0),
                bytes(5e9),
                bytes(5e15)
            ],
            ["0 B", "999 B", "1.0 kB", "146 kB", "4.7 GB", "4547.5 TB"]
        );
        let micros = |micros| time(Duration::from_micros(micros));
        assert_eq!(
            [
                micros(0),
                micros(999),
                micros(1_250),
                micros(45_678),
                micros(1_500_000),
                micros(200_000_000)
            ],
            ["0 µs", "999 µs", "1.2 ms", "45 ms", "1.5 s", "200 s"]
        );
        assert_eq!(
            [percent(0.0), percent(0.666), percent(1.0)],
            ["0 %", "67 %", "100 %"]
        );
    }
}
