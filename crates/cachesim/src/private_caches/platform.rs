//! [`Platform`]: cores with private caches, and what a miss costs there.
//!
//! The paper's Table 1 has sizes and cores. Ways are from the processors' manuals: Intel's Westmere-EX has 4 (L1-I) and 8 (L1-D, L2), AMD's
//! family 10h 2, 2 and 16. Latencies are what is commonly measured on these processors, in cycles, and the instructions' own cycles
//! are assumed; they matter only to [`super::cost`]. The third level is where misses go: it is not simulated.
//!
//! Not here: the machine at hand, which the program asks for and fills in.

use corun_model::units::{Bytes, Ways};

use crate::cache::{Geometry, GeometryError};

/// Most cores: a word of bits has one for each.
pub const CORES_MAX: usize = 128;
/// Bytes of a line, everywhere.
pub const LINE: Bytes = Bytes(64);

/// What instructions and misses cost, in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Of one instruction whose code and data are in the first level. Assumed.
    pub cycles_per_instruction: f64,
    /// Of a miss of the first level that hits the second.
    pub l2: f64,
    /// Of a miss of the second level.
    pub llc: f64,
    /// Of a miss because another core has written the line.
    pub remote: f64,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// Its name, for people.
    pub name: String,
    /// Cores, each with caches of its own.
    pub cores: usize,
    /// Hardware threads of each core.
    pub threads_per_core: usize,
    /// Instructions, first level.
    pub l1i: Geometry,
    /// Data, first level.
    pub l1d: Geometry,
    /// Second level, for both.
    pub l2: Geometry,
    /// What things cost.
    pub costs: Costs,
}

impl Platform {
    /// Names of the presets.
    pub const NAMES: [&'static str; 4] = ["intel", "amd", "today40", "today80"];

    /// A preset. `intel` and `amd` are the paper's: four Xeon E7-4860 (40 cores, two threads each) and four Opteron 6174 (48 cores).
    /// `today40` and `today80` are servers of today with as many cores: 2 MiB and two threads, 1 MiB and one. `None` for other names.
    pub fn preset(name: &str) -> Option<Platform> {
        let kib = |kib: u64, ways: u32| Geometry::new(Bytes::kib(kib), Ways(ways), LINE).ok();
        let (cores, threads_per_core, l1i, l1d, l2, costs) = match name {
            "intel" => (
                40,
                2,
                kib(32, 4),
                kib(32, 8),
                kib(256, 8),
                [0.7, 10.0, 50.0, 200.0],
            ),
            "amd" => (
                48,
                1,
                kib(64, 2),
                kib(64, 2),
                kib(512, 16),
                [0.7, 12.0, 50.0, 200.0],
            ),
            "today40" => (
                40,
                2,
                kib(32, 8),
                kib(48, 12),
                kib(2048, 16),
                [0.4, 14.0, 70.0, 200.0],
            ),
            "today80" => (
                80,
                1,
                kib(64, 4),
                kib(64, 4),
                kib(1024, 8),
                [0.4, 11.0, 60.0, 200.0],
            ),
            _ => return None,
        };
        let [cycles_per_instruction, l2_cycles, llc, remote] = costs;
        Some(Platform {
            name: name.to_owned(),
            cores,
            threads_per_core,
            l1i: l1i?,
            l1d: l1d?,
            l2: l2?,
            costs: Costs {
                cycles_per_instruction,
                l2: l2_cycles,
                llc,
                remote,
            },
        })
    }

    /// The same with another size of second level and as many ways as before.
    ///
    /// # Errors
    /// [`GeometryError`] if that is no whole number of sets.
    pub fn with_l2(self, size: Bytes) -> Result<Platform, GeometryError> {
        Ok(Platform {
            l2: Geometry::new(size, self.l2.ways(), LINE)?,
            ..self
        })
    }

    /// Hardware threads.
    pub fn threads(&self) -> usize {
        self.cores * self.threads_per_core
    }

    /// The core of a hardware thread: siblings are neighbours.
    pub fn core_of(&self, thread: usize) -> usize {
        thread / self.threads_per_core
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_machine() {
        for name in Platform::NAMES {
            let platform = Platform::preset(name).expect(name);
            assert!(platform.cores <= CORES_MAX);
            assert_eq!(platform.core_of(platform.threads() - 1), platform.cores - 1);
            assert!(platform.with_l2(Bytes::mib(4)).is_ok());
        }
        assert_eq!(Platform::preset("vax"), None);
    }
}
