//! Parallel workers of a query of the queue: on the cores lent to it, in the class of its leader, and nowhere once it has ended.

use corun_model::units::CpuId;
use corun_net::process::{Processes, SystemProcesses};

use crate::common::message::{code, shown};
use crate::common::postgres::{Options, Postgres};
use crate::common::raw::{Raw, Row};
use crate::common::wait::{wait, wait_for};
use crate::heavy_queue::fixture::{HINT, QueueFixture};
use crate::heavy_queue::resctrl::Resctrl;
use crate::skipped::skipped;

/// Long enough to be looked at, and ended by a cancel request.
fn long(number: u32) -> String {
    format!("{HINT}select count(*) from fact a, fact b where a.f_id > b.f_id + {number}")
}

/// A server that plans everything with so many workers.
fn parallel_server(workers: usize) -> Postgres {
    Postgres::start_with(Options {
        settings: vec![
            "min_parallel_table_scan_size = 0".to_owned(),
            "parallel_setup_cost = 0".to_owned(),
            "parallel_tuple_cost = 0".to_owned(),
            format!("max_parallel_workers_per_gather = {workers}"),
            "max_worker_processes = 16".to_owned(),
            "max_parallel_workers = 16".to_owned(),
        ],
        ..Options::default()
    })
}

struct Shop {
    fixture: QueueFixture,
    resctrl: Resctrl,
}

impl Shop {
    fn start(cores: usize, workers: usize) -> Shop {
        let resctrl = Resctrl::new();
        // The plans are to stay as they are.
        let fixture = QueueFixture::with_cores(
            cores,
            Some(parallel_server(workers)),
            "heavy_queue_plans = false",
            |pooling| pooling.partitioner(resctrl.partitioner()),
        );
        Shop { fixture, resctrl }
    }

    /// A client that runs a query, and its server process.
    fn run(&self, number: u32) -> (Raw, u32) {
        let mut client = self.fixture.client();
        let before = self.running().len();
        client.send_query(&long(number));
        let text = format!(
            "select pid from pg_stat_activity where state = 'active' and leader_pid is null and query like '/* corun%b.f_id + {number}'"
        );
        let pid = wait(|| {
            let rows = self.fixture.sql(&text);
            let found = rows.first().and_then(|row| row[0].as_deref()?.parse().ok());
            found.ok_or("it does not run")
        });
        assert_eq!(self.running().len(), before + 1);
        (client, pid)
    }

    fn running(&self) -> Vec<Row> {
        let mut rows = self.fixture.queue();
        rows.retain(|row| row["state"] == "running");
        rows
    }

    /// The workers of a query, as PostgreSQL says.
    fn workers(&self, leader: u32) -> Vec<u32> {
        let text = format!(
            "select pid from pg_stat_activity where leader_pid = {leader} and pid <> {leader} order by pid"
        );
        let rows = self.fixture.sql(&text);
        let pid = |row: &Vec<Option<String>>| row[0].as_deref()?.parse().ok();
        rows.iter().map(|row| pid(row).expect("a number")).collect()
    }

    /// Waits until a leader is on this core and its workers are on those, all in one class.
    fn are_at(&self, leader: u32, count: usize, core: CpuId, lent: &[CpuId]) {
        wait(|| {
            let workers = self.workers(leader);
            let cpus = |pid: u32| SystemProcesses.cpus(pid).unwrap_or_default();
            let group = self.resctrl.group_of(leader);
            let right = cpus(leader) == [core]
                && workers.len() == count
                && group.as_deref().is_some_and(|group| !group.is_empty())
                && workers
                    .iter()
                    .all(|&pid| cpus(pid) == lent && self.resctrl.group_of(pid) == group);
            if right {
                return Ok(());
            }
            let found: Vec<_> = workers
                .iter()
                .map(|&pid| (pid, cpus(pid), self.resctrl.group_of(pid)))
                .collect();
            Err(format!(
                "leader {leader} on {:?} in {group:?}, workers {found:?}, wanted {count} on {lent:?}",
                cpus(leader)
            ))
        });
    }

    fn stop(&self, client: &mut Raw) {
        self.fixture.cancel(client);
        assert_eq!(code(&client.until_ready()), "57014");
    }
}

fn cores() -> Vec<CpuId> {
    corun_topology::affinity::allowed_cpus().expect("the kernel says")
}

#[test]
fn workers_share_the_only_core_of_the_queue() {
    let shop = Shop::start(1, 2);
    let (mut client, leader) = shop.run(1);
    let core = cores()[0];
    shop.are_at(leader, 2, core, &[core]);
    wait_for(("2".to_owned(), core.0.to_string()), || {
        let row = shop.fixture.queue().remove(0);
        (row["workers"].clone(), row["cpu"].clone())
    });
    shop.stop(&mut client);
    shop.fixture.wait_for_queue(0, 0);
    assert!(shop.resctrl.in_group("corun-weak").is_empty());
    assert!(shop.workers(leader).is_empty());
}

#[test]
fn a_core_that_nobody_has_is_lent_until_somebody_starts_there() {
    let [first, second, ..] = cores()[..] else {
        skipped("a machine with one core has none to lend");
        return;
    };
    let shop = Shop::start(2, 1);
    let (mut client, leader) = shop.run(1);
    shop.are_at(leader, 1, first, &[second]);
    // The next one has no reason to wait: it has its own core, and both have their workers on it.
    let (mut other, other_leader) = shop.run(2);
    shop.are_at(leader, 1, first, &[first]);
    shop.are_at(other_leader, 1, second, &[second]);
    shop.stop(&mut other);
    shop.are_at(leader, 1, first, &[second]);
    shop.stop(&mut client);
    shop.fixture.wait_for_queue(0, 0);
    assert!(shop.resctrl.in_group("corun-weak").is_empty());
}

#[test]
fn workers_that_come_later_are_others_and_follow_as_well() {
    let shop = Shop::start(1, 1);
    // Each of many gathers rows by itself, one after the other.
    let part = "(select count(*) from fact a, fact b where a.f_id > b.f_id and a.f_id <= 6000)";
    let parts: Vec<String> = (0..50).map(|n| format!("{part} + {n}")).collect();
    let mut client = shop.fixture.client();
    client.send_query(&format!("{HINT}select {}", parts.join(", ")));
    let core = cores()[0];
    let mut seen = std::collections::BTreeSet::new();
    wait(|| {
        let leaders = shop
            .fixture
            .sql("select distinct leader_pid from pg_stat_activity where leader_pid <> pid");
        let Some(leader) = leaders.first().and_then(|row| row[0].as_deref()?.parse().ok()) else {
            return Err("there are no workers".to_owned());
        };
        let group = shop.resctrl.group_of(leader);
        for pid in shop.workers(leader) {
            let cpus = SystemProcesses.cpus(pid).unwrap_or_default();
            if cpus == [core] && shop.resctrl.group_of(pid) == group {
                seen.insert(pid);
            }
        }
        (seen.len() >= 2)
            .then_some(())
            .ok_or_else(|| format!("workers that were at {core} in {group:?}: {seen:?}"))
    });
    shop.stop(&mut client);
    shop.fixture.wait_for_queue(0, 0);
}

#[test]
fn answers_are_the_same_wherever_workers_run() {
    let shop = Shop::start(2, 2);
    let text =
        format!("{HINT}select count(*), sum(a.f_id) from fact a, dim where a.f_d = d_id and a.f_id > $1");
    let mut direct = shop.fixture.direct();
    let sql = |limit: u32| text.replace("$1", &limit.to_string());
    let mut clients = [(); 3].map(|()| shop.fixture.client());
    for round in 0..10 {
        for client in &mut clients {
            client.send_query(&sql(round));
        }
        let expected = direct.lines(&sql(round));
        for client in &mut clients {
            assert_eq!(shown(&client.until_ready()), expected, "{round}");
        }
    }
    shop.fixture.wait_for_queue(0, 0);
    assert!(shop.resctrl.in_group("corun-weak").is_empty());
}
