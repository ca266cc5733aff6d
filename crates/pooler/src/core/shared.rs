//! What the event loops of one proxy have in common, and how they talk to each other.
//!
//! A loop never waits for another: it leaves a [`Message`] in its [`Mailbox`] and goes on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use corun_net::process::Refusal;
use corun_net::reactor::{Stream, Waker};
use parking_lot::{Mutex, RwLock};
use ring::rand::{SecureRandom, SystemRandom};

use crate::config::Effective;
use crate::core::config_files::ConfigFiles;
use crate::core::listen::Said;
use crate::core::peers::key::Keys;
use crate::core::pool::process::{Given, ProcessPools, ServerKey};
use crate::hosts::Hosts;
use crate::session::prepared::Statements;
use corun_wire::auth::scram::ClientKeys;
use corun_wire::auth::{Mock, Secret};

/// Messages a mailbox holds at most before streams are refused; the others are few.
const MAILBOX_STREAMS_MAX: usize = 65_536;
/// Keys and secrets kept, at most of this many databases and users.
const KEYS_MAX: usize = 10_000;

/// What one event loop tells another.
pub(crate) enum Message {
    /// A connection for it to serve.
    Stream(Stream),
    /// Somebody cancels the query of one of its clients.
    Cancel { pid: u32, secret: Vec<u8> },
    /// Somebody cancels the query of a client of the process with this number: for the first loop, which forwards the request.
    Forward { peer: u16, request: Vec<u8> },
    /// The configuration changed.
    Config(Arc<ConfigFiles>),
    /// Another host of a database is primary, or none.
    Primary,
    /// A heavy query of one of its clients (slot, number) may start.
    HeavyQueueStarts {
        client: usize,
        id: u64,
        query: corun_model::cache::coschedule::QueryId,
    },
    /// The address of a host was looked up.
    Resolved,
    /// What code of a database's own may do to sessions is known.
    Catalogue(Arc<str>),
    /// The name of the system's user behind a client (slot, number) was looked up.
    OsUser { client: usize, id: u64 },
    /// Another loop's clients wait while this one has free connections of the same pool: one goes to it.
    Give { key: ServerKey, to: usize },
    /// A connection that another loop had free.
    Server(Box<Given>),
    /// There is room for a connection that clients of this loop wait for.
    Room(ServerKey),
    /// A server has refused the login of this loop, and would refuse that of another.
    LoginRefused {
        key: ServerKey,
        refusal: Box<corun_wire::error::Refusal>,
    },
    /// Another loop needs a connection that `max_db_connections` or `max_user_connections` keeps it from making: the free one that
    /// was used longest ago makes room.
    Evict { of: Full, key: ServerKey, to: usize },
    /// About the notifications of a database.
    Listen(Arc<str>, Said),
    /// Something to run on the loop.
    Ask(crate::core::console::ask::Ask),
    /// All loops have answered a console client (slot, number).
    Answered(usize, u64, Arc<crate::core::console::ask::Answers>),
    /// What all loops' pools have counted, for the log.
    Counted(Arc<crate::core::console::ask::Answers>),
    /// No more connections are accepted.
    Unlisten,
    /// The process ends: for the first loop, which closes the listeners first.
    End,
    /// Stop: `false` waits for clients to finish their transactions.
    Stop { at_once: bool },
}

/// Where messages for an event loop wait.
#[derive(Default)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    waker: Mutex<Option<Waker>>,
    /// Its loop has ended. Changed under the lock of the messages.
    closed: AtomicBool,
}

impl Mailbox {
    /// Leaves a message. Gives it back when there are too many, or when nobody reads them any more.
    pub fn post(&self, message: Message) -> Result<(), Message> {
        {
            let mut messages = self.messages.lock();
            let full = messages.len() >= MAILBOX_STREAMS_MAX && matches!(message, Message::Stream(_));
            if full || self.is_closed() {
                return Err(message);
            }
            messages.push(message);
        }
        if let Some(waker) = &*self.waker.lock() {
            waker.wake();
        }
        Ok(())
    }

    /// Who is woken by messages.
    pub fn attend(&self, waker: Waker) {
        *self.waker.lock() = Some(waker);
    }

    /// Takes no more messages, unless some are left. Returns whether it is closed.
    pub fn close(&self) -> bool {
        let messages = self.messages.lock();
        self.closed.store(messages.is_empty(), Ordering::Relaxed);
        messages.is_empty()
    }

    /// Whether nobody reads it any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Takes all.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.messages.lock())
    }
}

/// What the loops share.
pub(crate) struct Shared {
    // Fixed.
    pub mailboxes: Vec<Mailbox>,
    pub random: SystemRandom,
    pub mock: Mock,
    pub resolver: crate::core::route::resolve::Resolver,
    pub os_users: crate::core::client::os_users::OsUsers,
    /// Where the clock begins by which all loops tell the times of writes and of probes.
    pub started: Instant,
    /// What the queue of heavy queries is for.
    pub machine: crate::core::heavy_queue::Machine,
    /// What keys of clients are made of.
    pub keys_of_clients: Keys,
    /// Other processes may listen at the same addresses.
    pub shares_ports: bool,
    // Changing, each by itself.
    files: RwLock<Arc<ConfigFiles>>,
    ids: AtomicU64,
    /// Clients of each loop.
    pub clients: Vec<AtomicUsize>,
    /// Of these at the console.
    pub consoles: AtomicUsize,
    /// Commands that these have sent so far.
    pub console_commands: AtomicU64,
    /// Servers of each loop that work for clients; counted only where queries may run in parts.
    pub busy: Vec<AtomicUsize>,
    /// Queries that run in parts.
    pub jobs: AtomicUsize,
    /// Bytes in the buffers of each loop's connections, as of its last look; counted only with `memory_max`.
    pub buffered: Vec<AtomicUsize>,
    pub stopping: AtomicBool,
    /// It has been told to end, now or when its clients have left.
    pub leaving: AtomicBool,
    /// Connections that are being made are the last ones; only with `shares_ports`.
    pub ending: AtomicBool,
    /// Metrics can be asked for.
    pub metrics_listen: AtomicBool,
    /// What administrators have paused or disabled.
    pub stopped: Mutex<crate::core::console::stopped::Stopped>,
    /// Counters of databases that averages are taken against, and when they were read.
    pub earlier: Mutex<(
        std::time::Duration,
        std::collections::BTreeMap<String, crate::admin::Stats>,
    )>,
    /// How often texts that change definitions went through.
    pub definitions: Arc<AtomicU64>,
    /// What code of databases' own may do to sessions.
    pub catalogues: Arc<crate::core::server::catalogues::Catalogues>,
    /// The prepared statements of all clients.
    pub statements: Arc<Statements>,
    /// What the loops' pools of the same servers have together.
    pub pools: ProcessPools,
    /// What is known of the hosts of databases that have several.
    pub fleets: Mutex<HashMap<Arc<str>, Arc<Hosts>>>,
    /// Which core has which keys, by database.
    pub ranges: Mutex<HashMap<Arc<str>, Arc<crate::core::ranges::Ranges>>>,
    /// The queue of heavy queries.
    pub heavy_queue: crate::core::heavy_queue::HeavyQueue,
    /// Server connections of all loops.
    pub server_counts: Counts,
    /// Clients of all loops that are in.
    pub client_counts: Counts,
    /// What logins showed.
    keys: Mutex<HashMap<Login, ClientKeys>>,
    /// Reasons against binding backends that were told.
    told: Mutex<HashSet<std::mem::Discriminant<Refusal>>>,
    /// What `auth_query` found.
    secrets: Mutex<HashMap<Login, Secret>>,
}

/// Connections of all loops by database (`true`) and by user.
#[derive(Default)]
pub(crate) struct Counts(Mutex<HashMap<(bool, Arc<str>), usize>>);

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Database,
    User,
}

impl Counts {
    /// Counts a connection of `database` and `user`, unless that is one too many (0: no limit).
    pub fn count(&self, database: &Arc<str>, user: &Arc<str>, limits: (u32, u32)) -> Result<(), Full> {
        let mut counts = self.0.lock();
        let full = |key: (bool, Arc<str>), limit: u32| {
            limit > 0 && counts.get(&key).copied().unwrap_or(0) >= limit as usize
        };
        if full((true, Arc::clone(database)), limits.0) {
            return Err(Full::Database);
        }
        if full((false, Arc::clone(user)), limits.1) {
            return Err(Full::User);
        }
        *counts.entry((true, Arc::clone(database))).or_default() += 1;
        *counts.entry((false, Arc::clone(user))).or_default() += 1;
        Ok(())
    }

    /// A connection that was counted has gone.
    pub fn uncount(&self, database: &Arc<str>, user: &Arc<str>) {
        let mut counts = self.0.lock();
        for key in [(true, Arc::clone(database)), (false, Arc::clone(user))] {
            if let Some(count) = counts.get_mut(&key) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    counts.remove(&key);
                }
            }
        }
    }
}

/// Whose credentials: roles of one name in different clusters have different ones.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Login {
    /// The entry of the configuration.
    pub database: Arc<str>,
    pub user: Arc<str>,
    /// A hash of the configured password that a login to the server showed keys for. Those of clients' logins have none.
    pub password: Option<[u8; 32]>,
}

impl Login {
    /// What a client of this database and user shows.
    pub fn of_client(database: &Arc<str>, user: &Arc<str>) -> Self {
        Self {
            database: Arc::clone(database),
            user: Arc::clone(user),
            password: None,
        }
    }

    /// What a server of this database entry is logged in to with.
    pub fn of_server(database: &Arc<str>, effective: &Effective) -> Self {
        let configured = effective
            .password
            .as_ref()
            .map(|password| password.reveal().as_bytes());
        // A verifier or a hash may stand there as well: what opens it is what clients show.
        let plain = configured.filter(|text| matches!(Secret::parse(text), Some(Secret::Plain(_))));
        let password = plain.map(|text| {
            let mut bytes = [0; 32];
            bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, text).as_ref());
            bytes
        });
        Self {
            database: Arc::clone(database),
            user: effective.user.as_str().into(),
            password,
        }
    }
}

impl Shared {
    /// For `loops` event loops. `None`: the system gives no random numbers.
    pub fn new(
        loops: usize,
        files: Arc<ConfigFiles>,
        machine: crate::core::heavy_queue::Machine,
    ) -> Option<Self> {
        let random = SystemRandom::new();
        let mut nonce = [0; 8];
        random.fill(&mut nonce).ok()?;
        let mock = files
            .users
            .mock(&random)
            .or_else(|| Mock::random(&random, false))?;
        Some(Self {
            mailboxes: (0..loops).map(|_| Mailbox::default()).collect(),
            random,
            mock,
            resolver: crate::core::route::resolve::Resolver::default(),
            os_users: crate::core::client::os_users::OsUsers::default(),
            started: Instant::now(),
            machine,
            keys_of_clients: Keys {
                peer_id: files.config.proxy.peer_id,
                event_loops: loops,
            },
            shares_ports: files.config.proxy.so_reuseport,
            definitions: Arc::default(),
            catalogues: Arc::default(),
            statements: Arc::new(Statements::new(u64::from_ne_bytes(nonce))),
            pools: ProcessPools::new(loops),
            fleets: Mutex::default(),
            ranges: Mutex::default(),
            heavy_queue: crate::core::heavy_queue::HeavyQueue::default(),
            files: RwLock::new(files),
            ids: AtomicU64::new(0),
            clients: (0..loops).map(|_| AtomicUsize::new(0)).collect(),
            consoles: AtomicUsize::new(0),
            console_commands: AtomicU64::new(0),
            busy: (0..loops).map(|_| AtomicUsize::new(0)).collect(),
            jobs: AtomicUsize::new(0),
            buffered: (0..loops).map(|_| AtomicUsize::new(0)).collect(),
            stopping: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            metrics_listen: AtomicBool::new(false),
            stopped: Mutex::default(),
            earlier: Mutex::default(),
            server_counts: Counts::default(),
            client_counts: Counts::default(),
            keys: Mutex::default(),
            told: Mutex::default(),
            secrets: Mutex::default(),
        })
    }

    /// A number nobody has had.
    pub fn id(&self) -> u64 {
        // Only that they differ matters.
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number that nobody guesses, in this process or another.
    pub fn marker(&self) -> u64 {
        let mut bytes = [0; 8];
        match self.random.fill(&mut bytes) {
            Ok(()) => u64::from_be_bytes(bytes),
            Err(_) => self.id(),
        }
    }

    /// The configuration now.
    pub fn files(&self) -> Arc<ConfigFiles> {
        Arc::clone(&self.files.read())
    }

    /// Changes it for all loops.
    pub fn change_config(&self, files: Arc<ConfigFiles>) {
        *self.files.write() = Arc::clone(&files);
        self.tell_all(|| Message::Config(Arc::clone(&files)));
    }

    /// Leaves a message, which is no stream, for an event loop.
    pub fn tell(&self, event_loop: usize, message: Message) {
        if let Some(mailbox) = self.mailboxes.get(event_loop) {
            let _ = mailbox.post(message);
        }
    }

    /// The same for every event loop.
    pub fn tell_all(&self, message: impl Fn() -> Message) {
        self.tell_others(usize::MAX, message);
    }

    /// The same for every event loop but one.
    pub fn tell_others(&self, but: usize, message: impl Fn() -> Message) {
        for event_loop in (0..self.mailboxes.len()).filter(|&event_loop| event_loop != but) {
            self.tell(event_loop, message());
        }
    }

    /// Ends all event loops: `false` waits for clients to finish their transactions.
    pub fn stop(&self, at_once: bool) {
        match at_once || self.mailboxes[0].is_closed() {
            true => self.stop_loops(at_once),
            // The first loop closes the listeners before.
            false => self.tell(0, Message::End),
        }
    }

    /// The same without waiting for the listeners.
    pub fn stop_loops(&self, at_once: bool) {
        self.stopping.store(true, Ordering::Relaxed);
        self.tell_all(|| Message::Stop { at_once });
    }

    /// Clients of all loops.
    pub fn clients_all(&self) -> usize {
        self.clients
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Bytes in the buffers of all loops' connections.
    pub fn buffered_all(&self) -> usize {
        let all = self.buffered.iter().map(|bytes| bytes.load(Ordering::Relaxed));
        all.fold(0, usize::saturating_add)
    }

    /// The loop with the fewest clients.
    pub fn least_busy(&self) -> usize {
        let counts = self.clients.iter().map(|count| count.load(Ordering::Relaxed));
        counts
            .enumerate()
            .filter(|&(index, _)| !self.mailboxes[index].is_closed())
            .min_by_key(|&(index, count)| (count, index))
            .map_or(0, |(index, _)| index)
    }

    /// The loop that serves a connection which `own` has accepted. Where all loops accept, that is the same one as long as no other has
    /// clearly fewer clients: a connection that changes threads costs more than one that is a neighbour too many.
    pub fn serves(&self, own: usize, all_accept: bool) -> usize {
        let count = |index: usize| self.clients[index].load(Ordering::Relaxed);
        let least = self.least_busy();
        let more = if all_accept { 1 + count(least) / 8 } else { 0 };
        if count(own) <= count(least) + more {
            own
        } else {
            least
        }
    }

    /// Keeps what a login showed.
    pub fn learn(&self, login: Login, learnt: ClientKeys) {
        let mut keys = self.keys.lock();
        if keys.len() < KEYS_MAX || keys.contains_key(&login) {
            keys.insert(login, learnt);
        }
    }

    /// What a login showed.
    pub fn learnt(&self, login: &Login) -> Option<ClientKeys> {
        self.keys.lock().get(login).cloned()
    }

    /// Keeps what `auth_query` found.
    pub fn keep_secret(&self, login: Login, secret: Secret) {
        let mut secrets = self.secrets.lock();
        if secrets.len() < KEYS_MAX || secrets.contains_key(&login) {
            secrets.insert(login, secret);
        }
    }

    /// What `auth_query` found.
    pub fn secret(&self, login: &Login) -> Option<Secret> {
        self.secrets.lock().get(login).cloned()
    }

    /// Users that `auth_query` found.
    pub fn users_with_secret(&self) -> Vec<String> {
        let secrets = self.secrets.lock();
        secrets.keys().map(|login| login.user.to_string()).collect()
    }

    /// Whether a reason against binding backends comes up for the first time.
    pub fn first_of_its_kind(&self, refusal: &Refusal) -> bool {
        self.told.lock().insert(std::mem::discriminant(refusal))
    }
}
