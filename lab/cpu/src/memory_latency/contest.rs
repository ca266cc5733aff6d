//! Modes against each other: interleaved rounds, ratios versus serial, and whether `auto` chose well.
//!
//! Order of calls: [`Entrant`]s, the serial one first, then [`hold`]. Rounds are those of [`lab_core::run`]: every entrant takes its
//! turn in each, in another order each time, and the serial one runs twice so that noise is measured beside the differences.
//!
//! ```text
//!   rounds        serial, modes ..., auto, auto, serial once more
//!   then, while a verdict on an auto is open:  autos, the best fixed modes, serial, serial once more, up to 30 pairs
//!   rows          ns_per_probe each | ratio versus serial each | auto versus best | serial versus itself | the winner
//! ```
//!
//! Not here: running a mode ([`super::subject`]), and the table of winners ([`super::report`]).

use corun_model::operators::mode::Mode;

use lab_core::order;
use lab_core::row::{Row, Value};
use lab_core::run::{Runner, Side, Track, run_round};
use lab_core::stats::{Noise, PAIRS_NEAR_ONE, Spread, Verdict, not_slower, pair_ratios};

use super::keys::{ALL_THREADS, Keys, SUITE};
use super::subject::RIGHT;

/// What an entrant is measured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A mode that could be chosen for the case, and how many threads it takes, a helper's included.
    Fixed {
        /// Threads.
        threads: usize,
    },
    /// The mode that was chosen by `corun_model::operators::technique` for so many threads.
    Auto {
        /// Threads.
        threads: usize,
    },
    /// Something nobody would choose: two independent operators do other work, and some experiments are to fail.
    Aside,
}

/// One side of a contest.
pub struct Entrant<'a> {
    /// Its parameters.
    pub keys: Keys,
    /// What it is measured for.
    pub standing: Standing,
    /// More parameters of its rows.
    pub extra: Vec<(String, Value)>,
    /// Its work.
    pub side: Side<'a>,
}

/// What a contest came to: for each entrant its mode's parts and its median ratio versus serial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    /// In the order of the entrants; without those that failed.
    pub gains: Vec<(Mode, f64)>,
}

impl Held {
    /// The gain of a mode that took part.
    pub fn gain(&self, mode: Mode) -> Option<f64> {
        self.gains
            .iter()
            .find(|(other, _)| *other == mode)
            .map(|(_, gain)| *gain)
    }
}

/// Holds a contest among entrants, of which the first is serial, each run over `probes` tuples; emits its rows.
pub fn hold(entrants: Vec<Entrant<'_>>, probes: usize, runner: &mut Runner<'_>) -> Held {
    let Some(first) = entrants.first() else {
        return Held::default();
    };
    let stand = first.keys.stand;
    let (plan, progress) = (runner.plan(), runner.progress());
    let mut standings = Vec::with_capacity(entrants.len());
    let mut sides = Vec::with_capacity(entrants.len());
    let mut labels = Vec::with_capacity(entrants.len());
    for Entrant {
        keys,
        standing,
        extra,
        side,
    } in entrants
    {
        standings.push(standing);
        labels.push((keys, extra));
        sides.push(side);
    }
    let control = sides.len();
    let mut tracks: Vec<Track> = (0..=control).map(|_| Track::default()).collect();
    let rounds = plan.warmups + plan.repetitions;
    let name = format!("{SUITE} {}", stand.case);
    let shuffled = |mut order: Vec<usize>, round| {
        order::shuffle(&mut order, plan.order_seed, &name, round);
        order
    };
    progress.begin(&name, rounds as u64);
    for round in 0..rounds {
        let warm_up = round < plan.warmups;
        let order: Vec<usize> = (0..if warm_up { control } else { control + 1 }).collect();
        let order = shuffled(order, round);
        run_round(&mut sides, RIGHT, &mut tracks, &order, !warm_up, SERIAL);
        progress.advance(1);
    }
    let finals = Finals::of(&standings, &tracks);
    while finals.are_open(&tracks, plan.pairs_max) {
        let round = tracks[SERIAL].seconds.len();
        let order = shuffled(finals.order.clone(), plan.warmups + round);
        run_round(&mut sides, RIGHT, &mut tracks, &order, true, SERIAL);
    }
    progress.end();
    let results = Results {
        labels,
        tracks,
        probes,
        claims: plan.pairs_max >= PAIRS_NEAR_ONE,
    };
    results.emit(&finals, runner);
    results.held()
}

/// The place of the serial entrant.
const SERIAL: usize = 0;

/// An auto and whom it is compared with.
#[derive(Clone, Copy)]
struct Final {
    /// The auto's place.
    auto: usize,
    /// The place of the best fixed mode of at most as many threads.
    best: usize,
    /// Threads the auto may use.
    threads: usize,
}

/// The rounds after the first ones.
struct Finals {
    pairs: Vec<Final>,
    /// The best mode of all.
    winner: Option<usize>,
    /// Who runs in further rounds, the control last.
    order: Vec<usize>,
}

impl Finals {
    fn of(standings: &[Standing], tracks: &[Track]) -> Finals {
        let median =
            |place: usize| Spread::of(&tracks[place].seconds).map_or(f64::INFINITY, |spread| spread.median);
        let best = |threads_max: usize| {
            let fixed = (0..standings.len()).filter(|&place| {
                matches!(standings[place], Standing::Fixed { threads } if threads <= threads_max)
                    && tracks[place].failed.is_none()
            });
            fixed.min_by(|&a, &b| median(a).total_cmp(&median(b)))
        };
        let autos = standings.iter().enumerate();
        let pairs: Vec<Final> = autos
            .filter_map(|(auto, standing)| match *standing {
                Standing::Auto { threads } => Some(Final {
                    auto,
                    best: best(threads)?,
                    threads,
                }),
                _ => None,
            })
            .collect();
        let mut order: Vec<usize> = pairs.iter().flat_map(|pair| [pair.auto, pair.best]).collect();
        order.push(SERIAL);
        order.sort_unstable();
        order.dedup();
        order.push(standings.len());
        Finals {
            pairs,
            winner: best(usize::MAX),
            order,
        }
    }

    /// Whether some auto needs more pairs to be judged.
    fn are_open(&self, tracks: &[Track], pairs_max: usize) -> bool {
        let control = tracks.len() - 1;
        if self.order.iter().any(|&place| tracks[place].failed.is_some()) {
            return false;
        }
        self.pairs.iter().any(|&Final { auto, best, .. }| {
            let pairs = tracks[auto].seconds.len();
            let open = |other: usize| verdict(tracks, auto, other, control) == Verdict::Undecided;
            pairs > 0 && pairs < pairs_max && (open(best) || open(SERIAL))
        })
    }
}

/// Times of the rounds in which both took part are those at the end: everybody runs in the first rounds, so lists line up from the
/// front.
fn ratios(tracks: &[Track], subject: usize, other: usize) -> Vec<f64> {
    pair_ratios(&tracks[subject].seconds, &tracks[other].seconds)
}

fn verdict(tracks: &[Track], subject: usize, other: usize, control: usize) -> Verdict {
    not_slower(&ratios(tracks, subject, other), &ratios(tracks, SERIAL, control))
}

/// A contest that is over.
struct Results {
    labels: Vec<(Keys, Vec<(String, Value)>)>,
    tracks: Vec<Track>,
    probes: usize,
    /// Whether there were rounds enough for verdicts.
    claims: bool,
}

impl Results {
    fn held(&self) -> Held {
        let gain =
            |place: usize| Spread::of(&ratios(&self.tracks, place, SERIAL)).map(|spread| spread.median);
        let gains = self.labels.iter().enumerate();
        Held {
            gains: gains
                .filter_map(|(place, (keys, _))| Some((keys.parts, gain(place)?)))
                .collect(),
        }
    }

    fn emit(&self, finals: &Finals, runner: &mut Runner<'_>) {
        for place in 0..self.labels.len() {
            self.emit_times(place, runner);
        }
        for place in 1..self.labels.len() {
            self.emit_ratio(place, SERIAL, "serial", finals, runner);
        }
        for &Final { auto, best, .. } in &finals.pairs {
            self.emit_ratio(auto, best, "best", finals, runner);
        }
        let control = self.tracks.len() - 1;
        let noise = ratios(&self.tracks, SERIAL, control);
        if let (Some(spread), Some(noise)) = (Spread::of(&noise), Noise::of(&noise)) {
            let ok = self.is_right(SERIAL) && self.is_right(control);
            let row = self.row(SERIAL, "ratio", "x", spread, ok).versus("serial");
            let row = row.with("control", "a/a").with("noise_low", noise.low);
            runner.emit_checked(row.with("noise_high", noise.high));
        }
        self.emit_winner(finals, runner);
    }

    fn is_right(&self, place: usize) -> bool {
        self.tracks[place].wrong.is_none() && self.tracks[place].failed.is_none()
    }

    fn row(&self, place: usize, metric: &str, unit: &str, spread: Spread, ok: bool) -> Row {
        let (keys, extra) = &self.labels[place];
        let row = Row::measured(SUITE, keys.stand.case, metric, unit, spread, ok);
        keys.put(row, ALL_THREADS).with_all(extra)
    }

    fn emit_times(&self, place: usize, runner: &mut Runner<'_>) {
        let (keys, extra) = &self.labels[place];
        let (case, track) = (keys.stand.case, &self.tracks[place]);
        if let Some(reason) = &track.failed {
            let row = Row::unavailable(SUITE, case, METRIC, "ns", reason);
            runner.emit_checked(keys.put(row, ALL_THREADS).with_all(extra));
            runner.fail(format!("{SUITE} {case}: {} failed: {reason}", keys.mode));
            return;
        }
        if let Some(wrong) = &track.wrong {
            runner.fail(format!("{SUITE} {case}: {}: {wrong}", keys.mode));
        }
        if let Some(spread) = Spread::of(&track.seconds) {
            let ns = spread.scaled(1e9 / self.probes.max(1) as f64);
            let row = self.row(place, METRIC, "ns", ns, self.is_right(place));
            runner.emit_checked(row.with("probes", self.probes));
        }
    }

    fn emit_ratio(&self, place: usize, other: usize, versus: &str, finals: &Finals, runner: &mut Runner<'_>) {
        let Some(spread) = Spread::of(&ratios(&self.tracks, place, other)) else {
            return;
        };
        let ok = self.is_right(place) && self.is_right(other);
        let mut row = self.row(place, "ratio", "x", spread, ok).versus(versus);
        if versus == "best" {
            row = row.with("best_mode", self.labels[other].0.mode.as_str());
        }
        let is_auto = finals.pairs.iter().any(|pair| pair.auto == place);
        if is_auto && self.claims {
            let verdict = verdict(&self.tracks, place, other, self.tracks.len() - 1);
            row = row.with("verdict", verdict.as_str());
        }
        runner.emit_checked(row);
    }

    /// One row a contest: the best mode, what it gained over serial, and what the autos chose.
    fn emit_winner(&self, finals: &Finals, runner: &mut Runner<'_>) {
        let Some(winner) = finals.winner.filter(|_| !finals.pairs.is_empty()) else {
            return;
        };
        let Some(spread) = Spread::of(&ratios(&self.tracks, winner, SERIAL)) else {
            return;
        };
        let mut row = self
            .row(winner, "winner", "x", spread, self.is_right(winner))
            .versus("serial");
        for &Final { auto, best, threads } in &finals.pairs {
            let chosen = self.labels[auto].0.parts.to_string();
            row = row
                .with(&format!("auto{threads}"), chosen)
                .with(&format!("best{threads}"), self.labels[best].0.mode.as_str());
            if let Some(ratio) = Spread::of(&ratios(&self.tracks, auto, best)) {
                row = row.with(&format!("auto{threads}_versus_best"), ratio.median);
            }
            if self.claims {
                let verdict = verdict(&self.tracks, auto, best, self.tracks.len() - 1);
                row = row.with(&format!("auto{threads}_verdict"), verdict.as_str());
            }
        }
        runner.emit_checked(row);
    }
}

/// The metric of times.
pub const METRIC: &str = "ns_per_probe";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corun_model::operators::mode::{Hiding, Schedule, Threads};
    use corun_model::operators::placement::Placement;

    use super::super::keys::Stand;
    use super::*;
    use corun_model::progress::Silent;
    use lab_core::run::{Plan, Sample};

    const STAND: Stand = Stand {
        figure: "6a",
        case: "fig6a_index",
        operator: "index",
        layout: "csb_tree",
        stream: "unclustered",
    };

    const GROUP: Mode = Mode::staged(
        Threads::One,
        Hiding::Prefetch {
            schedule: Schedule::Group,
            distance: 32,
        },
    );
    const BOTH: Mode = Mode::staged(Threads::BiThreaded(2), GROUP.hiding);

    fn entrant(mode: Mode, standing: Standing, millis: u64, answer: &'static str) -> Entrant<'static> {
        Entrant {
            keys: Keys::of(STAND, mode, Placement::Cores),
            standing,
            extra: Vec::new(),
            side: Side::new(&mode.to_string(), move || {
                Ok(Sample {
                    elapsed: Duration::from_millis(millis),
                    answer: answer.to_string(),
                    peak_bytes: None,
                })
            }),
        }
    }

    fn held(plan: Plan, entrants: Vec<Entrant<'_>>) -> (Vec<Row>, Vec<String>) {
        let mut rows = Vec::new();
        let mut emit = |row| rows.push(row);
        let mut runner = Runner::new(plan, &mut emit, &Silent);
        hold(entrants, 1_000_000, &mut runner);
        let failures = runner.finish().failures;
        (rows, failures)
    }

    fn entrants(auto_millis: u64) -> Vec<Entrant<'static>> {
        let fixed = |threads| Standing::Fixed { threads };
        let mut auto = entrant(GROUP, Standing::Auto { threads: 1 }, auto_millis, RIGHT);
        auto.keys = auto.keys.named("auto");
        vec![
            entrant(Mode::PLAIN, fixed(1), 80, RIGHT),
            entrant(GROUP, fixed(1), 40, RIGHT),
            entrant(BOTH, fixed(2), 20, RIGHT),
            auto,
        ]
    }

    fn find<'r>(rows: &'r [Row], metric: &str, mode: &str, versus: &str) -> &'r Row {
        rows.iter()
            .find(|row| {
                row.metric == metric
                    && row.text("mode") == mode
                    && row.versus.as_deref().unwrap_or("") == versus
            })
            .unwrap_or_else(|| panic!("no {metric} of {mode} versus {versus}"))
    }

    #[test]
    fn an_auto_is_judged_against_the_best_of_its_threads_over_thirty_pairs() {
        let (rows, failures) = held(Plan::standard(), entrants(40));
        assert!(failures.is_empty(), "{failures:?}");
        assert_eq!(find(&rows, METRIC, "one/plain", "").median(), Some(80.0));
        assert_eq!(
            find(&rows, "ratio", "bi2/staged/group32", "serial").median(),
            Some(4.0)
        );
        let versus = find(&rows, "ratio", "auto", "best");
        assert_eq!(versus.text("best_mode"), "one/staged/group32");
        assert_eq!(
            (versus.text("verdict"), versus.spread.map(|spread| spread.n)),
            ("not_slower", Some(30))
        );
        let winner = rows
            .iter()
            .find(|row| row.metric == "winner")
            .expect("one winner");
        let values = ["mode", "auto1", "best1", "auto1_verdict"].map(|key| winner.text(key));
        assert_eq!(
            values,
            [
                "bi2/staged/group32",
                "one/staged/group32",
                "one/staged/group32",
                "not_slower"
            ]
        );
    }

    #[test]
    fn a_bad_choice_is_told_without_further_rounds() {
        let (rows, _) = held(Plan::standard(), entrants(60));
        let versus = find(&rows, "ratio", "auto", "best");
        assert_eq!(
            (versus.text("verdict"), versus.spread.map(|spread| spread.n)),
            ("slower", Some(5))
        );
    }

    #[test]
    fn quick_rounds_claim_nothing_and_wrong_answers_fail() {
        let mut sides = entrants(40);
        sides.push(entrant(BOTH, Standing::Aside, 1, "3 rows"));
        let (rows, failures) = held(Plan::quick(), sides);
        assert_eq!(failures.len(), 1);
        assert!(failures[0].contains("got 3 rows"), "{failures:?}");
        assert_eq!(find(&rows, "ratio", "auto", "best").parameter("verdict"), None);
        let winner = rows
            .iter()
            .find(|row| row.metric == "winner")
            .expect("one winner");
        assert_eq!(winner.median(), Some(4.0), "an experiment on the side cannot win");
    }
}
