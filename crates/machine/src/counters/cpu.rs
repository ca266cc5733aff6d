//! Which CPU it is: cpuid's leaves 0 and 1 as the model crate wants them.

use corun_model::pmu::CpuModel;

use corun_topology::cpuid::{Cpuid, HostCpuid};

/// The CPU this program runs on; empty where there is no cpuid.
pub fn this_cpu() -> CpuModel {
    ask(&HostCpuid)
}

/// Asks for leaves 0 and 1 (Intel SDM volume 2, CPUID; AMD64 APM volume 3, appendix E).
fn ask(cpuid: &dyn Cpuid) -> CpuModel {
    let (Some([_, ebx, ecx, edx]), Some([signature, ..])) = (cpuid.leaf(0, 0), cpuid.leaf(1, 0)) else {
        return CpuModel::default();
    };
    let vendor: Vec<u8> = [ebx, edx, ecx].into_iter().flat_map(u32::to_le_bytes).collect();
    CpuModel::from_signature(&String::from_utf8_lossy(&vendor), signature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_topology::cpuid::NoCpuid;

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

    #[test]
    fn leaves_are_read_as_the_manuals_say() {
        let cpu = ask(&Told(b"GenuineIntel", 0x000c_06f2));
        assert_eq!(
            (cpu.vendor.as_str(), cpu.family, cpu.model),
            ("GenuineIntel", 6, 0xcf)
        );
        let cpu = ask(&Told(b"AuthenticAMD", 0x00a2_0f12));
        assert_eq!(
            (cpu.vendor.as_str(), cpu.family, cpu.model),
            ("AuthenticAMD", 0x19, 0x21)
        );
        assert_eq!(ask(&NoCpuid), CpuModel::default());
        assert_eq!(this_cpu(), this_cpu());
    }
}
