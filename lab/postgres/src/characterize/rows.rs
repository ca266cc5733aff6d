//! The rows of a run of `corun-lab characterize`, kept as they come and read back: `FOLDER/rows.jsonl`.
//!
//! Order of calls: whoever measures appends [`Row::to_json`] lines; [`read`] gives them back. A run that was killed leaves a last line
//! without its end: it is skipped, and [`Rows::cut_off`] says so. Names of cases and metrics that several modules share stand here,
//! too. It judges no number: see [`crate::characterize::advice`] and [`crate::characterize::diff`].

use std::path::{Path, PathBuf};

use lab_core::error::BenchError;
use lab_core::row::file::{self, Rows};
use lab_core::row::{Label, Row};
use lab_core::stats::Spread;

/// The suite of all rows here.
pub const SUITE: &str = "characterize";
/// The file in a run's folder.
pub const FILE: &str = "rows.jsonl";

/// What the machine and the server can do; one row each.
pub const CAPABILITY: &str = "capability";
/// A fact about machine, server or settings in words: parameters `fact` and `value`.
pub const MACHINE: &str = "machine";
/// Plans and selectivities.
pub const PLAN: &str = "plan";
/// Times and rates by concurrency.
pub const SPEEDUP: &str = "speedup";
/// Work by logical CPU.
pub const DISTRIBUTION: &str = "distribution";
/// Miss rates.
pub const MISSES: &str = "misses";
/// Cycles per instruction and what they wait for.
pub const STALLS: &str = "stalls";
/// Top functions.
pub const FUNCTIONS: &str = "functions";
/// Instruction mix.
pub const MIX: &str = "mix";
/// What a query uses, as the kernel counts.
pub const RESOURCES: &str = "resources";
/// Slow-downs beside the polluter, and the effective cache.
pub const INTERFERENCE: &str = "interference";
/// Instructions a query touches.
pub const FOOTPRINT: &str = "footprint";
/// What to do.
pub const ADVICE: &str = "advice";

/// The file of rows that `path` names: itself, or [`FILE`] in the folder it is.
pub fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join(FILE)
    } else {
        path.to_path_buf()
    }
}

/// Reads the rows of a file, or of the folder of a run.
pub fn read(path: &Path) -> Result<Rows, BenchError> {
    file::read(&file_of(path))
}

/// A fact about machine, server or settings as a row, so that a file of rows says all by itself where it is from.
pub fn fact(name: &str, value: &str) -> Row {
    Row::measured(SUITE, MACHINE, "fact", "count", Spread::one(1.0), true)
        .with("fact", name)
        .with("value", value)
}

/// What machine or server cannot do, and why.
pub fn missing(capability: &str, reason: &str) -> Row {
    Row::unavailable(SUITE, CAPABILITY, "available", "bool", reason).with("capability", capability)
}

/// The facts among the rows: name and value.
pub fn facts(rows: &[Row]) -> Vec<(String, String)> {
    rows.iter()
        .filter(|row| row.case == MACHINE && row.label != Label::Unavailable)
        .map(|row| (row.text("fact").to_owned(), row.text("value").to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use lab_core::row::file::parse;

    use super::*;

    fn lines() -> String {
        ["processor", "cores", "date"]
            .map(|name| fact(name, "ä").to_json() + "\n")
            .concat()
    }

    #[test]
    fn rows_are_read_from_a_file_or_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        std::fs::write(&path, lines()).expect("written");
        let rows = read(&path).expect("rows");
        assert_eq!(rows, read(folder.path()).expect("rows"));
        assert_eq!((rows.rows.len(), rows.cut_off), (3, None));
        assert_eq!(facts(&rows.rows)[1], ("cores".to_owned(), "ä".to_owned()));
        assert_eq!(rows.cut_off_text(), None);
    }

    #[test]
    fn a_killed_run_loses_its_last_line_only() {
        let whole = lines();
        let last_line = whole.trim_end().rfind('\n').expect("three lines") + 1;
        for end in last_line..whole.len() {
            // Also in the middle of a character.
            let rows = parse(&whole.as_bytes()[..end]).expect("rows");
            let finished = end == whole.len() - 1;
            let nothing = end == last_line;
            assert_eq!(rows.rows.len(), if finished { 3 } else { 2 }, "{end}");
            assert_eq!(
                rows.cut_off,
                if finished || nothing { None } else { Some(3) },
                "{end}"
            );
        }
        let cut = parse(&whole.as_bytes()[..whole.len() - 5]).expect("rows");
        assert!(cut.cut_off_text().is_some_and(|text| text.contains("line (3)")));
    }

    #[test]
    fn a_damaged_line_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.jsonl");
        let damaged = lines().replacen("\"label\":\"measured\"", "\"label\":\"seen\"", 2);
        let damaged = damaged.replacen("seen", "measured", 1);
        std::fs::write(&path, damaged).expect("written");
        let error = read(&path).expect_err("damaged");
        let text = error.to_string();
        assert!(text.contains("line 2 of") && text.contains("\"label\""), "{text}");
        assert!(error.hint().is_some());
        // A line that is cut off but not the last is damaged, not interrupted.
        let cut = lines().replacen("}\n", "\n", 1);
        assert_eq!(parse(cut.as_bytes()).expect_err("damaged").0, 1);
        let missing = read(&folder.path().join("none.jsonl")).expect_err("no file");
        assert!(missing.to_string().contains("none.jsonl"));
    }
}
