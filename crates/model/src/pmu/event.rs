//! How an event is asked of the kernel, and what its maker calls it.
//!
//! Not here: which CPU has which ([`super::EventTable`]), and the system call.

use serde::{Deserialize, Serialize};

use super::Quantity;

/// One event of one family of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// What it is used for.
    pub quantity: Quantity,
    /// How it is asked for.
    pub encoding: Encoding,
    /// The maker's name of it; the kernel's where it is a portable one.
    pub name: &'static str,
    /// Where that name and encoding are published.
    pub source: &'static str,
    /// Whether it takes one of the general counters; fixed ones and software events do not.
    pub general: bool,
}

/// How an event is asked of the kernel (`perf_event_open`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// A portable hardware event.
    Hardware(HardwareEvent),
    /// Reads of a cache level that hit or missed, by the kernel's choice of event.
    CacheReads {
        /// Which cache.
        level: CacheLevel,
        /// Misses only, or all accesses.
        misses: bool,
    },
    /// As the CPU's event-select register wants it: event in the low byte (AMD: four more bits from 32), unit mask in the
    /// next, counter mask in the highest of the four low bytes.
    Raw(u64),
    /// Counted by the kernel itself: works on machines without counters.
    Software(SoftwareEvent),
}

/// Portable hardware events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HardwareEvent {
    /// `cpu-cycles`.
    Cycles,
    /// `instructions`.
    Instructions,
    /// `cache-misses`: what that means differs by maker.
    CacheMisses,
    /// `branch-instructions`.
    Branches,
    /// `branch-misses`.
    BranchMisses,
    /// `ref-cycles`.
    ReferenceCycles,
}

/// Caches with portable events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheLevel {
    /// First level, data.
    L1d,
    /// First level, instructions.
    L1i,
    /// Last level.
    LastLevel,
    /// Translations of data addresses.
    Dtlb,
    /// Translations of instruction addresses.
    Itlb,
}

/// Events the kernel counts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoftwareEvent {
    /// Time on a CPU, nanoseconds.
    TaskClock,
    /// Switches to another thread.
    ContextSwitches,
    /// Moves to another CPU.
    CpuMigrations,
    /// Page faults of both kinds.
    PageFaults,
    /// Page faults without a read from disk.
    MinorFaults,
    /// Page faults with one.
    MajorFaults,
}

impl Encoding {
    /// An Intel core event. `counter_mask` 0 counts occurrences, more counts cycles with at least that many.
    pub(super) const fn intel(event: u8, unit_mask: u8, counter_mask: u8) -> Self {
        Self::Raw(event as u64 | (unit_mask as u64) << 8 | (counter_mask as u64) << 24)
    }

    /// An AMD core event; its number has 12 bits, of which the upper four stand apart.
    pub(super) const fn amd(event: u16, unit_mask: u8, counter_mask: u8) -> Self {
        Self::Raw(
            (event & 0xff) as u64
                | (unit_mask as u64) << 8
                | (counter_mask as u64) << 24
                | ((event >> 8) as u64) << 32,
        )
    }

    /// Whether the kernel counts it itself.
    pub fn is_software(self) -> bool {
        matches!(self, Self::Software(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_event_select_registers_have_them() {
        assert_eq!(Encoding::intel(0x24, 0x27, 0), Encoding::Raw(0x2724));
        assert_eq!(Encoding::intel(0xa3, 0x0c, 12), Encoding::Raw(0x0c00_0ca3));
        assert_eq!(Encoding::amd(0x1a0, 0x01, 6), Encoding::Raw(0x1_0600_01a0));
    }
}
