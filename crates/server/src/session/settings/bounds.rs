//! What a client may make of the settings of DataFusion and corun: numbers within bounds, and nothing that is other sessions', too.

use corun_wire::error::{Refusal, code};

/// Most of a number that is not in [`RANGES`]: bytes and rows of one statement.
const MOST: u64 = 1 << 30;

/// Numbers that buffers, threads or files are made from.
const RANGES: [(&str, u64, u64); 14] = [
    ("datafusion.execution.batch_size", 1, 1 << 17),
    ("datafusion.execution.target_partitions", 1, 256),
    ("datafusion.execution.planning_concurrency", 1, 64),
    ("datafusion.execution.meta_fetch_concurrency", 1, 256),
    ("datafusion.execution.minimum_parallel_output_files", 1, 64),
    ("datafusion.execution.max_buffered_batches_per_output_file", 1, 64),
    (
        "datafusion.execution.soft_max_rows_per_output_file",
        1 << 10,
        MOST,
    ),
    (
        "datafusion.execution.objectstore_writer_buffer_size",
        1 << 10,
        64 << 20,
    ),
    (
        "datafusion.execution.parquet.maximum_parallel_row_group_writers",
        1,
        64,
    ),
    (
        "datafusion.execution.parquet.maximum_buffered_record_batches_per_stream",
        1,
        64,
    ),
    (
        "datafusion.execution.parquet.max_row_group_size",
        1 << 10,
        16 << 20,
    ),
    ("datafusion.execution.parquet.write_batch_size", 1, 1 << 20),
    ("datafusion.optimizer.max_passes", 1, 16),
    ("datafusion.sql_parser.recursion_limit", 1, 50),
];

/// What all sessions share.
const OF_ALL: [&str; 2] = ["corun.shared_work_bytes", "corun.kept_columns_bytes"];

/// What must be as it is: with other values statements that spill can wait for ever (apache/datafusion#24883), or what refuses a plan is passed
/// over.
const FIXED: [&str; 2] = [
    "datafusion.execution.max_spill_file_size_bytes",
    "datafusion.optimizer.skip_failed_rules",
];

/// Whether a session may set this.
///
/// # Errors
/// 22023, 42501, 55P02.
pub(in crate::session) fn check(name: &str, value: &str, superuser: bool) -> Result<(), Refusal> {
    let name = name.to_ascii_lowercase();
    if FIXED.contains(&name.as_str()) {
        let what = format!("parameter \"{name}\" cannot be changed");
        return Err(Refusal::new(code::CANT_CHANGE_RUNTIME_PARAM, what));
    }
    if OF_ALL.contains(&name.as_str()) && !superuser {
        let what = format!("permission denied to set parameter \"{name}\"");
        return Err(Refusal::new(code::INSUFFICIENT_PRIVILEGE, what)
            .hint("It is one for all sessions; superusers may set it."));
    }
    let (_, least, most) = RANGES
        .iter()
        .find(|(known, ..)| *known == name)
        .unwrap_or(&("", 0, MOST));
    // What is no number its own reader refuses.
    let Ok(number) = value.trim().parse::<f64>() else {
        return Ok(());
    };
    if !number.is_finite() || number > *most as f64 || number < *least as f64 && *least > 0 {
        let what = format!(
            "{} is outside the valid range for parameter \"{name}\" ({least} .. {most})",
            value.trim()
        );
        return Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_bounds() {
        for (name, value, sqlstate) in [
            ("datafusion.execution.batch_size", "1000000000000", "22023"),
            ("datafusion.execution.batch_size", "0", "22023"),
            ("datafusion.execution.batch_size", "8192", ""),
            ("datafusion.execution.batch_size", "1e12", "22023"),
            ("DATAFUSION.execution.target_partitions", "100000", "22023"),
            (
                "datafusion.execution.sort_spill_reservation_bytes",
                "99999999999",
                "22023",
            ),
            ("datafusion.execution.sort_spill_reservation_bytes", "0", ""),
            ("datafusion.execution.max_spill_file_size_bytes", "1", "55P02"),
            ("datafusion.optimizer.skip_failed_rules", "true", "55P02"),
            ("datafusion.sql_parser.recursion_limit", "1000000", "22023"),
            ("datafusion.optimizer.prefer_hash_join", "false", ""),
            ("corun.shared_work_bytes", "0", "42501"),
            ("corun.join", "off", ""),
            ("corun.join_memory_bytes", "18446744073709551615", "22023"),
        ] {
            let said = check(name, value, false).map_or_else(|refusal| refusal.code, |()| "");
            assert_eq!(said, sqlstate, "{name} = {value}");
        }
        assert!(check("corun.shared_work_bytes", "0", true).is_ok());
    }
}
