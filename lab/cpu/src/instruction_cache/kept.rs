//! [`Kept`]: a trace in memory, so that the same instructions can run through many simulated cores.
//!
//! Order of calls: a tracer feeds it, [`Kept::occurrences`] says which events lie between which markers, [`Kept::replay`] hands some of
//! them to a core. Bounded: what does not fit is counted and refused by [`Kept::complete`]. Not here: what a core makes of it.

use std::collections::BTreeSet;
use std::ops::Range;

use corun_model::teams::instructions::{DataAccess, Event, Flow, Instruction, InstructionSink};

use lab_core::error::BenchError;

/// Most events kept: about 50 bytes each, so 1 GiB.
const EVENTS_MAX: usize = 20_000_000;

/// An event whose data accesses are kept apart.
#[derive(Clone, Copy, Debug)]
enum Item {
    Begin(u32),
    End(u32),
    Instruction {
        thread: u32,
        address: u64,
        bytes: u8,
        flow: Flow,
        accesses: u8,
        first: u32,
    },
    LatchEnter(u32),
    LatchLeave(u32),
    Ctx(u32, u64),
}

/// The events of a traced run.
#[derive(Debug, Default)]
pub struct Kept {
    items: Vec<Item>,
    accesses: Vec<DataAccess>,
    dropped: u64,
}

impl InstructionSink for Kept {
    fn event(&mut self, event: &Event<'_>) {
        if self.items.len() >= EVENTS_MAX {
            self.dropped += 1;
            return;
        }
        let item = match *event {
            Event::Begin { thread } => Item::Begin(thread),
            Event::End { thread } => Item::End(thread),
            Event::LatchEnter { thread } => Item::LatchEnter(thread),
            Event::LatchLeave { thread } => Item::LatchLeave(thread),
            Event::Ctx { thread, site_address } => Item::Ctx(thread, site_address),
            Event::Instruction(instruction) => {
                let first = self.accesses.len() as u32;
                let accesses = instruction.accesses.len().min(usize::from(u8::MAX));
                self.accesses.extend(&instruction.accesses[..accesses]);
                Item::Instruction {
                    thread: instruction.thread,
                    address: instruction.address,
                    bytes: instruction.bytes,
                    flow: instruction.flow,
                    accesses: accesses as u8,
                    first,
                }
            }
        };
        self.items.push(item);
    }
}

impl Kept {
    /// The trace, if all of it was kept.
    ///
    /// # Errors
    /// If it was too long.
    pub fn complete(self) -> Result<Kept, BenchError> {
        match self.dropped {
            0 => Ok(self),
            dropped => Err(BenchError::Data(format!(
                "the trace has {dropped} events more than the {EVENTS_MAX} that are kept; trace fewer members or rounds"
            ))),
        }
    }

    /// The events of each stretch between a begin and an end, markers included, in order.
    pub fn occurrences(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut begin = None;
        for (at, item) in self.items.iter().enumerate() {
            match item {
                Item::Begin(_) => begin = Some(at),
                Item::End(_) => {
                    if let Some(begin) = begin.take() {
                        found.push(begin..at + 1);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Hands events to a sink.
    pub fn replay(&self, events: Range<usize>, sink: &mut dyn InstructionSink) {
        for item in &self.items[events] {
            match *item {
                Item::Begin(thread) => sink.event(&Event::Begin { thread }),
                Item::End(thread) => sink.event(&Event::End { thread }),
                Item::LatchEnter(thread) => sink.event(&Event::LatchEnter { thread }),
                Item::LatchLeave(thread) => sink.event(&Event::LatchLeave { thread }),
                Item::Ctx(thread, site_address) => sink.event(&Event::Ctx { thread, site_address }),
                Item::Instruction {
                    thread,
                    address,
                    bytes,
                    flow,
                    accesses,
                    first,
                } => {
                    let first = first as usize;
                    sink.event(&Event::Instruction(Instruction {
                        thread,
                        address,
                        bytes,
                        flow,
                        accesses: &self.accesses[first..first + usize::from(accesses)],
                    }));
                }
            }
        }
    }

    /// Numbers of the code lines of `line_bytes` bytes (a power of two) that the instructions of `events` lie in.
    pub fn lines(&self, events: Range<usize>, line_bytes: u32) -> BTreeSet<u64> {
        let line_bytes = u64::from(line_bytes.max(1));
        let mut lines = BTreeSet::new();
        for item in &self.items[events] {
            if let Item::Instruction { address, bytes, .. } = *item {
                lines.extend(address / line_bytes..=(address + u64::from(bytes.max(1)) - 1) / line_bytes);
            }
        }
        lines
    }

    /// Passages of compiled-in CTX points among `events`, those inside a latch left out.
    pub fn visits(&self, events: Range<usize>) -> Vec<u64> {
        let mut latches = 0u32;
        let mut visits = Vec::new();
        for item in &self.items[events] {
            match *item {
                Item::LatchEnter(_) => latches += 1,
                Item::LatchLeave(_) => latches = latches.saturating_sub(1),
                Item::Ctx(_, site) if latches == 0 => visits.push(site),
                _ => {}
            }
        }
        visits
    }
}

/// Hands events on, and behind each passage of one of some CTX points a stretch of code that does nothing: as if the switch were larger
/// (Figure 8).
pub struct Padded<'s> {
    sink: &'s mut dyn InstructionSink,
    sites: &'s BTreeSet<u64>,
    bytes: u64,
    latches: u32,
}

/// Where the padding lies: no program has code there.
const PADDING_AT: u64 = 0x0000_1000_0000_0000;
/// A padding instruction; `nop`s of 8 bytes, so that a line has the usual number of instructions.
const PADDING_BYTES: u8 = 8;

impl<'s> Padded<'s> {
    /// Adds `bytes` of code at each of `sites`.
    pub fn new(sink: &'s mut dyn InstructionSink, sites: &'s BTreeSet<u64>, bytes: u64) -> Padded<'s> {
        Padded {
            sink,
            sites,
            bytes,
            latches: 0,
        }
    }
}

impl InstructionSink for Padded<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.sink.event(event);
        match *event {
            Event::LatchEnter { .. } => self.latches += 1,
            Event::LatchLeave { .. } => self.latches = self.latches.saturating_sub(1),
            Event::Ctx { thread, site_address }
                if self.latches == 0 && self.sites.contains(&site_address) =>
            {
                for at in (0..self.bytes).step_by(usize::from(PADDING_BYTES)) {
                    self.sink.event(&Event::Instruction(Instruction {
                        thread,
                        address: PADDING_AT + at,
                        bytes: PADDING_BYTES,
                        flow: Flow::Next,
                        accesses: &[],
                    }));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(address: u64, accesses: &[DataAccess]) -> Event<'_> {
        Event::Instruction(Instruction {
            thread: 1,
            address,
            bytes: 4,
            flow: Flow::Next,
            accesses,
        })
    }

    fn kept() -> Kept {
        let read = [DataAccess {
            address: 0x900,
            bytes: 8,
            write: false,
        }];
        let mut kept = Kept::default();
        for event in [
            Event::Begin { thread: 1 },
            instruction(62, &read),
            Event::Ctx {
                thread: 1,
                site_address: 7,
            },
            Event::LatchEnter { thread: 1 },
            Event::Ctx {
                thread: 1,
                site_address: 8,
            },
            Event::LatchLeave { thread: 1 },
            Event::End { thread: 1 },
            Event::Begin { thread: 1 },
            instruction(256, &[]),
            Event::End { thread: 1 },
        ] {
            kept.event(&event);
        }
        kept
    }

    #[test]
    fn occurrences_lines_and_visits_are_found() {
        let kept = kept();
        assert_eq!(kept.occurrences(), [0..7, 7..10]);
        // The first instruction lies in two lines.
        assert_eq!(kept.lines(0..7, 64), BTreeSet::from([0, 1]));
        assert_eq!(kept.lines(7..10, 64), BTreeSet::from([4]));
        assert_eq!(kept.visits(0..7), [7]);
    }

    #[test]
    fn a_replay_is_what_was_kept() {
        let kept = kept();
        let mut again = Kept::default();
        kept.replay(0..10, &mut again);
        assert_eq!(format!("{:?}", again.items), format!("{:?}", kept.items));
        assert_eq!(again.accesses, kept.accesses);
    }

    #[test]
    fn padding_stands_behind_points_that_switch() {
        let kept = kept();
        let sites = BTreeSet::from([7, 8]);
        let mut padded = Kept::default();
        kept.replay(0..7, &mut Padded::new(&mut padded, &sites, 128));
        let padding: Vec<u64> = padded
            .lines(0..padded.items.len(), 64)
            .into_iter()
            .filter(|line| line * 64 >= PADDING_AT)
            .collect();
        assert_eq!(padding.len(), 2);
        // Point 8 is inside a latch.
        assert_eq!(padded.items.len(), 7 + 16);
    }

    #[test]
    fn a_trace_that_did_not_fit_is_refused() {
        let mut kept = kept();
        kept.dropped = 1;
        assert!(kept.complete().is_err());
    }
}
