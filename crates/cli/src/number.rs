//! Numbers as people read them: three significant digits, thousands and units spelt short.

/// `value` with about three significant digits and a k/M/G suffix from ten thousand on. `-` for NaN and infinities.
///
/// ```
/// use corun_cli::number::short;
/// assert_eq!(short(0.01234), "0.0123");
/// assert_eq!(short(12.0), "12");
/// assert_eq!(short(1234.0), "1234");
/// assert_eq!(short(2_500_000.0), "2.5M");
/// ```
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    for (limit, suffix) in [(1e9, "G"), (1e6, "M"), (1e4, "k")] {
        if magnitude >= limit {
            let unit = if suffix == "k" { 1e3 } else { limit };
            return format!("{}{suffix}", trimmed(value / unit));
        }
    }
    trimmed(value)
}

/// Bytes in binary units: `512 B`, `48.0 KiB`, `1.5 GiB`.
pub fn bytes(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let mut scaled = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if scaled.abs() < 1024.0 {
            let decimals = usize::from(unit != "B");
            return format!("{scaled:.decimals$} {unit}");
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.1} TiB")
}

/// Milliseconds as `0.42 ms`, `12.3 ms` or `1.23 s`.
pub fn milliseconds(value: f64) -> String {
    if !value.is_finite() {
        "-".to_owned()
    } else if value >= 1000.0 {
        format!("{:.2} s", value / 1000.0)
    } else {
        format!("{} ms", trimmed(value))
    }
}

/// Microseconds as `25.9 us`, or as [`milliseconds`] from a thousand on.
pub fn microseconds(value: f64) -> String {
    if value < 1000.0 {
        format!("{} us", trimmed(value))
    } else {
        milliseconds(value / 1000.0)
    }
}

/// Three significant digits below a thousand, none after the point above; no trailing zeros.
fn trimmed(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits_before = value.abs().log10().floor() as i32 + 1;
    let decimals = (3 - digits_before).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (1.0 / 3.0, "0.333"),
            (9.999, "10"),
            (99.96, "100"),
            (1234.0, "1234"),
            (12_345.0, "12.3k"),
            (-2.5, "-2.5"),
            (3.2e9, "3.2G"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
    }

    #[test]
    fn bytes_and_times_carry_units() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(48.0 * 1024.0), "48.0 KiB");
        assert_eq!(bytes(1.5 * 1024.0 * 1024.0 * 1024.0), "1.5 GiB");
        assert_eq!(milliseconds(0.4211), "0.421 ms");
        assert_eq!(milliseconds(1234.0), "1.23 s");
        assert_eq!(
            [25.94, 1250.0, f64::NAN].map(microseconds),
            ["25.9 us", "1.25 ms", "-"]
        );
    }
}
