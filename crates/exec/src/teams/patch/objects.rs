//! The objects loaded into this process (the program and its shared libraries), where they lie, and their patchable entries.

use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::elf::{self, Symbol};
use super::{Entry, PatchError};

/// A loaded object.
#[derive(Debug)]
pub(super) struct Object {
    pub path: PathBuf,
    /// What is added to the addresses in the file.
    base: u64,
    /// Addresses of the loaded segments, and whether their bytes are instructions.
    segments: Vec<(Range<u64>, bool)>,
}

/// Every object the loader knows of, in its order: the program first.
pub(super) fn loaded() -> Vec<Object> {
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, objects: *mut c_void) -> c_int {
        // SAFETY: the loader hands a valid `info` to this call, and `objects` is the vector below, borrowed by nobody else.
        let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Vec<Object>>()) };
        let name = if info.dlpi_name.is_null() {
            c""
        } else {
            // SAFETY: not null, and then it is a C string that lives as long as the object is loaded.
            unsafe { CStr::from_ptr(info.dlpi_name) }
        };
        let path = match name.to_bytes() {
            b"" => PathBuf::from("/proc/self/exe"),
            name => PathBuf::from(std::ffi::OsStr::from_bytes(name)),
        };
        let headers = if info.dlpi_phdr.is_null() {
            &[]
        } else {
            // SAFETY: the loader's own table of that many program headers.
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
        };
        let segments = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .map(|header| {
                let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
                (
                    start..start.wrapping_add(header.p_memsz),
                    header.p_flags & libc::PF_X != 0,
                )
            });
        objects.push(Object {
            path,
            base: info.dlpi_addr,
            segments: segments.collect(),
        });
        0
    }
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: `each` matches the signature and does not unwind short of an allocation failure, which aborts.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut objects).cast()) };
    objects
}

impl Object {
    /// The patchable entries, sorted by address; empty where the object has none or is no file (the kernel's own object).
    pub(super) fn entries(&self) -> Result<Vec<Entry>, PatchError> {
        let Ok(file) = File::open(&self.path) else {
            return Ok(Vec::new());
        };
        let path = self.shown();
        let malformed = |what: String| PatchError::Malformed {
            path: path.clone(),
            what,
        };
        let tables = elf::read(&file).map_err(malformed)?;
        let mut addresses = Vec::new();
        for (start, bytes) in tables.entries {
            let start = self.base.wrapping_add(start);
            let within =
                |range: &Range<u64>| range.start <= start && bytes <= range.end.saturating_sub(start);
            if !self.segments.iter().any(|(range, _)| within(range)) || start % 8 != 0 || bytes % 8 != 0 {
                return Err(malformed(format!(
                    "its entries at {start:#x} ({bytes} bytes) are in no loaded segment"
                )));
            }
            // SAFETY: aligned, and inside a segment of an object that is loaded: readable, and relocated before its code ran.
            let slice = unsafe { std::slice::from_raw_parts(start as *const u64, (bytes / 8) as usize) };
            addresses.extend_from_slice(slice);
        }
        // Functions the linker threw away leave zeros behind.
        addresses.retain(|&address| address != 0);
        addresses.sort_unstable();
        addresses.dedup();
        let mut symbols = tables.symbols;
        symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        symbols.dedup();
        let executable = |address: u64| {
            let holds =
                |range: &Range<u64>| range.start <= address && address + super::BYTES as u64 <= range.end;
            self.segments.iter().any(|(range, code)| *code && holds(range))
        };
        addresses
            .into_iter()
            .map(|address| match executable(address) {
                true => Ok(Entry {
                    names: named(&symbols, address.wrapping_sub(self.base)),
                    address: address as usize,
                    object: path.clone(),
                }),
                false => Err(malformed(format!("its entry {address:#x} is in no code"))),
            })
            .collect()
    }

    /// The path people know the object by.
    fn shown(&self) -> PathBuf {
        match self.path == Path::new("/proc/self/exe") {
            true => std::fs::read_link(&self.path).unwrap_or_else(|_| self.path.clone()),
            false => self.path.clone(),
        }
    }
}

/// The names of the function that has its patchable bytes at `address`: those of the last start at or before it that reaches
/// it (an `endbr64` may stand before the patchable bytes).
fn named(symbols: &[Symbol], address: u64) -> Vec<String> {
    let after = symbols.partition_point(|symbol| symbol.address <= address);
    let Some(last) = symbols[..after].last() else {
        return Vec::new();
    };
    let start = last.address;
    symbols[..after]
        .iter()
        .rev()
        .take_while(|symbol| symbol.address == start)
        .filter(|symbol| address - start < symbol.bytes.max(1))
        .map(|symbol| symbol.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_names_of_the_function_around_it() {
        let symbol = |name: &str, address, bytes| Symbol {
            name: name.to_string(),
            address,
            bytes,
        };
        let symbols = [symbol("a", 16, 32), symbol("alias", 16, 32), symbol("b", 64, 8)];
        assert_eq!(named(&symbols, 8), Vec::<String>::new(), "before all functions");
        assert_eq!(named(&symbols, 16), ["alias", "a"], "at the start, with an alias");
        assert_eq!(named(&symbols, 20), ["alias", "a"], "after an endbr64");
        assert_eq!(named(&symbols, 48), Vec::<String>::new(), "between functions");
        assert_eq!(named(&symbols, 64), ["b"]);
    }

    #[test]
    fn the_program_is_the_first_object_and_holds_this_function() {
        let objects = loaded();
        assert_eq!(objects[0].path, Path::new("/proc/self/exe"));
        let here = loaded as *const () as u64;
        assert!(
            objects[0]
                .segments
                .iter()
                .any(|(range, code)| *code && range.contains(&here))
        );
    }
}
