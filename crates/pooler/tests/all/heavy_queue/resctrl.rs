//! A resctrl in memory whose tasks are the machine's real processes: what the proxy does to them can be looked at on a machine that has
//! no such cache.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use corun_model::cache::partition::{DefaultShare, Wishes};
use corun_model::topology::Topology;
use corun_model::units::Ways;
use corun_net::process::{Processes, SystemProcesses};
use corun_resctrl::partition::{PartitionChoice, Partitioner, choose_with};
use corun_resctrl::twin::{PROC, Spec, Twin, TwinLock};
use corun_resctrl::{Client, Files};

/// The groups and what is in them.
#[derive(Clone, Debug)]
pub struct Resctrl {
    simulated: Twin,
    /// When the processes it knows were started.
    known: Arc<Mutex<BTreeMap<u32, u64>>>,
    /// Error number of each write to `tasks`; 0: they are let through.
    refuses: Arc<AtomicI32>,
}

impl Resctrl {
    /// One with corun's groups applied.
    pub fn new() -> Resctrl {
        let resctrl = Resctrl {
            simulated: Twin::new(Spec::xeon()),
            known: Arc::default(),
            refuses: Arc::default(),
        };
        let wishes = Wishes {
            weak_ways: Ways(2),
            default: DefaultShare::Rest,
            level: None,
            domains: None,
            weak_bandwidth_percent: None,
        };
        let client = resctrl.client();
        let plan = client.plan(&wishes).expect("a plan");
        client.apply(&plan).expect("applied");
        resctrl
    }

    fn client(&self) -> Client<Resctrl> {
        Client::new(self.clone(), self.simulated.settings())
    }

    /// What moves processes there.
    pub fn partitioner(&self) -> Arc<dyn Partitioner> {
        let topology = Topology {
            architecture: "x86_64".to_owned(),
            ..Topology::default()
        };
        choose_with(self.client(), std::process::id, &topology, PartitionChoice::Ways).expect("applied")
    }

    /// The group of a process; empty for the root group. `None`: it has ended.
    pub fn group_of(&self, pid: u32) -> Option<String> {
        self.learn(pid);
        self.simulated.group_of(pid)
    }

    /// Processes that are in a group now.
    pub fn in_group(&self, name: &str) -> Vec<u32> {
        let known: Vec<u32> = self.known.lock().expect("known").keys().copied().collect();
        known
            .into_iter()
            .filter(|&pid| self.group_of(pid).as_deref() == Some(name))
            .collect()
    }

    /// Refuses to move anything from now on.
    pub fn refuse(&self, errno: i32) {
        self.refuses.store(errno, Ordering::SeqCst);
    }

    /// It goes away.
    pub fn unmount(&self) {
        self.simulated.unmount();
    }

    /// Knows of a process what the machine does. Whatever started it is in the root group, as a PostgreSQL server is.
    fn learn(&self, pid: u32) {
        let mut known = self.known.lock().expect("known");
        let started = SystemProcesses.status(pid).ok().map(|status| status.started);
        if known.get(&pid).copied() == started {
            return;
        }
        if known.remove(&pid).is_some() {
            self.simulated.exit(pid);
        }
        if let Some(started) = started {
            self.simulated.adopt(pid, 1);
            known.insert(pid, started);
        }
    }

    /// Knows of the process that a path is about.
    fn learn_path(&self, path: &Path) {
        let mut parts = path.strip_prefix(PROC).into_iter().flatten();
        let pid = parts.next().and_then(|part| part.to_str()?.parse().ok());
        if let Some(pid) = pid {
            self.learn(pid);
        }
    }
}

impl Files for Resctrl {
    type Lock = TwinLock;

    fn read(&self, path: &Path) -> io::Result<String> {
        self.learn_path(path);
        self.simulated.read(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let errno = self.refuses.load(Ordering::SeqCst);
        if errno != 0 && path.ends_with("tasks") {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if let Ok(pid) = text.trim().parse() {
            self.learn(pid);
        }
        self.simulated.write(path, text)
    }

    fn check_writable(&self, path: &Path) -> io::Result<()> {
        self.simulated.check_writable(path)
    }

    fn folders(&self, path: &Path) -> io::Result<Vec<String>> {
        self.learn_path(path);
        self.simulated.folders(path)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.simulated.make_folder(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.simulated.remove_folder(path)
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        self.simulated.replace(path, text)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.simulated.remove(path)
    }

    fn try_lock(&self, folder: &Path, exclusive: bool) -> io::Result<Option<TwinLock>> {
        self.simulated.try_lock(folder, exclusive)
    }
}
