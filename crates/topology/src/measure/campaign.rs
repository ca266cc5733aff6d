//! Everything `corun topology --measure` measures, in order, within a time budget.
//!
//! ```text
//! pairs of CPUs (hand-over, arithmetic) -> floor by size and threads -> effective LLC -> chase, small sizes first
//! ```
//!
//! The chase comes last and grows, so that a short budget costs its largest sizes and nothing else. Whatever is left
//! out or fails becomes a [`Measurement::Skipped`] that says why; the rest still counts.

use std::time::Duration;

use corun_model::knee::EffectiveLlc;
use corun_model::siblings::{Behaviour, judge};
use corun_model::spread::Spread;
use corun_model::topology::{Relation, Topology, representative_pairs};
use corun_model::units::{Bytes, CpuId};

use super::Machine;
use super::effective::effective_llc_quick;
use super::floor::FloorSample;

/// Smallest working set of the chase: well inside every first-level cache.
const CHASE_FROM: Bytes = Bytes::kib(16);
/// Largest working set, whatever the caches: linking and walking more takes longer than the budget.
const BYTES_MAX: Bytes = Bytes::gib(1);
/// Largest working set where no cache is described.
const BYTES_UNKNOWN: Bytes = Bytes::mib(256);

/// How much to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignOptions {
    /// Time after which nothing new is begun.
    pub budget: Duration,
    /// Repetitions of each measurement.
    pub repetitions: usize,
    /// Largest working set.
    pub bytes_max: Bytes,
    /// Most pairs of CPUs.
    pub pairs_max: usize,
}

impl CampaignOptions {
    /// What suits a machine: working sets up to four times its last-level cache, but not beyond a quarter of the
    /// memory at hand or 1 GiB; twenty seconds.
    pub fn of(topology: &Topology) -> Self {
        let wanted = topology
            .last_level_cache_bytes()
            .map_or(BYTES_UNKNOWN, |llc| Bytes(llc.0.saturating_mul(4)));
        let memory = [topology.memory.available, topology.memory.limit]
            .into_iter()
            .flatten()
            .min();
        let bytes_max = wanted
            .clamp(Bytes::mib(64), BYTES_MAX)
            .min(memory.map_or(BYTES_MAX, |bytes| Bytes(bytes.0 / 4)));
        Self {
            budget: Duration::from_secs(20),
            repetitions: 7,
            bytes_max,
            pairs_max: 12,
        }
    }
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub enum Measurement {
    /// Latency of dependent accesses.
    Chase {
        /// Working set.
        bytes: Bytes,
        /// Nanoseconds an access.
        ns: Spread,
    },
    /// Throughput of independent accesses.
    Floor {
        /// Working set.
        bytes: Bytes,
        /// Threads at work.
        threads: usize,
        /// Nanoseconds a line, wall time over all threads' accesses.
        ns_per_line: Spread,
        /// Whether every value read was right.
        answer_ok: bool,
    },
    /// A cache line handed from one CPU to another.
    HandOver {
        /// One CPU.
        a: CpuId,
        /// The other.
        b: CpuId,
        /// What they share by the kernel's word.
        relation: Relation,
        /// Nanoseconds one way.
        ns: Spread,
    },
    /// Whether two CPUs behave as threads of one core.
    Siblings {
        /// One CPU.
        a: CpuId,
        /// The other.
        b: CpuId,
        /// Time beside the other over time alone.
        slowdown: Spread,
        /// What that means.
        behaviour: Behaviour,
        /// What the kernel says.
        kernel_says_siblings: bool,
    },
    /// What the last-level cache is worth to random accesses.
    EffectiveLlc(EffectiveLlc),
    /// Something that was left out or failed.
    Skipped {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
}

/// How far a campaign is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f64,
    /// What is about to be measured.
    pub what: String,
}

/// Measures a machine. `progress` hears of every step before it begins.
pub fn run(
    machine: &mut dyn Machine,
    options: &CampaignOptions,
    progress: &mut dyn FnMut(&Progress),
) -> Vec<Measurement> {
    let topology = machine.topology().clone();
    let cpus = topology.placement_order();
    let pairs = representative_pairs(&topology, &cpus, options.pairs_max);
    let threads = thread_counts(cpus.len());
    let floor: Vec<(Bytes, usize)> = floor_sizes(&topology, options.bytes_max)
        .into_iter()
        .flat_map(|bytes| threads.iter().map(move |&threads| (bytes, threads)))
        .collect();
    let chase = chase_sizes(options.bytes_max);
    let steps = pairs.len() + floor.len() + 1 + chase.len();

    let mut campaign = Campaign {
        machine,
        options,
        progress,
        steps,
        step: 0,
        results: Vec::new(),
    };
    if pairs.is_empty() {
        campaign.skip("pairs of CPUs", "fewer than two CPUs may be used");
    }
    for (a, b, relation) in pairs {
        campaign.pair(&topology, a, b, relation);
    }
    for (bytes, threads) in floor {
        campaign.floor(bytes, threads);
    }
    campaign.effective();
    campaign.chase(&chase);
    campaign.results
}

struct Campaign<'a> {
    machine: &'a mut dyn Machine,
    options: &'a CampaignOptions,
    progress: &'a mut dyn FnMut(&Progress),
    steps: usize,
    step: usize,
    results: Vec<Measurement>,
}

impl Campaign<'_> {
    fn begin(&mut self, what: String) {
        let fraction = self.step.min(self.steps) as f64 / self.steps as f64;
        self.step += 1;
        (self.progress)(&Progress { fraction, what });
    }

    fn skip(&mut self, what: impl Into<String>, reason: impl Into<String>) {
        self.results.push(Measurement::Skipped {
            what: what.into(),
            reason: reason.into(),
        });
    }

    fn out_of_time(&self) -> bool {
        self.machine.elapsed() >= self.options.budget
    }

    /// Keeps the spread of `values`, or says why there is none.
    fn keep(
        &mut self,
        what: &str,
        values: Result<Vec<f64>, super::MeasureError>,
        result: impl FnOnce(Spread, &[f64]) -> Measurement,
    ) {
        match values {
            Ok(values) => match Spread::of(&values) {
                Some(spread) => self.results.push(result(spread, &values)),
                None => self.skip(what, "no repetitions were asked for"),
            },
            Err(error) => self.skip(what, error.to_string()),
        }
    }

    fn pair(&mut self, topology: &Topology, a: CpuId, b: CpuId, relation: Relation) {
        let what = format!("CPUs {a} and {b}");
        if self.out_of_time() {
            return self.skip(what, "the time was used up");
        }
        self.begin(what.clone());
        let times = self.machine.hand_over_ns(a, b, self.options.repetitions);
        self.keep(&what, times, |ns, _| Measurement::HandOver { a, b, relation, ns });
        let slowdowns = self.machine.slowdown(a, b, self.options.repetitions);
        self.keep(&what, slowdowns, |slowdown, values| Measurement::Siblings {
            a,
            b,
            slowdown,
            behaviour: judge(values),
            kernel_says_siblings: topology.are_siblings(a, b),
        });
    }

    fn floor(&mut self, bytes: Bytes, threads: usize) {
        let what = format!("throughput over {bytes}, {threads} threads");
        if self.out_of_time() {
            return self.skip(what, "the time was used up");
        }
        self.begin(what.clone());
        let samples = self.machine.floor(bytes, threads, self.options.repetitions);
        let answer_ok = samples
            .as_ref()
            .is_ok_and(|samples| samples.iter().all(|sample| sample.checksum_ok));
        let times = samples.map(|samples| {
            samples
                .iter()
                .map(|sample: &FloorSample| sample.ns_per_line)
                .collect()
        });
        self.keep(&what, times, |ns_per_line, _| Measurement::Floor {
            bytes,
            threads,
            ns_per_line,
            answer_ok,
        });
    }

    fn effective(&mut self) {
        let answer = if self.out_of_time() {
            EffectiveLlc::NotFound {
                reason: "the time was used up".to_owned(),
            }
        } else {
            self.begin("effective last-level cache".to_owned());
            effective_llc_quick(self.machine)
        };
        self.results.push(Measurement::EffectiveLlc(answer));
    }

    fn chase(&mut self, sizes: &[Bytes]) {
        let mut last_cost = Duration::ZERO;
        for (index, &bytes) in sizes.iter().enumerate() {
            let before = self.machine.elapsed();
            // The next size costs about half as much again as the one before.
            if self.out_of_time() || before + last_cost * 3 / 2 > self.options.budget {
                let what = format!("latency over {bytes} and more ({} sizes)", sizes.len() - index);
                self.skip(what, "it would exceed the time budget");
                break;
            }
            self.begin(format!("latency over {bytes}"));
            match self.machine.chase_ns(bytes, self.options.repetitions) {
                Ok(ns) => {
                    if let Some(spread) = Spread::of(&ns) {
                        self.results.push(Measurement::Chase { bytes, ns: spread });
                    }
                }
                Err(error) => {
                    self.skip(format!("latency over {bytes} and more"), error.to_string());
                    break;
                }
            }
            last_cost = self.machine.elapsed().saturating_sub(before);
        }
    }
}

/// Half-octave steps, whole lines.
fn chase_sizes(bytes_max: Bytes) -> Vec<Bytes> {
    let octaves = (0..)
        .map(|octave| CHASE_FROM.0 << octave)
        .take_while(|bytes| *bytes <= bytes_max.0);
    octaves
        .flat_map(|bytes| [bytes, (bytes as f64 * std::f64::consts::SQRT_2) as u64 / 64 * 64])
        .filter(|bytes| *bytes <= bytes_max.0)
        .map(Bytes)
        .collect()
}

/// Sizes that lie within each level and beyond.
fn floor_sizes(topology: &Topology, bytes_max: Bytes) -> Vec<Bytes> {
    let l1 = topology.cache_bytes(1).unwrap_or(Bytes::kib(32));
    let l2 = topology.cache_bytes(2).unwrap_or(Bytes::mib(1));
    let mut sizes = vec![
        Bytes(l1.0 / 2),
        Bytes(l2.0 / 2),
        Bytes(l2.0 * 4),
        Bytes::mib(64),
        Bytes::mib(256),
        bytes_max,
    ];
    sizes.retain(|bytes| *bytes <= bytes_max && bytes.0 > 0);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// 1, 2, 4, ... and all.
fn thread_counts(cpus: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (0..16)
        .map(|power| 1 << power)
        .take_while(|count| *count < cpus)
        .collect();
    counts.push(cpus.max(1));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chase_sizes_rise_to_the_largest() {
        let sizes = chase_sizes(Bytes::mib(1));
        assert_eq!(
            (sizes.first(), sizes.last()),
            (Some(&Bytes::kib(16)), Some(&Bytes::mib(1)))
        );
        assert!(sizes.is_sorted_by(|a, b| a < b) && sizes.iter().all(|bytes| bytes.0 % 64 == 0));
        assert_eq!(chase_sizes(Bytes::kib(8)), []);
    }

    #[test]
    fn thread_counts_end_with_all() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(12), [1, 2, 4, 8, 12]);
        assert_eq!(thread_counts(0), [1]);
    }
}
