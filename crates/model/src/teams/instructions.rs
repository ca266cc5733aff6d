//! What a tracer says of a program that runs, one instruction after the other, and who listens.
//!
//! A tracer hands an [`InstructionSink`] an [`Event`] for each instruction of the traced operation, in the order they ran, between a
//! [`Event::Begin`] and an [`Event::End`]. What is between two operations is not traced. Addresses are those of the traced process.
//!
//! Not here: caches, branch predictors and how a trace is taken.

/// How an instruction hands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the instruction behind it.
    Next,
    /// A branch that is taken or not.
    Conditional {
        /// Whether it was.
        taken: bool,
        /// Where it leads if taken.
        target: u64,
    },
    /// A jump whose target is part of the instruction.
    Jump {
        /// Where it leads.
        target: u64,
    },
    /// A jump to an address in a register or in memory.
    IndirectJump {
        /// Where it led.
        target: u64,
    },
    /// A call whose target is part of the instruction.
    Call {
        /// Where it leads.
        target: u64,
    },
    /// A call of an address in a register or in memory.
    IndirectCall {
        /// Where it led.
        target: u64,
    },
    /// A return.
    Return {
        /// Where it led.
        target: u64,
    },
    /// Into the kernel and back; what the kernel runs is not traced.
    System,
}

/// Bytes of memory an instruction read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAccess {
    /// First byte.
    pub address: u64,
    /// How many bytes; at least 1.
    pub bytes: u32,
    /// Written rather than read. What is read and written counts twice.
    pub write: bool,
}

/// One instruction that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// Which thread of the traced process ran it.
    pub thread: u32,
    /// First byte.
    pub address: u64,
    /// Its length, 1 to 15 bytes.
    pub bytes: u8,
    /// Where it handed on to.
    pub flow: Flow,
    /// Data it touched, prefetches not included.
    pub accesses: &'a [DataAccess],
}

/// What a tracer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A traced operation begins.
    Begin {
        /// On this thread.
        thread: u32,
    },
    /// It has ended.
    End {
        /// On this thread.
        thread: u32,
    },
    /// One instruction of it ran.
    Instruction(Instruction<'a>),
    /// The thread holds one latch more from here on.
    LatchEnter {
        /// Which thread.
        thread: u32,
    },
    /// One less.
    LatchLeave {
        /// Which thread.
        thread: u32,
    },
    /// The instruction that follows belongs to a CTX point compiled into the program, whether that is on or not.
    Ctx {
        /// Which thread.
        thread: u32,
        /// Where the traced process keeps the point's record; names the point.
        site_address: u64,
    },
}

/// Listens to a tracer.
pub trait InstructionSink {
    /// This came next.
    fn event(&mut self, event: &Event<'_>);
}

/// As the listener it refers to.
impl<S: InstructionSink + ?Sized> InstructionSink for &mut S {
    fn event(&mut self, event: &Event<'_>) {
        (**self).event(event);
    }
}
