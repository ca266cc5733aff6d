//! [`Executed`]: which instructions a program executed how often, and of which file of code they are, read from callgrind's output.
//!
//! Cachegrind counts by function and does not say which library a function is from, nor how much code of it was executed. Callgrind run
//! with `--dump-instr=yes --compress-strings=no --compress-pos=no` writes a line for each instruction:
//!
//! ```text
//!   positions: instr line
//!   events: Ir
//!   ob=/usr/lib/postgresql/15/bin/postgres       the file of code of what follows
//!   fl=???
//!   fn=ExecutorRun                               its function
//!   0x2d4c10 0 312                               address as linked, source line, how often
//!   cfn=standard_ExecutorRun                     a call follows:
//!   calls=312 0x2d4a00 0                         how often, where to,
//!   0x2d4c14 0 9876543                           and what it cost altogether, which is no count of this instruction
//!   totals: 123456
//! ```
//!
//! From two runs, one of which executes a statement more often, [`Executed::code`] says which lines of memory the statement's code lies
//! in: its footprint, to be held against the first-level instruction cache. An instruction counts for the line it begins in.
//!
//! Not here: running it, and misses, which are [`crate::cachegrind`]'s.

use std::collections::{BTreeSet, HashMap};

/// Bytes of a line of code.
const LINE_BYTES: u64 = 64;
/// Most characters of a damaged line that an error shows.
const SHOWN_MAX: usize = 60;
/// Most words a line of counts has: address, source line, and a count.
const WORDS: usize = 3;

/// How often each instruction was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    objects: Vec<Object>,
    total: u64,
}

/// A file of code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Object {
    path: String,
    /// By address.
    instructions: HashMap<u64, u64>,
    /// Instructions executed, by function.
    functions: HashMap<String, u64>,
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
    /// A line of no kind.
    #[error("\"{0}\" is none of its kinds of lines")]
    Unknown(String),
    /// Not by instruction.
    #[error("counts are not by instruction; run it with --dump-instr=yes")]
    Positions,
    /// Names or addresses are shortened.
    #[error("\"{0}\" is shortened; run it with --compress-strings=no --compress-pos=no")]
    Compressed(String),
    /// Other events than instructions alone.
    #[error("it counts \"{0}\", not instructions alone; run it without --cache-sim and --branch-sim")]
    Events(String),
    /// No number.
    #[error("\"{0}\" is no address or no count")]
    Number(String),
    /// Counts before the first file of code or function.
    #[error("counts before the lines \"ob=\" and \"fn=\"")]
    NoFunction,
    /// The sum in the file is another one than that of its lines.
    #[error("its lines have {found} instructions together, the total says {total}: the file is damaged")]
    Sum {
        /// The sum of the lines.
        found: u64,
        /// What the file says.
        total: u64,
    },
    /// The file ends before its total.
    #[error("it ends without a total: the program was killed, or the disk is full")]
    Truncated,
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
            reader.line(line).map_err(|problem| CallgrindError {
                line: lines,
                problem,
            })?;
        }
        reader.finish().map_err(|problem| CallgrindError {
            line: lines,
            problem,
        })
    }

    /// Instructions executed altogether.
    pub fn instructions(&self) -> u64 {
        self.total
    }

    /// The lines of code in which instructions begin that this run executed at least `times` times more often than `other`: with the
    /// number of statements it executed more, the code that each of them needs, its own start and rare turns left out.
    pub fn code(&self, other: &Executed, times: u64) -> Code {
        let empty = HashMap::new();
        let mut lines: Vec<(String, u64)> = self
            .objects
            .iter()
            .map(|object| {
                let theirs = other.objects.iter().find(|theirs| theirs.path == object.path);
                let theirs = theirs.map_or(&empty, |theirs| &theirs.instructions);
                let touched: BTreeSet<u64> = object
                    .instructions
                    .iter()
                    .filter(|(address, count)| {
                        let before = theirs.get(address).copied().unwrap_or(0);
                        count.saturating_sub(before) >= times.max(1)
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

    /// Instructions that this run executed beyond `other`, by file of code and function.
    pub fn beyond(&self, other: &Executed) -> Vec<(&str, &str, u64)> {
        let mut beyond = Vec::new();
        for object in &self.objects {
            let theirs = other.objects.iter().find(|theirs| theirs.path == object.path);
            for (function, count) in &object.functions {
                let before = theirs.and_then(|theirs| theirs.functions.get(function));
                let more = count.saturating_sub(before.copied().unwrap_or(0));
                if more > 0 {
                    beyond.push((object.path.as_str(), function.as_str(), more));
                }
            }
        }
        beyond.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
        beyond
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    by_instruction: bool,
    objects: Vec<Object>,
    places: HashMap<String, usize>,
    object: Option<usize>,
    function: Option<String>,
    /// The next line is what a call cost, not what an instruction did.
    behind_call: bool,
    total: u64,
    finished: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), CallgrindProblem> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("0x") {
            return self.counts(rest);
        }
        if line.starts_with(['+', '-', '*']) {
            return Err(CallgrindProblem::Compressed(shown(line)));
        }
        if let Some((kind, name)) = line.split_once('=') {
            let known = matches!(kind, "ob" | "fl" | "fi" | "fe" | "fn" | "cob" | "cfi" | "cfl" | "cfn");
            if known && name.starts_with('(') && !name.starts_with("(below") {
                return Err(CallgrindProblem::Compressed(shown(line)));
            }
            match kind {
                "ob" => self.object = Some(self.place(name)),
                "fn" => self.function = Some(name.to_owned()),
                "calls" => self.behind_call = true,
                "fl" | "fi" | "fe" | "cob" | "cfi" | "cfl" | "cfn" => {}
                _ => return Err(CallgrindProblem::Unknown(shown(line))),
            }
            return Ok(());
        }
        match line.split_once(':') {
            Some(("positions", positions)) => {
                self.by_instruction = positions.split_whitespace().next() == Some("instr");
                match self.by_instruction {
                    true => Ok(()),
                    false => Err(CallgrindProblem::Positions),
                }
            }
            Some(("events", events)) => match events.trim() {
                "Ir" => Ok(()),
                others => Err(CallgrindProblem::Events(shown(others))),
            },
            Some(("totals", total)) => {
                let text = total.trim();
                let total = text
                    .parse()
                    .map_err(|_| CallgrindProblem::Number(shown(text)))?;
                if total != self.total {
                    let found = self.total;
                    return Err(CallgrindProblem::Sum { found, total });
                }
                self.finished = true;
                Ok(())
            }
            Some(("version" | "creator" | "pid" | "cmd" | "part" | "desc" | "thread" | "summary", _)) => Ok(()),
            _ => Err(CallgrindProblem::Unknown(shown(line))),
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
    fn counts(&mut self, rest: &str) -> Result<(), CallgrindProblem> {
        if !self.by_instruction {
            return Err(CallgrindProblem::Positions);
        }
        if std::mem::take(&mut self.behind_call) {
            return Ok(());
        }
        let words: Vec<&str> = rest.split_whitespace().take(WORDS + 1).collect();
        let wrong = || CallgrindProblem::Number(shown(rest));
        let [address, _, count] = words[..] else {
            return Err(wrong());
        };
        let address = u64::from_str_radix(address, 16).map_err(|_| wrong())?;
        let count: u64 = count.parse().map_err(|_| wrong())?;
        let (Some(object), Some(function)) = (self.object, &self.function) else {
            return Err(CallgrindProblem::NoFunction);
        };
        self.total = self.total.checked_add(count).ok_or_else(wrong)?;
        let object = &mut self.objects[object];
        // No sum of a part exceeds the one above.
        *object.instructions.entry(address).or_default() += count;
        match object.functions.get_mut(function) {
            Some(sum) => *sum += count,
            None => {
                object.functions.insert(function.clone(), count);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Executed, CallgrindProblem> {
        if !self.finished {
            return Err(CallgrindProblem::Truncated);
        }
        Ok(Executed {
            objects: self.objects,
            total: self.total,
        })
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}
