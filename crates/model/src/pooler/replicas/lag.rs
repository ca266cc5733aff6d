//! How far a replica is behind its primary, judged without trusting two clocks to agree.
//!
//! The primary's probes leave samples: at this time its log was at least that long. A replica that has replayed as much
//! as a sample shows everything committed before the sample was sent, so its answers are no older than that. Only where
//! the samples do not reach back far enough is the replica's own clock asked.

use std::collections::VecDeque;
use std::time::Duration;

use super::host::Probe;
use super::lsn::Lsn;

/// How far a replica was behind when it last answered. `None`: cannot be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Bytes of log that the primary had written, or the replica received, and that were not replayed.
    pub bytes: Option<u64>,
    /// Greatest age of what the replica shows.
    pub time: Option<Duration>,
}

impl Lag {
    /// Whether it is within both limits. What cannot be told is not within a limit.
    pub fn within(&self, bytes_max: Option<u64>, time_max: Option<Duration>) -> bool {
        bytes_max.is_none_or(|max| self.bytes.is_some_and(|bytes| bytes <= max))
            && time_max.is_none_or(|max| self.time.is_some_and(|time| time <= max))
    }
}

/// Samples kept: a minute of probes once a second.
const SAMPLES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    sent: Duration,
    lsn: Lsn,
}

/// How the primary's log grew. Bounded; of one primary on one timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    samples: VecDeque<Sample>,
}

impl History {
    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }

    pub(super) fn add(&mut self, sent: Duration, lsn: Lsn) {
        if let Some(last) = self.samples.back() {
            // An answer overtaken by a later one would break the order the searches below rely on.
            if last.sent > sent {
                return;
            }
            // A primary that crashed has lost what it had not flushed.
            if last.lsn > lsn {
                self.samples.clear();
            }
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { sent, lsn });
    }

    /// Where the log was after `at`, as early as is known: a replica that replayed it shows all that was committed by `at`.
    /// Of two things of one time nobody knows which was first, so a probe sent at `at` does not count.
    pub(super) fn lsn_after(&self, at: Duration) -> Option<Lsn> {
        let first = self.samples.partition_point(|sample| sample.sent <= at);
        self.samples.get(first).map(|sample| sample.lsn)
    }

    /// How far a replica that answered `probe` is behind.
    pub(super) fn lag_of(&self, probe: &Probe) -> Lag {
        let Some(replayed) = probe.lsn else {
            return Lag::default();
        };
        // Samples sent after the replica's probe would count as lag what was written since.
        let before = self.samples.partition_point(|sample| sample.sent <= probe.sent);
        let newest = before.checked_sub(1).map(|last| self.samples[last].lsn);
        let Some(ahead) = newest.max(probe.received) else {
            return Lag::default();
        };
        let bytes = ahead.ahead_of(replayed);
        if bytes == 0 {
            return Lag {
                bytes: Some(0),
                time: Some(Duration::ZERO),
            };
        }
        let shown = self
            .samples
            .partition_point(|sample| sample.lsn <= replayed)
            .min(before);
        let time = match shown.checked_sub(1) {
            Some(last) => Some(probe.sent.saturating_sub(self.samples[last].sent)),
            None => probe.replay_age,
        };
        Lag {
            bytes: Some(bytes),
            time,
        }
    }
}
