//! The console: a database of the pooler's own that shows its state and takes orders.
//!
//! ```text
//!  bytes ─► console_bytes ─► admin::Console ─► Command ─► done here, or an Order to all loops
//!                                                              │ console_answered: rows, or not over yet
//!                                              answer ◄────────┴◄─ consoles_tick asks again (PAUSE, WAIT_CLOSE)
//! ```

pub(in crate::core) mod ask;
pub(in crate::core) mod known_rows;
pub(in crate::core) mod look;
pub(in crate::core) mod metrics;
pub(in crate::core) mod prepared_look;
pub(in crate::core) mod queries;
pub(in crate::core) mod rows;
pub(in crate::core) mod statistics;
pub(in crate::core) mod stats_log;
pub(in crate::core) mod stopped;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use corun_net::reactor::Reactor;

use crate::admin::{
    Answer, AveragesRow, CLIENT_IDS, Command, Console, Show, Shutdown, StateRow, Stats, StatsRow, Step,
    Table, TotalsRow, config_rows, overall,
};
use crate::config::CONSOLE;
use crate::core::config_files::ConfigFiles;
use crate::core::console::ask::{Answers, Order, Part};
use crate::core::console::look::LISTENS;
use crate::core::event_loop::EventLoop;
use crate::core::ranges::range_rows;
use crate::core::route::resolve::KnownName;
use corun_wire::error::{Refusal, code};
use corun_wire::{HEADER_BYTES, frontend, header};

/// Longest message to the console.
const MESSAGE_MAX: usize = 16 << 10;

/// A client's session with the console.
#[derive(Debug)]
pub(in crate::core) struct ConsoleSession {
    console: Console,
    /// What the loops have been asked for, or will be again.
    running: Option<Command>,
    /// The loops have answered that it is not over yet.
    again: bool,
}

impl ConsoleSession {
    /// For a user who may change things, or only look.
    pub fn new(admin: bool) -> Self {
        Self {
            console: Console::new(admin, env!("CARGO_PKG_VERSION")),
            running: None,
            again: false,
        }
    }
}

/// What becomes of a command.
enum Outcome {
    Answered(Result<Answer, Refusal>),
    /// The loops are asked.
    Asked(Order),
}

impl<R: Reactor> EventLoop<R> {
    /// Bytes of a console client; returns whether a message was taken, or why the client has to go.
    pub(in crate::core) fn console_bytes(&mut self, reactor: &mut R, index: usize) -> Result<bool, Refusal> {
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(false);
        };
        let admin = client.admin;
        let session = client
            .console
            .get_or_insert_with(|| Box::new(ConsoleSession::new(admin)));
        if session.running.is_some() {
            return Ok(false);
        }
        let head = match header(&client.inbox) {
            Ok(Some(head)) if head.total <= MESSAGE_MAX => head,
            Ok(None) => return Ok(false),
            _ => return Err(Refusal::new(code::PROTOCOL_VIOLATION, "invalid message length")),
        };
        if client.inbox.len() < head.total {
            return Ok(false);
        }
        let mut out = Vec::new();
        let step = session
            .console
            .message(head.tag, &client.inbox[HEADER_BYTES..head.total], &mut out);
        client.inbox.drain(..head.total);
        client.since = self.now;
        client.transport.send(reactor, &out);
        if matches!(head.tag, frontend::QUERY | frontend::EXECUTE) {
            self.shared.console_commands.fetch_add(1, Ordering::Relaxed);
        }
        match step {
            Step::Next => {}
            Step::End => {
                self.close_client(reactor, index, "the console's client left");
                return Ok(false);
            }
            Step::Run(command) => self.console_runs(reactor, index, command),
        }
        Ok(true)
    }

    fn console_runs(&mut self, reactor: &mut R, index: usize, command: Command) {
        let outcome = self.command(&command);
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        match outcome {
            Outcome::Answered(answer) => self.console_says(reactor, index, answer),
            Outcome::Asked(order) => {
                let id = client.id;
                if let Some(session) = &mut client.console {
                    session.running = Some(command);
                }
                self.ask_all(&order, index, id);
            }
        }
    }

    fn console_says(&mut self, reactor: &mut R, index: usize, answer: Result<Answer, Refusal>) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let Some(session) = &mut client.console else {
            return;
        };
        session.running = None;
        session.again = false;
        let mut out = Vec::new();
        session.console.answer(answer, &mut out);
        client.transport.send(reactor, &out);
    }

    /// All loops have answered a question of a console client.
    pub(in crate::core) fn console_answered(
        &mut self,
        reactor: &mut R,
        slot: usize,
        id: u64,
        answers: &Arc<Answers>,
    ) {
        let Some(client) = self.clients.get_mut(slot).filter(|client| client.id == id) else {
            return;
        };
        let Some(session) = &mut client.console else {
            return;
        };
        let Some(command) = session.running.clone() else {
            return;
        };
        let parts = answers.parts();
        if is_over(&command, &parts, session.again) {
            let answer = self.answer_of(&command, &parts);
            self.console_says(reactor, slot, answer);
            // What came meanwhile.
            self.entrance(reactor, slot);
        } else if let Some(session) = self
            .clients
            .get_mut(slot)
            .and_then(|client| client.console.as_mut())
        {
            session.again = true;
        }
    }

    /// Asks again for those whose commands are not over yet.
    pub(in crate::core) fn consoles_tick(&mut self) {
        let waiting: Vec<(usize, u64)> = self
            .clients
            .iter()
            .filter(|(_, client)| client.console.as_ref().is_some_and(|session| session.again))
            .map(|(index, client)| (index, client.id))
            .collect();
        for (index, id) in waiting {
            self.ask_all(&Order::Look, index, id);
        }
    }

    /// Does what this loop can do, or says what all must be asked.
    fn command(&mut self, command: &Command) -> Outcome {
        if let Some(name) = database_of(command)
            && self.files.config.effective_database(name, "").is_none()
        {
            let message = format!("no such database: {name}");
            return Outcome::Answered(Err(Refusal::new(code::INVALID_CATALOG, message)));
        }
        let shared = Arc::clone(&self.shared);
        let mut stopped = shared.stopped.lock();
        match command {
            Command::Show(Show::Config) => {
                Outcome::Answered(Ok(Answer::Table(Table::of(&config_rows(&self.files.config)))))
            }
            Command::Pause(name) => {
                if !stopped.pause(name.as_deref()) {
                    return Outcome::Answered(Err(Refusal::new(code::NOT_NOW, "already paused")));
                }
                Outcome::Asked(Order::Pause(name.clone()))
            }
            Command::Resume(_) if shared.leaving.load(Ordering::Relaxed) => {
                let refusal = Refusal::new(code::PROTOCOL_VIOLATION, "pooler is shutting down");
                Outcome::Answered(Err(refusal))
            }
            Command::Resume(name) => {
                if !stopped.resume(name.as_deref()) {
                    return Outcome::Answered(Err(Refusal::new(code::NOT_NOW, "not paused")));
                }
                Outcome::Asked(Order::Resume(name.clone()))
            }
            Command::Kill(name) => {
                stopped.pause(name.as_deref());
                Outcome::Asked(Order::Kill(name.clone()))
            }
            Command::Disable(name) => {
                stopped.disabled.insert(name.clone());
                Outcome::Asked(Order::Disable(name.clone(), true))
            }
            Command::Enable(name) => {
                stopped.disabled.remove(name);
                Outcome::Asked(Order::Disable(name.clone(), false))
            }
            Command::KillClient(id) => Outcome::Asked(Order::KillClient(*id)),
            Command::Reconnect(name) => Outcome::Asked(Order::Reconnect(name.clone())),
            Command::Shutdown(Shutdown::WaitForClients) => Outcome::Asked(Order::Drain),
            Command::Shutdown(kind) => {
                let at_once = *kind == Shutdown::Immediate;
                if at_once {
                    shared.stopping.store(true, Ordering::Relaxed);
                }
                Outcome::Asked(Order::Shutdown { at_once })
            }
            // As PAUSE, but it waits for nobody.
            Command::Suspend => {
                if !stopped.pause(None) {
                    return Outcome::Answered(Err(Refusal::new(code::NOT_NOW, "already paused")));
                }
                Outcome::Asked(Order::Pause(None))
            }
            Command::Reload => Outcome::Answered(self.reload()),
            Command::Set { key, value } => Outcome::Answered(self.set(key, value)),
            Command::Show(Show::Prepared) => Outcome::Asked(Order::Prepared),
            Command::Show(Show::Queries) => Outcome::Asked(Order::Queries),
            Command::Show(_) | Command::WaitClose(_) | Command::Empty => Outcome::Asked(Order::Look),
        }
    }

    /// Reads the files again. What is wrong in them leaves everything as it was.
    fn reload(&self) -> Result<Answer, Refusal> {
        let Some(file) = &self.files.file else {
            return Err(Refusal::new(
                code::NOT_SUPPORTED,
                "the pooler was not started from a file",
            ));
        };
        match ConfigFiles::load(file) {
            Ok((files, findings)) => {
                let mut notices = Vec::new();
                let warnings = findings.iter().map(ToString::to_string);
                for warning in warnings.chain(files.warnings.iter().cloned()) {
                    tracing::warn!("{warning}");
                    notices.push(match warning.split_once("\nhint: ") {
                        Some((what, hint)) => Refusal::new(code::SUCCESS, what).hint(hint),
                        None => Refusal::new(code::SUCCESS, warning),
                    });
                }
                for key in self.files.config.restart_needed(&files.config) {
                    tracing::warn!(key, "the changed setting takes effect at the next start");
                    let text = format!("\"{key}\" changed, takes effect at the next start");
                    notices.push(Refusal::new(code::SUCCESS, text));
                }
                self.shared.open_heavy_queue(&files.config);
                self.shared.change_config(Arc::new(files));
                Ok(Answer::Noticed(notices))
            }
            Err(error) => {
                tracing::error!("the configuration was not reloaded: {error}");
                Err(
                    Refusal::new(code::CONFIG_FILE, "the configuration was not reloaded")
                        .detail(error.to_string()),
                )
            }
        }
    }

    fn set(&self, key: &str, value: &str) -> Result<Answer, Refusal> {
        let wrong = |message: String| Refusal::new(code::INVALID_PARAMETER_VALUE, message);
        let mut config = self.files.config.clone();
        config.set(key, value).map_err(wrong)?;
        let files = match key.contains("_tls_") && key.ends_with("_file") {
            true => ConfigFiles::of_set(config, &self.files),
            false => ConfigFiles::of(config),
        };
        let mut files = files.map_err(|error| wrong(error.to_string()))?;
        files.file = self.files.file.clone();
        self.shared.change_config(Arc::new(files));
        Ok(Answer::Done)
    }

    fn answer_of(&self, command: &Command, parts: &[Part]) -> Result<Answer, Refusal> {
        let show = match command {
            Command::Show(show) => *show,
            Command::KillClient(_) if parts.iter().all(|part| part.touched == 0) => {
                // In PgBouncer's words and with its code.
                return Err(Refusal::new(code::PROTOCOL_VIOLATION, "client not found").hint(CLIENT_IDS));
            }
            _ => return Ok(Answer::Done),
        };
        let config = &self.files.config;
        // Before 1970 a clock is wrong, and its times show it.
        let unix_now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        Ok(Answer::Table(match show {
            Show::Pools => Table::of(&rows::pools(parts)),
            Show::Clients => Table::of(&rows::clients(parts, unix_now)),
            Show::Servers => Table::of(&rows::servers(parts, unix_now)),
            Show::Sockets => Table::of(&rows::sockets(parts, unix_now, false)),
            Show::ActiveSockets => Table::of(&rows::sockets(parts, unix_now, true)),
            Show::Cores => Table::of(&rows::cores(parts)),
            Show::Hosts => {
                let status = |name: &str| {
                    let hosts = self.shared.fleets.lock().get(name).map(Arc::clone);
                    hosts.map(|hosts| hosts.status()).unwrap_or_default()
                };
                Table::of(&rows::hosts(parts, config, status, self.shared.started.elapsed()))
            }
            Show::Lists => Table::of(&rows::lists(
                parts,
                config,
                self.users(parts).len(),
                &self.names(),
            )),
            Show::Memory => Table::of(&rows::memory(parts)),
            Show::Databases => {
                let stopped = self.shared.stopped.lock();
                Table::of(&known_rows::databases(parts, config, &stopped))
            }
            Show::Users => Table::of(&known_rows::users(parts, config, self.users(parts))),
            Show::State => self.state(),
            Show::Stats | Show::StatsTotals | Show::StatsAverages | Show::Totals => self.stats(show, parts),
            Show::Cohorts => Table::of(&rows::cohorts(parts)),
            Show::Ranges => {
                let on = |database: &str| {
                    let pools = self
                        .pools
                        .iter()
                        .filter(|(_, pool)| *pool.key.database == *database);
                    pools.map(|(pool, _)| pool).any(|pool| self.keys_decide(pool))
                };
                Table::of(&range_rows::ranges(
                    &self.shared.ranges.lock(),
                    &self.ranges.cpus,
                    on,
                ))
            }
            Show::Splits => Table::of(&range_rows::splits(parts)),
            Show::Keys => Table::of(&range_rows::keys(&self.shared.ranges.lock())),
            Show::Prepared => Table::of(&known_rows::prepared(parts)),
            Show::Queries => Table::of(&queries::rows(parts)),
            Show::Queue => Table::of(&self.shared.heavy_queue.queue(self.heavy_queue_now_ns())),
            Show::HeavyQueue => Table::of(&self.shared.heavy_queue.slowdowns()),
            Show::DnsHosts => Table::of(&known_rows::dns_hosts(&self.names())),
            Show::Peers => Table::of(&known_rows::peers(config)),
            Show::PeerPools => {
                let rows: Vec<_> = parts.iter().flat_map(|part| part.peers.clone()).collect();
                Table::of(&rows)
            }
            // The console answers these by itself.
            Show::Help | Show::Config | Show::DnsZones | Show::Version => {
                return Ok(Answer::Done);
            }
        }))
    }

    /// Names of hosts whose addresses are known.
    fn names(&self) -> Vec<KnownName> {
        self.shared.resolver.known(self.files.names_kept())
    }

    /// Users of the files, those that `auth_query` found, and those that are connected.
    fn users(&self, parts: &[Part]) -> BTreeSet<String> {
        let mut users: BTreeSet<String> = self.files.config.users.keys().cloned().collect();
        users.extend(self.files.users.names().map(str::to_owned));
        users.extend(self.shared.users_with_secret());
        let clients = parts.iter().flat_map(|part| &part.clients);
        users.extend(
            clients
                .filter(|client| client.is_in())
                .map(|client| client.user.to_string()),
        );
        let servers = parts.iter().flat_map(|part| &part.servers);
        users.extend(
            servers
                .filter(|server| server.state != "login")
                .map(|server| server.user.clone()),
        );
        users
    }

    fn state(&self) -> Table {
        let paused = self.shared.stopped.lock().all;
        let row = |key: &str, yes: bool| StateRow {
            key: key.to_owned(),
            value: if yes { "yes" } else { "no" }.to_owned(),
        };
        Table::of(&[
            row("active", !paused),
            row("paused", paused),
            row("suspended", false),
        ])
    }

    /// Averages are since the counters were last put aside, which is done when they are older than `stats_period`.
    fn stats(&self, show: Show, parts: &[Part]) -> Table {
        let mut all = rows::stats(parts);
        // Each command is one query and one transaction.
        let commands = self.shared.console_commands.load(Ordering::Relaxed);
        let own = Stats {
            xact_count: commands,
            query_count: commands,
            ..Stats::default()
        };
        all.insert(CONSOLE.to_owned(), own);
        let mut earlier = self.shared.earlier.lock();
        let period = self.now.saturating_sub(earlier.0);
        let since = |name: &str, now: &Stats| now.since(earlier.1.get(name).unwrap_or(&Stats::default()));
        let table = match show {
            Show::Stats => {
                let row =
                    |(name, total): (&String, &Stats)| StatsRow::of(name, total, &since(name, total), period);
                Table::of(&all.iter().map(row).collect::<Vec<_>>())
            }
            Show::StatsTotals => {
                let row = |(name, total): (&String, &Stats)| TotalsRow::of(name, total);
                Table::of(&all.iter().map(row).collect::<Vec<_>>())
            }
            Show::StatsAverages => {
                let row =
                    |(name, total): (&String, &Stats)| AveragesRow::of(name, &since(name, total), period);
                Table::of(&all.iter().map(row).collect::<Vec<_>>())
            }
            _ => {
                let sum = |sum: Stats, stats: Stats| sum.plus(&stats);
                let total = all.values().copied().fold(Stats::default(), sum);
                let last = all
                    .iter()
                    .map(|(name, total)| since(name, total))
                    .fold(Stats::default(), sum);
                Table::of(&overall(&total, &last, period))
            }
        };
        if period >= self.files.config.proxy.stats_period {
            *earlier = (self.now, all);
        }
        table
    }
}

/// The database a command names, where there must be one.
fn database_of(command: &Command) -> Option<&str> {
    match command {
        Command::Pause(name)
        | Command::Resume(name)
        | Command::Kill(name)
        | Command::Reconnect(name)
        | Command::WaitClose(name) => name.as_deref(),
        Command::Disable(name) | Command::Enable(name) => Some(name),
        _ => None,
    }
}

/// Whether a command has come to its end. `looked`: the parts are of a look, not of the order itself.
fn is_over(command: &Command, parts: &[Part], looked: bool) -> bool {
    let of = |name: &Option<String>, database: &str| name.as_deref().is_none_or(|name| name == database);
    let mut servers = parts.iter().flat_map(|part| &part.servers);
    match command {
        // Every server has gone.
        // Those that listen for clients are no clients'.
        Command::Pause(name) => {
            looked && !servers.any(|server| of(name, &server.database) && server.state != LISTENS)
        }
        // Those that must go have.
        Command::WaitClose(name) => !servers.any(|server| server.closing && of(name, &server.database)),
        _ => true,
    }
}
