//! What a process has mapped: its files, where the operation wanted begins, where latches are taken, where its CTX points are.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::trace::elf::Elf;
use crate::trace::modules::{Mapping, Module, mappings};
use crate::trace::points::{RECORD_BYTES, SECTION};
use crate::trace::{LatchFunctions, Target, TraceError, symbols};

/// Marker kinds.
pub(super) const BEGIN: u8 = 1;
pub(super) const END: u8 = 2;
pub(super) const LATCH_ENTER: u8 = 3;
pub(super) const LATCH_LEAVE: u8 = 4;

/// A mapped file, parsed.
struct Mapped {
    module: Module,
    elf: Elf,
}

/// The mapped files of a process at one moment. The first is the program itself.
pub(super) struct Image {
    program: PathBuf,
    mapped: Vec<Mapped>,
    mappings: Vec<Mapping>,
}

fn read(process: u32, what: &str) -> Result<Vec<u8>, TraceError> {
    let path = PathBuf::from(format!("/proc/{process}/{what}"));
    fs::read(&path).map_err(|error| TraceError::unreadable(&path, &error))
}

/// Where a process's program begins, in memory: what the kernel told it (`AT_ENTRY`).
pub(super) fn entry(process: u32) -> Result<u64, TraceError> {
    const AT_ENTRY: u64 = 9;
    let words: Vec<u64> = read(process, "auxv")?
        .chunks_exact(8)
        .map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes))
        .collect();
    words
        .chunks_exact(2)
        .find(|pair| pair[0] == AT_ENTRY)
        .map(|pair| pair[1])
        .ok_or_else(|| TraceError::System {
            doing: "find where the program begins".to_owned(),
            reason: "the kernel did not tell it".to_owned(),
        })
}

/// The file of a process's program, as an error should call it.
pub(super) fn program(process: u32) -> PathBuf {
    fs::read_link(format!("/proc/{process}/exe")).unwrap_or_else(|_| format!("/proc/{process}/exe").into())
}

/// Whether a process's program can be traced at all.
pub(super) fn check_program(process: u32) -> Result<(), TraceError> {
    let exe = PathBuf::from(format!("/proc/{process}/exe"));
    Elf::open(&exe, &program(process)).map(drop)
}

impl Image {
    /// Reads what a process has mapped. Files that are no ELF files, or are gone, are left out, except the program itself.
    pub fn of(process: u32) -> Result<Self, TraceError> {
        let program = program(process);
        let mappings = mappings(&String::from_utf8_lossy(&read(process, "maps")?));
        let mut mapped: Vec<Mapped> = Vec::new();
        for mapping in mappings.iter().filter(|mapping| mapping.executable) {
            let Some(path) = &mapping.path else {
                continue;
            };
            if let Some(known) = mapped.iter_mut().find(|known| known.module.path == *path) {
                known.module.end = known.module.end.max(mapping.end);
                continue;
            }
            let is_program =
                *path == program || program.to_string_lossy() == format!("{} (deleted)", path.display());
            let elf = if is_program {
                Elf::open(Path::new(&format!("/proc/{process}/exe")), path)?
            } else {
                // The process may see other files under its paths than this one does.
                let theirs = PathBuf::from(format!("/proc/{process}/root{}", path.display()));
                let Ok(elf) = Elf::open(&theirs, path).or_else(|_| Elf::open(path, path)) else {
                    continue;
                };
                elf
            };
            let Some(bias) = elf.bias(mapping.start, mapping.offset) else {
                continue;
            };
            let module = Module {
                path: path.clone(),
                bias,
                start: mapping.start,
                end: mapping.end,
            };
            let place = if is_program { 0 } else { mapped.len() };
            mapped.insert(place, Mapped { module, elf });
        }
        Ok(Self {
            program,
            mapped,
            mappings,
        })
    }

    /// The files.
    pub fn modules(&self) -> Vec<Module> {
        self.mapped.iter().map(|mapped| mapped.module.clone()).collect()
    }

    /// Where the operation begins, in memory.
    pub fn begins(&self, target: &Target) -> Result<Vec<u64>, TraceError> {
        match target {
            Target::Marked => self.markers(),
            Target::Function(name) => Ok(vec![self.function(name)?]),
        }
    }

    fn markers(&self) -> Result<Vec<u64>, TraceError> {
        let all = |kind| -> Vec<u64> {
            let of = |mapped: &Mapped| {
                let bias = mapped.module.bias;
                mapped
                    .elf
                    .markers(kind)
                    .into_iter()
                    .map(move |address| address.wrapping_add(bias))
            };
            self.mapped.iter().flat_map(of).collect()
        };
        let begins = all(BEGIN);
        for (found, edge) in [(&begins, "begins"), (&all(END), "ends")] {
            if found.is_empty() {
                return Err(TraceError::NoMarker {
                    path: self.program.clone(),
                    edge,
                });
            }
        }
        Ok(begins)
    }

    fn function(&self, name: &str) -> Result<u64, TraceError> {
        if let Some(address) = name.strip_prefix("0x")
            && let Ok(address) = u64::from_str_radix(address, 16)
            && let Some(program) = self.mapped.first()
        {
            let address = address.wrapping_add(program.module.bias);
            if program.module.holds(address) {
                return Ok(address);
            }
        }
        // `file:name`, but not a path of `::`.
        let (file, name) = match name.split_once(':') {
            Some((file, rest)) if !rest.starts_with(':') && !file.contains(['(', '<', ' ']) => {
                (Some(file), rest)
            }
            _ => (None, name),
        };
        let places: Vec<&Mapped> = match file {
            None => self.mapped.iter().collect(),
            Some(file) => {
                let is_it = |mapped: &&Mapped| {
                    let full = mapped.module.name();
                    // `libfoo.so` is `libfoo.so.1.2` too.
                    full == file
                        || mapped.module.path == Path::new(file)
                        || full.strip_prefix(file).is_some_and(|rest| rest.starts_with('.'))
                };
                let found: Vec<&Mapped> = self.mapped.iter().filter(is_it).collect();
                if found.is_empty() {
                    return Err(TraceError::NoModule {
                        name: file.to_owned(),
                        loaded: self.mapped.iter().map(|mapped| mapped.module.name()).collect(),
                    });
                }
                found
            }
        };
        let mut known = Vec::new();
        for mapped in &places {
            let symbols = mapped.elf.symbols();
            if let Some(address) = symbols::find(&symbols, name)? {
                return Ok(address.wrapping_add(mapped.module.bias));
            }
            known.push(symbols);
        }
        let first = places.first().map_or(&self.program, |mapped| &mapped.module.path);
        let nothing_known = places
            .first()
            .is_none_or(|mapped| !mapped.elf.has_full_symbols() && mapped.elf.debug_file().is_none());
        let nearest: Vec<String> = known
            .iter()
            .flat_map(|symbols| symbols::nearest(symbols, name))
            .collect();
        if nothing_known {
            return Err(TraceError::Stripped {
                path: first.clone(),
                symbol: name.to_owned(),
            });
        }
        let others = places.len().saturating_sub(1);
        Err(TraceError::NoSymbol {
            symbol: name.to_owned(),
            place: match others {
                0 => first.display().to_string(),
                _ => format!("{} and {others} libraries", first.display()),
            },
            nearest: nearest.into_iter().take(5).collect(),
        })
    }

    /// Where functions that take (true) and release (false) latches are, in memory.
    pub fn latches(&self, functions: &LatchFunctions) -> HashMap<u64, bool> {
        let mut found = HashMap::new();
        if functions.enter.is_empty() && functions.leave.is_empty() {
            return found;
        }
        for mapped in &self.mapped {
            for symbol in mapped.elf.own_symbols() {
                let enters = functions.enter.contains(&symbol.name);
                if enters || functions.leave.contains(&symbol.name) {
                    found.insert(symbol.address.wrapping_add(mapped.module.bias), enters);
                }
            }
        }
        found
    }

    /// Where records of CTX points are, in memory: address and bytes of each section.
    pub fn ctx_sections(&self) -> Vec<(u64, u64)> {
        self.mapped
            .iter()
            .filter_map(|mapped| {
                let (address, bytes) = mapped.elf.section(SECTION)?;
                (bytes >= RECORD_BYTES).then_some((address.wrapping_add(mapped.module.bias), bytes))
            })
            .collect()
    }

    /// The end of the mapping an address is in.
    pub fn end_of(&self, address: u64) -> Option<u64> {
        let within = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&address);
        self.mappings.iter().find(within).map(|mapping| mapping.end)
    }
}

/// The end of the mapping an address of a process is in, now.
pub(super) fn mapping_end(process: u32, address: u64) -> Option<u64> {
    let text = read(process, "maps").ok()?;
    let image = Image {
        program: PathBuf::new(),
        mapped: Vec::new(),
        mappings: mappings(&String::from_utf8_lossy(&text)),
    };
    image.end_of(address)
}
