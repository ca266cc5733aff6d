//! Cache geometry from the CPU itself, for kernels and containers that hide the cache folders.
//!
//! Intel describes its caches in leaf 4, AMD in leaf 0x8000001D, in the same registers (Intel SDM volume 2, CPUID;
//! AMD64 APM volume 3, appendix E):
//!
//! ```text
//! eax  4:0 kind (0 = no more)   7:5 level   25:14 highest number of logical CPU ids sharing it - 1
//! ebx  11:0 line - 1            21:12 partitions - 1            31:22 ways - 1
//! ecx  sets - 1
//! ```
//!
//! The answer is that of the CPU the thread happens to run on. Sharing follows from APIC ids: CPUs whose ids agree
//! above the sharing bits share the cache.
//!
//! Not here: deciding when to ask; [`super::discover`] prefers the kernel's word.

use corun_model::topology::CacheKind;
use corun_model::units::{Bytes, Ways};

/// Something that answers the CPUID instruction: the CPU, or a table in a test.
pub trait Cpuid {
    /// Registers `[eax, ebx, ecx, edx]` of a leaf; `None` where the leaf or the instruction does not exist.
    fn leaf(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]>;
}

/// Nobody to ask: another machine's files, or an architecture without the instruction.
pub struct NoCpuid;

impl Cpuid for NoCpuid {
    fn leaf(&self, _leaf: u32, _subleaf: u32) -> Option<[u32; 4]> {
        None
    }
}

/// The CPU this program runs on.
pub struct HostCpuid;

impl Cpuid for HostCpuid {
    #[cfg(target_arch = "x86_64")]
    fn leaf(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        use std::arch::x86_64::__cpuid_count;
        const HYPERVISOR: u32 = 0x4000_0000;
        // Above the highest leaf of a range the instruction answers with another leaf's registers. The hypervisor
        // range announces itself by a bit of leaf 1 instead.
        if leaf & 0xf000_0000 == HYPERVISOR {
            if __cpuid_count(1, 0).ecx >> 31 == 0 {
                return None;
            }
        } else if __cpuid_count(leaf & 0x8000_0000, 0).eax < leaf {
            return None;
        }
        let registers = __cpuid_count(leaf, subleaf);
        Some([registers.eax, registers.ebx, registers.ecx, registers.edx])
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn leaf(&self, _leaf: u32, _subleaf: u32) -> Option<[u32; 4]> {
        None
    }
}

/// A cache as cpuid describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuidCache {
    pub(super) level: u8,
    pub(super) kind: CacheKind,
    pub(super) size: Bytes,
    pub(super) ways: Ways,
    pub(super) line: Bytes,
    pub(super) sets: u32,
    /// Low bits of the APIC id in which sharers may differ.
    pub(super) sharing_bits: u32,
}

/// Every cache leaf 4 or 0x8000001D describes; empty if neither does.
pub(super) fn caches(cpuid: &dyn Cpuid) -> Vec<CpuidCache> {
    // Sixteen is far beyond any CPU; a hypervisor that never says "no more" must not hang us.
    let of_leaf = |leaf| -> Vec<CpuidCache> {
        (0..16)
            .map_while(|subleaf| cpuid.leaf(leaf, subleaf).and_then(decode))
            .collect()
    };
    let intel = of_leaf(4);
    if intel.is_empty() {
        of_leaf(0x8000_001d)
    } else {
        intel
    }
}

fn decode([eax, ebx, ecx, _]: [u32; 4]) -> Option<CpuidCache> {
    let kind = match eax & 0x1f {
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        3 => CacheKind::Unified,
        _ => return None,
    };
    let line = (ebx & 0xfff) + 1;
    let partitions = ((ebx >> 12) & 0x3ff) + 1;
    let ways = (ebx >> 22) + 1;
    let sets = u64::from(ecx) + 1;
    let sharers = ((eax >> 14) & 0xfff) + 1;
    Some(CpuidCache {
        level: ((eax >> 5) & 7) as u8,
        kind,
        size: Bytes(u64::from(line) * u64::from(partitions) * u64::from(ways) * sets),
        ways: Ways(ways),
        line: Bytes(u64::from(line)),
        sets: u32::try_from(sets).unwrap_or(u32::MAX),
        sharing_bits: sharers.next_power_of_two().trailing_zeros(),
    })
}

/// The hypervisor's twelve-letter signature, in the name people use; `None` on bare metal.
pub(super) fn hypervisor(cpuid: &dyn Cpuid) -> Option<String> {
    let [_, _, features, _] = cpuid.leaf(1, 0)?;
    if features >> 31 == 0 {
        return None;
    }
    let signature: Vec<u8> = cpuid
        .leaf(0x4000_0000, 0)
        .map(|[_, ebx, ecx, edx]| [ebx, ecx, edx].into_iter().flat_map(u32::to_le_bytes).collect())
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&signature)
        .trim_matches(['\0', ' '])
        .to_owned();
    Some(match text.as_str() {
        "KVMKVMKVM" => "KVM".to_owned(),
        "Microsoft Hv" => "Hyper-V".to_owned(),
        "VMwareVMware" => "VMware".to_owned(),
        "XenVMMXenVMM" => "Xen".to_owned(),
        "TCGTCGTCGTCG" => "QEMU without acceleration".to_owned(),
        "bhyve bhyve" => "bhyve".to_owned(),
        "" => "unknown".to_owned(),
        _ => text,
    })
}
