//! Which CPU it is, as cpuid tells it, and which family of cores that is.
//!
//! Intel says model numbers in the Software Developer's Manual (volume 4, table 2-1), AMD in its Processor Programming
//! References and the kernel's list of Zen generations. Small cores on their own, hybrid parts' small cores and later models
//! are in no list, because nothing else would notice a changed encoding.
//!
//! Not here: the instruction itself.

use serde::{Deserialize, Serialize};

/// What cpuid says a CPU is; all empty where nobody answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuModel {
    /// `GenuineIntel`, `AuthenticAMD`, ...
    pub vendor: String,
    /// The family, extended part included.
    pub family: u32,
    /// The model, extended part included.
    pub model: u32,
}

/// Who made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Maker {
    /// Intel.
    Intel,
    /// AMD, and Hygon, whose cores are AMD's.
    Amd,
    /// Anybody else.
    Other,
}

/// A generation of cores with one list of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Microarchitecture {
    /// Haswell and Broadwell, client and server.
    Haswell,
    /// Skylake to Comet Lake; Skylake-SP, Cascade Lake, Cooper Lake.
    Skylake,
    /// Ice Lake, Tiger Lake, Rocket Lake; Ice Lake-SP: the Sunny Cove cores.
    IceLake,
    /// Sapphire Rapids and Emerald Rapids; the big cores of Alder and Raptor Lake: the Golden Cove cores.
    GoldenCove,
    /// Granite Rapids; the big cores of Meteor Lake: the Redwood Cove cores.
    RedwoodCove,
    /// Zen and Zen+.
    Zen1,
    /// Zen 2.
    Zen2,
    /// Zen 3.
    Zen3,
    /// Zen 4.
    Zen4,
    /// Zen 5.
    Zen5,
}

impl Microarchitecture {
    /// Its name as reports show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Haswell => "Haswell",
            Self::Skylake => "Skylake",
            Self::IceLake => "Ice Lake",
            Self::GoldenCove => "Golden Cove",
            Self::RedwoodCove => "Redwood Cove",
            Self::Zen1 => "Zen",
            Self::Zen2 => "Zen 2",
            Self::Zen3 => "Zen 3",
            Self::Zen4 => "Zen 4",
            Self::Zen5 => "Zen 5",
        }
    }
}

impl CpuModel {
    /// From the vendor's name (leaf 0) and the signature (register eax of leaf 1): Intel SDM volume 2, CPUID; AMD64 APM
    /// volume 3, appendix E.
    pub fn from_signature(vendor: &str, signature: u32) -> Self {
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
            vendor: vendor.to_owned(),
            family,
            model,
        }
    }

    /// Who made it.
    pub fn maker(&self) -> Maker {
        match self.vendor.as_str() {
            "GenuineIntel" => Maker::Intel,
            "AuthenticAMD" | "HygonGenuine" => Maker::Amd,
            _ => Maker::Other,
        }
    }

    /// Its generation; `None` for models that are on no list.
    pub fn microarchitecture(&self) -> Option<Microarchitecture> {
        match (self.maker(), self.family) {
            (Maker::Intel, 6) => intel(self.model),
            (Maker::Amd, family) => zen(family, self.model),
            _ => None,
        }
    }

    /// The CPU in a few words.
    pub fn words(&self) -> String {
        if self.vendor.is_empty() {
            return "a CPU without cpuid".to_owned();
        }
        format!("{} family {} model {:#x}", self.vendor, self.family, self.model)
    }
}

fn intel(model: u32) -> Option<Microarchitecture> {
    Some(match model {
        0x3c | 0x45 | 0x46 | 0x3f | 0x3d | 0x47 | 0x4f | 0x56 => Microarchitecture::Haswell,
        0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6 | 0x55 => Microarchitecture::Skylake,
        0x7d | 0x7e | 0x6a | 0x6c | 0x8c | 0x8d | 0xa7 => Microarchitecture::IceLake,
        0x97 | 0x9a | 0xb7 | 0xba | 0xbf | 0x8f | 0xcf => Microarchitecture::GoldenCove,
        0xaa | 0xac | 0xad | 0xae => Microarchitecture::RedwoodCove,
        _ => return None,
    })
}

/// The kernel tells Zen generations apart by the same ranges.
fn zen(family: u32, model: u32) -> Option<Microarchitecture> {
    Some(match (family, model) {
        (0x17, 0x00..=0x2f | 0x50..=0x5f) | (0x18, _) => Microarchitecture::Zen1,
        (0x17, 0x30..=0x4f | 0x60..=0x7f | 0x90..=0x91 | 0xa0..=0xaf) => Microarchitecture::Zen2,
        (0x19, 0x00..=0x0f | 0x20..=0x5f) => Microarchitecture::Zen3,
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => Microarchitecture::Zen4,
        (0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => Microarchitecture::Zen5,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(vendor: &str, signature: u32) -> Option<Microarchitecture> {
        CpuModel::from_signature(vendor, signature).microarchitecture()
    }

    #[test]
    fn signatures_are_read_as_the_manuals_say() {
        let emerald_rapids = CpuModel::from_signature("GenuineIntel", 0x000c_06f2);
        assert_eq!((emerald_rapids.family, emerald_rapids.model), (6, 0xcf));
        let zen3 = CpuModel::from_signature("AuthenticAMD", 0x00a2_0f12);
        assert_eq!((zen3.family, zen3.model), (0x19, 0x21));
        assert_eq!(zen3.words(), "AuthenticAMD family 25 model 0x21");
        assert_eq!(CpuModel::default().words(), "a CPU without cpuid");
    }

    #[test]
    fn generations_of_known_parts() {
        // Signatures as /proc/cpuinfo and instlatx64 give them.
        for (signature, expected) in [
            (0x0003_06f2, Microarchitecture::Haswell),
            (0x0005_0657, Microarchitecture::Skylake),
            (0x0006_06a6, Microarchitecture::IceLake),
            (0x0008_06f8, Microarchitecture::GoldenCove),
            (0x000a_06d1, Microarchitecture::RedwoodCove),
        ] {
            assert_eq!(
                generation("GenuineIntel", signature),
                Some(expected),
                "{signature:#x}"
            );
        }
        for (signature, expected) in [
            (0x0080_0f12, Microarchitecture::Zen1),
            (0x0083_0f10, Microarchitecture::Zen2),
            (0x00a0_0f11, Microarchitecture::Zen3),
            (0x00a1_0f11, Microarchitecture::Zen4),
            (0x00a6_0f12, Microarchitecture::Zen4),
            (0x00b0_0f21, Microarchitecture::Zen5),
            (0x00b4_0f40, Microarchitecture::Zen5),
        ] {
            assert_eq!(
                generation("AuthenticAMD", signature),
                Some(expected),
                "{signature:#x}"
            );
        }
    }

    #[test]
    fn unlisted_models_have_no_generation() {
        // Ivy Bridge, Sierra Forest (small cores), a Pentium 4 whose model number alone would match, Bulldozer.
        for signature in [0x0003_06a9, 0x000a_06f3, 0x0008_0ff0] {
            assert_eq!(generation("GenuineIntel", signature), None, "{signature:#x}");
        }
        assert_eq!(generation("AuthenticAMD", 0x0060_0f12), None);
        assert_eq!(generation("", 0x000c_06f2), None);
        assert_eq!(
            CpuModel::from_signature("CentaurHauls", 0x6fa).maker(),
            Maker::Other
        );
    }
}
