//! ELF files: whether one is an x86-64 program, its code, its symbols, and the debug file that belongs to it.

use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{
    CompressionFormat, Endianness, Object, ObjectSection, ObjectSymbol, SymbolFlags, SymbolKind, elf,
};

use super::TraceError;

/// The last bytes of a marker instruction, which follow its kind.
const MARKER_TAIL: [u8; 3] = *b"ETS";
/// Its first.
const MARKER_HEAD: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];
/// Bytes of a marker instruction.
pub(super) const MARKER_BYTES: u64 = 8;

/// The kind of the marker instruction these bytes are, if they are one.
pub(super) fn marker_kind(bytes: &[u8]) -> Option<u8> {
    let bytes = bytes.get(..8)?;
    (bytes[..4] == MARKER_HEAD && bytes[5..] == MARKER_TAIL).then_some(bytes[4])
}

/// A function a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub name: String,
    /// As linked.
    pub address: u64,
    /// 0 where the file does not say.
    pub bytes: u64,
}

/// A part of a file that is mapped as code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CodeSegment {
    address: u64,
    offset: u64,
    bytes: u64,
}

/// An x86-64 ELF file in memory.
pub(super) struct Elf {
    path: PathBuf,
    bytes: Vec<u8>,
    code: Vec<CodeSegment>,
}

impl Elf {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is not an x86-64 ELF program or library. `shown` is the path it is known by.
    pub fn open(path: &Path, shown: &Path) -> Result<Self, TraceError> {
        let bytes = fs::read(path).map_err(|error| TraceError::unreadable(shown, &error))?;
        let no = |found: &str| TraceError::NotX86_64 {
            path: shown.to_owned(),
            found: found.to_owned(),
        };
        if bytes.starts_with(b"#!") {
            return Err(no(
                "a script; give its interpreter, and the script as an argument",
            ));
        }
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(no("not an ELF file"));
        }
        match bytes.get(4) {
            Some(&elf::ELFCLASS64) => {}
            Some(&elf::ELFCLASS32) => return Err(no("a 32-bit program")),
            _ => return Err(no("a damaged ELF file")),
        }
        let mut code = Vec::new();
        {
            let file = ElfFile64::<Endianness>::parse(&bytes[..]).map_err(|_| no("a damaged ELF file"))?;
            let endian = file.endian();
            let header = file.elf_header();
            if header.e_machine(endian) != elf::EM_X86_64 {
                return Err(no("for another kind of processor"));
            }
            if !matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN) {
                return Err(no("neither a program nor a shared library"));
            }
            for segment in file.elf_program_headers() {
                if segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian) & elf::PF_X != 0 {
                    code.push(CodeSegment {
                        address: segment.p_vaddr(endian),
                        offset: segment.p_offset(endian),
                        bytes: segment.p_filesz(endian),
                    });
                }
            }
        }
        Ok(Self {
            path: shown.to_owned(),
            bytes,
            code,
        })
    }

    /// Lets go of the file's bytes, once all that is needed of them was read: [`Elf::file`] is `None` from then on.
    pub fn forget_contents(&mut self) {
        self.bytes = Vec::new();
    }

    /// The parsed file; `None` never happens after [`Elf::open`] parsed it once.
    pub fn file(&self) -> Option<ElfFile64<'_, Endianness>> {
        ElfFile64::parse(&self.bytes[..]).ok()
    }

    /// What to subtract from addresses in memory, where the code of the file from `offset` on is mapped at `start`.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        const PAGE: u64 = 4_096;
        let segment = self.code.iter().find(|segment| {
            let first = segment.offset & !(PAGE - 1);
            (first..segment.offset.saturating_add(segment.bytes)).contains(&offset)
        })?;
        let linked = segment.address.wrapping_add(offset).wrapping_sub(segment.offset);
        Some(start.wrapping_sub(linked))
    }

    /// Address, as linked, and bytes of a section.
    pub fn section(&self, name: &str) -> Option<(u64, u64)> {
        let file = self.file()?;
        let section = file.section_by_name(name)?;
        Some((section.address(), section.size()))
    }

    /// Where marker instructions of a kind are, as linked.
    pub fn markers(&self, kind: u8) -> Vec<u64> {
        let mut found = Vec::new();
        for segment in &self.code {
            let Some(code) = usize::try_from(segment.offset)
                .ok()
                .and_then(|from| self.bytes.get(from..))
                .map(|rest| &rest[..rest.len().min(segment.bytes as usize)])
            else {
                continue;
            };
            // The first byte of the tail is rare in code: look for that first.
            let mut from = 0;
            while let Some(at) = code[from..].iter().position(|&byte| byte == MARKER_TAIL[0]) {
                let at = from + at;
                if at >= 5 && marker_kind(&code[at - 5..]) == Some(kind) {
                    found.push(segment.address + (at - 5) as u64);
                }
                from = at + 1;
            }
        }
        found
    }

    /// The functions this file defines, by its own tables.
    pub fn own_symbols(&self) -> Vec<Symbol> {
        let Some(file) = self.file() else {
            return Vec::new();
        };
        let mut symbols = Vec::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            // The address of an indirect function is that of the code that chooses one.
            let indirect = matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. } if st_info & 0xf == elf::STT_GNU_IFUNC);
            if symbol.kind() != SymbolKind::Text || indirect || symbol.is_undefined() || symbol.address() == 0
            {
                continue;
            }
            if let Ok(name) = symbol.name()
                && !name.is_empty()
            {
                symbols.push(Symbol {
                    name: name.to_owned(),
                    address: symbol.address(),
                    bytes: symbol.size(),
                });
            }
        }
        symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        symbols.dedup();
        symbols
    }

    /// Whether the file has line tables.
    pub fn has_lines(&self) -> bool {
        self.section(".debug_line").is_some_and(|(_, bytes)| bytes > 0)
    }

    /// The contents of a section; empty where there is none, or it is compressed.
    pub fn contents(&self, name: &str) -> &[u8] {
        let Some(file) = self.file() else {
            return &[];
        };
        let section = file.section_by_name(name);
        let plain = section.filter(|section| {
            section
                .compressed_file_range()
                .is_ok_and(|range| range.format == CompressionFormat::None)
        });
        let range = plain.and_then(|section| section.file_range());
        range
            .and_then(|(offset, bytes)| {
                let from = usize::try_from(offset).ok()?;
                self.bytes
                    .get(from..from.checked_add(usize::try_from(bytes).ok()?)?)
            })
            .unwrap_or(&[])
    }

    /// The functions a file names: its own tables, and its separate debug file's where its own are few.
    pub fn symbols(&self) -> Vec<Symbol> {
        let mut symbols = self.own_symbols();
        if !self.has_full_symbols()
            && let Some(debug) = self.debug_file()
        {
            symbols.extend(debug.own_symbols());
            symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
            symbols.dedup();
        }
        symbols
    }

    /// Whether the file has its full table of symbols, not only the one of what it exports.
    pub fn has_full_symbols(&self) -> bool {
        self.file().is_some_and(|file| file.symbols().next().is_some())
    }

    /// The separate debug file that belongs to this one, if it is where debug files are.
    pub fn debug_file(&self) -> Option<Self> {
        let file = self.file()?;
        let build_id = file.build_id().ok().flatten();
        let mut places = Vec::new();
        if let Some([first, rest @ ..]) = build_id {
            let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
            places.push(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug").into());
        }
        if let Ok(Some((name, _))) = file.gnu_debuglink()
            && let Ok(name) = std::str::from_utf8(name)
            && let Some(folder) = self.path.parent()
        {
            places.push(folder.join(name));
            places.push(folder.join(".debug").join(name));
            if let Ok(below) = folder.strip_prefix("/") {
                places.push(Path::new("/usr/lib/debug").join(below).join(name));
            }
        }
        places
            .iter()
            .filter(|place| **place != self.path)
            .find_map(|place| {
                let found = Self::open(place, place).ok()?;
                // A file left over from another build would give wrong names.
                let same = match build_id {
                    Some(id) => found.file()?.build_id().ok().flatten() == Some(id),
                    None => true,
                };
                same.then_some(found)
            })
    }
}
