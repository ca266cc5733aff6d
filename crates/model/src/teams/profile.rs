//! [`CtxProfile`]: which CTX points a program turns on, as a text file that `corun-lab autosteps` writes and a program reads at start-up.
//!
//! ```text
//! corun-ctx-profile 1
//! l1i 32k/8/64                                       for which instruction cache the points were chosen
//! knee 200,4                                         and by which knee
//! site crates/exec/src/shared_csb/descend.rs:95:13   a CTX point compiled in, by its place in the source
//! entry sqlite3VdbeExec                              a function whose entry is a point, in programs without points of their own
//! ```
//!
//! Empty lines and lines that begin with `#` say nothing. Not here: the points themselves.

use std::fmt;
use std::str::FromStr;

/// The first line of a profile.
const HEAD: &str = "corun-ctx-profile 1";

/// Size and shape of a level-one instruction cache. Shown and read as `32k/8/64`: bytes, ways, bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct L1i {
    /// Capacity.
    pub bytes: u32,
    /// Associativity; as many ways as lines: fully associative.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
}

/// When a run of evictions is worth a CTX point (paper 003, section 5.2). Shown and read as `200,4`: width, height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Knee {
    /// Evictions farther apart than so many instructions are not of one knee.
    pub width: u64,
    /// So many evictions of a knee ask for a point.
    pub height: u32,
}

impl Default for Knee {
    /// The paper's: 200 instructions, 4 evictions.
    fn default() -> Self {
        Knee {
            width: 200,
            height: 4,
        }
    }
}

/// A CTX point by its place in the source. Shown and read as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CtxSite {
    /// As the compiler names it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

/// Which CTX points are on, and what they were chosen for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtxProfile {
    /// The instruction cache.
    pub l1i: L1i,
    /// The knee.
    pub knee: Knee,
    /// Points compiled into the program.
    pub sites: Vec<CtxSite>,
    /// Functions whose entries are points, by symbol.
    pub entries: Vec<String>,
}

/// Text that is no profile, geometry, knee or site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The first line is another one.
    #[error("not a CTX profile: it begins with {found:?}, not with {HEAD:?}")]
    Head {
        /// The first line.
        found: String,
    },
    /// A line that cannot be read.
    #[error("line {line} of the CTX profile: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// A line every profile has is missing.
    #[error("the CTX profile has no line {0:?}")]
    Missing(&'static str),
    /// No cache.
    #[error("{text:?} is no instruction cache: {reason}; write size, ways and line bytes as 32k/8/64")]
    L1i {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No knee.
    #[error("{0:?} is no knee: write width (instructions) and height (evictions, at least 1) as 200,4")]
    Knee(String),
    /// No place.
    #[error("{0:?} is no place in a source file: write file:line:column")]
    Site(String),
}

impl fmt::Display for L1i {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes.is_multiple_of(1024) {
            write!(f, "{}k", self.bytes / 1024)?;
        } else {
            write!(f, "{}", self.bytes)?;
        }
        write!(f, "/{}/{}", self.ways, self.line_bytes)
    }
}

impl FromStr for L1i {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let error = |reason| ProfileError::L1i {
            text: text.to_owned(),
            reason,
        };
        let parts: Vec<&str> = text.split('/').collect();
        let &[size, ways, line_bytes] = &parts[..] else {
            return Err(error("it has not three parts"));
        };
        let (digits, unit) = match size.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1024),
            None => (size, 1),
        };
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|&number| number > 0);
        let bytes = number(digits).and_then(|number| number.checked_mul(unit));
        let bytes = bytes.ok_or_else(|| error("its size is no positive number of bytes"))?;
        let ways = number(ways).ok_or_else(|| error("its ways are no positive number"))?;
        let line_bytes = number(line_bytes).filter(|bytes| bytes.is_power_of_two() && *bytes >= 8);
        let line_bytes =
            line_bytes.ok_or_else(|| error("its line is no power of two of at least 8 bytes"))?;
        let set = u64::from(ways) * u64::from(line_bytes);
        if !u64::from(bytes).is_multiple_of(set) {
            return Err(error("its size is no whole number of sets"));
        }
        Ok(L1i {
            bytes,
            ways,
            line_bytes,
        })
    }
}

impl fmt::Display for Knee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.width, self.height)
    }
}

impl FromStr for Knee {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let parts = text.split_once(',');
        let knee = parts.and_then(|(width, height)| {
            Some(Knee {
                width: width.trim().parse().ok()?,
                height: height.trim().parse().ok().filter(|&height| height > 0)?,
            })
        });
        knee.ok_or_else(|| ProfileError::Knee(text.to_owned()))
    }
}

impl fmt::Display for CtxSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl FromStr for CtxSite {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        // From the end: a file's name may hold a colon.
        let mut parts = text.rsplitn(3, ':');
        let mut number = || parts.next()?.parse().ok().filter(|&number: &u32| number > 0);
        let (column, line) = (number(), number());
        match (parts.next(), line, column) {
            (Some(file), Some(line), Some(column)) if !file.is_empty() => Ok(CtxSite {
                file: file.to_owned(),
                line,
                column,
            }),
            _ => Err(ProfileError::Site(text.to_owned())),
        }
    }
}

impl fmt::Display for CtxProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        writeln!(f, "l1i {}", self.l1i)?;
        writeln!(f, "knee {}", self.knee)?;
        for site in &self.sites {
            writeln!(f, "site {site}")?;
        }
        for entry in &self.entries {
            writeln!(f, "entry {entry}")?;
        }
        Ok(())
    }
}

impl FromStr for CtxProfile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let numbered = text.lines().map(str::trim).zip(1..);
        let mut lines = numbered.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let head = lines.next().map_or("", |(line, _)| line);
        if head != HEAD {
            return Err(ProfileError::Head {
                found: head.chars().take(80).collect(),
            });
        }
        let (mut l1i, mut knee) = (None, None);
        let (mut sites, mut entries) = (Vec::new(), Vec::new());
        for (content, line) in lines {
            let wrong = |reason: String| ProfileError::Line { line, reason };
            let (word, value) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
            let value = value.trim();
            let read = |error: ProfileError| wrong(error.to_string());
            match word {
                "l1i" | "knee" if (word == "l1i" && l1i.is_some()) || (word == "knee" && knee.is_some()) => {
                    return Err(wrong(format!("{word} is there twice")));
                }
                "l1i" => l1i = Some(value.parse().map_err(read)?),
                "knee" => knee = Some(value.parse().map_err(read)?),
                "site" => sites.push(value.parse().map_err(read)?),
                "entry" if !value.is_empty() => entries.push(value.to_owned()),
                "entry" => return Err(wrong("entry without the name of a function".to_owned())),
                _ => {
                    return Err(wrong(format!(
                        "{word:?} is unknown; known are l1i, knee, site and entry"
                    )));
                }
            }
        }
        Ok(CtxProfile {
            l1i: l1i.ok_or(ProfileError::Missing("l1i"))?,
            knee: knee.ok_or(ProfileError::Missing("knee"))?,
            sites,
            entries,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const L1I: L1i = L1i {
        bytes: 32 << 10,
        ways: 8,
        line_bytes: 64,
    };

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let profile = CtxProfile {
            l1i: L1I,
            knee: Knee::default(),
            sites: vec!["crates/exec/src/a:b.rs:95:13".parse().unwrap()],
            entries: vec!["sqlite3VdbeExec".to_owned(), "std::f<a b>".to_owned()],
        };
        assert_eq!(profile.sites[0].file, "crates/exec/src/a:b.rs");
        let text = profile.to_string();
        assert_eq!(text.parse(), Ok(profile.clone()));
        let commented = text.replace("knee", "# why\n\n  knee");
        assert_eq!(commented.parse(), Ok(profile));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let cases = [
            ("", "not a CTX profile: it begins with \"\""),
            ("corun-ctx-profile 2\n", "begins with \"corun-ctx-profile 2\""),
            ("corun-ctx-profile 1\nknee 1,1", "has no line \"l1i\""),
            ("corun-ctx-profile 1\nl1i 1k/1/64", "has no line \"knee\""),
            (
                "corun-ctx-profile 1\n\nl1i 32k/8",
                "line 3 of the CTX profile: \"32k/8\" is no instruction cache",
            ),
            (
                "corun-ctx-profile 1\nknee 1,1\nknee 1,1",
                "line 3 of the CTX profile: knee is there twice",
            ),
            ("corun-ctx-profile 1\nknee 200,0", "\"200,0\" is no knee"),
            (
                "corun-ctx-profile 1\nsite a.rs:0:1",
                "\"a.rs:0:1\" is no place in a source file",
            ),
            ("corun-ctx-profile 1\nentry", "entry without the name"),
            ("corun-ctx-profile 1\npoint x", "\"point\" is unknown"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<CtxProfile>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn caches_are_checked() {
        assert_eq!("32k/8/64".parse(), Ok(L1I));
        assert_eq!(L1I.to_string(), "32k/8/64");
        assert_eq!("1536/3/64".parse::<L1i>().unwrap().to_string(), "1536/3/64");
        for (text, expected) in [
            ("32k/8/64/1", "three parts"),
            ("x/8/64", "size is no positive number"),
            ("4194304k/8/64", "size is no positive number"),
            ("32k/0/64", "ways are no positive number"),
            ("32k/8/48", "power of two"),
            ("32k/7/64", "whole number of sets"),
        ] {
            let error = text.parse::<L1i>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
