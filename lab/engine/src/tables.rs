//! Generated tables in an engine.

use corun_datafusion::{Engine, EngineError};
use corun_workloads::dataset::Dataset;

/// Registers every table and alias of `data` with `engine`; engines share the batches.
///
/// # Errors
/// The engine's, for a name already taken.
pub fn register(data: &Dataset, engine: &Engine) -> Result<(), EngineError> {
    for (name, table) in data.named() {
        engine.register_batches(name, table.schema.clone(), table.partitions.clone())?;
    }
    Ok(())
}
