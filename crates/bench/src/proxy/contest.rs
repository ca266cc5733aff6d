//! [`run`]: one case on all sides, a turn of each in every round.
//!
//! ```text
//!   round 0    direct  pgbouncer  ...  corun  corun'     corun' is the A/A control: the same process once more
//!   round 1    corun'  corun  ...  pgbouncer             every other round turns around, and each begins one further on, so that no
//!                                                        side always follows the same neighbour
//!   ...        a turn: wait, read the CPU clock of the side, pgbench, read it again; after transfers, the books must agree
//!   near 1.0   the sides of undecided comparisons and the control only, until 30 pairs
//!   after      every side: its answers once more
//! ```
//!
//! pgbench, server and pooler share all CPUs, as they would; nothing is bound here.

use std::path::PathBuf;
use std::time::Duration;

use super::bed::Bed;
use super::case::{Case, Work};
use super::pgbench::{self, Load, Script};
use super::sides::{Gone, Kind, Side, Spec};
use super::text;
use super::transfers::Books;
use crate::error::BenchError;
use crate::oltp::contest::turn_order;
use crate::progress::Progress;
use crate::run::Plan;
use crate::stats::{Verdict, not_slower, pair_ratios};

/// What a turn of a side gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Transactions a second.
    pub tps: f64,
    /// Half of the transactions took at most so long, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 transactions.
    pub p99_us: f64,
    /// CPU time of the pooler for each transaction, its clients' connecting included; `None` where there is no pooler.
    pub proxy_cpu_us_per_tx: Option<f64>,
    /// Resident memory of the pooler after the turn.
    pub rss_bytes: Option<f64>,
}

/// What a side gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// By round; `None` where it did not take part.
    pub rounds: Vec<Option<Measured>>,
    /// The first wrong answer, or what does not hold of the data.
    pub wrong: Option<String>,
    /// Why it could not be run, or no further.
    pub gone: Option<Gone>,
}

impl Track {
    /// One metric of all rounds it took part in.
    pub fn values(&self, metric: impl Fn(&Measured) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().flatten().filter_map(metric).collect()
    }
}

/// What all sides gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracks {
    /// One a side.
    pub sides: Vec<Track>,
    /// The second run of the side [`Compared::control`].
    pub control: Track,
}

/// What is compared with what, by places among the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Subject and other.
    pub pairs: Vec<(usize, usize)>,
    /// The side that runs twice a round.
    pub control: usize,
}

impl Compared {
    /// Each further way of corun with the first, and the first with everything that is not corun.
    pub fn of(specs: &[Spec]) -> Compared {
        let corun = |place: &usize| matches!(specs[*place].kind, Kind::Corun(_));
        let (ways, others): (Vec<usize>, Vec<usize>) = (0..specs.len()).partition(corun);
        let control = ways.first().copied().unwrap_or_default();
        let further = ways.into_iter().skip(1).map(|way| (way, control));
        Compared {
            pairs: further
                .chain(others.into_iter().map(|other| (control, other)))
                .collect(),
            control,
        }
    }
}

/// `subject / other` of a metric that is better when higher, for each round both took part in: above 1 the subject was better.
pub fn ratios(subject: &Track, other: &Track, metric: impl Fn(&Measured) -> Option<f64>) -> Vec<f64> {
    let both = subject.rounds.iter().zip(&other.rounds);
    let (other, subject): (Vec<f64>, Vec<f64>) = both
        .filter_map(|(subject, other)| Some((metric(other.as_ref()?)?, metric(subject.as_ref()?)?)))
        .unzip();
    pair_ratios(&other, &subject)
}

/// How long a turn lasts. pgbench counts the time in which clients connect, so many get more.
pub fn seconds(quick: bool, clients: usize) -> usize {
    if quick { 1 } else { 3 + clients / 200 }
}

/// Runs a case.
///
/// # Errors
/// When files cannot be written or the server is gone. What a side failed at is in its track.
pub fn run(
    case: &Case,
    bed: &Bed,
    sides: &mut [Side],
    compared: &Compared,
    quick: bool,
    plan: Plan,
    progress: &dyn Progress,
) -> Result<Tracks, BenchError> {
    let script = match case.work {
        Work::Transfers => Script::TpcB,
        Work::Mixed(literals) => Script::Files(bed.scripts(literals)?),
        Work::Select | Work::Storm | Work::Idle => Script::SelectOnly,
    };
    let tracks = sides.iter().map(|side| Track {
        wrong: side.wrong.clone(),
        gone: match side.spec.lacks(case.protocol, case.transport) {
            Some(reason) => Some(Gone::Unavailable(reason)),
            None => side.gone().cloned(),
        },
        rounds: Vec::new(),
    });
    let mut tracks: Vec<Track> = tracks.collect();
    let control = Track {
        rounds: Vec::new(),
        ..tracks[compared.control].clone()
    };
    tracks.push(control);
    let mut contest = Contest {
        case,
        bed,
        sides,
        compared,
        folder: bed.folder("pgbench")?,
        load: Load {
            script,
            protocol: case.protocol,
            clients: case.clients,
            seconds: seconds(quick, case.clients),
            reconnect: case.work == Work::Storm,
        },
        pause: !quick,
        tracks,
    };
    progress.begin(&format!("proxy {}", case.name()), plan.repetitions as u64);
    contest.rounds(plan, progress);
    progress.end();
    contest.compare();
    let mut tracks = contest.tracks;
    let control = tracks.pop().unwrap_or_default();
    Ok(Tracks {
        sides: tracks,
        control,
    })
}

struct Contest<'c> {
    case: &'c Case,
    bed: &'c Bed,
    sides: &'c mut [Side],
    compared: &'c Compared,
    folder: PathBuf,
    load: Load,
    pause: bool,
    /// One a side, and the control's.
    tracks: Vec<Track>,
}

impl Contest<'_> {
    fn rounds(&mut self, plan: Plan, progress: &dyn Progress) {
        for round in 0..plan.repetitions {
            self.round((0..self.tracks.len()).collect(), round);
            progress.advance(1);
        }
        loop {
            let near = undecided(&self.tracks, self.compared);
            let round = self.tracks[self.compared.control].rounds.len();
            if near.is_empty() || round >= plan.pairs_max {
                return;
            }
            self.round(near, round);
        }
    }

    fn round(&mut self, mut order: Vec<usize>, round: usize) {
        turn_order(&mut order, round);
        let mut measured = vec![None; self.tracks.len()];
        for index in order {
            if self.tracks[index].gone.is_none() {
                measured[index] = self.turn(index, round);
            }
        }
        for (track, measured) in self.tracks.iter_mut().zip(measured) {
            track.rounds.push(measured);
        }
    }

    /// A side's turn: `None` if it failed.
    fn turn(&mut self, index: usize, round: usize) -> Option<Measured> {
        let place = if index < self.sides.len() {
            index
        } else {
            self.compared.control
        };
        if self.pause {
            // The last turn's connections close, more of them take longer.
            std::thread::sleep(Duration::from_millis(200 + self.case.clients as u64));
        }
        match self.measure(place, round) {
            Ok((measured, wrong)) => {
                let track = &mut self.tracks[index];
                track.wrong = track.wrong.take().or(wrong);
                Some(measured)
            }
            Err(error) => {
                let gone = self.sides[place].spec.gone(text(&error));
                if place == self.compared.control {
                    if let Some(control) = self.tracks.last_mut() {
                        control.gone = Some(gone.clone());
                    }
                }
                self.tracks[place].gone = Some(gone);
                None
            }
        }
    }

    fn measure(&mut self, place: usize, round: usize) -> Result<(Measured, Option<String>), BenchError> {
        let side = &mut self.sides[place];
        let books = match self.case.work {
            Work::Transfers => Some(Books::open(&mut self.bed.postgres().client()?)?),
            _ => None,
        };
        let before = side.cpu_us();
        let turn = pgbench::run(
            &self.bed.programs().path("pgbench"),
            &self.load,
            side.address()?,
            round + 1,
            &self.folder,
        );
        // A pooler that has ended says more than what its clients saw of that.
        side.alive()?;
        let (turn, after) = (turn?, side.cpu_us());
        let wrong = match books {
            Some(books) => books.close(&mut self.bed.postgres().client()?, turn.transactions)?,
            None => None,
        };
        let used = before.zip(after).map(|(before, after)| after - before);
        let measured = Measured {
            tps: turn.tps,
            p50_us: turn.p50_us,
            p99_us: turn.p99_us,
            proxy_cpu_us_per_tx: used.map(|used| used / turn.transactions as f64),
            rss_bytes: side.resident_bytes(),
        };
        Ok((measured, wrong))
    }

    /// Every side's answers once more: load may have left something behind in it.
    fn compare(&mut self) {
        for (side, track) in self.sides.iter_mut().zip(&mut self.tracks) {
            if track.gone.is_some() {
                continue;
            }
            side.compare(self.bed, 1);
            track.wrong = track.wrong.take().or_else(|| side.wrong.clone());
            track.gone = side.gone().cloned();
        }
    }
}

/// Places of the sides, and the control's, of comparisons too near 1.0 to say who is faster.
fn undecided(tracks: &[Track], compared: &Compared) -> Vec<usize> {
    let control = tracks.len() - 1;
    let tps = |round: &Measured| Some(round.tps);
    let noise = ratios(&tracks[compared.control], &tracks[control], tps);
    let mut near: Vec<usize> = compared
        .pairs
        .iter()
        .filter(|&&(subject, other)| {
            let (subject, other) = (&tracks[subject], &tracks[other]);
            let both = subject.gone.is_none() && other.gone.is_none();
            both && not_slower(&ratios(subject, other, tps), &noise) == Verdict::Undecided
        })
        .flat_map(|&(subject, other)| [subject, other, compared.control, control])
        .collect();
    if tracks[control].gone.is_some() {
        return Vec::new();
    }
    near.sort_unstable();
    near.dedup();
    near
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::configuration::Corun;

    fn track(rates: &[Option<f64>]) -> Track {
        let rounds = rates.iter().map(|rate| {
            rate.map(|tps| Measured {
                tps,
                p50_us: 1e6 / tps,
                p99_us: 2e6 / tps,
                proxy_cpu_us_per_tx: None,
                rss_bytes: None,
            })
        });
        Track {
            rounds: rounds.collect(),
            ..Track::default()
        }
    }

    #[test]
    fn ratios_are_of_rounds_both_took_part_in() {
        let subject = track(&[Some(10.0), None, Some(30.0), Some(40.0)]);
        let other = track(&[Some(5.0), Some(1.0), Some(10.0), None]);
        assert_eq!(ratios(&subject, &other, |round| Some(round.tps)), [2.0, 3.0]);
        assert_eq!(ratios(&subject, &other, |round| round.rss_bytes), [0.0; 0]);
    }

    fn specs(names: &[&str]) -> Vec<Spec> {
        let spec = |name: &&str| Spec {
            name: (*name).to_owned(),
            kind: match *name {
                "direct" => Kind::Direct,
                "pgbouncer" => Kind::PgBouncer {
                    program: Err("unused".to_owned()),
                    processes: 1,
                },
                _ => Kind::Corun(Corun::DEFAULT),
            },
            pool: 8,
        };
        names.iter().map(spec).collect()
    }

    #[test]
    fn only_near_comparisons_go_on() {
        let of = |tps: f64| track(&[Some(tps); 5]);
        let compared = Compared::of(&specs(&["direct", "pgbouncer", "corun"]));
        // Direct is far away, PgBouncer near, then corun and its control.
        let near = track(&[99.0, 101.0, 100.0, 99.0, 101.0].map(Some));
        let mut tracks = vec![of(200.0), near, of(100.0), of(100.0)];
        assert_eq!(undecided(&tracks, &compared), [1, 2, 3]);
        tracks[1].gone = Some(Gone::Unavailable("left".to_owned()));
        assert_eq!(undecided(&tracks, &compared), [0; 0]);
    }

    #[test]
    fn corun_is_compared_with_others_and_its_ways_with_the_first() {
        let pairs = |names: &[&str]| {
            let Compared { pairs, control } = Compared::of(&specs(names));
            (pairs, control)
        };
        assert_eq!(
            pairs(&["direct", "pgbouncer", "corun"]),
            (vec![(2, 0), (2, 1)], 2)
        );
        assert_eq!(
            pairs(&["direct", "corun_off", "corun_on", "corun_auto"]),
            (vec![(2, 1), (3, 1), (1, 0)], 1)
        );
    }
}
