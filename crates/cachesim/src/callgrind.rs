//! [`Executed`]: what callgrind counted, by file of code, function and instruction, read from its output file.
//!
//! Cachegrind counts by function only, takes all functions without a symbol for one, and does not say which library a function is from.
//! Callgrind has the same simulator; run with `--dump-instr=yes --compress-strings=no --compress-pos=no` it writes a line for each
//! instruction:
//!
//! ```text
//!   positions: instr line
//!   events: Ir Dr Dw I1mr ...                    as cachegrind's
//!   ob=/usr/lib/postgresql/15/bin/postgres       the file of code of what follows
//!   fl=???
//!   fn=ExecutorRun                               its function; 0x... where there is no symbol, 'n behind it in a recursion
//!   0x2d4c10 0 312 156 2                         address as linked, source line, and the counts
//!   cfn=standard_ExecutorRun                     a call follows:
//!   calls=312 0x2d4a00 0                         how often, where to,
//!   0x2d4c14 0 9876543 ...                       and what it cost altogether, which is no count of this instruction
//!   totals: 123456 ...
//! ```
//!
//! From two runs, one of which executes a statement more often, [`Executed::functions`] gives what the executions cost, and
//! [`Executed::code`] which lines of memory their code lies in: its footprint, to be held against the first-level instruction cache. An
//! instruction counts for the line it begins in.
//!
//! Not here: running it.

use std::collections::{BTreeSet, HashMap};

use crate::cachegrind::{Counts, Event, Problem, columns_of, events_of, same, shown};

/// Bytes of a line of code.
const LINE_BYTES: u64 = 64;

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    objects: Vec<Object>,
    total: Counts,
}

/// A file of code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Object {
    path: String,
    /// How often each was executed, by address.
    instructions: HashMap<u64, u64>,
    functions: HashMap<String, Counts>,
}

/// What a function did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its file of code; `???` for code that is in none.
    pub object: String,
    /// Its name; its address, `0x...`, where there is no symbol.
    pub name: String,
    /// Its counts, those of functions it calls excepted.
    pub counts: Counts,
}

impl Function {
    /// Whether there was a symbol for it.
    pub fn is_named(&self) -> bool {
        !self.name.starts_with("0x") && self.name != "???"
    }
}

/// The code a statement executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Lines of each file of code, most first.
    pub lines: Vec<(String, u64)>,
}

impl Code {
    /// Bytes of the lines of all files.
    pub fn bytes(&self) -> u64 {
        self.lines.iter().map(|(_, lines)| lines * LINE_BYTES).sum()
    }

    /// Bytes of the lines of one file.
    pub fn bytes_of(&self, path: &str) -> u64 {
        let lines = self.lines.iter().find(|(object, _)| object == path);
        lines.map_or(0, |(_, lines)| lines * LINE_BYTES)
    }
}

/// A file that is no whole output of callgrind, or was not written with the options this needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("callgrind's output, line {line}: {problem}")]
pub struct CallgrindError {
    /// The line, counted from 1; the number of lines where something is missing at the end.
    pub line: usize,
    /// What is wrong with it.
    pub problem: CallgrindProblem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallgrindProblem {
    /// What may be wrong with cachegrind's files, too.
    #[error(transparent)]
    Line(#[from] Problem),
    /// Not by instruction.
    #[error("counts are not by instruction; run it with --dump-instr=yes")]
    Positions,
    /// Names or addresses are shortened.
    #[error("\"{0}\" is shortened; run it with --compress-strings=no --compress-pos=no")]
    Compressed(String),
    /// No address.
    #[error("\"{0}\" begins with no address")]
    Address(String),
    /// Counts before the first file of code or function.
    #[error("counts before the lines \"ob=\" and \"fn=\"")]
    NoFunction,
}

impl Executed {
    /// Reads an output file.
    ///
    /// # Errors
    /// [`CallgrindError`] for a file that is damaged, cut off or written with other options, with the line.
    pub fn parse(text: &str) -> Result<Executed, CallgrindError> {
        let mut reader = Reader::default();
        let mut lines = 0;
        for (index, line) in text.lines().enumerate() {
            lines = index + 1;
            reader
                .line(line)
                .map_err(|problem| CallgrindError { line: lines, problem })?;
        }
        match reader.finished {
            true => Ok(Executed {
                objects: reader.objects,
                total: reader.total,
            }),
            false => Err(CallgrindError {
                line: lines,
                problem: Problem::Truncated.into(),
            }),
        }
    }

    /// The sum over all instructions.
    pub fn total(&self) -> &Counts {
        &self.total
    }

    /// The lines of code in which instructions begin that this run executed at least `times` times more often than `other`: with the
    /// number of statements it executed more, the code that each of them needs, its own start and rare turns left out.
    pub fn code(&self, other: &Executed, times: u64) -> Code {
        let mut lines: Vec<(String, u64)> = self
            .objects
            .iter()
            .map(|object| {
                let theirs = other.object(&object.path);
                let touched: BTreeSet<u64> = object
                    .instructions
                    .iter()
                    .filter(|(address, count)| {
                        let before = theirs.and_then(|theirs| theirs.instructions.get(address));
                        count.saturating_sub(before.copied().unwrap_or(0)) >= times.max(1)
                    })
                    .map(|(address, _)| address / LINE_BYTES)
                    .collect();
                (object.path.clone(), touched.len() as u64)
            })
            .filter(|(_, lines)| *lines > 0)
            .collect();
        lines.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Code { lines }
    }

    /// What the functions did in this run beyond `other`, most instructions first.
    pub fn functions(&self, other: &Executed) -> Vec<Function> {
        let mut functions = Vec::new();
        for object in &self.objects {
            let theirs = other.object(&object.path);
            for (name, counts) in &object.functions {
                let before = theirs.and_then(|theirs| theirs.functions.get(name));
                let counts = counts.saturating_less(before.unwrap_or(&Counts::default()));
                if counts.get(Event::Instructions) > 0 {
                    functions.push(Function {
                        object: object.path.clone(),
                        name: name.clone(),
                        counts,
                    });
                }
            }
        }
        functions.sort_by(|a, b| {
            let [of_a, of_b] = [a, b].map(|function| function.counts.get(Event::Instructions));
            let by_count = of_b.cmp(&of_a);
            by_count.then_with(|| (&a.object, &a.name).cmp(&(&b.object, &b.name)))
        });
        functions
    }

    fn object(&self, path: &str) -> Option<&Object> {
        self.objects.iter().find(|object| object.path == path)
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    by_instruction: bool,
    events: Vec<Event>,
    objects: Vec<Object>,
    places: HashMap<String, usize>,
    object: Option<usize>,
    function: Option<String>,
    /// The next line is what a call cost, not what an instruction did.
    behind_call: bool,
    total: Counts,
    finished: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), CallgrindProblem> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if self.finished {
            return Err(Problem::BehindSummary.into());
        }
        if let Some(rest) = line.strip_prefix("0x") {
            return self.counts(line, rest);
        }
        if line.starts_with(['+', '-', '*']) {
            return Err(CallgrindProblem::Compressed(shown(line)));
        }
        let unknown = || Problem::Unknown(shown(line)).into();
        if let Some((kind, name)) = line.split_once('=')
            && !kind.contains(':')
        {
            let shortened = name.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            if shortened.is_some_and(|(id, _)| id.parse::<u64>().is_ok()) {
                return Err(CallgrindProblem::Compressed(shown(line)));
            }
            match kind {
                "ob" => self.object = Some(self.place(name)),
                "fn" => self.function = Some(without_recursion(name).to_owned()),
                "calls" => self.behind_call = true,
                "fl" | "fi" | "fe" | "cob" | "cfi" | "cfl" | "cfn" => {}
                _ => return Err(unknown()),
            }
            return Ok(());
        }
        let (kind, rest) = line.split_once(':').ok_or_else(unknown)?;
        match kind {
            "positions" => {
                self.by_instruction = rest.split_whitespace().eq(["instr", "line"]);
                self.by_instruction
                    .then_some(())
                    .ok_or(CallgrindProblem::Positions)
            }
            "events" => {
                self.events = events_of(rest)?;
                Ok(())
            }
            "totals" => {
                let totals = columns_of(&self.events, rest)?;
                same(&self.events, &self.total, &totals)?;
                self.finished = true;
                Ok(())
            }
            "version" | "creator" | "pid" | "cmd" | "part" | "desc" | "thread" | "summary" => Ok(()),
            _ => Err(unknown()),
        }
    }

    fn place(&mut self, path: &str) -> usize {
        if let Some(place) = self.places.get(path) {
            return *place;
        }
        let object = Object {
            path: path.to_owned(),
            ..Object::default()
        };
        self.objects.push(object);
        self.places.insert(path.to_owned(), self.objects.len() - 1);
        self.objects.len() - 1
    }

    /// `rest` is the line without `0x`.
    fn counts(&mut self, line: &str, rest: &str) -> Result<(), CallgrindProblem> {
        if !self.by_instruction {
            return Err(CallgrindProblem::Positions);
        }
        if std::mem::take(&mut self.behind_call) {
            return Ok(());
        }
        let wrong = || CallgrindProblem::Address(shown(line));
        let (address, rest) = rest.split_once(' ').ok_or_else(wrong)?;
        let address = u64::from_str_radix(address, 16).map_err(|_| wrong())?;
        // The source line, which is 0 without debug information.
        let (_, columns) = rest.split_once(' ').ok_or_else(wrong)?;
        let counts = columns_of(&self.events, columns)?;
        let (Some(object), Some(function)) = (self.object, &self.function) else {
            return Err(CallgrindProblem::NoFunction);
        };
        let overflow = || Problem::Count(shown(line));
        self.total = self.total.plus(&counts).ok_or_else(overflow)?;
        let object = &mut self.objects[object];
        // No sum of a part exceeds the one above.
        *object.instructions.entry(address).or_default() += counts.get(Event::Instructions);
        match object.functions.get_mut(function) {
            Some(sum) => *sum = sum.plus(&counts).ok_or_else(overflow)?,
            None => {
                object.functions.insert(function.clone(), counts);
            }
        }
        Ok(())
    }
}

/// Callgrind takes the levels of a recursion for functions of their own: `qsort'2`.
fn without_recursion(name: &str) -> &str {
    match name.rsplit_once('\'') {
        Some((function, level)) if level.parse::<u32>().is_ok() => function,
        _ => name,
    }
}
