//! PostgreSQL's texts of values as DataFusion's sqllogictest files have them.

use tokio_postgres::types::{Kind, Type};

/// A value of a row.
pub fn cell(of: &Type, text: Option<&str>) -> String {
    match text {
        None => "NULL".to_owned(),
        Some("") if is_text(of) => "(empty)".to_owned(),
        Some(text) => value(of, text, false).trim_end_matches('\n').to_owned(),
    }
}

fn is_text(of: &Type) -> bool {
    matches!(*of, Type::TEXT | Type::VARCHAR | Type::NAME | Type::BPCHAR)
}

/// `inner`: it stands in a list or a structure.
fn value(of: &Type, text: &str, inner: bool) -> String {
    if let Kind::Array(element) = of.kind() {
        return list(element, text);
    }
    match *of {
        Type::BOOL => if text == "t" { "true" } else { "false" }.to_owned(),
        Type::FLOAT4 | Type::FLOAT8 => float(of, text, inner),
        Type::NUMERIC if !inner => trimmed(text),
        Type::BYTEA => text.trim_start_matches("\\x").to_owned(),
        Type::TIMESTAMP => moment(text),
        Type::TIMESTAMPTZ => match text.strip_suffix("+00") {
            Some(utc) => format!("{}Z", moment(utc)),
            None => moment(text),
        },
        Type::TIME => fraction(text),
        Type::INTERVAL => interval(text),
        Type::JSON | Type::JSONB => structure(text),
        _ => text.to_owned(),
    }
}

/// Without zeros at the end.
fn trimmed(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

fn float(of: &Type, text: &str, inner: bool) -> String {
    let plain = match *of {
        Type::FLOAT4 => text.parse::<f32>().map(|value| {
            if inner {
                format!("{value:?}")
            } else {
                value.to_string()
            }
        }),
        _ => text.parse::<f64>().map(|value| {
            if inner {
                format!("{value:?}")
            } else {
                value.to_string()
            }
        }),
    };
    let plain = plain.unwrap_or_else(|_| text.to_owned());
    match plain.split_once('.') {
        _ if text.contains("NaN") || text.contains("nfinity") => text.to_owned(),
        Some((_, digits)) if digits.len() > 12 && !inner => {
            let rounded = text.parse::<f64>().map(|value| format!("{value:.12}"));
            trimmed(&rounded.unwrap_or(plain))
        }
        _ => plain,
    }
}

/// Digits behind the point in threes.
fn fraction(text: &str) -> String {
    match text.split_once('.') {
        Some((whole, digits)) => {
            let wide = if digits.len() <= 3 { 3 } else { 6 };
            format!("{whole}.{digits:0<wide$}")
        }
        None => text.to_owned(),
    }
}

fn moment(text: &str) -> String {
    let (day, time) = text.split_once(' ').unwrap_or((text, ""));
    let zone = time.find(['+', '-']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone);
    let zone = match zone.len() {
        3 => format!("{zone}:00"),
        _ => zone.to_owned(),
    };
    format!("{day}T{}{zone}", fraction(time))
}

/// `1 year 2 days 03:00:00` as `12 mons 2 days 3 hours`.
fn interval(text: &str) -> String {
    let mut words = text.split_ascii_whitespace().peekable();
    let (mut months, mut parts) = (0i64, Vec::new());
    while let Some(word) = words.next() {
        if let Some((hours, rest)) = word.split_once(':') {
            let sign = if hours.starts_with('-') { "-" } else { "" };
            let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
            let number = |text: &str| text.trim_start_matches('-').parse::<f64>().unwrap_or_default();
            for (value, unit) in [(hours, "hours"), (minutes, "mins")] {
                if number(value) != 0.0 {
                    parts.push(format!("{sign}{} {unit}", number(value)));
                }
            }
            if number(seconds) != 0.0 {
                parts.push(format!("{sign}{:.9} secs", number(seconds)));
            }
            continue;
        }
        let number: i64 = word.parse().unwrap_or_default();
        match words.next().unwrap_or_default() {
            "year" | "years" => months += 12 * number,
            "mon" | "mons" => months += number,
            _ => parts.push(format!("{number} days")),
        }
    }
    if months != 0 {
        parts.insert(0, format!("{months} mons"));
    }
    match parts.is_empty() {
        true => "0 secs".to_owned(),
        false => parts.join(" "),
    }
}

/// `{1,NULL,"a b"}` as `[1, NULL, a b]`, and lists of lists.
fn list(element: &Type, text: &str) -> String {
    let mut written = String::new();
    let mut chars = text.chars().peekable();
    let mut item = String::new();
    let mut quoted = false;
    let end = |item: &mut String, quoted: &mut bool, written: &mut String| {
        if !item.is_empty() || *quoted {
            match item.as_str() {
                "NULL" if !*quoted => written.push_str("NULL"),
                text => written.push_str(&value(element, text, true)),
            }
        }
        item.clear();
        *quoted = false;
    };
    while let Some(c) = chars.next() {
        match c {
            '{' => written.push('['),
            '}' => {
                end(&mut item, &mut quoted, &mut written);
                written.push(']');
            }
            ',' => {
                end(&mut item, &mut quoted, &mut written);
                written.push_str(", ");
            }
            '"' => {
                quoted = true;
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => item.extend(chars.next()),
                        c => item.push(c),
                    }
                }
            }
            c => item.push(c),
        }
    }
    written
}

/// `{"a":1,"b":"x"}` as `{a: 1, b: x}`.
fn structure(text: &str) -> String {
    let mut written = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => written.extend(chars.next()),
                        c => written.push(c),
                    }
                }
            }
            ':' => written.push_str(": "),
            ',' => written.push_str(", "),
            c => written.push(c),
        }
    }
    written.replace("null", "NULL")
}
