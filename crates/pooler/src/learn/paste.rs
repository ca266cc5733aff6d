//! What was found as TOML, with comments that say where each number is from; and the check that it goes with the configuration.

use std::fmt::Write;

use super::splits::beginning;
use super::{HeavyQueueProposal, Learnt, PasteError, Proposal, RangeProposal, SplitProposal};
use crate::config::{Config, ConfigError, KeyType, quote, quote_list, quote_name};

/// Appends a comment with a text in the form of `format!`.
macro_rules! comment {
    ($out:expr, $($text:tt)+) => { comment($out, format_args!($($text)+)) };
}

impl Learnt {
    /// Tables to be added to the configuration, in the order of the proposals; remarks come first, as comments.
    pub fn toml(&self) -> String {
        let mut out = String::from(
            "# Proposed by `corun proxy learn`. Look the proposal over, add it to the configuration, and RELOAD.\n",
        );
        for remark in &self.remarks {
            comment!(&mut out, "{}: {}", remark.about, remark.text);
        }
        push_heavy_queues(&mut out, &self.heavy_queues);
        for proposal in &self.proposals {
            out.push('\n');
            match proposal {
                Proposal::Range(range) => push_range(&mut out, range),
                Proposal::Split(split) => push_split(&mut out, split),
            }
        }
        out
    }
}

/// Appends a comment of one line, whatever the text.
fn comment(out: &mut String, text: impl std::fmt::Display) {
    let line = |letter: char| if letter.is_control() { ' ' } else { letter };
    out.push_str("# ");
    out.extend(text.to_string().chars().map(line));
    out.push('\n');
}

/// Appends `name = value`, the value as TOML writes it.
fn setting(out: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{name} = {value}");
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn milliseconds(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}

fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    for unit in ["kB", "MB", "GB"] {
        if value < 1000.0 {
            return format!("{value:.1} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

fn values(all: &[String], numbers: bool) -> String {
    if numbers {
        format!("[{}]", all.join(", "))
    } else {
        quote_list(all.iter().cloned())
    }
}

fn heading(out: &mut String, section: &str, name: &str, replaces: bool) {
    if replaces {
        comment!(
            out,
            "This table takes the place of the present [{section}.{name}]."
        );
    }
    let _ = writeln!(out, "[{section}.{}]", quote_name(name));
}

/// What is known of heavy queries, and settings for them: as comments, since the tables they belong to are there already.
fn push_heavy_queues(out: &mut String, heavy_queues: &[HeavyQueueProposal]) {
    let least = heavy_queues.iter().filter_map(|found| found.heavy_queue_min_us);
    if let Some(least) = least.min() {
        out.push('\n');
        comment(
            out,
            "To queue heavy queries, so that those run together that do not harm each other in the cache, set under [corun]:",
        );
        comment!(out, "  heavy_queue_min = \"{}ms\"", least / 1000);
        comment(
            out,
            "and in the tables of these databases (measure first what there is to gain: `corun-lab bench heavy-queue --case ceiling`):",
        );
        for found in heavy_queues {
            if found.heavy_queue_min_us.is_some() {
                comment!(
                    out,
                    "  [databases.{}] heavy_queue = \"auto\"  ({} of its time, by {})",
                    quote_name(&found.database),
                    percent(found.time_part),
                    found.source
                );
            }
        }
    }
    for found in heavy_queues {
        for heavy in &found.heavy {
            let kind = match heavy.reads_only {
                true => "only reads, may queue",
                false => "does not only read, never queues",
            };
            comment!(
                out,
                "{}: {} times {}, {} of all time, {kind}: {}",
                found.database,
                heavy.calls,
                milliseconds(heavy.mean_us),
                percent(heavy.time_part),
                beginning(&heavy.query)
            );
        }
    }
}

fn push_range(out: &mut String, range: &RangeProposal) {
    let keyed = range.keyed_part.map(percent);
    let keyed = keyed.map(|part| format!("; {part} of the statements known name such a key"));
    comment!(out, "Cut by {}{}.", range.source, keyed.unwrap_or_default());
    for (worker, share) in range.workers.iter().enumerate() {
        let from = share.from.as_deref().unwrap_or("the beginning");
        let statements = share.statements.map(percent);
        let statements = statements.map(|part| format!(", {part} of the statements seen"));
        comment!(
            out,
            "worker {worker} from {from}: about {} rows of the largest table, {} in all tables{}",
            share.rows,
            bytes(share.bytes),
            statements.unwrap_or_default()
        );
    }
    heading(out, "ranges", &range.name, range.replaces);
    setting(out, "database", quote(&range.database));
    setting(out, "columns", quote_list(range.columns.iter().cloned()));
    setting(out, "key_type", quote(range.key_type.word()));
    let numbers = range.key_type == KeyType::Integer;
    setting(out, "splits", values(&range.splits, numbers));
}

fn push_split(out: &mut String, split: &SplitProposal) {
    comment!(
        out,
        "{} times {}, {} of the time of all statements ({}).",
        split.calls,
        milliseconds(split.mean_us),
        percent(split.time_part),
        split.source
    );
    comment!(
        out,
        "Expected in {} parts while their cores are free: {}. The pooler measures both ways, and splits only where splitting pays.",
        split.parts,
        milliseconds(split.expected_us)
    );
    heading(out, "splits", &split.name, split.replaces);
    setting(out, "database", quote(&split.database));
    setting(out, "query", text(&split.query));
    setting(out, "key", quote(&split.key));
    // As it would be written: 007 is a text.
    let is_number = |value: &String| {
        value
            .parse()
            .is_ok_and(|number: i64| number.to_string() == *value)
    };
    let numbers = split.splits.iter().all(is_number);
    setting(out, "splits", values(&split.splits, numbers));
}

/// A text that may have several lines.
fn text(text: &str) -> String {
    let plain = text
        .chars()
        .all(|letter| matches!(letter, '\n' | '\t') || !letter.is_control());
    if text.contains('\n') && plain && !text.contains("'''") && !text.ends_with('\'') {
        format!("'''\n{text}'''")
    } else {
        quote(text)
    }
}

/// Whether the configuration still is one with all of it.
///
/// # Errors
/// What would be wrong.
pub(super) fn check(file: &str, learnt: &Learnt) -> Result<(), PasteError> {
    let mut text = without_replaced(file, learnt).unwrap_or_else(|| file.to_owned());
    text.push('\n');
    text.push_str(&learnt.toml());
    Config::parse(&text, "corun.toml with what was found")
        .map(drop)
        .map_err(|error: ConfigError| error.into())
}

/// The configuration without the tables whose place is taken. `None`: there are none.
fn without_replaced(file: &str, learnt: &Learnt) -> Option<String> {
    let replaced: Vec<(&str, &str)> = learnt
        .proposals
        .iter()
        .filter_map(|proposal| match proposal {
            Proposal::Range(range) => range.replaces.then_some(("ranges", range.name.as_str())),
            Proposal::Split(split) => split.replaces.then_some(("splits", split.name.as_str())),
        })
        .collect();
    if replaced.is_empty() {
        return None;
    }
    let mut root: toml::Table = toml::from_str(file).ok()?;
    for (section, name) in replaced {
        if let Some(tables) = root.get_mut(section).and_then(toml::Value::as_table_mut) {
            tables.remove(name);
        }
    }
    toml::to_string(&root).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{HeavyQuery, Remark, Share};
    use super::*;

    const FILE: &str = "[proxy]\nauth_type = \"any\"\n[databases.shop]\nhost = \"db1\"\nuser = \"u\"\n\
        [ranges.old]\ndatabase = \"shop\"\ncolumns = [\"t.a\"]\nsplits = [1]\n";

    fn learnt(name: &str, replaces: bool) -> Learnt {
        Learnt {
            proposals: vec![
                Proposal::Range(RangeProposal {
                    name: name.to_owned(),
                    database: "shop".to_owned(),
                    columns: vec!["t.a".to_owned(), "u.b".to_owned()],
                    key_type: KeyType::Date,
                    splits: vec!["2026-01-01".to_owned(), "2026-02-01".to_owned()],
                    replaces,
                    source: "pg_stats of t.a".to_owned(),
                    keyed_part: Some(0.5),
                    workers: vec![Share {
                        from: None,
                        rows: 7,
                        bytes: 1_500_000,
                        statements: None,
                    }],
                }),
                Proposal::Split(SplitProposal {
                    name: "t_a".to_owned(),
                    database: "shop".to_owned(),
                    query: "select \"x\", count(*)\nfrom t -- it's\nwhere c = $1".to_owned(),
                    key: "t.a".to_owned(),
                    splits: vec!["5".to_owned(), "9".to_owned()],
                    replaces: false,
                    source: "SHOW QUERIES",
                    calls: 3,
                    mean_us: 40_000,
                    time_part: 0.25,
                    parts: 2,
                    expected_us: 20_600,
                }),
            ],
            heavy_queues: vec![HeavyQueueProposal {
                database: "the shop".to_owned(),
                source: "SHOW QUERIES",
                heavy: vec![HeavyQuery {
                    query: "select a\nfrom t".to_owned(),
                    calls: 7,
                    mean_us: 61_500,
                    time_part: 0.5,
                    reads_only: true,
                }],
                heavy_queue_min_us: Some(50_000),
                time_part: 0.5,
            }],
            remarks: vec![Remark {
                about: "shop".to_owned(),
                text: "two\nlines".to_owned(),
            }],
            reached: 1,
        }
    }

    #[test]
    fn what_is_pasted_is_read_as_it_was_meant() {
        let learnt = learnt("new", false);
        let file = FILE.replace("t.a", "t.z");
        check(&file, &learnt).expect("it goes together");
        let text = format!("{file}\n{}", learnt.toml());
        let config = Config::parse(&text, "corun.toml")
            .expect("a configuration")
            .config;
        assert_eq!(config.ranges["new"].key_type, KeyType::Date);
        assert_eq!(config.ranges["new"].splits.len(), 2);
        let Proposal::Split(split) = &learnt.proposals[1] else {
            panic!("a split");
        };
        assert_eq!(config.splits["t_a"].query, split.query);
        assert!(text.contains("# shop: two lines\n"), "{text}");
        for line in [
            "#   heavy_queue_min = \"50ms\"\n",
            "#   [databases.\"the shop\"] heavy_queue = \"auto\"  (50.0 % of its time, by SHOW QUERIES)\n",
            "# the shop: 7 times 61.5 ms, 50.0 % of all time, only reads, may queue: select a from t\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("7 rows of the largest table, 1.5 MB"), "{text}");
    }

    #[test]
    fn a_table_whose_place_is_taken_is_not_counted() {
        check(FILE, &learnt("old", true)).expect("it takes the place");
        assert!(
            check(FILE, &learnt("new", false)).is_err(),
            "the column is in two ranges"
        );
    }
}
