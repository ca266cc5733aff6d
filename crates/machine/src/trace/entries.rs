//! Entries of a loaded file's functions: their symbols, and which were compiled to be patched.
//!
//! `-fpatchable-function-entry` puts the address of each such entry into the section `__patchable_function_entries`; in a file that can
//! be loaded anywhere the addresses are there only once it is loaded, and in its relocations before.

use std::collections::BTreeSet;

use object::{Object, ObjectSection};

use super::elf::{Elf, Symbol};
use super::modules::Module;

/// The section the compiler lists them in.
const SECTION: &str = "__patchable_function_entries";
/// Bytes before a patchable entry that belong to its function: an `endbr64`, and the padding a compiler may put before the entry.
const BEFORE_ENTRY_MAX: u64 = 16;

/// What is known of a file's functions. Addresses are as linked: those in memory less [`Module::bias`].
#[derive(Clone, Debug, Default)]
pub struct FunctionEntries {
    patchable: BTreeSet<u64>,
    /// By address.
    symbols: Vec<Symbol>,
}

impl FunctionEntries {
    /// Those of a file. A file that cannot be read has none.
    pub fn of(module: &Module) -> Self {
        let Ok(elf) = Elf::open(&module.path, &module.path) else {
            return Self::default();
        };
        Self {
            patchable: patchable(&elf),
            symbols: elf.symbols(),
        }
    }

    /// Whether an entry that can be patched is at this address.
    pub fn is_patchable(&self, address: u64) -> bool {
        self.patchable.contains(&address)
    }

    /// The symbol of the function whose entry is at this address, as its linker knows it.
    pub fn symbol(&self, address: u64) -> Option<&str> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let last = self.symbols[..behind].last()?;
        // Several names of one address: the first, which is the same each time.
        let first = self
            .symbols
            .partition_point(|symbol| symbol.address < last.address);
        let symbol = &self.symbols[first];
        (address - symbol.address <= BEFORE_ENTRY_MAX).then_some(symbol.name.as_str())
    }
}

fn patchable(elf: &Elf) -> BTreeSet<u64> {
    let mut entries = BTreeSet::new();
    let Some(file) = elf.file() else {
        return entries;
    };
    for section in file.sections().filter(|section| section.name() == Ok(SECTION)) {
        let words = section.data().unwrap_or_default().chunks_exact(8);
        let words = words.filter_map(|word| word.try_into().ok().map(u64::from_le_bytes));
        entries.extend(words.filter(|&address| address != 0));
        let inside = section.address()..section.address().saturating_add(section.size());
        let relocations = file.dynamic_relocations().into_iter().flatten();
        let there = relocations.filter(|(at, _)| inside.contains(at));
        // Relative to where the file is loaded, all of them: the compiler's labels are local.
        entries.extend(there.map(|(_, relocation)| relocation.addend() as u64));
    }
    entries.remove(&0);
    entries
}
