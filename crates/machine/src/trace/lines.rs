//! Which function, and which line of source, an address of a traced program is.
//!
//! Read from the files of its modules, so it works when the program is gone, and for recorded traces as long as the files are the same.
//! Line tables come from DWARF in the file or in its separate debug file; compressed and split ones are not read.

use std::path::Path;
use std::slice;

use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian};

use super::Module;
use super::demangle::demangled;
use super::elf::{Elf, Symbol};

/// One function an address is in: the innermost one was inlined into the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function's name, demangled.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
}

/// What is known of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of its module in the list given; `None` for code from no file.
    pub module: Option<usize>,
    /// The address the module's file was linked for.
    pub linked: u64,
    /// The function of the symbol table it is in, demangled ...
    pub function: Option<String>,
    /// ... and how many bytes behind its entry.
    pub offset: u64,
    /// Functions and lines by the line tables, innermost first. Empty without such tables.
    pub frames: Vec<Frame>,
}

type Bytes = EndianSlice<'static, LittleEndian>;

/// Line tables, and the file whose bytes they lie in.
///
/// Fields are dropped in this order, the tables before the bytes they point into. The bytes stay where they are when the file moves, and
/// nothing changes them.
struct LineTables {
    context: Context<Bytes>,
    _file: Elf,
}

impl LineTables {
    fn of(file: Elf) -> Option<Self> {
        let dwarf = Dwarf::load(|section| -> Result<Bytes, gimli::Error> {
            let bytes = file.contents(section.name());
            // SAFETY: the bytes are on the heap, owned by `file`, which is kept beside the context and dropped after it; no reference
            // with this lifetime leaves the two, because all answers are copied.
            let bytes: &'static [u8] = unsafe { slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
            Ok(EndianSlice::new(bytes, LittleEndian))
        });
        let context = Context::from_dwarf(dwarf.ok()?).ok()?;
        Some(Self { context, _file: file })
    }
}

/// What a module's file says.
struct Tables {
    /// By address.
    symbols: Vec<Symbol>,
    lines: Option<LineTables>,
}

impl Tables {
    fn of(path: &Path) -> Option<Self> {
        let elf = Elf::open(path, path).ok()?;
        let symbols = elf.symbols();
        let with_lines = if elf.has_lines() {
            Some(elf)
        } else {
            elf.debug_file()
        };
        Some(Self {
            symbols,
            lines: with_lines.and_then(LineTables::of),
        })
    }

    fn symbol(&self, linked: u64) -> Option<&Symbol> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= linked);
        let last = self.symbols[..behind].last()?;
        // Several names of one address: the first is as good as any, and the same every time.
        let first = self
            .symbols
            .partition_point(|symbol| symbol.address < last.address);
        self.symbols[first..behind]
            .iter()
            .find(|symbol| symbol.bytes == 0 || linked - symbol.address < symbol.bytes)
    }

    fn frames(&self, linked: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        let Some(lines) = &self.lines else {
            return frames;
        };
        let Ok(mut found) = lines.context.find_frames(linked).skip_all_loads() else {
            return frames;
        };
        while let Ok(Some(frame)) = found.next() {
            let function = frame.function.as_ref();
            let location = frame.location.as_ref();
            frames.push(Frame {
                function: function.and_then(|function| Some(demangled(&function.raw_name().ok()?))),
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location
                    .and_then(|location| location.line)
                    .filter(|&line| line > 0),
                column: location
                    .and_then(|location| location.column)
                    .filter(|&column| column > 0),
            });
        }
        frames
    }
}

/// Answers for the addresses of one traced program. Files are read when an address in them is asked for first.
pub struct Lines {
    modules: Vec<(Module, Option<Option<Tables>>)>,
}

impl Lines {
    /// Of a program with these modules.
    pub fn new(modules: &[Module]) -> Self {
        Self {
            modules: modules.iter().map(|module| (module.clone(), None)).collect(),
        }
    }

    /// What is known of an address in the program's memory.
    pub fn place(&mut self, address: u64) -> Place {
        let Some(number) = self.modules.iter().position(|(module, _)| module.holds(address)) else {
            return Place {
                linked: address,
                ..Place::default()
            };
        };
        let (module, tables) = &mut self.modules[number];
        let linked = address.wrapping_sub(module.bias);
        let tables = tables.get_or_insert_with(|| Tables::of(&module.path)).as_ref();
        let symbol = tables.and_then(|tables| tables.symbol(linked));
        Place {
            module: Some(number),
            linked,
            function: symbol.map(|symbol| demangled(&symbol.name)),
            offset: symbol.map_or(0, |symbol| linked - symbol.address),
            frames: tables.map_or_else(Vec::new, |tables| tables.frames(linked)),
        }
    }
}
