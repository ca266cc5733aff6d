//! [`Copies`]: a server and two streaming copies of it, whose memory can be limited so that each holds half of the data.
//!
//! ```text
//!                 proxy            reads only
//!               /   |   \
//!        primary  copy a  copy b   each copy with all that it reads and writes in a control group of its own, from its first file on:
//!         (all)   (half)  (half)   the page cache a server fills counts where it was filled
//! ```
//!
//! By hand this gave 3.4 times the throughput where each copy was asked for one half, with a table of 300 MB in groups of 230 MB.

use std::time::{Duration, Instant};

use super::cgroup::{Group, Groups};
use super::configuration::Layout;
use super::disk::Throttle;
use super::points::Table;
use crate::fixture::PgFixture;
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::cluster::{Cluster, Profile};
use crate::fixture::failed;
use lab_core::error::BenchError;

/// Rows of the table, about 300 MB.
const ROWS: usize = 2_000_000;
/// Of the data's bytes, what a copy may have besides what its processes have of their own: half of it, and a tenth of that.
const LIMIT: f64 = 0.55;
/// No server starts with less.
const LIMIT_MIN: u64 = 96 << 20;
/// Longest wait for a copy to have all rows.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(120);

/// The servers. They end before the groups they are in.
pub struct Copies {
    primary: Cluster,
    copies: Vec<Cluster>,
    groups: Vec<Group>,
    limits: Result<Groups, String>,
    /// The table in all of them.
    pub table: Table,
    /// Its bytes.
    pub bytes: u64,
}

/// Small buffers, so that the page cache is what holds the data, and few connections, whose slots take memory too.
const SETTINGS: &[(&str, &str)] = &[
    ("wal_level", "replica"),
    ("max_wal_senders", "10"),
    ("shared_buffers", "16MB"),
    ("max_connections", "100"),
];

impl Copies {
    /// Starts the servers and waits until the copies have everything.
    ///
    /// # Errors
    /// When a server does not start. Where memory cannot be limited, that is kept.
    pub fn start(fixture: &PgFixture, factor: f64, quick: bool) -> Result<Copies, BenchError> {
        let rows = if quick {
            20_000
        } else {
            (ROWS as f64 * factor) as usize
        };
        let table = Table {
            name: "points",
            rows: rows.max(1_000),
        };
        let primary = fixture.cluster("primary", &Profile::with(SETTINGS))?;
        table.fill(&primary.address)?;
        let bytes = table.bytes(&primary.address)?;
        let limits = Groups::find(&fixture.folder("groups")?);
        let (mut groups, mut copies) = (Vec::new(), Vec::new());
        for name in ["copy-a", "copy-b"] {
            let group = match &limits {
                Ok(limits) => Some(limits.group(name)?),
                Err(_) => None,
            };
            let profile = Profile {
                settings: SETTINGS,
                group: group.as_ref().map(Group::procs),
                copy_of: Some(&primary.address),
            };
            let copy = fixture.cluster(name, &profile);
            // Kept before the result is looked at: a group is removed after the processes in it have ended.
            groups.extend(group);
            let copy = copy?;
            caught_up(&copy.address, &table)?;
            copies.push(copy);
        }
        Ok(Copies {
            primary,
            copies,
            groups,
            limits,
            table,
            bytes,
        })
    }

    /// The server that is copied.
    pub fn primary(&self) -> &Address {
        &self.primary.address
    }

    /// What a proxy is told.
    pub fn layout(&self) -> Layout {
        Layout {
            copies: self.copies.iter().map(|copy| copy.address.clone()).collect(),
            ..Layout::of(self.primary(), "points", &["points.id"], self.table.rows as i64)
        }
    }

    /// Limits each copy's memory so that half of the data fits beside what its processes have of their own by now; the largest limit, in bytes.
    ///
    /// # Errors
    /// A sentence that says why that is not possible here.
    pub fn halve(&self) -> Result<u64, String> {
        self.limits.as_ref().map_err(Clone::clone)?;
        let mut largest = 0;
        for group in &self.groups {
            let limited = group.own_bytes().and_then(|own| {
                let limit = (own + (self.bytes as f64 * LIMIT) as u64).max(LIMIT_MIN);
                largest = largest.max(limit);
                group.limit(Some(limit))
            });
            limited.map_err(|error| error.in_one_line())?;
        }
        Ok(largest)
    }

    /// Lets each copy read only so many times a second from its disk, as long as what is returned lives.
    ///
    /// # Errors
    /// A sentence that says why that is not possible here.
    pub fn throttle(&self, reads_per_s: u64) -> Result<Vec<Throttle>, String> {
        let of = |(group, copy): (&Group, &Cluster)| {
            Throttle::new(group.folder(), &copy.address.folder, reads_per_s)
        };
        self.groups.iter().zip(&self.copies).map(of).collect()
    }

    /// Lets each copy have what it wants.
    pub fn free(&self) -> Result<(), BenchError> {
        self.groups.iter().try_for_each(|group| group.limit(None))
    }
}

/// Waits until a copy has all rows of a table.
fn caught_up(copy: &Address, table: &Table) -> Result<(), BenchError> {
    let end = Instant::now() + CAUGHT_UP_WITHIN;
    let count = format!("select count(*) from {}", table.name);
    loop {
        let found = Client::connect(copy, super::PATIENCE).and_then(|mut client| client.numbers(&count));
        if found.as_ref().is_ok_and(|found| found[0] == table.rows as i64) {
            return Ok(());
        }
        if Instant::now() >= end {
            return found.and_then(|found| {
                let what = format!("a copy has {} of {} rows", found[0], table.rows);
                Err(failed("postgres", what))
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
