//! One traced operation with what is known of the program around it: the loaded files, its CTX points, entries and source lines.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use corun_cachesim::instruction_cache::{self, RecorderLimits};
use corun_machine::trace::{
    CtxPoint, Frame, FunctionEntries, Lines, Module, Recorder, TraceError, TraceSource,
};
use corun_model::teams::CtxSite;
use corun_model::teams::instructions::{Event, InstructionSink};

use super::study::Place;
use corun_cli::failure::Failed;

/// A point by a name that holds for every run of the program, wherever it was loaded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Compiled in.
    Site(CtxSite),
    /// An instruction: the file it is from and its address there.
    Code(PathBuf, u64),
}

/// An operation and its surroundings.
pub struct Traced {
    /// What to call it.
    pub name: String,
    /// Its instructions.
    pub operation: instruction_cache::Operation,
    modules: Vec<Module>,
    points: BTreeMap<u64, CtxPoint>,
    entries: Vec<FunctionEntries>,
    lines: RefCell<Lines>,
    /// Where we run: source files below it are named from here.
    folder: Option<PathBuf>,
}

/// Keeps the operation and counts its instructions while they come.
struct Listener<'a> {
    recorder: instruction_cache::Recorder,
    advance: &'a mut dyn FnMut(u64),
    pending: u64,
}

/// Where `corun_exec::ctx!` is written.
const MACRO_FILE: &str = "teams/point.rs";
/// So many instructions are one step of a progress bar.
const ADVANCE: u64 = 4096;

impl InstructionSink for Listener<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.recorder.event(event);
        if matches!(event, Event::Instruction(_)) {
            self.pending += 1;
            if self.pending == ADVANCE {
                (self.advance)(ADVANCE);
                self.pending = 0;
            }
        }
    }
}

impl Traced {
    /// Takes the next operation of a source; it may have `instructions_max` instructions. `keep` records it, too, and `advance` hears of
    /// progress.
    ///
    /// # Errors
    /// What the tracer says, and a source without an operation.
    pub fn take(
        name: &str,
        source: &mut dyn TraceSource,
        instructions_max: usize,
        keep: Option<&mut Recorder>,
        advance: &mut dyn FnMut(u64),
    ) -> Result<Traced> {
        let mut listener = Listener {
            recorder: instruction_cache::Recorder::new(RecorderLimits { instructions_max }),
            advance,
            pending: 0,
        };
        let traced = match keep {
            None => source.next_operation(&mut listener),
            Some(keep) => keep.record(source, Some(&mut listener)),
        };
        if traced.map_err(failed)?.is_none() {
            bail!(Failed(
                "the trace holds no operation\nhint: trace one that runs, and keep it with --trace-out"
                    .to_owned()
            ));
        }
        let mut operations = listener.recorder.finish()?;
        let Some(operation) = operations
            .pop()
            .filter(|operation| !operation.fetches().is_empty())
        else {
            bail!(Failed("the traced operation has no instruction".to_owned()));
        };
        let modules = source.modules().to_vec();
        let points = source
            .ctx_points()
            .iter()
            .map(|point| (point.address, point.clone()));
        Ok(Traced {
            name: name.to_owned(),
            operation,
            points: points.collect(),
            entries: modules.iter().map(FunctionEntries::of).collect(),
            lines: RefCell::new(Lines::new(&modules)),
            folder: std::env::current_dir().ok(),
            modules,
        })
    }

    /// The file an address is in, by number.
    fn module(&self, address: u64) -> Option<usize> {
        self.modules.iter().position(|module| module.holds(address))
    }

    /// The lasting name of an instruction.
    pub fn code(&self, address: u64) -> Key {
        match self.module(address).map(|index| &self.modules[index]) {
            Some(module) => Key::Code(module.path.clone(), address.wrapping_sub(module.bias)),
            None => Key::Code(PathBuf::new(), address),
        }
    }

    /// The lasting name of a compiled-in point, by its record.
    pub fn site(&self, record: u64) -> Option<&CtxPoint> {
        self.points.get(&record)
    }

    /// Whether the program has compiled-in points.
    pub fn has_sites(&self) -> bool {
        !self.points.is_empty()
    }

    /// The entries that can be patched, among all that the operation ran.
    pub fn patchable(&self) -> BTreeSet<u64> {
        let fetches = self.operation.fetches().iter().map(|fetch| fetch.address);
        let distinct: BTreeSet<u64> = fetches.collect();
        distinct
            .into_iter()
            .filter(|&address| self.is_patchable(address))
            .collect()
    }

    fn is_patchable(&self, address: u64) -> bool {
        self.module(address).is_some_and(|index| {
            let linked = address.wrapping_sub(self.modules[index].bias);
            self.entries[index].is_patchable(linked)
        })
    }

    /// The symbol of the function that begins at an address or a few bytes before.
    pub fn symbol(&self, address: u64) -> Option<String> {
        let index = self.module(address)?;
        let linked = address.wrapping_sub(self.modules[index].bias);
        self.entries[index].symbol(linked).map(str::to_owned)
    }

    /// Where an instruction is in the source.
    pub fn place(&self, address: u64) -> Place {
        self.place_without(address, |_| 0)
    }

    /// Where the code of a compiled-in point is, without what the macro inlines there. The compiler says of some of that that it is
    /// where the macro is used, and of some that it is where the macro is written.
    pub fn place_of_site(&self, address: u64, site: &CtxSite) -> Place {
        self.place_without(address, |frames| {
            let is_in =
                |frame: &Frame, end: &str| frame.file.as_ref().is_some_and(|file| file.ends_with(end));
            let used = frames.iter().position(|frame| is_in(frame, &site.file));
            let written = || frames.iter().rposition(|frame| is_in(frame, MACRO_FILE));
            used.or_else(written).unwrap_or_default()
        })
    }

    fn place_without(&self, address: u64, inner_frames: impl FnOnce(&[Frame]) -> usize) -> Place {
        let found = self.lines.borrow_mut().place(address);
        let module = found.module.and_then(|index| self.modules.get(index));
        let mut place = Place {
            function: found.function,
            module: module.map_or_else(|| "code of no file".to_owned(), Module::name),
            offset: found.linked,
            ..Place::default()
        };
        let skipped = inner_frames(&found.frames);
        let mut frames = found.frames.into_iter().skip(skipped);
        if let Some(inner) = frames.next() {
            place.function = inner.function.or(place.function);
            place.source = inner.file.zip(inner.line).map(|(file, line)| {
                let shorter = self
                    .folder
                    .as_ref()
                    .and_then(|folder| Path::new(&file).strip_prefix(folder).ok());
                let file = shorter.map(|path| path.display().to_string()).unwrap_or(file);
                (file, line, inner.column.unwrap_or(0))
            });
            place.inlined_into = frames.filter_map(|frame| frame.function).collect();
        }
        place
    }
}

/// A tracer's error in the program's own three parts.
pub fn failed(error: TraceError) -> anyhow::Error {
    let mut text = error.to_string();
    for (name, part) in [("detail", error.detail()), ("hint", error.hint())] {
        if let Some(part) = part {
            text.push_str(&format!("\n{name}: {part}"));
        }
    }
    Failed(text).into()
}
