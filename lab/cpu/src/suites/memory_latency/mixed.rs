//! Figure 8: an index traversal and a hash join at the same time, one on each thread, until the first one ends; then the same counts
//! of tuples one operator after the other, by the techniques that share a thread's cache with nobody.

use std::cell::RefCell;
use std::ops::Range;
use std::time::{Duration, Instant};

use corun_exec::operators::{PairSink, RowSink};
use corun_exec::stage::{HelperKind, Options, race};
use corun_model::operators::mode::{Mode, Schedule, Threads};

use super::lab::Lab;
use super::modes::{BI, WORK_AHEAD, plain, prefetched, standing};
use super::stands::FIG8;
use super::{Pass, SEEDS, hash, index};
use crate::memory_latency::contest::{Entrant, Standing, hold};
use crate::memory_latency::data::{IndexInput, RowInput};
use crate::memory_latency::expected::{of_pairs, of_rows};
use crate::memory_latency::index::{ProbeStream, TreeProbe, tree};
use crate::memory_latency::joins::{RowJoin, full};
use crate::memory_latency::keys::{AUTO, Keys};
use crate::memory_latency::subject::{How, RIGHT, Subject};
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::{Runner, Sample, Side};

/// Runs the case if it is selected.
///
/// # Errors
/// When there is no memory or the first race fails.
pub fn run(pass: &Pass<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !pass.times(FIG8) {
        return Ok(());
    }
    let sizes = &pass.sizes;
    let index_inputs = [IndexInput::new(SEEDS[0], sizes.index_keys, sizes.index_probes)?];
    let trees = [tree(&index_inputs[0])?];
    let row_inputs = [RowInput::new(SEEDS[1], sizes.rows, sizes.row_probes)?];
    let mut both = Both {
        index: TreeProbe::new(&index_inputs, &trees, ProbeStream::Unclustered)?,
        hash: RowJoin::paper(&row_inputs)?,
    };
    // How far each comes while the other runs decides the counts that everybody works through.
    let counts = both.race(pass.lab)?.counts;
    contest(pass.lab, both, counts, runner);
    Ok(())
}

/// Tuples of the index traversal and of the hash join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    index: usize,
    hash: usize,
}

impl Counts {
    fn all(self) -> usize {
        self.index + self.hash
    }
}

/// A race that is over.
struct Race {
    elapsed: Duration,
    counts: Counts,
    verdict: String,
}

/// The two operators.
struct Both<'a> {
    index: TreeProbe<'a>,
    hash: RowJoin<'a>,
}

impl Both<'_> {
    /// Both at once on two threads, plain, until one ends (section 6.3).
    fn race(&mut self, lab: &Lab<'_>) -> Result<Race, BenchError> {
        let (index_tuples, hash_tuples) = (self.index.tuples(), self.hash.tuples());
        let (index, pairs) = self.index.parts(0..index_tuples)?;
        let (hash, rows) = self.hash.parts(0..hash_tuples)?;
        let pinning = lab.cpus().pinning();
        let options = Options {
            place: &pinning,
            ..Options::default()
        };
        let (pairs, rows) = (pairs.whole(), rows.whole());
        let (mut pair_sink, mut row_sink) = (PairSink::new(&mut *pairs), RowSink::new(&mut *rows));
        let start = Instant::now();
        let raced = race(
            Mode::PLAIN,
            (&index, &mut pair_sink),
            (&hash, &mut row_sink),
            &options,
        )
        .map_err(|error| BenchError::Data(error.to_string()))?;
        let elapsed = start.elapsed();
        let counts = Counts {
            index: raced.first,
            hash: raced.second,
        };
        let found = (
            pair_sink.finish().map_err(full)?,
            row_sink.finish().map_err(full)?,
        );
        let answers = (of_pairs(&pairs[..found.0]), of_rows(&rows[..found.1]));
        Ok(Race {
            elapsed,
            counts,
            verdict: both_right(
                self.index.verdict(&[answers.0], 0..counts.index),
                self.hash.verdict(&[answers.1], 0..counts.hash),
            ),
        })
    }

    /// One after the other, each in its mode.
    fn in_turn(&mut self, lab: &Lab<'_>, modes: (Mode, Mode), counts: Counts) -> Result<Sample, BenchError> {
        let pinning = lab.cpus().pinning();
        let options = Options {
            place: &pinning,
            helper: HelperKind::Loads,
            ..Options::default()
        };
        let one = |subject: &mut dyn Subject, mode: Mode, tuples: Range<usize>| {
            let ran = subject.execute(mode, tuples.clone(), &mut How::Timed(&options))?;
            Ok::<_, BenchError>((ran.elapsed, subject.verdict(&ran.answers, tuples)))
        };
        let index = one(&mut self.index, modes.0, 0..counts.index)?;
        let hash = one(&mut self.hash, modes.1, 0..counts.hash)?;
        lab.checked(index.0 + hash.0, both_right(index.1, hash.1))
    }
}

fn both_right(index: String, hash: String) -> String {
    if index == RIGHT { hash } else { index }
}

/// The modes that work through the counts, serial first, the same for both operators.
const MODES: [Mode; 6] = [
    Mode::PLAIN,
    plain(BI),
    WORK_AHEAD,
    prefetched(Threads::One, Schedule::Group, 32),
    prefetched(Threads::One, Schedule::Amac, 16),
    prefetched(BI, Schedule::Amac, 16),
];

fn contest(lab: &Lab<'_>, both: Both<'_>, counts: Counts, runner: &mut Runner<'_>) {
    let shapes = (index::shape(&both.index), hash::shape(&both.hash));
    let both = &RefCell::new(both);
    let entrant = |modes: (Mode, Mode), standing: Standing| Entrant {
        keys: Keys::of(FIG8, modes.0, lab.pair().relation),
        standing,
        extra: vec![
            ("index_probes".to_string(), Value::from(counts.index)),
            ("hash_join_probes".to_string(), Value::from(counts.hash)),
        ],
        side: Side::new(&modes.0.to_string(), move || {
            both.borrow_mut().in_turn(lab, modes, counts)
        }),
    };
    let mut entrants: Vec<Entrant<'_>> = MODES.map(|mode| entrant((mode, mode), standing(mode))).into();
    // Races end after slightly other counts each time: scaled to these by the tuples of both.
    let raced = plain(Threads::TwoIndependent);
    entrants.insert(
        1,
        Entrant {
            side: Side::new(&raced.to_string(), move || {
                let race = both.borrow_mut().race(lab)?;
                let share = counts.all() as f64 / race.counts.all().max(1) as f64;
                lab.checked(race.elapsed.mul_f64(share), race.verdict)
            }),
            ..entrant((raced, raced), Standing::Aside)
        },
    );
    for threads in [1, 2] {
        let modes = (
            lab.choice(shapes.0, counts.index, threads),
            lab.choice(shapes.1, counts.hash, threads),
        );
        let mut auto = entrant(modes, Standing::Auto { threads });
        auto.keys = auto.keys.named(AUTO);
        auto.extra.extend([
            (
                "chosen".to_string(),
                Value::from(format!("{}, {}", modes.0, modes.1)),
            ),
            ("auto_threads".to_string(), Value::from(threads)),
        ]);
        entrants.push(auto);
    }
    hold(entrants, counts.all(), runner);
}
