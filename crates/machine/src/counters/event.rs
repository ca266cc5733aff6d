//! Which events can be asked for, and how each CPU encodes them.
//!
//! The kernel's portable names mean different events on different CPUs: its "cache misses" are those of the last level on
//! Intel, of the second level on AMD, of the first on Arm. And it never checks a raw encoding: a wrong one silently counts
//! something else. So an event is encoded only where it is known to mean what it says, and refused elsewhere.
//!
//! Not here: whether this kernel drives a counter unit at all; opening an event tells.

use std::fmt;

use corun_model::pmu::{self, CpuModel, EventTable, Maker, Quantity};
use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};

use super::CountersError;

/// Something a core counts, in user space only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Accesses that missed the last cache level. Intel: the architectural event, which also has requests of
    /// prefetchers. Elsewhere: reads, where the kernel knows an event; AMD counts them outside the cores, for all threads
    /// together, hence not here.
    LlcMisses,
    /// Demand accesses (loads, stores, instruction fetches; no prefetches) that missed the second level. Intel since
    /// Haswell: `L2_RQSTS.ALL_DEMAND_MISS`. AMD: misses of requests from the first level.
    L2Misses,
    /// Loads that missed the first data level, in the kernel's choice of event for the CPU; on Intel lines brought into it.
    L1dMisses,
    /// Pipeline flushes because a load may have seen memory out of order, mostly since another core wrote the line. Intel
    /// since Haswell: `MACHINE_CLEARS.MEMORY_ORDERING`.
    MemoryOrderMachineClears,
    /// Retired instructions.
    Instructions,
    /// Core cycles, at whatever frequency the core runs.
    Cycles,
    /// Retired branches that had been predicted wrongly.
    BranchMisses,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LlcMisses => "last-level cache misses",
            Self::L2Misses => "L2 cache misses",
            Self::L1dMisses => "L1 data cache misses",
            Self::MemoryOrderMachineClears => "memory-order machine clears",
            Self::Instructions => "instructions",
            Self::Cycles => "cycles",
            Self::BranchMisses => "branch misses",
        })
    }
}

/// How an event is asked of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// By a portable name.
    Generic(Hardware),
    /// Read misses of a cache, by a portable name.
    ReadMisses(CacheId),
    /// As the CPU's event-select register wants it: event in the low byte, unit mask in the next.
    Raw(u64),
}

impl Event {
    /// How this CPU counts the event.
    ///
    /// # Errors
    /// [`CountersError::Unsupported`] where it is not known to.
    pub(super) fn encoding(self, cpu: &CpuModel) -> Result<Encoding, CountersError> {
        let refused = |reason: String| Err(CountersError::Unsupported { event: self, reason });
        match (self, cpu.maker()) {
            (Self::Instructions, _) => Ok(Encoding::Generic(Hardware::INSTRUCTIONS)),
            (Self::Cycles, _) => Ok(Encoding::Generic(Hardware::CPU_CYCLES)),
            (Self::BranchMisses, _) => Ok(Encoding::Generic(Hardware::BRANCH_MISSES)),
            (Self::L1dMisses, _) => Ok(Encoding::ReadMisses(CacheId::L1D)),
            (Self::LlcMisses, Maker::Intel) => Ok(Encoding::Generic(Hardware::CACHE_MISSES)),
            (Self::LlcMisses, Maker::Amd) => refused(format!(
                "{} counts them outside its cores, for all threads together",
                cpu.vendor
            )),
            (Self::LlcMisses, Maker::Other) => Ok(Encoding::ReadMisses(CacheId::LL)),
            (Self::L2Misses, Maker::Amd) => Ok(Encoding::Generic(Hardware::CACHE_MISSES)),
            (Self::L2Misses, Maker::Intel) if cpu.microarchitecture().is_some() => {
                self.listed(cpu, Quantity::L2DemandMisses)
            }
            (Self::MemoryOrderMachineClears, Maker::Intel) if cpu.microarchitecture().is_some() => {
                self.listed(cpu, Quantity::MemoryOrderMachineClears)
            }
            (Self::L2Misses | Self::MemoryOrderMachineClears, Maker::Intel) => {
                refused(format!("its encoding is not known for {}", cpu.words()))
            }
            (Self::L2Misses, Maker::Other) => {
                refused(format!("no event for it is known for {}", cpu.words()))
            }
            (Self::MemoryOrderMachineClears, Maker::Amd | Maker::Other) => refused(format!(
                "this CPU has no such event: only Intel's count it, this is {}",
                cpu.words()
            )),
        }
    }

    /// As the table of the CPU's events has it.
    fn listed(self, cpu: &CpuModel, quantity: Quantity) -> Result<Encoding, CountersError> {
        match EventTable::of(cpu).event(quantity) {
            Ok(pmu::Event {
                encoding: pmu::Encoding::Raw(config),
                ..
            }) => Ok(Encoding::Raw(config)),
            Ok(event) => Err(CountersError::Unsupported {
                event: self,
                reason: format!("{} is no event of the core", event.name),
            }),
            Err(absent) => Err(CountersError::Unsupported {
                event: self,
                reason: absent.reason,
            }),
        }
    }
}

impl Encoding {
    /// Asks for this thread, in user space, without the threads it starts.
    pub(super) fn builder(&self) -> Builder<'static> {
        let mut builder = match self {
            Self::Generic(event) => Builder::new(*event),
            Self::ReadMisses(cache) => Builder::new(Cache {
                which: *cache,
                operation: CacheOp::READ,
                result: CacheResult::MISS,
            }),
            Self::Raw(config) => Builder::new(Raw::new(*config)),
        };
        builder.exclude_kernel(true).exclude_hv(true).inherit(false);
        builder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Event; 7] = [
        Event::LlcMisses,
        Event::L2Misses,
        Event::L1dMisses,
        Event::MemoryOrderMachineClears,
        Event::Instructions,
        Event::Cycles,
        Event::BranchMisses,
    ];

    fn emerald_rapids() -> CpuModel {
        CpuModel::from_signature("GenuineIntel", 0x000c_06f2)
    }

    fn zen3() -> CpuModel {
        CpuModel::from_signature("AuthenticAMD", 0x00a2_0f12)
    }

    fn reason(event: Event, cpu: &CpuModel) -> String {
        match event.encoding(cpu) {
            Err(CountersError::Unsupported { event: named, reason }) if named == event => reason,
            other => panic!("{event}: {other:?}"),
        }
    }

    #[test]
    fn intel_counts_everything_where_its_model_is_known() {
        let known = emerald_rapids();
        let encodings: Vec<Encoding> = ALL.iter().map(|event| event.encoding(&known).unwrap()).collect();
        assert_eq!(
            encodings,
            [
                Encoding::Generic(Hardware::CACHE_MISSES),
                Encoding::Raw(0x2724),
                Encoding::ReadMisses(CacheId::L1D),
                Encoding::Raw(0x02c3),
                Encoding::Generic(Hardware::INSTRUCTIONS),
                Encoding::Generic(Hardware::CPU_CYCLES),
                Encoding::Generic(Hardware::BRANCH_MISSES),
            ]
        );
        // Ivy Bridge, Sierra Forest (small cores), and a Pentium 4, whose model number alone would match.
        for signature in [0x0003_06a9, 0x000a_06f3, 0x0008_0ff0] {
            let cpu = CpuModel::from_signature("GenuineIntel", signature);
            for event in [Event::L2Misses, Event::MemoryOrderMachineClears] {
                assert!(reason(event, &cpu).contains("GenuineIntel family"), "{cpu:?}");
            }
            assert_eq!(
                Event::LlcMisses.encoding(&cpu),
                Ok(Encoding::Generic(Hardware::CACHE_MISSES))
            );
        }
    }

    #[test]
    fn a_portable_name_is_used_only_for_what_it_means_there() {
        let amd = zen3();
        assert_eq!(
            Event::L2Misses.encoding(&amd),
            Ok(Encoding::Generic(Hardware::CACHE_MISSES))
        );
        assert!(reason(Event::LlcMisses, &amd).contains("outside its cores"));
        let other = CpuModel::default();
        assert_eq!(
            Event::LlcMisses.encoding(&other),
            Ok(Encoding::ReadMisses(CacheId::LL))
        );
        assert!(reason(Event::L2Misses, &other).contains("without cpuid"));
        for cpu in [amd, other] {
            assert!(
                reason(Event::MemoryOrderMachineClears, &cpu).starts_with("this CPU has no such event"),
                "{cpu:?}"
            );
        }
    }

    #[test]
    fn every_event_is_of_this_thread_in_user_space_and_starts_stopped() {
        for event in ALL {
            let builder = event.encoding(&emerald_rapids()).unwrap().builder();
            let attributes = builder.attrs();
            assert_eq!(
                (
                    attributes.disabled(),
                    attributes.inherit(),
                    attributes.exclude_kernel(),
                    attributes.exclude_hv(),
                    attributes.exclude_user()
                ),
                (1, 0, 1, 1, 0),
                "{event}"
            );
        }
        let raw = Event::MemoryOrderMachineClears
            .encoding(&emerald_rapids())
            .unwrap();
        // 4 is PERF_TYPE_RAW.
        assert_eq!(
            (raw.builder().attrs().type_, raw.builder().attrs().config),
            (4, 0x02c3)
        );
    }
}
