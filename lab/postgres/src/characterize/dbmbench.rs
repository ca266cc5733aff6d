//! DBmbench's tables and queries (paper 001, section 3.2): rows for PostgreSQL and the embedded engine, and what each query must answer.
//!
//! Order of calls: [`Tables::new`], [`Tables::part`] for all parts (rows of T1) and [`Tables::keys`] (T2), [`Tables::summary`] for the answers,
//! [`Query::ALL`] for what is asked.
//!
//! T1 has 1,000,000 rows of about 100 bytes at its usual size: a1 is a key of T2, a2 one of 20,000 values, a3 one of 50, all drawn evenly.
//! T2 has 150,000 rows whose key a1 is shuffled.
//!
//! Not here: a server; how answers of a run are checked.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Rows of T1 at the usual size.
pub const ROWS: usize = 1_000_000;
/// Values of a2.
pub const A2: usize = 20_000;
/// Values of a3.
const A3: usize = 50;
/// What all rows are drawn from.
const SEED: u64 = 20_080_110;
/// Rows of T1 that are drawn from one seed.
const PART: usize = 50_000;
/// Bytes that fill a row of T1 up to about 100, and one of T2 likewise.
const FILLER: usize = 64;

/// A row of T1 without its filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct T1Row {
    /// A key of T2.
    pub a1: i32,
    /// 1 to [`A2`].
    pub a2: i32,
    /// 1 to 50.
    pub a3: i32,
}

/// The two tables at a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    rows: usize,
}

impl Tables {
    /// T1 of so many rows, at least 20,000, and T2 with 150 for each 1,000 of them.
    pub fn new(rows: usize) -> Tables {
        Tables { rows: rows.max(A2) }
    }

    /// Rows of T1.
    pub fn t1_rows(&self) -> usize {
        self.rows
    }

    /// Rows of T2.
    pub fn t2_rows(&self) -> usize {
        self.rows * 150 / 1_000
    }

    /// Parts that T1 is made in.
    pub fn parts(&self) -> usize {
        self.rows.div_ceil(PART)
    }

    /// The rows of a part of T1; equal arguments give equal rows.
    pub fn part(&self, part: usize) -> impl Iterator<Item = T1Row> + use<> {
        let mut random = StdRng::seed_from_u64(SEED + part as u64);
        let keys = self.t2_rows() as i32;
        let count = PART.min(self.rows.saturating_sub(part * PART));
        (0..count).map(move |_| T1Row {
            a1: random.random_range(1..=keys),
            a2: random.random_range(1..=A2 as i32),
            a3: random.random_range(1..=A3 as i32),
        })
    }

    /// The keys of T2 in the order of its rows: shuffled.
    pub fn keys(&self) -> Vec<i32> {
        let mut keys: Vec<i32> = (1..=self.t2_rows() as i32).collect();
        keys.shuffle(&mut StdRng::seed_from_u64(SEED - 1));
        keys
    }

    /// Lines of a part of T1 as `COPY` reads them.
    pub fn t1_lines(&self, part: usize) -> Vec<u8> {
        let filler = "x".repeat(FILLER);
        let line = |row: T1Row| format!("{}\t{}\t{}\t{filler}\n", row.a1, row.a2, row.a3);
        self.part(part).map(line).collect::<String>().into_bytes()
    }

    /// Lines of T2.
    pub fn t2_lines(&self) -> Vec<u8> {
        let filler = "y".repeat(FILLER);
        let line = |key: i32| format!("{key}\t{}\t{filler}\n", key % A2 as i32 + 1);
        self.keys().into_iter().map(line).collect::<String>().into_bytes()
    }

    /// What is needed to answer all queries.
    pub fn summary(&self) -> Summary {
        let mut by_a2 = vec![Of::default(); A2 + 2];
        for row in (0..self.parts()).flat_map(|part| self.part(part)) {
            let of = &mut by_a2[row.a2 as usize];
            of.count += 1;
            of.sum += row.a3 as u64;
            of.values |= 1 << row.a3;
        }
        Summary { by_a2 }
    }
}

/// The rows of T1 with one value of a2.
#[derive(Clone, Copy, Debug, Default)]
struct Of {
    count: u64,
    sum: u64,
    /// Bit n: there is a row with a3 = n.
    values: u64,
}

/// Counts and sums of T1 by a2.
#[derive(Clone, Debug)]
pub struct Summary {
    by_a2: Vec<Of>,
}

impl Summary {
    fn of(&self, low: usize, high: usize) -> Of {
        let all = self.by_a2.iter().take(high).skip(low + 1);
        all.fold(Of::default(), |sum, one| Of {
            count: sum.count + one.count,
            sum: sum.sum + one.sum,
            values: sum.values | one.values,
        })
    }

    /// Rows with `low < a2 < high`.
    pub fn count(&self, low: usize, high: usize) -> u64 {
        self.of(low, high).count
    }

    /// What a query stores for `low < a2 < high`: a number a row, in order.
    pub fn answer(&self, query: Query, low: usize, high: usize) -> Vec<f64> {
        let of = self.of(low, high);
        match query {
            // All of T1's keys are in T2, once each: the join keeps every row.
            Query::Utpcc | Query::Unj if of.count > 0 => vec![of.sum as f64 / of.count as f64],
            Query::Utpcc | Query::Unj => vec![f64::NAN],
            Query::Uss => (1..=A3 as u64)
                .filter(|value| of.values >> value & 1 == 1)
                .map(|value| value as f64)
                .collect(),
        }
    }
}

/// One of the three queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// An index scan with an average: the equivalent of TPC-C.
    Utpcc,
    /// A sequential scan with sort and unique: of TPC-H.
    Uss,
    /// A nested loop with an index scan and an average: of TPC-H.
    Unj,
}

impl Query {
    /// All three.
    pub const ALL: [Query; 3] = [Query::Utpcc, Query::Uss, Query::Unj];

    /// The name in rows and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Query::Utpcc => "utpcc",
            Query::Uss => "uss",
            Query::Unj => "unj",
        }
    }

    /// The query of this name.
    pub fn named(name: &str) -> Option<Query> {
        Query::ALL.into_iter().find(|query| query.name() == name)
    }

    /// Of a hundred rows of T1 that many are selected (section 3.2).
    pub fn selected_percent(self) -> f64 {
        100.0 * self.width() as f64 / A2 as f64
    }

    /// Values of a2 between the bounds.
    fn width(self) -> usize {
        match self {
            Query::Utpcc => A2 / 1_000,
            Query::Uss => A2 / 10,
            Query::Unj => A2 / 5,
        }
    }

    /// Every lower and upper bound that a run draws from; neither is selected itself. uSS begins at 9,999 as in the paper; uTPC-C takes other
    /// rows each time, as transactions do.
    pub fn bounds(self) -> Vec<(usize, usize)> {
        let of = |low: usize| (low, low + self.width() + 1);
        match self {
            Query::Utpcc => (0..A2 / self.width())
                .map(|step| of(step * self.width()))
                .collect(),
            Query::Uss | Query::Unj => vec![of(9_999)],
        }
    }

    /// The query that is stored, `:lo` and `:hi` being the bounds; table and result are looked up by the search path.
    pub fn select(self) -> &'static str {
        match self {
            Query::Utpcc => "select avg(a3) from t1 where :lo < a2 and a2 < :hi",
            Query::Uss => "select distinct a3 from t1 where :lo < a2 and a2 < :hi order by a3",
            Query::Unj => "select avg(t1.a3) from t1, t2 where t1.a1 = t2.a1 and :lo < t1.a2 and t1.a2 < :hi",
        }
    }

    /// The query with these bounds.
    pub fn select_between(self, (low, high): (usize, usize)) -> String {
        self.select()
            .replace(":lo", &low.to_string())
            .replace(":hi", &high.to_string())
    }

    /// The script of `pgbench` that stores the answer.
    pub fn script(self) -> String {
        let width = self.width();
        let bounds = match self.bounds().as_slice() {
            [(low, high)] => format!("\\set lo {low}\n\\set hi {high}\n"),
            several => format!(
                "\\set lo {width} * random(0, {})\n\\set hi :lo + {}\n",
                several.len() - 1,
                width + 1
            ),
        };
        format!("{bounds}insert into result {};\n", self.select())
    }

    /// Settings that leave PostgreSQL only the operators of the paper's plan (Figs. 1 and 2).
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Query::Utpcc => &[
                ("enable_seqscan", "off"),
                ("enable_indexscan", "off"),
                ("enable_indexonlyscan", "off"),
            ],
            Query::Uss => &[
                ("enable_hashagg", "off"),
                ("enable_bitmapscan", "off"),
                ("enable_indexscan", "off"),
                ("enable_indexonlyscan", "off"),
            ],
            Query::Unj => &[
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
                ("enable_bitmapscan", "off"),
                ("enable_indexonlyscan", "off"),
                ("enable_material", "off"),
                ("enable_memoize", "off"),
            ],
        }
    }

    /// The paper's operators, from the root to the leaves, in the words of `EXPLAIN`.
    pub fn plan(self) -> &'static str {
        match self {
            Query::Utpcc => "Aggregate > Bitmap Heap Scan > Bitmap Index Scan",
            Query::Uss => "Unique > Sort > Seq Scan",
            Query::Unj => "Aggregate > Nested Loop > Seq Scan > Index Scan",
        }
    }

    /// Queries of each client in a repetition: the paper's (sections 4 and 5.1), or few.
    pub fn times(self, paper: bool) -> usize {
        match (self, paper) {
            (Query::Utpcc, _) => 100,
            (Query::Uss | Query::Unj, true) => 25,
            (Query::Uss | Query::Unj, false) => 3,
        }
    }
}

/// Settings of all three: none of what the paper's PostgreSQL 8.1 did not have.
pub const SETTINGS: [(&str, &str); 2] = [("max_parallel_workers_per_gather", "0"), ("jit", "off")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_the_rows() {
        let tables = Tables::new(60_000);
        let summary = tables.summary();
        let rows: Vec<T1Row> = (0..tables.parts()).flat_map(|part| tables.part(part)).collect();
        assert_eq!(rows.len(), 60_000);
        assert!(
            rows.iter()
                .all(|row| (1..=tables.t2_rows() as i32).contains(&row.a1))
        );
        for query in Query::ALL {
            for (low, high) in [query.bounds()[0], *query.bounds().last().expect("bounds")] {
                let between = |row: &&T1Row| low < row.a2 as usize && (row.a2 as usize) < high;
                let found: Vec<&T1Row> = rows.iter().filter(between).collect();
                assert_eq!(summary.count(low, high), found.len() as u64);
                let mut wanted: Vec<f64> = match query {
                    Query::Uss => found.iter().map(|row| f64::from(row.a3)).collect(),
                    _ => vec![found.iter().map(|row| f64::from(row.a3)).sum::<f64>() / found.len() as f64],
                };
                wanted.sort_by(f64::total_cmp);
                wanted.dedup();
                assert_eq!(summary.answer(query, low, high), wanted);
            }
        }
    }

    #[test]
    fn selectivities_are_the_papers() {
        let summary = Tables::new(200_000).summary();
        for (query, wanted) in [(Query::Utpcc, 0.1), (Query::Uss, 10.0), (Query::Unj, 20.0)] {
            assert_eq!(query.selected_percent(), wanted);
            for (low, high) in query.bounds() {
                assert!(high <= A2 + 1, "{low} {high}");
                assert_eq!((high - low - 1) as f64 * 100.0 / A2 as f64, wanted);
            }
            let (low, high) = query.bounds()[0];
            let selected = 100.0 * summary.count(low, high) as f64 / 200_000.0;
            assert!((selected / wanted - 1.0).abs() < 0.3, "{selected}");
        }
    }

    #[test]
    fn keys_are_shuffled_and_each_is_there_once() {
        let mut keys = Tables::new(20_000).keys();
        assert_ne!(keys[..3], [1, 2, 3]);
        keys.sort_unstable();
        assert_eq!(keys, (1..=3_000).collect::<Vec<i32>>());
    }

    #[test]
    fn scripts_store_what_they_select() {
        assert_eq!(
            Query::Utpcc.script(),
            "\\set lo 20 * random(0, 999)\n\\set hi :lo + 21\ninsert into result select avg(a3) from t1 where :lo < a2 and a2 < :hi;\n"
        );
        assert!(Query::Uss.script().starts_with("\\set lo 9999\n\\set hi 12000\n"));
        assert!(
            Query::Unj
                .select_between((1, 4))
                .contains("1 < t1.a2 and t1.a2 < 4")
        );
    }
}
