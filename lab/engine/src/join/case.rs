//! The cases of the `join` suite: names, and which of them a run measures.

use super::keys::KeyKind;

/// Rows of the larger side.
pub const PROBE_ROWS: usize = 16_000_000;
/// Build sizes: inside L2, around it, inside a usual effective LLC, out of it, far out of it.
pub const BUILD_ROWS: [usize; 5] = [10_000, 100_000, 1_000_000, 4_000_000, 16_000_000];
/// Hit rates in percent.
pub const HIT_RATES: [usize; 4] = [0, 5, 50, 100];
/// Rows of the outer side where the larger one is indexed.
pub const OUTER_ROWS: [usize; 4] = [1_000, 100_000, 1_000_000, 4_000_000];
/// Rows of the larger side in `--quick`.
const QUICK_PROBE_ROWS: usize = 200_000;

/// The tables of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tables {
    /// What keys look like.
    pub keys: KeyKind,
    /// Rows of the build table `b`.
    pub build_rows: usize,
    /// Rows of the probe table `p`.
    pub probe_rows: usize,
    /// Percent of probe rows that have a partner.
    pub hit_rate: usize,
}

impl Tables {
    /// Tables whose join gives at most `output_rows` rows: duplicates shorten the probe side.
    fn with_output(keys: KeyKind, build_rows: usize, output_rows: usize, hit_rate: usize) -> Tables {
        Tables {
            keys,
            build_rows,
            probe_rows: output_rows / keys.duplicates(),
            hit_rate,
        }
    }

    /// The name without threads, such as `sparse_16m_x_16m_hit100`.
    pub fn name(&self) -> String {
        let (build, probe) = (rows_name(self.build_rows), rows_name(self.probe_rows));
        format!("{}_{build}_x_{probe}_hit{}", self.keys.name(), self.hit_rate)
    }

    /// The name of the join's case with this many threads, such as `sparse_16m_x_16m_hit100_t2`.
    pub fn case_name(&self, threads: usize) -> String {
        Case {
            measure: Measure::Join,
            threads,
        }
        .name(self)
    }

    /// Whether the optimizers build on `b`: they build on the side with fewer rows.
    fn builds_on_b(&self) -> bool {
        self.build_rows <= self.probe_rows
    }
}

/// `16m`, `10k`, or all digits where neither fits.
pub fn rows_name(rows: usize) -> String {
    if rows >= 1_000_000 && rows.is_multiple_of(1_000_000) {
        format!("{}m", rows / 1_000_000)
    } else if rows >= 1_000 && rows.is_multiple_of(1_000) {
        format!("{}k", rows / 1_000)
    } else {
        rows.to_string()
    }
}

/// What is measured on the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// The join in SQL by every engine.
    Join,
    /// The plan of the join with a node in the join's place that only buffers, streams and counts.
    PlanFloor,
    /// `corun-exec`'s table alone, on slices, beside the machine's floor.
    ProbeOnly,
    /// The join in SQL with an index on the larger side, `b`: through it, by hashing, and by other engines.
    Indexed,
}

/// One measurement on given tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// What is measured.
    pub measure: Measure,
    /// With how many threads.
    pub threads: usize,
}

impl Case {
    /// The name in rows, which `--case` selects by: `probe_only_sparse_16m_x_16m_hit100_t2`; joins have no prefix.
    pub fn name(&self, tables: &Tables) -> String {
        let prefix = match self.measure {
            Measure::Join => "",
            Measure::PlanFloor => "plan_floor_",
            Measure::ProbeOnly => "probe_only_",
            Measure::Indexed => "indexed_",
        };
        format!("{prefix}{}_t{}", tables.name(), self.threads)
    }
}

/// Tables and what to measure on them, so that data is made once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The tables.
    pub tables: Tables,
    /// The measurements in the order they run.
    pub cases: Vec<Case>,
}

impl Entry {
    /// The join at each thread count, and what explains it where that is measured: unique integer keys that all hit.
    fn new(tables: Tables, threads: &[usize]) -> Entry {
        let explained = matches!(tables.keys, KeyKind::Dense | KeyKind::Sparse) && tables.hit_rate == 100;
        let measures: &[Measure] = if explained {
            &[Measure::Join, Measure::PlanFloor, Measure::ProbeOnly]
        } else {
            &[Measure::Join]
        };
        let cases = measures
            .iter()
            .flat_map(|&measure| threads.iter().map(move |&threads| Case { measure, threads }))
            .collect();
        Entry { tables, cases }
    }

    /// The join of `outer_rows` rows with an index on `indexed_rows` rows of unique sparse keys, all hit.
    fn indexed(indexed_rows: usize, outer_rows: usize, threads: &[usize]) -> Entry {
        let measure = Measure::Indexed;
        Entry {
            tables: Tables {
                keys: KeyKind::Sparse,
                build_rows: indexed_rows,
                probe_rows: outer_rows.min(indexed_rows),
                hit_rate: 100,
            },
            cases: threads.iter().map(|&threads| Case { measure, threads }).collect(),
        }
    }

    /// The names of its cases.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.cases.iter().map(|case| case.name(&self.tables))
    }
}

/// Which cases a run looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Small data, every key kind: answers only.
    Quick,
    /// What the published claims and the shape of the curves need, in minutes.
    Representative,
    /// Everything, in hours.
    Full,
}

/// The cases of a run in the order they run.
pub fn matrix(extent: Extent, threads: &[usize], probe_rows: Option<usize>) -> Vec<Entry> {
    match extent {
        Extent::Quick => quick(threads, probe_rows.unwrap_or(QUICK_PROBE_ROWS)),
        Extent::Representative => representative(threads, probe_rows.unwrap_or(PROBE_ROWS)),
        Extent::Full => full(threads, probe_rows.unwrap_or(PROBE_ROWS)),
    }
}

fn quick(threads: &[usize], probe_rows: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    for keys in KeyKind::ALL {
        for (build_rows, hit_rate) in [(1_000, 50), (12_000, 100)] {
            let tables = Tables::with_output(keys, build_rows.min(probe_rows), probe_rows, hit_rate);
            entries.push(Entry::new(tables, threads));
        }
    }
    let misses = Tables::with_output(KeyKind::Sparse, 12_000.min(probe_rows), probe_rows, 0);
    entries.push(Entry::new(misses, threads));
    entries.retain(|entry| entry.tables.builds_on_b());
    entries.push(Entry::indexed(probe_rows, 1_000, threads));
    entries
}

/// Sparse and dense keys over every size at every thread count (the claims), then one factor at a time at all threads.
fn representative(threads: &[usize], probe_rows: usize) -> Vec<Entry> {
    let most = threads.last().copied().into_iter().collect::<Vec<usize>>();
    let mut entries = Vec::new();
    let mut add = |keys, build_rows, hit_rate, threads: &[usize]| {
        let tables = Tables::with_output(keys, build_rows, probe_rows, hit_rate);
        entries.push(Entry::new(tables, threads));
    };
    for build_rows in BUILD_ROWS {
        add(KeyKind::Sparse, build_rows, 100, threads);
    }
    for build_rows in BUILD_ROWS {
        add(
            KeyKind::Dense,
            build_rows,
            100,
            if build_rows > 1_000_000 { &most } else { threads },
        );
    }
    for hit_rate in [0, 5, 50] {
        add(KeyKind::Sparse, 1_000_000, hit_rate, &most);
        add(KeyKind::Sparse, 16_000_000, hit_rate, &most);
    }
    for keys in [
        KeyKind::Int2,
        KeyKind::String,
        KeyKind::Dup4,
        KeyKind::Dup16,
        KeyKind::Zipf,
    ] {
        add(keys, 1_000_000, 100, &most);
    }
    entries.retain(|entry| entry.tables.builds_on_b());
    entries.extend(indexed(probe_rows, threads));
    entries
}

/// The largest table indexed, joined with outer sides from a few rows to a quarter of its own.
fn indexed(indexed_rows: usize, threads: &[usize]) -> impl Iterator<Item = Entry> {
    let entry = move |outer_rows| Entry::indexed(indexed_rows, outer_rows, threads);
    let mut outer_rows = OUTER_ROWS.map(|rows| rows.min(indexed_rows)).to_vec();
    outer_rows.dedup();
    outer_rows.into_iter().map(entry)
}

fn full(threads: &[usize], probe_rows: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    for keys in KeyKind::ALL {
        for build_rows in BUILD_ROWS {
            for hit_rate in HIT_RATES {
                let tables = Tables::with_output(keys, build_rows, probe_rows, hit_rate);
                entries.push(Entry::new(tables, threads));
            }
        }
    }
    entries.retain(|entry| entry.tables.builds_on_b());
    entries.extend(indexed(probe_rows, threads));
    entries
}

/// The cases whose names `selects` accepts.
pub fn select(entries: Vec<Entry>, selects: impl Fn(&str) -> bool) -> Vec<Entry> {
    entries
        .into_iter()
        .map(|mut entry| {
            entry.cases.retain(|case| selects(&case.name(&entry.tables)));
            entry
        })
        .filter(|entry| !entry.cases.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn names(entries: &[Entry]) -> Vec<String> {
        entries.iter().flat_map(Entry::names).collect()
    }

    #[test]
    fn names_say_sizes_as_people_do() {
        let tables = Tables {
            keys: KeyKind::Sparse,
            build_rows: 16_000_000,
            probe_rows: 16_000_000,
            hit_rate: 100,
        };
        assert_eq!(tables.case_name(2), "sparse_16m_x_16m_hit100_t2");
        assert_eq!(
            ["10k", "1m", "1234"].map(str::to_string),
            [10_000, 1_000_000, 1_234].map(rows_name)
        );
    }

    #[test]
    fn every_matrix_has_distinct_cases_and_every_key_kind() {
        for extent in [Extent::Quick, Extent::Representative, Extent::Full] {
            let entries = matrix(extent, &[1, 2], None);
            let names = names(&entries);
            assert_eq!(
                names.iter().collect::<HashSet<_>>().len(),
                names.len(),
                "{extent:?}"
            );
            let kinds: HashSet<KeyKind> = entries.iter().map(|entry| entry.tables.keys).collect();
            assert_eq!(kinds.len(), KeyKind::ALL.len(), "{extent:?}");
            let indexed = |entry: &Entry| entry.cases.iter().all(|case| case.measure == Measure::Indexed);
            assert!(
                entries
                    .iter()
                    .all(|entry| indexed(entry) || entry.tables.builds_on_b())
            );
            assert!(entries.iter().any(indexed), "{extent:?}");
        }
    }

    #[test]
    fn the_full_matrix_holds_the_representative_one() {
        let full: HashSet<String> = names(&matrix(Extent::Full, &[1, 2], None)).into_iter().collect();
        let part = names(&matrix(Extent::Representative, &[1, 2], None));
        assert!(part.iter().all(|name| full.contains(name)));
        assert!(part.contains(&"sparse_16m_x_16m_hit100_t1".to_string()));
        assert!(part.contains(&"sparse_16m_x_16m_hit100_t2".to_string()));
        assert!(part.contains(&"sparse_1m_x_16m_hit100_t1".to_string()));
        assert!(part.contains(&"plan_floor_sparse_16m_x_16m_hit100_t1".to_string()));
        assert!(part.contains(&"probe_only_sparse_16m_x_16m_hit100_t1".to_string()));
    }

    #[test]
    fn duplicates_shorten_the_probe_side() {
        let tables = Tables::with_output(KeyKind::Dup16, 1_000_000, 16_000_000, 100);
        assert_eq!(tables.probe_rows, 1_000_000);
    }

    #[test]
    fn selection_keeps_only_matching_cases() {
        let entries = select(matrix(Extent::Full, &[1, 2], None), |name| {
            name == "zipf_4m_x_16m_hit50_t2"
        });
        assert_eq!(names(&entries), ["zipf_4m_x_16m_hit50_t2"]);
        assert!(select(matrix(Extent::Quick, &[1], None), |_| false).is_empty());
    }
}
