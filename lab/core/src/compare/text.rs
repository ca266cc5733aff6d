//! What two runs differ in, in words and tables for a terminal.

use std::fmt::Write as _;

use corun_cli::{number, plain};

use super::{CHANGE_PERCENT_MIN, Change, Diff, Difference};
use crate::stats::Spread;

/// Keys of one run only that are listed; more are counted.
const ONLY_MAX: usize = 20;

impl Diff {
    /// Whether nothing but equal figures was found.
    pub fn is_empty(&self) -> bool {
        *self
            == Diff {
                same: self.same,
                ..Diff::default()
            }
    }

    /// For a terminal, ending with a line feed; `a` and `b` name the runs.
    pub fn text(&self, a: &str, b: &str) -> String {
        let mut text = format!("A: {a}\nB: {b}\n");
        let section = |text: &mut String, heading: &str| {
            let _ = write!(text, "\n{heading}\n{}\n", "=".repeat(heading.chars().count()));
        };
        let pairs = |list: &[Difference]| -> Vec<Vec<String>> {
            let word = |value: &str| {
                if value.is_empty() {
                    "-".to_owned()
                } else {
                    value.to_owned()
                }
            };
            list.iter()
                .map(|difference| vec![difference.name.clone(), word(&difference.a), word(&difference.b)])
                .collect()
        };
        for (heading, list) in [
            ("Machine, server and capabilities that differ", &self.machine),
            ("Settings that differ", &self.settings),
        ] {
            if !list.is_empty() {
                section(&mut text, heading);
                text.push_str(&plain::table(&["", "A", "B"], 0, &pairs(list)));
            }
        }
        let spread = |spread: Spread| {
            if spread.min == spread.max {
                number::short(spread.median)
            } else {
                format!(
                    "{} ({}..{})",
                    number::short(spread.median),
                    number::short(spread.min),
                    number::short(spread.max)
                )
            }
        };
        let changes = |list: &[Change]| -> Vec<Vec<String>> {
            list.iter()
                .map(|change| {
                    let percent = change.percent();
                    let percent = if percent.is_finite() {
                        format!("{percent:+.1} %")
                    } else {
                        "from 0".to_owned()
                    };
                    vec![
                        change.what.clone(),
                        change.unit.clone(),
                        spread(change.a),
                        spread(change.b),
                        percent,
                    ]
                })
                .collect()
        };
        for (heading, list) in [
            ("Changed beyond the spreads", &self.changed),
            ("Apart, but measured too few times to say", &self.unsure),
        ] {
            if !list.is_empty() {
                section(&mut text, heading);
                text.push_str(&plain::table(
                    &["figure", "unit", "A", "B", "change"],
                    1,
                    &changes(list),
                ));
            }
        }
        if !self.lost.is_empty() {
            section(&mut text, "Had in one run only");
            for (what, reason, run) in &self.lost {
                text.push_str(&plain::paragraph("", &format!("{what}: not in {run}: {reason}")));
            }
        }
        for (heading, list) in [("Rows of A only", &self.only_a), ("Rows of B only", &self.only_b)] {
            if list.is_empty() {
                continue;
            }
            section(&mut text, heading);
            for what in list.iter().take(ONLY_MAX) {
                let _ = writeln!(text, "{what}");
            }
            if list.len() > ONLY_MAX {
                let _ = writeln!(text, "and {} more", list.len() - ONLY_MAX);
            }
        }
        let _ = write!(
            text,
            "\n{} figures are the same within their spreads or A/A, or by less than {CHANGE_PERCENT_MIN} %.\n",
            self.same
        );
        text
    }
}
