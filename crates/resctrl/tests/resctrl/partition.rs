//! Which partitioner is chosen on which machine, and what it does to threads: on the kernel's twin.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use corun_model::cache::partition::{Class, DefaultShare, Wishes};
use corun_model::topology::Topology;
use corun_model::units::Ways;
use corun_resctrl::partition::{Kind, PartitionChoice, PartitionError, Partitioner, choose_with};
use corun_resctrl::twin::{Spec, Twin, TwinLock};
use corun_resctrl::{Client, Files, ResctrlError};

thread_local! {
    /// The twin's task that plays the calling thread.
    static TASK: Cell<u32> = const { Cell::new(0) };
}

fn task() -> u32 {
    TASK.get()
}

/// This thread is a task of the twin from now on.
fn become_task(twin: &Twin) -> u32 {
    let task = twin.fork(1);
    TASK.set(task);
    task
}

fn client(twin: &Twin) -> Client<Twin> {
    Client::new(twin.clone(), twin.settings())
}

fn apply(twin: &Twin, ways: u32) {
    let wishes = Wishes {
        weak_ways: Ways(ways),
        default: DefaultShare::Rest,
        level: None,
        domains: None,
        weak_bandwidth_percent: None,
    };
    let client = client(twin);
    client
        .apply(&client.plan(&wishes).expect("a plan"))
        .expect("applied");
}

fn machine_of(architecture: &str) -> Topology {
    Topology {
        architecture: architecture.to_owned(),
        ..Topology::default()
    }
}

fn choose(twin: &Twin, wish: PartitionChoice) -> Result<Arc<dyn Partitioner>, PartitionError> {
    choose_with(client(twin), task, &machine_of("x86_64"), wish)
}

#[test]
fn the_best_that_works_is_chosen_and_says_why() {
    let twin = Twin::new(Spec::xeon());
    become_task(&twin);
    let auto = choose(&twin, PartitionChoice::Auto).expect("a fallback");
    assert_eq!((auto.kind(), auto.protects()), (Kind::Streaming, false));
    assert_eq!(
        auto.describe(),
        "non-temporal streaming and co-scheduling \
         (the cache is not partitioned: there is no complete group /sys/fs/resctrl/corun-weak)"
    );
    let error = choose(&twin, PartitionChoice::Ways).expect_err("not applied");
    assert!(matches!(
        error,
        PartitionError::Resctrl(ResctrlError::NotApplied { .. })
    ));

    apply(&twin, 2);
    let before = twin.effects();
    for wish in [PartitionChoice::Auto, PartitionChoice::Ways] {
        let ways = choose(&twin, wish).expect("applied");
        assert_eq!((ways.kind(), ways.protects()), (Kind::Ways, true));
        assert_eq!(
            ways.describe(),
            "ways of the cache (resctrl is partitioned; weak queries fill L3:0=3;1=3 MB:0=100;1=100)"
        );
    }
    let streaming = choose(&twin, PartitionChoice::Streaming).expect("always possible here");
    assert_eq!(
        streaming.describe(),
        "non-temporal streaming and co-scheduling (it was asked for)"
    );
    let none = choose(&twin, PartitionChoice::None).expect("always possible");
    assert_eq!((none.kind(), none.protects()), (Kind::None, false));
    assert_eq!(none.describe(), "co-scheduling only (none was asked for)");
    assert_eq!(twin.effects(), before, "choosing changes nothing");
}

#[test]
fn without_prefetches_for_single_use_there_is_co_scheduling_only() {
    let twin = Twin::new(Spec::xeon());
    become_task(&twin);
    let on_arm = |wish| choose_with(client(&twin), task, &machine_of("aarch64"), wish);
    assert_eq!(
        on_arm(PartitionChoice::Auto).expect("a fallback").kind(),
        Kind::None
    );
    let error = on_arm(PartitionChoice::Streaming).expect_err("not here");
    assert_eq!(
        (error.to_string(), error.detail(), error.hint()),
        (
            "non-temporal streaming is unavailable on this processor".to_owned(),
            Some("corun streams on x86_64, and this is `aarch64`".to_owned()),
            Some("choose `auto`".to_owned())
        )
    );
    apply(&twin, 2);
    assert_eq!(on_arm(PartitionChoice::Auto).expect("applied").kind(), Kind::Ways);
}

#[test]
fn threads_change_class_and_are_written_once() {
    let twin = Twin::new(Spec::xeon());
    let first = become_task(&twin);
    apply(&twin, 2);
    let partitioner = choose(&twin, PartitionChoice::Ways).expect("applied");
    let assign = |class| partitioner.assign_current_thread(class).expect("moved");
    let before = twin.effects();
    assign(Class::Weak);
    assert_eq!(twin.group_of(first).as_deref(), Some("corun-weak"));
    let calls = twin.calls();
    (0..100).for_each(|_| assign(Class::Weak));
    assert_eq!(twin.effects(), before + 1, "nothing was written again");
    assert!(twin.calls() < calls + 100, "and hardly anything asked");

    // Another thread is another task, and remembers for itself.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let second = become_task(&twin);
            assign(Class::Weak);
            assert_eq!(twin.group_of(second).as_deref(), Some("corun-weak"));
            assign(Class::Default);
            assert_eq!(twin.group_of(second).as_deref(), Some("corun-default"));
        });
    });
    assert_eq!(twin.group_of(first).as_deref(), Some("corun-weak"));

    // What one partitioner put somewhere is no news to another.
    let other = choose(&twin, PartitionChoice::Ways).expect("applied");
    let effects = twin.effects();
    other.assign_current_thread(Class::Weak).expect("there already");
    assert_eq!(twin.effects(), effects);
    // A task that ended while it was asked for is no error.
    TASK.set(9_999);
    assign(Class::Default);
}

#[test]
fn a_partition_that_is_cleared_protects_nobody_until_it_is_back() {
    let twin = Twin::new(Spec::xeon());
    let thread = become_task(&twin);
    apply(&twin, 2);
    let partitioner = choose(&twin, PartitionChoice::Auto).expect("applied");
    partitioner.assign_current_thread(Class::Weak).expect("moved");
    client(&twin).clear().expect("cleared");
    let error = partitioner
        .assign_current_thread(Class::Default)
        .expect_err("gone");
    assert!(matches!(
        error,
        PartitionError::Resctrl(ResctrlError::NotApplied { .. })
    ));
    assert!(!partitioner.protects());
    assert!(
        partitioner.describe().contains("`corun partition status`"),
        "{}",
        partitioner.describe()
    );
    // A thread whose move failed is believed to be nowhere.
    assert!(partitioner.assign_current_thread(Class::Weak).is_err());
    apply(&twin, 3);
    partitioner.assign_current_thread(Class::Weak).expect("moved");
    assert!(partitioner.protects());
    assert_eq!(twin.group_of(thread).as_deref(), Some("corun-weak"));
}

#[test]
fn a_lock_is_not_waited_for_and_nothing_is_lost() {
    let twin = Twin::new(Spec::xeon());
    become_task(&twin);
    apply(&twin, 2);
    let partitioner = choose(&twin, PartitionChoice::Auto).expect("applied");
    let lock = twin.try_lock(&twin.settings().root, true).expect("a folder");
    let error = partitioner
        .assign_current_thread(Class::Weak)
        .expect_err("locked");
    assert!(matches!(
        error,
        PartitionError::Resctrl(ResctrlError::Locked { .. })
    ));
    assert!(partitioner.protects());
    drop(lock);
    partitioner
        .assign_current_thread(Class::Weak)
        .expect("free again");
}

#[test]
fn threads_of_another_tool_stay_there() {
    let twin = Twin::new(Spec::xeon());
    let contained = become_task(&twin);
    apply(&twin, 2);
    let partitioner = choose(&twin, PartitionChoice::Auto).expect("applied");
    twin.mkdir("runc-1").expect("a group");
    twin.shell("runc-1/tasks", &format!("{contained}\n"))
        .expect("moved");
    let error = partitioner
        .assign_current_thread(Class::Weak)
        .expect_err("foreign");
    assert_eq!(
        error.to_string(),
        format!("task {contained} is in another tool's group, runc-1")
    );
    assert!(error.detail().is_some() && error.hint().is_some() && !partitioner.protects());
    assert_eq!(twin.group_of(contained).as_deref(), Some("runc-1"));
    // From there, ways are not chosen at all.
    let auto = choose(&twin, PartitionChoice::Auto).expect("a fallback");
    assert_eq!(auto.kind(), Kind::Streaming);
    assert!(
        auto.describe().contains("another tool's group, runc-1"),
        "{}",
        auto.describe()
    );
}

/// The twin as a user sees it who may look but not write.
#[derive(Clone, Debug)]
struct Unprivileged(Twin);

fn denied<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::EACCES))
}

impl Files for Unprivileged {
    type Lock = TwinLock;

    fn read(&self, path: &Path) -> io::Result<String> {
        self.0.read(path)
    }

    fn write(&self, _: &Path, _: &str) -> io::Result<()> {
        denied()
    }

    fn check_writable(&self, _: &Path) -> io::Result<()> {
        denied()
    }

    fn folders(&self, path: &Path) -> io::Result<Vec<String>> {
        self.0.folders(path)
    }

    fn make_folder(&self, _: &Path) -> io::Result<()> {
        denied()
    }

    fn remove_folder(&self, _: &Path) -> io::Result<()> {
        denied()
    }

    fn replace(&self, _: &Path, _: &str) -> io::Result<()> {
        denied()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        denied()
    }

    fn try_lock(&self, folder: &Path, exclusive: bool) -> io::Result<Option<TwinLock>> {
        self.0.try_lock(folder, exclusive)
    }
}

#[test]
fn without_the_right_to_move_tasks_ways_are_not_chosen() {
    let twin = Twin::new(Spec::xeon());
    become_task(&twin);
    apply(&twin, 2);
    let unprivileged = Client::new(Unprivileged(twin.clone()), twin.settings());
    let choose = |wish| choose_with(unprivileged.clone(), task, &machine_of("x86_64"), wish);
    let auto = choose(PartitionChoice::Auto).expect("a fallback");
    assert_eq!(auto.kind(), Kind::Streaming);
    assert!(
        auto.describe()
            .contains("cannot write /sys/fs/resctrl/corun-weak/tasks: permission denied"),
        "{}",
        auto.describe()
    );
    let error = choose(PartitionChoice::Ways).expect_err("denied");
    assert_eq!(error.hint().as_deref(), Some("run as root"));
}

#[test]
fn another_process_is_moved_with_its_threads_and_may_have_ended() {
    let twin = Twin::new(Spec::xeon());
    let own = become_task(&twin);
    apply(&twin, 2);
    let ways = choose(&twin, PartitionChoice::Ways).expect("applied");
    let backend = twin.fork(1);
    let thread = twin.thread(backend);
    for (class, group) in [(Class::Weak, "corun-weak"), (Class::Default, "corun-default")] {
        ways.assign_process(backend, class).expect("moved");
        for task in [backend, thread] {
            assert_eq!(twin.group_of(task).as_deref(), Some(group));
        }
    }
    assert_ne!(
        twin.group_of(own).as_deref(),
        Some("corun-weak"),
        "who moves it stays"
    );
    twin.exit(thread);
    twin.exit(backend);
    ways.assign_process(backend, Class::Weak).expect("it has ended");
    let none = choose(&twin, PartitionChoice::None).expect("always possible");
    none.assign_process(own, Class::Weak).expect("nothing to do");
    assert_ne!(twin.group_of(own).as_deref(), Some("corun-weak"));
}
