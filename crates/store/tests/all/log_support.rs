//! What tests of a running log have in common.

use std::sync::Arc;
use std::time::Duration;

use corun_store::Ts;
use corun_store::log::{Log, LogEnd, LogOptions, LogReader, OnDamage};
use corun_store::storage::Storage;

pub fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 16 << 10,
        flush_every: Duration::from_millis(1),
        ..LogOptions::default()
    }
}

pub fn start(storage: impl Storage + 'static, options: LogOptions) -> Log {
    Log::start(Arc::new(storage), 7, LogEnd::default(), options).unwrap()
}

/// All payloads of a log.
pub fn read(storage: Arc<dyn Storage>) -> Vec<Vec<u8>> {
    let mut reader = LogReader::open(storage, 7, Ts(0), OnDamage::Refuse).unwrap();
    let mut blocks = Vec::new();
    while let Some(segment) = reader.next_segment().unwrap() {
        blocks.extend(
            segment
                .blocks
                .iter()
                .map(|(_, range)| segment.bytes[range.clone()].to_vec()),
        );
    }
    blocks
}
