//! Engines over the tables of a workload.

use super::workers::Workers;
use super::{Pass, Source, WorkloadArgs};
use crate::peers::sql::SqlPeer;
use crate::query::{run_query, runtime};
use corun_datafusion::{Engine, EngineOptions, Joins};
use corun_workloads::dataset::{Dataset, DatasetError};
use lab_core::error::BenchError;
use lab_core::run::Runner;
use std::cell::RefCell;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Tables as Parquet files: a folder with a folder for each table.
pub(in crate::suites) struct Files {
    pub(in crate::suites) tables: PathBuf,
    /// What is removed when they are not needed any more.
    pub(in crate::suites) scratch: Option<TempDir>,
}

impl Files {
    /// Each table by its name, and where it is.
    pub(super) fn tables(&self) -> Result<Vec<(String, PathBuf)>, BenchError> {
        let unreadable = |source| BenchError::io("cannot read the folder of Parquet files", source);
        let mut tables = Vec::new();
        for table in self.tables.read_dir().map_err(unreadable)? {
            let path = table.map_err(unreadable)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            tables.push((name.into_owned(), path));
        }
        Ok(tables)
    }

    /// Shows an engine all tables.
    pub(super) fn register(&self, runtime: &Runtime, engine: &Engine) -> Result<(), BenchError> {
        for (name, path) in self.tables()? {
            runtime.block_on(engine.register_path(&name, &path))?;
        }
        Ok(())
    }
}

/// Tables that `write` puts below a scratch folder.
pub(in crate::suites) fn scratch_files(
    write: impl FnOnce(&std::path::Path) -> Result<usize, DatasetError>,
) -> Result<Files, BenchError> {
    let scratch = tempfile::tempdir()
        .map_err(|source| BenchError::io("cannot make a folder for Parquet files", source))?;
    write(scratch.path())?;
    Ok(Files {
        tables: scratch.path().to_owned(),
        scratch: Some(scratch),
    })
}

/// The sides of a pass, over the same data.
pub(super) struct Engines {
    pub(super) corun: Engine,
    pub(super) stock: Engine,
    /// Where memory is limited: stock with sort-merge joins.
    pub(super) sort_merge: Option<Engine>,
    /// Stock without a limit, where the other one has one.
    pub(super) reference: Option<Engine>,
    /// Over files, those that are here.
    pub(super) peers: Vec<RefCell<SqlPeer>>,
    /// The processes that run the queries, if this one does not.
    pub(super) workers: Option<Workers>,
    _scratch: Option<TempDir>,
}

impl Engines {
    pub(super) fn over(data: &Dataset, partitions: usize) -> Result<Engines, BenchError> {
        let engines = Engines::empty(partitions, None)?;
        crate::tables::register(data, &engines.corun)?;
        crate::tables::register(data, &engines.stock)?;
        Ok(engines)
    }

    pub(super) fn over_files(
        pass: &Pass<'_>,
        args: &WorkloadArgs,
        runner: &mut Runner<'_>,
    ) -> Result<Engines, BenchError> {
        let files = (pass.workload.files)(pass.scale_factor, pass.partitions, runner.progress())?;
        let mut engines = Engines::empty(pass.partitions, pass.memory)?;
        if let Some(count) = pass.workers {
            let workers = Workers::start(count, &files.tables)?;
            engines.corun =
                workers.engine(options(Joins::Corun, pass.partitions, false), pass.scale_factor)?;
            engines.stock =
                workers.engine(options(Joins::Stock, pass.partitions, false), pass.scale_factor)?;
            engines.reference = Some(Engine::new(&options(Joins::Stock, pass.partitions, false))?);
            engines.workers = Some(workers);
        }
        if pass.source == Source::ParquetKept {
            run_query(
                &runtime(pass.partitions)?,
                &engines.corun,
                "SET corun.keep_columns = 'auto'",
            )?;
        }
        let runtime = runtime(pass.partitions)?;
        files.register(&runtime, &engines.corun)?;
        files.register(&runtime, &engines.stock)?;
        for engine in engines.sort_merge.iter().chain(&engines.reference) {
            files.register(&runtime, engine)?;
        }
        // The others have memory limits of their own making, and one process.
        let systems = match args.no_peers || pass.memory.is_some() || pass.workers.is_some() {
            true => &[],
            false => pass.workload.peers,
        };
        for system in systems {
            let Some(mut peer) = system.start_or_say(pass.workload.suite.name(), "ms", "ms", runner) else {
                continue;
            };
            peer.set_threads(pass.partitions)?;
            for (name, path) in files.tables()? {
                peer.view(&name, &path)?;
            }
            engines.peers.push(RefCell::new(peer));
        }
        engines._scratch = files.scratch;
        Ok(engines)
    }

    fn empty(partitions: usize, memory: Option<usize>) -> Result<Engines, BenchError> {
        let plain = |joins| options(joins, partitions, false);
        let limited = |joins| EngineOptions {
            memory_limit_bytes: memory,
            ..plain(joins)
        };
        let sort_merge = || EngineOptions {
            settings: vec![(
                "datafusion.optimizer.prefer_hash_join".to_owned(),
                "false".to_owned(),
            )],
            ..limited(Joins::Stock)
        };
        let with_limit = |options: EngineOptions| memory.map(|_| Engine::new(&options)).transpose();
        Ok(Engines {
            corun: Engine::new(&limited(Joins::Corun))?,
            stock: Engine::new(&limited(Joins::Stock))?,
            sort_merge: with_limit(sort_merge())?,
            reference: with_limit(plain(Joins::Stock))?,
            peers: Vec::new(),
            workers: None,
            _scratch: None,
        })
    }
}

/// An engine; what it measures by running it again does its work again, unless it may share work.
pub(super) fn engine(joins: Joins, partitions: usize, share_work: bool) -> Result<Engine, BenchError> {
    Ok(Engine::new(&options(joins, partitions, share_work))?)
}

fn options(joins: Joins, partitions: usize, share_work: bool) -> EngineOptions {
    EngineOptions {
        partitions,
        joins,
        share_work,
        ..EngineOptions::default()
    }
}
