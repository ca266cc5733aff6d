//! Dispatch, counted by hand on recordings of a few touches; and the kept recording's outcomes: repeatable, and ordered as they must be.

use corun_cachesim::private_caches::axis::Axis;
use corun_cachesim::private_caches::platform::Platform;
use corun_cachesim::private_caches::recording::{Block, Execution, Recording, Relation};
use corun_cachesim::private_caches::run::{Dispatch, Outcome, Placement, Plan, Region, Reserved, Scheduler};
use corun_cachesim::private_caches::study::{Setting, Split, usual_sizes};
use corun_cachesim::private_caches::touch::{Place, Touch, Use};
use corun_cachesim::private_caches::workload::{Kind, ROWS, Sizes, Workload};
use proptest::prelude::*;

fn sizes(items: u64) -> Sizes {
    Sizes {
        items,
        customers: items,
        warehouses: 8,
        skew: 0.0,
        best_seller_steps: 0,
    }
}

fn platform(cores: usize, threads_per_core: usize) -> Platform {
    Platform {
        cores,
        threads_per_core,
        ..Platform::preset("intel").expect("a preset")
    }
}

fn plan(platform: Platform, dispatch: Dispatch, clients: usize) -> Plan {
    Plan {
        platform,
        dispatch,
        clients,
        reserved: None,
        warm_up: 6400,
        counted: 6400,
        seed: 7,
    }
}

/// A point read of four touches: its own memory, its code, a line all write, a line of the row's page.
fn tiny(last: Use) -> Recording {
    let touch = |place, what| Touch { place, what };
    Recording {
        relations: vec![Relation {
            name: "accounts".to_owned(),
            level: 0,
            pages: 16,
        }],
        executions: vec![Execution {
            statement: "point".to_owned(),
            instructions: 100,
            at: vec![(Axis::Account, 0.0)],
            blocks: vec![Block { relation: 0, page: 0 }],
            touches: vec![
                touch(Place::Private { page: 0, line: 1 }, Use::Store),
                touch(Place::Code { page: 0, line: 2 }, Use::Fetch),
                touch(Place::Common { page: 0, line: 3 }, Use::Store),
                touch(Place::Block { block: 0, line: 4 }, last),
            ],
        }],
        ..Recording::default()
    }
}

fn region(outcome: &Outcome, region: Region) -> [f64; 3] {
    let misses = outcome.simple.regions[region as usize];
    [misses.touches, misses.l2, misses.invalidated].map(|count| outcome.simple.per_query(count))
}

#[test]
fn one_core_keeps_what_it_needs() {
    let workload = Workload::new(Kind::Point, sizes(ROWS), tiny(Use::Load));
    for dispatch in [
        Dispatch::Random,
        Dispatch::Range,
        Dispatch::Os(Scheduler::Free),
        Dispatch::Os(Scheduler::Sticky),
    ] {
        let outcome = plan(platform(1, 1), dispatch, 1).run(&workload);
        assert_eq!(outcome.simple.queries, 6400.0);
        assert_eq!(outcome.simple.instructions, 640_000);
        for of in Region::ALL {
            assert_eq!(region(&outcome, of), [1.0, 0.0, 0.0], "{dispatch:?} {of:?}");
        }
    }
}

#[test]
fn a_line_that_all_write_is_lost_whoever_runs_what() {
    let workload = Workload::new(Kind::Point, sizes(ROWS), tiny(Use::Load));
    for dispatch in [Dispatch::Random, Dispatch::Range] {
        let outcome = plan(platform(4, 1), dispatch, 0).run(&workload);
        // Turns are of 256 touches, 64 queries: of a core's 64 stores the first finds the line gone.
        assert_eq!(
            region(&outcome, Region::Common),
            [1.0, 1.0 / 64.0, 1.0 / 64.0],
            "{dispatch:?}"
        );
        assert_eq!(region(&outcome, Region::Private)[1], 0.0);
    }
    // Siblings have one cache.
    let outcome = plan(platform(1, 4), Dispatch::Random, 0).run(&workload);
    assert_eq!(region(&outcome, Region::Common), [1.0, 0.0, 0.0]);
}

#[test]
fn rows_that_are_written_stay_where_ranges_send_them() {
    let workload = Workload::new(Kind::Point, sizes(ROWS), tiny(Use::Store));
    let range = plan(platform(4, 1), Dispatch::Range, 0).run(&workload);
    assert_eq!(region(&range, Region::Keyed), [1.0, 0.0, 0.0]);
    let random = plan(platform(4, 1), Dispatch::Random, 0).run(&workload);
    let [_, missed, invalidated] = region(&random, Region::Keyed);
    // A turn of 64 queries stores to 15.7 of the sixteen lines, and every one of these another core has stored to since.
    assert!(
        missed == invalidated && (0.24..0.25).contains(&missed),
        "{missed}"
    );
}

#[test]
fn moved_backends_find_their_memory_elsewhere() {
    let workload = Workload::new(Kind::Point, sizes(ROWS), tiny(Use::Load));
    let missed = |scheduler| {
        let outcome = plan(platform(4, 1), Dispatch::Os(scheduler), 7).run(&workload);
        region(&outcome, Region::Private)
    };
    let [_, l2, invalidated] = missed(Scheduler::Free);
    // A turn of 64 queries takes three waiting backends and the thread's own in turn: four of 64 come from elsewhere at most.
    assert!(
        (0.03..=0.0625).contains(&l2) && l2 == invalidated,
        "{l2} {invalidated}"
    );
    assert_eq!(missed(Scheduler::Sticky), [1.0, 0.0, 0.0]);
    // With a thread for each backend nothing moves.
    let outcome = plan(platform(4, 1), Dispatch::Os(Scheduler::Free), 4).run(&workload);
    assert_eq!(region(&outcome, Region::Private), [1.0, 0.0, 0.0]);
}

#[test]
fn the_kept_recording_saves_keyed_misses_by_range_where_ranges_fit() {
    // A range of 500 rows for each core, and room for it beside the program.
    let platform = platform(4, 1)
        .with_l2(corun_model::units::Bytes::mib(2))
        .expect("a cache");
    let setting = Setting {
        kind: Kind::Point,
        sizes: sizes(40_000),
        clients: 8,
        counted: 100,
        seed: 1,
        platform,
    };
    let workload = Workload::kept(setting.kind, setting.sizes).expect("readable");
    let run = |dispatch| {
        let sides = setting.sides(true, true, true);
        let side = sides
            .into_iter()
            .find(|side| side.dispatch == dispatch)
            .expect("a side");
        setting.plan(side).run(&workload)
    };
    let [free, random, range] = [Dispatch::Os(Scheduler::Free), Dispatch::Random, Dispatch::Range].map(run);
    let keyed = |outcome: &Outcome| region(outcome, Region::Keyed)[1];
    assert!(
        keyed(&range) < 0.7 * keyed(&random),
        "{} {}",
        keyed(&range),
        keyed(&random)
    );
    let private = |outcome: &Outcome| region(outcome, Region::Private)[1];
    assert!(
        private(&random) < 0.3 * private(&free),
        "{} {}",
        private(&random),
        private(&free)
    );
    assert_eq!(range, run(Dispatch::Range), "equal plans, equal outcomes");
}

#[test]
fn best_sellers_run_on_their_cores_in_parts() {
    let setting = Setting {
        kind: Kind::Tpcw,
        sizes: Sizes {
            best_seller_steps: 40,
            ..sizes(ROWS)
        },
        clients: 16,
        counted: 60,
        seed: 1,
        platform: platform(4, 2),
    };
    let workload = Workload::kept(setting.kind, setting.sizes).expect("readable");
    let sides = setting.sides(false, false, true);
    let splits: Vec<Split> = sides.iter().map(|side| side.split).collect();
    assert_eq!(splits, [Split::Mixed, Split::Whole, Split::First, Split::Second]);
    for side in sides {
        let plan = setting.plan(side);
        let outcome = plan.run(&workload);
        assert!(
            outcome.simple.queries > 0.0 && outcome.step.queries > 0.0 && outcome.ends.queries > 0.0,
            "{side:?}"
        );
        if side.split != Split::Mixed {
            assert_eq!(plan.reserved.map(|reserved| reserved.cores), Some(1));
        }
    }
    let paper = Setting {
        platform: Platform::preset("intel").expect("a preset"),
        ..setting
    };
    let parts = paper
        .sides(false, false, true)
        .into_iter()
        .filter_map(|side| paper.plan(side).reserved);
    let parts: Vec<(usize, usize, Placement)> = parts
        .map(
            |Reserved {
                 cores,
                 parts,
                 placement,
             }| (cores, parts, placement),
        )
        .collect();
    assert_eq!(
        parts,
        [
            (10, 1, Placement::Spread),
            (10, 10, Placement::Spread),
            (10, 5, Placement::Siblings)
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is simulated, each thread makes the touches asked for, and no count exceeds what it is a part of.
    #[test]
    fn counts_are_parts_of_each_other(
        cores in 1_usize..5, siblings in 1_usize..3, clients in 1_usize..20, which in 0_usize..4, items in 1_u64..5000, seed: u64
    ) {
        let workload = Workload::new(Kind::Point, sizes(items), tiny(Use::Store));
        let dispatch = [Dispatch::Os(Scheduler::Free), Dispatch::Os(Scheduler::Sticky), Dispatch::Random, Dispatch::Range][which];
        let plan = Plan { warm_up: 32, counted: 64, seed, ..plan(platform(cores, siblings), dispatch, clients) };
        let outcome = plan.run(&workload);
        let all = outcome.simple.all();
        prop_assert!(all.invalidated <= all.l2 && all.l2 <= all.l1 && all.l1 <= all.touches);
        let busy = match dispatch {
            Dispatch::Os(_) => clients.min(cores * siblings),
            _ => cores * siblings,
        };
        prop_assert_eq!(all.touches, (busy * 64 * 4) as u64);
        prop_assert_eq!(outcome.simple.queries, (busy * 64) as f64);
        prop_assert_eq!(plan.run(&workload), outcome);
    }
}

#[test]
fn usual_sizes_are_the_papers() {
    let sizes = usual_sizes(&Platform::preset("amd").expect("a preset"));
    assert_eq!(
        (sizes.items, sizes.customers, sizes.warehouses),
        (1_000_000, 2_880_000, 48)
    );
}
