//! What a person wants counted, whatever a CPU calls it.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// Something that can be counted on some CPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Quantity {
            $($(#[$doc])* $name,)*
        }

        impl Quantity {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// In words, for reports and errors.
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

quantities! {
    /// Core cycles that were not halted, at whatever frequency the core ran.
    Cycles => "cycles",
    /// The same at the constant frequency of the time stamp counter.
    ReferenceCycles => "reference cycles",
    /// Retired instructions.
    Instructions => "instructions",
    /// Retired micro-operations (AMD: macro-operations).
    UopsRetired => "micro-operations retired",
    /// Micro-operations issued, wrongly predicted ones included (AMD: dispatched).
    UopsIssued => "micro-operations issued",
    /// Retired loads (AMD: dispatched, those of load-and-store operations included).
    Loads => "loads",
    /// Retired stores (AMD: dispatched, those of load-and-store operations included).
    Stores => "stores",
    /// Retired branches.
    Branches => "branches",
    /// Retired branches that had been predicted wrongly.
    BranchMispredictions => "branch mispredictions",
    /// Pipeline flushes because a load may have seen memory out of order.
    MemoryOrderMachineClears => "memory-order machine clears",
    /// Accesses of the first data level that its misses are compared to: loads (AMD: loads and stores).
    L1dAccesses => "L1 data cache accesses",
    /// Those of them that missed.
    L1dMisses => "L1 data cache misses",
    /// Requests of data to the second level.
    L2DataAccesses => "L2 accesses for data",
    /// Those of them that missed.
    L2DataMisses => "L2 misses for data",
    /// Requests of instructions to the second level.
    L2CodeAccesses => "L2 accesses for instructions",
    /// Those of them that missed.
    L2CodeMisses => "L2 misses for instructions",
    /// Demand accesses (loads, stores, instruction fetches; no prefetches) that missed the second level.
    L2DemandMisses => "L2 demand misses",
    /// Loads that came to the last level (AMD: fills of the first level from beyond the second).
    LlcAccesses => "last-level cache accesses",
    /// Those of them that missed it.
    LlcMisses => "last-level cache misses",
    /// Lookups of the first instruction level.
    L1iAccesses => "L1 instruction cache accesses",
    /// Lookups that hit, where only hits and misses are counted.
    L1iHits => "L1 instruction cache hits",
    /// Lookups that missed.
    L1iMisses => "L1 instruction cache misses",
    /// Cycles in which instruction fetch waited for a miss.
    L1iStallCycles => "fetch stall cycles of L1 instruction cache misses",
    /// Micro-operations delivered from the cache of decoded instructions.
    OpCacheUops => "micro-operations from the op cache",
    /// Micro-operations the decoders delivered.
    DecoderUops => "micro-operations from the decoders",
    /// Instruction addresses that missed all translation buffers.
    ItlbMisses => "ITLB misses",
    /// Data addresses that missed all translation buffers (Intel: of loads).
    DtlbMisses => "DTLB misses",
    /// Cycles without execution while a load missed the first level.
    L1dStallCycles => "stall cycles of L1 data cache misses",
    /// Cycles without execution while a load missed the second level.
    L2StallCycles => "stall cycles of L2 misses",
    /// Cycles without execution while a load missed the last level.
    LlcStallCycles => "stall cycles of last-level cache misses",
    /// Issue slots of the pipeline (Intel's `TOPDOWN.SLOTS`).
    Slots => "pipeline slots",
    /// Slots whose micro-operations retired.
    TopDownRetiring => "slots retiring",
    /// Slots wasted on wrong predictions.
    TopDownBadSpeculation => "slots of bad speculation",
    /// Slots the front end left empty.
    TopDownFrontendBound => "slots bound by the front end",
    /// Slots the back end could not take.
    TopDownBackendBound => "slots bound by the back end",
    /// Slots retiring instructions of several micro-operations.
    TopDownHeavyOperations => "slots of heavy operations",
    /// Slots wasted on mispredicted branches.
    TopDownBranchMispredicts => "slots of branch mispredicts",
    /// Slots empty because fetching took long.
    TopDownFetchLatency => "slots of fetch latency",
    /// Slots bound by memory.
    TopDownMemoryBound => "slots bound by memory",
    /// Slots the front end left empty, before Ice Lake.
    UopsNotDelivered => "micro-operations not delivered",
    /// Cycles of recovery after a wrong prediction, before Ice Lake.
    RecoveryCycles => "recovery cycles",
    /// Cycles in which any thread of the core ran, before Ice Lake.
    CoreCycles => "cycles of the core",
    /// Dispatch slots the front end left empty (AMD).
    SlotsNoOps => "dispatch slots without operations",
    /// Cycles in which it left all of them empty (AMD).
    CyclesNoOps => "cycles without any operation",
    /// Dispatch slots lost to stalls of the back end (AMD).
    SlotsBackendStalls => "dispatch slots of back-end stalls",
    /// Dispatch slots given to the sibling (AMD).
    SlotsSmtContention => "dispatch slots of the sibling",
    /// Retired operations from microcode (AMD).
    MicrocodeOpsRetired => "microcode operations retired",
    /// Pipeline restarts other than mispredicted branches (AMD).
    PipelineRestarts => "pipeline restarts",
    /// Cycles without retirement because the oldest operation was not complete (AMD).
    RetireStallCycles => "cycles without retirement",
    /// Those of them in which it was a load (AMD).
    RetireStallLoadCycles => "cycles without retirement for a load",
    /// Time on a CPU, nanoseconds.
    TaskClock => "task clock",
    /// Switches to another thread.
    ContextSwitches => "context switches",
    /// Moves to another CPU.
    CpuMigrations => "CPU migrations",
    /// Page faults.
    PageFaults => "page faults",
    /// Page faults without a read from disk.
    MinorFaults => "minor page faults",
    /// Page faults with one.
    MajorFaults => "major page faults",
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}
