//! What there is to say about traced operations: cache, points, misses with and without them. Plain values, for [`super::text`],
//! [`super::json`] and [`super::report`] to show.

use std::fmt;

use corun_model::teams::{Knee, L1i};

/// What points are chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Any instruction: lines of source to set a point at.
    Lines,
    /// CTX points compiled into the program.
    Sites,
    /// Entries of functions.
    Entries,
}

/// Where an instruction or a point is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Source file, line and column (0: not known), where there is debug information.
    pub source: Option<(String, u32, u32)>,
    /// The function, or the innermost inlined one.
    pub function: Option<String>,
    /// What that is inlined into, innermost first.
    pub inlined_into: Vec<String>,
    /// The file that was loaded.
    pub module: String,
    /// Where in it.
    pub offset: u64,
}

impl Place {
    /// The source line, or file and offset.
    pub fn line(&self) -> String {
        match &self.source {
            Some((file, line, 0)) => format!("{file}:{line}"),
            Some((file, line, column)) => format!("{file}:{line}:{column}"),
            None => format!("{}+{:#x}", self.module, self.offset),
        }
    }

    /// Whether one warning does for both: they are in one function of one file.
    pub fn is_beside(&self, other: &Place) -> bool {
        (&self.module, &self.function, &self.inlined_into)
            == (&other.module, &other.function, &other.inlined_into)
            && (self.function.is_some() || self.offset == other.offset)
    }

    /// The function, and what it is inlined into: the next one and the outermost.
    pub fn functions(&self) -> String {
        let inner = self.function.as_deref().unwrap_or("?");
        match &self.inlined_into[..] {
            [] => inner.to_owned(),
            [outer] => format!("{inner} in {outer}"),
            [next, outer] => format!("{inner} in {next} in {outer}"),
            [next, .., outer] => format!("{inner} in {next} in ... in {outer}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.functions(), self.line())
    }
}

/// A point that is to be on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where it is.
    pub place: Place,
    /// What a profile calls it; for lines nothing does.
    pub name: Option<String>,
    /// How often each operation goes through it, in the operations' order.
    pub calls: Vec<u64>,
}

/// A place where no point that there is can stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// Where one is wanted.
    pub place: Place,
    /// By which operation.
    pub operation: usize,
    /// Why there is none.
    pub reason: String,
}

/// A point inside a latch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latched {
    /// Where it is, or is wanted.
    pub place: Place,
    /// Whether it is there; else it is only wanted.
    pub compiled_in: bool,
    /// By which operation.
    pub operation: usize,
    /// How often.
    pub calls: u64,
}

/// What members of a team miss, and what they miss one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TeamRun {
    /// Misses of all members in a team.
    pub team: u64,
    /// Misses of all members, one after the other.
    pub serial: u64,
    /// What each member beyond the first adds in a team.
    pub additional: f64,
}

/// One knee of the trade-off between calls and misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The knee.
    pub knee: Knee,
    /// Distinct points.
    pub points: usize,
    /// Calls that are made.
    pub calls: u64,
    /// What a non-leading member misses.
    pub misses: u64,
    /// What each member beyond the first adds in a team.
    pub additional: f64,
}

/// One traced operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The function, or how else it was marked off.
    pub name: String,
    /// Instructions that ran.
    pub instructions: u64,
    /// Lines of the cache they lie in.
    pub footprint_lines: u64,
    /// Misses in an empty cache.
    pub cold: u64,
    /// Misses in a cache warmed by the same operation.
    pub warm: u64,
    /// What the member that goes first misses.
    pub leading: u64,
    /// What a member behind it misses.
    pub non_leading: u64,
    /// Which instruction made each of [`Operation::warm`].
    pub warm_at: Vec<u32>,
    /// Which instruction made each of [`Operation::non_leading`].
    pub non_leading_at: Vec<u32>,
    /// Calls in order: before which instruction, and which of the study's points.
    pub calls: Vec<(u32, usize)>,
    /// The team of [`Study::members`].
    pub team: TeamRun,
    /// Other knees.
    pub trials: Vec<Trial>,
}

impl Operation {
    /// Whether its code outgrows the cache.
    pub fn misses_anything(&self) -> bool {
        self.warm > 0 || self.non_leading > 0
    }

    /// A knee whose team misses less than with this one and switches no more often, the best of these.
    pub fn better_knee(&self, knee: Knee) -> Option<&Trial> {
        let chosen = self.trials.iter().find(|trial| trial.knee == knee)?;
        let no_dearer = self.trials.iter().filter(|trial| trial.calls <= chosen.calls);
        let best = no_dearer.min_by(|one, other| one.additional.total_cmp(&other.additional));
        // A tenth is what is shown.
        best.filter(|best| best.additional + 0.1 <= chosen.additional)
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// The cache that is simulated.
    pub l1i: L1i,
    /// How it came to be this one.
    pub l1i_origin: &'static str,
    /// The knee.
    pub knee: Knee,
    /// Members of a team.
    pub members: u32,
    /// What was chosen from.
    pub choice: Choice,
    /// The operations, as they were asked for.
    pub operations: Vec<Operation>,
    /// The points of all of them together.
    pub points: Vec<Point>,
    /// Where points are missing.
    pub unplaced: Vec<Unplaced>,
    /// Where points are inside a latch.
    pub latched: Vec<Latched>,
}

impl Study {
    /// What a person should hear about, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let operation = |index: usize| self.operations.get(index).map_or("?", |o| o.name.as_str());
        let latched = self.latched.iter().map(|latched| {
            let (place, operation) = (&latched.place, operation(latched.operation));
            match latched.compiled_in {
                true => format!(
                    "the point at {place} is inside a latch {} in {operation}: a team does not switch there",
                    times(latched.calls)
                ),
                false => format!("{operation} wants a point at {place}, but that is inside a latch"),
            }
        });
        let unplaced = self.unplaced.iter().map(|unplaced| {
            format!(
                "{} wants a point at {}, but {}",
                operation(unplaced.operation),
                unplaced.place,
                unplaced.reason
            )
        });
        let ineffective = self
            .operations
            .iter()
            .filter(|o| o.calls.is_empty() && o.non_leading > 0 && !self.is_hindered());
        let ineffective = ineffective.map(|o| {
            format!(
                "{} has no point: its {} misses make no knee of {}; try a lower or wider one",
                o.name, o.non_leading, self.knee
            )
        });
        let nameless = self
            .points
            .iter()
            .filter(|point| self.choice == Choice::Entries && point.name.is_none());
        let nameless =
            nameless.map(|point| format!("the function at {} has no symbol to name it by", point.place));
        latched
            .chain(unplaced)
            .chain(ineffective)
            .chain(nameless)
            .collect()
    }

    /// Whether a point is wanted somewhere where none can be.
    pub fn is_hindered(&self) -> bool {
        !self.unplaced.is_empty() || self.latched.iter().any(|latched| !latched.compiled_in)
    }

    /// What to say where there are no points.
    pub fn no_points(&self) -> &'static str {
        match self.is_hindered() {
            true => "points are wanted, but none can be where they are",
            false => "no CTX point is needed: the code stays in the cache, or no knee is reached",
        }
    }

    /// Points that this operation goes through.
    pub fn points_of(&self, operation: usize) -> usize {
        self.points
            .iter()
            .filter(|point| point.calls.get(operation).is_some_and(|&calls| calls > 0))
            .count()
    }
}

/// `once`, `3 times`.
pub fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// How much less `after` is than `before`, in percent; nothing of nothing.
pub fn reduction(before: u64, after: f64) -> Option<f64> {
    (before > 0).then(|| 100.0 * (1.0 - after / before as f64))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// One operation with one point that is passed twice.
    pub fn study() -> Study {
        let place = Place {
            source: Some(("src/a.c".to_owned(), 12, 0)),
            function: Some("find".to_owned()),
            inlined_into: vec!["fetch".to_owned()],
            module: "client".to_owned(),
            offset: 0x1234,
        };
        Study {
            l1i: "32k/8/64".parse().expect("a cache"),
            l1i_origin: "this machine's",
            knee: Knee::default(),
            members: 10,
            choice: Choice::Lines,
            operations: vec![Operation {
                name: "fetch".to_owned(),
                instructions: 1000,
                footprint_lines: 700,
                cold: 700,
                warm: 600,
                leading: 610,
                non_leading: 60,
                warm_at: (0..600).map(|miss| miss * 10 / 6).collect(),
                non_leading_at: (0..60).map(|miss| miss * 100 / 6).collect(),
                calls: vec![(300, 0), (600, 0)],
                team: TeamRun {
                    team: 1150,
                    serial: 6000,
                    additional: 60.0,
                },
                trials: vec![Trial {
                    knee: Knee::default(),
                    points: 1,
                    calls: 2,
                    misses: 60,
                    additional: 61.5,
                }],
            }],
            points: vec![Point {
                place,
                name: None,
                calls: vec![2],
            }],
            unplaced: Vec::new(),
            latched: Vec::new(),
        }
    }

    #[test]
    fn places_without_debug_information_are_offsets() {
        let mut place = study().points[0].place.clone();
        assert_eq!(place.to_string(), "find in fetch (src/a.c:12)");
        place.inlined_into = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(place.functions(), "find in a in ... in d");
        place.source = None;
        place.function = None;
        place.inlined_into.clear();
        assert_eq!(place.to_string(), "? (client+0x1234)");
    }

    #[test]
    fn warnings_name_place_operation_and_reason() {
        let mut study = study();
        let place = study.points[0].place.clone();
        study.latched.push(Latched {
            place: place.clone(),
            compiled_in: true,
            operation: 0,
            calls: 3,
        });
        study.latched.push(Latched {
            compiled_in: false,
            ..study.latched[0].clone()
        });
        study.unplaced.push(Unplaced {
            place,
            operation: 0,
            reason: "none is near".to_owned(),
        });
        assert_eq!(
            study.warnings(),
            [
                "the point at find in fetch (src/a.c:12) is inside a latch 3 times in fetch: a team does not switch there",
                "fetch wants a point at find in fetch (src/a.c:12), but that is inside a latch",
                "fetch wants a point at find in fetch (src/a.c:12), but none is near",
            ]
        );
    }
}
