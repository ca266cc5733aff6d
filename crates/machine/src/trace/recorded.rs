//! Traces kept in a file, and played from it.
//!
//! ```text
//! "corun-trace 1\n"
//! modules     count, then of each: path, bias, start, end
//! CTX points  count, then of each: address, prefetches, line, column, file
//! records     one byte each, low half what it is, high half a small number, then what belongs to it:
//!             0-8  an instruction, its flow; high half its bytes; then the distance to its target, if it has one
//!             15   something else, high half what: begin, end, latch, CTX point, thread, a leap of the address, accesses of
//!                  the instruction that follows
//! ```
//!
//! Numbers are written in groups of 7 bits, lowest first; distances with their sign in the lowest bit. An instruction lies where the one
//! before led, unless a leap comes before it. A file that was cut or changed gives an error, never a crash.

use std::fs;
use std::path::{Path, PathBuf};

use corun_model::teams::CtxSite;
use corun_model::teams::instructions::{DataAccess, Event, Flow, Instruction, InstructionSink};

use super::{CtxPoint, Module, OperationEnd, OperationTrace, TraceError, TraceSource};

/// The first bytes of a file; the number is the version of the format.
const MAGIC: &[u8] = b"corun-trace 1\n";
/// Most accesses of one instruction.
const ACCESSES_MAX: u64 = 64;

/// Low half of the byte of a record that is no instruction.
const OTHER: u8 = 15;
/// High halves of those.
const BEGIN: u8 = 0;
const END: u8 = 1;
const LATCH_ENTER: u8 = 2;
const LATCH_LEAVE: u8 = 3;
const CTX: u8 = 4;
const THREAD: u8 = 5;
const LEAP: u8 = 6;
const ACCESSES: u8 = 7;

fn write_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn write_distance(into: &mut Vec<u8>, from: u64, to: u64) {
    let distance = to.wrapping_sub(from).cast_signed();
    write_number(into, ((distance << 1) ^ (distance >> 63)).cast_unsigned());
}

fn write_text(into: &mut Vec<u8>, text: &[u8]) {
    write_number(into, text.len() as u64);
    into.extend_from_slice(text);
}

/// Where an instruction led, as far as the format tells it from what follows.
fn led_to(address: u64, bytes: u8, flow: Flow) -> u64 {
    match flow {
        Flow::Next | Flow::System | Flow::Conditional { taken: false, .. } => {
            address.wrapping_add(u64::from(bytes))
        }
        Flow::Conditional { target, .. }
        | Flow::Jump { target }
        | Flow::IndirectJump { target }
        | Flow::Call { target }
        | Flow::IndirectCall { target }
        | Flow::Return { target } => target,
    }
}

/// State that writer and reader keep alike.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    thread: u32,
    /// Where the next instruction is expected.
    address: u64,
    /// The last byte touched.
    data: u64,
}

/// Keeps traces.
pub struct Recorder {
    bytes_max: usize,
    records: Vec<u8>,
    position: Position,
    overflowed: bool,
}

/// Writes records, and hands events on.
struct Writing<'a, 'b> {
    recorder: &'a mut Recorder,
    also: Option<&'b mut dyn InstructionSink>,
}

impl InstructionSink for Writing<'_, '_> {
    fn event(&mut self, event: &Event<'_>) {
        self.recorder.write(event);
        if let Some(also) = &mut self.also {
            also.event(event);
        }
    }
}

impl Recorder {
    /// Nothing yet. All that is recorded stays in memory, at most about `bytes_max` bytes of it.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            records: Vec::new(),
            position: Position::default(),
            overflowed: false,
        }
    }

    /// Takes the next operation of a source, which a second sink may hear too.
    ///
    /// # Errors
    /// As the source; and when the record becomes too large. What was recorded of that operation is dropped.
    pub fn record(
        &mut self,
        source: &mut dyn TraceSource,
        also: Option<&mut dyn InstructionSink>,
    ) -> Result<Option<OperationTrace>, TraceError> {
        let before = (self.records.len(), self.position);
        let traced = source.next_operation(&mut Writing {
            recorder: &mut *self,
            also,
        });
        let traced = match traced {
            Ok(_) if std::mem::take(&mut self.overflowed) => Err(TraceError::RecordingTooLarge {
                bytes_max: self.bytes_max,
            }),
            other => other,
        };
        match traced {
            Ok(Some(operation)) => self.records.push(match operation.end {
                OperationEnd::Marked => 0,
                OperationEnd::Returned => 1,
                OperationEnd::Unwound => 2,
            }),
            _ => {
                self.records.truncate(before.0);
                self.position = before.1;
                self.overflowed = false;
            }
        }
        traced
    }

    /// The bytes of a file with all that was recorded from a source.
    pub fn finish(self, source: &dyn TraceSource) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        write_number(&mut file, source.modules().len() as u64);
        for module in source.modules() {
            write_text(&mut file, module.path.as_os_str().as_encoded_bytes());
            for number in [module.bias, module.start, module.end] {
                write_number(&mut file, number);
            }
        }
        write_number(&mut file, source.ctx_points().len() as u64);
        for point in source.ctx_points() {
            write_number(&mut file, point.address);
            write_number(&mut file, u64::from(point.prefetches));
            write_number(&mut file, u64::from(point.site.line));
            write_number(&mut file, u64::from(point.site.column));
            write_text(&mut file, point.site.file.as_bytes());
        }
        file.extend(self.records);
        file
    }

    fn other(&mut self, what: u8, thread: u32) {
        if thread != self.position.thread {
            self.records.push(THREAD << 4 | OTHER);
            write_number(&mut self.records, u64::from(thread));
            self.position.thread = thread;
        }
        self.records.push(what << 4 | OTHER);
    }

    fn write(&mut self, event: &Event<'_>) {
        if self.overflowed || self.records.len() >= self.bytes_max {
            self.overflowed = true;
            return;
        }
        match *event {
            Event::Begin { thread } => self.other(BEGIN, thread),
            Event::End { thread } => self.other(END, thread),
            Event::LatchEnter { thread } => self.other(LATCH_ENTER, thread),
            Event::LatchLeave { thread } => self.other(LATCH_LEAVE, thread),
            Event::Ctx { thread, site_address } => {
                self.other(CTX, thread);
                write_number(&mut self.records, site_address);
            }
            Event::Instruction(instruction) => self.write_instruction(&instruction),
        }
    }

    fn write_instruction(&mut self, instruction: &Instruction<'_>) {
        let &Instruction {
            thread,
            address,
            bytes,
            flow,
            accesses,
        } = instruction;
        let accesses = &accesses[..accesses.len().min(ACCESSES_MAX as usize)];
        if address != self.position.address {
            self.other(LEAP, thread);
            write_distance(&mut self.records, self.position.address, address);
        }
        if !accesses.is_empty() {
            self.other(ACCESSES, thread);
            write_number(&mut self.records, accesses.len() as u64);
            for access in accesses {
                write_number(
                    &mut self.records,
                    u64::from(access.bytes) << 1 | u64::from(access.write),
                );
                write_distance(&mut self.records, self.position.data, access.address);
                self.position.data = access.address;
            }
        }
        if thread != self.position.thread {
            self.records.push(THREAD << 4 | OTHER);
            write_number(&mut self.records, u64::from(thread));
            self.position.thread = thread;
        }
        let (kind, target) = match flow {
            Flow::Next => (0, None),
            Flow::Conditional { taken: false, target } => (1, Some(target)),
            Flow::Conditional { taken: true, target } => (2, Some(target)),
            Flow::Jump { target } => (3, Some(target)),
            Flow::IndirectJump { target } => (4, Some(target)),
            Flow::Call { target } => (5, Some(target)),
            Flow::IndirectCall { target } => (6, Some(target)),
            Flow::Return { target } => (7, Some(target)),
            Flow::System => (8, None),
        };
        self.records.push(bytes << 4 | kind);
        if let Some(target) = target {
            write_distance(&mut self.records, address, target);
        }
        self.position.address = led_to(address, bytes, flow);
    }
}

/// Plays what a [`Recorder`] kept.
#[derive(Debug)]
pub struct Recorded {
    file: Vec<u8>,
    at: usize,
    position: Position,
    modules: Vec<Module>,
    points: Vec<CtxPoint>,
}

impl Recorded {
    /// From a file.
    ///
    /// # Errors
    /// When it cannot be read or is not such a file.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::new(fs::read(path).map_err(|error| TraceError::unreadable(path, &error))?)
    }

    /// From the bytes of a file.
    ///
    /// # Errors
    /// When they are not such a file's.
    pub fn new(file: Vec<u8>) -> Result<Self, TraceError> {
        let mut recorded = Self {
            file,
            at: 0,
            position: Position::default(),
            modules: Vec::new(),
            points: Vec::new(),
        };
        if !recorded.file.starts_with(MAGIC) {
            return Err(recorded.wrong("not a recorded trace of this version"));
        }
        recorded.at = MAGIC.len();
        for _ in 0..recorded.number()? {
            let path = recorded.text()?;
            let module = Module {
                path: PathBuf::from(path),
                bias: recorded.number()?,
                start: recorded.number()?,
                end: recorded.number()?,
            };
            recorded.modules.push(module);
        }
        for _ in 0..recorded.number()? {
            let address = recorded.number()?;
            let prefetches = recorded.number()? != 0;
            let line = recorded.small_number()?;
            let column = recorded.small_number()?;
            let file = recorded.text()?;
            recorded.points.push(CtxPoint {
                address,
                site: CtxSite { file, line, column },
                prefetches,
            });
        }
        Ok(recorded)
    }

    fn wrong(&self, what: &'static str) -> TraceError {
        TraceError::Recording {
            offset: self.at as u64,
            what,
        }
    }

    fn byte(&mut self) -> Result<u8, TraceError> {
        let byte = *self.file.get(self.at).ok_or_else(|| self.wrong("the end"))?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, TraceError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(self.wrong("a number that is too large"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.wrong("a number that is too large"))
    }

    fn small_number(&mut self) -> Result<u32, TraceError> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.wrong("a number that is too large"))
    }

    fn address_from(&mut self, from: u64) -> Result<u64, TraceError> {
        let number = self.number()?;
        let distance = (number >> 1) ^ (number & 1).wrapping_neg();
        Ok(from.wrapping_add(distance))
    }

    fn text(&mut self) -> Result<String, TraceError> {
        let length = self.number()?;
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| self.at.checked_add(length));
        let bytes = end.and_then(|end| self.file.get(self.at..end));
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| self.wrong("a text that is none"))?.to_owned();
        self.at += text.len();
        Ok(text)
    }

    fn accesses(&mut self, accesses: &mut Vec<DataAccess>) -> Result<(), TraceError> {
        let count = self.number()?;
        if count > ACCESSES_MAX || !accesses.is_empty() {
            return Err(self.wrong("too many accesses"));
        }
        for _ in 0..count {
            let size = self.number()?;
            let bytes = u32::try_from(size >> 1).ok().filter(|&bytes| bytes > 0);
            let bytes = bytes.ok_or_else(|| self.wrong("an access of no size"))?;
            self.position.data = self.address_from(self.position.data)?;
            accesses.push(DataAccess {
                address: self.position.data,
                bytes,
                write: size & 1 == 1,
            });
        }
        Ok(())
    }

    fn flow(&mut self, kind: u8) -> Result<Flow, TraceError> {
        let from = self.position.address;
        Ok(match kind {
            0 => Flow::Next,
            1 | 2 => Flow::Conditional {
                taken: kind == 2,
                target: self.address_from(from)?,
            },
            3 => Flow::Jump {
                target: self.address_from(from)?,
            },
            4 => Flow::IndirectJump {
                target: self.address_from(from)?,
            },
            5 => Flow::Call {
                target: self.address_from(from)?,
            },
            6 => Flow::IndirectCall {
                target: self.address_from(from)?,
            },
            7 => Flow::Return {
                target: self.address_from(from)?,
            },
            8 => Flow::System,
            _ => return Err(self.wrong("an unknown record")),
        })
    }

    fn play(&mut self, sink: &mut dyn InstructionSink) -> Result<OperationTrace, TraceError> {
        let mut accesses = Vec::new();
        let mut instructions = 0;
        let mut begun = false;
        loop {
            let head = self.byte()?;
            let (what, kind) = (head >> 4, head & 0xf);
            let thread = self.position.thread;
            if kind != OTHER {
                if !begun || what == 0 {
                    return Err(self.wrong("an instruction that cannot be"));
                }
                let address = self.position.address;
                let flow = self.flow(kind)?;
                sink.event(&Event::Instruction(Instruction {
                    thread,
                    address,
                    bytes: what,
                    flow,
                    accesses: &accesses,
                }));
                accesses.clear();
                instructions += 1;
                self.position.address = led_to(address, what, flow);
                continue;
            }
            match what {
                THREAD => self.position.thread = self.small_number()?,
                LEAP => self.position.address = self.address_from(self.position.address)?,
                BEGIN if !begun => {
                    begun = true;
                    sink.event(&Event::Begin { thread });
                }
                _ if !begun => return Err(self.wrong("a record outside of operations")),
                ACCESSES => self.accesses(&mut accesses)?,
                LATCH_ENTER => sink.event(&Event::LatchEnter { thread }),
                LATCH_LEAVE => sink.event(&Event::LatchLeave { thread }),
                CTX => {
                    let site_address = self.number()?;
                    sink.event(&Event::Ctx { thread, site_address });
                }
                END => {
                    let end = match self.byte()? {
                        0 => OperationEnd::Marked,
                        1 => OperationEnd::Returned,
                        2 => OperationEnd::Unwound,
                        _ => return Err(self.wrong("an unknown end")),
                    };
                    sink.event(&Event::End { thread });
                    return Ok(OperationTrace {
                        thread,
                        instructions,
                        end,
                    });
                }
                _ => return Err(self.wrong("an unknown record")),
            }
        }
    }
}

impl TraceSource for Recorded {
    /// After an error nothing more is played.
    fn next_operation(
        &mut self,
        sink: &mut dyn InstructionSink,
    ) -> Result<Option<OperationTrace>, TraceError> {
        if self.at == self.file.len() {
            return Ok(None);
        }
        let played = self.play(sink);
        if played.is_err() {
            self.at = self.file.len();
        }
        played.map(Some)
    }

    fn modules(&self) -> &[Module] {
        &self.modules
    }

    fn ctx_points(&self) -> &[CtxPoint] {
        &self.points
    }
}
