//! From valgrind's lackey to [`Execution`]s: which line of which page an address is, of a backend of PostgreSQL.
//!
//! ```text
//!   lackey's lines ──▶ Tape, one a statement ──┐
//!   /proc/PID/maps, pg_shmem_allocations ──▶ Memory ├──▶ executions: every access a Touch, stripped
//!   pg_buffercache ──▶ which buffer holds what ─┘
//! ```
//!
//! Shared memory is told apart by what PostgreSQL says it allocated there. Memory that has no name belongs to the named piece before it: a
//! hash table's entries follow its head, the table of processes follows "Proc Header". Of the buffer table, a line belongs to the
//! page whose descriptor is touched after it; the lock is what was stored to last before. Pages of catalogs are common: every query comes to
//! them whatever its key.
//!
//! Not here: starting PostgreSQL or valgrind.

use std::collections::{HashMap, HashSet};
use std::ops::{Range, RangeInclusive};

use super::axis::Axis;
use super::recording::{Block, Execution};
use super::strip::Strip;
use super::touch::{BLOCK_LINES, ENTRY_LINES, PAGE_LINES, Place, Touch, Use};

const LINE_SHIFT: u32 = 6;
/// A line of the buffer table that more pages than this come by is a head of the table, not an entry.
const ENTRY_PAGES_MAX: usize = 2;
/// Lines of the head of the table of processes; behind it the backend's own part.
const PROC_HEADER_LINES: u64 = 2;
/// Accesses without a page after which the next one to it is another visit. A search in a page takes fewer, the work between two
/// searches more.
pub const REVISIT_ACCESSES: usize = 300;
/// Most accesses of one statement: 1 GiB of memory.
const ACCESSES_MAX: usize = 64 << 20;

/// A trace that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LackeyError {
    /// PostgreSQL's shared memory is not where it was looked for.
    #[error("there is no shared memory of {0} bytes in the process")]
    NoSharedMemory(u64),
    /// A piece of shared memory that must be known is not named.
    #[error("PostgreSQL does not name its shared memory \"{0}\"")]
    NotAllocated(&'static str),
    /// More accesses, pages or blocks than a recording can have.
    #[error("statement {0} touches too much to be kept")]
    TooMuch(String),
}

/// What a line of lackey's says, `I  04001000,3`, ` L 1ffeffff78,8`, `S` or `M` likewise: the access and the lines of 64 bytes it touches.
/// `None` for any other text.
pub fn access(line: &[u8]) -> Option<(Use, RangeInclusive<u64>)> {
    let (what, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (Use::Fetch, rest),
        [b' ', b'L', b' ', rest @ ..] => (Use::Load, rest),
        [b' ', b'S' | b'M', b' ', rest @ ..] => (Use::Store, rest),
        _ => return None,
    };
    // Billions of these are read: no text, no copy.
    let digits = |radix: u64| {
        move |number: u64, &byte: &u8| {
            let digit = u64::from(char::from(byte).to_digit(radix as u32)?);
            number.checked_mul(radix)?.checked_add(digit)
        }
    };
    let comma = rest.iter().position(|&byte| byte == b',')?;
    let (address, bytes) = (&rest[..comma], rest[comma + 1..].trim_ascii_end());
    if address.is_empty() || bytes.is_empty() {
        return None;
    }
    let address = address.iter().try_fold(0, digits(16))?;
    let bytes = bytes.iter().try_fold(0, digits(10))?;
    let last = address.saturating_add(bytes.max(1) - 1);
    Some((what, address >> LINE_SHIFT..=last >> LINE_SHIFT))
}

/// The accesses of one statement as they come from lackey, lines of 64 bytes.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    instructions: u64,
    accesses: Vec<(u64, Use)>,
    last_code: Option<u64>,
    overflow: bool,
}

impl Tape {
    /// Takes one line of lackey's. Others are passed over: the server's own words.
    pub fn line(&mut self, line: &[u8]) {
        let Some((what, lines)) = access(line) else {
            return;
        };
        for line in lines {
            if what == Use::Fetch {
                if self.last_code.replace(line) == Some(line) {
                    continue;
                }
            } else if self.accesses.last() == Some(&(line, what)) {
                continue;
            }
            if self.accesses.len() == ACCESSES_MAX {
                self.overflow = true;
                return;
            }
            self.accesses.push((line, what));
        }
        self.instructions += u64::from(what == Use::Fetch);
    }

    /// Instructions so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Cuts it wherever the page in `buffer` is come to again, after [`REVISIT_ACCESSES`] without it: before the first time, each time, and the
    /// last with what follows. Instructions are shared out by accesses.
    pub fn cut(self, memory: &Memory, buffer: u64) -> Vec<Tape> {
        let mut starts = vec![0];
        let mut before = None;
        for (at, &(line, _)) in self.accesses.iter().enumerate() {
            if memory.buffer(line) == Some(buffer) {
                if before.is_none_or(|before| at - before > REVISIT_ACCESSES) {
                    starts.push(at);
                }
                before = Some(at);
            }
        }
        let all = self.accesses.len();
        let ends = starts[1..].iter().copied().chain([all]);
        let piece = |(start, end): (usize, usize)| Tape {
            instructions: self.instructions * (end - start) as u64 / all.max(1) as u64,
            accesses: self.accesses[start..end].to_vec(),
            last_code: None,
            overflow: self.overflow,
        };
        starts.iter().copied().zip(ends).map(piece).collect()
    }
}

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Private,
    Code,
    Common,
    /// Line of the buffers' pages, from the first.
    Blocks(u64),
    /// Number of the descriptor.
    Descriptor(u64),
    Table,
}

/// The memory of the process.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Lines of a mapping, whether it can be written to, executed, and is shared.
    mappings: Vec<(Range<u64>, Piece)>,
    /// Lines of shared memory.
    shared: Range<u64>,
    /// First line and name, ascending.
    allocations: Vec<(u64, String)>,
}

impl Memory {
    /// From the text of `/proc/PID/maps` and the rows of `pg_shmem_allocations`: names and offsets.
    ///
    /// # Errors
    /// [`LackeyError`] if there is no shared memory that large, or the buffers are not named.
    pub fn new(maps: &str, allocations: &[(String, u64)]) -> Result<Memory, LackeyError> {
        let reach = allocations.iter().map(|&(_, offset)| offset).max().unwrap_or(0);
        let mut mappings = Vec::new();
        let mut shared = None;
        for line in maps.lines() {
            let mut fields = line.split_whitespace();
            let (Some(range), Some(rights)) = (fields.next(), fields.next()) else {
                continue;
            };
            let ends = range.split_once('-').and_then(|(begin, end)| {
                Some((
                    u64::from_str_radix(begin, 16).ok()?,
                    u64::from_str_radix(end, 16).ok()?,
                ))
            });
            let Some((begin, end)) = ends else { continue };
            let lines = begin >> LINE_SHIFT..end >> LINE_SHIFT;
            let written = rights.contains('w');
            if rights.ends_with('s') {
                if written && end - begin > reach.max(1) && shared.is_none() {
                    shared = Some(lines.clone());
                }
                mappings.push((lines, Piece::Common));
            } else if written {
                mappings.push((lines, Piece::Private));
            } else if rights.contains('x') {
                mappings.push((lines, Piece::Code));
            } else {
                mappings.push((lines, Piece::Common));
            }
        }
        let shared = shared.ok_or(LackeyError::NoSharedMemory(reach))?;
        let mut allocations: Vec<(u64, String)> = allocations
            .iter()
            .map(|(name, offset)| (shared.start + (offset >> LINE_SHIFT), name.clone()))
            .collect();
        allocations.sort();
        for needed in [
            "Buffer Blocks",
            "Buffer Descriptors",
            "Shared Buffer Lookup Table",
            "Proc Header",
        ] {
            if !allocations.iter().any(|(_, name)| name == needed) {
                return Err(LackeyError::NotAllocated(needed));
            }
        }
        mappings.sort_by_key(|(lines, _)| lines.start);
        Ok(Memory {
            mappings,
            shared,
            allocations,
        })
    }

    /// The address of shared memory of this name, if there is one.
    pub fn address(&self, name: &str) -> Option<u64> {
        let found = self.allocations.iter().find(|(_, known)| known == name);
        found.map(|&(line, _)| line << LINE_SHIFT)
    }

    /// Whether a line is the process's own, so that another backend has one like it elsewhere: neither shared memory nor the program's
    /// text and constants.
    pub fn is_private(&self, line: u64) -> bool {
        self.piece(line) == Piece::Private
    }

    /// Number of the buffer whose page a line is of, if it is of one.
    pub fn buffer(&self, line: u64) -> Option<u64> {
        match self.piece(line) {
            Piece::Blocks(first) => Some(first / u64::from(BLOCK_LINES)),
            _ => None,
        }
    }

    fn piece(&self, line: u64) -> Piece {
        if self.shared.contains(&line) {
            let after = self.allocations.partition_point(|&(first, _)| first <= line);
            let Some((first, name)) = after.checked_sub(1).map(|at| &self.allocations[at]) else {
                return Piece::Common;
            };
            return match name.as_str() {
                "Buffer Blocks" => Piece::Blocks(line - first),
                "Buffer Descriptors" => Piece::Descriptor(line - first),
                "Shared Buffer Lookup Table" => Piece::Table,
                "Proc Header" if line - first >= PROC_HEADER_LINES => Piece::Private,
                // Arrays with an entry for each backend, which only that one writes.
                name if name.starts_with("Backend ") || name.starts_with("ProcSignal") => Piece::Private,
                _ => Piece::Common,
            };
        }
        let after = self.mappings.partition_point(|(lines, _)| lines.start <= line);
        match after.checked_sub(1).map(|at| &self.mappings[at]) {
            Some((lines, piece)) if lines.contains(&line) => *piece,
            // Mapped after the map was read: memory of its own.
            _ => Piece::Private,
        }
    }
}

/// A statement that ran: its name, where its keys lie, and what lackey saw.
#[derive(Clone, Debug)]
pub struct Taped {
    /// Which statement.
    pub statement: String,
    /// Where its keys lie on their axes, each from 0 to below 1.
    pub at: Vec<(Axis, f64)>,
    /// Its accesses.
    pub tape: Tape,
}

/// The accesses as touches. `buffers` has, for each buffer that holds a page of a user's relation, that page.
///
/// # Errors
/// [`LackeyError::TooMuch`] for statements that touch more pages or blocks than a recording can name.
pub fn executions(
    memory: &Memory,
    buffers: &HashMap<u64, Block>,
    taped: &[Taped],
) -> Result<Vec<Execution>, LackeyError> {
    let table = BufferTable::of(memory, taped);
    let mut pages = Pages::default();
    taped
        .iter()
        .map(|taped| {
            if taped.tape.overflow {
                return Err(LackeyError::TooMuch(taped.statement.clone()));
            }
            execution(memory, buffers, &table, &mut pages, taped)
        })
        .collect()
}

/// Which lines of the buffer table, and which locks, belong to which buffers.
#[derive(Debug, Default)]
struct BufferTable {
    entries: HashMap<u64, HashSet<u64>>,
    locks: HashMap<u64, HashSet<u64>>,
}

impl BufferTable {
    fn of(memory: &Memory, taped: &[Taped]) -> BufferTable {
        let mut table = BufferTable::default();
        for taped in taped {
            let mut lookup = Lookup::default();
            for &(line, what) in &taped.tape.accesses {
                let piece = memory.piece(line);
                if let Some((lines, lock, buffer)) = lookup.access(memory, line, what, piece) {
                    for line in lines {
                        table.entries.entry(line).or_default().insert(buffer);
                    }
                    if let Some(lock) = lock {
                        table.locks.entry(lock).or_default().insert(buffer);
                    }
                }
            }
        }
        table
            .entries
            .retain(|_, buffers| buffers.len() <= ENTRY_PAGES_MAX);
        table
    }
}

/// Follows one lookup of a page in the buffer table.
#[derive(Debug, Default)]
struct Lookup {
    stored: Option<u64>,
    lock: Option<u64>,
    lines: Vec<u64>,
}

impl Lookup {
    /// At the descriptor that a lookup leads to: lines of the table, the lock, the buffer.
    fn access(
        &mut self,
        memory: &Memory,
        line: u64,
        what: Use,
        piece: Piece,
    ) -> Option<(Vec<u64>, Option<u64>, u64)> {
        match piece {
            Piece::Table => {
                if self.lines.is_empty() {
                    self.lock = self.stored.take();
                }
                self.lines.push(line);
                None
            }
            Piece::Descriptor(buffer) => {
                let lines = std::mem::take(&mut self.lines);
                self.stored = None;
                (!lines.is_empty()).then(|| (lines, self.lock.take(), buffer))
            }
            Piece::Common => {
                if what == Use::Store && memory.shared.contains(&line) {
                    self.stored = Some(line);
                }
                None
            }
            _ => None,
        }
    }
}

/// Numbers of pages of 4 KiB, as they came. Code, common and private pages have numbers of their own.
#[derive(Debug, Default)]
struct Pages {
    code: HashMap<u64, u32>,
    common: HashMap<u64, u32>,
    private: HashMap<u64, u32>,
}

impl Pages {
    fn place(&mut self, piece: Piece, line: u64) -> Place {
        let page = line / u64::from(PAGE_LINES);
        let line = (line % u64::from(PAGE_LINES)) as u32;
        let number = |pages: &mut HashMap<u64, u32>| {
            let next = pages.len() as u32;
            *pages.entry(page).or_insert(next)
        };
        match piece {
            Piece::Code => Place::Code {
                page: number(&mut self.code),
                line,
            },
            Piece::Private => Place::Private {
                page: number(&mut self.private),
                line,
            },
            _ => Place::Common {
                page: number(&mut self.common),
                line,
            },
        }
    }
}

fn execution(
    memory: &Memory,
    buffers: &HashMap<u64, Block>,
    table: &BufferTable,
    pages: &mut Pages,
    taped: &Taped,
) -> Result<Execution, LackeyError> {
    let accesses = &taped.tape.accesses;
    // The buffer that each access to the table or a lock is for: the next descriptor after it.
    let mut next_buffer = vec![None; accesses.len()];
    let mut next = None;
    for (at, &(line, _)) in accesses.iter().enumerate().rev() {
        if let Piece::Descriptor(buffer) = memory.piece(line) {
            next = Some(buffer);
        }
        next_buffer[at] = next;
    }
    let mut blocks: Vec<Block> = Vec::new();
    let mut number = |buffer: u64| -> Option<u32> {
        let block = buffers.get(&buffer)?;
        let known = blocks.iter().position(|known| known == block);
        Some(known.unwrap_or_else(|| {
            blocks.push(*block);
            blocks.len() - 1
        }) as u32)
    };
    let mut entry_lines: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut held: HashMap<u64, u64> = HashMap::new();
    let mut strip = Strip::default();
    let mut touches = Vec::new();
    for (at, &(line, what)) in accesses.iter().enumerate() {
        let piece = memory.piece(line);
        let special = match piece {
            Piece::Blocks(first) => number(first / u64::from(BLOCK_LINES)).map(|block| Place::Block {
                block,
                line: (first % u64::from(BLOCK_LINES)) as u32,
            }),
            Piece::Descriptor(buffer) => number(buffer).map(|block| Place::Descriptor { block }),
            Piece::Table if table.entries.contains_key(&line) => next_buffer[at].and_then(|buffer| {
                let block = number(buffer)?;
                let lines = entry_lines.entry(buffer).or_default();
                let nth = lines.iter().position(|&known| known == line).unwrap_or_else(|| {
                    lines.push(line);
                    lines.len() - 1
                }) as u32;
                (nth < ENTRY_LINES).then_some(Place::Entry { block, nth })
            }),
            Piece::Common => table.locks.get(&line).and_then(|of| {
                // Taken for the page that is looked up next, let go for the page it was taken for.
                let buffer = match next_buffer[at].filter(|buffer| of.contains(buffer)) {
                    Some(buffer) if !held.contains_key(&line) => {
                        held.insert(line, buffer);
                        Some(buffer)
                    }
                    other => held.remove(&line).or(other),
                };
                number(buffer?).map(|block| Place::Lock { block })
            }),
            _ => None,
        };
        let touch = Touch {
            place: special.unwrap_or_else(|| pages.place(piece, line)),
            what,
        };
        if strip.keeps(touch) {
            if touch.packed().is_none() {
                return Err(LackeyError::TooMuch(taped.statement.clone()));
            }
            touches.push(touch);
        }
    }
    Ok(Execution {
        statement: taped.statement.clone(),
        instructions: taped.tape.instructions,
        at: taped.at.clone(),
        blocks,
        touches,
    })
}
