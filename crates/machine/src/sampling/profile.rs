//! From addresses to functions, and the functions in order.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::trace::{Functions, Mapping, mappings};

/// Whose code it is, as the paper tells them apart (section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The server's own program.
    Server,
    /// The kernel.
    Kernel,
    /// Libraries, and whatever else a process has mapped.
    Libraries,
}

impl Origin {
    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Kernel => "kernel",
            Self::Libraries => "libraries",
        }
    }
}

/// The samples of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSamples {
    /// Its name, demangled; in brackets where the file does not name it.
    pub function: String,
    /// The file it is in, without folders; `kernel` for the kernel.
    pub file: String,
    /// Whose it is.
    pub origin: Origin,
    /// How many samples.
    pub samples: u64,
}

/// Where all samples were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Most samples first; equal ones by name.
    pub functions: Vec<FunctionSamples>,
    /// All samples.
    pub samples: u64,
    /// Samples the kernel dropped because a buffer was full.
    pub lost: u64,
    /// Samples at addresses that belong to no known file: code made at run time, processes gone too early.
    pub unknown: u64,
    /// What a reader should know, each once: a server without symbols.
    pub notes: Vec<String>,
    counts: BTreeMap<(Origin, String, String), u64>,
}

impl Profile {
    pub(super) fn new(lost: u64) -> Self {
        Self {
            lost,
            ..Self::default()
        }
    }

    pub(super) fn add_kernel(&mut self, samples: u64) {
        self.add(Origin::Kernel, "[kernel]", "kernel", samples);
    }

    pub(super) fn add_unknown(&mut self, samples: u64) {
        self.samples += samples;
        self.unknown += samples;
    }

    /// `server` is the program whose code is the server's.
    pub(super) fn add_user(&mut self, found: Option<Found<'_>>, server: Option<&Path>, samples: u64) {
        let Some(found) = found else {
            return self.add_unknown(samples);
        };
        let origin = if server == Some(found.path) {
            Origin::Server
        } else {
            Origin::Libraries
        };
        let file = found.path.file_name().unwrap_or(found.path.as_os_str());
        let file = file.to_string_lossy();
        match found.function {
            Some(function) => self.add(origin, &function, &file, samples),
            None => self.add(origin, &format!("[{file}]"), &file, samples),
        }
    }

    fn add(&mut self, origin: Origin, function: &str, file: &str, samples: u64) {
        self.samples += samples;
        *self
            .counts
            .entry((origin, file.to_owned(), function.to_owned()))
            .or_default() += samples;
    }

    /// Puts the functions in order. `without_symbols` is the server's program, if it names only what it exports.
    pub(super) fn finish(&mut self, without_symbols: Option<PathBuf>) {
        let counts = std::mem::take(&mut self.counts);
        self.functions = counts
            .into_iter()
            .filter(|(_, samples)| *samples > 0)
            .map(|((origin, file, function), samples)| FunctionSamples {
                function,
                file,
                origin,
                samples,
            })
            .collect();
        // Stable: equal ones stay in the order of their names.
        self.functions
            .sort_by_key(|function| std::cmp::Reverse(function.samples));
        if let Some(program) = without_symbols {
            self.notes.push(format!(
                "{} names only the functions it exports: install its debug symbols for the others",
                program.display()
            ));
        }
    }

    /// A function's samples in percent of all; `None` where there are none at all.
    pub fn percent(&self, function: &FunctionSamples) -> Option<f64> {
        (self.samples > 0).then(|| 100.0 * function.samples as f64 / self.samples as f64)
    }

    /// The samples of an origin.
    pub fn of(&self, origin: Origin) -> u64 {
        self.functions
            .iter()
            .filter(|function| function.origin == origin)
            .map(|function| function.samples)
            .sum()
    }
}

/// What a process has mapped as code, and which program it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Maps {
    program: Option<PathBuf>,
    /// By address.
    code: Vec<Mapping>,
}

impl Maps {
    /// Of a process that runs; `None` if it is gone or may not be looked at.
    pub fn of(pid: u32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
        let mut code = mappings(&String::from_utf8_lossy(&text));
        // A process that is ending has none.
        if code.is_empty() {
            return None;
        }
        code.retain(|mapping| mapping.executable && mapping.path.is_some());
        code.sort_unstable_by_key(|mapping| mapping.start);
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        Some(Self { program, code })
    }

    /// The program it runs.
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    fn holding(&self, address: u64) -> Option<&Mapping> {
        let behind = self.code.partition_point(|mapping| mapping.start <= address);
        self.code[..behind].last().filter(|mapping| address < mapping.end)
    }
}

/// A file an address is in, and the function there, if it has a name.
pub(super) struct Found<'a> {
    pub path: &'a Path,
    pub function: Option<String>,
}

/// The functions of all files that were sampled, read when first needed.
#[derive(Default)]
pub(super) struct Code {
    files: HashMap<PathBuf, Option<Functions>>,
}

impl Code {
    /// What is at an address of a process.
    pub fn find<'a>(&mut self, maps: &'a Maps, pid: u32, address: u64) -> Option<Found<'a>> {
        let mapping = maps.holding(address)?;
        let path = mapping.path.as_deref()?;
        let functions = self.functions(path, Some(pid));
        let function = functions.and_then(|functions| {
            let bias = functions.bias(mapping.start, mapping.offset)?;
            functions.at(address.wrapping_sub(bias))
        });
        Some(Found { path, function })
    }

    /// Whether a file names all of its functions; a file that cannot be read names none.
    pub fn is_complete(&mut self, path: &Path) -> bool {
        self.functions(path, None).is_some_and(Functions::is_complete)
    }

    fn functions(&mut self, path: &Path, pid: Option<u32>) -> Option<&Functions> {
        if !self.files.contains_key(path) {
            // A process in a container sees other files below the same names.
            let inside = pid
                .zip(path.strip_prefix("/").ok())
                .map(|(pid, below)| Path::new(&format!("/proc/{pid}/root")).join(below));
            let functions = inside
                .and_then(|inside| Functions::open(&inside, path))
                .or_else(|| Functions::open(path, path));
            self.files.insert(path.to_owned(), functions);
        }
        self.files.get(path)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_in_order_and_split_by_origin() {
        let server = Path::new("/usr/bin/server");
        let library = Path::new("/usr/lib/library.so");
        let found = |path, function: Option<&str>| {
            Some(Found {
                path,
                function: function.map(str::to_owned),
            })
        };
        let mut profile = Profile::new(7);
        profile.add_kernel(5);
        profile.add_user(found(server, Some("scan")), Some(server), 20);
        profile.add_user(found(server, Some("scan")), Some(server), 10);
        profile.add_user(found(server, None), Some(server), 2);
        profile.add_user(found(library, Some("scan")), Some(server), 5);
        profile.add_user(None, Some(server), 8);
        profile.finish(Some(server.to_owned()));
        let order: Vec<(&str, Origin, u64)> = profile
            .functions
            .iter()
            .map(|function| (function.function.as_str(), function.origin, function.samples))
            .collect();
        assert_eq!(
            order,
            [
                ("scan", Origin::Server, 30),
                ("[kernel]", Origin::Kernel, 5),
                ("scan", Origin::Libraries, 5),
                ("[server]", Origin::Server, 2),
            ]
        );
        assert_eq!((profile.samples, profile.lost, profile.unknown), (50, 7, 8));
        assert_eq!(profile.of(Origin::Server), 32);
        assert_eq!(profile.percent(&profile.functions[0]), Some(60.0));
        assert_eq!(profile.notes.len(), 1);
        assert!(profile.notes[0].contains("debug symbols"), "{:?}", profile.notes);
    }

    #[test]
    fn an_address_belongs_to_the_mapping_that_holds_it() {
        let maps = Maps::of(std::process::id()).unwrap();
        let here = functions_are_in_order_and_split_by_origin as *const () as u64;
        let mut code = Code::default();
        let found = code.find(&maps, std::process::id(), here).unwrap();
        assert_eq!(Some(found.path), maps.program());
        let name = found.function.expect("test programs have symbols");
        assert!(
            name.ends_with("functions_are_in_order_and_split_by_origin"),
            "{name}"
        );
        assert!(code.find(&maps, std::process::id(), 8).is_none());
    }
}
