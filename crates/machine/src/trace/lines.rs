//! Which function, and which line of source, an address of a traced program is.
//!
//! Read from the files of its modules, so it works when the program is gone, and for recorded traces as long as the files are the same.
//! Line tables come from DWARF in the file or in its separate debug file; compressed and split ones are not read.

use std::path::Path;
use std::rc::Rc;

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, LittleEndian};

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

type Bytes = EndianRcSlice<LittleEndian>;

/// What a module's file says.
struct Tables {
    /// By address.
    symbols: Vec<Symbol>,
    lines: Option<Context<Bytes>>,
}

impl Tables {
    fn of(path: &Path) -> Option<Self> {
        let elf = Elf::open(path, path).ok()?;
        let lines = if elf.has_lines() {
            context(&elf)
        } else {
            elf.debug_file().as_ref().and_then(context)
        };
        Some(Self {
            symbols: elf.symbols(),
            lines,
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
        let Ok(mut found) = lines.find_frames(linked).skip_all_loads() else {
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

fn context(elf: &Elf) -> Option<Context<Bytes>> {
    let dwarf = Dwarf::load(|section| -> Result<Bytes, gimli::Error> {
        Ok(EndianRcSlice::new(
            Rc::from(elf.contents(section.name())),
            LittleEndian,
        ))
    });
    Context::from_dwarf(dwarf.ok()?).ok()
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
