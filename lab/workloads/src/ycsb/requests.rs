//! [`Requests`]: the transactions one client asks for, one after the other.

use std::fmt;
use std::str::FromStr;

use super::database::Database;
use super::record::{self, FIELDS};
use super::zipf::Zipf;
use crate::random::{Random, mix};

/// The standard workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads of mostly new records, 5 % inserts.
    D,
    /// 95 % scans of 1 to 100 records, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 6] = [
        Workload::A,
        Workload::B,
        Workload::C,
        Workload::D,
        Workload::E,
        Workload::F,
    ];

    /// What most transactions are, their percentage, and what the others are.
    fn shares(self) -> (Kind, i64, Kind) {
        match self {
            Workload::A => (Kind::Read, 50, Kind::Update),
            Workload::B => (Kind::Read, 95, Kind::Update),
            Workload::C => (Kind::Read, 100, Kind::Read),
            Workload::D => (Kind::Read, 95, Kind::Insert),
            Workload::E => (Kind::Scan, 95, Kind::Insert),
            Workload::F => (Kind::Read, 50, Kind::ReadModifyWrite),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Workload::A => "a",
            Workload::B => "b",
            Workload::C => "c",
            Workload::D => "d",
            Workload::E => "e",
            Workload::F => "f",
        })
    }
}

/// A name that is no workload's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no YCSB workload is called `{0}`; there are a, b, c, d, e and f")]
pub struct UnknownWorkload(String);

impl FromStr for Workload {
    type Err = UnknownWorkload;

    fn from_str(name: &str) -> Result<Self, UnknownWorkload> {
        let found = Workload::ALL
            .into_iter()
            .find(|workload| workload.to_string().eq_ignore_ascii_case(name));
        found.ok_or_else(|| UnknownWorkload(name.to_owned()))
    }
}

/// Types of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads a record.
    Read,
    /// Replaces a field.
    Update,
    /// Inserts a record.
    Insert,
    /// Reads records in the order of keys.
    Scan,
    /// Reads a record and replaces a field by what follows from it.
    ReadModifyWrite,
}

impl Kind {
    /// All of them, each at its number.
    pub const ALL: [Kind; 5] = [
        Kind::Read,
        Kind::Update,
        Kind::Insert,
        Kind::Scan,
        Kind::ReadModifyWrite,
    ];

    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Update => "update",
            Kind::Insert => "insert",
            Kind::Scan => "scan",
            Kind::ReadModifyWrite => "read_modify_write",
        }
    }
}

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Reads the record of a key.
    Read {
        /// Which.
        key: u64,
    },
    /// Replaces a field.
    Update {
        /// Of which record.
        key: u64,
        /// Which field.
        field: usize,
        /// By its content at this version.
        version: u64,
    },
    /// Inserts a record.
    Insert {
        /// Its number, which nobody else inserts.
        number: u64,
        /// Its key.
        key: u64,
    },
    /// Reads records in the order of keys.
    Scan {
        /// From this key on.
        start: u64,
        /// At most so many.
        count: usize,
    },
    /// Increases the version of a field by one.
    ReadModifyWrite {
        /// Of which record.
        key: u64,
        /// Which field.
        field: usize,
    },
}

impl Input {
    /// Its type.
    pub fn kind(self) -> Kind {
        match self {
            Input::Read { .. } => Kind::Read,
            Input::Update { .. } => Kind::Update,
            Input::Insert { .. } => Kind::Insert,
            Input::Scan { .. } => Kind::Scan,
            Input::ReadModifyWrite { .. } => Kind::ReadModifyWrite,
        }
    }
}

/// What one client asks for. The same database, seed and client give the same requests, as long as nobody else inserts.
#[derive(Debug)]
pub struct Requests<'a> {
    database: &'a Database,
    workload: Workload,
    /// Over the loaded records; in workload D over those there are.
    zipf: Zipf,
    random: Random,
}

impl<'a> Requests<'a> {
    /// The requests of client number `client`.
    pub fn new(database: &'a Database, workload: Workload, seed: u64, client: usize) -> Self {
        Self {
            database,
            workload,
            zipf: database.zipf().clone(),
            random: Random::new(seed, client as u64),
        }
    }

    /// The next one.
    pub fn draw(&mut self) -> Input {
        let (most, percent, rest) = self.workload.shares();
        match if self.random.percent(percent) { most } else { rest } {
            Kind::Read => Input::Read { key: self.key() },
            Kind::Update => Input::Update {
                key: self.key(),
                field: self.field(),
                version: self.random.bits(),
            },
            Kind::Insert => {
                let number = self.database.take_number();
                Input::Insert {
                    number,
                    key: record::key(number),
                }
            }
            Kind::Scan => Input::Scan {
                start: self.key(),
                count: self.random.between(1, 100) as usize,
            },
            Kind::ReadModifyWrite => Input::ReadModifyWrite {
                key: self.key(),
                field: self.field(),
            },
        }
    }

    fn field(&mut self) -> usize {
        self.random.between(0, FIELDS as i64 - 1) as usize
    }

    /// The key of a record that is there. In workload D the newest are the most likely; otherwise the likely ones are anywhere.
    fn key(&mut self) -> u64 {
        let records = self.database.records();
        let unit = self.random.unit();
        let number = if self.workload == Workload::D {
            self.zipf.grow(records);
            records - 1 - self.zipf.rank(unit).min(records - 1)
        } else if self.database.is_even() {
            ((unit * records as f64) as u64).min(records - 1)
        } else {
            mix(!self.zipf.rank(unit)) % records
        };
        record::key(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const DRAWS: usize = 20_000;

    #[test]
    fn records_are_equally_likely_where_that_is_wanted() {
        let database = Database::evenly(100);
        let mut requests = Requests::new(&database, Workload::C, 1, 0);
        let mut counts = BTreeMap::new();
        for _ in 0..100_000 {
            let Input::Read { key } = requests.draw() else {
                panic!("workload C reads");
            };
            *counts.entry(key).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 100);
        // A thousand each, give or take six standard deviations.
        assert!(
            counts.values().all(|&count| (810..=1190).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn shares_are_the_standard_ones() {
        let expected: [(Workload, &[(Kind, usize)]); 6] = [
            (Workload::A, &[(Kind::Read, 50), (Kind::Update, 50)]),
            (Workload::B, &[(Kind::Read, 95), (Kind::Update, 5)]),
            (Workload::C, &[(Kind::Read, 100)]),
            (Workload::D, &[(Kind::Read, 95), (Kind::Insert, 5)]),
            (Workload::E, &[(Kind::Scan, 95), (Kind::Insert, 5)]),
            (Workload::F, &[(Kind::Read, 50), (Kind::ReadModifyWrite, 50)]),
        ];
        for (workload, shares) in expected {
            let database = Database::new(1000);
            let mut requests = Requests::new(&database, workload, 1, 0);
            let mut counts = BTreeMap::new();
            for _ in 0..DRAWS {
                *counts.entry(requests.draw().kind() as usize).or_insert(0) += 1;
            }
            assert_eq!(counts.len(), shares.len(), "workload {workload}");
            for &(kind, percent) in shares {
                let count: i64 = counts[&(kind as usize)];
                let expected = (DRAWS * percent / 100) as i64;
                // Five standard deviations of the widest share.
                assert!(
                    (count - expected).abs() < 354,
                    "workload {workload}, {kind:?}: {count}"
                );
            }
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
        assert!("g".parse::<Workload>().is_err());
    }

    #[test]
    fn requests_are_skewed_and_of_records_that_are_there() {
        let database = Database::new(1000);
        let keys: BTreeSet<u64> = (0..1000).map(record::key).collect();
        let mut requests = Requests::new(&database, Workload::C, 1, 0);
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for _ in 0..DRAWS {
            let Input::Read { key } = requests.draw() else {
                panic!("not a read")
            };
            assert!(keys.contains(&key));
            *counts.entry(key).or_default() += 1;
        }
        let hottest = counts.values().max().copied().unwrap_or(0);
        // 13 % go to the hottest of a thousand; evenly it would be 20.
        assert!(hottest > DRAWS / 10, "{hottest}");
        assert!(counts.len() > 500);
    }

    #[test]
    fn new_records_are_read_once_they_are_there() {
        let database = Database::new(100);
        let mut requests = Requests::new(&database, Workload::D, 1, 0);
        let mut inserted = Vec::new();
        for _ in 0..1000 {
            match requests.draw() {
                input @ Input::Insert { .. } => inserted.push(input),
                Input::Read { key } => assert!((0..100).any(|number| record::key(number) == key)),
                other => panic!("{other:?} in workload D"),
            }
        }
        // The later ones are noted first: only when the first is there too are they to be read.
        let (first, later) = inserted.split_first().unwrap();
        for &input in later {
            database.done(input);
        }
        assert_eq!(database.records(), 100);
        database.done(*first);
        assert_eq!(database.records(), 100 + inserted.len() as u64);
        let newest = record::key(database.records() - 1);
        assert!((0..100).any(|_| requests.draw() == Input::Read { key: newest }));
    }

    #[test]
    fn scans_are_of_all_lengths() {
        let database = Database::new(100);
        let mut requests = Requests::new(&database, Workload::E, 1, 0);
        let lengths: BTreeSet<usize> = (0..DRAWS)
            .filter_map(|_| match requests.draw() {
                Input::Scan { count, .. } => Some(count),
                _ => None,
            })
            .collect();
        assert!(lengths.into_iter().eq(1..=100));
    }
}
