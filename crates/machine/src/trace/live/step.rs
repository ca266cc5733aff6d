//! Steps one thread through one operation, and says each instruction to a sink.
//!
//! Registers are read only where they are needed: before an instruction that touches memory, and behind one that may lead elsewhere.
//! In between, the next address is the one behind the instruction; the next reading checks that.

use std::collections::HashMap;

use corun_model::teams::instructions::{DataAccess, Event, Flow, Instruction, InstructionSink};
use libc::{c_int, user_regs_struct};

use super::decode::{ACCESSES_MAX, Decoded, Decoding, Kind};
use super::image::{self, BEGIN, END, LATCH_ENTER, LATCH_LEAVE};
use super::process::{Process, Stepped};
use super::ptrace;
use crate::trace::points::RECORD_BYTES;
use crate::trace::{OperationEnd, OperationTrace, ProgramEnd, TraceError};

/// Latches whose release is under way at a time; more than that are not told apart.
const LEAVING_MAX: usize = 64;
/// Steps between two looks at the clock.
const STEPS_A_LOOK: u64 = 1_024;
/// The bit of the flags that makes the processor step.
const TRAP_FLAG: u8 = 1;
/// `si_code` of the report that a signal's handler was entered, rather than an instruction run.
const HANDLER_ENTERED: c_int = libc::SIGTRAP;

/// Where an operation ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// At the end marker that belongs to its begin marker.
    Marker {
        /// Begin markers passed without their end.
        depth: u32,
    },
    /// When the frame of its function is gone.
    Frame {
        /// Where the function returns to.
        returns_to: u64,
        /// The stack pointer at its entry.
        stack: u64,
        /// The end of that stack: above it is another one.
        stack_end: u64,
    },
}

/// What is known of the program's code while it is stepped.
pub(super) struct Code {
    pub decoding: Decoding,
    /// Entries of functions that take (true) and release (false) latches.
    pub latches: HashMap<u64, bool>,
    /// Memory that holds records of CTX points: address and bytes.
    pub ctx_sections: Vec<(u64, u64)>,
}

impl Code {
    /// The record of a CTX point these accesses test, if they do.
    fn ctx_site(&self, accesses: &[DataAccess]) -> Option<u64> {
        let tests = |access: &&DataAccess| {
            !access.write
                && access.bytes == 1
                && self.ctx_sections.iter().any(|&(start, bytes)| {
                    let offset = access.address.wrapping_sub(start);
                    offset < bytes && offset.is_multiple_of(RECORD_BYTES)
                })
        };
        if self.ctx_sections.is_empty() {
            return None;
        }
        accesses.iter().find(tests).map(|access| access.address)
    }
}

/// One operation under way.
pub(super) struct Stepping<'a> {
    pub process: &'a mut Process,
    pub code: &'a mut Code,
    pub sink: &'a mut dyn InstructionSink,
    pub thread: u32,
    pub until: Until,
    pub instructions_max: u64,
    /// Instructions run so far.
    pub instructions: &'a mut u64,
    /// Stack pointers at the entries of release functions that have not returned yet.
    pub leaving: Vec<u64>,
}

impl Stepping<'_> {
    fn registers(&self) -> Result<user_regs_struct, TraceError> {
        ptrace::registers(self.thread).map_err(|error| match error.raw_os_error() {
            // Killed between two steps; how, the caller finds out.
            Some(libc::ESRCH) => TraceError::ThreadEnded {
                thread: self.thread,
                instructions: *self.instructions,
            },
            _ => TraceError::system("read registers", &error),
        })
    }

    /// Whether the operation ended before the instruction these registers are at.
    fn has_ended(&self, registers: &user_regs_struct) -> Option<OperationEnd> {
        let Until::Frame {
            returns_to,
            stack,
            stack_end,
        } = self.until
        else {
            return None;
        };
        if registers.rsp <= stack || registers.rsp > stack_end {
            return None;
        }
        Some(if registers.rip == returns_to {
            OperationEnd::Returned
        } else {
            OperationEnd::Unwound
        })
    }

    /// Counts nested markers; whether this one ends the operation.
    fn at_marker(&mut self, marker: u8) -> bool {
        if let Until::Marker { depth } = &mut self.until {
            match marker {
                BEGIN => *depth += 1,
                END if *depth <= 1 => return true,
                END => *depth -= 1,
                _ => {}
            }
        }
        false
    }

    /// The instruction at an address.
    fn decoded(&mut self, address: u64) -> Result<Decoded, TraceError> {
        let breakpoints = &self.process.breakpoints;
        let decoded = self
            .code
            .decoding
            .at(address, |bytes| breakpoints.code(address, bytes));
        decoded.ok_or_else(|| {
            let mut bytes = [0; 15];
            let there = self.process.breakpoints.code(address, &mut bytes);
            TraceError::Undecodable {
                address,
                bytes: bytes[..there].to_vec(),
            }
        })
    }

    /// Steps from where the thread stands to the operation's end. The thread then stands behind it.
    pub fn run(mut self) -> Result<OperationTrace, TraceError> {
        self.sink.event(&Event::Begin { thread: self.thread });
        let end = self.steps()?;
        self.sink.event(&Event::End { thread: self.thread });
        Ok(OperationTrace {
            thread: self.thread,
            instructions: *self.instructions,
            end,
        })
    }

    fn steps(&mut self) -> Result<OperationEnd, TraceError> {
        let mut registers = self.registers()?;
        let mut address = registers.rip;
        // Whether `registers` are those before the instruction at `address`.
        let mut fresh = true;
        // The program's own signal to deliver with the next step.
        let mut signal = 0;
        let mut accesses = [DataAccess {
            address: 0,
            bytes: 0,
            write: false,
        }; ACCESSES_MAX];
        loop {
            if fresh && let Some(end) = self.has_ended(&registers) {
                return Ok(end);
            }
            if *self.instructions >= self.instructions_max {
                return Err(TraceError::TooLong {
                    instructions_max: self.instructions_max,
                });
            }
            if self.instructions.is_multiple_of(STEPS_A_LOOK) {
                self.process.check_limits()?;
            }
            let decoded = self.decoded(address)?;
            if decoded.needs_registers() && !fresh {
                registers = self.registers()?;
                fresh = true;
                if registers.rip != address {
                    address = registers.rip;
                }
                continue;
            }
            if decoded.marker != 0 && signal == 0 && self.at_marker(decoded.marker) {
                return Ok(OperationEnd::Marked);
            }
            let count = decoded.accesses(&registers, &mut accesses);
            let stepped = self
                .process
                .step(self.thread, signal, decoded.kind == Kind::System)?;
            match stepped {
                Stepped::Done if signal == 0 => {}
                Stepped::Done => {
                    registers = self.registers()?;
                    let entered = ptrace::signal_code(self.thread).is_ok_and(|code| code == HANDLER_ENTERED);
                    signal = 0;
                    if entered {
                        address = registers.rip;
                        fresh = true;
                        continue;
                    }
                }
                Stepped::Signal(next) => {
                    signal = next;
                    registers = self.registers()?;
                    fresh = true;
                    // Interrupted before it ran, except a system call, which ran first.
                    if registers.rip == address {
                        continue;
                    }
                }
                Stepped::Ended(end) => return Err(self.ended(end, &decoded, &registers)),
                Stepped::Replaced => {
                    return Err(TraceError::Replaced {
                        instructions: *self.instructions,
                    });
                }
            }
            let before = registers;
            let next = if decoded.leads_elsewhere() || signal != 0 {
                registers = self.registers()?;
                fresh = true;
                registers.rip
            } else {
                fresh = false;
                address.wrapping_add(u64::from(decoded.bytes))
            };
            if decoded.kind == Kind::Trap {
                signal = libc::SIGTRAP;
            }
            if decoded.stores_flags {
                self.hide_step(before.rsp);
            }
            self.say(address, &decoded, next, &accesses[..count], before.rsp);
            if fresh && decoded.leads_elsewhere() {
                self.at_entry(next, &registers);
            }
            address = next;
        }
    }

    /// Tells the sink of an instruction that ran, and of what it means.
    fn say(&mut self, address: u64, decoded: &Decoded, next: u64, accesses: &[DataAccess], stack: u64) {
        let thread = self.thread;
        *self.instructions += 1;
        if decoded.marker == LATCH_ENTER {
            self.sink.event(&Event::LatchEnter { thread });
        }
        if let Some(site_address) = self.code.ctx_site(accesses) {
            self.sink.event(&Event::Ctx { thread, site_address });
        }
        let flow = decoded.flow(next);
        self.sink.event(&Event::Instruction(Instruction {
            thread,
            address,
            bytes: decoded.bytes,
            flow,
            accesses,
        }));
        let released = matches!(flow, Flow::Return { .. }) && self.leaving.last() == Some(&stack);
        if released {
            self.leaving.pop();
        }
        if released || decoded.marker == LATCH_LEAVE {
            self.sink.event(&Event::LatchLeave { thread });
        }
    }

    /// Notices the entry of a function that takes or releases a latch.
    fn at_entry(&mut self, address: u64, registers: &user_regs_struct) {
        match self.code.latches.get(&address) {
            Some(true) => self.sink.event(&Event::LatchEnter { thread: self.thread }),
            Some(false) => {
                // Frames that a long jump left behind lie below.
                self.leaving.retain(|stack| *stack > registers.rsp);
                if self.leaving.len() < LEAVING_MAX {
                    self.leaving.push(registers.rsp);
                }
            }
            None => {}
        }
    }

    /// The program stored the flags, in which the step shows, and would set it itself when it loads them: clears it there.
    fn hide_step(&self, stack_before: u64) {
        // Whether it stored 2 or 8 bytes, the second byte holds the bit.
        for bytes in [8, 2] {
            let at = stack_before.wrapping_sub(bytes) + 1;
            if ptrace::registers(self.thread).is_ok_and(|now| now.rsp == stack_before.wrapping_sub(bytes)) {
                let mut byte = [0];
                if self.process.breakpoints.read(at, &mut byte) {
                    self.process.breakpoints.write(at, &[byte[0] & !TRAP_FLAG]);
                }
            }
        }
    }

    /// Why the thread is no more.
    fn ended(&self, end: ProgramEnd, last: &Decoded, registers: &user_regs_struct) -> TraceError {
        let instructions = *self.instructions;
        // `exit` ends the thread alone, `exit_group` all; a thread that others end has called neither.
        let by_itself = last.kind == Kind::System && registers.rax == libc::SYS_exit as u64;
        if by_itself && self.process.ended.is_none() {
            return TraceError::ThreadEnded {
                thread: self.thread,
                instructions,
            };
        }
        TraceError::EndedInside { end, instructions }
    }
}

/// The bounds of an operation that is a call of a function, at whose entry these registers are.
pub(super) fn frame(process: &Process, registers: &user_regs_struct) -> Result<Until, TraceError> {
    let returns_to = process
        .breakpoints
        .word(registers.rsp)
        .ok_or_else(|| TraceError::System {
            doing: "read where the function returns to".to_owned(),
            reason: format!("nothing is mapped at its stack pointer {:#x}", registers.rsp),
        })?;
    Ok(Until::Frame {
        returns_to,
        stack: registers.rsp,
        stack_end: image::mapping_end(process.id, registers.rsp).unwrap_or(u64::MAX),
    })
}
