//! A machine that exists only as a latency model: the twin of [`super::Real`] for tests and what-if questions.

use std::time::Duration;

use corun_model::spread::Label;
use corun_model::topology::{Relation, Topology};
use corun_model::units::{Bytes, CpuId};

use super::Machine;
use super::error::MeasureError;
use super::floor::FloorSample;
use super::lines::Mixer;

/// Latencies of a machine, and what it hides.
#[derive(Clone, Debug)]
pub struct LatencyModel {
    /// Nanoseconds in the first-level cache.
    pub l1_ns: f64,
    /// In the second-level cache.
    pub l2_ns: f64,
    /// In the last-level cache.
    pub llc_ns: f64,
    /// In memory.
    pub memory_ns: f64,
    /// What of the last-level cache is really there, whatever the topology says.
    pub effective_llc: Bytes,
    /// Independent accesses one thread keeps in flight.
    pub lines_in_flight: f64,
    /// Values vary by up to this much either way.
    pub noise_percent: f64,
    /// Pairs that share a core though the topology does not say so.
    pub hidden_siblings: Vec<(CpuId, CpuId)>,
    /// Seed of the noise.
    pub seed: u64,
}

/// A modelled machine. The same calls in the same order give the same numbers.
pub struct Simulated {
    topology: Topology,
    model: LatencyModel,
    noise: Mixer,
    elapsed_ns: f64,
}

impl Simulated {
    /// A machine of this shape with these latencies.
    pub fn new(topology: Topology, model: LatencyModel) -> Self {
        let noise = Mixer::new(model.seed);
        Self {
            topology,
            model,
            noise,
            elapsed_ns: 0.0,
        }
    }

    /// Mixture of the levels' latencies: each cache holds an equal share of a set larger than it.
    fn latency_ns(&self, bytes: Bytes) -> f64 {
        let share = |cache: Bytes| (cache.0 as f64 / bytes.0.max(1) as f64).min(1.0);
        let l1 = share(self.topology.cache_bytes(1).unwrap_or(Bytes::kib(32)));
        let l2 = share(self.topology.cache_bytes(2).unwrap_or(Bytes::mib(1))).max(l1);
        let llc = share(self.model.effective_llc).max(l2);
        let model = &self.model;
        model.l1_ns * l1 + model.l2_ns * (l2 - l1) + model.llc_ns * (llc - l2) + model.memory_ns * (1.0 - llc)
    }

    fn noisy(&mut self, value: f64, repetitions: usize) -> Vec<f64> {
        const STEPS: u64 = 1 << 20;
        (0..repetitions)
            .map(|_| {
                let unit = self.noise.below(STEPS) as f64 / STEPS as f64 * 2.0 - 1.0;
                value * (1.0 + self.model.noise_percent / 100.0 * unit)
            })
            .collect()
    }
}

impl Machine for Simulated {
    fn label(&self) -> Label {
        Label::Simulated
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns as u64)
    }

    fn chase_ns(&mut self, bytes: Bytes, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        let latency = self.latency_ns(bytes);
        // Linking costs some 40 ns a line, a repetition 65,536 hops, as on the real machine.
        self.elapsed_ns += bytes.0 as f64 / 64.0 * 40.0 + repetitions as f64 * 65_536.0 * latency;
        Ok(self.noisy(latency, repetitions))
    }

    fn uniform_ns(&mut self, bytes: Bytes, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        let latency = self.latency_ns(bytes);
        // Warming costs some 10 ns a line up to 4 Mi accesses, a repetition 4,096 hops, as on the real machine.
        let touches = (bytes.0 as f64 / 64.0 * 3.0).min(f64::from(4 << 20));
        self.elapsed_ns += touches * 10.0 + repetitions as f64 * 4096.0 * latency;
        Ok(self.noisy(latency, repetitions))
    }

    fn floor(
        &mut self,
        bytes: Bytes,
        threads: usize,
        repetitions: usize,
    ) -> Result<Vec<FloorSample>, MeasureError> {
        let ns = self.latency_ns(bytes) / self.model.lines_in_flight / threads.max(1) as f64;
        self.elapsed_ns += bytes.0 as f64 / 64.0 + repetitions as f64 * ns * f64::from(1 << 20);
        let sample = |ns_per_line| FloorSample {
            ns_per_line,
            checksum_ok: true,
        };
        Ok(self.noisy(ns, repetitions).into_iter().map(sample).collect())
    }

    fn hand_over_ns(&mut self, a: CpuId, b: CpuId, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        let ns = match self.topology.relation(a, b) {
            Relation::SmtSiblings => self.model.l1_ns * 4.0,
            Relation::SameL2 => self.model.l2_ns * 4.0,
            Relation::SameLlc => self.model.llc_ns * 2.0,
            Relation::SamePackage => self.model.memory_ns * 1.5,
            Relation::OtherPackage => self.model.memory_ns * 2.5,
        };
        self.elapsed_ns += repetitions as f64 * 20_000.0 * ns;
        Ok(self.noisy(ns, repetitions))
    }

    fn slowdown(&mut self, a: CpuId, b: CpuId, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        let hidden = self
            .model
            .hidden_siblings
            .iter()
            .any(|pair| *pair == (a, b) || *pair == (b, a));
        let slowdown = if hidden || self.topology.are_siblings(a, b) {
            1.75
        } else {
            1.0
        };
        self.elapsed_ns += repetitions as f64 * 16e6;
        // Company never speeds a core up.
        Ok(self
            .noisy(slowdown, repetitions)
            .into_iter()
            .map(|s| s.max(1.0))
            .collect())
    }
}
