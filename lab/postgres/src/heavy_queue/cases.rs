//! The cases behind the proxy: Fig. 6, section 7.3, a closed mix, and what the heavy queue costs where there is nothing to gain.
//!
//! | case | who | what |
//! | --- | --- | --- |
//! | `fig6` | two clients with a hash join, two with an index join, arriving in turn | slow-down of the hash join, by policy |
//! | `plan_choice` | four clients with the query whose two forms cost about the same | the mean and the whole time, plan choice off and on |
//! | `mix` | 8 clients, half of the queries moderate | the whole time against a pooler's order of arrival |
//! | `overhead` | clients of short queries; clients of strong joins | the heavy queue on against off |

use std::time::Duration;

use super::backend::Backend;
use super::contest::{Work, run};
use super::data::Oracle;
use super::keys::{Keys, class_of};
use super::query::{Form, Query, hash_bytes};
use super::sides::{self, Setting, Spec};
use super::sizes::Sizes;
use crate::fixture::failed;
use corun_workloads::answers::fingerprint_of_rows;
use corun_workloads::ssb::PLQ_TERMS_MAX;
use lab_core::error::BenchError;
use lab_core::run::{Plan, Runner};
use lab_core::stats::PAIRS_NEAR_ONE;
use lab_engine::shared_cache::crowd::deal;

/// The case of Fig. 6.
pub const FIG6: &str = "fig6";
/// The case of section 7.3.
pub const PLAN_CHOICE: &str = "plan_choice";
/// The case of the closed mix.
pub const MIX: &str = "mix";
/// The case of what there is nothing to gain for.
pub const OVERHEAD: &str = "overhead";

/// Hash bytes over `C` of the paper's PLQ_2, PLQ_6, PLQ_11 and PLQ_24: 0.78, 2.26, 4.10 and 8.92 MB in a cache of 4 MB.
const FIG6_OVER_CACHE: [f64; 4] = [0.2, 0.57, 1.03, 2.23];
/// Time between arrivals, so that they come in order.
const APART: Duration = Duration::from_millis(3);
/// How much dearer the other form of section 7.3's query is: the paper's PLQ_13 has 1.17.
const DEARER: f64 = 1.17;
/// Clients of the mix.
const MIX_CLIENTS: usize = 8;
/// Each client's queries in the mix.
const MIX_EACH: usize = 3;
/// The seed of who has which query of the mix.
const SEED: u64 = 0x6d63_6303;
/// Short queries of each client in a turn.
const SHORT: usize = 8_000;
/// Joins of each client in a turn.
const STRONG: usize = 6;
/// Clients of the overhead case.
const OVERHEAD_CLIENTS: usize = 4;

/// What cases are given.
pub struct Stage<'s> {
    /// What all sides have in common.
    pub setting: Setting<'s>,
    /// Rows and the cache.
    pub sizes: &'s Sizes,
    /// Answers.
    pub oracle: &'s Oracle,
}

impl Stage<'_> {
    /// A connection to the server itself.
    fn backend(&self) -> Result<Backend, BenchError> {
        Backend::start(self.setting.server, None)
    }

    fn classes(&self, queries: &[Query]) -> Result<Vec<String>, BenchError> {
        let mut backend = self.backend()?;
        let class = |query: &Query| Ok(class_of(&hash_bytes(&mut backend, query)?, self.sizes));
        queries.iter().map(class).collect()
    }

    /// A query whose time is watched. In a quick run it says itself that it queues.
    fn watched(&self, query: Query) -> Query {
        match self.setting.quick {
            true => query.timed().queued(),
            false => query.timed(),
        }
    }

    /// Work of these queries, behind the proxy and by order of arrival, decided by as many rounds as the plan has: figures show what they
    /// show. Who has which query, and the sides, are the caller's.
    fn work<'w>(&self, keys: Keys, queries: &'w [Query], plan: Plan) -> Result<Work<'w>, BenchError> {
        Ok(Work {
            keys,
            classes: self.classes(queries)?,
            queries,
            lists: Vec::new(),
            apart: APART,
            sides: &[],
            versus: &[],
            decided: &[],
            control: sides::FIFO,
            plan: Plan {
                pairs_max: plan.repetitions,
                warmups: 0,
                ..plan
            },
        })
    }

    /// What rows say of a case and a figure about one query.
    fn keys(&self, case: &'static str, figure: &'static str, query: &str) -> Keys {
        Keys {
            query: query.to_owned(),
            ..Keys::new(case, figure, self.sizes.cache)
        }
    }
}

/// Fig. 6: four instances of each query, two by hash join and two by index join.
pub fn fig6(stage: &Stage<'_>, quick: bool, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let over: &[f64] = if quick {
        &FIG6_OVER_CACHE[1..2]
    } else {
        &FIG6_OVER_CACHE
    };
    for &over in over {
        let k = stage.sizes.k_of(over);
        let queries = [Form::Hash, Form::Index].map(|form| stage.watched(Query::plq(k, form, stage.oracle)));
        let keys = stage.keys(FIG6, "fig6", &format!("plq{k}"));
        let work = Work {
            lists: vec![vec![0], vec![1], vec![0], vec![1]],
            sides: &[sides::FIFO, sides::SLS, sides::MLS, sides::LEARNED],
            versus: &[
                (sides::SLS, sides::FIFO),
                (sides::MLS, sides::FIFO),
                (sides::LEARNED, sides::FIFO),
            ],
            ..stage.work(keys, &queries, runner.plan())?
        };
        run(&work, &stage.setting, runner)?;
    }
    Ok(())
}

/// What the planner thinks a query costs in a form.
fn cost(backend: &mut Backend, query: &Query, form: Form) -> Result<f64, BenchError> {
    backend.prefer(form)?;
    let said = backend.client().run(&format!("explain {}", query.sql))?;
    let first = said.first().unwrap_or_default();
    let total = first.split_once("cost=").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once("..")?;
        rest.split_once(' ')?.0.parse().ok()
    });
    total.ok_or_else(|| failed("postgres", format!("says no cost in: {first}")))
}

/// The query whose two forms cost about as in the paper, and how much dearer the dearer is.
fn balanced(stage: &Stage<'_>) -> Result<(Query, f64), BenchError> {
    let mut backend = stage.backend()?;
    let mut best: Option<(Query, f64)> = None;
    for k in 1..=PLQ_TERMS_MAX {
        let query = Query::plq(k, Form::Free, stage.oracle);
        let costs = [
            cost(&mut backend, &query, Form::Hash)?,
            cost(&mut backend, &query, Form::Index)?,
        ];
        let dearer = costs[0].max(costs[1]) / costs[0].min(costs[1]);
        let away = |dearer: f64| (dearer / DEARER).ln().abs();
        if best.as_ref().is_none_or(|(_, found)| away(dearer) < away(*found)) {
            best = Some((query, dearer));
        }
    }
    best.ok_or_else(|| BenchError::Data("there is no PLQ".to_owned()))
}

/// Section 7.3: four instances of one query.
pub fn plan_choice(stage: &Stage<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let (query, dearer) = balanced(stage)?;
    runner.progress().note(&format!(
        "{}: its dearer form is estimated to cost {dearer:.2} times the other",
        query.name
    ));
    let queries = [stage.watched(query)];
    let keys = stage.keys(PLAN_CHOICE, "s7.3", &queries[0].name);
    let work = Work {
        lists: vec![vec![0]; 4],
        sides: &[
            sides::DIRECT,
            sides::FIFO,
            sides::SLS,
            sides::SLS_PLANS,
            sides::AUTO,
            sides::AUTO_PLANS,
            sides::MLS_PLANS,
        ],
        versus: &[
            (sides::SLS, sides::FIFO),
            (sides::SLS_PLANS, sides::FIFO),
            (sides::AUTO, sides::FIFO),
            (sides::AUTO_PLANS, sides::FIFO),
            (sides::MLS_PLANS, sides::FIFO),
            (sides::SLS_PLANS, sides::SLS),
            (sides::AUTO_PLANS, sides::AUTO),
        ],
        ..stage.work(keys, &queries, runner.plan())?
    };
    run(&work, &stage.setting, runner)
}

/// The queries of the mix and how many of each eight are of it: half are moderate.
fn mixed(stage: &Stage<'_>) -> (Vec<Query>, Vec<usize>) {
    let k = |over| stage.sizes.k_of(over);
    let plq = |over, form| Query::plq(k(over), form, stage.oracle);
    let queries = vec![
        plq(0.5, Form::Hash),
        plq(1.0, Form::Hash),
        plq(4.0, Form::Hash),
        plq(1.0, Form::Index),
        Query::scan(stage.oracle),
    ];
    let eighths = [2, 2, 1, 2, 1];
    let all = MIX_CLIENTS * MIX_EACH / 8;
    let queries = queries.into_iter().map(|query| stage.watched(query)).collect();
    (queries, eighths.map(|eighths| eighths * all).to_vec())
}

/// A closed mix of 8 clients.
pub fn mix(stage: &Stage<'_>, quick: bool, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let (queries, counts) = mixed(stage);
    let all: &[Spec] = &[
        sides::DIRECT,
        sides::FIFO,
        sides::SLS,
        sides::MLS,
        sides::LEARNED,
        sides::AUTO,
        sides::AUTO_PLANS,
    ];
    let few: &[Spec] = &[
        sides::DIRECT,
        sides::FIFO,
        sides::SLS,
        sides::MLS,
        sides::AUTO_PLANS,
    ];
    let versus: Vec<(Spec, Spec)> = all
        .iter()
        .filter(|spec| **spec != sides::FIFO)
        .map(|spec| (*spec, sides::FIFO))
        .collect();
    let keys = Keys::new(MIX, MIX, stage.sizes.cache);
    let mut work = Work {
        lists: deal(&counts, MIX_CLIENTS, SEED),
        sides: if quick { few } else { all },
        versus: &versus,
        decided: &[(sides::AUTO, sides::FIFO), (sides::AUTO_PLANS, sides::FIFO)],
        ..stage.work(keys, &queries, runner.plan())?
    };
    work.plan.pairs_max = runner.plan().pairs_max;
    run(&work, &stage.setting, runner)
}

/// What the heavy queue costs those it cannot help, at least 30 pairs: short queries, and joins that hurt nobody.
pub fn overhead(stage: &Stage<'_>, quick: bool, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let text = "select d_year from date where d_datekey = 19940101";
    let short = Query::of("short", text, fingerprint_of_rows(&["1994".to_owned()]));
    let strong = Query::plq(1, Form::Hash, stage.oracle);
    let (shorts, strongs) = if quick { (100, 1) } else { (SHORT, STRONG) };
    for (query, times) in [(short, shorts), (strong, strongs)] {
        let queries = [query];
        let keys = stage.keys(OVERHEAD, OVERHEAD, &queries[0].name);
        let mut work = Work {
            lists: vec![vec![0; times]; OVERHEAD_CLIENTS],
            apart: Duration::ZERO,
            sides: &[sides::FIFO, sides::AUTO_PLANS],
            versus: &[(sides::AUTO_PLANS, sides::FIFO)],
            ..stage.work(keys, &queries, runner.plan())?
        };
        work.plan.pairs_max = PAIRS_NEAR_ONE;
        if !quick {
            work.plan.repetitions = work.plan.repetitions.max(PAIRS_NEAR_ONE);
        }
        run(&work, &stage.setting, runner)?;
    }
    Ok(())
}
