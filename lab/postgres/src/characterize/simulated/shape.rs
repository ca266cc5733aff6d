//! [`Shape`]: the caches that cachegrind simulates: this machine's, or as near to the paper's as two levels get.

use corun_cachesim::Geometry;
use corun_model::topology::{Cache, CacheKind, Topology};
use corun_model::units::{Bytes, Ways};

/// Where a cache is not described: the sizes of most cores of today.
const UNKNOWN_L1: (Bytes, u32) = (Bytes::kib(32), 8);
const UNKNOWN_L2: (Bytes, u32) = (Bytes::mib(1), 16);
const LINE: Bytes = Bytes(64);
/// Most lines that are simulated: 16 GiB.
const LINES_MAX: u64 = 1 << 28;

/// A cache of this size in lines of 64 bytes, or the largest below it with a number of sets that cachegrind takes, a power of two.
fn nearest(bytes: Bytes, ways: u32) -> Geometry {
    let ways = ways.max(1);
    let sets = (bytes.0 / (LINE.0 * u64::from(ways))).clamp(1, LINES_MAX / u64::from(ways));
    let sets = match sets.is_power_of_two() {
        true => sets,
        false => sets.next_power_of_two() / 2,
    };
    let size = Bytes(sets * u64::from(ways) * LINE.0);
    Geometry::new(size, Ways(ways), LINE).expect("a whole number of sets, and not too many")
}

/// Size, ways and line: `32k/8/64`.
pub(super) fn written(geometry: Geometry) -> String {
    let bytes = geometry.size().0;
    let size = match bytes.is_multiple_of(1024) {
        true => format!("{}k", bytes / 1024),
        false => bytes.to_string(),
    };
    format!("{size}/{}/{}", geometry.ways().0, LINE.0)
}

/// First-level caches and a last level.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// `this_machine` or `paper`.
    pub platform: String,
    /// First level, instructions.
    pub l1i: Geometry,
    /// First level, data.
    pub l1d: Geometry,
    /// What stands behind both.
    pub last: Geometry,
    /// In what it differs from what it stands for, in words.
    pub note: String,
}

impl Shape {
    /// This machine's first-level caches, and its second level as the last: the third is shared, and cachegrind has two.
    pub fn of(topology: &Topology) -> Shape {
        let cpu = topology.usable_cpus().first().copied();
        let cache = |level: u8, kind: CacheKind| {
            let of_cpu = |cache: &&Cache| cpu.is_none_or(|cpu| cache.shared_cpus.contains(&cpu));
            let wanted =
                |cache: &&Cache| cache.level == level && [kind, CacheKind::Unified].contains(&cache.kind);
            topology.caches.iter().filter(wanted).find(of_cpu)
        };
        let mut changed = Vec::new();
        let mut geometry = |name: &str, cache: Option<&Cache>, unknown: (Bytes, u32)| {
            let (bytes, ways) = cache
                .and_then(|cache| Some((cache.size, cache.ways?.0)))
                .unwrap_or(unknown);
            let geometry = nearest(bytes, ways);
            if cache.is_none() || geometry.size() != bytes {
                changed.push(format!("{name} as {}", written(geometry)));
            }
            geometry
        };
        let l1i = geometry("L1-I", cache(1, CacheKind::Instruction), UNKNOWN_L1);
        let l1d = geometry("L1-D", cache(1, CacheKind::Data), UNKNOWN_L1);
        let last = geometry("L2", cache(2, CacheKind::Data), UNKNOWN_L2);
        let mut note = "the second level is simulated as the last one".to_owned();
        if !changed.is_empty() {
            note = format!("{note}; {}", changed.join(", "));
        }
        Shape {
            platform: "this_machine".to_owned(),
            l1i,
            l1d,
            last,
            note,
        }
    }

    /// As near as cachegrind gets to the processor of paper 001, section 3.1: 2 MiB of second level in 8 ways, 64 KiB of first-level data
    /// as the paper says, and, in place of a trace cache of 12 K micro-operations, an instruction cache of 32 KiB: at 1.6 micro-operations
    /// an instruction that is some 7,500 instructions of about 4 bytes.
    pub fn paper() -> Shape {
        Shape {
            platform: "paper".to_owned(),
            l1i: nearest(Bytes::kib(32), 8),
            l1d: nearest(Bytes::kib(64), 8),
            last: nearest(Bytes::mib(2), 8),
            note: "the trace cache of 12 K micro-operations is simulated as 32 KiB of instructions"
                .to_owned(),
        }
    }

    /// Cachegrind's arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let argument = |name: &str, geometry: Geometry| {
            format!("--{name}={},{},{}", geometry.size().0, geometry.ways().0, LINE.0)
        };
        vec![
            "--cache-sim=yes".to_owned(),
            "--branch-sim=yes".to_owned(),
            argument("I1", self.l1i),
            argument("D1", self.l1d),
            argument("LL", self.last),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_powers_of_two() {
        for (bytes, ways, expected, exact) in [
            (Bytes::kib(32), 8, "32k/8/64", true),
            (Bytes::kib(48), 12, "48k/12/64", true),
            (Bytes::mib(1), 16, "1024k/16/64", true),
            (Bytes::kib(1280), 10, "1280k/10/64", true),
            (Bytes::mib(3), 8, "2048k/8/64", false),
            (Bytes(0), 0, "64/1/64", false),
        ] {
            let geometry = nearest(bytes, ways);
            assert_eq!(
                (written(geometry).as_str(), geometry.size() == bytes),
                (expected, exact)
            );
            let sets = geometry.size().0 / (LINE.0 * u64::from(geometry.ways().0));
            assert!(sets.is_power_of_two());
        }
        assert_ne!(nearest(Bytes(u64::MAX), 1).size(), Bytes(u64::MAX));
    }

    #[test]
    fn a_machine_without_description_says_what_is_assumed() {
        let shape = Shape::of(&Topology::default());
        assert!(shape.note.contains("L1-I as 32k/8/64"), "{}", shape.note);
        assert_eq!(
            Shape::paper().arguments()[2..],
            ["--I1=32768,8,64", "--D1=65536,8,64", "--LL=2097152,8,64"]
        );
    }
}
