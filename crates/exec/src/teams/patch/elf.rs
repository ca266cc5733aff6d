//! What patching needs from an ELF file: where the patchable entries lie and which functions have which names.
//!
//! A reader of the three tables it needs, every offset checked; not a general ELF library, and nothing is read that is not
//! asked for: objects without patchable entries cost their section headers only.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The section gcc and clang put the addresses of patchable entries in.
const ENTRIES: &[u8] = b"__patchable_function_entries";
/// Larger tables are taken for damage.
const TABLE_BYTES_MAX: u64 = 1 << 30;

/// One function symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub name: String,
    /// Relative to where the object is loaded.
    pub address: u64,
    pub bytes: u64,
}

/// The tables of one object that has patchable entries.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Where the addresses of the entries lie when loaded, relative to where the object is loaded: start and bytes. More than
    /// one where a linker kept input sections apart.
    pub entries: Vec<(u64, u64)>,
    /// Functions of the symbol table, or of the dynamic one where the former was stripped.
    pub symbols: Vec<Symbol>,
}

/// The sections this reader knows.
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const EM_X86_64: u16 = 62;

struct Section {
    name: u32,
    kind: u32,
    address: u64,
    offset: u64,
    bytes: u64,
    link: u32,
}

/// Reads the tables of `file`; without patchable entries `Tables::entries` is empty and no symbols are read.
///
/// # Errors
/// What is wrong with the file, in words.
pub(super) fn read(file: &File) -> Result<Tables, String> {
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let header = bytes(file, length, 0, 64)?;
    if header[..4] != *b"\x7fELF" || header[4] != 2 || header[5] != 1 || u16_at(&header, 18)? != EM_X86_64 {
        return Err("it is no 64-bit little-endian x86-64 ELF file".to_string());
    }
    let sections = sections(file, length, &header)?;
    let names_at = usize::from(u16_at(&header, 62)?);
    let names = match sections.get(names_at) {
        Some(section) => bytes(file, length, section.offset, section.bytes)?,
        None => {
            return Err(format!(
                "its section names are in section {names_at} of {}",
                sections.len()
            ));
        }
    };
    let mut tables = Tables::default();
    for section in &sections {
        if text_at(&names, section.name) == Some(ENTRIES) && section.address != 0 {
            tables.entries.push((section.address, section.bytes));
        }
    }
    if tables.entries.is_empty() {
        return Ok(tables);
    }
    let table = |kind: u32| sections.iter().find(|section| section.kind == kind);
    if let Some(symbols) = table(SHT_SYMTAB).or_else(|| table(SHT_DYNSYM)) {
        let strings = sections
            .get(symbols.link as usize)
            .ok_or("its symbols name a section of strings that is not there")?;
        let strings = bytes(file, length, strings.offset, strings.bytes)?;
        for symbol in bytes(file, length, symbols.offset, symbols.bytes)?.chunks_exact(24) {
            let (kind, section) = (symbol[4] & 15, u16_at(symbol, 6)?);
            if !matches!(kind, STT_FUNC | STT_GNU_IFUNC) || section == 0 {
                continue;
            }
            let name =
                text_at(&strings, u32_at(symbol, 0)?).ok_or("a symbol's name lies outside of the strings")?;
            tables.symbols.push(Symbol {
                name: String::from_utf8_lossy(name).into_owned(),
                address: u64_at(symbol, 8)?,
                bytes: u64_at(symbol, 16)?,
            });
        }
    }
    Ok(tables)
}

fn sections(file: &File, length: u64, header: &[u8]) -> Result<Vec<Section>, String> {
    let (offset, entry, count) = (u64_at(header, 40)?, u16_at(header, 58)?, u16_at(header, 60)?);
    if offset == 0 || count == 0 {
        return Err("it has no section headers".to_string());
    }
    if entry != 64 {
        return Err(format!(
            "its section headers have {entry} bytes each instead of 64"
        ));
    }
    bytes(file, length, offset, u64::from(entry) * u64::from(count))?
        .chunks_exact(64)
        .map(|section| {
            Ok(Section {
                name: u32_at(section, 0)?,
                kind: u32_at(section, 4)?,
                address: u64_at(section, 16)?,
                offset: u64_at(section, 24)?,
                bytes: u64_at(section, 32)?,
                link: u32_at(section, 40)?,
            })
        })
        .collect()
}

/// `count` bytes at `offset`, if the file has them.
fn bytes(file: &File, length: u64, offset: u64, count: u64) -> Result<Vec<u8>, String> {
    if count > TABLE_BYTES_MAX || offset.checked_add(count).is_none_or(|end| end > length) {
        return Err(format!(
            "a table of {count} bytes at {offset} does not fit its {length} bytes"
        ));
    }
    let mut buffer = vec![0; count as usize];
    file.read_exact_at(&mut buffer, offset)
        .map_err(|error| error.to_string())?;
    Ok(buffer)
}

/// The zero-terminated text at `offset`.
fn text_at(strings: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = strings.get(offset as usize..)?;
    rest.iter().position(|&byte| byte == 0).map(|end| &rest[..end])
}

fn array<const N: usize>(data: &[u8], at: usize) -> Result<[u8; N], String> {
    let slice = data.get(at..at + N).ok_or("a table ends early")?;
    slice.try_into().map_err(|_| "a table ends early".to_string())
}

fn u16_at(data: &[u8], at: usize) -> Result<u16, String> {
    Ok(u16::from_le_bytes(array(data, at)?))
}

fn u32_at(data: &[u8], at: usize) -> Result<u32, String> {
    Ok(u32::from_le_bytes(array(data, at)?))
}

fn u64_at(data: &[u8], at: usize) -> Result<u64, String> {
    Ok(u64::from_le_bytes(array(data, at)?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn kept(content: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("corun-elf-{}-{:p}", std::process::id(), content));
        let mut file = File::create_new(&path).unwrap();
        file.write_all(content).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    #[test]
    fn this_program_has_no_patchable_entries() {
        let tables = read(&File::open("/proc/self/exe").unwrap()).unwrap();
        assert!(tables.entries.is_empty() && tables.symbols.is_empty());
    }

    #[test]
    fn what_is_no_program_is_refused_in_words() {
        assert_eq!(
            read(&kept(b"short")).unwrap_err(),
            "a table of 64 bytes at 0 does not fit its 5 bytes"
        );
        assert!(read(&kept(&[b'x'; 100])).unwrap_err().contains("no 64-bit"));
    }

    /// Damage anywhere in the headers is an error or other tables, never a panic or a huge allocation.
    #[test]
    fn a_damaged_program_is_an_error_or_read() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let at = u64_at(&whole, 40).unwrap() as usize;
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for round in 0..64 {
            let mut damaged = whole[..64].to_vec();
            damaged.extend_from_slice(&whole[at..]);
            damaged[40..48].copy_from_slice(&64_u64.to_le_bytes());
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let place = 16 + (state >> 33) as usize % (damaged.len() - 16);
                damaged[place] = (state >> 56) as u8;
            }
            damaged.truncate(damaged.len() - round);
            let _ = read(&kept(&damaged));
        }
    }
}
