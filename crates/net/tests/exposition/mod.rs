//! A reader of Prometheus' text format (0.0.4) that takes nothing that Prometheus would not take, for tests of whoever writes it.

use std::collections::{BTreeMap, BTreeSet};

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// With `_bucket` and the like.
    pub name: String,
    /// By their names.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// The kind of each metric, and all samples.
pub type Scrape = (BTreeMap<String, String>, Vec<Sample>);

/// Reads a text.
///
/// # Panics
/// With the first line that is wrong.
pub fn read(text: &str) -> Scrape {
    assert!(text.ends_with('\n'), "the last line has no end");
    let (mut kinds, mut samples) = (BTreeMap::new(), Vec::<Sample>::new());
    let (mut helped, mut current) = (BTreeSet::new(), String::new());
    let mut series = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("help has words");
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(helped.insert(name.to_owned()), "{name} has help twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a kind");
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(helped.contains(name), "{name} has no help");
            assert_eq!(
                kinds.insert(name.to_owned(), kind.to_owned()),
                None,
                "{name} twice"
            );
            name.clone_into(&mut current);
        } else {
            let sample = sample(line);
            let kind = kinds.get(&current).expect("a type before the first sample");
            let family = match kind.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| sample.name.strip_suffix(end)),
                _ => Some(sample.name.as_str()),
            };
            assert_eq!(family, Some(current.as_str()), "{line}");
            let key = format!("{} {:?}", sample.name, sample.labels);
            assert!(series.insert(key), "twice: {line}");
            samples.push(sample);
        }
    }
    for (name, _) in kinds.iter().filter(|(_, kind)| *kind == "histogram") {
        check_histogram(name, &samples);
    }
    (kinds, samples)
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        _ => text.parse().unwrap_or_else(|_| panic!("{text} is no number")),
    }
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect("a value");
    let (name, rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (BTreeMap::new(), rest),
    };
    let value = value.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    Sample {
        name: name.to_owned(),
        labels,
        value: number(value),
    }
}

/// The labels behind a brace, and what follows them.
fn labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, behind) = rest.split_once("=\"").expect("a label");
        assert!(is_name(name), "{name}");
        let mut value = String::new();
        let mut chars = behind.char_indices();
        let end = loop {
            match chars.next().expect("the end of a value") {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next().map(|(_, c)| c) {
                    Some('n') => '\n',
                    Some(c @ ('\\' | '"')) => c,
                    other => panic!("\\{other:?} in {behind}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), value), None, "{name} twice");
        rest = &behind[end + 1..];
        match rest.split_at(1) {
            (",", more) => rest = more,
            ("}", behind) => return (labels, behind),
            _ => panic!("{rest}"),
        }
    }
}

/// Buckets grow, and the last has all.
fn check_histogram(name: &str, samples: &[Sample]) {
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples
        .iter()
        .filter(|sample| sample.name == format!("{name}_bucket"))
    {
        let mut labels = sample.labels.clone();
        let bound = number(&labels.remove("le").expect("a bound"));
        let key = format!("{labels:?}");
        buckets.entry(key).or_default().push((bound, sample.value));
    }
    for (labels, buckets) in buckets {
        let rises = buckets
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        assert!(rises, "{name} {labels}: {buckets:?}");
        let of = |end: &str| {
            let all = samples
                .iter()
                .filter(|sample| sample.name == format!("{name}{end}"));
            let own = all.filter(|sample| format!("{:?}", sample.labels) == labels);
            own.map(|sample| sample.value).collect::<Vec<_>>()
        };
        let last = buckets.last().expect("one");
        assert_eq!((last.0, of("_count")), (f64::INFINITY, vec![last.1]), "{name}");
        assert_eq!(of("_sum").len(), 1, "{name} {labels}");
    }
}
