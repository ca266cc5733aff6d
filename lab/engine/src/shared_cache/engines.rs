//! The engines that answer the statements: stock operators, corun's, and corun's streaming past the cache.
//!
//! All hold the same batches. Plans are forced where an experiment names one: a hash join asks a table without index, an index
//! join one whose index must be used.

use corun_datafusion::{Engine, EngineError, EngineOptions, Joins};
use corun_model::units::Bytes;

use corun_workloads::dataset::Dataset;
use lab_core::error::BenchError;
use lab_core::run::Runner;

/// Which operators answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// DataFusion's. It has no join through an index.
    Stock,
    /// corun's.
    Corun,
    /// corun's, with weak operators reading past the cache.
    Streaming,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Stock, Kind::Corun, Kind::Streaming];

    /// The `engine` of rows.
    pub fn engine(self) -> &'static str {
        match self {
            Kind::Stock => "datafusion",
            Kind::Corun | Kind::Streaming => "corun",
        }
    }

    /// The `partition` of rows.
    pub fn partition(self) -> &'static str {
        match self {
            Kind::Stock | Kind::Corun => "none",
            Kind::Streaming => "streaming",
        }
    }
}

/// The setting by which weak operators read past the cache.
pub const STREAMING: &str = "corun.streaming";

/// An engine, or why there is none.
pub type Made = Result<Engine, String>;

/// One engine of each kind that was asked for.
#[derive(Default)]
pub struct Engines(Vec<(Kind, Made)>);

impl Engines {
    /// The engine of a kind.
    ///
    /// # Errors
    /// Why there is none.
    pub fn get(&self, kind: Kind) -> Result<&Engine, String> {
        match self.0.iter().find(|(other, _)| *other == kind) {
            Some((_, Ok(engine))) => Ok(engine),
            Some((_, Err(reason))) => Err(reason.clone()),
            None => Err("this run does not need it".to_owned()),
        }
    }

    /// Makes the engines of `kinds` over `data`; with `indexes`, those of corun also hold indexed copies of its tables.
    ///
    /// # Errors
    /// Tables an engine refuses. A setting this build does not know leaves that engine out instead.
    pub fn make(
        kinds: &[Kind],
        data: &Dataset,
        indexes: &[Indexes],
        settings: &Settings,
        runner: &Runner<'_>,
    ) -> Result<Engines, BenchError> {
        let steps = kinds.len() as u64;
        runner
            .progress()
            .begin("loading tables and building indexes", steps);
        let mut engines = Engines::default();
        for &kind in kinds {
            let made = match Engine::new(&settings.options(kind)) {
                Ok(engine) => {
                    fill(&engine, kind, data, indexes)?;
                    Ok(engine)
                }
                Err(error) if kind == Kind::Streaming => {
                    runner.progress().note(&format!(
                        "without {STREAMING}: {error}; rows of it are unavailable"
                    ));
                    Err(error.to_string())
                }
                Err(error) => return Err(error.into()),
            };
            engines.0.push((kind, made));
            runner.progress().advance(1);
        }
        runner.progress().end();
        Ok(engines)
    }
}

/// A table to be held once more under another name, with indexes.
#[derive(Clone, Copy, Debug)]
pub struct Indexes {
    /// The table.
    pub table: &'static str,
    /// The copy's name; the table itself gets the indexes where it is the same.
    pub name: &'static str,
    /// Indexed columns.
    pub columns: &'static [&'static str],
}

/// What engines are told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `C`.
    pub cache: Bytes,
    /// Whether to look for what pays on this machine; a quick run claims nothing about time.
    pub calibrate: bool,
    /// `on`: joins use an index wherever there is one; `auto`: where it is estimated to be faster.
    pub index_join: &'static str,
    /// Threads a query may use.
    pub partitions: usize,
}

impl Settings {
    /// The options of an engine.
    pub fn options(&self, kind: Kind) -> EngineOptions {
        let corun = |key: &str, value: String| (format!("corun.{key}"), value);
        let mut settings = Vec::new();
        if kind != Kind::Stock {
            settings.push(corun("join", "on".to_owned()));
            settings.push(corun("index_join", self.index_join.to_owned()));
            settings.push(corun("llc_bytes", self.cache.0.to_string()));
            settings.push(corun("calibrate", self.calibrate.to_string()));
        }
        // `auto` streams where a table or tree is weak in a cache of `llc_bytes`.
        let streaming = match kind {
            Kind::Stock => None,
            Kind::Corun => Some("off"),
            Kind::Streaming => Some("auto"),
        };
        settings.extend(streaming.map(|value| (STREAMING.to_owned(), value.to_owned())));
        EngineOptions {
            partitions: self.partitions,
            joins: match kind {
                Kind::Stock => Joins::Stock,
                Kind::Corun | Kind::Streaming => Joins::Corun,
            },
            settings,
            share_work: false,
            ..EngineOptions::default()
        }
    }
}

fn fill(engine: &Engine, kind: Kind, data: &Dataset, indexes: &[Indexes]) -> Result<(), BenchError> {
    crate::tables::register(data, engine)?;
    if kind == Kind::Stock {
        return Ok(());
    }
    let runtime = crate::query::runtime(1)?;
    for indexed in indexes {
        if indexed.name != indexed.table {
            let table = data
                .table(indexed.table)
                .ok_or_else(|| BenchError::Data(format!("there is no table {}", indexed.table)))?;
            engine.register_batches(indexed.name, table.schema.clone(), table.partitions.clone())?;
        }
        for column in indexed.columns {
            let made: Result<(), EngineError> = runtime.block_on(engine.create_index(indexed.name, column));
            made?;
        }
    }
    Ok(())
}

/// The index of the PLQ queries.
pub const PLQ_INDEXES: [Indexes; 1] = [Indexes {
    table: "lineorder",
    name: "lineorder_indexed",
    columns: &["lo_partkey"],
}];

/// Bytes of the tables that a plan's hash joins built, keys included, as the operators' own metric has it, in the order of the
/// plan's text; empty where it has none or the metric is written in an unknown way.
pub fn built_tables(analyzed: &str) -> Vec<u64> {
    let tails = analyzed.split("build_mem_used=").skip(1);
    tails.map(bytes_at).collect::<Option<_>>().unwrap_or_default()
}

/// `12.5 MB, ...` or `13107200, ...`.
fn bytes_at(tail: &str) -> Option<u64> {
    let end = tail.find([',', ']', '\n']).unwrap_or(tail.len());
    let mut words = tail[..end].split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = match words.next() {
        None | Some("B") => 1.0,
        Some("KB" | "K") => 1024.0,
        Some("MB" | "M") => 1024.0 * 1024.0,
        Some("GB" | "G") => 1024.0 * 1024.0 * 1024.0,
        Some(_) => return None,
    };
    Some((number * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_tables_are_read_from_either_way_of_writing_them() {
        let plan = "HashJoinExec: metrics=[build_mem_used=12.5 MB, rows=3]\n CorunJoin: metrics=[build_mem_used=100]";
        assert_eq!(built_tables(plan), [13_107_200, 100]);
        assert!(built_tables("IndexJoinExec: metrics=[input_rows=1]").is_empty());
        assert!(built_tables("build_mem_used=many").is_empty());
    }

    #[test]
    fn kinds_have_their_own_rows() {
        let rows = Kind::ALL.map(|kind| (kind.engine(), kind.partition()));
        assert_eq!(
            rows,
            [("datafusion", "none"), ("corun", "none"), ("corun", "streaming")]
        );
    }

    #[test]
    fn a_kind_nobody_made_says_so() {
        assert!(Engines::default().get(Kind::Corun).is_err());
    }
}
