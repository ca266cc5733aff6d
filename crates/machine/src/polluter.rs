//! [`Polluter`]: threads on other cores that take a known part of the shared cache, or of the memory's bandwidth, away from a workload.
//!
//! Order of calls: [`cpus`] chooses where its threads go, [`Polluter::new`] starts them, idle; [`Pollute::start`] sets a [`Load`] to work
//! and returns once every thread has walked its whole footprint, [`Pollute::stop`] ends it and says how much it touched. Idle threads
//! sleep: they hold no cache and no hardware thread.
//!
//! ```text
//!   start ──▶ all walk: one round ──▶ back to the caller │ more rounds, the workload is timed beside them │ stop ──▶ all sleep
//! ```
//!
//! **The walk.** A cyclic walk visits every line of the footprint once a round, in an order that looks random and is the same each round,
//! so that just that many lines are wanted. Addresses do not come from loaded values: many loads are under way at once, which presses
//! harder than a chain of loads. A streaming walk takes the lines in order, and hardware prefetchers help it. Each thread has a part of
//! the footprint of its own, on huge pages where the machine has them.
//!
//! **The rate.** At an intensity below 1 a thread pauses after each few lines for as long as makes the rate that part of its own fastest.
//! [`Pollution::bytes_per_s`] says what came of it.
//!
//! [`Simulated`] is its twin for tests: it remembers the load and touches nothing. Not here: what a workload loses, which is
//! [`corun_model::pmu::interference`].

mod order;
mod simulated;
mod threads;

use std::time::Duration;

use corun_model::topology::{Relation, Topology};
use corun_model::units::{Bytes, CpuId};

use corun_topology::measure::MeasureError;
pub use simulated::Simulated;
use threads::Threads;

/// Smallest footprint of a thread: a line.
const LINE: Bytes = Bytes(64);
/// Largest footprint of a polluter, however large the caches.
pub const FOOTPRINT_MAX: Bytes = Bytes::gib(1);

/// In which order lines are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// In an order that looks random, the same each round.
    Cyclic,
    /// One after the other.
    Streaming,
}

impl Walk {
    /// The word used in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Walk::Cyclic => "cyclic",
            Walk::Streaming => "streaming",
        }
    }
}

/// What a polluter does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Bytes of all threads' lines together.
    pub footprint: Bytes,
    /// Their order.
    pub walk: Walk,
    /// The rate as a part of the fastest: above 0 and at most 1.
    pub intensity: f64,
}

/// What a polluter did between start and stop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pollution {
    /// Bytes of the lines it touched, each touch counted.
    pub touched: Bytes,
    /// How long, from the moment the footprint had been walked once.
    pub time: Duration,
}

impl Pollution {
    /// Its rate; `None` if it took no time.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (seconds > 0.0).then(|| self.touched.0 as f64 / seconds)
    }
}

/// Anything that can pollute: the real threads, or their simulated twin.
pub trait Pollute {
    /// How many threads it has.
    fn streams(&self) -> usize;

    /// The largest footprint it can walk.
    fn footprint_max(&self) -> Bytes;

    /// Sets it to work, and returns when all of the footprint has been visited. What it did before is stopped.
    ///
    /// # Errors
    /// When the load makes no sense or is larger than the polluter, or a thread does not get through its part in ten seconds.
    fn start(&mut self, load: Load) -> Result<(), MeasureError>;

    /// Stops it, and returns when all threads rest; says what it did since [`Pollute::start`] returned. Nothing if it was idle.
    fn stop(&mut self) -> Pollution;
}

/// Where a polluter's threads go beside a workload on `workload`: CPUs below the same last-level cache, other cores first and the
/// workload's siblings last, at most `most`. Empty where no other CPU shares the cache.
pub fn cpus(topology: &Topology, workload: CpuId, most: usize) -> Vec<CpuId> {
    let near = |cpu: &CpuId| {
        *cpu != workload
            && matches!(
                topology.relation(workload, *cpu),
                Relation::SmtSiblings | Relation::SameL2 | Relation::SameLlc
            )
    };
    let mut cpus: Vec<CpuId> = topology.placement_order().into_iter().filter(near).collect();
    // The order of placement, other cores before those that share more with the workload than the last level.
    cpus.sort_by_key(|cpu| match topology.relation(workload, *cpu) {
        Relation::SmtSiblings => 2,
        Relation::SameL2 => 1,
        _ => 0,
    });
    cpus.truncate(most);
    cpus
}

/// The real one.
pub struct Polluter {
    threads: Threads,
    footprint_max: Bytes,
}

impl Polluter {
    /// Starts an idle thread on each CPU, with memory for an equal part of `footprint_max`.
    ///
    /// # Errors
    /// When there are no CPUs, one cannot be had, or the memory cannot.
    pub fn new(cpus: &[CpuId], footprint_max: Bytes) -> Result<Polluter, MeasureError> {
        if cpus.is_empty() {
            return Err(MeasureError::Request("beside a polluter without a CPU"));
        }
        if footprint_max < LINE || footprint_max > FOOTPRINT_MAX {
            return Err(MeasureError::Request(
                "beside a polluter of less than a line or more than 1 GiB",
            ));
        }
        Ok(Polluter {
            threads: Threads::start(cpus, footprint_max)?,
            footprint_max,
        })
    }
}

impl Pollute for Polluter {
    fn streams(&self) -> usize {
        self.threads.count()
    }

    fn footprint_max(&self) -> Bytes {
        self.footprint_max
    }

    fn start(&mut self, load: Load) -> Result<(), MeasureError> {
        check(&load, self.footprint_max)?;
        self.threads.work(load)
    }

    fn stop(&mut self) -> Pollution {
        self.threads.rest()
    }
}

/// That a load can be done.
fn check(load: &Load, footprint_max: Bytes) -> Result<(), MeasureError> {
    if load.footprint < LINE || load.footprint > footprint_max {
        return Err(MeasureError::Request(
            "beside a footprint of less than a line, or larger than the polluter's memory",
        ));
    }
    if !(load.intensity > 0.0 && load.intensity <= 1.0) {
        return Err(MeasureError::Request(
            "beside a polluter whose intensity is not above 0 and at most 1",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use corun_model::topology::{Cache, CacheKind, CacheSource, Core, CoreKind, LogicalCpu};

    use super::*;
    use corun_topology::affinity;

    fn load(footprint: Bytes, intensity: f64) -> Load {
        Load {
            footprint,
            walk: Walk::Cyclic,
            intensity,
        }
    }

    /// Two cores of two threads each below one cache, CPUs 0 and 2 on the first core, and CPU 4 elsewhere.
    fn machine() -> Topology {
        let cpu = |id, package, core| LogicalCpu {
            id: CpuId(id),
            online: true,
            allowed: true,
            package: Some(package),
            core: Some(core),
            numa_node: None,
        };
        let core = |package, id, cpus: &[u32]| Core {
            package,
            id,
            kind: CoreKind::Uniform,
            cpus: cpus.iter().copied().map(CpuId).collect(),
        };
        let cache = |shared: &[u32]| Cache {
            id: None,
            level: 3,
            kind: CacheKind::Unified,
            size: Bytes::mib(8),
            ways: None,
            line: Bytes(64),
            sets: None,
            shared_cpus: shared.iter().copied().map(CpuId).collect(),
            source: CacheSource::Sysfs,
        };
        Topology {
            cpus: vec![
                cpu(0, 0, 0),
                cpu(1, 0, 1),
                cpu(2, 0, 0),
                cpu(3, 0, 1),
                cpu(4, 1, 0),
            ],
            cores: vec![core(0, 0, &[0, 2]), core(0, 1, &[1, 3]), core(1, 0, &[4])],
            caches: vec![cache(&[0, 1, 2, 3]), cache(&[4])],
            ..Topology::default()
        }
    }

    #[test]
    fn other_cores_come_first_and_siblings_last() {
        let topology = machine();
        let ids = |workload, most| -> Vec<u32> {
            let chosen = cpus(&topology, CpuId(workload), most);
            chosen.into_iter().map(|cpu| cpu.0).collect()
        };
        assert_eq!(ids(0, 9), [1, 3, 2]);
        assert_eq!(ids(1, 1), [0]);
        assert!(ids(4, 9).is_empty(), "nobody shares its cache");
    }

    #[test]
    fn it_works_rests_and_works_again() {
        let cpu = affinity::allowed_cpus().expect("CPUs")[0];
        let mut polluter = Polluter::new(&[cpu, cpu], Bytes::mib(1)).expect("two threads");
        assert_eq!((polluter.streams(), polluter.footprint_max()), (2, Bytes::mib(1)));
        assert_eq!(polluter.stop(), Pollution::default());
        for walk in [Walk::Cyclic, Walk::Streaming] {
            let load = Load {
                walk,
                ..load(Bytes::kib(256), 1.0)
            };
            polluter.start(load).expect("it walks");
            // The second start ends the first.
            polluter.start(load).expect("it walks");
            let mut touched = Bytes(0);
            while touched.0 == 0 {
                std::thread::sleep(Duration::from_millis(5));
                touched = polluter.stop().touched;
                polluter.start(load).expect("it walks");
            }
            assert!(touched.0.is_multiple_of(64));
            polluter.stop();
        }
        assert_eq!(polluter.stop(), Pollution::default());
    }

    #[test]
    fn footprints_of_a_line_and_of_all_are_walked_at_any_rate() {
        let cpu = affinity::allowed_cpus().expect("CPUs")[0];
        let mut polluter = Polluter::new(&[cpu], Bytes::kib(64)).expect("a thread");
        for (bytes, intensity) in [(64, 1.0), (65, 0.5), (65536, 0.01)] {
            polluter.start(load(Bytes(bytes), intensity)).expect("it walks");
        }
        // Dropped at work.
    }

    #[test]
    fn loads_that_make_no_sense_are_refused() {
        let cpu = affinity::allowed_cpus().expect("CPUs")[0];
        assert!(Polluter::new(&[], Bytes::mib(1)).is_err());
        assert!(Polluter::new(&[cpu], Bytes(0)).is_err());
        assert!(Polluter::new(&[cpu], Bytes(u64::MAX)).is_err());
        let nobody = Polluter::new(&[CpuId(65_535)], Bytes::mib(1));
        assert!(matches!(nobody, Err(MeasureError::Affinity(_))));
        let mut polluter = Polluter::new(&[cpu], Bytes::mib(1)).expect("a thread");
        for wrong in [
            load(Bytes(0), 1.0),
            load(Bytes::mib(2), 1.0),
            load(Bytes::kib(4), 0.0),
            load(Bytes::kib(4), 1.5),
            load(Bytes::kib(4), f64::NAN),
        ] {
            assert!(matches!(polluter.start(wrong), Err(MeasureError::Request(_))));
        }
        assert_eq!(polluter.stop(), Pollution::default());
    }
}
