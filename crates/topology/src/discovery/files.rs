//! Reading small kernel files below a root folder, where absent is normal and unreadable is worth a word.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use corun_model::cpulist;
use corun_model::units::{Bytes, CpuId};

/// Kernel files below `root`, with the problems met on the way.
pub(super) struct Files {
    root: PathBuf,
    problems: RefCell<Vec<String>>,
}

impl Files {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            problems: RefCell::default(),
        }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The trimmed text of a file. `None` if there is none; any other failure becomes a problem.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        match fs::read(self.path(path)) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
            Err(error) => {
                self.problem(format!("/{}: {error}", path.trim_start_matches('/')));
                None
            }
        }
    }

    /// A file's text parsed; text that does not parse becomes a problem. Empty files count as absent.
    pub(super) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        let text = self.text(path).filter(|text| !text.is_empty())?;
        let value = text.parse().ok();
        if value.is_none() {
            self.problem(format!("/{path}: `{text}` is not what was expected"));
        }
        value
    }

    /// A CPU list file.
    pub(super) fn cpus(&self, path: &str) -> Option<Vec<CpuId>> {
        let text = self.text(path)?;
        match cpulist::parse(&text) {
            Ok(cpus) => Some(cpus),
            Err(error) => {
                self.problem(format!("/{path}: {error}"));
                None
            }
        }
    }

    /// A file with an amount such as `48K`, `260M` or plain bytes.
    pub(super) fn size(&self, path: &str) -> Option<Bytes> {
        let text = self.text(path).filter(|text| !text.is_empty())?;
        let size = parse_size(&text);
        if size.is_none() {
            self.problem(format!("/{path}: `{text}` is not a size"));
        }
        size
    }

    /// Names in a folder, sorted; empty if there is none.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = match fs::read_dir(self.path(path)) {
            Ok(entries) => entries,
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
                    self.problem(format!("/{path}: {error}"));
                }
                return Vec::new();
            }
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// Numbers of the entries called `prefix<number>`, ascending: `cpu0`, `cpu4` but not `cpufreq`.
    pub(super) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let mut numbers: Vec<u32> = self
            .names(path)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn problem(&self, problem: String) {
        let mut problems = self.problems.borrow_mut();
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    pub(super) fn into_problems(self) -> Vec<String> {
        self.problems.into_inner()
    }
}

fn parse_size(text: &str) -> Option<Bytes> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim() {
        "" | "B" => 0,
        "K" | "kB" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        _ => return None,
    };
    digits
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1 << shift)
        .map(Bytes)
}

/// The value of `key` in text of lines `key : value`.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim_end() == key).then(|| value.trim())
    })
}

/// An amount in a `/proc/meminfo` style line: `24684092 kB`.
pub(super) fn field_size(text: &str, key: &str) -> Option<Bytes> {
    parse_size(field(text, key)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_every_spelling() {
        let read = ["48K", "260M", "1G", "4096", "24684092 kB"].map(|text| parse_size(text).map(|b| b.0));
        assert_eq!(
            read,
            [49152, 272_629_760, 1 << 30, 4096, 25_276_510_208].map(Some)
        );
        assert_eq!([parse_size("x"), parse_size("4X"), parse_size("")], [None; 3]);
        assert_eq!(parse_size("99999999999999999G"), None);
    }

    #[test]
    fn fields_match_whole_keys() {
        let text = "cpu family\t: 6\ncpu\t: 1\nMemTotal:  12 kB\n";
        assert_eq!(field(text, "cpu"), Some("1"));
        assert_eq!(field(text, "cpu family"), Some("6"));
        assert_eq!(field_size(text, "MemTotal"), Some(Bytes(12288)));
        assert_eq!(field(text, "Mem"), None);
    }
}
