//! What a hash table turned out to be, from its operator's metrics.

use super::memory::{Memory, Remembered};
use super::shape::Table;
use super::size::Sizing;
use crate::decide::decision::TableBuilt;
use crate::join::REUSED_BYTES;
use corun_model::units::{Bytes, Rows};
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};

/// The table as it is now; remembered when it is finished.
pub fn built(table: &Table, memory: &Memory) -> TableBuilt {
    let found = table.node.metrics().and_then(|metrics| finished(table, &metrics));
    if let Some(found) = found {
        memory.remember(&table.key, found);
        memory.remember(&table.rows_key, found);
    }
    TableBuilt {
        estimate: table.estimate.clone(),
        rows: found.map(|found| Rows(found.rows)),
        bytes: found.map(|found| Bytes(found.bytes)),
    }
}

fn finished(table: &Table, metrics: &MetricsSet) -> Option<Remembered> {
    let sum = |name: &str| metrics.sum_by_name(name).map(|value| value.as_usize() as u64);
    match table.sizing {
        Sizing::Corun => {
            // The gauge of a partition is there from the start of its build and written at the end.
            let gauges = metrics
                .iter()
                .filter(|metric| metric.value().name() == REUSED_BYTES);
            let (mut bytes, mut all) = (0, true);
            for gauge in gauges {
                all &= gauge.value().as_usize() > 0;
                bytes += gauge.value().as_usize() as u64;
            }
            let rows = sum("build_input_rows")?;
            // Where memory was short and the stock join took over, the gauge stays at 0: nothing is known of its table.
            (all && bytes > 0).then_some(Remembered { rows, bytes })
        }
        Sizing::Stock { .. } | Sizing::Rows { .. } => {
            // Probe rows are asked for when the build is done.
            let probing = sum("input_batches").unwrap_or(0) > 0;
            let rows = sum("build_input_rows").filter(|_| probing)?;
            let bytes = table.sizing.bytes(rows as f64);
            Some(Remembered { rows, bytes })
        }
        Sizing::Groups { .. } => {
            let ends = metrics.iter().filter_map(|metric| match metric.value() {
                MetricValue::EndTimestamp(end) => Some(end.value().is_some()),
                _ => None,
            });
            let (mut some, mut all) = (false, true);
            ends.for_each(|ended| (some, all) = (true, all && ended));
            let rows = metrics.output_rows().filter(|_| some && all)? as u64;
            let bytes = table.sizing.bytes(rows as f64);
            Some(Remembered { rows, bytes })
        }
    }
}
