//! Which events can be asked for, and how each CPU encodes them.
//!
//! The kernel's portable names mean different events on different CPUs: its "cache misses" are those of the last level on
//! Intel, of the second level on AMD, of the first on Arm. And it never checks a raw encoding: a wrong one silently counts
//! something else. So an event is encoded only where it is known to mean what it says, and refused elsewhere.
//!
//! Not here: whether this kernel drives a counter unit at all; opening an event tells.

use std::fmt;

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};

use super::CountersError;
use crate::topology::cpuid::Cpuid;

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

/// What cpuid says a CPU is; all empty where nobody answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuModel {
    vendor: String,
    family: u32,
    model: u32,
}

impl CpuModel {
    /// Asks for leaves 0 and 1 (Intel SDM volume 2, CPUID; AMD64 APM volume 3, appendix E).
    pub(super) fn ask(cpuid: &dyn Cpuid) -> Self {
        let (Some([_, ebx, ecx, edx]), Some([signature, ..])) = (cpuid.leaf(0, 0), cpuid.leaf(1, 0)) else {
            return Self::default();
        };
        let vendor: Vec<u8> = [ebx, edx, ecx].into_iter().flat_map(u32::to_le_bytes).collect();
        let bits = |from: u32, count: u32| signature >> from & ((1 << count) - 1);
        let base = bits(8, 4);
        let family = if base == 15 { base + bits(20, 8) } else { base };
        // Only these families have the upper half of the model.
        let model = if matches!(base, 6 | 15) {
            bits(16, 4) << 4 | bits(4, 4)
        } else {
            bits(4, 4)
        };
        Self {
            vendor: String::from_utf8_lossy(&vendor).into_owned(),
            family,
            model,
        }
    }

    fn maker(&self) -> Maker {
        match self.vendor.as_str() {
            "GenuineIntel" => Maker::Intel,
            // Hygon's cores are AMD's.
            "AuthenticAMD" | "HygonGenuine" => Maker::Amd,
            _ => Maker::Other,
        }
    }

    /// Whether this is an Intel core of which the raw encodings below are known: Haswell to Granite Rapids, family 6. Small
    /// cores on their own and later models are not in the list, because nothing else would notice a changed encoding.
    fn has_known_intel_events(&self) -> bool {
        const HASWELL_AND_BROADWELL: [u32; 8] = [0x3c, 0x45, 0x46, 0x3f, 0x3d, 0x47, 0x4f, 0x56];
        const SKYLAKE_TO_COMET_LAKE: [u32; 7] = [0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6, 0x55];
        const ICE_LAKE_TO_ROCKET_LAKE: [u32; 7] = [0x7d, 0x7e, 0x6a, 0x6c, 0x8c, 0x8d, 0xa7];
        const ALDER_LAKE_TO_METEOR_LAKE: [u32; 7] = [0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac];
        const SAPPHIRE_TO_GRANITE_RAPIDS: [u32; 4] = [0x8f, 0xcf, 0xad, 0xae];
        let known: [&[u32]; 5] = [
            &HASWELL_AND_BROADWELL,
            &SKYLAKE_TO_COMET_LAKE,
            &ICE_LAKE_TO_ROCKET_LAKE,
            &ALDER_LAKE_TO_METEOR_LAKE,
            &SAPPHIRE_TO_GRANITE_RAPIDS,
        ];
        self.family == 6 && known.concat().contains(&self.model)
    }

    /// The CPU in a few words.
    fn words(&self) -> String {
        if self.vendor.is_empty() {
            return "a CPU without cpuid".to_owned();
        }
        format!("{} family {} model {:#x}", self.vendor, self.family, self.model)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Maker {
    Intel,
    Amd,
    Other,
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

/// `L2_RQSTS.ALL_DEMAND_MISS`: event 0x24, unit mask 0x27 (Intel's event lists, Haswell to Granite Rapids).
const INTEL_L2_DEMAND_MISSES: u64 = 0x2724;
/// `MACHINE_CLEARS.MEMORY_ORDERING`: event 0xc3, unit mask 0x02 (the same lists).
const INTEL_MEMORY_ORDER_CLEARS: u64 = 0x02c3;

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
            (Self::L2Misses, Maker::Intel) if cpu.has_known_intel_events() => {
                Ok(Encoding::Raw(INTEL_L2_DEMAND_MISSES))
            }
            (Self::MemoryOrderMachineClears, Maker::Intel) if cpu.has_known_intel_events() => {
                Ok(Encoding::Raw(INTEL_MEMORY_ORDER_CLEARS))
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
    use crate::topology::cpuid::NoCpuid;

    const ALL: [Event; 7] = [
        Event::LlcMisses,
        Event::L2Misses,
        Event::L1dMisses,
        Event::MemoryOrderMachineClears,
        Event::Instructions,
        Event::Cycles,
        Event::BranchMisses,
    ];

    /// A CPU of this vendor and signature (register eax of leaf 1).
    struct Told(&'static [u8; 12], u32);

    impl Cpuid for Told {
        fn leaf(&self, leaf: u32, _subleaf: u32) -> Option<[u32; 4]> {
            let word = |at: usize| u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"));
            match leaf {
                0 => Some([1, word(0), word(8), word(4)]),
                1 => Some([self.1, 0, 0, 0]),
                _ => None,
            }
        }
    }

    fn emerald_rapids() -> CpuModel {
        CpuModel::ask(&Told(b"GenuineIntel", 0x000c_06f2))
    }

    fn zen3() -> CpuModel {
        CpuModel::ask(&Told(b"AuthenticAMD", 0x00a2_0f12))
    }

    fn reason(event: Event, cpu: &CpuModel) -> String {
        match event.encoding(cpu) {
            Err(CountersError::Unsupported { event: named, reason }) if named == event => reason,
            other => panic!("{event}: {other:?}"),
        }
    }

    #[test]
    fn cpuid_signatures_are_read_as_the_manuals_say() {
        let read = |cpu: CpuModel| (cpu.vendor, cpu.family, cpu.model);
        assert_eq!(read(emerald_rapids()), ("GenuineIntel".to_owned(), 6, 0xcf));
        assert_eq!(read(zen3()), ("AuthenticAMD".to_owned(), 0x19, 0x21));
        assert_eq!(CpuModel::ask(&NoCpuid), CpuModel::default());
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
            let cpu = CpuModel::ask(&Told(b"GenuineIntel", signature));
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
