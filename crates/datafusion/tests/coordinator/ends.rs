//! Queries that do not come to a regular end: cancelled, failed, panicked, refused, never read, left by their coordinator.

use super::common::lines;
use super::setting::{
    Gate, QUERIES, answer, function, one_cpu, options, session, until, until_idle, until_nothing_is_held,
    with_tables, within,
};
use corun_datafusion::Coordinator;
use corun_model::cache::coschedule::PolicyName;
use datafusion::logical_expr::Volatility;
use futures::StreamExt;
use std::sync::Arc;

/// Never ends by itself, and its operators let go of the CPU now and then.
const ENDLESS: &str =
    "SELECT value % 1000, count(*) FROM generate_series(1, 1000000000000) GROUP BY value % 1000";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_waits_is_cancelled_at_once_and_the_next_moves_up() {
    let context = session(1 << 30);
    let gate = Arc::new(Gate::default());
    context.register_udf(gate.function());
    let coordinator = Coordinator::around(&context, one_cpu(PolicyName::Fifo)).unwrap();
    let _held = coordinator.submit("SELECT gate(1)").await.unwrap();
    gate.until_came(1).await;
    let second = coordinator.submit("SELECT gate(2)").await.unwrap();
    let mut third = coordinator.submit("SELECT gate(3)").await.unwrap();
    assert_eq!(coordinator.state().waiting.len(), 2);
    drop(second);
    assert_eq!(coordinator.state().waiting.len(), 1);
    gate.open();
    assert!(within(third.next()).await.unwrap().is_ok());
    assert_eq!(gate.came(), [1, 3]);
    drop(third);
    until_idle(&coordinator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_runs_is_cancelled_and_frees_cpus_and_memory() {
    let context = session(1 << 30);
    with_tables(&context).await;
    for widen in [false, true] {
        for short_below_ns in [0.0, 1e12] {
            let mut options = options(PolicyName::Sls);
            options.widen = widen;
            options.short_below_ns = short_below_ns;
            let coordinator = Coordinator::around(&context, options).unwrap();
            let endless = coordinator.submit(ENDLESS).await.unwrap();
            let about = |state: &corun_datafusion::State| state.running.len() + state.bypassing.len() == 1;
            until(&coordinator, "running", about).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            drop(endless);
            until_idle(&coordinator).await;
            until_nothing_is_held(&context).await;
            answer(&coordinator, QUERIES[3]).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_never_lets_go_is_cancelled_when_it_does() {
    let context = session(1 << 30);
    let gate = Arc::new(Gate::default());
    context.register_udf(gate.function());
    let coordinator = Coordinator::around(&context, one_cpu(PolicyName::Sls)).unwrap();
    let stuck = coordinator.submit("SELECT gate(1)").await.unwrap();
    gate.until_came(1).await;
    let mut next = coordinator.submit("SELECT 2").await.unwrap();
    drop(stuck);
    // Its CPU is not free, whatever its client wants.
    let state = coordinator.state();
    assert_eq!((state.running.len(), state.waiting.len()), (1, 1));
    gate.open();
    assert!(within(next.next()).await.unwrap().is_ok());
    drop(next);
    until_idle(&coordinator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_an_error_of_its_own_query_only() {
    let context = session(1 << 30);
    with_tables(&context).await;
    let broken = |n: i64| if n == 13 { panic!("thirteen") } else { n };
    context.register_udf(function("broken", Volatility::Volatile, broken));
    context.register_udf(function("folded", Volatility::Immutable, broken));
    for widen in [false, true] {
        let mut options = options(PolicyName::Sls);
        options.widen = widen;
        let coordinator = Coordinator::around(&context, options).unwrap();
        for round in 0..4 {
            for sql in [
                "SELECT sum(broken(id)) FROM facts",
                "SELECT a.g, sum(broken(facts.id)) FROM facts JOIN a ON facts.a = a.id GROUP BY a.g",
                // Computed while it is planned.
                "SELECT folded(13)",
                "EXPLAIN ANALYZE SELECT sum(broken(id)) FROM facts",
            ] {
                let beside = tokio::spawn({
                    let coordinator = coordinator.clone();
                    async move { answer(&coordinator, QUERIES[1]).await }
                });
                let error = answer(&coordinator, sql).await.unwrap_err().to_string();
                assert!(error.contains("thirteen"), "{sql}, round {round}: {error}");
                let beside = within(beside).await.unwrap().unwrap();
                assert_eq!(lines(&beside), ["20000|59998"]);
            }
        }
        until_idle(&coordinator).await;
        until_nothing_is_held(&context).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_without_memory_fail_and_the_others_go_on() {
    let context = session(256 << 10);
    with_tables(&context).await;
    let coordinator = Coordinator::around(&context, options(PolicyName::Learned)).unwrap();
    // The table of a NOT IN does not go to files.
    let greedy = "SELECT count(*) FROM generate_series(1, 300000) x WHERE x.value NOT IN (SELECT y.value FROM generate_series(1, 300000) y)";
    for _ in 0..3 {
        let all: Vec<_> = (0..4)
            .map(|_| {
                let coordinator = coordinator.clone();
                tokio::spawn(async move { answer(&coordinator, greedy).await })
            })
            .collect();
        for each in all {
            let error = within(each).await.unwrap().expect_err("it needs megabytes");
            assert!(error.resources_exhausted, "{error}");
        }
        let small = answer(&coordinator, "SELECT count(*) FROM a").await.unwrap();
        assert_eq!(lines(&small), ["50"]);
    }
    until_idle(&coordinator).await;
    until_nothing_is_held(&context).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_with_a_hint_and_empties_again() {
    let context = session(1 << 30);
    let gate = Arc::new(Gate::default());
    context.register_udf(gate.function());
    let mut options = one_cpu(PolicyName::Sls);
    options.waiting_max = 2;
    let coordinator = Coordinator::around(&context, options).unwrap();
    let mut all = vec![coordinator.submit("SELECT gate(1)").await.unwrap()];
    gate.until_came(1).await;
    for n in 2..=3 {
        let sql = format!("SELECT gate({n})");
        all.push(coordinator.submit(&sql).await.unwrap());
    }
    let error = coordinator.submit("SELECT 4").await.err().expect("no room");
    assert!(error.primary.contains("2 queries wait already"), "{error}");
    assert!(
        error
            .hint
            .as_ref()
            .is_some_and(|hint| hint.contains("waiting_max")),
        "{error}"
    );
    gate.open();
    for mut each in all {
        assert!(within(each.next()).await.unwrap().is_ok());
    }
    answer(&coordinator, "SELECT 4").await.unwrap();
    until_idle(&coordinator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_holds_no_cpu() {
    let context = session(1 << 30);
    for short_below_ns in [0.0, 1e12] {
        let mut options = one_cpu(PolicyName::Fifo);
        options.waiting_max = 1;
        options.bypass_max = 1;
        options.short_below_ns = short_below_ns;
        let coordinator = Coordinator::around(&context, options).unwrap();
        let sql = "SELECT value FROM generate_series(1, 1000000)";
        let mut unread = coordinator.submit(sql).await.unwrap();
        until(&coordinator, "unread", |state| state.unread.len() == 1).await;
        assert!(coordinator.state().running.is_empty());
        // One result that nobody reads is allowed here, and no more.
        let error = coordinator.submit("SELECT 1").await.err().expect("no room");
        assert!(
            error.primary.contains("1 results of queries wait to be read"),
            "{error}"
        );
        let mut rows = 0;
        while let Some(batch) = within(unread.next()).await {
            rows += batch.unwrap().num_rows();
        }
        assert_eq!((rows, unread.report().unwrap().rows), (1_000_000, 1_000_000));
        answer(&coordinator, "SELECT 1").await.unwrap();

        // Its CPU serves others meanwhile.
        let mut options = one_cpu(PolicyName::Fifo);
        options.short_below_ns = short_below_ns;
        let coordinator = Coordinator::around(&context, options).unwrap();
        let never_read = coordinator.submit(sql).await.unwrap();
        for _ in 0..3 {
            answer(&coordinator, "SELECT 1").await.unwrap();
        }
        drop(never_read);
        until_idle(&coordinator).await;
        until_nothing_is_held(&context).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_is_given_up_before_it_returns_is_cancelled() {
    let context = session(1 << 30);
    let coordinator = Coordinator::around(&context, one_cpu(PolicyName::Fifo)).unwrap();
    let sql = format!("CREATE TABLE made AS {ENDLESS}");
    {
        // Carried out before `submit` returns.
        let making = coordinator.submit(&sql);
        tokio::select! {
            _ = making => panic!("it has no end"),
            () = until(&coordinator, "made", |state| state.statements.len() == 1) => {}
        }
    }
    until_idle(&coordinator).await;
    until_nothing_is_held(&context).await;
    assert!(coordinator.query("SELECT * FROM made").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_coordinator_takes_its_queries_along() {
    let context = session(1 << 30);
    with_tables(&context).await;
    for widen in [false, true] {
        let gate = Arc::new(Gate::default());
        context.register_udf(gate.function());
        let mut options = one_cpu(PolicyName::Sls);
        options.widen = widen;
        let coordinator = Coordinator::around(&context, options).unwrap();
        let clone = coordinator.clone();
        let mut running = coordinator.submit(ENDLESS).await.unwrap();
        until(&coordinator, "running", |state| state.running.len() == 1).await;
        let mut waiting = coordinator.submit(QUERIES[3]).await.unwrap();
        let mut ready = coordinator.submit("EXPLAIN SELECT 1").await.unwrap();
        until(&coordinator, "explained", |state| state.statements.is_empty()).await;
        drop(coordinator);
        assert_eq!(clone.state().waiting.len(), 1);
        drop(clone);
        for stream in [&mut running, &mut waiting] {
            let error = within(stream.next()).await.expect("an error").unwrap_err();
            assert!(error.primary.contains("was stopped"), "{error}");
            assert!(stream.next().await.is_none() && stream.report().is_none());
        }
        // What was ready can be read.
        let mut rows = 0;
        while let Some(batch) = within(ready.next()).await {
            rows += batch.unwrap().num_rows();
        }
        assert_eq!(rows, 3, "two plans and the locality");
        until_nothing_is_held(&context).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_after_its_coordinator_is_cut_off_and_not_complete() {
    let context = session(1 << 30);
    for short_below_ns in [0.0, 1e12] {
        let gate = Arc::new(Gate::default());
        context.register_udf(gate.function());
        let mut options = one_cpu(PolicyName::Sls);
        options.short_below_ns = short_below_ns;
        let coordinator = Coordinator::around(&context, options).unwrap();
        // To an aggregate, rows that a dropped task would have made are rows that were never there.
        let mut running = coordinator.submit("SELECT count(gate(1))").await.unwrap();
        gate.until_came(1).await;
        drop(coordinator);
        gate.open();
        let mut last = None;
        while let Some(next) = within(running.next()).await {
            last = Some(next);
        }
        let error = last.expect("an end").expect_err("cut off");
        assert!(error.primary.contains("was stopped"), "{error}");
        assert!(running.report().is_none());
    }
}
