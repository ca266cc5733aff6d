//! How clients get in: first packet, TLS, who they are, what they are told.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use corun_net::reactor::{Peer, Reactor};

use crate::config::{CONSOLES, PoolMode};
use crate::core::client::os_users::{Waiter, asked_of_system};
use crate::core::client::start::{REPLICATION_PARAMETER, begins_alike};
use crate::core::client::{Client, Entrance, Phase, log_client};
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::pool::process::Greeting;
use crate::core::route::fleet::{REPLICATION, Way};
use crate::core::shared::{Full, Login};
use crate::understand::Shape;
use corun_wire::auth::{Answer, Authenticator, Denial, Facts, Lookup, Method, Step, TlsFacts, hba};
use corun_wire::error::{Refusal, code};
use corun_wire::server::{First, welcome};
use corun_wire::startup::{Kind, Startup};
use corun_wire::tls;

/// Bytes of a client that is not logged in that are kept at most.
const INBOX_MAX: usize = 16 << 10;

impl<R: Reactor> EventLoop<R> {
    /// Bytes of a client on its way in.
    pub(in crate::core) fn entrance_bytes(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if client.inbox.len() + bytes.len() > INBOX_MAX {
            return self.close_client(reactor, index, "too much was sent before logging in");
        }
        client.inbox.extend(bytes);
        self.entrance(reactor, index);
    }

    /// Goes on with what a client on its way in has sent.
    pub(in crate::core) fn entrance(&mut self, reactor: &mut R, index: usize) {
        loop {
            let Some(client) = self.clients.get_mut(index) else {
                return;
            };
            if client.inbox.is_empty() {
                return;
            }
            let went_on = match client.phase {
                Phase::Startup => self.first_packet(reactor, index),
                Phase::Authenticating(..) => self.password(reactor, index),
                Phase::Console => self.console_bytes(reactor, index),
                Phase::Ready => {
                    self.serve_soon(index);
                    Ok(false)
                }
                Phase::Looking(_) | Phase::Greeting(_) | Phase::Closing => Ok(false),
            };
            match went_on {
                Ok(true) => {}
                Ok(false) => return,
                Err(refusal) => return self.refuse_client(reactor, index, &refusal),
            }
        }
    }

    fn first_packet(&mut self, reactor: &mut R, index: usize) -> Result<bool, Refusal> {
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(false);
        };
        let tcp = !matches!(client.peer, Some(Peer::Unix { .. }));
        let tls_server = self.files.tls_server.as_ref().filter(|_| tcp);
        let encrypted = client.transport.tls.is_some();
        let first = client
            .negotiation
            .read(&mut client.inbox, encrypted, tls_server.is_some())?;
        match first {
            First::More => return Ok(false),
            First::DirectTls => return Ok(self.direct_tls(reactor, index)),
            First::RefuseEncryption => client.transport.send(reactor, b"N"),
            First::AcceptTls => match tls_server.map(tls::TlsServer::accept) {
                Some(Ok(session)) => {
                    client.transport.send(reactor, b"S");
                    client.transport.tls = Some(Box::new(session));
                }
                refused => {
                    if let Some(Err(error)) = refused {
                        tracing::warn!(%error, "TLS with a client could not begin");
                    }
                    client.transport.send(reactor, b"N");
                }
            },
            First::Cancel { pid, secret } => {
                self.cancel_requested(reactor, pid, secret);
                // The end of the connection tells the client that its request was taken.
                self.remove_client(reactor, index, true);
                return Ok(false);
            }
            First::Startup(startup) => {
                self.admit(index, startup)?;
                // The one that asks is the next to be looked at.
                let client = self.clients.get_mut(index);
                if let Some(entrance) = client.and_then(|client| client.take_entrance()) {
                    self.who_is_it(reactor, index, entrance);
                }
            }
        }
        Ok(true)
    }

    /// A client begins with TLS at once.
    fn direct_tls(&mut self, reactor: &mut R, index: usize) -> bool {
        let Some(client) = self.clients.get_mut(index) else {
            return false;
        };
        let session = self.files.tls_server.as_ref().map(tls::TlsServer::accept);
        let Some(Ok(session)) = session else {
            self.close_client(
                reactor,
                index,
                "the client began with TLS, which the pooler does not offer",
            );
            return false;
        };
        client.transport.tls = Some(Box::new(session));
        let bytes = std::mem::take(&mut client.inbox);
        let mut plain = Vec::new();
        if let Err(error) = client.transport.open(reactor, &bytes, &mut plain) {
            tracing::info!(%error, "TLS with a client failed");
            self.close_client(reactor, index, "TLS failed");
            return false;
        }
        if let Some(client) = self.clients.get_mut(index) {
            client.inbox = plain;
        }
        true
    }

    /// Checks what must be right before anything is asked. Leaves the client in `Looking`.
    fn admit(&mut self, index: usize, startup: Startup) -> Result<(), Refusal> {
        let all = self.shared.clients_all();
        let memory = self.too_little_memory();
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(());
        };
        let proxy = &self.files.config.proxy;
        client.user = startup.user().into();
        client.database = startup.database().into();
        let kind = startup.kind().ok_or_else(|| {
            let value = startup.get(REPLICATION_PARAMETER).unwrap_or_default();
            let what = format!("invalid value for parameter \"replication\": \"{value}\"");
            Refusal::new(code::INVALID_PARAMETER_VALUE, what)
                .hint("Valid values are: \"false\", 0, \"true\", 1, \"database\".")
        })?;
        client.application = startup.get("application_name").unwrap_or_default().into();
        let required = self
            .files
            .tls_server
            .as_ref()
            .is_some_and(|tls| tls.mode().required())
            && !matches!(client.peer, Some(Peer::Unix { .. }));
        client
            .negotiation
            .check(client.transport.tls.as_deref(), required)?;
        let console = CONSOLES.contains(&&*client.database);
        if self.stopping || client.cancels_only && !console {
            return Err(Refusal::new(code::CANNOT_CONNECT_NOW, "pooler is shutting down"));
        }
        let admin = proxy.admin_users.iter().any(|name| **name == *client.user) || is_own(client);
        if all > proxy.max_client_conn as usize && !(console && admin) {
            return Err(Refusal::new(
                code::TOO_MANY_CONNECTIONS,
                "no more connections allowed (max_client_conn)",
            ));
        }
        if let Some(refusal) = memory.filter(|_| !(console && admin)) {
            return Err(refusal);
        }
        let address = match &client.peer {
            Some(Peer::Tcp(address)) => Some(address.ip()),
            _ => None,
        };
        let mut map = None;
        let method = match &self.files.rules {
            _ if console && is_own(client) => Method::Any,
            Some(rules) => {
                let question = hba::Question {
                    replication: kind == Kind::Physical,
                    database: &client.database,
                    user: &client.user,
                    address: address.map(canonical),
                    tls: client.transport.tls.is_some(),
                };
                let rule = rules
                    .first_match(&question)
                    .map_err(|denial| denied(&denial, client))?;
                map = rule.map.clone();
                rule.method
            }
            None => self.files.method(),
        };
        client.phase = Phase::Looking(Box::new(Entrance {
            startup,
            kind,
            method,
            map,
            console,
        }));
        Ok(())
    }

    /// Looks up the user and begins to ask.
    pub(in crate::core) fn who_is_it(&mut self, reactor: &mut R, index: usize, entrance: Box<Entrance>) {
        let Some(client) = self.clients.get(index) else {
            return;
        };
        let user = Arc::clone(&client.user);
        let mut waits = false;
        if let Some(uid) = asked_of_system(client, &entrance) {
            let waiter = Waiter {
                event_loop: self.index,
                client: index,
                id: client.id,
            };
            waits = !self.shared.os_users.find(&self.shared, uid, waiter);
        }
        let files = Arc::clone(&self.files);
        let lookup = files.lookup(&user);
        let unknown = matches!(lookup, Lookup::Unknown);
        let asks = unknown && entrance.method.wants_user() && !waits;
        let asked = match asks.then(|| self.ask_for_secret(reactor, index)).transpose() {
            Ok(asked) => asked.unwrap_or(false),
            Err(refusal) => return self.refuse_client(reactor, index, &refusal),
        };
        if waits || asked {
            if let Some(client) = self.clients.get_mut(index) {
                client.phase = Phase::Looking(entrance);
            }
            return;
        }
        self.authenticate(reactor, index, entrance, lookup);
    }

    pub(in crate::core) fn authenticate(
        &mut self,
        reactor: &mut R,
        index: usize,
        entrance: Box<Entrance>,
        lookup: Lookup<'_>,
    ) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let session = client.transport.tls.as_deref();
        let common_name = session.and_then(tls::TlsSession::client_common_name);
        let end_point = session.and_then(tls::TlsSession::end_point_hash);
        let os_user = asked_of_system(client, &entrance).and_then(|uid| self.shared.os_users.name(uid));
        let facts = Facts {
            tls: session.map(|_| TlsFacts {
                end_point: end_point.as_deref(),
                common_name: common_name.as_deref(),
            }),
            os_user: os_user.as_deref(),
            map: entrance.map.as_deref().map(|name| self.files.maps.map(name)),
        };
        let iterations = NonZeroU32::new(self.files.config.proxy.scram_iterations);
        let mock = match iterations {
            Some(iterations) => &self.shared.mock.with_iterations(iterations),
            None => &self.shared.mock,
        };
        let mut authenticator = Authenticator::new(
            entrance.method,
            &client.user,
            lookup,
            facts,
            mock,
            &self.shared.random,
        );
        let step = authenticator.start();
        client.phase = Phase::Authenticating(entrance, Box::new(authenticator));
        self.step(reactor, index, step);
    }

    /// A message of a client that proves who it is.
    fn password(&mut self, reactor: &mut R, index: usize) -> Result<bool, Refusal> {
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(false);
        };
        let Phase::Authenticating(_, authenticator) = &mut client.phase else {
            return Ok(false);
        };
        let step = match authenticator.read(&mut client.inbox)? {
            Answer::More => return Ok(false),
            Answer::Terminate => {
                self.said_goodbye(reactor, index);
                return Ok(false);
            }
            Answer::Step(step) => step,
        };
        self.step(reactor, index, step);
        Ok(true)
    }

    fn step(&mut self, reactor: &mut R, index: usize, step: Step) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        match step {
            Step::Send(bytes) => client.transport.send(reactor, &bytes),
            Step::Denied(denial) => {
                let refusal = denied(&denial, client);
                self.refuse_client(reactor, index, &refusal);
            }
            Step::Done { send, learnt } => {
                client.transport.send(reactor, &send);
                if let Some(keys) = learnt {
                    self.shared
                        .learn(Login::of_client(&client.database, &client.user), keys);
                }
                let Phase::Authenticating(entrance, _) = std::mem::replace(&mut client.phase, Phase::Closing)
                else {
                    return;
                };
                client.phase = Phase::Greeting(entrance);
                self.proved(reactor, index);
            }
        }
    }

    /// A client has shown who it is.
    fn proved(&mut self, reactor: &mut R, index: usize) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let Phase::Greeting(entrance) = &client.phase else {
            return;
        };
        let replicates = entrance.kind != Kind::Queries;
        if entrance.console {
            return self.enter_console(reactor, index);
        }
        let settings = match self.start_settings(index) {
            Ok(settings) => settings,
            Err(refusal) => return self.refuse_client(reactor, index, &refusal),
        };
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let (database, user) = (Arc::clone(&client.database), Arc::clone(&client.user));
        let kind = if replicates { REPLICATION } else { 0 };
        let pool_index = match self.pool(&database, &user, kind) {
            Ok(pool) => pool,
            Err(refusal) => return self.refuse_client(reactor, index, &refusal),
        };
        let Some(pool) = self.pools.get_mut(pool_index) else {
            return;
        };
        if let Some(refusal) = pool.refusal(true) {
            return self.refuse_client(reactor, index, &refusal);
        }
        if let Some(failed) = pool.failing(self.now) {
            let why = &failed.message;
            let what = format!("server login has been failing, cached error: {why} (server_login_retry)");
            let refusal = Refusal {
                message: what,
                ..failed.clone()
            };
            return self.refuse_client(reactor, index, &refusal);
        }
        let most = pool.effective.max_db_client_connections;
        if let Err(refusal) = self.count_client(index, Some(most)) {
            return self.refuse_client(reactor, index, &refusal);
        }
        let (Some(client), Some(pool)) = (self.clients.get_mut(index), self.pools.get_mut(pool_index)) else {
            return;
        };
        client.pool = pool_index;
        pool.clients += 1;
        let greeting = pool.all.greeting(&settings, &pool.effective);
        client.settings = Arc::new(settings);
        let session = pool.effective.pool_mode == PoolMode::Session;
        if replicates {
            // A server that streams takes no settings but those that it begins with.
            client.start = Arc::clone(&client.settings);
            return self.enter_queue(reactor, index);
        }
        match greeting {
            Some(greeting) if !session => self.greet(reactor, index, &greeting, None),
            // In session mode it gets its server now.
            Some(greeting) => {
                client.start = Arc::clone(&greeting.settings);
                self.enter_queue(reactor, index);
            }
            // A server tells what to say, and whether it takes these settings.
            None => self.enter_queue(reactor, index),
        }
    }

    /// Counts a client of its database, of which there may be `most` (0: any number), and of its user; without `most` there is no limit.
    fn count_client(&mut self, index: usize, most: Option<u32>) -> Result<(), Refusal> {
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(());
        };
        let of_user = self.files.config.users.get(&*client.user);
        let of_user = of_user
            .and_then(|settings| settings.max_user_client_connections)
            .unwrap_or(self.files.config.proxy.max_user_client_connections);
        let limits = most.map_or((0, 0), |most| (most, of_user));
        let counts = &self.shared.client_counts;
        let name = match counts.count(&client.database, &client.user, limits) {
            Ok(()) => {
                client.counted = true;
                return Ok(());
            }
            Err(Full::Database) => "max_db_client_connections",
            Err(Full::User) => "max_user_client_connections",
        };
        let what = format!("no more connections allowed ({name})");
        Err(Refusal::new(code::TOO_MANY_CONNECTIONS, what))
    }

    /// Puts a client on its way in into the queue of the pool that tells what it is told.
    pub(in crate::core) fn enter_queue(&mut self, reactor: &mut R, index: usize) {
        let Some(pool) = self.clients.get(index).map(|client| client.pool) else {
            return;
        };
        match self.entrance_pool(reactor, pool) {
            Way::Pool(pool) => self.enqueue(reactor, index, pool, Shape::UNKNOWN, None),
            Way::Park => self.park(index),
            Way::Refuse(refusal) => self.refuse_client(reactor, index, &refusal),
        }
    }

    /// A server was prepared for a client on its way in: what it says is what the client is told.
    pub(in crate::core) fn greet_from_server(&mut self, reactor: &mut R, index: usize, server_index: usize) {
        let (Some(client), Some(server)) = (self.clients.get_mut(index), self.servers.get_mut(server_index))
        else {
            return;
        };
        let Some(pool) = self.pools.get(client.pool) else {
            return;
        };
        let greeting = Arc::new(Greeting {
            parameters: server.session.parameters.clone(),
            settings: Arc::clone(&server.session.settings),
            effective: Arc::clone(&pool.effective),
        });
        pool.all
            .keep_greeting(Arc::clone(&client.settings), Arc::clone(&greeting));
        let session = pool.effective.pool_mode == PoolMode::Session;
        if session && begins_alike(&pool.effective, server, &client.settings) {
            let pid = server.process.pid;
            return self.greet(reactor, index, &greeting, Some(pid));
        }
        client.server = None;
        server.user.client = None;
        server.life.since = self.now;
        self.todo.push_back(Todo::Free(server_index));
        if session {
            // The server takes its settings; now one that begins with them.
            client.start = Arc::clone(&greeting.settings);
            self.todo.push_back(Todo::Enter(index, client.id));
        } else {
            self.greet(reactor, index, &greeting, None);
        }
    }

    /// Gives a client the key of its cancel requests. With peering its number says which process it belongs to, and cannot be `pid`.
    fn give_key(&mut self, index: usize, pid: Option<u32>) {
        let keys = self.shared.keys_of_clients;
        let pid = pid
            .filter(|_| keys.peer_id == 0)
            .unwrap_or_else(|| keys.pid(self.index, index));
        let phase = self.clients.get(index).map(|client| &client.phase);
        let Some(Phase::Greeting(entrance)) = phase else {
            return;
        };
        let secret = self.new_secret(pid, entrance.startup.secret_bytes());
        if let Some(client) = self.clients.get_mut(index) {
            (client.pid, client.secret) = (pid, secret);
        }
    }

    /// Tells a client that it is in. `pid` is the process that serves it until it leaves, where there is one.
    fn greet(&mut self, reactor: &mut R, index: usize, greeting: &Greeting, pid: Option<u32>) {
        self.give_key(index, pid);
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let Phase::Greeting(entrance) = std::mem::replace(&mut client.phase, Phase::Ready) else {
            return;
        };
        client.settings = Arc::clone(&greeting.settings);
        client.start = Arc::clone(&greeting.settings);
        let parameters = greeting.parameters.iter();
        let parameters = parameters.map(|(name, value)| (name.as_str(), value.as_str()));
        let out = welcome(&entrance.startup, parameters, client.pid, &client.secret);
        client.transport.send(reactor, &out);
        client.since = self.now;
        if self.files.config.proxy.log_connections {
            log_client!(client, tls = client.transport.tls.is_some(), "login");
        }
        if !client.inbox.is_empty() {
            self.serve_soon(index);
        }
        if self.stopping {
            // It came in just before the end began.
            self.dismiss_client(reactor, index);
        }
    }

    /// Makes a client one of the console's.
    fn enter_console(&mut self, reactor: &mut R, index: usize) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let proxy = &self.files.config.proxy;
        let named = |names: &[String]| names.iter().any(|name| **name == *client.user);
        let admin = named(&proxy.admin_users) || is_own(client);
        if !admin && !named(&proxy.stats_users) {
            let refusal = Refusal::new(code::INVALID_AUTHORIZATION, "not allowed")
                .hint("admin_users and stats_users name who may use the console.");
            return self.refuse_client(reactor, index, &refusal);
        }
        let most = proxy.max_db_client_connections;
        if let Err(refusal) = self.count_client(index, (!admin).then_some(most)) {
            return self.refuse_client(reactor, index, &refusal);
        }
        self.give_key(index, None);
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let Phase::Greeting(entrance) = std::mem::replace(&mut client.phase, Phase::Console) else {
            return;
        };
        client.admin = admin;
        self.shared.consoles.fetch_add(1, Ordering::Relaxed);
        let parameters = [
            ("server_version", concat!(env!("CARGO_PKG_VERSION"), "/corun")),
            ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "GMT"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", "on"),
        ];
        let out = welcome(
            &entrance.startup,
            parameters.into_iter(),
            client.pid,
            &client.secret,
        );
        client.transport.send(reactor, &out);
    }
}

/// Whether a process of the pooler's own user has come over a Unix socket under PgBouncer's name for it: it may do anything anyway.
fn is_own(client: &Client) -> bool {
    &*client.user == "pgbouncer"
        && matches!(client.peer, Some(Peer::Unix { uid, .. }) if uid == corun_net::users::own_user_id())
}

/// What a client is told of why it does not get in; the log has the rest.
fn denied(denial: &Denial, client: &Client) -> Refusal {
    log_client!(client, "login refused: {}", denial.reason);
    denial.refusal.clone()
}

/// An IPv4 address that came in over an IPv6 socket is an IPv4 address to rules.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
