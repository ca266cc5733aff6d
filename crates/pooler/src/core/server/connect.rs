//! How the proxy gets in at a server, and how connections end.

use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::{Address, Reactor};

use crate::core::event_loop::{EventLoop, Todo, server_token};
use crate::core::pool::Pool;
use crate::core::pool::process::ServerKey;
use crate::core::route::fleet::endpoint;
use crate::core::route::resolve::Found;
use crate::core::server::session::ServerSession;
use crate::core::server::{Phase, Question, Server, ServerHost, TaskKind};
use crate::core::shared::{Login, Message};
use crate::hosts::Report;
use corun_wire::auth::server_login::LoginOptions;
use corun_wire::auth::{LoginStep, ServerLogin};
use corun_wire::error::{Refusal, Reported, code};
use corun_wire::tls;
use corun_wire::transport::Transport;
use corun_wire::{HEADER_BYTES, backend, build, header, read};

/// Longest message of a server that is logged in to.
const LOGIN_MESSAGE_MAX: usize = 64 << 10;

/// What became of the request to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Attempt {
    /// The connection is on its way.
    Begun,
    /// The pool, its database or its user has no room for it.
    Full,
    /// Not now: an address is looked up, or something failed.
    Later,
}

/// Those that wait for a host have it tried again after this time at the earliest, whatever `server_login_retry` says.
const RETRY_MIN: Duration = Duration::from_millis(100);

fn no_postgresql() -> Refusal {
    Refusal::new(
        code::CANNOT_CONNECT,
        "the server does not speak PostgreSQL's protocol",
    )
}

/// The server does not respond.
pub(in crate::core) const CONNECT_TIMEOUT: &str = "server_connect_timeout";

/// The server is there, and it has no TLS that the configuration takes.
pub(in crate::core) const TLS_FAILED: &str = "TLS with the server failed";

/// The server is there, and it does not let the pooler in.
const LOGIN_FAILED: &str = "login failed";
/// The same, to clients.
const SERVER_LOGIN_FAILED: &str = "server login failed";

/// Clients are told in the server's words, as by PgBouncer.
fn login_failed(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(code::CANNOT_CONNECT, error.to_string()).detail(SERVER_LOGIN_FAILED)
}

fn is_login_failed(refusal: &Refusal) -> bool {
    refusal.detail.as_deref() == Some(SERVER_LOGIN_FAILED)
}

impl<R: Reactor> EventLoop<R> {
    /// Makes connections while clients of a pool wait for more than are on their way.
    pub(in crate::core) fn connect_if_wanted(&mut self, reactor: &mut R, index: usize) {
        let reserve_after = self.files.config.proxy.reserve_pool_timeout;
        loop {
            let Some(pool) = self.pools.get(index) else {
                return;
            };
            if !pool.wants_server() {
                return self.sated(index);
            }
            if self.settle_for_waiting(reactor, index) {
                return;
            }
            let Some(pool) = self.pools.get(index) else {
                return;
            };
            if pool.has_share() {
                if pool.failed.as_ref().is_some_and(|(_, until)| self.now < *until) {
                    return self.hungry(index);
                }
                match self.connect(reactor, index, pool.most(self.now, reserve_after)) {
                    Attempt::Begun => continue,
                    Attempt::Later => return,
                    Attempt::Full => {}
                }
            }
            let Some(unfit) = self.pools.get(index).and_then(Pool::unfit) else {
                self.connect_beside(reactor, index);
                return self.hungry(index);
            };
            self.close_server(
                reactor,
                unfit,
                "the connection began with other settings than those of the clients that wait",
            );
        }
    }

    /// Begins to connect a pool to its server, unless the pools of all loops have `most` connections.
    pub(in crate::core) fn connect(&mut self, reactor: &mut R, index: usize, most: usize) -> Attempt {
        let start = Arc::new(self.next_start(index));
        let Some(pool) = self.pools.get_mut(index) else {
            return Attempt::Later;
        };
        let effective = Arc::clone(&pool.effective);
        let number = pool.hosts.next();
        let Some(endpoint) = endpoint(&effective, pool.key.host, number) else {
            return Attempt::Later;
        };
        let kept = self.files.names_kept();
        let address = match self
            .shared
            .resolver
            .find(&self.shared, endpoint, pool.hosts.turn(), kept)
        {
            Found::Address(address) => address,
            Found::Soon => return Attempt::Later,
            Found::Failed(why) => {
                let refusal = Refusal::new(
                    code::CANNOT_CONNECT,
                    format!("the address of host {} was not found", endpoint.host),
                )
                .detail(why);
                self.connect_failed(reactor, index, number, refusal);
                return Attempt::Later;
            }
        };
        if !pool.all.open(most) {
            return Attempt::Full;
        }
        pool.hosts.used();
        let (database, user) = (Arc::clone(&pool.key.database), Arc::clone(&pool.key.user));
        let limits = (effective.max_db_connections, effective.max_user_connections);
        if let Err(full) = self.shared.server_counts.count(&database, &user, limits) {
            pool.all.closed(true);
            self.make_room(reactor, index, full);
            return Attempt::Full;
        }
        let entry = self.servers.vacant_entry();
        let token = server_token(entry.key());
        reactor.set_buffers(self.files.tcp_buffer());
        if let Err(error) = reactor.connect(token, &address) {
            pool.all.closed(true);
            self.shared.server_counts.uncount(&database, &user);
            let refusal = Refusal::new(code::CANNOT_CONNECT, format!("could not connect to {address}"))
                .detail(error.to_string());
            self.connect_failed(reactor, index, number, refusal);
            return Attempt::Later;
        }
        let host = ServerHost {
            address: Some(address),
            name: endpoint.host.to_string(),
            number,
            replica: false,
        };
        let statements_max = self.files.config.proxy.max_prepared_statements as usize;
        let session = ServerSession::new(start, statements_max);
        let transport = Transport::new(token);
        let id = self.shared.id();
        entry.insert(Box::new(Server::new(
            transport, index, id, self.now, host, session,
        )));
        pool.servers += 1;
        pool.connecting += 1;
        if pool.all.servers() > pool.size {
            tracing::info!(
                database = &*pool.key.database,
                user = &*pool.key.user,
                "taking connection from reserve_pool"
            );
        }
        Attempt::Begun
    }

    /// The kernel has connected.
    pub(in crate::core) fn server_connected(&mut self, reactor: &mut R, index: usize) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let _ = reactor.set_tcp_options(server.token(), &self.files.tcp_options());
        let from = reactor.local(server.token());
        let from = from.map_or_else(|| "unix".to_owned(), |address| address.to_string());
        if self.files.config.proxy.log_connections {
            self.log_server(index, &format!("new connection to server (from {from})"));
        }
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let tcp = matches!(server.host.address, Some(Address::Tcp(_)));
        let wants_tls = tcp
            && self
                .files
                .tls_client
                .as_ref()
                .is_some_and(tls::TlsClient::asks_first);
        if wants_tls {
            server.phase = Phase::AskedForTls;
            reactor.send(server.token(), &build::SSL_REQUEST);
        } else {
            self.log_in(reactor, index);
        }
    }

    /// Sends the start-up packet.
    fn log_in(&mut self, reactor: &mut R, index: usize) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let Some(pool) = self.pools.get(server.pool) else {
            return;
        };
        let effective = Arc::clone(&pool.effective);
        let user = effective.user.as_str();
        let login = Login::of_server(&pool.key.database, &effective);
        let credentials = self.files.credentials(
            &effective,
            self.shared.secret(&login).as_ref(),
            self.shared.learnt(&login),
        );
        let session = server.transport.tls.as_deref();
        let local = match &server.host.address {
            Some(Address::Unix(_)) => true,
            Some(Address::Tcp(address)) => address.ip().is_loopback(),
            None => false,
        };
        let options = LoginOptions {
            tls: session.is_some(),
            end_point: session.and_then(tls::TlsSession::end_point_hash),
            clear_text: local,
        };
        match ServerLogin::new(user, credentials, options, &self.shared.random) {
            Ok(attempt) => {
                server.phase = Phase::LoggingIn {
                    attempt: Box::new(attempt),
                    login,
                    authenticated: false,
                };
                let configured = effective
                    .parameters
                    .iter()
                    .map(|(name, value)| (*name, value.as_bytes()))
                    .filter(|(name, _)| !server.session.start.0.contains_key(*name));
                let own = server
                    .session
                    .start
                    .0
                    .iter()
                    .map(|(name, value)| (name.as_str(), &**value));
                let parameters = [
                    ("user", user.as_bytes()),
                    ("database", effective.dbname.as_bytes()),
                ]
                .into_iter()
                .chain(configured)
                .chain(own);
                let mut out = Vec::new();
                build::startup(&mut out, parameters);
                server.transport.send(reactor, &out);
            }
            Err(error) => self.server_failed(reactor, index, login_failed(error)),
        }
    }

    /// Bytes of a server that is logged in to.
    pub(in crate::core) fn login_bytes(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        if matches!(server.phase, Phase::AskedForTls) {
            return self.tls_answered(reactor, index, bytes);
        }
        let mut joined = std::mem::take(&mut server.reading.partial);
        joined.extend(bytes);
        let mut at = 0;
        loop {
            let (tag, end) = match header(&joined[at..]) {
                Ok(Some(head)) if head.total <= LOGIN_MESSAGE_MAX => (head.tag, at + head.total),
                Ok(None) => break,
                _ => return self.server_failed(reactor, index, no_postgresql()),
            };
            if joined.len() < end {
                break;
            }
            let body = &joined[at + HEADER_BYTES..end];
            at = end;
            if let Err(refusal) = self.login_message(reactor, index, tag, body) {
                return self.server_failed(reactor, index, refusal);
            }
            match self.servers.get(index) {
                None => return,
                Some(server) if server.is_ready() => {
                    // What follows belongs to the session.
                    if at < joined.len() {
                        self.answer(reactor, index, &joined[at..]);
                    }
                    return;
                }
                Some(_) => {}
            }
        }
        if at < joined.len()
            && let Some(server) = self.servers.get_mut(index)
        {
            server.reading.partial = joined.split_off(at);
        }
    }

    fn login_message(&mut self, reactor: &mut R, index: usize, tag: u8, body: &[u8]) -> Result<(), Refusal> {
        let Some(server) = self.servers.get_mut(index) else {
            return Ok(());
        };
        match tag {
            backend::AUTHENTICATION => {
                let Phase::LoggingIn {
                    attempt,
                    login,
                    authenticated,
                } = &mut server.phase
                else {
                    return Ok(());
                };
                match attempt.message(body).map_err(login_failed)? {
                    LoginStep::Send(bytes) => server.transport.send(reactor, &bytes),
                    LoginStep::Wait => {}
                    LoginStep::Done { learnt } => {
                        *authenticated = true;
                        if let Some(keys) = learnt {
                            self.shared.learn(login.clone(), keys);
                        }
                    }
                }
            }
            backend::ERROR => {
                let reported = Reported::read(body);
                let mut refusal = Refusal::new(code::of(&reported.code), reported.message);
                if matches!(refusal.code, code::INVALID_PASSWORD | code::INVALID_AUTHORIZATION) {
                    // The client has proved who it is; the proxy could not.
                    refusal = login_failed(refusal.message);
                }
                return Err(refusal);
            }
            backend::PARAMETER_STATUS => {
                if let Some((name, value)) = read::parameter_status(body) {
                    server.session.parameter(name, value);
                }
            }
            backend::KEY_DATA => {
                if let Some((pid, secret)) = read::key_data(body) {
                    server.process.pid = pid;
                    server.process.secret = secret.to_vec();
                }
            }
            backend::READY if server.phase.is_authenticated() => {
                server.phase = Phase::LoggedIn;
                let connect_query = self
                    .pools
                    .get(server.pool)
                    .and_then(|pool| pool.effective.connect_query.clone());
                match connect_query {
                    Some(sql) => server.start(reactor, TaskKind::Connect, &sql),
                    None => self.server_ready(reactor, index),
                }
            }
            backend::NOTICE | backend::NEGOTIATE => {}
            _ => return Err(no_postgresql()),
        }
        Ok(())
    }

    /// The server's answer to the request for TLS.
    fn tls_answered(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let Some(client) = &self.files.tls_client else {
            return self.log_in(reactor, index);
        };
        let failed = |detail: String| Refusal::new(code::CANNOT_CONNECT, TLS_FAILED).detail(detail);
        match tls::negotiate::answer(bytes) {
            Ok(Some(tls::negotiate::Answer::Tls)) => match client.connect(&server.host.name) {
                Ok(session) => {
                    server.transport.tls = Some(Box::new(session));
                    server.transport.flush(reactor);
                }
                Err(error) => self.server_failed(reactor, index, failed(error.to_string())),
            },
            Ok(Some(tls::negotiate::Answer::Plain)) if client.mode().required() => {
                let refusal = failed("The server does not offer TLS.".to_owned())
                    .hint("Set server_tls_sslmode = \"prefer\", or ssl = on in the server.");
                self.server_failed(reactor, index, refusal);
            }
            Ok(Some(tls::negotiate::Answer::Plain)) => self.log_in(reactor, index),
            Ok(None) => {}
            Err(error) => self.server_failed(reactor, index, failed(error.to_string())),
        }
    }

    /// The handshake may have ended.
    pub(in crate::core) fn tls_progress(&mut self, reactor: &mut R, index: usize) {
        if let Some(server) = self.servers.get(index)
            && matches!(server.phase, Phase::AskedForTls)
            && !server.transport.is_handshaking()
        {
            self.log_in(reactor, index);
        }
    }

    /// A server is logged in to, and its own query has run.
    pub(in crate::core) fn server_ready(&mut self, reactor: &mut R, index: usize) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        server.life.since = self.now;
        if let Some(pool) = self.pools.get_mut(server.pool) {
            pool.connecting -= 1;
            pool.all.connected();
            pool.failed = None;
            pool.hosts.worked();
        }
        server.phase = Phase::Ready;
        let pool = server.pool;
        self.report(reactor, pool, Report::Connected);
        self.bind_backend(reactor, index);
        if !self.asks_first(reactor, index) {
            self.todo.push_back(Todo::Free(index));
        }
    }

    /// A connection could not be made or logged in.
    pub(in crate::core) fn server_failed(&mut self, reactor: &mut R, index: usize, refusal: Refusal) {
        let Some(server) = self.servers.get(index) else {
            return;
        };
        let (pool, host) = (server.pool, server.host.number);
        if let Some(client) = self.asks_in_vain(server, &refusal) {
            self.close_server(reactor, index, &refusal.message);
            return self.refuse_client(reactor, client, &refusal);
        }
        let why = match refusal.code {
            code::CANNOT_CONNECT if refusal.message == CONNECT_TIMEOUT => "connect timeout",
            code::CANNOT_CONNECT if !is_login_failed(&refusal) => "connect failed",
            _ if self.pools.get(pool).is_some_and(Pool::replicates) => LOGIN_FAILED,
            _ => &refusal.message,
        };
        // Before they hear that there is room to try it themselves.
        if is_login_failed(&refusal)
            && let Some(pool) = self.pools.get(pool)
        {
            self.shared.tell_others(self.index, || Message::LoginRefused {
                key: pool.key.servers(),
                refusal: Box::new(refusal.clone()),
            });
        }
        self.close_server(reactor, index, why);
        self.connect_failed(reactor, pool, host, refusal);
    }

    /// What becomes of those that wait for a server when there is none: refused by it, or by its certificate, they are told why; if it cannot
    /// be reached, starts or stops, they wait for the next attempt, as they do in PgBouncer.
    fn connect_failed(&mut self, reactor: &mut R, index: usize, host: usize, refusal: Refusal) {
        let retry = self.files.config.proxy.server_login_retry;
        let Some(pool) = self.pools.get_mut(index) else {
            return;
        };
        // A wrong password is no fault of the host.
        let at_fault = !is_login_failed(&refusal);
        let comes_back = at_fault && code::is_away(refusal.code) && refusal.message != TLS_FAILED;
        let retry = if comes_back { retry.max(RETRY_MIN) } else { retry };
        let what = match refusal.code {
            code::CANNOT_CONNECT if at_fault => refusal.message.clone(),
            _ => format!("server {LOGIN_FAILED}: FATAL {}", refusal.message),
        };
        tracing::warn!(
            database = &*pool.key.database,
            user = &*pool.key.user,
            code = refusal.code,
            detail = refusal.detail.as_deref(),
            "{what}"
        );
        if at_fault && pool.hosts.failed(host) {
            // Another in the list has not been tried yet.
            return self.todo.push_back(Todo::Connect(index));
        }
        pool.failed = Some((refusal.clone(), self.now + retry));
        self.questions_failed(reactor, index, |question| matches!(question, Question::Listen(_)));
        let Some(pool) = self.pools.get_mut(index) else {
            return;
        };
        let others_work = pool.all.connected_servers() > 0;
        if at_fault && self.report(reactor, index, Report::Refused) && !others_work {
            // There may be another host for them: they look again on the next tick.
            return self.questions_failed(reactor, index, |_| true);
        }
        if others_work {
            // Who waits goes on waiting for those.
            return;
        }
        if comes_back {
            return self.questions_failed(reactor, index, |_| true);
        }
        self.refuse_waiting(reactor, index, refusal);
    }

    /// A server has refused another loop's login to a pool: it would refuse this one's as well, and count each.
    pub(in crate::core) fn refused_elsewhere(&mut self, reactor: &mut R, key: &ServerKey, refusal: &Refusal) {
        let until = self.now + self.files.config.proxy.server_login_retry;
        for index in self.pools_of(key) {
            let Some(pool) = self.pools.get_mut(index) else {
                continue;
            };
            if pool.all.connected_servers() == 0 {
                pool.failed = Some((refusal.clone(), until));
                self.refuse_waiting(reactor, index, refusal.clone());
            }
        }
    }

    /// Those that wait for a pool's server are told why there is none.
    fn refuse_waiting(&mut self, reactor: &mut R, index: usize, refusal: Refusal) {
        let refusal = match self.pools.get(index).is_some_and(Pool::replicates) {
            true => Refusal::new(refusal.code, LOGIN_FAILED).detail(refusal.message),
            false => refusal,
        };
        let Some(pool) = self.pools.get_mut(index) else {
            return;
        };
        let refused = pool.waiting.drain();
        for client in refused.iter().map(|waiting| waiting.client) {
            if let Some(client) = self.clients.get_mut(client) {
                client.wait.leave();
            }
            self.refuse_client(reactor, client, &refusal);
        }
        self.questions_failed(reactor, index, |_| true);
    }

    /// The other side has ended a server's connection.
    pub(in crate::core) fn server_closed(
        &mut self,
        reactor: &mut R,
        index: usize,
        error: Option<std::io::Error>,
    ) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        server.life.gone = true;
        if server.is_ready() {
            return self.server_lost(reactor, index, "server conn crashed?");
        }
        let place = server.host.place();
        let why = error.map_or_else(
            || "The server closed the connection.".to_owned(),
            |error| error.to_string(),
        );
        let refusal = Refusal::new(code::CANNOT_CONNECT, format!("could not connect to {place}")).detail(why);
        self.server_failed(reactor, index, refusal);
    }

    fn log_server(&self, index: usize, what: &str) {
        let Some(server) = self.servers.get(index) else {
            return;
        };
        let key = self.pools.get(server.pool).map(|pool| &pool.key);
        tracing::info!(
            server = server.id,
            user = key.map(|key| &*key.user),
            database = key.map(|key| &*key.database),
            host = server.host.place(),
            pid = server.process.pid,
            "{what} (age={}s)",
            self.now.saturating_sub(server.life.created).as_secs()
        );
    }

    /// Ends a server's connection. Its client must have been seen to.
    pub(in crate::core) fn close_server(&mut self, reactor: &mut R, index: usize, why: &str) {
        if self.files.config.proxy.log_disconnections {
            self.log_server(index, &format!("closing because: {why}"));
        }
        let Some(mut server) = self.servers.try_remove(index) else {
            return;
        };
        if !server.life.gone {
            if server.is_ready() {
                let mut out = Vec::new();
                build::bare(&mut out, corun_wire::frontend::TERMINATE);
                server.transport.send(reactor, &out);
            }
            server.transport.end(reactor);
            reactor.close(server.token());
        }
        if let Some(pool) = self.pools.get_mut(server.pool) {
            pool.servers -= 1;
            pool.beside -= usize::from(server.stages.hub.is_some());
            if server.is_connecting() {
                pool.connecting -= 1;
            }
            pool.idle.forget(index);
            pool.lingering.forget(index);
            let hungry = pool.all.closed(server.is_connecting());
            self.shared
                .server_counts
                .uncount(&pool.key.database, &pool.key.user);
            self.todo.push_back(Todo::Connect(server.pool));
            if let Some(event_loop) = hungry {
                self.shared.tell(event_loop, Message::Room(pool.key.servers()));
            }
        }
        if let Some(client) = server.user.client.and_then(|client| self.clients.get_mut(client)) {
            client.server = None;
        }
        self.stages_lost(reactor, index, &server.stages);
        match server.task.map(|task| task.kind) {
            Some(TaskKind::Ask(question)) => {
                self.question_failed(reactor, server.pool, question);
            }
            Some(TaskKind::Catalogue(database)) => self.shared.catalogues.unasked(&database),
            _ => {}
        }
    }
}
