//! [`Queries`]: which shapes of statements cost the most time, for `SHOW QUERIES` and `corun proxy learn` (paper 004, section 3.2: what
//! takes long and comes often is what to split).
//!
//! A server remembers what it runs ([`Running`]); when the answer has come, whatever took longer than [`SLOW`] is counted. What is
//! faster is not counted here.
//!
//! What it is not: `SHOW STATS`, which counts all statements, by database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::QueryRow;
use crate::core::console::ask::Part;
use crate::core::console::statistics::micros;
use crate::understand::{Shape, Understood};

/// Statements up to this time are not counted: nobody splits them, and they are too many to be looked up.
pub(in crate::core) const SLOW: Duration = Duration::from_micros(500);
/// Shapes an event loop remembers.
const SHAPES_MAX: usize = 512;
/// Of these, how many make room at once: those with the least time, which are found by looking at all.
const ROOM: usize = 64;
/// Bytes of a text that are kept. A longer one ends with dots.
const TEXT_BYTES_MAX: usize = 4096;

/// What a server runs for a client.
#[derive(Debug, Default)]
pub(in crate::core) enum Running {
    /// Nothing that is known.
    #[default]
    Nothing,
    /// One statement.
    One(Arc<Understood>),
    /// More than one, so that nobody knows whose time it is.
    Several,
}

impl Running {
    /// A statement goes to the server. `alone`: nothing is under way.
    pub fn begins(&mut self, understood: &Arc<Understood>, alone: bool) {
        *self = match self {
            Self::Nothing if alone => Self::One(Arc::clone(understood)),
            _ => Self::Several,
        };
    }

    /// The answer has come. What it was of, if that is known.
    pub fn ends(&mut self, queries: u32) -> Option<Arc<Understood>> {
        match std::mem::take(self) {
            Self::One(understood) if queries == 1 => Some(understood),
            _ => None,
        }
    }
}

/// Shapes of one event loop.
#[derive(Debug, Default)]
pub(in crate::core) struct Queries {
    seen: HashMap<(Arc<str>, Shape), Entry>,
}

#[derive(Debug)]
struct Entry {
    text: Box<str>,
    count: u64,
    time: Duration,
}

impl Queries {
    /// Counts a statement that took longer than [`SLOW`]. Texts that hold anything but statements on data are left out: passwords may
    /// stand in them.
    pub fn record(&mut self, database: &Arc<str>, understood: &Understood, took: Duration) {
        let Some(text) = understood
            .normalised
            .as_deref()
            .filter(|_| understood.shape != Shape::UNKNOWN)
        else {
            return;
        };
        let key = (Arc::clone(database), understood.shape);
        if let Some(entry) = self.seen.get_mut(&key) {
            entry.count += 1;
            entry.time += took;
            return;
        }
        if self.seen.len() >= SHAPES_MAX {
            self.make_room();
        }
        let entry = Entry {
            text: shortened(text).into(),
            count: 1,
            time: took,
        };
        self.seen.insert(key, entry);
    }

    fn make_room(&mut self) {
        let mut times: Vec<Duration> = self.seen.values().map(|entry| entry.time).collect();
        let (_, &mut limit, _) = times.select_nth_unstable(ROOM - 1);
        let mut left = ROOM;
        self.seen.retain(|_, entry| {
            let goes = left > 0 && entry.time <= limit;
            left -= usize::from(goes);
            !goes
        });
    }

    /// What `SHOW QUERIES` tells of this loop.
    pub fn rows(&self) -> Vec<QueryRow> {
        let row = |((database, shape), entry): (&(Arc<str>, Shape), &Entry)| QueryRow {
            database: database.to_string(),
            shape: format!("{:016x}", shape.0),
            query_count: entry.count,
            total_us: micros(entry.time),
            mean_us: micros(entry.time) / entry.count.max(1),
            query: entry.text.to_string(),
        };
        self.seen.iter().map(row).collect()
    }
}

/// All loops together, what took most time first.
pub(in crate::core) fn rows(parts: &[Part]) -> Vec<QueryRow> {
    let mut all: HashMap<(&str, &str), QueryRow> = HashMap::new();
    for row in parts.iter().flat_map(|part| &part.queries) {
        match all.get_mut(&(row.database.as_str(), row.shape.as_str())) {
            Some(sum) => {
                sum.query_count += row.query_count;
                sum.total_us += row.total_us;
                sum.mean_us = sum.total_us / sum.query_count.max(1);
            }
            None => drop(all.insert((&row.database, &row.shape), row.clone())),
        }
    }
    let mut rows: Vec<QueryRow> = all.into_values().collect();
    rows.sort_by(|a, b| {
        b.total_us
            .cmp(&a.total_us)
            .then_with(|| (&a.database, &a.shape).cmp(&(&b.database, &b.shape)))
    });
    rows
}

/// The beginning of a text, on one line.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let dots = if end < text.len() { "..." } else { "" };
    format!("{}{dots}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::understand::{Limits, Understanding};

    fn understood(text: &str) -> Arc<Understood> {
        Understanding::new(Limits::default()).of(text.as_bytes())
    }

    const LONG: Duration = Duration::from_millis(2);

    #[test]
    fn shapes_are_counted_without_their_literals() {
        let mut queries = Queries::default();
        let database: Arc<str> = "shop".into();
        for text in [
            "select a from t where b = 1",
            "select a from t where b = 22",
            "create user u password 'secret'",
        ] {
            queries.record(&database, &understood(text), LONG);
        }
        let rows = queries.rows();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0].query, "select a from t where b = $1");
        assert_eq!(
            (rows[0].query_count, rows[0].total_us, rows[0].mean_us),
            (2, 4000, 2000)
        );
        let part = |queries: &Queries| Part {
            queries: queries.rows(),
            ..Part::default()
        };
        let mut more = Queries::default();
        more.record(&database, &understood("select a from t where b = 3"), LONG);
        more.record(&database, &understood("select c from t"), 9 * LONG);
        let all = rows_of(&[part(&queries), part(&more)]);
        assert_eq!(
            all,
            [
                ("select c from t".to_owned(), 1),
                ("select a from t where b = $1".to_owned(), 3)
            ]
        );
    }

    fn rows_of(parts: &[Part]) -> Vec<(String, u64)> {
        rows(parts)
            .into_iter()
            .map(|row| (row.query, row.query_count))
            .collect()
    }

    #[test]
    fn those_with_the_least_time_make_room() {
        let mut queries = Queries::default();
        let database: Arc<str> = "shop".into();
        for number in 0..2 * SHAPES_MAX {
            let text = format!("select a{number} from t");
            queries.record(
                &database,
                &understood(&text),
                Duration::from_millis(number as u64 + 1),
            );
            assert!(queries.seen.len() <= SHAPES_MAX);
        }
        let rows = queries.rows();
        assert!(
            rows.iter()
                .any(|row| row.query == format!("select a{} from t", 2 * SHAPES_MAX - 1))
        );
        assert!(!rows.iter().any(|row| row.query == "select a0 from t"));
    }

    #[test]
    fn time_that_may_be_of_several_is_nobodys() {
        let query = understood("select 1");
        let mut running = Running::default();
        assert!(running.ends(1).is_none());
        running.begins(&query, true);
        assert!(running.ends(1).is_some());
        running.begins(&query, true);
        running.begins(&query, true);
        assert!(running.ends(1).is_none());
        running.begins(&query, false);
        assert!(running.ends(1).is_none());
        running.begins(&query, true);
        assert!(running.ends(2).is_none());
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(shortened("select 1"), "select 1");
        let cut = shortened(&format!("x{}", "ä".repeat(TEXT_BYTES_MAX)));
        assert!(cut.ends_with("ä...") && cut.len() <= TEXT_BYTES_MAX + 3);
    }
}
