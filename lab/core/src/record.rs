//! Records of runs: `records/DATE-HOST/` keeps the rows, the machine, the commit and the arguments.
//!
//! ```text
//!   records/2026-01-31-somehost/
//!     join.csv         every row; one column a key, parameters after the fixed ones
//!     join.jsonl       the same rows as `--json` printed them
//!     topology.jsonl   `corun topology --json` of the machine
//!     join.run         commit, date, arguments, one `key: value` a line
//! ```
//!
//! Order of calls: [`folder`], then [`Record::write`]. Of a record of the same suite, day and host, cases that did not run again stay, with
//! the facts of their run. Collecting the facts (commit, host, topology) is the caller's: this module only lays them out, and its dates are
//! handed in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::BenchError;
use crate::row::{Label, Row, file};

/// What surrounds the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The suite; names the files.
    pub suite: String,
    /// Day of the run, `YYYY-MM-DD`, in UTC.
    pub date: String,
    /// The host's name, or a word for the kind of machine.
    pub host: String,
    /// The commit that the program was built from; files that were changed since do not show.
    pub commit: String,
    /// The command line.
    pub arguments: Vec<String>,
    /// Lines of `corun topology --json`.
    pub topology: Vec<String>,
}

/// The folder of a record below `records`: `DATE-HOST`, with every character that is awkward in a path replaced.
pub fn folder(records: &Path, date: &str, host: &str) -> PathBuf {
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' || c == '.' {
                    c
                } else {
                    '_'
                }
            })
            .collect()
    };
    records.join(format!("{}-{}", plain(date), plain(host)))
}

/// The date of a time given in seconds since 1970, as `YYYY-MM-DD` in UTC (Howard Hinnant's civil-from-days).
pub fn civil_date(seconds_since_epoch: u64) -> String {
    let days = (seconds_since_epoch / 86_400) as i64 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

impl Record {
    /// Writes the record below `records` and returns its folder.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, records: &Path, rows: &[Row]) -> Result<PathBuf, BenchError> {
        let folder = folder(records, &self.date, &self.host);
        std::fs::create_dir_all(&folder)
            .map_err(|source| BenchError::io(format!("could not make {}", folder.display()), source))?;
        let write = |name: String, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text)
                .map_err(|source| BenchError::io(format!("could not write {}", path.display()), source))
        };
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let (jsonl, run) = (format!("{}.jsonl", self.suite), format!("{}.run", self.suite));
        let (kept, facts) = kept(&read(&jsonl), &read(&run), rows);
        let all = kept
            .into_iter()
            .chain(rows.iter().map(Row::to_json))
            .collect::<Vec<_>>();
        let values: Vec<Value> = all
            .iter()
            .filter_map(|row| serde_json::from_str(row).ok())
            .collect();
        write(format!("{}.csv", self.suite), csv(&values))?;
        write(jsonl, lines(all))?;
        // A run is written again with each case that it finishes.
        let own = self.facts();
        let facts = facts.strip_suffix(&own).unwrap_or(&facts);
        write(run, facts.to_owned() + &own)?;
        if !self.topology.is_empty() {
            write("topology.jsonl".to_string(), lines(self.topology.iter().cloned()))?;
        }
        Ok(folder)
    }

    /// The rows that a run has left to go on from: of the newest record of the same suite, host, commit and arguments, if there is one. Its
    /// date becomes this record's. Cases with a wrong answer, or with nothing but what was unavailable, are not among them.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub fn begun(&mut self, records: &Path) -> Result<Option<Vec<Row>>, BenchError> {
        let ours = folder(Path::new(""), "", &self.host).display().to_string();
        let dated = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(&ours).map(str::to_owned)
        };
        let Ok(entries) = std::fs::read_dir(records) else {
            return Ok(None);
        };
        let mut dates: Vec<String> = entries.filter_map(Result::ok).filter_map(dated).collect();
        dates.sort_unstable();
        for date in dates.into_iter().rev() {
            let folder = folder(records, &date, &self.host);
            let facts = std::fs::read_to_string(folder.join(format!("{}.run", self.suite)));
            if !facts.is_ok_and(|facts| self.goes_on(&facts)) {
                continue;
            }
            self.date = date;
            let file = folder.join(format!("{}.jsonl", self.suite));
            let recorded = file::read(&file)?;
            if let Some(line) = recorded.cut_off {
                let file = file.display();
                return Err(BenchError::BadArgument(format!(
                    "line {line} of {file} ends before its row does: remove its case from the file, or leave out --resume"
                )));
            }
            let mut rows = recorded.rows;
            let cases = |of: fn(&Row) -> bool| -> BTreeSet<String> {
                let rows = rows.iter().filter(|row| of(row));
                rows.map(|row| row.case.clone()).collect()
            };
            let had = cases(|row| row.label != Label::Unavailable);
            let wrong = cases(|row| row.answer_ok == Some(false));
            rows.retain(|row| had.contains(&row.case) && !wrong.contains(&row.case));
            return Ok(Some(rows));
        }
        Ok(None)
    }

    /// Whether the last run of these facts was this one.
    fn goes_on(&self, facts: &str) -> bool {
        let last = |key: &str| {
            let mut lines = facts.lines().rev();
            lines
                .find_map(|line| line.strip_prefix(key))
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let settings = |line: &str| -> Vec<String> {
            let mut words = line.split(' ');
            let mut settings = Vec::new();
            while let Some(word) = words.next() {
                match word.split('=').next().unwrap_or_default() {
                    "--case" | "--report" | "--out" | "--record" => {
                        if !word.contains('=') {
                            words.next();
                        }
                    }
                    "--resume" | "--json" => {}
                    _ => settings.push(word.to_owned()),
                }
            }
            settings
        };
        let ours: Vec<&str> = self.arguments.iter().map(|argument| name(argument)).collect();
        last("commit:") == self.commit && settings(&last("arguments:")) == settings(&ours.join(" "))
    }

    fn facts(&self) -> String {
        lines([
            format!("suite: {}", self.suite),
            format!("date: {}", self.date),
            format!("host: {}", self.host),
            format!("commit: {}", self.commit),
            format!(
                "arguments: {}",
                self.arguments
                    .iter()
                    .map(|argument| name(argument))
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
        ])
    }
}

/// What stays of the record before: rows of cases that did not run again, and the facts of their runs.
fn kept(rows_before: &str, facts_before: &str, rows: &[Row]) -> (Vec<String>, String) {
    let ran: BTreeSet<&str> = rows.iter().map(|row| row.case.as_str()).collect();
    let stays = |line: &&str| {
        let row: Value = serde_json::from_str(line).unwrap_or_default();
        row["case"].as_str().is_some_and(|case| !ran.contains(case))
    };
    let kept: Vec<String> = rows_before.lines().filter(stays).map(str::to_string).collect();
    let facts = if kept.is_empty() { "" } else { facts_before };
    (kept, facts.to_string())
}

/// An argument as it is published: of the path of a file of this machine only the name.
fn name(argument: &str) -> &str {
    match argument.rsplit_once('/') {
        Some((_, name)) if argument.starts_with('/') => name,
        _ => argument,
    }
}

fn lines(lines: impl IntoIterator<Item = String>) -> String {
    lines
        .into_iter()
        .fold(String::new(), |text, line| text + &line + "\n")
}

/// The rows as CSV: the fixed columns, then every parameter any row has, by name.
fn csv(rows: &[Value]) -> String {
    let fixed = [
        "suite",
        "case",
        "metric",
        "unit",
        "n",
        "min",
        "median",
        "max",
        "answer_ok",
        "label",
        "versus",
    ];
    let keys = rows
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|row| row.keys());
    let parameters: BTreeSet<&str> = keys
        .map(String::as_str)
        .filter(|key| !fixed.contains(key))
        .collect();
    let mut text = fixed
        .into_iter()
        .chain(parameters.iter().copied())
        .collect::<Vec<_>>()
        .join(",")
        + "\n";
    for row in rows {
        let cells = fixed
            .into_iter()
            .chain(parameters.iter().copied())
            .map(|key| match &row[key] {
                Value::Null => String::new(),
                Value::String(text) => quoted(text),
                other => other.to_string(),
            });
        text += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

/// A CSV field, quoted where RFC 4180 asks for it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    fn values(rows: &[Row]) -> Vec<Value> {
        let value = |row| serde_json::to_value(row).expect("a row");
        rows.iter().map(value).collect()
    }

    fn rows() -> Vec<Row> {
        let spread = Spread::of(&[1.0, 2.0, 4.0]).expect("three values");
        vec![
            Row::measured("join", "a", "ratio", "x", spread, true)
                .versus("duckdb")
                .with("threads", 2usize),
            Row::unavailable("join", "b", "ratio", "x", "no \"duckdb\", sorry").with("engine", "duckdb"),
        ]
    }

    #[test]
    fn csv_has_a_column_for_every_key_and_empty_cells_for_missing_ones() {
        assert_eq!(
            csv(&values(&rows())),
            "suite,case,metric,unit,n,min,median,max,answer_ok,label,versus,engine,reason,threads\n\
             join,a,ratio,x,3,1.0,2.0,4.0,true,measured,duckdb,,,2\n\
             join,b,ratio,x,0,,,,,unavailable,,duckdb,\"no \"\"duckdb\"\", sorry\",\n"
        );
    }

    #[test]
    fn a_record_is_a_folder_of_plain_files() {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let record = Record {
            suite: "join".to_string(),
            date: "2026-01-31".to_string(),
            host: "some host/1".to_string(),
            commit: "abc".to_string(),
            arguments: ["bench", "join", "--before", "/opt/before/corun"]
                .map(str::to_string)
                .to_vec(),
            topology: vec!["{}".to_string()],
        };
        let folder = record.write(scratch.path(), &rows()).expect("written");
        assert!(folder.ends_with("2026-01-31-some_host_1"));
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
        assert_eq!(read("join.csv"), csv(&values(&rows())));
        assert_eq!(read("join.jsonl").lines().count(), 2);
        assert_eq!(read("topology.jsonl"), "{}\n");
        assert!(read("join.run").contains("commit: abc\narguments: bench join --before corun\n"));
        // The second case once more: the first stays.
        let later = Record {
            commit: "def".to_string(),
            ..record.clone()
        };
        let again = [rows().remove(1).with("again", true)];
        later.write(scratch.path(), &again).expect("written");
        let cases = read("join.jsonl");
        let of = |case: &str| {
            cases
                .lines()
                .filter(|line| line.contains(&format!("\"case\":\"{case}\"")))
                .count()
        };
        assert_eq!(
            (of("a"), of("b"), cases.matches("again").count()),
            (1, 1, 1),
            "{cases}"
        );
        assert_eq!(read("join.run").matches("suite: join").count(), 2);
        later.write(scratch.path(), &again).expect("written");
        assert_eq!(read("join.run").matches("suite: join").count(), 2);
        // All cases once more: nothing is left of before.
        record.write(scratch.path(), &rows()).expect("written");
        assert_eq!(read("join.run").matches("suite: join").count(), 1);
    }

    #[test]
    fn dates_of_known_seconds() {
        let dates = [0, 951_782_400, 1_709_164_800, 4_107_542_399].map(civil_date);
        assert_eq!(dates, ["1970-01-01", "2000-02-29", "2024-02-29", "2100-02-28"]);
    }
}
