//! [`Query`]: what runs on a simulated core, by name.
//!
//! ```text
//!   plq5:hash          PLQ_5 of paper 002, section 4.2.1, as a hash join over corun's join table
//!   plq5:chained       the same over the layout of 2009: buckets with chains of cells, and columns behind them
//!   plq25@4:hash       PLQ_25 with part from a database of 4 GB; without @, of 2 GB
//!   plq25:index        an index join: part outside, a CSB+-tree over lineorder inside
//!   scan               reads lineorder once and sums
//!   agg:64KiB          reads lineorder and adds up groups that take 64 KiB
//! ```
//!
//! PLQ_k joins the parts of k of 25 categories with lineorder. What a hash join's size means depends on the cache: its table takes
//! the same share of the simulated cache as the paper's took of its 4 MB.
//!
//! Not here: the accesses ([`super::operators`]).

use std::fmt;
use std::str::FromStr;

use corun_model::cache::locality::{Classifier, Footprint, Locality, Thresholds};
use corun_model::units::Bytes;

use super::error::SimError;

/// Categories of parts.
pub const CATEGORIES: u32 = 25;
/// Most queries of a mix: cores that share a cache.
pub const QUERIES_MAX: usize = 8;
/// Hash-table bytes of one category in a 2 GB database against the paper's cache: 9.28 MB for 25 of them (section 4.2.1), 4 MB.
const CATEGORY_SHARE: f64 = 9.28 / 25.0 / 4.0;
/// The database `CATEGORY_SHARE` is for, in GB.
const DATABASE_GB: f64 = 2.0;
/// Largest table against the cache. A larger one misses as often.
const SHARE_MAX: f64 = 16.0;
/// Smallest aggregation: a cache line.
const GROUPS_BYTES_MIN: u64 = 64;

/// How a join finds partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// In corun's join table.
    Hash,
    /// In buckets with chains.
    Chained,
    /// In an index.
    Index,
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Query {
    /// PLQ_k.
    Plq {
        /// Categories, 1 to 25.
        categories: u32,
        /// Size of the database the parts are from, in GB.
        gigabytes: f64,
        /// How.
        join: Join,
    },
    /// A scan with a sum.
    Scan,
    /// A scan with groups.
    Aggregate {
        /// Memory of the groups.
        groups: Bytes,
    },
}

impl Query {
    /// PLQ_k of a 2 GB database.
    pub const fn plq(categories: u32, join: Join) -> Query {
        Query::Plq {
            categories,
            gigabytes: DATABASE_GB,
            join,
        }
    }

    /// What it comes back to, in a cache of `llc` bytes. What is built is near it, see [`super::Lab`].
    pub fn footprint(&self, llc: Bytes) -> Footprint {
        match *self {
            Query::Plq {
                categories,
                gigabytes,
                join: Join::Hash | Join::Chained,
            } => {
                let share = CATEGORY_SHARE * f64::from(categories) * gigabytes / DATABASE_GB;
                Footprint::Tables(Bytes((share * llc.0 as f64) as u64))
            }
            Query::Aggregate { groups } => Footprint::Tables(groups),
            Query::Plq {
                join: Join::Index, ..
            }
            | Query::Scan => Footprint::Streams,
        }
    }

    /// Its class in a cache of `llc` bytes, by the paper's thresholds.
    ///
    /// # Errors
    /// [`SimError::Size`] for a cache of no bytes.
    pub fn locality(&self, llc: Bytes) -> Result<Locality, SimError> {
        let classifier = Classifier::new(llc, Thresholds::default()).map_err(|_| SimError::Size {
            given: llc.0,
            min: 1,
            max: u64::MAX,
        })?;
        Ok(classifier.locality(self.footprint(llc)))
    }

    /// Refuses a table that is too large for the cache to matter.
    pub(super) fn check(&self, llc: Bytes) -> Result<(), String> {
        let bytes = self.footprint(llc).bytes().0;
        let max = (SHARE_MAX * llc.0 as f64) as u64;
        if bytes > max {
            return Err(format!(
                "its table would take {bytes} bytes; at most {SHARE_MAX} times the shared cache, {max} bytes, are simulated"
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Query::Plq {
                categories,
                gigabytes,
                join,
            } => {
                write!(f, "plq{categories}")?;
                if *gigabytes != DATABASE_GB {
                    write!(f, "@{gigabytes}")?;
                }
                f.write_str(match join {
                    Join::Hash => ":hash",
                    Join::Chained => ":chained",
                    Join::Index => ":index",
                })
            }
            Query::Scan => f.write_str("scan"),
            Query::Aggregate { groups } if groups.0.is_multiple_of(1024) => {
                write!(f, "agg:{}KiB", groups.0 / 1024)
            }
            Query::Aggregate { groups } => write!(f, "agg:{}", groups.0),
        }
    }
}

impl FromStr for Query {
    type Err = String;

    fn from_str(text: &str) -> Result<Query, String> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        match (name, rest) {
            ("scan", None) => Ok(Query::Scan),
            ("scan", Some(_)) => Err("scan takes nothing after it".to_string()),
            ("agg", Some(size)) => {
                let groups = bytes(size)?;
                if groups < GROUPS_BYTES_MIN {
                    return Err(format!("groups take at least {GROUPS_BYTES_MIN} bytes"));
                }
                Ok(Query::Aggregate {
                    groups: Bytes(groups),
                })
            }
            ("agg", None) => Err("agg needs the size of its groups, such as agg:64KiB".to_string()),
            _ => plq(name, rest),
        }
    }
}

fn plq(name: &str, join: Option<&str>) -> Result<Query, String> {
    let Some(numbers) = name.strip_prefix("plq") else {
        return Err(format!("there is no query \"{name}\""));
    };
    let (categories, gigabytes) = match numbers.split_once('@') {
        Some((categories, gigabytes)) => (categories, Some(gigabytes)),
        None => (numbers, None),
    };
    let categories = categories
        .parse::<u32>()
        .ok()
        .filter(|count| (1..=CATEGORIES).contains(count))
        .ok_or_else(|| {
            format!("plq is followed by a number of categories, 1 to {CATEGORIES}, not \"{categories}\"")
        })?;
    let gigabytes = match gigabytes {
        None => DATABASE_GB,
        Some(text) => text
            .parse::<f64>()
            .ok()
            .filter(|size| size.is_finite() && *size > 0.0)
            .ok_or_else(|| format!("@ is followed by the size of a database in GB, not \"{text}\""))?,
    };
    let join = match join {
        Some("hash") => Join::Hash,
        Some("chained") => Join::Chained,
        Some("index") => Join::Index,
        Some(other) => return Err(format!("joins are hash, chained and index, not \"{other}\"")),
        None => return Err("a plq needs its join: hash, chained or index".to_string()),
    };
    Ok(Query::Plq {
        categories,
        gigabytes,
        join,
    })
}

/// `64KiB`, `2m`, `4096`: prefixes mean powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size such as 64KiB");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Reads a mix: queries with commas between them.
///
/// # Errors
/// [`SimError::Query`] names the first that is none, [`SimError::Queries`] how many there may be.
pub fn mix(text: &str) -> Result<Vec<Query>, SimError> {
    let texts: Vec<&str> = text.split(',').map(str::trim).collect();
    if texts.len() > QUERIES_MAX {
        return Err(SimError::Queries {
            given: texts.len(),
            most: QUERIES_MAX,
        });
    }
    let queries = texts.iter().enumerate().map(|(at, text)| {
        text.parse().map_err(|reason| SimError::Query {
            number: at + 1,
            text: (*text).to_string(),
            reason,
        })
    });
    queries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let text = "plq5:hash,plq25@4:chained,plq1:index,scan,agg:64KiB,agg:100";
        let queries = mix(text).expect("a mix");
        let names: Vec<String> = queries.iter().map(Query::to_string).collect();
        assert_eq!(names.join(","), text);
        assert_eq!(queries[0], Query::plq(5, Join::Hash));
        assert_eq!(
            mix("agg:64KiB").expect("a mix"),
            [Query::Aggregate {
                groups: Bytes::kib(64)
            }]
        );
    }

    #[test]
    fn what_is_no_query_is_named_with_its_place() {
        for (text, number, words) in [
            ("", 1, "no query"),
            ("scan,", 2, "no query"),
            ("plq0:hash", 1, "1 to 25"),
            ("plq26:hash", 1, "1 to 25"),
            ("plqx:hash", 1, "not \"x\""),
            ("plq5", 1, "needs its join"),
            ("scan,plq5:merge", 2, "not \"merge\""),
            ("plq5@0:hash", 1, "not \"0\""),
            ("plq5@inf:hash", 1, "not \"inf\""),
            ("agg", 1, "agg:64KiB"),
            ("agg:1", 1, "at least 64"),
            ("agg:much", 1, "\"much\""),
            ("agg:99999999999G", 1, "is not a size"),
            ("scan:2", 1, "nothing after it"),
        ] {
            match mix(text) {
                Err(SimError::Query {
                    number: at, reason, ..
                }) => {
                    assert_eq!(at, number, "{text}");
                    assert!(reason.contains(words), "{text}: {reason}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(
            mix(&["scan"; 9].join(",")),
            Err(SimError::Queries { given: 9, .. })
        ));
    }

    #[test]
    fn tables_and_classes_are_the_papers() {
        // Section 7.1 and 7.2, in MB with C = 4 MB.
        let paper = Bytes(4_000_000);
        for (text, megabytes, locality) in [
            ("plq1:hash", 0.392, Locality::Strong),
            ("plq2:hash", 0.78, Locality::Strong),
            ("plq5:hash", 1.86, Locality::Moderate),
            ("plq6:hash", 2.26, Locality::Moderate),
            ("plq11:hash", 4.10, Locality::Moderate),
            ("plq24:chained", 8.92, Locality::Moderate),
            ("plq25@4:chained", 18.6, Locality::Weak),
            ("plq25:index", 0.0, Locality::Weak),
            ("scan", 0.0, Locality::Weak),
            ("agg:100KiB", 0.1024, Locality::Strong),
        ] {
            let query: Query = text.parse().expect("a query");
            let table = query.footprint(paper).bytes().0 as f64 / 1e6;
            assert!((table - megabytes).abs() <= 0.06 * megabytes, "{text}: {table}");
            assert_eq!(query.locality(paper).expect("a cache"), locality, "{text}");
        }
    }

    #[test]
    fn tables_far_beyond_the_cache_are_refused() {
        let query: Query = "plq25@100:hash".parse().expect("a query");
        assert!(query.check(Bytes::mib(1)).is_err());
        let query: Query = "plq25@4:hash".parse().expect("a query");
        assert!(query.check(Bytes::mib(1)).is_ok());
    }
}
