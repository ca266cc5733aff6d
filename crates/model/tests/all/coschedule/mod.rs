//! Co-scheduling on a simulated machine: the promises of `corun_model::cache::coschedule` under random, adversarial and the paper's own mixes.

mod limit;
mod machine;
mod sharing;
mod turns;

use corun_model::cache::coschedule::{
    Admission, Config, Owner, Policy, PolicyName, Query, QueryId, ScheduleError, Scheduler, Why,
};
use corun_model::cache::locality::{Footprint, Locality};
use corun_model::cache::plan_choice::Balance;
use corun_model::cache::slowdown::{SlowdownError, SlowdownModel, StatementId};
use corun_model::units::{Bytes, CpuId};
use proptest::prelude::*;

use machine::{CACHE, Job, Machine, Truth, as_the_paper_says, domains, job};

const ALL: [PolicyName; 4] = [
    PolicyName::Fifo,
    PolicyName::Sls,
    PolicyName::Mls,
    PolicyName::Learned,
];

fn config(policy: PolicyName, cpus: u32) -> Config {
    Config::new(policy, true, domains(1, cpus))
}

/// Sizes of strong, moderate and weak tables, in hundredths of a MiB; 0 has none.
const SIZES: [u64; 6] = [50, 113, 200, 490, 1860, 0];

/// A repeatable sequence of numbers that look random (SplitMix64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

/// `n` jobs of these sizes in random order, all there at the beginning.
fn batch(seed: u64, n: usize, sizes: &[u64]) -> Vec<Job> {
    let mut seeded = Seeded(seed);
    let mut jobs: Vec<Job> = (0..n).map(|i| job(0, sizes[i % sizes.len()])).collect();
    for i in (1..n).rev() {
        jobs.swap(i, seeded.below(i as u64 + 1) as usize);
    }
    jobs
}

fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    let one = (
        0u64..20_000,
        1u64..3000,
        prop::sample::select(SIZES.to_vec()),
        prop::option::weighted(0.2, 0u64..30_000),
    );
    prop::collection::vec(one, 0..60).prop_map(|jobs| {
        jobs.into_iter()
            .map(|(arrives_ns, alone_ns, size, cancelled_ns)| Job {
                alone_ns,
                cancelled_ns,
                ..job(arrives_ns, size)
            })
            .collect()
    })
}

proptest! {
    /// The oracle in `machine` checks each step: no idle CPU, the rule, the bound on starts, nothing left behind.
    #[test]
    fn promises_hold_for_any_arrivals(
        jobs in any_jobs(),
        policy in prop::sample::select(ALL.to_vec()),
        shape in (1u32..4, 1u32..5),
        overtakes_max in 0u32..6,
        widen in any::<bool>(),
    ) {
        let mut config = Config::new(policy, true, domains(shape.0, shape.1));
        config.overtakes_max = overtakes_max;
        config.widen = widen;
        let run = |config: Config| {
            Machine::new(config, SlowdownModel::default(), as_the_paper_says).run(&jobs, 0)
        };
        let history = run(config.clone());

        // In time: T × ⌈(ahead + overtakes + 1) / n⌉.
        let longest = history.fates.values().map(|fate| fate.ran_ns()).max().unwrap_or(0);
        let cpus = (shape.0 * shape.1) as usize;
        for fate in history.fates.values() {
            let rounds = (fate.starts_before_max + 1).div_ceil(cpus) as u64;
            prop_assert!(fate.waited_ns() <= longest * rounds);
        }
        // Whoever was not cancelled came to its end.
        for (id, job) in (0..).zip(&jobs) {
            let ended = history.fates.get(&id).is_some_and(|fate| !fate.cancelled);
            prop_assert!(ended || job.cancelled_ns.is_some());
        }
        prop_assert_eq!(&history, &run(config));
    }
}

/// Two queries of the kind the policy likes best arrive whenever one ends; one it likes least came first of all.
#[test]
fn an_adversary_cannot_starve_the_least_liked_query() {
    let cases = [
        // Least liked: the largest table, a stream beside tables, and what a learnt matrix calls worst.
        (PolicyName::Sls, 490, 50),
        (PolicyName::Sls, 0, 50),
        (PolicyName::Sls, 50, 0),
        (PolicyName::Learned, 0, 50),
    ];
    for (policy, victim, favourite) in cases {
        let favourites = 200;
        let mut jobs = vec![job(0, favourite), job(0, favourite), job(1, victim)];
        // The two CPUs never become free together.
        jobs[0].alone_ns /= 2;
        jobs.extend((0..favourites).map(|i| job(1 + i / 2 * 1_000_000, favourite)));
        let waited = |overtakes_max| {
            let mut config = config(policy, 2);
            config.overtakes_max = overtakes_max;
            let machine = &mut Machine::new(config, SlowdownModel::default(), as_the_paper_says);
            // Some experience first: what was never tried may look better than it is.
            for seed in 0..20 {
                machine.run(&batch(seed, 24, &[50, 490, 0]), seed << 40);
            }
            let history = machine.run(&jobs, 20 << 40);
            (history.fates[&2].overtaken, history.fates[&2].start.why)
        };
        // Let free, the policy would starve it: so the bound is what saves it, and it is reached.
        let starved = waited(u32::MAX).0;
        assert!(starved >= 50, "{policy} {victim} {starved}");
        for overtakes_max in [0, 1, 8] {
            assert_eq!(
                waited(overtakes_max),
                (overtakes_max, Why::Aged),
                "{policy} {victim}"
            );
        }
    }
}

/// Section 5.2: four instances of PLQ_3, two hash joins of 1.13 MB and two index joins.
#[test]
fn sls_pairs_the_four_instances_of_section_5_2() {
    let jobs = [113, 0, 113, 0].map(|size| job(0, size));
    let order = |policy| {
        let machine = &mut Machine::new(config(policy, 2), SlowdownModel::default(), as_the_paper_says);
        machine.run(&jobs, 0)
    };
    let sls = order(PolicyName::Sls);
    assert_eq!(sls.order(), [0, 2, 1, 3]);
    let fates: Vec<_> = (0..4).map(|id| sls.fates[&id].start.why).collect();
    assert_eq!(fates, [Why::Alone, Why::Alone, Why::SameQueue, Why::SameQueue]);
    assert!(sls.mean_slowdown(&jobs) < order(PolicyName::Fifo).mean_slowdown(&jobs));
    // Section 6.3: each hash join gets an index join beside it.
    assert_eq!(order(PolicyName::Mls).order()[..2], [0, 1]);
    assert_eq!(order(PolicyName::Mls).fates[&1].start.why, Why::OtherQueue);
}

#[test]
fn sls_takes_the_smallest_tables_first() {
    let jobs = [490, 200, 113, 50].map(|size| job(0, size));
    let machine = &mut Machine::new(
        config(PolicyName::Sls, 2),
        SlowdownModel::default(),
        as_the_paper_says,
    );
    let started = machine.run(&jobs, 0);
    assert_eq!(started.order()[..2], [3, 2]);
}

/// With several caches each kind gets its own, whatever the order they came in; a kind that waits alone spreads.
#[test]
fn an_empty_domain_is_left_to_the_other_kind() {
    for policy in [PolicyName::Sls, PolicyName::Learned] {
        let started = |sizes: &[u64]| {
            let jobs: Vec<Job> = sizes.iter().map(|&size| job(0, size)).collect();
            let config = Config::new(policy, false, domains(2, 2));
            let machine = &mut Machine::new(config, SlowdownModel::default(), as_the_paper_says);
            let history = machine.run(&jobs, 0);
            let domains: Vec<_> = history.fates.values().map(|fate| fate.start.domain).collect();
            domains
        };
        assert_eq!(started(&[0, 0, 200, 200]), [0, 0, 1, 1], "{policy}");
        assert_eq!(started(&[200, 0, 200, 0]), [0, 1, 0, 1], "{policy}");
        assert_eq!(started(&[200, 200]), [0, 1], "{policy}");
        assert_eq!(started(&[0, 0, 0, 0]), [0, 1, 0, 1], "{policy}");
    }
}

/// A partitioned cache: the weak do no harm, moderate queries harm each other.
fn partitioned(victim: Locality, corunner: Locality) -> f64 {
    match (victim, corunner) {
        (_, Locality::Weak) => 1.03,
        (Locality::Moderate, Locality::Moderate) => 1.6,
        _ => 1.05,
    }
}

/// Nobody harms anybody.
fn harmless(_: Locality, _: Locality) -> f64 {
    1.0
}

/// Streams harm tables five-fold, and tables hardly each other.
fn polluted(victim: Locality, corunner: Locality) -> f64 {
    match (victim, corunner) {
        (Locality::Weak, _) => 1.05,
        (_, Locality::Weak) => 5.0,
        _ => 1.2,
    }
}

/// Mean slow-down and time to the end over twenty orders of the same mix, after as many for training.
fn compare(policy: PolicyName, truth: Truth, sizes: &[u64], (caches, cpus): (u32, u32)) -> (f64, f64) {
    let mut config = Config::new(policy, policy != PolicyName::Auto, domains(caches, cpus));
    config.overtakes_max = 16;
    let machine = &mut Machine::new(config, SlowdownModel::default(), truth);
    let (mut slowdown, mut ended_ms) = (0.0, 0.0);
    for seed in 0..40 {
        let jobs = batch(seed, 24, sizes);
        let history = machine.run(&jobs, seed << 40);
        if seed >= 20 {
            slowdown += history.mean_slowdown(&jobs) / 20.0;
            ended_ms += history.ended_ns as f64 / 20.0e6;
        }
    }
    (slowdown, ended_ms)
}

#[test]
fn learned_is_no_worse_than_fifo_and_better_where_the_matrix_says_so() {
    let truths: [(&str, Truth, bool); 4] = [
        ("paper", as_the_paper_says, true),
        ("partitioned", partitioned, true),
        ("polluted", polluted, true),
        ("harmless", harmless, false),
    ];
    for (name, truth, must_gain) in truths {
        for shape in [(1, 2), (1, 4), (2, 2)] {
            // Half moderate, half weak.
            let fifo = compare(PolicyName::Fifo, truth, &[200, 0], shape);
            let learned = compare(PolicyName::Learned, truth, &[200, 0], shape);
            assert!(
                learned.0 <= fifo.0 * 1.001,
                "{name} {shape:?}: {learned:?} {fifo:?}"
            );
            assert!(
                learned.1 <= fifo.1 * 1.001,
                "{name} {shape:?}: {learned:?} {fifo:?}"
            );
            let gain = (fifo.0 - 1.0) / (learned.0 - 1.0).max(1e-9);
            assert!(
                gain > 1.02 || !must_gain,
                "{name} {shape:?}: {learned:?} {fifo:?}"
            );
        }
    }
}

/// Without a partitioner it begins as `sls`, and gives that up where run times speak against it.
#[test]
fn auto_is_no_worse_than_fifo_wherever_streams_do_no_harm() {
    let truths: [(&str, Truth, bool); 4] = [
        ("paper", as_the_paper_says, true),
        ("polluted", polluted, true),
        ("partitioned", partitioned, true),
        ("harmless", harmless, false),
    ];
    for (name, truth, must_gain) in truths {
        for shape in [(1, 2), (1, 4), (2, 2)] {
            let fifo = compare(PolicyName::Fifo, truth, &[200, 0], shape);
            let auto = compare(PolicyName::Auto, truth, &[200, 0], shape);
            assert!(auto.0 <= fifo.0 * 1.001, "{name} {shape:?}: {auto:?} {fifo:?}");
            assert!(
                auto.0 < fifo.0 || !must_gain,
                "{name} {shape:?}: {auto:?} {fifo:?}"
            );
        }
    }
    let mut config = Config::new(PolicyName::Auto, false, domains(1, 2));
    config.overtakes_max = 16;
    let machine = &mut Machine::new(config, SlowdownModel::default(), partitioned);
    assert_eq!(machine.scheduler.policy(), Policy::Sls);
    for seed in 0..20 {
        machine.run(&batch(seed, 24, &[200, 0]), seed << 40);
    }
    assert_eq!(machine.scheduler.policy(), Policy::Learned);
}

#[test]
fn sls_and_mls_gain_where_the_paper_says() {
    for shape in [(1, 2), (1, 4), (2, 2)] {
        let of = |policy, truth| compare(policy, truth, &[200, 0], shape).0;
        assert!(of(PolicyName::Sls, as_the_paper_says) < of(PolicyName::Fifo, as_the_paper_says));
        assert!(of(PolicyName::Sls, polluted) < of(PolicyName::Fifo, polluted));
        assert!(of(PolicyName::Mls, partitioned) < of(PolicyName::Fifo, partitioned));
        assert!(of(PolicyName::Mls, partitioned) < of(PolicyName::Sls, partitioned));
    }
}

/// The scheduler's own bookkeeping of who ran beside whom is enough to learn another machine's matrix.
#[test]
fn the_matrix_is_learnt_from_the_schedule_itself() {
    for now_and_then_alone in [false, true] {
        let machine = &mut Machine::new(config(PolicyName::Fifo, 2), SlowdownModel::default(), polluted);
        for seed in 0..40 {
            machine.run(&batch(seed, 24, &[200, 0]), seed << 40);
            if now_and_then_alone {
                machine.run(&[job(0, 200)], (seed << 40) + (1 << 38));
                machine.run(&[job(0, 0)], (seed << 40) + (1 << 39));
            }
        }
        let learnt = machine.scheduler.slowdowns();
        for (victim, footprint) in [
            (Locality::Moderate, job(0, 200).footprint),
            (Locality::Weak, job(0, 0).footprint),
        ] {
            let alone_ms = learnt.alone_ns(StatementId(footprint.bytes().0)).expect("seen") / 1e6;
            for corunner in [Locality::Moderate, Locality::Weak] {
                let (own, other) = (learnt.class_of(victim), learnt.class_of(corunner));
                let slowdown = learnt.slowdown(own, other).expect("known");
                let truth = polluted(victim, corunner);
                let off = |found: f64| (found / truth - 1.0).abs();
                // Jobs take 1 ms alone. Where they are never seen so, only run times can be known, not what part of them is
                // slow-down.
                assert!(
                    off(alone_ms * slowdown) < 0.05,
                    "{victim} beside {corunner}: {alone_ms} * {slowdown}"
                );
                assert!(
                    off(slowdown) < 0.1 || !now_and_then_alone,
                    "{victim} beside {corunner}: {slowdown}"
                );
            }
        }
    }
}

fn scheduler(config: Config) -> Scheduler {
    Scheduler::new(config, SlowdownModel::default()).expect("a sound configuration")
}

fn query(scheduler: &Scheduler, id: u64, footprint: Footprint) -> Query {
    Query {
        id: QueryId(id),
        statement: StatementId(id),
        class: scheduler.slowdowns().class_of(machine::locality(footprint)),
        footprint,
        expected_ns: None,
        parts: 0,
        owner: Owner::default(),
    }
}

#[test]
fn short_queries_bypass_until_they_are_too_many_and_learnt_times_decide() {
    let mut config = config(PolicyName::Sls, 1);
    config.bypass_max = 1;
    let mut s = scheduler(config);
    let short = |s: &Scheduler, id| Query {
        statement: StatementId(7),
        expected_ns: Some(1e6),
        ..query(s, id, Footprint::Streams)
    };
    assert_eq!(s.arrive(0, short(&s, 1)), Ok(Admission::Bypass));
    // It holds no CPU, and is no plan of either queue.
    assert!(s.running().is_empty());
    assert_eq!(s.balance(), Balance::default());
    let queued = s.arrive(0, short(&s, 2)).expect("room");
    assert!(matches!(queued, Admission::Queued { .. }));
    assert_eq!(s.dispatch().len(), 1);
    // The first takes much longer than it was expected to: the statement is short no more.
    assert_eq!(s.finish(50_000_000, QueryId(1)), Ok(()));
    let queued = s.arrive(50_000_000, short(&s, 3)).expect("room");
    assert!(matches!(queued, Admission::Queued { .. }));
    // Others still are.
    let other = Query {
        statement: StatementId(8),
        ..short(&s, 4)
    };
    assert_eq!(s.arrive(50_000_000, other), Ok(Admission::Bypass));
    for id in [2, 3, 4] {
        assert_eq!(s.leave(50_000_000, QueryId(id)), Ok(()));
    }
    assert!(s.waiting().is_empty() && s.running().is_empty());
    assert_eq!(
        s.leave(50_000_000, QueryId(4)),
        Err(ScheduleError::Unknown(QueryId(4)))
    );
}

/// Strong queries that fit the cache together are let through, as long as nothing else is about.
#[test]
fn auto_switches_itself_off_while_nothing_can_be_gained() {
    let mut config = Config::new(PolicyName::Auto, false, domains(1, 2));
    config.widen = true;
    let strong = |s: &Scheduler, id| query(s, id, Footprint::Tables(Bytes::kib(1200)));
    let moderate = |s: &Scheduler, id| query(s, id, Footprint::Tables(Bytes::mib(2)));
    let queued = |admission| matches!(admission, Ok(Admission::Queued { .. }));

    let mut s = scheduler(config.clone());
    for id in 1..=3 {
        assert_eq!(s.arrive(id, strong(&s, id)), Ok(Admission::Free));
    }
    assert!(queued(s.arrive(4, strong(&s, 4))), "four tables do not fit 4 MiB");
    assert_eq!(s.finish(5, QueryId(1)), Ok(()));
    assert_eq!(
        s.slowdowns().alone_ns(StatementId(1)),
        None,
        "how it ran, nobody knows"
    );
    assert!(queued(s.arrive(5, strong(&s, 5))), "somebody waits");
    assert_eq!(s.dispatch().len(), 2);
    assert!(queued(s.arrive(6, strong(&s, 6))), "somebody runs");
    for id in [2, 3, 4, 5, 6] {
        assert_eq!(s.leave(7, QueryId(id)), Ok(()));
    }
    assert!(
        queued(s.arrive(8, moderate(&s, 8))),
        "moderate queries have something to lose"
    );

    for (policy, widen) in [
        (PolicyName::Sls, true),
        (PolicyName::Fifo, true),
        (PolicyName::Auto, false),
    ] {
        config.policy = policy;
        config.widen = widen;
        let mut s = scheduler(config.clone());
        assert!(queued(s.arrive(1, strong(&s, 1))), "{policy} {widen}");
    }
}

#[test]
fn a_query_that_finds_nobody_gets_its_domain_until_it_ends() {
    let mut config = Config::new(PolicyName::Sls, false, domains(2, 2));
    config.widen = true;
    let mut s = scheduler(config);
    let arrive = |s: &mut Scheduler, now_ns, id| {
        let query = query(s, id, Footprint::Tables(Bytes::mib(2)));
        s.arrive(now_ns, query).expect("room");
    };
    let started = |s: &mut Scheduler| -> Vec<(u64, Vec<u32>)> {
        let cpus = |cpus: &[CpuId]| cpus.iter().map(|cpu| cpu.0).collect();
        let starts = s.dispatch();
        starts
            .iter()
            .map(|start| (start.id.0, cpus(&start.cpus)))
            .collect()
    };
    arrive(&mut s, 0, 1);
    assert_eq!(started(&mut s), [(1, vec![0, 1])]);
    // Of two that wait together, the first leaves room for the second, which then has nobody beside it.
    arrive(&mut s, 10, 2);
    arrive(&mut s, 10, 3);
    assert_eq!(started(&mut s), [(2, vec![2]), (3, vec![3])]);
    // It occupies its domain: whoever comes now waits for an end.
    arrive(&mut s, 20, 4);
    arrive(&mut s, 20, 5);
    assert_eq!(started(&mut s), []);
    s.finish(30, QueryId(1)).expect("ran");
    assert_eq!(started(&mut s), [(4, vec![0]), (5, vec![1])]);
    // What the wide run took is known, and not as time on one CPU.
    let learnt = s.slowdowns();
    assert_eq!(learnt.wide_ns(StatementId(1)), Some(30.0));
    assert_eq!(learnt.alone_ns(StatementId(1)), None);
}

/// Two clients that take turns would otherwise wait for each other for ever.
#[test]
fn who_had_to_wait_gets_one_cpu() {
    let mut config = Config::new(PolicyName::Sls, false, domains(1, 2));
    config.widen = true;
    let mut s = scheduler(config);
    let arrive = |s: &mut Scheduler, now_ns, id| {
        let query = query(s, id, Footprint::Tables(Bytes::mib(2)));
        s.arrive(now_ns, query).expect("room");
    };
    let widths =
        |s: &mut Scheduler| -> Vec<usize> { s.dispatch().iter().map(|start| start.cpus.len()).collect() };
    arrive(&mut s, 0, 1);
    assert_eq!(widths(&mut s), [2]);
    arrive(&mut s, 10, 2);
    assert_eq!(widths(&mut s), [] as [usize; 0]);
    s.finish(30, QueryId(1)).expect("ran");
    assert_eq!(widths(&mut s), [1], "it is alone now, but has had company");
    arrive(&mut s, 31, 3);
    assert_eq!(widths(&mut s), [1]);
    s.finish(40, QueryId(2)).expect("ran");
    s.finish(50, QueryId(3)).expect("ran");
    arrive(&mut s, 60, 4);
    assert_eq!(widths(&mut s), [2]);
}

#[test]
fn the_time_a_wide_run_took_decides_who_is_short() {
    let mut config = config(PolicyName::Sls, 2);
    config.widen = true;
    let mut s = scheduler(config);
    let dear = |s: &Scheduler, id| Query {
        statement: StatementId(7),
        expected_ns: Some(1e9),
        ..query(s, id, Footprint::Streams)
    };
    let queued = s.arrive(0, dear(&s, 1)).expect("room");
    assert!(matches!(queued, Admission::Queued { .. }));
    assert_eq!(s.dispatch()[0].cpus.len(), 2);
    s.finish(1_000_000, QueryId(1)).expect("ran");
    assert_eq!(s.arrive(1_000_000, dear(&s, 2)), Ok(Admission::Bypass));
    // On one CPU it takes longer than the limit: that counts from then on.
    s.finish(51_000_000, QueryId(2)).expect("ran");
    let queued = s.arrive(51_000_000, dear(&s, 3)).expect("room");
    assert!(matches!(queued, Admission::Queued { .. }));
}

#[test]
fn corrected_footprints_change_later_choices() {
    let mut s = scheduler(config(PolicyName::Sls, 2));
    let table = |mib| Footprint::Tables(Bytes::mib(mib));
    for (id, footprint) in [(1, table(2)), (2, table(2)), (3, Footprint::Streams)] {
        let query = query(&s, id, footprint);
        s.arrive(0, query).expect("room");
    }
    // Both tables turn out huge; seen so, all three belong together, and the oldest go first.
    for id in [1, 2] {
        s.change(QueryId(id), table(100)).expect("known");
    }
    assert_eq!(
        s.balance(),
        Balance {
            reusing: 0,
            streaming: 3
        }
    );
    let started: Vec<_> = s
        .dispatch()
        .iter()
        .map(|start| (start.id.0, start.locality))
        .collect();
    assert_eq!(started, [(1, Locality::Weak), (2, Locality::Weak)]);
    // One that runs is seen anew as well: what fits beside it has changed.
    s.change(QueryId(1), table(1)).expect("known");
    let small = query(&s, 4, table(1));
    s.arrive(1, small).expect("room");
    s.finish(2, QueryId(2)).expect("ran");
    assert_eq!(s.dispatch()[0].id, QueryId(4));
    assert_eq!(
        s.change(QueryId(2), table(1)),
        Err(ScheduleError::Unknown(QueryId(2)))
    );
}

/// What is weak in a small cache is moderate in a large one.
#[test]
fn domains_of_different_sizes_see_different_classes() {
    let mut config = Config::new(PolicyName::Sls, false, domains(2, 1));
    config.domains[1].cache = Bytes::mib(64);
    let mut s = scheduler(config);
    for id in [1, 2] {
        let query = query(&s, id, Footprint::Tables(Bytes::mib(30)));
        s.arrive(0, query).expect("room");
    }
    let seen: Vec<_> = s
        .dispatch()
        .iter()
        .map(|start| (start.cpus[0], start.locality))
        .collect();
    assert_eq!(seen, [(CpuId(0), Locality::Weak), (CpuId(1), Locality::Moderate)]);
}

#[test]
fn refused_events_change_nothing() {
    let mut config = config(PolicyName::Sls, 1);
    config.waiting_max = 2;
    let mut s = scheduler(config);
    let streams = |s: &Scheduler, id| query(s, id, Footprint::Streams);
    s.arrive(10, streams(&s, 1)).expect("room");
    assert_eq!(s.dispatch().len(), 1);
    s.arrive(10, streams(&s, 2)).expect("room");
    s.arrive(10, streams(&s, 3)).expect("room");
    let before = s.clone();

    assert_eq!(s.arrive(11, streams(&s, 4)), Err(ScheduleError::Full(2)));
    assert_eq!(
        s.arrive(11, streams(&s, 2)),
        Err(ScheduleError::Known(QueryId(2)))
    );
    assert_eq!(
        s.finish(11, QueryId(2)),
        Err(ScheduleError::NotStarted(QueryId(2)))
    );
    assert_eq!(s.finish(11, QueryId(9)), Err(ScheduleError::Unknown(QueryId(9))));
    assert_eq!(s.leave(11, QueryId(9)), Err(ScheduleError::Unknown(QueryId(9))));
    let backwards = ScheduleError::Backwards {
        event_ns: 9,
        now_ns: 10,
    };
    assert_eq!(s.finish(9, QueryId(1)), Err(backwards.clone()));
    assert_eq!(s.leave(9, QueryId(2)), Err(backwards));
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        let query = Query {
            expected_ns: Some(bad),
            ..streams(&s, 5)
        };
        assert!(matches!(s.arrive(11, query), Err(ScheduleError::Time { .. })));
    }
    let foreign = SlowdownModel::default().add_class(Locality::Weak).expect("room");
    let query = Query {
        class: foreign,
        ..streams(&s, 5)
    };
    assert_eq!(
        s.arrive(11, query),
        Err(ScheduleError::Slowdown(SlowdownError::UnknownClass(foreign)))
    );
    assert!(s.dispatch().is_empty());
    assert_eq!(s, before);

    // Once it has been made here too, the class is known.
    s.leave(11, QueryId(3)).expect("waits");
    assert_eq!(s.add_class(Locality::Weak), Ok(foreign));
    assert!(s.arrive(11, query).is_ok());
}

#[test]
fn senseless_configurations_are_refused() {
    let refused = |config: Config| Scheduler::new(config, SlowdownModel::default()).expect_err("senseless");
    let sound = || config(PolicyName::Auto, 2);
    let no_domain = Config {
        domains: Vec::new(),
        ..sound()
    };
    assert!(matches!(refused(no_domain), ScheduleError::NoCpu(_)));
    let mut no_cpu = sound();
    no_cpu.domains[0].cpus.clear();
    assert!(matches!(refused(no_cpu), ScheduleError::NoCpu(_)));
    let mut twice = sound();
    twice.domains.extend(domains(1, 1));
    assert_eq!(refused(twice), ScheduleError::CpuTwice(CpuId(0)));
    let mut no_cache = sound();
    no_cache.domains[0].cache = Bytes(0);
    assert!(matches!(refused(no_cache), ScheduleError::Locality(_)));
    let no_queue = Config {
        waiting_max: 0,
        ..sound()
    };
    assert_eq!(refused(no_queue), ScheduleError::NoQueue);
    let no_time = Config {
        short_below_ns: f64::NAN,
        ..sound()
    };
    assert!(matches!(refused(no_time), ScheduleError::Time { .. }));
    let no_partitioner = Config {
        policy: PolicyName::Mls,
        partitioner: false,
        ..sound()
    };
    assert!(matches!(refused(no_partitioner), ScheduleError::Policy(_)));
    assert_eq!(CACHE, sound().domains[0].cache);
}
