//! A coordinator's threads end with it. Alone in its program: no other test's threads are about.

use corun_datafusion::{Coordinator, CoordinatorOptions, Engine, EngineOptions};
use corun_model::cache::coschedule::{LlcDomain, PolicyName, Priority};
use corun_model::cache::locality::Thresholds;
use corun_model::units::Bytes;
use futures::StreamExt;
use std::time::{Duration, Instant};

/// Names of the threads of this process that are a coordinator's.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let names = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("corun-")).collect()
}

/// The same with their nice values.
fn niceness() -> Vec<(String, i32)> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let of = tasks.flatten().filter_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let nice = stat
            .rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(16)?
            .parse()
            .ok()?;
        Some((name, nice))
    });
    of.filter(|(name, _)| name.starts_with("corun-")).collect()
}

#[test]
fn threads_end_with_the_last_coordinator() {
    let cpus = corun_topology::affinity::allowed_cpus().expect("the kernel tells");
    let options = CoordinatorOptions {
        policy: PolicyName::Auto,
        priority: Priority::Balanced,
        domains: vec![LlcDomain {
            cache: Bytes::mib(4),
            cpus: cpus.clone(),
        }],
        thresholds: Thresholds::default(),
        plan_choice: true,
        widen: true,
        overtakes_max: 8,
        waiting_max: 16,
        short_below_ns: 0.0,
        bypass_max: 4,
        partitioner: None,
    };
    let engine = Engine::new(&EngineOptions::default()).expect("sound");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let bounded = |until: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !until() && since.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(2));
        }
        until()
    };
    assert_eq!(threads(), [""; 0]);
    for _ in 0..3 {
        let coordinator = Coordinator::new(&engine, options.clone()).expect("sound");
        // Names are cut to 15 bytes, and a thread bears its own a little after it was started.
        assert!(bounded(&|| threads().len() > cpus.len()));
        // Those that run queries give way to the rest of the process.
        let own = corun_topology::nice::current().expect("the kernel tells");
        let raised = (own + Priority::Balanced.nice()).min(19);
        let of_queries = |name: &str| !name.starts_with("corun-io");
        assert!(
            bounded(&|| {
                let all = niceness();
                all.iter()
                    .all(|(name, nice)| *nice == if of_queries(name) { raised } else { own })
            }),
            "{:?}",
            niceness()
        );
        let mut streams = runtime.block_on(async {
            let mut streams = Vec::new();
            for _ in 0..4 {
                let endless =
                    "SELECT value % 9, count(*) FROM generate_series(1, 1000000000000) GROUP BY value % 9";
                streams.push(coordinator.submit(endless).await.expect("room"));
            }
            let (output, _) = coordinator.query("SHOW TABLES").await.expect("a statement");
            assert!(output.num_rows() > 0);
            streams
        });
        // Dropped where tasks run, too.
        runtime.block_on(async move { drop(coordinator) });
        assert!(bounded(&|| threads().is_empty()), "{:?}", threads());
        for stream in &mut streams {
            assert!(runtime.block_on(stream.next()).expect("an error").is_err());
        }
    }
}
