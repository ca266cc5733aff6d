//! Bytes of hash tables: what the operators allocate for so many rows.
//!
//! A size is what probes (or new rows of a group) come back to: buckets, chains and the columns they lead to; not the input
//! batches that a build reads and drops. corun's join measures exactly that when it has built
//! ([`crate::join::REUSED_BYTES`]). Stock operators count whole input buffers, used or not, so the size of what they built
//! is computed from the rows they really took in.

use super::relation::{Relation, bounds_of_types};
use crate::join::build::PARALLEL_FROM_ROWS;
use crate::join::keys::{has_codes, is_integer_like};
use crate::join::{BuildMode, CorunJoinExec, emits_left_at_end};
use crate::{CorunOptions, caches, calibration};
use arrow::datatypes::DataType;
use corun_exec::Visited;
use corun_exec::table::{KeysExpected, bytes_expected, matches_bytes};
use datafusion::common::utils::memory::estimate_memory_size;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::collections::BTreeSet;

/// How the bytes of a table follow from its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizing {
    /// corun's join, which measures.
    Corun,
    /// DataFusion's hash join.
    Stock {
        /// Bytes of a build row.
        row: f64,
        /// Codes between the smallest and the largest key where the join may use an array indexed by key.
        range: Option<u64>,
        /// Tables, one a partition.
        tables: usize,
    },
    /// Rows kept without an index over them.
    Rows {
        /// Bytes of a row.
        row: f64,
    },
    /// Groups.
    Groups {
        /// Bytes of a group: its key and its states.
        group: f64,
        /// Bytes of the tables that stay in the cores' caches, where the groups are made there.
        bytes_max: Option<u64>,
    },
}

impl Sizing {
    /// Bytes for this many rows or groups; 0 for corun's join, see [`corun_join`].
    pub fn bytes(self, rows: f64) -> u64 {
        let of = |row: f64, index: usize| (rows * row) as u64 + index as u64;
        // Too many entries for an address space are as many as can be.
        let index = |entry: Result<usize>| entry.unwrap_or(usize::MAX);
        match self {
            Sizing::Corun => 0,
            Sizing::Stock { row, range, tables } => {
                let each = (rows / tables as f64).ceil() as usize;
                let map = match range {
                    Some(range) => (range as usize).saturating_add(1).saturating_mul(4),
                    None => index(estimate_memory_size::<(u32, u64)>(each, 0)).saturating_add(each * 4),
                };
                of(row, map.saturating_mul(tables))
            }
            Sizing::Rows { row } => of(row, 0),
            Sizing::Groups { group, bytes_max } => {
                let bytes = of(group, index(estimate_memory_size::<(u64, u64)>(rows as usize, 0)));
                bytes_max.map_or(bytes, |bytes_max| bytes.min(bytes_max))
            }
        }
    }
}

fn key_types(join: &HashJoinExec) -> Vec<DataType> {
    let schema = join.left().schema();
    let types = join.on().iter().map(|(left, _)| left.data_type(&schema));
    types.map(|known| known.unwrap_or(DataType::Null)).collect()
}

fn left_keys(join: &HashJoinExec) -> Vec<PhysicalExprRef> {
    join.on().iter().map(|(left, _)| left.clone()).collect()
}

/// Bytes of corun's join over this build side: the table `exec` would build, and the columns kept beside it.
pub fn corun_join(join: &CorunJoinExec, build: &Relation, config: &ConfigOptions) -> u64 {
    let stock = join.stock();
    let corun = CorunOptions::of(config);
    let (tables, threads) = match join.mode() {
        BuildMode::Shared => (1, config.execution.target_partitions),
        BuildMode::Partitioned => (join.children()[0].output_partitioning().partition_count(), 1),
    };
    let rows = (build.rows.rows / tables as f64).round() as usize;
    let (keys, types) = (left_keys(stock), key_types(stock));
    let key = build.key(&keys);
    let bounds = match key.and_then(|key| key.bounds) {
        Some(bounds) => bounds,
        None => bounds_of_types(&types),
    };
    let distinct = key.map_or(rows, |key| (key.distinct / tables as f64).round() as usize);
    let expected = KeysExpected {
        rows,
        distinct,
        bounds,
    };
    let threads = if rows < PARALLEL_FROM_ROWS { 1 } else { threads };
    let options = caches::build_options(&corun, calibration::known(&corun));
    let bits = matches_bytes(&expected, join.asks_matches(), &options);
    let table = bytes_expected(&expected, threads, &options) + bits;
    let visited = if emits_left_at_end(*stock.join_type()) {
        Visited::bytes_of(rows)
    } else {
        0
    };
    // Hashed keys are compared when a code is found; several numbers may be packed into one code.
    let exact =
        types.iter().all(has_codes) && (types.len() == 1 || key.is_some_and(|key| key.bounds.is_some()));
    let mut kept: BTreeSet<usize> = join
        .needed()
        .iter()
        .enumerate()
        .filter(|(_, needed)| **needed)
        .map(|(at, _)| at)
        .collect();
    if !exact || stock.null_aware {
        kept.extend(
            keys.iter()
                .filter_map(|key| Some(key.downcast_ref::<Column>()?.index())),
        );
    }
    let width: f64 = kept
        .iter()
        .filter_map(|column| build.columns.get(*column))
        .map(|column| column.width())
        .sum();
    ((table + visited) * tables) as u64 + (build.rows.rows * width) as u64
}

/// DataFusion's hash join over this build side.
pub fn stock_join(join: &HashJoinExec, build: &Relation, config: &ConfigOptions) -> Sizing {
    let tables = match join.partition_mode() {
        PartitionMode::Partitioned => join.left().output_partitioning().partition_count(),
        _ => 1,
    };
    let types = key_types(join);
    let integer = types.len() == 1 && is_integer_like(&types[0]);
    let bounds = build
        .key(&left_keys(join))
        .filter(|_| integer)
        .and_then(|key| key.bounds);
    let execution = &config.execution;
    let range = bounds.map(|(min, max)| max - min).filter(|range| {
        let dense = build.rows.rows / tables as f64 / (*range as f64 + 1.0);
        *range < execution.perfect_hash_join_small_build_threshold as u64
            || dense > execution.perfect_hash_join_min_key_density
    });
    Sizing::Stock {
        row: build.width(),
        range,
        tables,
    }
}

/// The groups of an aggregate, `input` being what its first stage reads; `bytes_max` where they are made in tables of a fixed size.
pub fn groups(aggregate: &AggregateExec, input: &Relation, bytes_max: Option<u64>) -> Sizing {
    let key: f64 = aggregate
        .group_expr()
        .expr()
        .iter()
        .map(|(expression, _)| {
            match expression
                .downcast_ref::<Column>()
                .and_then(|c| input.columns.get(c.index()))
            {
                Some(column) => column.width(),
                None => 8.0,
            }
        })
        .sum();
    // A state of unknown type is taken for a number.
    let states: f64 = aggregate
        .aggr_expr()
        .iter()
        .flat_map(|function| function.state_fields().unwrap_or_default())
        .map(|field| field.data_type().primitive_width().unwrap_or(8) as f64)
        .sum();
    Sizing::Groups {
        group: key + states,
        bytes_max,
    }
}
