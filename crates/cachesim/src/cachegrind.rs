//! [`Profile`]: what cachegrind counted, read from its output file: instructions, misses and branches of each function and of all.
//!
//! ```text
//!   desc: I1 cache:         32768 B, 64 B, 8-way associative
//!   cmd: postgres --single ...
//!   events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim      which columns follow, in any order
//!   fl=execMain.c                                                     the file of what follows
//!   fn=ExecutorRun                                                    its function
//!   312 14 1 1 3 0 0 4 ...                                            source line, then the columns; missing ones are 0
//!   summary: 123456 ...                                               the sum of all; a file without one was cut off
//! ```
//!
//! The calls, in order: [`Profile::parse`] a run that executes a statement some times and one that executes it fewer times, take their
//! difference with [`Profile::less`], so that the program's start counts for nothing; then [`Profile::total`]'s [`Counts::mix`] and
//! rates, and [`Profile::top`]. Cachegrind knows two levels of cache: what it calls the last one is whatever it was told to be.
//!
//! Not here: running it, and which file of code a function is from, which these files do not say; see [`crate::callgrind`].

use std::collections::HashMap;

/// Cachegrind's name of a function it has no symbol for.
const UNNAMED: &str = "???";
/// Most characters of a damaged line that an error shows.
const SHOWN_MAX: usize = 60;

/// One column of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `Ir`: instructions executed.
    Instructions,
    /// `I1mr`: instructions whose first-level fetch missed.
    L1iMisses,
    /// `ILmr`: of these, those that missed the last level too.
    LastInstructionMisses,
    /// `Dr`: loads, those of instructions that also store included.
    Loads,
    /// `D1mr`: loads that missed the first level.
    L1dLoadMisses,
    /// `DLmr`: of these, those that missed the last level too.
    LastLoadMisses,
    /// `Dw`: stores.
    Stores,
    /// `D1mw`: stores that missed the first level.
    L1dStoreMisses,
    /// `DLmw`: of these, those that missed the last level too.
    LastStoreMisses,
    /// `Bc`: conditional branches.
    ConditionalBranches,
    /// `Bcm`: those predicted wrongly.
    ConditionalMispredictions,
    /// `Bi`: indirect jumps and calls; returns are not among them.
    IndirectBranches,
    /// `Bim`: those whose target was predicted wrongly.
    IndirectMispredictions,
}

impl Event {
    /// All of them, in the order cachegrind writes them.
    pub const ALL: [Event; 13] = [
        Event::Instructions,
        Event::L1iMisses,
        Event::LastInstructionMisses,
        Event::Loads,
        Event::L1dLoadMisses,
        Event::LastLoadMisses,
        Event::Stores,
        Event::L1dStoreMisses,
        Event::LastStoreMisses,
        Event::ConditionalBranches,
        Event::ConditionalMispredictions,
        Event::IndirectBranches,
        Event::IndirectMispredictions,
    ];

    /// Cachegrind's short name.
    pub fn name(self) -> &'static str {
        match self {
            Event::Instructions => "Ir",
            Event::L1iMisses => "I1mr",
            Event::LastInstructionMisses => "ILmr",
            Event::Loads => "Dr",
            Event::L1dLoadMisses => "D1mr",
            Event::LastLoadMisses => "DLmr",
            Event::Stores => "Dw",
            Event::L1dStoreMisses => "D1mw",
            Event::LastStoreMisses => "DLmw",
            Event::ConditionalBranches => "Bc",
            Event::ConditionalMispredictions => "Bcm",
            Event::IndirectBranches => "Bi",
            Event::IndirectMispredictions => "Bim",
        }
    }

    fn of(name: &str) -> Option<Event> {
        Event::ALL.into_iter().find(|event| event.name() == name)
    }
}

/// A number for each event; 0 for those that were not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Event::ALL.len()]);

/// Kinds of instructions in percent of all. They add up to 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Those that load.
    pub load_percent: f64,
    /// Those that store. One that does both, other than in place, counts as both.
    pub store_percent: f64,
    /// Conditional and indirect branches. Direct jumps, calls and returns are with the others: cachegrind does not count them.
    pub branch_percent: f64,
    /// The rest.
    pub other_percent: f64,
}

impl Counts {
    /// The number of one event.
    pub fn get(&self, event: Event) -> u64 {
        self.0[event as usize]
    }

    /// The same counts with another number for one event.
    #[must_use]
    pub fn with(mut self, event: Event, count: u64) -> Counts {
        self.0[event as usize] = count;
        self
    }

    /// The sum of some events, saturating.
    pub fn sum(&self, events: &[Event]) -> u64 {
        events
            .iter()
            .fold(0, |sum: u64, event| sum.saturating_add(self.get(*event)))
    }

    /// `part` in percent of `whole`; `None` where `whole` is nothing.
    pub fn percent(&self, part: &[Event], whole: &[Event]) -> Option<f64> {
        let whole = self.sum(whole);
        (whole > 0).then(|| 100.0 * self.sum(part) as f64 / whole as f64)
    }

    /// Kinds of instructions; `None` where none were executed.
    pub fn mix(&self) -> Option<Mix> {
        let all = [Event::Instructions];
        let load_percent = self.percent(&[Event::Loads], &all)?;
        let store_percent = self.percent(&[Event::Stores], &all)?;
        let branches = [Event::ConditionalBranches, Event::IndirectBranches];
        let branch_percent = self.percent(&branches, &all)?;
        Some(Mix {
            load_percent,
            store_percent,
            branch_percent,
            other_percent: 100.0 - load_percent - store_percent - branch_percent,
        })
    }

    /// Instructions whose fetch missed the first level, in percent of instructions.
    pub fn l1i_miss_percent(&self) -> Option<f64> {
        self.percent(&[Event::L1iMisses], &[Event::Instructions])
    }

    /// Loads that missed the first level, in percent of loads.
    pub fn l1d_load_miss_percent(&self) -> Option<f64> {
        self.percent(&[Event::L1dLoadMisses], &[Event::Loads])
    }

    /// Loads that missed the last simulated level, in percent of those that came to it.
    pub fn last_load_miss_percent(&self) -> Option<f64> {
        self.percent(&[Event::LastLoadMisses], &[Event::L1dLoadMisses])
    }

    /// Mispredicted branches in percent of those that are predicted.
    pub fn branch_mispredict_percent(&self) -> Option<f64> {
        self.percent(
            &[Event::ConditionalMispredictions, Event::IndirectMispredictions],
            &[Event::ConditionalBranches, Event::IndirectBranches],
        )
    }

    /// Both together, event by event; a sum that is too large stays at the largest number.
    #[must_use]
    pub fn saturating_plus(&self, other: &Counts) -> Counts {
        let mut sum = *self;
        for (sum, other) in sum.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(other);
        }
        sum
    }

    pub(crate) fn plus(&self, other: &Counts) -> Option<Counts> {
        let mut sum = *self;
        for (sum, other) in sum.0.iter_mut().zip(other.0) {
            *sum = sum.checked_add(other)?;
        }
        Some(sum)
    }

    pub(crate) fn saturating_less(&self, other: &Counts) -> Counts {
        let mut rest = *self;
        for (rest, other) in rest.0.iter_mut().zip(other.0) {
            *rest = rest.saturating_sub(other);
        }
        rest
    }
}

/// What one function did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its source file; `???` without debug information.
    pub file: String,
    /// Its name; `???` without a symbol.
    pub name: String,
    /// Its counts, those of functions it calls excepted.
    pub counts: Counts,
}

impl Function {
    /// Whether there was a symbol for it.
    pub fn is_named(&self) -> bool {
        self.name != UNNAMED
    }
}

/// What one run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    events: Vec<Event>,
    total: Counts,
    /// In the order they first occur.
    functions: Vec<Function>,
}

/// A file that is no whole output of cachegrind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cachegrind's output, line {line}: {problem}")]
pub struct CachegrindError {
    /// The line, counted from 1; the number of lines where something is missing at the end.
    pub line: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A line of no kind.
    #[error("\"{0}\" is none of its kinds of lines")]
    Unknown(String),
    /// A column that cachegrind does not have.
    #[error("\"{0}\" is no event of it")]
    UnknownEvent(String),
    /// A column twice, or the line of columns twice.
    #[error("a second \"{0}\"")]
    Twice(String),
    /// Counts before the line that says what they are.
    #[error("counts before the line \"events:\"")]
    NoEvents,
    /// Counts before the first function.
    #[error("counts before the first line \"fn=\"")]
    NoFunction,
    /// A count that is no number, or not of 64 bits; the sum may be, too.
    #[error("\"{0}\" is no count")]
    Count(String),
    /// More columns than events.
    #[error("{columns} counts for {events} events")]
    Columns {
        /// How many stand there.
        columns: usize,
        /// How many may.
        events: usize,
    },
    /// The sum in the file is another one than that of its lines.
    #[error("its lines have {found} {event} together, its summary says {summary}: the file is damaged")]
    Sum {
        /// Which event.
        event: &'static str,
        /// The sum of the lines.
        found: u64,
        /// What the file says.
        summary: u64,
    },
    /// Something behind the summary.
    #[error("something follows the summary")]
    BehindSummary,
    /// The file ends before its summary.
    #[error("it ends without a summary: the program was killed, or the disk is full")]
    Truncated,
}

/// Two runs that cannot be subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DifferenceError {
    /// They counted other events.
    #[error("the two runs of cachegrind counted different events")]
    Events,
    /// The shorter run did more.
    #[error("the run with fewer statements executed {less} instructions, the one with more only {more}")]
    Negative {
        /// Of the run that should have more.
        more: u64,
        /// Of the other one.
        less: u64,
    },
}

impl Profile {
    /// Reads an output file.
    ///
    /// # Errors
    /// [`CachegrindError`] for a file that is damaged or cut off, with the line.
    pub fn parse(text: &str) -> Result<Profile, CachegrindError> {
        let mut reader = Reader::default();
        let mut lines = 0;
        for (index, line) in text.lines().enumerate() {
            lines = index + 1;
            reader
                .line(line)
                .map_err(|problem| CachegrindError { line: lines, problem })?;
        }
        reader
            .finish()
            .map_err(|problem| CachegrindError { line: lines, problem })
    }

    /// The events that were counted, in the file's order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether this event was counted.
    pub fn counted(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// The sum over all functions.
    pub fn total(&self) -> &Counts {
        &self.total
    }

    /// Every function, in the order they first occur.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// What this run did beyond `other`, which did a part of the same: a program that started and executed fewer statements.
    ///
    /// A function that did more in `other`, by an accident of the start, has nothing in the difference; the total is the difference of the
    /// totals all the same.
    ///
    /// # Errors
    /// [`DifferenceError`] when they counted different events, or `other` executed more instructions.
    pub fn less(&self, other: &Profile) -> Result<Profile, DifferenceError> {
        if Event::ALL
            .iter()
            .any(|event| self.counted(*event) != other.counted(*event))
        {
            return Err(DifferenceError::Events);
        }
        let (more, less) = [self, other]
            .map(|profile| profile.total.get(Event::Instructions))
            .into();
        if more < less {
            return Err(DifferenceError::Negative { more, less });
        }
        let theirs: HashMap<(&str, &str), &Counts> = other
            .functions
            .iter()
            .map(|function| ((function.file.as_str(), function.name.as_str()), &function.counts))
            .collect();
        let rest = |function: &Function| {
            let counts = match theirs.get(&(function.file.as_str(), function.name.as_str())) {
                Some(theirs) => function.counts.saturating_less(theirs),
                None => function.counts,
            };
            Function {
                counts,
                ..function.clone()
            }
        };
        Ok(Profile {
            events: self.events.clone(),
            total: self.total.saturating_less(&other.total),
            functions: self
                .functions
                .iter()
                .map(rest)
                .filter(|function| function.counts != Counts::default())
                .collect(),
        })
    }

    /// The functions with most of the sum of `events`, greatest first, those with none left out. Equal ones go by name.
    pub fn top(&self, events: &[Event], most: usize) -> Vec<&Function> {
        let mut functions: Vec<(u64, &Function)> = self
            .functions
            .iter()
            .map(|function| (function.counts.sum(events), function))
            .filter(|(count, _)| *count > 0)
            .collect();
        functions.sort_by(|a, b| {
            let by_count = b.0.cmp(&a.0);
            by_count.then_with(|| (&a.1.name, &a.1.file).cmp(&(&b.1.name, &b.1.file)))
        });
        functions.truncate(most);
        functions.into_iter().map(|(_, function)| function).collect()
    }

    /// A function's part of the sum of `events`, in percent; `None` where there are none.
    pub fn share_percent(&self, function: &Function, events: &[Event]) -> Option<f64> {
        let whole = self.total.sum(events);
        (whole > 0).then(|| 100.0 * function.counts.sum(events) as f64 / whole as f64)
    }

    /// Instructions of functions with a symbol, in percent; `None` where nothing was executed.
    pub fn named_percent(&self) -> Option<f64> {
        let all = self.total.get(Event::Instructions);
        let named = self.functions.iter().filter(|function| function.is_named());
        let named: u64 = named
            .map(|function| function.counts.get(Event::Instructions))
            .sum();
        (all > 0).then(|| 100.0 * named as f64 / all as f64)
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    events: Vec<Event>,
    file: String,
    /// The function counts belong to, by its place in `functions`.
    current: Option<usize>,
    places: HashMap<(String, String), usize>,
    functions: Vec<Function>,
    total: Counts,
    finished: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Problem> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if self.finished {
            return Err(Problem::BehindSummary);
        }
        if line.starts_with(|first: char| first.is_ascii_digit()) {
            return self.counts(line);
        }
        if let Some((kind, name)) = line.split_once('=') {
            match kind {
                "fl" => {
                    name.clone_into(&mut self.file);
                    self.current = None;
                    return Ok(());
                }
                "fn" => {
                    self.function(name);
                    return Ok(());
                }
                _ => {}
            }
        }
        match line.split_once(':') {
            Some(("desc" | "cmd", _)) => Ok(()),
            Some(("events", names)) => self.events(names),
            Some(("summary", counts)) => self.summary(counts),
            _ => Err(Problem::Unknown(shown(line))),
        }
    }

    fn events(&mut self, names: &str) -> Result<(), Problem> {
        if !self.events.is_empty() {
            return Err(Problem::Twice("events:".to_owned()));
        }
        self.events = events_of(names)?;
        Ok(())
    }

    /// One function may have lines at several places of the file.
    fn function(&mut self, name: &str) {
        let functions = &mut self.functions;
        let place = *self
            .places
            .entry((self.file.clone(), name.to_owned()))
            .or_insert_with(|| {
                functions.push(Function {
                    file: self.file.clone(),
                    name: name.to_owned(),
                    counts: Counts::default(),
                });
                functions.len() - 1
            });
        self.current = Some(place);
    }

    fn counts(&mut self, line: &str) -> Result<(), Problem> {
        if self.events.is_empty() {
            return Err(Problem::NoEvents);
        }
        let (source_line, columns) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        number(source_line)?;
        let counts = columns_of(&self.events, columns)?;
        let current = self.current.ok_or(Problem::NoFunction)?;
        let function = &mut self.functions[current];
        let overflow = || Problem::Count(shown(line));
        function.counts = function.counts.plus(&counts).ok_or_else(overflow)?;
        self.total = self.total.plus(&counts).ok_or_else(overflow)?;
        Ok(())
    }

    fn summary(&mut self, counts: &str) -> Result<(), Problem> {
        if self.events.is_empty() {
            return Err(Problem::NoEvents);
        }
        let summary = columns_of(&self.events, counts)?;
        same(&self.events, &self.total, &summary)?;
        self.finished = true;
        Ok(())
    }

    fn finish(self) -> Result<Profile, Problem> {
        if !self.finished {
            return Err(Problem::Truncated);
        }
        Ok(Profile {
            events: self.events,
            total: self.total,
            functions: self.functions,
        })
    }
}

/// The events a line names, each once.
pub(crate) fn events_of(names: &str) -> Result<Vec<Event>, Problem> {
    let mut events = Vec::new();
    for name in names.split_whitespace() {
        let event = Event::of(name).ok_or_else(|| Problem::UnknownEvent(shown(name)))?;
        if events.contains(&event) {
            return Err(Problem::Twice(name.to_owned()));
        }
        events.push(event);
    }
    Ok(events)
}

/// Counts in the order of the events; those missing at the end, and dots, are 0.
pub(crate) fn columns_of(events: &[Event], text: &str) -> Result<Counts, Problem> {
    let mut counts = Counts::default();
    let mut columns = text.split_whitespace();
    for (event, column) in events.iter().zip(&mut columns) {
        if column != "." {
            counts = counts.with(*event, number(column)?);
        }
    }
    match columns.count() {
        0 => Ok(counts),
        more => Err(Problem::Columns {
            columns: events.len() + more,
            events: events.len(),
        }),
    }
}

/// That the sum of a file's lines is what the file says.
pub(crate) fn same(events: &[Event], found: &Counts, said: &Counts) -> Result<(), Problem> {
    let differs = events
        .iter()
        .find(|event| found.get(**event) != said.get(**event));
    match differs {
        None => Ok(()),
        Some(event) => Err(Problem::Sum {
            event: event.name(),
            found: found.get(*event),
            summary: said.get(*event),
        }),
    }
}

fn number(text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| Problem::Count(shown(text)))
}

pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}
