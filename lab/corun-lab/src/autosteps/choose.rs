//! From traced operations to a [`Study`]: which points, and what members of a team miss with them. The algorithm is
//! `corun_cachesim::instruction_cache`; here the points of several operations become one set, and get their names.

use std::collections::BTreeSet;

use anyhow::Result;
use corun_cachesim::instruction_cache::{self, Original, Placed, Start, Wanted};
use corun_model::teams::{CtxProfile, Knee, L1i};

use super::chooser::{Chooser, key};
use super::study::{Choice, Latched, Operation, Place, Point, Study, TeamRun, Trial, Unplaced};
use super::traced::{Key, Traced};
use corun_cli::failure::Failed;

/// Points of one operation at most.
pub(super) const POINTS_MAX: usize = 1024;
/// Knees of the trade-off, beside the one that was asked for.
const WIDTHS: [u64; 4] = [50, 100, 200, 400];
const HEIGHTS: [u32; 4] = [1, 2, 4, 8];

/// What to look for.
pub struct Question {
    /// The cache.
    pub l1i: L1i,
    /// How it came to be this one.
    pub l1i_origin: &'static str,
    /// The knee.
    pub knee: Knee,
    /// Most calls of one operation: the knee becomes the one whose teams miss least within them.
    pub calls_max: Option<u64>,
    /// Members of the team.
    pub members: u32,
    /// What to choose from; `None`: the best there is.
    pub choice: Option<Choice>,
    /// Points that prefetch data are on in any case.
    pub prefetch_points: bool,
    /// Whether to try other knees.
    pub sweep: bool,
}

/// Finds the points, and says what they are worth. `advance` hears of each piece of work that is done, of [`pieces`].
///
/// # Errors
/// A cache that cannot exist, nothing to choose from.
pub fn study(question: &Question, traced: &[Traced], advance: &mut dyn FnMut()) -> Result<Study> {
    let chooser = Chooser::new(question, traced)?;
    let mut tried = Vec::new();
    for (height, width) in knees(question) {
        tried.push(chooser.try_knee(Knee { width, height })?);
        advance();
    }
    let knee = match question.calls_max {
        Some(calls_max) => best_knee(&tried, calls_max)?,
        None => question.knee,
    };
    let found = chooser.find(knee)?;
    let points = found.points.values();
    let mut points: Vec<Point> = points
        .map(|&(operation, point)| describe(traced, operation, chooser.choice, point))
        .collect();
    let keys: Vec<&Key> = found.points.keys().collect();
    let (mut unplaced, mut latched) = (Vec::new(), Vec::new());
    let mut operations = Vec::new();
    for (index, one) in traced.iter().enumerate() {
        let wanted = &found.wanted[index];
        unplaced.extend(unplaced_of(one, index, chooser.choice, wanted));
        latched.extend(latched_of(one, index, wanted));
        let number = |point: u64| keys.binary_search(&&key(one, chooser.choice, point)).ok();
        let placement = chooser.evaluate(index, |point| number(point).is_some())?;
        for (&point, &calls) in &placement.points {
            if let Some(number) = number(point) {
                points[number].calls[index] += calls;
            }
        }
        let calls = placement.segments.calls.iter();
        let calls = calls.filter_map(|call| Some((call.at, number(call.point)?)));
        let original = Original::of(&one.operation, &chooser.cache)?;
        let team = chooser.team(index, |point| number(point).is_some())?;
        let members = question.members as usize;
        let together = team.together(members, Start::Warm);
        let mut operation = Operation {
            name: one.name.clone(),
            instructions: original.instructions,
            footprint_lines: original.footprint_lines,
            cold: original.cold_misses,
            warm: original.warm_misses,
            leading: together.members.first().copied().unwrap_or_default(),
            non_leading: placement.segments.non_leading_misses(),
            warm_at: original.warm_misses_at,
            non_leading_at: placement.segments.misses_at.clone(),
            calls: calls.collect(),
            team: TeamRun {
                team: together.total(),
                serial: team.one_by_one(members, Start::Warm).total(),
                additional: together.additional().unwrap_or_default(),
            },
            trials: Vec::new(),
        };
        if question.sweep && operation.misses_anything() {
            let trials = tried.iter().map(|trials| trials[index]);
            let is_shown = |other: Knee| other == knee || is_swept(other);
            operation.trials = trials.filter(|trial| is_shown(trial.knee)).collect();
        }
        operations.push(operation);
        advance();
    }
    in_order_of_calls(&mut points, &mut operations);
    Ok(Study {
        l1i: question.l1i,
        l1i_origin: question.l1i_origin,
        knee,
        members: question.members,
        choice: chooser.choice,
        operations,
        points,
        unplaced,
        latched,
    })
}

/// How often [`study`] reports progress.
pub fn pieces(question: &Question, operations: usize) -> u64 {
    (knees(question).len() + operations) as u64
}

/// Knees that are tried beside each other: height, width.
fn knees(question: &Question) -> BTreeSet<(u32, u64)> {
    let mut knees = BTreeSet::new();
    if question.calls_max.is_some() {
        knees.extend(
            instruction_cache::knees()
                .iter()
                .map(|knee| (knee.height, knee.width)),
        );
    }
    if question.sweep {
        knees.extend(
            HEIGHTS
                .iter()
                .flat_map(|&height| WIDTHS.map(|width| (height, width))),
        );
        knees.insert((question.knee.height, question.knee.width));
    }
    knees
}

fn is_swept(knee: Knee) -> bool {
    HEIGHTS.contains(&knee.height) && WIDTHS.contains(&knee.width)
}

/// Sorts points by where they are first come by.
fn in_order_of_calls(points: &mut Vec<Point>, operations: &mut [Operation]) {
    let mut order: Vec<usize> = Vec::with_capacity(points.len());
    let called = operations.iter().flat_map(|operation| &operation.calls);
    for number in called.map(|&(_, number)| number).chain(0..points.len()) {
        if !order.contains(&number) {
            order.push(number);
        }
    }
    let mut new = vec![0; points.len()];
    for (to, &from) in order.iter().enumerate() {
        new[from] = to;
    }
    *points = order.iter().map(|&from| points[from].clone()).collect();
    for (_, number) in operations.iter_mut().flat_map(|operation| &mut operation.calls) {
        *number = new[*number];
    }
}

/// What a program would turn on; empty for lines of source, which have no names yet.
///
/// # Errors
/// A compiled-in point whose name is none.
pub fn profile(study: &Study) -> Result<CtxProfile> {
    let names = || study.points.iter().filter_map(|point| point.name.as_ref());
    let mut profile = CtxProfile {
        l1i: study.l1i,
        knee: study.knee,
        sites: Vec::new(),
        entries: Vec::new(),
    };
    match study.choice {
        Choice::Lines => {}
        Choice::Sites => profile.sites = names().map(|name| name.parse()).collect::<Result<_, _>>()?,
        Choice::Entries => profile.entries = names().cloned().collect(),
    }
    profile.sites.sort();
    profile.sites.dedup();
    profile.entries.sort();
    profile.entries.dedup();
    Ok(profile)
}

/// A point of one of the operations, of which none has come by it yet.
fn describe(traced: &[Traced], operation: usize, choice: Choice, point: u64) -> Point {
    let one = &traced[operation];
    let (place, name) = match (choice, one.site(point)) {
        (Choice::Sites, Some(known)) => (site_place(one, point), Some(known.site.to_string())),
        (Choice::Entries, _) => (one.place(point), one.symbol(point)),
        _ => (one.place(point), None),
    };
    Point {
        place,
        name,
        calls: vec![0; traced.len()],
    }
}

/// Where a compiled-in point is: in which function says the code around it.
fn site_place(one: &Traced, record: u64) -> Place {
    let Some(known) = one.site(record) else {
        return Place::default();
    };
    let mut visits = one.operation.visits().iter();
    let visit = visits.find(|visit| visit.site_address == record);
    let fetch = visit.and_then(|visit| one.operation.fetches().get(visit.at as usize));
    let place = fetch.map(|fetch| one.place_of_site(fetch.address, &known.site));
    Place {
        source: Some((known.site.file.clone(), known.site.line, known.site.column)),
        ..place.unwrap_or_default()
    }
}

/// Places that want a point and have none before them; those inside a latch are [`latched_of`]'s.
fn unplaced_of(one: &Traced, index: usize, choice: Choice, wanted: &[Wanted]) -> Vec<Unplaced> {
    let what = match choice {
        Choice::Lines => "instruction outside a latch",
        Choice::Sites => "compiled-in point",
        Choice::Entries => "entry that can be patched",
    };
    let mut found: Vec<Unplaced> = Vec::new();
    for one_wanted in wanted.iter().filter(|wanted| !wanted.latched) {
        let reason = match one_wanted.placed {
            Placed::Before { .. } => continue,
            Placed::After { instructions, .. } => {
                format!("the segment has no {what} before it; the next is {instructions} instructions behind")
            }
            Placed::Nowhere => format!("no {what} follows, or there are {POINTS_MAX} points already"),
        };
        let place = one.place(one_wanted.address);
        if !found.iter().any(|before| before.place.is_beside(&place)) {
            found.push(Unplaced {
                place,
                operation: index,
                reason,
            });
        }
    }
    found
}

/// Compiled-in points inside a latch, then places there that want one.
fn latched_of(one: &Traced, index: usize, wanted: &[Wanted]) -> Vec<Latched> {
    let latched = |place, compiled_in, calls| Latched {
        place,
        compiled_in,
        operation: index,
        calls,
    };
    let sites = one.operation.latched_sites().into_iter();
    let mut found: Vec<Latched> = sites
        .map(|(record, calls)| latched(site_place(one, record), true, calls))
        .collect();
    let sites = found.len();
    for one_wanted in wanted.iter().filter(|wanted| wanted.latched) {
        let place = one.place(one_wanted.address);
        match found[sites..]
            .iter_mut()
            .find(|before| before.place.is_beside(&place))
        {
            Some(before) => before.calls += 1,
            None => found.push(latched(place, false, 1)),
        }
    }
    found
}

/// The knee whose teams, of all operations together, miss least with at most so many calls in each.
fn best_knee(tried: &[Vec<Trial>], calls_max: u64) -> Result<Knee> {
    let calls = |trials: &[Trial]| trials.iter().map(|trial| trial.calls).max().unwrap_or_default();
    let misses = |trials: &[Trial]| trials.iter().map(|trial| trial.additional).sum::<f64>();
    let within = tried.iter().filter(|trials| calls(trials) <= calls_max);
    let best = within.min_by(|one, other| misses(one).total_cmp(&misses(other)));
    best.and_then(|trials| Some(trials.first()?.knee)).ok_or_else(|| {
        let least = tried.iter().map(|trials| calls(trials)).min().unwrap_or_default();
        Failed(format!(
            "no knee makes do with {calls_max} calls\nhint: allow at least {least} with --calls-max, or give a knee with --knee"
        ))
        .into()
    })
}
