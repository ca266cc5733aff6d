//! [`Isa`]: which instruction set hot loops run with, found once when a structure is made.
//!
//! A set is promised whole: code for [`Isa::Avx512`] may use every feature that [`Isa::detect`] asks for. What it is not: the
//! loops themselves, which stand beside the structures they search (`table::simd`, `csb::search`).

/// The widest instruction set that a structure may use, of those the processor has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// What every processor of the target has.
    Portable,
    /// At most AVX2.
    Avx2,
    /// At most AVX-512: all that hot loops are compiled for.
    #[default]
    Avx512,
}

/// The instruction sets that hot loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    /// Whatever the target guarantees.
    Portable,
    /// 256-bit compares.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// A whole line in one compare.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The best set this processor has.
    pub(crate) fn detect() -> Isa {
        Isa::within(InstructionSet::default())
    }

    /// The best set this processor has, none wider than `widest`.
    pub(crate) fn within(widest: InstructionSet) -> Isa {
        if cfg!(miri) || widest == InstructionSet::Portable {
            return Isa::Portable;
        }
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq");
            if avx2 && avx512 && widest >= InstructionSet::Avx512 {
                return Isa::Avx512;
            }
            if avx2 {
                return Isa::Avx2;
            }
        }
        Isa::Portable
    }

    /// All sets this processor has, the portable one first. For tests of one against the other.
    #[cfg(test)]
    pub(crate) fn available() -> Vec<Isa> {
        match Isa::detect() {
            Isa::Portable => vec![Isa::Portable],
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => vec![Isa::Portable, Isa::Avx2],
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => vec![Isa::Portable, Isa::Avx2, Isa::Avx512],
        }
    }
}
