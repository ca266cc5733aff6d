//! [`Engine`]: the engines of this program by name, and how each is made for a workload.

use std::path::Path;

use clap::ValueEnum;
use corun_workloads::engine::{Durability, TpccEngine, TxError, YcsbEngine};
use corun_workloads::tpcc::{self, Kind, KvTpcc, Mix};
use corun_workloads::ycsb::{self, KvYcsb, Workload};

use crate::fjall::Fjall;
use crate::redb::Redb;
#[cfg(feature = "rocksdb")]
use crate::rocks::{Rocks, RocksYcsb};
use crate::{sqlite, turso};

/// The engines built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// SQLite, SQL statements on a B-tree with one writer.
    Sqlite,
    /// Turso, SQL statements on a B-tree with one writer, or on versions of rows.
    Turso,
    /// redb, a copy-on-write B-tree with one writer.
    Redb,
    /// fjall, a log-structured merge tree with one writer.
    Fjall,
    /// RocksDB, a log-structured merge tree with pessimistic transactions.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
}

impl Engine {
    /// The name in options and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Turso => "turso",
            Engine::Redb => "redb",
            Engine::Fjall => "fjall",
            #[cfg(feature = "rocksdb")]
            Engine::Rocksdb => "rocksdb",
        }
    }

    /// The version of the library.
    pub fn version(self) -> &'static str {
        match self {
            Engine::Sqlite => sqlite::version(),
            // Set by the build script: no library of these tells it.
            Engine::Turso => env!("OLTP_PEERS_TURSO"),
            Engine::Redb => env!("OLTP_PEERS_REDB"),
            Engine::Fjall => env!("OLTP_PEERS_FJALL"),
            #[cfg(feature = "rocksdb")]
            Engine::Rocksdb => env!("OLTP_PEERS_ROCKSDB"),
        }
    }

    /// Makes an empty TPC-C database, in `folder` where it needs files.
    ///
    /// # Errors
    /// The engine's.
    pub fn tpcc(
        self,
        folder: &Path,
        durability: Durability,
        mix: Mix,
    ) -> Result<Box<dyn TpccEngine>, TxError> {
        let only_reads = [Kind::OrderStatus, Kind::StockLevel]
            .map(Mix::only)
            .contains(&mix);
        Ok(match self {
            Engine::Sqlite => Box::new(sqlite::tpcc(
                folder,
                durability,
                sqlite_layout(durability, only_reads),
            )?),
            Engine::Turso => Box::new(turso::tpcc(folder, durability, turso_layout(false, only_reads))?),
            Engine::Redb => Box::new(KvTpcc::new(Redb::create(folder, durability, &tpcc::KV_TABLES)?)),
            Engine::Fjall => Box::new(KvTpcc::new(Fjall::create(folder, durability, &tpcc::KV_TABLES)?)),
            #[cfg(feature = "rocksdb")]
            Engine::Rocksdb => Box::new(KvTpcc::new(Rocks::open(folder, durability, &tpcc::KV_TABLES)?)),
        })
    }

    /// Makes an empty YCSB database, in `folder` where it needs files.
    ///
    /// # Errors
    /// The engine's.
    pub fn ycsb(
        self,
        folder: &Path,
        durability: Durability,
        workload: Workload,
    ) -> Result<Box<dyn YcsbEngine>, TxError> {
        let only_reads = workload == Workload::C;
        Ok(match self {
            Engine::Sqlite => Box::new(sqlite::ycsb(
                folder,
                durability,
                sqlite_layout(durability, only_reads),
            )?),
            Engine::Turso => Box::new(turso::ycsb(
                folder,
                durability,
                turso_layout(durability == Durability::Durable, only_reads),
            )?),
            Engine::Redb => Box::new(KvYcsb::new(Redb::create(folder, durability, &ycsb::KV_TABLES)?)),
            Engine::Fjall => Box::new(KvYcsb::new(Fjall::create(folder, durability, &ycsb::KV_TABLES)?)),
            #[cfg(feature = "rocksdb")]
            Engine::Rocksdb => Box::new(RocksYcsb::create(folder, durability, only_reads)?),
        })
    }
}

/// The faster layout. Measured with YCSB at 0, 5 and 50 % updates and with TPC-C, on one and two CPUs: as soon as somebody writes,
/// readers apart lose their page caches and everybody locks files (3 to 6 times slower); where nobody does, they read on all
/// CPUs at once; and where commits wait for the disk they go on meanwhile.
fn sqlite_layout(durability: Durability, only_reads: bool) -> sqlite::Layout {
    if only_reads || durability == Durability::Durable {
        sqlite::Layout::Readers
    } else {
        sqlite::Layout::Shared
    }
}

/// The faster layout, measured as SQLite's. In TPC-C everybody writes the same few rows: transactions at once mostly run again, and turns
/// at one connection are faster (with durable commits and two workers about as fast). In YCSB commits that wait for the disk
/// share a sync, two to four times as many; without waiting, versions of rows cost more than turns.
fn turso_layout(waits_apart: bool, only_reads: bool) -> turso::Layout {
    if only_reads {
        turso::Layout::Readers
    } else if waits_apart {
        turso::Layout::Concurrent
    } else {
        turso::Layout::Shared
    }
}
