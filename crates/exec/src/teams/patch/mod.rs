//! CTX points for engines we did not write: calls patched into the entries of functions, with no change to their source.
//!
//! The engine (C or C++) is compiled with `-fpatchable-function-entry=5`: gcc and clang then leave five bytes that do nothing at
//! the start of each function, and write their addresses down. At start-up the program reads these addresses ([`Entries`]), and
//! replaces the five bytes at the functions a profile names by a call ([`patch`]): to code that keeps every register an argument
//! may be in, passes the CPU to the next member of the team, and returns. Other functions keep their five bytes.
//!
//! ```text
//!   name:  nop ×5               name:  call ──────────┐ (an island where the engine is a library far away)
//!   body:  push %rbx      ═►    body:  push %rbx ◄─┐  ▼
//!          …                           …           └─ keep arguments; CTX; bring them back; ret
//! ```
//!
//! Order of calls: [`Entries::of_this_process`], then [`patch`] before other threads run the engine, then teams as ever. What is
//! given back un-patches when dropped.
//!
//! It is made for x86-64 Linux, whose instructions and object files it knows; elsewhere [`Entries::of_this_process`] returns
//! [`PatchError::Unsupported`].
//!
//! What it is not: it does not choose entries (`corun-lab autosteps` does) and does not know what an engine locks. An engine whose
//! mutexes block the thread, or tell owners apart by thread, needs mutexes made for user-level threads first, and those held for
//! others to wait on must count as latches ([`latch_enter`](super::latch_enter)): a CTX point inside a latch does nothing.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod code;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod elf;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod elsewhere;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod objects;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trampoline;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
use elsewhere::{code, objects, trampoline};

/// Bytes of a call, and so of a patchable entry.
const BYTES: usize = 5;
/// Names an error proposes.
const PROPOSED_MAX: usize = 3;

/// Why entries could not be read or patched.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// Instructions and object files are those of another system.
    #[error("functions can be patched on x86-64 Linux only; elsewhere put ctx! into the engine's source")]
    Unsupported,
    /// An object's file is damaged, or was replaced since it was loaded.
    #[error("cannot read the patchable entries of {}: {what}", path.display())]
    Malformed {
        /// The program or library.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Nothing that is loaded was compiled for patching.
    #[error(
        "nothing in this process has patchable function entries; compile the engine with -fpatchable-function-entry=5 (gcc, clang)"
    )]
    NoEntries,
    /// There are entries but no names to find them by.
    #[error(
        "the {entries} patchable functions have no names: the symbol table was stripped; keep it (no strip, no -s)"
    )]
    Stripped {
        /// How many entries there are.
        entries: usize,
    },
    /// No patchable function has this name.
    #[error("no patchable function is called {name:?}{}", proposed(nearest))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The most similar ones there are, best first.
        nearest: Vec<String>,
    },
    /// Several functions have this name.
    #[error("{} functions are called {name:?}, in {}; which is meant cannot be said by name", places.len(), listed(places))]
    Several {
        /// The name asked for.
        name: String,
        /// Where each is.
        places: Vec<PathBuf>,
    },
    /// Somebody patched it before.
    #[error("{name} is patched already; un-patch it first (drop what patching it gave back)")]
    AlreadyPatched {
        /// The function.
        name: String,
    },
    /// The entry does not hold five bytes that do nothing.
    #[error(
        "{name} does not begin with five bytes that may be replaced but with {bytes:02x?}; compile with -fpatchable-function-entry=5"
    )]
    NotPatchable {
        /// The function.
        name: String,
        /// What is there.
        bytes: [u8; BYTES],
    },
    /// The system did not let the code be changed.
    #[error("cannot change the code of {name}: {source}")]
    Protected {
        /// The function.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
}

fn proposed(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!("; the nearest are {}", names.join(", ")),
    }
}

fn listed(places: &[PathBuf]) -> String {
    let shown: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}

/// One patchable entry and the names it is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Names of the function in the symbol table, several if it has aliases, none if it was stripped.
    pub names: Vec<String>,
    /// Where the patchable bytes are.
    pub address: usize,
    /// The program or library the function is in.
    pub object: PathBuf,
}

/// The patchable functions of this process: those of the program and of the libraries loaded when they were read.
#[derive(Debug)]
pub struct Entries {
    entries: Vec<Entry>,
}

impl Entries {
    /// Reads them from the loaded objects' files and memory.
    ///
    /// # Errors
    /// [`PatchError::NoEntries`] where nothing was compiled for patching, [`PatchError::Stripped`], [`PatchError::Malformed`],
    /// [`PatchError::Unsupported`].
    pub fn of_this_process() -> Result<Self, PatchError> {
        if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            return Err(PatchError::Unsupported);
        }
        let mut entries = Vec::new();
        for object in objects::loaded() {
            entries.extend(object.entries()?);
        }
        if entries.is_empty() {
            return Err(PatchError::NoEntries);
        }
        if entries.iter().all(|entry| entry.names.is_empty()) {
            return Err(PatchError::Stripped {
                entries: entries.len(),
            });
        }
        Ok(Self { entries })
    }

    /// All of them: by object in the order of loading, then by address.
    pub fn as_slice(&self) -> &[Entry] {
        &self.entries
    }

    /// The function called `name`.
    ///
    /// # Errors
    /// [`PatchError::Unknown`] with the most similar names, [`PatchError::Several`].
    pub fn find(&self, name: &str) -> Result<&Entry, PatchError> {
        let mut found = self
            .entries
            .iter()
            .filter(|entry| entry.names.iter().any(|one| one == name));
        match (found.next(), found.next()) {
            (Some(entry), None) => Ok(entry),
            (None, _) => Err(PatchError::Unknown {
                name: name.to_string(),
                nearest: self.nearest(name),
            }),
            (Some(first), Some(second)) => Err(PatchError::Several {
                name: name.to_string(),
                places: [first, second]
                    .into_iter()
                    .chain(found)
                    .map(|entry| entry.object.clone())
                    .collect(),
            }),
        }
    }

    fn nearest(&self, name: &str) -> Vec<String> {
        let names: BTreeSet<&String> = self.entries.iter().flat_map(|entry| &entry.names).collect();
        let mut scored: Vec<(usize, &String)> =
            names.into_iter().map(|one| (edits(name, one), one)).collect();
        scored.retain(|(edits, _)| *edits <= name.len() / 2);
        scored.sort();
        scored
            .into_iter()
            .take(PROPOSED_MAX)
            .map(|(_, name)| name.clone())
            .collect()
    }
}

/// The edit distance of two names.
fn edits(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// What a member asks the memory for before it passes the CPU on at a patched entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefetch {
    /// Nothing.
    #[default]
    Nothing,
    /// The line its function's first argument points to. An argument that is no pointer does no harm, only no good.
    FirstArgument,
}

/// Functions that are CTX points now. Dropping it (or [`Patched::unpatch`]) makes them ordinary functions again.
#[derive(Debug)]
#[must_use = "dropping it un-patches the functions"]
pub struct Patched {
    /// Name, address, and the bytes that were there.
    changed: Vec<(String, usize, [u8; BYTES])>,
}

/// Makes each function of `names` a CTX point: whoever enters it passes the CPU to the next member of the team first. All or
/// nothing: at the first error, functions patched before it are restored. A name given twice counts once.
///
/// A member that waits in a patched entry when it is un-patched goes on as if nothing had happened.
///
/// Registers that hold arguments are kept, vectors in their first 128 bits: a function that takes wider ones must not be named.
///
/// # Safety
/// As long as this runs, and again when what it returns is dropped, no other thread may be entering one of these functions: call
/// it at start-up, and drop it when the engine's threads have ended. The library of the functions must stay loaded in between.
///
/// # Errors
/// [`PatchError::Unknown`], [`PatchError::Several`], [`PatchError::AlreadyPatched`], [`PatchError::NotPatchable`],
/// [`PatchError::Protected`].
pub unsafe fn patch<S: AsRef<str>>(
    entries: &Entries,
    names: &[S],
    prefetch: Prefetch,
) -> Result<Patched, PatchError> {
    let target = trampoline::address(prefetch);
    let all = [Prefetch::Nothing, Prefetch::FirstArgument].map(trampoline::address);
    let mut patched = Patched {
        changed: Vec::with_capacity(names.len()),
    };
    for name in names {
        let name = name.as_ref().to_string();
        let address = entries.find(&name)?.address;
        if patched.changed.iter().any(|(_, known, _)| *known == address) {
            continue;
        }
        // SAFETY: an entry's address, its object loaded by the caller's promise.
        let before = unsafe { code::read(address) };
        if all.iter().any(|&known| code::is_call_to(&before, address, known)) {
            return Err(PatchError::AlreadyPatched { name });
        }
        if !code::is_nops(&before) {
            return Err(PatchError::NotPatchable { name, bytes: before });
        }
        let written = code::call(address, target).and_then(|call| {
            // SAFETY: nobody executes these bytes by the caller's promise; the call leads to the trampoline, which changes nothing
            // the function can see.
            unsafe { code::write(address, call) }
        });
        match written {
            Ok(()) => patched.changed.push((name, address, before)),
            Err(source) => return Err(PatchError::Protected { name, source }),
        }
    }
    Ok(patched)
}

impl Patched {
    /// The functions, in the order given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().map(|(name, _, _)| name.as_str())
    }

    /// Makes them ordinary functions again.
    ///
    /// # Errors
    /// [`PatchError::Protected`] for the first that could not be restored; it stays a CTX point, the others are restored.
    pub fn unpatch(mut self) -> Result<(), PatchError> {
        self.restore()
    }

    fn restore(&mut self) -> Result<(), PatchError> {
        let mut outcome = Ok(());
        for (name, address, before) in self.changed.drain(..) {
            // SAFETY: the promise given to `patch` holds until here; the bytes are the ones found there.
            if let Err(source) = unsafe { code::write(address, before) }
                && outcome.is_ok()
            {
                outcome = Err(PatchError::Protected { name, source });
            }
        }
        outcome
    }
}

impl Drop for Patched {
    fn drop(&mut self) {
        // A function that stays a CTX point does the right thing, only not the cheapest: nothing to report.
        let _ = self.restore();
    }
}

#[cfg(all(test, not(all(target_os = "linux", target_arch = "x86_64"))))]
mod tests {
    use super::*;

    #[test]
    fn elsewhere_entries_are_a_clear_error() {
        let error = Entries::of_this_process().expect_err("they are those of another machine");
        assert!(matches!(error, PatchError::Unsupported), "{error}");
        assert!(error.to_string().contains("x86-64 Linux only"), "{error}");
    }
}
