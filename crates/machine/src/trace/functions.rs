//! The functions of one file by address, for whoever has addresses of many processes and no traced program.
//!
//! Not here: lines of source ([`super::Lines`]).

use std::path::Path;

use super::demangle::demangled;
use super::elf::{Elf, Symbol};

/// The functions a program or library names: its own table of symbols, what it exports, and its separate debug file's.
pub(crate) struct Functions {
    /// Without its contents: they may be large, and the table is all that is needed.
    elf: Elf,
    /// By address, as linked.
    symbols: Vec<Symbol>,
    complete: bool,
}

impl Functions {
    /// Reads a file; `None` where it is no x86-64 ELF file or cannot be read. `shown` is the path it is known by, which its debug
    /// file is looked for beside.
    pub(crate) fn open(path: &Path, shown: &Path) -> Option<Self> {
        let mut elf = Elf::open(path, shown).ok()?;
        let symbols = elf.symbols();
        let complete = elf.has_full_symbols() || elf.debug_file().is_some();
        elf.forget_contents();
        Some(Self {
            elf,
            symbols,
            complete,
        })
    }

    /// Whether all functions are named; else only those the file exports.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// What to subtract from addresses in memory, where the code of the file from `offset` on is mapped at `start`.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        self.elf.bias(start, offset)
    }

    /// The function at an address as linked, demangled; `None` for code without a name.
    pub(crate) fn at(&self, linked: u64) -> Option<String> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= linked);
        let last = self.symbols[..behind].last()?;
        // Several names of one address: the first is as good as any, and the same every time.
        let first = self
            .symbols
            .partition_point(|symbol| symbol.address < last.address);
        self.symbols[first..behind]
            .iter()
            .find(|symbol| symbol.bytes == 0 || linked - symbol.address < symbol.bytes)
            .map(|symbol| demangled(&symbol.name))
    }
}
