//! Where a query of the queue runs, and where its server process is afterwards: cores as the kernel shows them, classes in a resctrl in
//! memory that knows the real processes.

use corun_model::units::CpuId;
use corun_net::process::{Processes, SystemProcesses};

use crate::common::message::code;
use crate::common::postgres::Postgres;
use crate::common::raw::Raw;
use crate::common::target::{Mode, Pooling, Target};
use crate::common::wait::{wait, wait_for};
use crate::heavy_queue::fixture::{HINT, QueueFixture, held};
use crate::heavy_queue::resctrl::Resctrl;

const WEAK: &str = "corun-weak";
const DEFAULT: &str = "corun-default";

/// Error numbers of Linux: ESRCH, EACCES, ENOSPC.
const NO_PROCESS: i32 = 3;
const NO_ACCESS: i32 = 13;
const NO_SPACE: i32 = 28;

/// A fixture whose cache is divided, and a client that keeps the first server to itself.
struct Divided {
    fixture: QueueFixture,
    resctrl: Resctrl,
    _keeper: Raw,
}

impl Divided {
    fn start(own: Option<Postgres>, corun: &str) -> Divided {
        let resctrl = Resctrl::new();
        let fixture = QueueFixture::with(own, corun, |pooling| pooling.partitioner(resctrl.partitioner()));
        let mut keeper = fixture.client();
        keeper.rows("begin");
        Divided {
            fixture,
            resctrl,
            _keeper: keeper,
        }
    }

    /// A client that runs a weak query for as long as the gate is closed, and its server process, with its home.
    fn weak(&self) -> (Raw, Raw, Process) {
        let mut client = self.fixture.client();
        self.fixture.known(&mut client, &[held(1)]);
        let mut pid = client.number("select pg_backend_pid()");
        // Its home shall be another core than the queue's, where there is one: other servers are kept busy.
        let mut keepers = Vec::new();
        while SystemProcesses.cpus(pid).expect("it is there") == self.queue_cpus()
            && corun_topology::affinity::allowed_cpus().expect("cores").len() > 1
        {
            let mut keeper = self.fixture.client();
            keeper.rows("begin");
            keepers.push(keeper);
            assert!(keepers.len() < 4, "every server is on the core of the queue");
            pid = client.number("select pg_backend_pid()");
        }
        let gate = self.fixture.lock();
        let process = Process {
            pid,
            home: SystemProcesses.cpus(pid).expect("it is there"),
        };
        assert_eq!(process.home.len(), 1, "it is bound");
        client.send_query(&held(1));
        self.fixture.wait_for_queue(0, 1);
        self.is_at(pid, &self.queue_cpus(), WEAK);
        self.fixture.wait_for_lock();
        let row = &self.fixture.queue()[0];
        assert_eq!((&*row["class"], &*row["cache"]), ("weak", WEAK));
        assert_eq!(row["cpu"], self.queue_cpus()[0].0.to_string());
        (gate, client, process)
    }

    /// The core of the queue, which has one.
    fn queue_cpus(&self) -> Vec<CpuId> {
        let allowed = corun_topology::affinity::allowed_cpus().expect("the kernel says");
        vec![allowed[0]]
    }

    fn is_at(&self, pid: u32, cpus: &[CpuId], group: &str) {
        wait_for((Some(cpus.to_vec()), Some(group.to_owned())), || {
            (SystemProcesses.cpus(pid).ok(), self.resctrl.group_of(pid))
        });
    }

    fn is_home(&self, process: &Process) {
        self.is_at(process.pid, &process.home, DEFAULT);
        assert!(self.resctrl.in_group(WEAK).is_empty());
    }

    fn has_ended(&self, pid: u32) {
        wait_for(None, || self.resctrl.group_of(pid));
        assert!(self.resctrl.in_group(WEAK).is_empty());
    }
}

struct Process {
    pid: u32,
    home: Vec<CpuId>,
}

#[test]
fn a_weak_query_is_kept_to_its_part_and_core_while_it_runs() {
    let divided = Divided::start(None, "");
    for _ in 0..2 {
        let (gate, mut client, process) = divided.weak();
        divided.fixture.open(gate, &mut client);
        divided.is_home(&process);
        // What is not of the queue stays there.
        assert_eq!(client.value("select 7"), "7");
        divided.is_home(&process);
    }
}

#[test]
fn a_query_that_reuses_its_tables_has_the_rest() {
    let divided = Divided::start(None, "heavy_queue_cache_bytes = \"64MB\"");
    let mut client = divided.fixture.client();
    let join = format!("{HINT}select count(*) from dim a, dim b, gate where a.d_name = b.d_name and g > 0");
    divided.fixture.known(&mut client, std::slice::from_ref(&join));
    let pid = client.number("select pg_backend_pid()");
    let home = SystemProcesses.cpus(pid).expect("it is there");
    let gate = divided.fixture.lock();
    client.send_query(&join);
    divided.fixture.wait_for_queue(0, 1);
    divided.is_at(pid, &divided.queue_cpus(), DEFAULT);
    let row = &divided.fixture.queue()[0];
    assert_eq!((&*row["class"], &*row["cache"]), ("strong", DEFAULT));
    divided.fixture.open(gate, &mut client);
    divided.is_home(&Process { pid, home });
}

#[test]
fn one_that_fails_is_moved_back() {
    let divided = Divided::start(None, "");
    let (mut gate, mut client, process) = divided.weak();
    gate.rows("rollback");
    assert_eq!(code(&client.until_ready()), "");
    let fails = format!("{HINT}select count(*) from gate, dim where d_id > 1 / (g - 1)");
    for _ in 0..3 {
        client.send_query(&fails);
        assert_eq!(code(&client.until_ready()), "22012");
        divided.is_home(&process);
    }
    divided.fixture.wait_for_queue(0, 0);
}

#[test]
fn one_that_is_cancelled_is_moved_back() {
    let divided = Divided::start(None, "");
    let (gate, mut client, process) = divided.weak();
    divided.fixture.cancel(&client);
    assert_eq!(code(&client.until_ready()), "57014");
    divided.is_home(&process);
    drop(gate);
}

#[test]
fn the_process_of_a_client_that_left_ends_or_is_moved_back() {
    let divided = Divided::start(None, "");
    let (gate, client, process) = divided.weak();
    drop(client);
    divided.fixture.wait_for_queue(0, 0);
    drop(gate);
    divided.has_ended(process.pid);
}

#[test]
fn a_process_that_is_terminated_leaves_nothing_behind() {
    let divided = Divided::start(Some(Postgres::start()), "");
    let (gate, mut client, process) = divided.weak();
    divided
        .fixture
        .sql(&format!("select pg_terminate_backend({})", process.pid));
    assert_eq!(code(&client.until_closed()), "57P01");
    divided.has_ended(process.pid);
    drop(gate);
    // The next one begins where everybody does.
    let (gate, mut client, process) = divided.weak();
    divided.fixture.open(gate, &mut client);
    divided.is_home(&process);
}

#[test]
fn a_configuration_without_the_queue_moves_it_back_at_its_end() {
    let divided = Divided::start(None, "heavy_queue_policy = \"mls\"");
    let (gate, mut client, process) = divided.weak();
    let target = &divided.fixture.target;
    target.reload_with(&[("heavy_queue_policy = \"mls\"", "heavy_queue_policy = \"fifo\"")]);
    assert_eq!(
        divided.fixture.queue()[0]["policy"],
        "mls",
        "the next start changes that"
    );
    target.reload_with(&[("heavy_queue = \"on\"", "heavy_queue = \"off\"")]);
    divided.is_at(process.pid, &divided.queue_cpus(), WEAK);
    divided.fixture.open(gate, &mut client);
    divided.is_home(&process);
    client.rows(&held(1));
    divided.is_home(&process);
}

/// Lines of the log with this text.
fn logged(divided: &Divided, text: &str) -> usize {
    let log = divided.fixture.target.log();
    log.lines()
        .filter(|line| line.starts_with("WARN") && line.contains(text))
        .count()
}

#[test]
fn what_the_kernel_refuses_is_said_once_and_queries_run_on() {
    for (errno, text) in [
        (NO_SPACE, "No space left on device"),
        (NO_ACCESS, "Permission denied"),
    ] {
        let divided = Divided::start(None, "");
        divided.resctrl.refuse(errno);
        let before = logged(&divided, text);
        let mut client = divided.fixture.client();
        divided.fixture.known(&mut client, &[held(1)]);
        let expected = divided.fixture.direct().rows(&held(1));
        for _ in 0..3 {
            assert_eq!(client.rows(&held(1)), expected);
        }
        assert_eq!(logged(&divided, text), before + 1, "{text}");
        let gate = divided.fixture.lock();
        client.send_query(&held(1));
        divided.fixture.wait_for_queue(0, 1);
        let row = divided.fixture.queue().remove(0);
        assert_eq!((&*row["class"], &*row["cache"]), ("weak", ""));
        assert!(!row["cpu"].is_empty(), "its core has nothing to do with it");
        divided.fixture.open(gate, &mut client);
        assert!(divided.resctrl.in_group(WEAK).is_empty());
    }
}

#[test]
fn a_task_that_ends_meanwhile_is_no_matter() {
    let divided = Divided::start(None, "");
    divided.resctrl.refuse(NO_PROCESS);
    let mut client = divided.fixture.client();
    divided.fixture.known(&mut client, &[held(1)]);
    let expected = divided.fixture.direct().rows(&held(1));
    assert_eq!(client.rows(&held(1)), expected);
    assert_eq!(logged(&divided, "No such process"), 0);
}

#[test]
fn what_could_not_be_moved_back_is_moved_later() {
    let divided = Divided::start(None, "");
    let (gate, mut client, process) = divided.weak();
    divided.resctrl.refuse(NO_ACCESS);
    divided.fixture.open(gate, &mut client);
    divided.is_at(process.pid, &process.home, WEAK);
    divided.resctrl.refuse(0);
    divided.is_home(&process);
}

#[test]
fn a_partition_that_goes_away_takes_its_classes_along() {
    let divided = Divided::start(None, "");
    let (gate, mut client, process) = divided.weak();
    divided.resctrl.unmount();
    divided.fixture.open(gate, &mut client);
    // Where the kernel puts it.
    divided.is_at(process.pid, &process.home, "");
    let expected = divided.fixture.direct().rows(&held(1));
    for _ in 0..3 {
        assert_eq!(client.rows(&held(1)), expected);
    }
    let gate = divided.fixture.lock();
    client.send_query(&held(1));
    divided.fixture.wait_for_queue(0, 1);
    assert_eq!(divided.fixture.queue()[0]["cache"], "");
    divided.fixture.open(gate, &mut client);
}

#[test]
fn who_is_not_certainly_the_backend_is_never_moved() {
    // Behind another pooler the number that a connection tells is nobody's, or somebody else's.
    let inner = QueueFixture::with(None, "", |pooling| pooling.ours("heavy_queue = \"off\""));
    let resctrl = Resctrl::new();
    let pooling = Pooling::new(Mode::Transaction, 4)
        .corun("heavy_queue = \"on\"\nheavy_queue_cores = 1")
        .partitioner(resctrl.partitioner());
    let outer = Target::start_before(&inner.target, &pooling);
    let login = outer.login("app").database(&inner.database);
    let mut client = outer.client_as(&login);
    let expected = inner.direct().rows(&held(1));
    for _ in 0..3 {
        assert_eq!(client.rows(&held(1)), expected);
    }
    let gate = inner.lock();
    client.send_query(&held(1));
    let mut console = outer.client_as(&outer.login("postgres").database("pgbouncer"));
    let row = wait(|| console.table("show queue").pop().ok_or("it does not run"));
    assert_eq!(
        (&*row["state"], &*row["cpu"], &*row["cache"]),
        ("running", "", "")
    );
    inner.open(gate, &mut client);
    for group in [WEAK, DEFAULT] {
        assert!(resctrl.in_group(group).is_empty());
    }
}
