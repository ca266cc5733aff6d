//! [`LogOptions`]: sizes and times of a log.

use std::time::Duration;

use super::{Archive, LogError};

/// Sizes and times of a log. `..LogOptions::default()` keeps callers compiling when options are added.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A segment that has reached this many bytes is followed by a new one. At least 4 KiB; 64 MiB by default.
    pub segment_bytes: u64,
    /// Bytes of commits that may wait to be written; beyond, committers wait. A second buffer of this size is being written
    /// meanwhile. A larger commit passes alone, without being copied there. At least 4 KiB; 8 MiB by default.
    pub buffer_bytes: usize,
    /// A commit nobody waits for begins its way to the disk after this time. More than 0; 10 ms by default.
    pub flush_every: Duration,
    /// Bytes all segments may have together, with what waits to be written; beyond, commits are refused. 0, the default: no
    /// limit. Segments are removed whole, so it should be several times `segment_bytes`.
    pub bytes_max: u64,
    /// Where segments are kept before they are removed. None by default.
    pub archive: Option<Archive>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            buffer_bytes: 8 << 20,
            flush_every: Duration::from_millis(10),
            bytes_max: 0,
            archive: None,
        }
    }
}

impl LogOptions {
    pub(super) fn check(&self) -> Result<(), LogError> {
        let wrong = |what: &str| {
            Err(LogError::Options {
                what: what.to_string(),
            })
        };
        if self.segment_bytes < 4096 {
            return wrong("segment_bytes is below 4096");
        }
        if self.buffer_bytes < 4096 {
            return wrong("buffer_bytes is below 4096");
        }
        if self.flush_every.is_zero() {
            return wrong("flush_every is 0");
        }
        Ok(())
    }
}
