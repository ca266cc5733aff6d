//! [`TestPooler`]: a pooler in the test program, from the text of its configuration file. It is stopped when dropped.

use std::sync::Arc;

use corun_pooler::Pooler;
use corun_resctrl::partition::Partitioner;

use super::configuration::files;
use super::raw::{Login, Raw};
use super::wait::wait;

/// A pooler that runs.
pub struct TestPooler {
    pooler: Option<Pooler>,
    /// Where it listens on loopback.
    pub port: u16,
    /// Its configuration file.
    pub text: String,
}

impl TestPooler {
    /// Starts it with a configuration that listens at `port`.
    pub fn start(port: u16, text: impl Into<String>) -> TestPooler {
        TestPooler::start_partitioned(port, text, None)
    }

    /// The same with what keeps weak queries out of the cache, in place of the machine's.
    pub fn start_partitioned(
        port: u16,
        text: impl Into<String>,
        partitioner: Option<Arc<dyn Partitioner>>,
    ) -> TestPooler {
        super::log::keep();
        let text = text.into();
        let started = match partitioner {
            Some(partitioner) => Pooler::start_partitioned(files(&text), partitioner),
            None => Pooler::start(files(&text)),
        };
        TestPooler {
            pooler: Some(started.unwrap_or_else(|error| panic!("{error}\n{text}"))),
            port,
            text,
        }
    }

    /// How a user logs in to database `app`.
    pub fn login(&self, user: &str) -> Login {
        Login::new("127.0.0.1", self.port, user)
    }

    /// A client with this login.
    pub fn client_as(&self, login: &Login) -> Raw {
        Raw::connect(login).unwrap_or_else(|error| panic!("login as {}: {error}", login.user))
    }

    /// The console, for its administrator.
    pub fn console(&self) -> Raw {
        self.client_as(&self.login("postgres").database("pgbouncer"))
    }

    /// Takes over another configuration.
    pub fn reload(&self, text: &str) {
        self.running().reload(files(text));
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.running().has_ended()
    }

    fn running(&self) -> &Pooler {
        self.pooler.as_ref().expect("it runs until it is dropped")
    }
}

impl Drop for TestPooler {
    fn drop(&mut self) {
        let Some(pooler) = self.pooler.take() else { return };
        pooler.stop(true);
        if std::thread::panicking() {
            return;
        }
        wait(|| match pooler.has_ended() {
            true => Ok(()),
            false => Err("the pooler was told to stop at once and did not"),
        });
        pooler.join();
    }
}
