//! What was found as TOML, with comments that say where each number is from; and the check that it goes with the configuration.

use std::fmt::Write;

use super::splits::beginning;
use super::{HeavyQueueProposal, Learnt, PasteError, Proposal, RangeProposal, SplitProposal};
use crate::config::{Config, ConfigError, KeyType, quote, quote_list};

impl Learnt {
    /// Tables to be added to the configuration, in the order of the proposals; remarks come first, as comments.
    pub fn toml(&self) -> String {
        let mut out = String::from(
            "# Proposed by `corun proxy learn`. Look the proposal over, add it to the configuration, and RELOAD.\n",
        );
        for remark in &self.remarks {
            comment(&mut out, &format!("{}: {}", remark.about, remark.text));
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
fn comment(out: &mut String, text: &str) {
    let text: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    // Writing to a string does not fail.
    let _ = writeln!(out, "# {text}");
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1000.0 {
            return if unit == "B" {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
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
        comment(
            out,
            &format!("This table takes the place of the present [{section}.{name}]."),
        );
    }
    let _ = writeln!(out, "[{section}.{}]", table_name(name));
}

/// A name as it stands in the heading of a table.
fn table_name(name: &str) -> String {
    let bare = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if bare { name.to_owned() } else { quote(name) }
}

/// What is known of heavy queries, and settings for them: as comments, since the tables they belong to are there already.
fn push_heavy_queues(out: &mut String, heavy_queues: &[HeavyQueueProposal]) {
    let least = heavy_queues
        .iter()
        .filter_map(|heavy_queue| heavy_queue.heavy_queue_min_us)
        .min();
    if let Some(least) = least {
        out.push('\n');
        comment(
            out,
            "To queue heavy queries, so that those run together that do not harm each other in the cache, set under [corun]:",
        );
        comment(out, &format!("  heavy_queue_min = \"{}ms\"", least / 1000));
        comment(
            out,
            "and in the tables of these databases (measure first what there is to gain: `corun-lab bench heavy-queue --case ceiling`):",
        );
        for heavy_queue in heavy_queues
            .iter()
            .filter(|heavy_queue| heavy_queue.heavy_queue_min_us.is_some())
        {
            comment(
                out,
                &format!(
                    "  [databases.{}] heavy_queue = \"auto\"  ({} of its time, by {})",
                    table_name(&heavy_queue.database),
                    percent(heavy_queue.time_part),
                    heavy_queue.source
                ),
            );
        }
    }
    for heavy_queue in heavy_queues {
        for heavy in &heavy_queue.heavy {
            let kind = match heavy.reads_only {
                true => "only reads, may queue",
                false => "does not only read, never queues",
            };
            comment(
                out,
                &format!(
                    "{}: {} times {:.1} ms, {} of all time, {kind}: {}",
                    heavy_queue.database,
                    heavy.calls,
                    heavy.mean_us as f64 / 1e3,
                    percent(heavy.time_part),
                    beginning(&heavy.query)
                ),
            );
        }
    }
}

fn push_range(out: &mut String, range: &RangeProposal) {
    let keyed = match range.keyed_part {
        Some(part) => format!("; {} of the statements known name such a key", percent(part)),
        None => String::new(),
    };
    comment(out, &format!("Cut by {}{keyed}.", range.source));
    for (worker, share) in range.workers.iter().enumerate() {
        let from = match &share.from {
            Some(from) => format!("from {from}"),
            None => "from the beginning".to_owned(),
        };
        let statements = match share.statements {
            Some(part) => format!(", {} of the statements seen", percent(part)),
            None => String::new(),
        };
        comment(
            out,
            &format!(
                "worker {worker} {from}: about {} rows of the largest table, {} in all tables{statements}",
                share.rows,
                bytes(share.bytes)
            ),
        );
    }
    heading(out, "ranges", &range.name, range.replaces);
    let _ = writeln!(out, "database = {}", quote(&range.database));
    let _ = writeln!(out, "columns = {}", quote_list(range.columns.iter().cloned()));
    let _ = writeln!(out, "key_type = {}", quote(range.key_type.word()));
    let numbers = range.key_type == KeyType::Integer;
    let _ = writeln!(out, "splits = {}", values(&range.splits, numbers));
}

fn push_split(out: &mut String, split: &SplitProposal) {
    comment(
        out,
        &format!(
            "{} times {:.1} ms, {} of the time of all statements ({}).",
            split.calls,
            split.mean_us as f64 / 1e3,
            percent(split.time_part),
            split.source
        ),
    );
    comment(
        out,
        &format!(
            "Expected in {} parts while their cores are free: {:.1} ms. The pooler measures both ways, and splits only where splitting pays.",
            split.parts,
            split.expected_us as f64 / 1e3
        ),
    );
    heading(out, "splits", &split.name, split.replaces);
    let _ = writeln!(out, "database = {}", quote(&split.database));
    let _ = writeln!(out, "query = {}", text(&split.query));
    let _ = writeln!(out, "key = {}", quote(&split.key));
    let numbers = split.splits.iter().all(|value| {
        // As it would be written: 007 is a text.
        value
            .parse::<i64>()
            .is_ok_and(|number| number.to_string() == *value)
    });
    let _ = writeln!(out, "splits = {}", values(&split.splits, numbers));
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
