//! Words of a figure's data, with what a row or a claim has in their gaps: `{mode}`, `{median:2x}`, `auto[ {auto_threads}]`.
//!
//! Behind the colon stand the decimals and what follows the number, or `bytes`, `ms` or `us` of a number of these. What stands in brackets is left out where one of its
//! gaps has nothing.

use corun_cli::number;

/// The words with their gaps filled; none where a gap outside brackets has nothing. `gap` is asked for a name and a format.
pub(super) fn fill(words: &str, gap: &dyn Fn(&str, &str) -> Option<String>) -> Option<String> {
    let mut text = String::new();
    let mut rest = words;
    while let Some(start) = rest.find(['{', '[']) {
        text.push_str(&rest[..start]);
        let optional = rest[start..].starts_with('[');
        let (inner, after) = rest[start + 1..].split_once(if optional { ']' } else { '}' })?;
        if optional {
            text.push_str(&fill(inner, gap).unwrap_or_default());
        } else {
            let (name, format) = inner.split_once(':').unwrap_or((inner, ""));
            text.push_str(&gap(name, format)?);
        }
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// A number with the decimals and the unit of a format, short where the format has no decimals, or in units of bytes or of time.
pub(super) fn number(value: f64, format: &str) -> String {
    match format {
        "bytes" => return number::bytes(value),
        "ms" => return number::milliseconds(value),
        "us" => return number::microseconds(value),
        _ => {}
    }
    let unit = format.trim_start_matches(|digit: char| digit.is_ascii_digit());
    match format[..format.len() - unit.len()].parse::<usize>() {
        // A zero has no sign.
        Ok(decimals) => {
            let text = format!("{value:.decimals$}");
            let zero = text.parse() == Ok(0.0);
            format!(
                "{}{unit}",
                if zero { text.trim_start_matches('-') } else { &text }
            )
        }
        Err(_) => format!("{}{unit}", number::short(value)),
    }
}

/// The number in the middle of a range, with the range behind it: `33 % (28 to 37)`.
pub(super) fn ranged((low, middle, high): (f64, f64, f64), format: &str) -> String {
    let text = number(middle, format);
    let decimals = format.trim_end_matches(|unit: char| !unit.is_ascii_digit());
    match (number(low, decimals), number(high, decimals)) {
        (low, high) if low == high => text,
        (low, high) => format!("{text} ({low} to {high})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_and_brackets_left_out() {
        let gap = |name: &str, format: &str| (name == "ratio").then(|| number(1.456, format));
        let filled = |words| fill(words, &gap);
        assert_eq!(
            filled("at {ratio:2x}[ of {other}]."),
            Some("at 1.46x.".to_owned())
        );
        assert_eq!(
            filled("[at {ratio}, ]{ratio:0 %}"),
            Some("at 1.46, 1 %".to_owned())
        );
        assert_eq!(number(2048.0, "bytes"), "2.0 KiB");
        assert_eq!(
            (number(1250.0, "ms"), number(25.94, "us")),
            ("1.25 s".to_owned(), "25.9 us".to_owned())
        );
        assert_eq!((filled("{other}"), filled("{ratio")), (None, None));
    }

    #[test]
    fn a_range_stands_behind_its_number() {
        assert_eq!(ranged((28.4, 33.0, 37.0), "0 %"), "33 % (28 to 37)");
        assert_eq!(ranged((1.001, 1.0, 1.002), "2x"), "1.00x");
        assert_eq!(ranged((-0.4, 3.0, 6.0), "0 %"), "3 % (0 to 6)");
    }
}
