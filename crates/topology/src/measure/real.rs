//! This computer, as a [`Machine`].

use std::time::{Duration, Instant};

use corun_model::spread::Label;
use corun_model::topology::Topology;
use corun_model::units::{Bytes, CpuId};

use super::error::MeasureError;
use super::floor::{FloorBuffer, FloorSample};
use super::lines::{Lines, Mixer, WORDS_PER_LINE};
use super::{Machine, chase, pairs, uniform};
use crate::affinity;

/// Hops of one repetition of the chase; at memory latency some seven milliseconds.
const HOPS: usize = 1 << 16;
/// Accesses of one repetition of even draws: short, so that some of them meet no interruption.
const DRAWS: usize = 1 << 12;
/// Accesses of one sample of the floor, over all threads.
const FLOOR_LINES: u64 = 1 << 20;

/// This computer. Keeps one block of memory for all working sets, so that it is faulted in once.
pub struct Real {
    topology: Topology,
    bytes_max: Bytes,
    block: Option<Lines>,
    mixer: Mixer,
    began: Instant,
}

impl Real {
    /// A machine whose working sets will not exceed `bytes_max`. Allocates nothing yet.
    pub fn new(topology: Topology, bytes_max: Bytes) -> Self {
        Self {
            topology,
            bytes_max,
            block: None,
            mixer: Mixer::new(1),
            began: Instant::now(),
        }
    }

    fn take_block(&mut self, bytes: Bytes) -> Result<Lines, MeasureError> {
        match self.block.take() {
            Some(block) if (block.words().len() * 8) as u64 >= bytes.0 => Ok(block),
            _ => Lines::new(bytes.max(self.bytes_max)).or_else(|_| Lines::new(bytes)),
        }
    }

    fn cpus(&self) -> Vec<CpuId> {
        self.topology.placement_order()
    }
}

impl Machine for Real {
    fn label(&self) -> Label {
        Label::Measured
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn chase_ns(&mut self, bytes: Bytes, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        let lines = whole_lines(bytes)?;
        let _pinned = self.cpus().first().map(|&cpu| affinity::pin(cpu)).transpose()?;
        let mut block = self.take_block(bytes)?;
        let mut at = chase::link(&mut block, lines, bytes.0);
        // One untimed stretch brings small sets into the inner caches and the clock up to speed.
        at = chase::walk(&block, at, lines.min(HOPS)).0;
        let mut times = Vec::with_capacity(repetitions);
        for _ in 0..repetitions {
            let (end, ns) = chase::walk(&block, at, HOPS);
            at = end;
            times.push(ns);
        }
        self.block = Some(block);
        Ok(times)
    }

    fn uniform_ns(&mut self, bytes: Bytes, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        let lines = whole_lines(bytes)?;
        let _pinned = self.cpus().first().map(|&cpu| affinity::pin(cpu)).transpose()?;
        let block = self.take_block(bytes)?;
        uniform::warm(&block, lines, &mut self.mixer);
        let times = (0..repetitions)
            .map(|_| uniform::walk(&block, lines, DRAWS, &mut self.mixer))
            .collect();
        self.block = Some(block);
        Ok(times)
    }

    fn floor(
        &mut self,
        bytes: Bytes,
        threads: usize,
        repetitions: usize,
    ) -> Result<Vec<FloorSample>, MeasureError> {
        let cpus = self.cpus();
        let buffer = FloorBuffer::from_block(self.take_block(bytes)?, bytes)?;
        let samples = (0..repetitions)
            .map(|_| buffer.sample_on(&cpus, threads, FLOOR_LINES))
            .collect();
        self.block = Some(buffer.into_block());
        samples
    }

    fn hand_over_ns(&mut self, a: CpuId, b: CpuId, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        pairs::hand_over_ns(a, b, repetitions)
    }

    fn slowdown(&mut self, a: CpuId, b: CpuId, repetitions: usize) -> Result<Vec<f64>, MeasureError> {
        pairs::slowdown(a, b, repetitions)
    }
}

/// Lines of a working set, as many as the measurements can number.
fn whole_lines(bytes: Bytes) -> Result<usize, MeasureError> {
    let lines = bytes.as_usize() / (8 * WORDS_PER_LINE);
    if lines == 0 || u32::try_from(lines).is_err() {
        return Err(MeasureError::Request(
            "working sets below a line or of 256 GiB and more",
        ));
    }
    Ok(lines)
}
