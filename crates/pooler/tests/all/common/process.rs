//! [`PoolerProcess`]: a pooler in a process of its own, as it runs for users. The process is this test program, told by its environment
//! to be one.

use std::path::{Path, PathBuf};
use std::process::Command;

use corun_pooler::Pooler;

use super::child::Running;
use super::configuration::files;
use super::wait::{wait, wait_until};

/// Names the configuration file of a process that is to be a pooler.
const CONFIGURATION: &str = "CORUN_TEST_POOLER";
/// What the process says when it listens.
const LISTENS: &str = "the pooler listens";

/// A pooler that runs; it is killed when dropped.
pub struct PoolerProcess {
    running: Running,
    log: PathBuf,
}

impl PoolerProcess {
    /// Starts it with a configuration, files of which lie in this folder under this name. `test` calls [`serve_if_told`].
    pub fn start(test: &str, folder: &Path, name: &str, text: &str) -> PoolerProcess {
        let file = folder.join(format!("{name}.toml"));
        std::fs::write(&file, text).expect("a configuration");
        let log = folder.join(format!("{name}.log"));
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(std::env::current_exe().expect("a test knows where it is"))
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(CONFIGURATION, file);
        let mut process = PoolerProcess {
            running: Running::start(command, &log, "KILL"),
            log,
        };
        wait(|| match process.log().contains(LISTENS) {
            true => Ok(()),
            false if process.has_ended() => panic!("the pooler does not start: {}", process.log()),
            false => Err(process.log()),
        });
        process
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.running.has_ended()
    }

    /// Waits until it has ended by itself.
    pub fn wait_until_ended(&mut self) {
        wait_until("the process does not end", || self.has_ended());
        let log = self.log();
        assert!(log.contains("test result: ok"), "{log}");
    }
}

/// Is a pooler where the environment says so, until it has ended; otherwise does nothing.
pub fn serve_if_told() {
    let Some(file) = std::env::var_os(CONFIGURATION) else {
        return;
    };
    let text = std::fs::read_to_string(file).expect("a configuration");
    let pooler = Pooler::start(files(&text)).unwrap_or_else(|error| panic!("{error}\n{text}"));
    eprintln!("{LISTENS}");
    while !pooler.has_ended() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    pooler.join();
}
