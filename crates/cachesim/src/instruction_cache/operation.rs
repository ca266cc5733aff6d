//! [`Operation`]: the instructions one thread ran between two markers, and [`Recorder`], which keeps them from a tracer's events.
//!
//! Not here: data accesses and branches, of which only calls are kept (their targets are entries of functions).

use std::collections::{BTreeMap, BTreeSet};

use corun_model::teams::instructions::{Event, Flow, Instruction, InstructionSink};

use super::InstructionCacheError;

/// One instruction that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// First byte.
    pub address: u64,
    /// Its length; 0 counts as 1.
    pub bytes: u8,
    /// The thread held a latch: no switch may happen before this instruction.
    pub latched: bool,
    /// A call led here: the first instruction of a function.
    pub entry: bool,
}

/// A CTX point compiled into the program that execution went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteVisit {
    /// Index of the instruction it stands before.
    pub at: u32,
    /// Names the point.
    pub site_address: u64,
    /// The thread held a latch, so that the point is passed by.
    pub latched: bool,
}

/// What one thread ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    thread: u32,
    fetches: Vec<Fetch>,
    visits: Vec<SiteVisit>,
}

impl Operation {
    /// One without instructions yet, of this thread.
    pub fn new(thread: u32) -> Self {
        Self {
            thread,
            ..Self::default()
        }
    }

    /// The thread.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// The instructions in the order they ran.
    pub fn fetches(&self) -> &[Fetch] {
        &self.fetches
    }

    /// The compiled-in points it went through, in order.
    pub fn visits(&self) -> &[SiteVisit] {
        &self.visits
    }

    /// The next instruction.
    ///
    /// # Panics
    /// Beyond `u32::MAX` instructions, which a [`Recorder`] does not keep.
    pub fn fetch(&mut self, fetch: Fetch) {
        assert!(
            self.fetches.len() < u32::MAX as usize,
            "an operation of 2^32 instructions"
        );
        self.fetches.push(fetch);
    }

    /// A compiled-in point stands before the next instruction.
    pub fn visit(&mut self, site_address: u64, latched: bool) {
        self.visits.push(SiteVisit {
            at: self.fetches.len() as u32,
            site_address,
            latched,
        });
    }

    /// Distinct lines of `line_bytes` bytes that its instructions lie in. `line_bytes` is a power of two.
    pub fn footprint_lines(&self, line_bytes: u64) -> u64 {
        let lines: BTreeSet<u64> = self
            .fetches
            .iter()
            .flat_map(|fetch| lines_of(fetch, line_bytes.max(1)))
            .collect();
        lines.len() as u64
    }

    /// The lint: compiled-in points that were met inside a latch, with how often; a switch there never happens.
    pub fn latched_sites(&self) -> BTreeMap<u64, u64> {
        let mut sites = BTreeMap::new();
        for visit in self.visits.iter().filter(|visit| visit.latched) {
            *sites.entry(visit.site_address).or_default() += 1;
        }
        sites
    }
}

/// Numbers of the lines an instruction lies in.
pub(super) fn lines_of(fetch: &Fetch, line_bytes: u64) -> std::ops::RangeInclusive<u64> {
    let last = fetch.address.saturating_add(u64::from(fetch.bytes.max(1)) - 1);
    fetch.address / line_bytes..=last / line_bytes
}

/// How much a [`Recorder`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderLimits {
    /// Most instructions of all operations together; each takes 16 bytes.
    pub instructions_max: usize,
}

impl Default for RecorderLimits {
    /// 2^24 instructions: 256 MiB.
    fn default() -> Self {
        Self {
            instructions_max: 1 << 24,
        }
    }
}

/// Listens to a tracer and keeps the operations of all threads.
#[derive(Debug, Default)]
pub struct Recorder {
    limits: RecorderLimits,
    kept: usize,
    threads: BTreeMap<u32, Thread>,
    ended: Vec<Operation>,
    error: Option<InstructionCacheError>,
}

#[derive(Debug, Default)]
struct Thread {
    open: Option<Operation>,
    latches: u32,
    /// Where a call just led.
    called: Option<u64>,
}

impl Recorder {
    /// With these limits.
    pub fn new(limits: RecorderLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The operations that ended, in the order of their ends.
    ///
    /// # Errors
    /// [`InstructionCacheError::TooLong`], [`InstructionCacheError::Unpaired`] and [`InstructionCacheError::Unended`], the first that came.
    pub fn finish(mut self) -> Result<Vec<Operation>, InstructionCacheError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match self.threads.iter().find(|(_, thread)| thread.open.is_some()) {
            Some((&thread, _)) => Err(InstructionCacheError::Unended(thread)),
            None => Ok(self.ended),
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) -> Result<(), InstructionCacheError> {
        let limit = self.limits.instructions_max.min(u32::MAX as usize);
        let thread = self.threads.entry(instruction.thread).or_default();
        let called = thread.called.take();
        let Some(operation) = &mut thread.open else {
            return Ok(());
        };
        if self.kept == limit {
            return Err(InstructionCacheError::TooLong(limit));
        }
        self.kept += 1;
        operation.fetch(Fetch {
            address: instruction.address,
            bytes: instruction.bytes,
            latched: thread.latches > 0,
            entry: called == Some(instruction.address),
        });
        if let Flow::Call { target } | Flow::IndirectCall { target } = instruction.flow {
            thread.called = Some(target);
        }
        Ok(())
    }

    fn heard(&mut self, event: &Event<'_>) -> Result<(), InstructionCacheError> {
        match *event {
            Event::Instruction(instruction) => return self.instruction(&instruction),
            Event::Begin { thread: id } => {
                let thread = self.threads.entry(id).or_default();
                if thread.open.is_some() {
                    return Err(InstructionCacheError::Unpaired(id));
                }
                thread.open = Some(Operation::new(id));
                thread.called = None;
            }
            Event::End { thread: id } => {
                let open = self.threads.entry(id).or_default().open.take();
                self.ended.push(open.ok_or(InstructionCacheError::Unpaired(id))?);
            }
            Event::LatchEnter { thread } => {
                let latches = &mut self.threads.entry(thread).or_default().latches;
                *latches = latches.saturating_add(1);
            }
            Event::LatchLeave { thread } => {
                let latches = &mut self.threads.entry(thread).or_default().latches;
                *latches = latches.saturating_sub(1);
            }
            Event::Ctx { thread, site_address } => {
                let thread = self.threads.entry(thread).or_default();
                if let Some(operation) = &mut thread.open {
                    // A point a handful of bytes of code stands for: far fewer of them than instructions.
                    operation.visit(site_address, thread.latches > 0);
                }
            }
        }
        Ok(())
    }
}

impl InstructionSink for Recorder {
    fn event(&mut self, event: &Event<'_>) {
        if self.error.is_none() {
            self.error = self.heard(event).err();
        }
    }
}
