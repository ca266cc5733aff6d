//! [`run`]: one piece of work on all sides, a turn of each in every round, and its rows.
//!
//! Order of work: the sides start, each is warmed (the heavy queue learns which shapes take long and what their plans are), rounds
//! ([`crate::pooler::turns`]), rows. Once a round the watched queries run alone, directly, so that slow-downs are of one round.

use std::time::Duration;

use super::SUITE;
use super::crowd::{Played, play};
use super::keys::{Keys, MIX_SECONDS, SLOWDOWN};
use super::query::Query;
use super::sides::{Setting, Spec, Target};
use crate::pooler::client::Client;
use crate::pooler::sides::Gone;
use crate::pooler::text;
use crate::pooler::turns::{self, Compared, Track, Tracks, ratios};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Plan, Runner};
use lab_core::stats::{Noise, PAIRS_NEAR_ONE, Spread, not_slower};

/// Turns of each side before the first that counts: the first is known to take long after one run, its plans after another.
const WARM_UPS: usize = 2;

/// What all sides do.
pub struct Work<'w> {
    /// What rows say of it.
    pub keys: Keys,
    /// The queries.
    pub queries: &'w [Query],
    /// The class of each, for rows.
    pub classes: Vec<String>,
    /// Each client's list.
    pub lists: Vec<Vec<usize>>,
    /// Time between the first queries of two clients.
    pub apart: Duration,
    /// The sides.
    pub sides: &'w [Spec],
    /// Whose time is in the ratios: subject and other, by name.
    pub versus: &'w [(Spec, Spec)],
    /// Comparisons that go on until they are decided.
    pub decided: &'w [(Spec, Spec)],
    /// The side that runs twice a round.
    pub control: Spec,
    /// How many rounds.
    pub plan: Plan,
}

impl Work<'_> {
    fn place(&self, spec: Spec) -> Option<usize> {
        self.sides.iter().position(|side| *side == spec)
    }

    fn places(&self, pairs: &[(Spec, Spec)]) -> Vec<(usize, usize)> {
        pairs
            .iter()
            .filter_map(|&(subject, other)| Some((self.place(subject)?, self.place(other)?)))
            .collect()
    }
}

/// Runs the work.
///
/// # Errors
/// When the server is gone. What a side failed at is in its rows.
pub fn run(work: &Work<'_>, setting: &Setting<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let name = format!("{SUITE} {} {}", work.keys.case, work.keys.query);
    runner
        .progress()
        .begin(&format!("{name}: warming up"), work.sides.len() as u64);
    let mut targets = Vec::new();
    let mut tracks: Vec<Track<Played>> = Vec::new();
    for &spec in work.sides {
        let mut target = Target::start(spec, setting);
        let mut track = Track {
            gone: target.gone().cloned(),
            ..Track::default()
        };
        for _ in 0..WARM_UPS {
            if track.gone.is_none() {
                match one_turn(work, &mut target) {
                    Ok((_, wrong)) => track.wrong = track.wrong.or(wrong),
                    Err(gone) => track.gone = Some(gone),
                }
            }
        }
        targets.push(target);
        tracks.push(track);
        runner.progress().advance(1);
    }
    let compared = Compared {
        pairs: work.places(work.decided),
        control: work.place(work.control).unwrap_or_default(),
    };
    let mut direct = Client::connect(setting.server, super::PATIENCE)?;
    let mut alone_in: Option<(usize, Vec<Option<f64>>)> = None;
    runner.progress().begin(&name, work.plan.repetitions as u64);
    let tracks = turns::take(
        work.keys.case,
        tracks,
        &compared,
        work.plan,
        runner.progress(),
        rate,
        |place, round| {
            let alone = match alone_in.take() {
                Some((of, alone)) if of == round => alone,
                _ => alone(&mut direct, work.queries).map_err(|error| Gone::Failed(text(&error)))?,
            };
            alone_in = Some((round, alone.clone()));
            let (mut played, wrong) = one_turn(work, &mut targets[place])?;
            played.alone = alone;
            Ok((played, wrong))
        },
    );
    runner.progress().end();
    emit(work, &tracks, &compared, runner);
    Ok(())
}

fn rate(played: &Played) -> Option<f64> {
    Some(1.0 / played.seconds)
}

fn one_turn(work: &Work<'_>, target: &mut Target) -> Result<(Played, Option<String>), Gone> {
    let gone = |error: &BenchError| match target.spec.target() {
        "direct" => Gone::Unavailable(text(error)),
        _ => Gone::Failed(text(error)),
    };
    let Some(address) = target.address() else {
        return Err(Gone::Unavailable("it does not run".to_owned()));
    };
    let played = play(address, work.queries, &work.lists, work.apart).map_err(|error| gone(&error));
    // A proxy that has ended says more than what its clients saw of that.
    target.alive().map_err(|error| Gone::Failed(text(&error)))?;
    played
}

/// Seconds of each timed query alone.
fn alone(direct: &mut Client, queries: &[Query]) -> Result<Vec<Option<f64>>, BenchError> {
    let time = |query: &Query| match query.timed {
        true => Ok(query.seconds(&direct.run(&query.sql)?)),
        false => Ok(None),
    };
    queries.iter().map(time).collect()
}

/// The words of a side in rows.
fn keys_of(work: &Work<'_>, spec: Spec) -> Keys {
    Keys {
        target: spec.target(),
        policy: spec.policy().to_owned(),
        plan_choice: spec.plan_choice(),
        ..work.keys.clone()
    }
}

fn emit(work: &Work<'_>, tracks: &Tracks<Played>, compared: &Compared, runner: &mut Runner<'_>) {
    let case = work.keys.case;
    for (&spec, track) in work.sides.iter().zip(&tracks.sides) {
        let keys = keys_of(work, spec);
        if let Some(gone) = &track.gone {
            let reason = match gone {
                Gone::Unavailable(reason) => reason,
                Gone::Failed(reason) => {
                    runner.fail(format!("{SUITE} {case}: {} failed: {reason}", spec.name));
                    reason
                }
            };
            let row = keys.unavailable(MIX_SECONDS, "s", reason);
            runner.emit_checked(row.with("side", spec.name));
            continue;
        }
        if let Some(wrong) = &track.wrong {
            runner.fail(format!("{SUITE} {case}: {}: {wrong}", spec.name));
        }
        let mut put = |keys: &Keys, metric: &str, unit: &str, values: &[f64]| {
            if let Some(spread) = Spread::of(values) {
                let row = Row::measured(SUITE, case, metric, unit, spread, track.wrong.is_none());
                runner.emit_checked(keys.put(row).with("side", spec.name));
            }
        };
        put(
            &keys,
            MIX_SECONDS,
            "s",
            &track.values(|played| Some(played.seconds)),
        );
        for (place, query) in work.queries.iter().enumerate().filter(|(_, query)| query.timed) {
            let keys = Keys {
                query: query.name.clone(),
                class: work.classes[place].clone(),
                ..keys.clone()
            };
            let ran = |played: &Played| played.ran.get(place).copied().flatten();
            put(
                &keys,
                "ms",
                "ms",
                &track.values(|played| Some(ran(played)? * 1e3)),
            );
            // Directly asked, more queries run than there are cores, and the time of each says nothing about caches.
            if spec.target() == "corun" {
                let slowdown = |played: &Played| Some(ran(played)? / (*played.alone.get(place)?)?);
                put(&keys, SLOWDOWN, "x", &track.values(slowdown));
            }
        }
    }
    let noise = ratios(&tracks.sides[compared.control], &tracks.control, rate);
    let many = work.plan.pairs_max >= PAIRS_NEAR_ONE;
    for (subject, other) in work.places(work.versus) {
        let both = [&tracks.sides[subject], &tracks.sides[other]];
        let values = ratios(both[0], both[1], rate);
        let verdict = many.then(|| not_slower(&values, &noise).as_str());
        ratio(
            work,
            [subject, other],
            both,
            &values,
            runner,
            |row| match verdict {
                Some(verdict) => row.with("verdict", verdict),
                None => row,
            },
        );
    }
    if let Some(Noise { low, high }) = Noise::of(&noise) {
        let place = compared.control;
        let both = [&tracks.sides[place], &tracks.control];
        ratio(work, [place; 2], both, &noise, runner, |row| {
            row.with("control", "a/a")
                .with("noise_low", low)
                .with("noise_high", high)
        });
    }
}

fn ratio(
    work: &Work<'_>,
    [subject, other]: [usize; 2],
    both: [&Track<Played>; 2],
    values: &[f64],
    runner: &mut Runner<'_>,
    more: impl Fn(Row) -> Row,
) {
    let gone = both.iter().any(|track| track.gone.is_some());
    let ok = both.iter().all(|track| track.wrong.is_none());
    if let Some(spread) = Spread::of(values).filter(|_| !gone) {
        let spec = work.sides[subject];
        let row =
            Row::measured(SUITE, work.keys.case, "ratio", "x", spread, ok).versus(work.sides[other].name);
        let row = keys_of(work, spec).put(row).with("side", spec.name);
        runner.emit_checked(more(row.with("compared", MIX_SECONDS)));
    }
}
