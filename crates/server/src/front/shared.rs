//! [`Shared`]: what event loops and tasks have in common: who may come in, keys of cancel requests, letters between threads, the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::Instant;

use corun_model::server_status::Connections;
use corun_net::reactor::{Stream, Waker};
use corun_wire::auth::scram::same;
use corun_wire::error::{Refusal, code};
use parking_lot::Mutex;

use super::access::Access;
use super::config::FrontConfig;
use crate::operate::SessionName;
use crate::session::Rights as _;

/// Connections beyond the sessions that there may be: logins, and requests to cancel.
const LOGINS_MAX: usize = 256;

/// One user's part of the bytes of messages that are not whole: this is its denominator.
const USER_SHARE: usize = 4;

/// A client, among all that its event loop ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientId {
    pub slot: usize,
    pub number: u64,
}

/// A letter to an event loop.
pub(super) enum Mail {
    /// A connection to serve.
    Stream(Stream),
    /// A client's pipe has something.
    Output(ClientId),
    /// A client's task is done.
    Back(ClientId),
    /// What the event loop serves itself can go on.
    Woken(ClientId),
}

/// Letters to one event loop. Each client has at most two under way, and connections are counted: it is bounded by those.
pub(super) struct Mailbox {
    letters: Mutex<Vec<Mail>>,
    waker: Waker,
    /// The event loop's thread, which looks for letters before it waits.
    reader: OnceLock<ThreadId>,
}

impl Mailbox {
    pub fn new(waker: Waker) -> Self {
        Self {
            letters: Mutex::default(),
            waker,
            reader: OnceLock::new(),
        }
    }

    /// The calling thread is the event loop's from now on.
    pub fn read_here(&self) {
        _ = self.reader.set(std::thread::current().id());
    }

    /// Whether there is something.
    pub fn has_letters(&self) -> bool {
        !self.letters.lock().is_empty()
    }

    pub fn post(&self, mail: Mail) {
        self.letters.lock().push(mail);
        if self.reader.get() != Some(&std::thread::current().id()) {
            self.waker.wake();
        }
    }

    pub fn take(&self) -> Vec<Mail> {
        std::mem::take(&mut *self.letters.lock())
    }

    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// Ends what a session runs.
pub(super) type Canceller = Arc<dyn Fn() + Send + Sync>;

struct Key {
    secret: Vec<u8>,
    cancel: Canceller,
}

/// See [`self`].
pub(super) struct Shared {
    pub config: FrontConfig,
    pub access: Arc<Access>,
    pub counts: Counts,
    pub mailboxes: Vec<Arc<Mailbox>>,
    connections: AtomicUsize,
    sessions: Mutex<ByUser>,
    keys: Mutex<HashMap<u32, Key>>,
    next_pid: AtomicU32,
    /// Bytes of messages that are not whole.
    inbox_bytes: Mutex<ByUser>,
    stopping: AtomicBool,
    terminating: AtomicBool,
    at_once: AtomicBool,
    /// Why an event loop ended before its time.
    failure: Mutex<Option<String>>,
}

/// Events since the start.
#[derive(Default)]
pub(super) struct Counts {
    pub accepted: AtomicU64,
    pub refused: AtomicU64,
    pub logins: AtomicU64,
    pub logins_refused: AtomicU64,
}

/// An amount, of each user and of all together.
#[derive(Default)]
struct ByUser {
    all: usize,
    of_user: HashMap<String, usize>,
}

impl ByUser {
    fn of(&self, user: &str) -> usize {
        self.of_user.get(user).copied().unwrap_or_default()
    }

    fn set(&mut self, user: &str, amount: usize) {
        let before = match amount {
            0 => self.of_user.remove(user),
            amount => self.of_user.insert(user.to_owned(), amount),
        };
        self.all = self.all - before.unwrap_or_default() + amount;
    }
}

impl Shared {
    pub fn new(config: FrontConfig, access: Arc<Access>, mailboxes: Vec<Arc<Mailbox>>) -> Self {
        Self {
            config,
            access,
            counts: Counts::default(),
            mailboxes,
            connections: AtomicUsize::new(0),
            sessions: Mutex::default(),
            keys: Mutex::default(),
            next_pid: AtomicU32::new(0),
            inbox_bytes: Mutex::default(),
            stopping: AtomicBool::new(false),
            terminating: AtomicBool::new(false),
            at_once: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Connections and logins, now and since the start.
    pub fn connections(&self) -> Connections {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Connections {
            sessions: self.sessions.lock().all as u64,
            sessions_max: self.config.connections_max as u64,
            accepted: of(&self.counts.accepted),
            refused: of(&self.counts.refused),
            logins: of(&self.counts.logins),
            logins_refused: of(&self.counts.logins_refused),
        }
    }

    /// An event loop has ended before its time: everything ends.
    pub fn fail(&self, why: String) {
        tracing::error!("{why}");
        self.failure.lock().get_or_insert(why);
        self.stop(true);
    }

    /// Why everything ends, if it was not asked to.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Counts a connection; `false` where there are too many.
    pub fn connect(&self) -> bool {
        let most = self.config.connections_max.saturating_add(LOGINS_MAX);
        let counted = self.connections.fetch_add(1, Ordering::Relaxed) < most;
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        if !counted {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            self.disconnect();
        }
        counted
    }

    pub fn disconnect(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives a client that has logged in a number, if there is room for it.
    pub fn admit(self: &Arc<Self>, name: SessionName) -> Result<Admission, Refusal> {
        self.counts.logins.fetch_add(1, Ordering::Relaxed);
        let pid = self.number_of_one_more(&name.user).inspect_err(|_| {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        })?;
        let admission = Admission {
            shared: Arc::clone(self),
            name: SessionName { pid, ..name },
            began: Instant::now(),
        };
        admission.log("connection", None);
        Ok(admission)
    }

    fn number_of_one_more(&self, user: &str) -> Result<u32, Refusal> {
        let mut sessions = self.sessions.lock();
        if sessions.all >= self.config.connections_max {
            return Err(too_many());
        }
        let of_user = sessions.of(user);
        let own = self.access.users().now().limits(user).connections;
        if own
            .or(self.config.user_connections_max)
            .is_some_and(|most| of_user >= most)
        {
            let what = format!("too many connections for role \"{user}\"");
            return Err(Refusal::new(code::TOO_MANY_CONNECTIONS, what));
        }
        sessions.set(user, of_user + 1);
        drop(sessions);
        let keys = self.keys.lock();
        let pid = loop {
            // Positive for clients that read it as a signed number.
            let next = self.next_pid.fetch_add(1, Ordering::Relaxed) % (i32::MAX as u32) + 1;
            if !keys.contains_key(&next) {
                break next;
            }
        };
        Ok(pid)
    }

    /// Cancels what a client runs, if the secret is its own.
    pub fn cancel(&self, pid: u32, secret: &[u8]) {
        let keys = self.keys.lock();
        let key = keys.get(&pid).filter(|key| same(&key.secret, secret));
        let cancel = key.map(|key| Arc::clone(&key.cancel));
        drop(keys);
        if let Some(cancel) = cancel {
            cancel();
        }
    }

    /// Takes bytes of a user's messages that are not whole into account: `wanted` instead of those `held`. `false` where there are too many.
    pub fn reserve(&self, user: &str, held: &mut usize, wanted: usize) -> bool {
        if wanted == *held {
            return true;
        }
        let mut bytes = self.inbox_bytes.lock();
        let (all, own) = (bytes.all - *held + wanted, bytes.of(user) - *held + wanted);
        let most = self.config.inbox_bytes_max;
        let fits = all <= most && own <= most / USER_SHARE;
        if wanted > *held && !fits {
            return false;
        }
        bytes.set(user, own);
        *held = wanted;
        true
    }

    /// No more clients; those there are leave when their statements are done.
    pub fn stop(&self, at_once: bool) {
        self.stopping.store(true, Ordering::Release);
        if at_once {
            self.at_once.store(true, Ordering::Release);
        }
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake());
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub fn ends_at_once(&self) -> bool {
        self.at_once.load(Ordering::Acquire)
    }

    /// Cancels everything that runs now.
    pub fn terminate(&self) {
        self.terminating.store(true, Ordering::Release);
        let all: Vec<Canceller> = self
            .keys
            .lock()
            .values()
            .map(|key| Arc::clone(&key.cancel))
            .collect();
        all.iter().for_each(|cancel| cancel());
    }

    /// Whether what is cancelled now is because of the end.
    pub fn is_terminating(&self) -> bool {
        self.terminating.load(Ordering::Acquire)
    }
}

/// A session that is counted, as long as this lives.
pub(super) struct Admission {
    shared: Arc<Shared>,
    name: SessionName,
    began: Instant,
}

impl Admission {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.name.pid
    }

    fn log(&self, what: &str, seconds: Option<f64>) {
        let SessionName {
            user,
            database,
            pid,
            from,
        } = &self.name;
        match self.shared.config.log_connections {
            true => tracing::info!(user, database, from, pid, seconds, "{what}"),
            false => tracing::debug!(user, database, from, pid, seconds, "{what}"),
        }
    }

    /// From now on requests with this secret cancel.
    pub fn register(&self, secret: Vec<u8>, cancel: Canceller) {
        self.shared.keys.lock().insert(self.pid(), Key { secret, cancel });
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.shared.keys.lock().remove(&self.pid());
        let mut sessions = self.shared.sessions.lock();
        let left = sessions.of(&self.name.user) - 1;
        sessions.set(&self.name.user, left);
        drop(sessions);
        self.log("disconnection", Some(self.began.elapsed().as_secs_f64()));
    }
}

/// What a client is told that finds no room.
pub(super) fn too_many() -> Refusal {
    Refusal::new(code::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
}

/// What a client is told when the server stops.
pub(super) fn shutdown() -> Refusal {
    Refusal::new(
        code::ADMIN_SHUTDOWN,
        "terminating connection due to administrator command",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::AccessFiles;

    #[test]
    fn messages_of_one_user_leave_room_for_those_of_others() {
        let access = Access::load(&AccessFiles::default(), &[]).expect("no files");
        let config = FrontConfig {
            inbox_bytes_max: 160,
            ..FrontConfig::default()
        };
        let shared = Shared::new(config, Arc::new(access), Vec::new());
        let [mut first, mut second, mut bob, mut carl, mut eve, mut tom] = [0; 6];
        assert!(shared.reserve("ann", &mut first, 30));
        assert!(!shared.reserve("ann", &mut second, 11));
        assert!(shared.reserve("ann", &mut second, 10));
        for (user, held) in [("bob", &mut bob), ("carl", &mut carl), ("eve", &mut eve)] {
            assert!(shared.reserve(user, held, 40));
        }
        // All of it is taken.
        assert!(!shared.reserve("tom", &mut tom, 1));
        assert!(shared.reserve("ann", &mut first, 0));
        assert!(shared.reserve("ann", &mut second, 40));
        assert!(!shared.reserve("ann", &mut first, 1));
        for (user, held) in [
            ("ann", &mut second),
            ("bob", &mut bob),
            ("carl", &mut carl),
            ("eve", &mut eve),
        ] {
            assert!(shared.reserve(user, held, 0));
        }
        let bytes = shared.inbox_bytes.lock();
        assert_eq!((bytes.all, bytes.of_user.len()), (0, 0));
    }
}
