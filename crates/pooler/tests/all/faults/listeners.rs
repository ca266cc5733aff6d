//! Many clients listen while somebody counts aloud and the server restarts: between the first and the last number that a connection hears,
//! none is missing and none comes twice.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::child::signal;
use crate::common::fixture::Fixture;
use crate::common::number_from_environment;
use crate::common::postgres::Postgres;
use crate::common::raw::Raw;
use crate::common::target::{Mode, Pooling};
use crate::common::wait::wait_at_most;

const LOOK: Duration = Duration::from_millis(200);

/// What is said on all channels, and what has come of it.
#[derive(Default)]
struct Said {
    /// The last number that is being said, or has been.
    begun: AtomicUsize,
    /// The last number of which it is known that it was said.
    last: AtomicUsize,
    /// Numbers whose COMMIT lost its connection.
    unknown: Mutex<BTreeSet<usize>>,
    over: AtomicBool,
    heard: AtomicUsize,
    connections: AtomicUsize,
}

impl Said {
    /// Says one number after the other on every channel, each in one transaction, with this pause after each.
    fn count(&self, fixture: &Fixture, channels: usize, pause: Duration) {
        let mut client: Option<Raw> = None;
        let mut number = 0;
        while !self.over.load(Ordering::Relaxed) {
            let Some(raw) = &mut client else {
                client = Raw::connect(&fixture.server().login("app")).ok();
                continue;
            };
            number += 1;
            self.begun.store(number, Ordering::SeqCst);
            let sql = format!(
                "select pg_notify('channel' || n, '{number}') from generate_series(0, {channels} - 1) as n"
            );
            if raw.try_rows(&sql).is_ok() {
                self.last.store(number, Ordering::Relaxed);
                std::thread::sleep(pause);
            } else {
                self.unknown.lock().expect("no panic").insert(number);
                client = None;
            }
        }
    }

    /// Listens to one channel, on one connection after the other.
    fn listen(&self, fixture: &Fixture, channel: &str) {
        while !self.over.load(Ordering::Relaxed) {
            let Ok(mut client) = Raw::connect(&fixture.login()) else {
                continue;
            };
            if client.try_rows(&format!("listen {channel}")).is_err() {
                continue;
            }
            // All that begins from here on must arrive.
            let from = self.begun.load(Ordering::SeqCst);
            self.connections.fetch_add(1, Ordering::Relaxed);
            client.set_patience(LOOK);
            let (mut before, mut silent) = (None, 0);
            loop {
                let message = match client.read() {
                    Ok(message) if message.tag == b'A' => message,
                    Ok(_) => continue,
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        let last = self.last.load(Ordering::Relaxed);
                        if !self.over.load(Ordering::Relaxed) {
                            continue;
                        }
                        if last <= from || before.is_some_and(|before| before >= last) {
                            return;
                        }
                        silent += 1;
                        assert!(
                            silent < 100,
                            "{channel}: {before:?} is the last heard, and {last} was said"
                        );
                        continue;
                    }
                    Err(_) => break,
                };
                let text = String::from_utf8_lossy(&message.body[4..]).into_owned();
                let mut parts = text.split('\0');
                assert_eq!(parts.next(), Some(channel));
                let number: usize = parts
                    .next()
                    .and_then(|number| number.parse().ok())
                    .expect("a number");
                assert!(
                    before.is_none_or(|before| before < number),
                    "{channel}: {number} after {before:?}"
                );
                let mut missing = before.unwrap_or(from) + 1..number;
                let unknown = self.unknown.lock().expect("no panic");
                assert!(
                    missing.all(|number| unknown.contains(&number)),
                    "{channel}: {number} after {before:?}, from {from} on"
                );
                drop(unknown);
                before = Some(number);
                self.heard.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Ends the threads, also if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn listeners_miss_nothing_while_servers_restart() {
    let listeners = number_from_environment("CORUN_TEST_LISTENERS", 40) as usize;
    let channels = number_from_environment("CORUN_TEST_CHANNELS", 8) as usize;
    let restarts = number_from_environment("CORUN_TEST_RESTARTS", 2);
    let pooling = Pooling::new(Mode::Transaction, 10);
    let fixture = Fixture::start_on(Some(Postgres::start()), &pooling);
    let said = Said::default();
    std::thread::scope(|scope| {
        let _over = Over(&said.over);
        // Not faster than so many threads on few cores can hear, or they would be behind for good.
        let pause = Duration::from_micros(20) * listeners as u32;
        let (said, fixture) = (&said, &fixture);
        scope.spawn(move || said.count(fixture, channels, pause));
        let threads: Vec<_> = (0..listeners)
            .map(|listener| {
                let listen = move || said.listen(fixture, &format!("channel{}", listener % channels));
                let thread = std::thread::Builder::new().stack_size(256 << 10);
                thread.spawn_scoped(scope, listen).expect("a thread")
            })
            .collect();
        // Each listens once more and hears something.
        let all_hear = || {
            let connections = said.connections.load(Ordering::Relaxed);
            let heard = said.heard.load(Ordering::Relaxed);
            (connections, heard)
        };
        let wait_for = |connections, heard| {
            wait_at_most(Duration::from_secs(120), || {
                let (now_connections, now_heard) = all_hear();
                let ended = threads.iter().any(|thread| thread.is_finished());
                match ended || now_connections >= connections && now_heard >= heard {
                    true => Ok(()),
                    false => Err(format!(
                        "{now_connections} of {connections} listen, {now_heard} of {heard} heard"
                    )),
                }
            });
        };
        wait_for(listeners, 20 * listeners);
        for restart in 0..restarts {
            let (connections, heard) = all_hear();
            if restart % 2 == 0 {
                fixture.sql(
                    "select pg_terminate_backend(pid) from pg_stat_activity \
                     where backend_type = 'client backend' and pid <> pg_backend_pid()",
                );
            } else {
                // The server ends all its processes and recovers.
                let victim =
                    fixture.value("select pid from pg_stat_activity where backend_type = 'walwriter'");
                signal(victim.parse().expect("a process"), "KILL");
            }
            wait_for(connections + listeners, heard + 20 * listeners);
        }
    });
}
