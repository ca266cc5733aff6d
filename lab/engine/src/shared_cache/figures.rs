//! Which targets beside which co-runners the paper's figures need, each pair measured once for all figures that show it.
//!
//! | case | the paper | here |
//! | --- | --- | --- |
//! | `fig1` | Fig. 1: a hash join and an index join in all combinations | the moderate hash join and the weak index join |
//! | `fig4_hash` | Fig. 4: hash/hash and hash/index by S | and beside a scan and beside the largest hash join |
//! | `fig4_index`, `fig4_bitmap` | Fig. 4: index/index and index/hash, index scan and bitmap scan | |
//! | `table1` | Table 1: who slows down whom, by class | hash joins of each class, and the index join as a second weak one |
//! | `table2` | Table 2: times alone | the same three queries |
//! | `fig5` | Fig. 5: the weak queries confined to fewer colours | measured with streaming off and on; colours and ways are simulated |

use std::collections::BTreeMap;

use super::beside::{measure, unavailable};
use super::data::Data;
use super::engines::{Engines, Kind, built_tables};
use super::keys::{ALONE, Keys, PINNED};
use super::pinned::{PinnedThreads, Query};
use super::sizes::Sizes;
use super::statement::{Access, Statement};
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::Runner;

/// The `k` of the strong, moderate and weak representative. The paper's moderate query is PLQ_5 (section 7.1).
pub const STRONG: usize = 2;
/// See [`STRONG`].
pub const MODERATE: usize = 5;
/// See [`STRONG`].
pub const WEAK: usize = 25;

/// The `k` of Figure 4.
const KS: [usize; 8] = [1, 2, 3, 5, 8, 12, 18, 25];
/// Those with other operators than corun's as they are: enough to see the shape.
const KS_OTHERS: [usize; 4] = [STRONG, MODERATE, 12, WEAK];
/// Those of a quick run.
const KS_QUICK: [usize; 3] = [2, 5, 25];

/// Cases and their figures.
pub const CASES: [(&str, &str); 7] = [
    ("fig1", "1"),
    ("fig4_hash", "4"),
    ("fig4_index", "4"),
    ("fig4_bitmap", "4"),
    ("table1", "table1"),
    ("table2", "table2"),
    ("fig5", "5"),
];

/// One measurement that a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The case.
    pub case: &'static str,
    /// Its figure.
    pub figure: &'static str,
    /// Whose operators.
    pub kind: Kind,
    /// Who is measured.
    pub target: Statement,
    /// Beside whom; `None`: alone.
    pub beside: Option<Statement>,
}

/// What the selected cases show, in the order of the cases.
pub fn wants(quick: bool, selects: impl Fn(&str) -> bool) -> Vec<Want> {
    let ks: &[usize] = if quick { &KS_QUICK } else { &KS };
    let mut wants = Vec::new();
    for (case, figure) in CASES.into_iter().filter(|(case, _)| selects(case)) {
        let mut add = |kind, target, beside: &[Statement]| {
            let besides = std::iter::once(None).chain(beside.iter().copied().map(Some));
            wants.extend(besides.map(|beside| Want {
                case,
                figure,
                kind,
                target,
                beside,
            }));
        };
        let hash = Statement::hash;
        let (weak_hash, weak_index) = (hash(WEAK), Statement::index(WEAK));
        match case {
            "fig1" => {
                let both = [hash(MODERATE), weak_index];
                for kind in [Kind::Corun, Kind::Stock] {
                    add(kind, hash(MODERATE), &both);
                }
                add(Kind::Corun, weak_index, &both);
            }
            "fig4_hash" => {
                for kind in [Kind::Corun, Kind::Stock, Kind::Streaming] {
                    let few = !quick && kind != Kind::Corun;
                    for &k in if few { &KS_OTHERS } else { ks } {
                        add(kind, hash(k), &[hash(k), weak_index, weak_hash, Statement::Scan]);
                    }
                }
            }
            "fig4_index" => {
                for &k in ks {
                    add(
                        Kind::Corun,
                        Statement::index(k),
                        &[Statement::index(k), weak_hash],
                    );
                }
            }
            "fig4_bitmap" => {
                for k in [STRONG, MODERATE, WEAK] {
                    let bitmap = Statement::bitmap;
                    add(Kind::Corun, bitmap(k), &[bitmap(k), weak_hash]);
                    add(Kind::Corun, hash(k), &[bitmap(WEAK)]);
                }
            }
            "table1" => {
                let all = [hash(STRONG), hash(MODERATE), weak_hash, weak_index];
                for kind in [Kind::Corun, Kind::Stock, Kind::Streaming] {
                    for target in all {
                        add(kind, target, &all);
                    }
                }
            }
            // Times alone, with and without streaming.
            "table2" => {
                for kind in Kind::ALL {
                    for target in [hash(MODERATE), weak_hash, weak_index] {
                        add(kind, target, &[]);
                    }
                }
            }
            _ => {
                for kind in [Kind::Corun, Kind::Streaming] {
                    add(kind, hash(MODERATE), &[weak_hash, weak_index]);
                    add(kind, weak_hash, &[hash(MODERATE)]);
                    add(kind, weak_index, &[hash(MODERATE)]);
                }
            }
        }
    }
    // A list of co-runners may name one twice: hash/hash of the largest.
    let mut seen: Vec<Want> = Vec::with_capacity(wants.len());
    for want in wants {
        if !seen.contains(&want) {
            seen.push(want);
        }
    }
    seen
}

/// Targets with all their co-runners and who wants them.
fn groups(wants: &[Want]) -> Vec<((Kind, Statement), Vec<Statement>)> {
    let mut groups: BTreeMap<(Kind, Statement), Vec<Statement>> = BTreeMap::new();
    for want in wants {
        let corunners = groups.entry((want.kind, want.target)).or_default();
        if let Some(beside) = want.beside.filter(|beside| !corunners.contains(beside)) {
            corunners.push(beside);
        }
    }
    groups.into_iter().collect()
}

/// What the figures of one run share.
pub struct Lab<'a> {
    /// The tables' sizes.
    pub sizes: &'a Sizes,
    /// Their answers.
    pub data: &'a Data,
    /// The engines.
    pub engines: &'a Engines,
    /// The CPUs.
    pub pinned: &'a PinnedThreads,
}

impl Lab<'_> {
    /// A statement on the engine of a kind. DataFusion has no join through an index, so beside its operators corun's index join
    /// runs.
    ///
    /// # Errors
    /// Why there is no such engine.
    pub fn query(&self, kind: Kind, statement: Statement) -> Result<Query, String> {
        let kind = match kind {
            Kind::Stock if statement.needs_index() => Kind::Corun,
            other => other,
        };
        Ok(Query {
            engine: self.engines.get(kind)?.clone(),
            sql: statement.sql(),
            expected: self.data.expected(statement),
        })
    }

    fn target(&self, kind: Kind, statement: Statement) -> Result<Query, String> {
        match kind {
            Kind::Stock if statement.needs_index() => {
                Err("DataFusion has no join through an index".to_owned())
            }
            _ => self.query(kind, statement),
        }
    }

    /// The parameters of a want's rows.
    pub fn keys(&self, want: &Want) -> Keys {
        let mix = match want.beside {
            Some(beside) => format!("{}/{}", want.target.kind(), beside.kind()),
            None => want.target.kind().to_owned(),
        };
        Keys {
            case: want.case,
            figure: want.figure,
            mix,
            policy: PINNED.to_owned(),
            class: want.target.class(self.sizes).to_string(),
            partition: want.kind.partition(),
            corunner: want
                .beside
                .map_or_else(|| ALONE.to_owned(), |beside| beside.to_string()),
            engine: want.kind.engine(),
            query: want.target.to_string(),
            cache: self.sizes.cache,
        }
    }

    /// What a statement's table takes: as planned, and as the operator reports it with the keys of its rows.
    fn table(&self, statement: Statement, query: &Query) -> Result<Vec<(String, Value)>, BenchError> {
        let Statement::Plq {
            k,
            access: Access::Hash,
        } = statement
        else {
            return Ok(Vec::new());
        };
        let mut parameters = vec![("table_bytes".to_owned(), Value::from(self.sizes.table_bytes(k).0))];
        let runtime = crate::query::runtime(1)?;
        let plan = runtime.block_on(query.engine.explain(&query.sql, true))?;
        if let Some(bytes) = built_tables(&plan).first() {
            parameters.push(("built_bytes".to_owned(), Value::from(*bytes)));
        }
        Ok(parameters)
    }

    /// Measures what is wanted and emits its rows.
    ///
    /// # Errors
    /// When a query ended its thread.
    pub fn run(&self, wants: &[Want], runner: &mut Runner<'_>) -> Result<(), BenchError> {
        for ((kind, target), corunners) in groups(wants) {
            let mine = || {
                wants
                    .iter()
                    .filter(move |want| want.kind == kind && want.target == target)
            };
            let shown: Vec<(Keys, Option<usize>)> = mine()
                .map(|want| {
                    let place = |beside| corunners.iter().position(|other| *other == beside);
                    (self.keys(want), want.beside.and_then(place))
                })
                .collect();
            let query = |statement: &Statement| Ok((statement.to_string(), self.query(kind, *statement)?));
            let queries: Result<Vec<_>, String> = corunners.iter().map(query).collect();
            let both = self.target(kind, target).and_then(|query| Ok((query, queries?)));
            let (query, queries) = match both {
                Ok(both) => both,
                Err(reason) => {
                    unavailable(&shown, &reason, runner);
                    continue;
                }
            };
            let table = self.table(target, &query)?;
            measure(
                self.pinned,
                (&target.to_string(), &query),
                &queries,
                &shown,
                &table,
                runner,
            )?;
        }
        Ok(())
    }
}

/// Miss rates, which the paper counts: this suite does not, and says so once a figure.
pub fn unavailable_misses(wants: &[Want], lab: &Lab<'_>, reason: &str, runner: &mut Runner<'_>) {
    for case in ["fig1", "table2", "fig5"] {
        if let Some(want) = wants.iter().find(|want| want.case == case) {
            runner.emit_checked(lab.keys(want).unavailable("miss_rate", "percent", reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_wants_something_and_nothing_twice() {
        for (case, figure) in CASES {
            let wants = wants(false, |name| name == case);
            assert!(!wants.is_empty(), "{case}");
            assert!(
                wants
                    .iter()
                    .all(|want| want.case == case && want.figure == figure)
            );
        }
        let all = wants(false, |_| true);
        for (index, want) in all.iter().enumerate() {
            assert!(!all[..index].contains(want), "{want:?}");
        }
    }

    #[test]
    fn a_pair_is_measured_once_for_all_figures() {
        let wants = wants(false, |_| true);
        let groups = groups(&wants);
        let (_, corunners) = groups
            .iter()
            .find(|((kind, target), _)| *kind == Kind::Corun && *target == Statement::hash(MODERATE))
            .expect("the moderate target");
        let mut distinct = corunners.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), corunners.len());
        assert!(corunners.contains(&Statement::index(WEAK)) && corunners.contains(&Statement::Scan));
        let shown = wants.iter().filter(|want| {
            want.target == Statement::hash(MODERATE) && want.beside == Some(Statement::index(WEAK))
        });
        assert!(
            shown.count() > 4,
            "figures 1, 4, 5 and table 1 show it, of several engines"
        );
    }

    #[test]
    fn table_1_is_complete() {
        let wants = wants(true, |case| case == "table1");
        let of = |kind| {
            wants
                .iter()
                .filter(|want| want.kind == kind && want.beside.is_some())
                .count()
        };
        assert_eq!(Kind::ALL.map(of), [16, 16, 16]);
    }
}
