//! A value as PostgreSQL's protocol writes it, as DataFusion's files have it.

use std::str::FromStr;

use bigdecimal::BigDecimal;
use postgres::types::{Kind, Type};
use serde_json::Value;

/// Digits behind the point that the files have at most.
const DIGITS: i64 = 12;

/// The text of a file for a value's text.
pub fn as_file(of: &Type, text: &str) -> String {
    if let Kind::Array(element) = of.kind() {
        return array(element, text).unwrap_or_else(|| text.to_owned());
    }
    match *of {
        Type::BOOL => boolean(text).to_owned(),
        Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => number(text),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => match text {
            "" => "(empty)".to_owned(),
            text => text.trim_end_matches('\n').to_owned(),
        },
        _ => inside(of, text),
    }
}

/// The text of a value inside of another, where numbers and texts stay as they are.
fn inside(of: &Type, text: &str) -> String {
    match *of {
        Type::BOOL => boolean(text).to_owned(),
        Type::FLOAT4 | Type::FLOAT8
            if text.parse::<f64>().is_ok_and(f64::is_finite) && !text.contains(['.', 'e']) =>
        {
            format!("{text}.0")
        }
        Type::TIMESTAMP | Type::TIMESTAMPTZ => moment(text),
        Type::TIME => fraction(text),
        Type::BYTEA => text.trim_start_matches("\\x").to_owned(),
        Type::INTERVAL => interval(text).unwrap_or_else(|| text.to_owned()),
        Type::JSON | Type::JSONB => {
            serde_json::from_str(text).map_or(text.to_owned(), |value| structure(&value))
        }
        _ => text.to_owned(),
    }
}

fn boolean(text: &str) -> &str {
    match text {
        "t" => "true",
        "f" => "false",
        other => other,
    }
}

fn number(text: &str) -> String {
    match BigDecimal::from_str(text) {
        Ok(number) => number.round(DIGITS).normalized().to_plain_string(),
        Err(_) => text.to_owned(),
    }
}

/// `2024-05-06 07:08:09.1+00` as `2024-05-06T07:08:09.100Z`.
fn moment(text: &str) -> String {
    let Some((date, time)) = text.split_once(' ') else {
        return text.to_owned();
    };
    let zone = time.find(['+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone);
    let zone = match zone {
        "+00" => "Z".to_owned(),
        whole if whole.len() == 3 => format!("{whole}:00"),
        other => other.to_owned(),
    };
    format!("{date}T{}{zone}", fraction(time))
}

/// Parts of a second in groups of three digits.
fn fraction(time: &str) -> String {
    match time.split_once('.') {
        Some((whole, part)) => format!("{whole}.{part:0<width$}", width = part.len().next_multiple_of(3)),
        None => time.to_owned(),
    }
}

/// `1 year 2 mons 3 days -04:05:06.7` as `14 mons 3 days -4 hours -5 mins -6.700000000 secs`.
fn interval(text: &str) -> Option<String> {
    let (mut months, mut days, mut clock) = (0_i64, 0_i64, None);
    let mut words = text.split(' ');
    while let Some(word) = words.next() {
        if word.contains(':') {
            clock = Some(word);
            continue;
        }
        let count: i64 = word.parse().ok()?;
        match words.next()? {
            "year" | "years" => months += 12 * count,
            "mon" | "mons" => months += count,
            "day" | "days" => days += count,
            _ => return None,
        }
    }
    let mut parts = Vec::new();
    for (count, unit) in [(months, "mons"), (days, "days")] {
        if count != 0 {
            parts.push(format!("{count} {unit}"));
        }
    }
    if let Some(clock) = clock {
        let sign = if clock.starts_with('-') { "-" } else { "" };
        let mut fields = clock.trim_start_matches(['-', '+']).split(':');
        for unit in ["hours", "mins"] {
            let count: u64 = fields.next()?.parse().ok()?;
            if count != 0 {
                parts.push(format!("{sign}{count} {unit}"));
            }
        }
        let seconds: BigDecimal = fields.next()?.parse().ok()?;
        if seconds != BigDecimal::from(0) {
            parts.push(format!("{sign}{} secs", seconds.with_scale(9).to_plain_string()));
        }
    }
    Some(match parts.is_empty() {
        true => "0 secs".to_owned(),
        false => parts.join(" "),
    })
}

/// `{"name": value}` as `{name: value}`.
fn structure(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => listed(values.iter().map(structure), '[', ']'),
        Value::Object(fields) => listed(
            fields
                .iter()
                .map(|(name, value)| format!("{name}: {}", structure(value))),
            '{',
            '}',
        ),
        other => other.to_string(),
    }
}

fn listed(values: impl Iterator<Item = String>, open: char, close: char) -> String {
    format!("{open}{}{close}", values.collect::<Vec<_>>().join(", "))
}

/// `{1,NULL,"a b"}` as `[1, NULL, a b]`.
fn array(element: &Type, text: &str) -> Option<String> {
    let mut letters = text.chars().peekable();
    let listed = elements(element, &mut letters)?;
    letters.next().is_none().then_some(listed)
}

fn elements(of: &Type, letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    letters.next_if_eq(&'{')?;
    let mut values = Vec::new();
    if letters.next_if_eq(&'}').is_some() {
        return Some("[]".to_owned());
    }
    loop {
        values.push(match letters.peek()? {
            '{' => elements(of, letters)?,
            '"' => {
                letters.next();
                let mut text = String::new();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => text.push(letters.next()?),
                        letter => text.push(letter),
                    }
                }
                inside(of, &text)
            }
            _ => {
                let mut text = String::new();
                while let Some(letter) = letters.next_if(|letter| !",}".contains(*letter)) {
                    text.push(letter);
                }
                if text == "NULL" { text } else { inside(of, &text) }
            }
        });
        match letters.next()? {
            ',' => {}
            '}' => return Some(listed(values.into_iter(), '[', ']')),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_files_have_them() {
        for (of, text, file) in [
            (Type::BOOL, "t", "true"),
            (Type::FLOAT8, "1e-7", "0.0000001"),
            (Type::FLOAT8, "NaN", "NaN"),
            (Type::NUMERIC, "1.500", "1.5"),
            (Type::TEXT, "", "(empty)"),
            (
                Type::TIMESTAMP,
                "2024-05-06 07:08:09.1",
                "2024-05-06T07:08:09.100",
            ),
            (
                Type::TIMESTAMPTZ,
                "2024-05-06 07:08:09+00",
                "2024-05-06T07:08:09Z",
            ),
            (
                Type::TIMESTAMPTZ,
                "2024-05-06 07:08:09-03",
                "2024-05-06T07:08:09-03:00",
            ),
            (
                Type::INTERVAL,
                "1 year 2 mons 3 days 04:00:06.7",
                "14 mons 3 days 4 hours 6.700000000 secs",
            ),
            (Type::INTERVAL, "00:00:00", "0 secs"),
            (Type::BYTEA, "\\x00ff", "00ff"),
            (Type::INT4_ARRAY, "{{1,NULL},{}}", "[[1, NULL], []]"),
            (Type::TEXT_ARRAY, "{a,\"b \\\"c\",\"\"}", "[a, b \"c, ]"),
            (Type::FLOAT8_ARRAY, "{1,2.5}", "[1.0, 2.5]"),
            (Type::JSON, "{\"a\":1,\"b\":[null,\"x\"]}", "{a: 1, b: [NULL, x]}"),
        ] {
            assert_eq!(as_file(&of, text), file, "{of} {text}");
        }
    }
}
