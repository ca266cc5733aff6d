//! Machine instructions: where each hands on to, and which memory it touches. Each address is decoded once.

use std::collections::HashMap;

use corun_model::teams::instructions::{DataAccess, Flow};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions,
    Mnemonic, OpAccess, Register, UsedMemory,
};
use libc::user_regs_struct;

use crate::trace::elf::marker_kind;

/// Longest instruction.
pub(super) const INSTRUCTION_BYTES_MAX: usize = 15;
/// Most memory operands kept of one instruction; those of the usual ones are at most 2.
const OPERANDS_MAX: usize = 4;
/// Most accesses one instruction is said to make.
pub(super) const ACCESSES_MAX: usize = 2 * OPERANDS_MAX;
/// Bytes an operand of unknown size (state of the floating-point unit) is taken to have.
const UNKNOWN_BYTES: u32 = 512;

/// How an instruction hands on, as far as its bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Next,
    Conditional,
    Jump,
    IndirectJump,
    Call,
    IndirectCall,
    Return,
    System,
    /// `int3` and the like: the program traps itself.
    Trap,
}

/// A memory operand.
#[derive(Clone, Copy, Debug)]
struct Operand {
    base: Register,
    index: Register,
    scale: u32,
    segment: Register,
    /// The address is cut to 32 bits.
    narrow: bool,
    displacement: u64,
    bytes: u32,
    read: bool,
    write: bool,
}

/// What is known of an instruction before it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoded {
    pub bytes: u8,
    pub kind: Kind,
    /// Where a direct branch leads.
    pub target: u64,
    /// The marker instruction it is; 0 if none.
    pub marker: u8,
    /// A string instruction that repeats: one repetition is one step.
    pub repeats: bool,
    /// It stores the flags, where the step itself would show.
    pub stores_flags: bool,
    operands: [Operand; OPERANDS_MAX],
    operand_count: u8,
}

impl Decoded {
    /// Whether its accesses depend on registers, or it must be seen where it led.
    pub fn needs_registers(&self) -> bool {
        self.operand_count > 0 || self.kind == Kind::System
    }

    /// Whether the instruction behind it need not be the next one.
    pub fn leads_elsewhere(&self) -> bool {
        self.kind != Kind::Next || self.repeats
    }

    /// How it handed on, now that the next address is known.
    pub fn flow(&self, next: u64) -> Flow {
        match self.kind {
            Kind::Next | Kind::Trap => Flow::Next,
            Kind::Conditional => Flow::Conditional {
                taken: next == self.target,
                target: self.target,
            },
            Kind::Jump => Flow::Jump { target: self.target },
            Kind::Call => Flow::Call { target: self.target },
            Kind::IndirectJump => Flow::IndirectJump { target: next },
            Kind::IndirectCall => Flow::IndirectCall { target: next },
            Kind::Return => Flow::Return { target: next },
            Kind::System => Flow::System,
        }
    }

    /// The memory it touches when it runs with these registers; how many accesses were written.
    pub fn accesses(&self, registers: &user_regs_struct, accesses: &mut [DataAccess; ACCESSES_MAX]) -> usize {
        if self.repeats && registers.rcx == 0 {
            return 0;
        }
        let mut count = 0;
        for operand in &self.operands[..usize::from(self.operand_count)] {
            let mut address = operand
                .displacement
                .wrapping_add(value(registers, operand.base))
                .wrapping_add(value(registers, operand.index).wrapping_mul(u64::from(operand.scale)));
            if operand.narrow {
                address &= u64::from(u32::MAX);
            }
            address = address.wrapping_add(match operand.segment {
                Register::FS => registers.fs_base,
                Register::GS => registers.gs_base,
                _ => 0,
            });
            for write in [false, true] {
                if if write { operand.write } else { operand.read } {
                    accesses[count] = DataAccess {
                        address,
                        bytes: operand.bytes,
                        write,
                    };
                    count += 1;
                }
            }
        }
        count
    }
}

/// The value of a register. Vector registers, the index of gathers, count as 0.
fn value(registers: &user_regs_struct, register: Register) -> u64 {
    let whole = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        _ => 0,
    };
    match register.size() {
        8 => whole,
        4 => whole & u64::from(u32::MAX),
        2 => whole & 0xffff,
        // `xlat` alone has a byte as index: al.
        1 => whole & 0xff,
        _ => 0,
    }
}

const NO_OPERAND: Operand = Operand {
    base: Register::None,
    index: Register::None,
    scale: 1,
    segment: Register::None,
    narrow: false,
    displacement: 0,
    bytes: 0,
    read: false,
    write: false,
};

/// An operand; `string_bytes` are those of one repetition of a string instruction, 0 for others.
fn operand(memory: &UsedMemory, string_bytes: u32) -> Option<Operand> {
    let (read, write) = match memory.access() {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    let bytes = (memory.memory_size().size() as u32).max(string_bytes);
    Some(Operand {
        base: memory.base(),
        index: memory.index(),
        scale: memory.scale(),
        segment: memory.segment(),
        narrow: memory.address_size() == iced_x86::CodeSize::Code32,
        displacement: memory.displacement(),
        bytes: if bytes == 0 { UNKNOWN_BYTES } else { bytes },
        read,
        write,
    })
}

fn kind(instruction: &Instruction) -> Kind {
    if matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int
    ) {
        return Kind::System;
    }
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => Kind::Jump,
        FlowControl::IndirectBranch => Kind::IndirectJump,
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => Kind::Conditional,
        FlowControl::Return => Kind::Return,
        FlowControl::Call => Kind::Call,
        FlowControl::IndirectCall => Kind::IndirectCall,
        FlowControl::Interrupt => Kind::Trap,
        FlowControl::Next | FlowControl::Exception => Kind::Next,
    }
}

/// Decodes, and remembers what it decoded.
pub(super) struct Decoding {
    known: HashMap<u64, Decoded>,
    factory: InstructionInfoFactory,
}

impl Decoding {
    pub fn new() -> Self {
        Self {
            known: HashMap::new(),
            factory: InstructionInfoFactory::new(),
        }
    }

    /// Forgets everything: the code may have changed since.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// The instruction at an address. `read` fills a buffer from there and says how many bytes it could. `None` for bytes that are
    /// no instruction.
    pub fn at(&mut self, address: u64, read: impl FnOnce(&mut [u8]) -> usize) -> Option<Decoded> {
        if let Some(known) = self.known.get(&address) {
            return Some(*known);
        }
        let mut bytes = [0; INSTRUCTION_BYTES_MAX];
        let there = read(&mut bytes).min(INSTRUCTION_BYTES_MAX);
        let decoded = self.decode(address, &bytes[..there])?;
        self.known.insert(address, decoded);
        Some(decoded)
    }

    fn decode(&mut self, address: u64, bytes: &[u8]) -> Option<Decoded> {
        let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        if instruction.code() == Code::INVALID {
            return None;
        }
        let mut operands = [NO_OPERAND; OPERANDS_MAX];
        let mut count = 0;
        let string_bytes = if instruction.is_string_instruction() {
            instruction.memory_size().size() as u32
        } else {
            0
        };
        let information = self
            .factory
            .info_options(&instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
        for operand in information
            .used_memory()
            .iter()
            .filter_map(|memory| operand(memory, string_bytes))
            .take(OPERANDS_MAX)
        {
            operands[count] = operand;
            count += 1;
        }
        Some(Decoded {
            bytes: instruction.len() as u8,
            kind: kind(&instruction),
            target: instruction.near_branch_target(),
            marker: marker_kind(bytes).unwrap_or(0),
            repeats: instruction.is_string_instruction()
                && (instruction.has_rep_prefix() || instruction.has_repne_prefix()),
            stores_flags: matches!(
                instruction.mnemonic(),
                Mnemonic::Pushf | Mnemonic::Pushfd | Mnemonic::Pushfq
            ),
            operands,
            operand_count: count as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 0x1000;

    fn decoded(bytes: &[u8]) -> Decoded {
        Decoding::new().decode(HERE, bytes).expect("an instruction")
    }

    fn registers() -> user_regs_struct {
        // SAFETY: all zeroes is a value of this structure of integers.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        registers.rax = 0xffff_ffff_0000_0010;
        registers.rcx = 3;
        registers.rsp = 0x8000;
        registers.rsi = 0x2000;
        registers.rdi = 0x3000;
        registers.fs_base = 0x7000_0000;
        registers
    }

    fn touched(bytes: &[u8]) -> Vec<(u64, u32, bool)> {
        let mut accesses = [DataAccess {
            address: 0,
            bytes: 0,
            write: false,
        }; ACCESSES_MAX];
        let count = decoded(bytes).accesses(&registers(), &mut accesses);
        accesses[..count]
            .iter()
            .map(|access| (access.address, access.bytes, access.write))
            .collect()
    }

    #[test]
    fn every_way_to_hand_on_is_told_apart() {
        let next = Flow::Next;
        for (bytes, length, led_to, flow) in [
            (&[0x90][..], 1, 0x1001, next),
            (
                &[0x75, 0x10],
                2,
                0x1012,
                Flow::Conditional {
                    taken: true,
                    target: 0x1012,
                },
            ),
            (
                &[0x75, 0x10],
                2,
                0x1002,
                Flow::Conditional {
                    taken: false,
                    target: 0x1012,
                },
            ),
            (
                &[0xe2, 0xfe],
                2,
                0x1000,
                Flow::Conditional {
                    taken: true,
                    target: 0x1000,
                },
            ),
            (&[0xeb, 0x10], 2, 0x1012, Flow::Jump { target: 0x1012 }),
            (&[0xff, 0xe0], 2, 0x5555, Flow::IndirectJump { target: 0x5555 }),
            (&[0xe8, 0x10, 0, 0, 0], 5, 0x1015, Flow::Call { target: 0x1015 }),
            (&[0xff, 0xd0], 2, 0x5555, Flow::IndirectCall { target: 0x5555 }),
            (&[0xc3], 1, 0x5555, Flow::Return { target: 0x5555 }),
            (&[0x0f, 0x05], 2, 0x1002, Flow::System),
        ] {
            let instruction = decoded(bytes);
            assert_eq!(
                (instruction.bytes, instruction.flow(led_to)),
                (length, flow),
                "{bytes:02x?}"
            );
        }
        assert_eq!(decoded(&[0xcc]).kind, Kind::Trap);
        assert!(
            Decoding::new().decode(HERE, &[0x0f, 0x05][..1]).is_none(),
            "cut short"
        );
    }

    #[test]
    fn addresses_come_from_registers() {
        // mov rax, [rsi + rcx*8 + 16]; mov [rip + 1], eax; mov rax, fs:[0]; lea rax, [rsi]; prefetcht0 [rsi]
        assert_eq!(touched(&[0x48, 0x8b, 0x44, 0xce, 0x10]), [(0x2028, 8, false)]);
        assert_eq!(touched(&[0x89, 0x05, 1, 0, 0, 0]), [(0x1007, 4, true)]);
        assert_eq!(
            touched(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]),
            [(0x7000_0000, 8, false)]
        );
        assert_eq!(touched(&[0x48, 0x8d, 0x06]), []);
        assert_eq!(touched(&[0x0f, 0x18, 0x0e]), []);
        // Those without an operand written out: push rax; ret; call +0; and add [rsi], eax, which reads and writes.
        assert_eq!(touched(&[0x50]), [(0x7ff8, 8, true)]);
        assert_eq!(touched(&[0xc3]), [(0x8000, 8, false)]);
        assert_eq!(touched(&[0xe8, 0, 0, 0, 0]), [(0x7ff8, 8, true)]);
        assert_eq!(touched(&[0x01, 0x06]), [(0x2000, 4, false), (0x2000, 4, true)]);
        // mov rbx, [eax]: the address is of 32 bits.
        assert_eq!(touched(&[0x67, 0x48, 0x8b, 0x18]), [(0x10, 8, false)]);
    }

    #[test]
    fn a_repeated_string_instruction_is_one_repetition_a_step() {
        // rep movsb
        let instruction = decoded(&[0xf3, 0xa4]);
        assert!(instruction.repeats && instruction.leads_elsewhere());
        assert_eq!(touched(&[0xf3, 0xa4]), [(0x3000, 1, true), (0x2000, 1, false)]);
        let mut done = registers();
        done.rcx = 0;
        let mut accesses = [DataAccess {
            address: 0,
            bytes: 0,
            write: false,
        }; ACCESSES_MAX];
        assert_eq!(instruction.accesses(&done, &mut accesses), 0);
        assert!(!decoded(&[0xf3, 0xc3]).repeats, "rep ret");
    }

    #[test]
    fn markers_are_instructions_that_touch_nothing() {
        let marker = [0x0f, 0x1f, 0x84, 0x00, 0x03, 0x45, 0x54, 0x53];
        let instruction = decoded(&marker);
        assert_eq!(
            (instruction.bytes, instruction.marker, instruction.kind),
            (8, 3, Kind::Next)
        );
        assert_eq!(touched(&marker), []);
        assert!(decoded(&[0x9c]).stores_flags);
    }
}
