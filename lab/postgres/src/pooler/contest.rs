//! [`run`]: one case on all sides, a turn of each in every round.
//!
//! ```text
//!   a turn: wait, read the CPU clock of the side, pgbench, read it again; after transfers, the books must agree
//!   after the last round, every side: its answers once more
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
use super::turns;
pub use super::turns::{Compared, ratios};
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::run::Plan;

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
pub type Track = turns::Track<Measured>;
/// What all sides gave.
pub type Tracks = turns::Tracks<Measured>;

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
        Work::Select | Work::Storm | Work::Idle | Work::Attacked(_) => Script::SelectOnly,
    };
    let tracks = sides.iter().map(|side| Track {
        wrong: side.wrong.clone(),
        gone: match side.spec.lacks(case.protocol, case.transport) {
            Some(reason) => Some(Gone::Unavailable(reason)),
            None => side.gone().cloned(),
        },
        rounds: Vec::new(),
    });
    let tracks: Vec<Track> = tracks.collect();
    let mut contest = Contest {
        case,
        bed,
        folder: bed.folder("pgbench")?,
        load: Load {
            script,
            protocol: case.protocol,
            clients: case.clients,
            duty: pgbench::Duty::Seconds(seconds(quick, case.clients)),
            reconnect: case.work == Work::Storm,
            options: String::new(),
            grace: pgbench::GRACE,
        },
        pause: !quick,
        sides,
    };
    progress.begin(&format!("proxy {}", case.name()), plan.repetitions as u64);
    let rate = |round: &Measured| Some(round.tps);
    let mut tracks = turns::take(
        &case.name(),
        tracks,
        compared,
        plan,
        progress,
        rate,
        |place, round| contest.turn(place, round),
    );
    progress.end();
    contest.compare(&mut tracks.sides);
    Ok(tracks)
}

struct Contest<'c> {
    case: &'c Case,
    bed: &'c Bed,
    folder: PathBuf,
    load: Load,
    pause: bool,
    sides: &'c mut [Side],
}

impl Contest<'_> {
    fn turn(&mut self, place: usize, round: usize) -> turns::Turn<Measured> {
        if self.pause {
            // The last turn's connections close, more of them take longer.
            std::thread::sleep(Duration::from_millis(200 + self.case.clients as u64));
        }
        let measured = self.measure(place, round);
        measured.map_err(|error| self.sides[place].spec.gone(text(&error)))
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
    fn compare(&mut self, tracks: &mut [Track]) {
        for (side, track) in self.sides.iter_mut().zip(tracks) {
            if track.gone.is_some() {
                continue;
            }
            side.compare(self.bed, 1);
            track.wrong = track.wrong.take().or_else(|| side.wrong.clone());
            track.gone = side.gone().cloned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pooler::configuration::Corun;

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
