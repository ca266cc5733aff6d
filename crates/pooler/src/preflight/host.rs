//! One server: who gets in there, what it says of itself, and what its processes allow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use corun_net::process::{self, Refusal, Route, SystemProcesses};
use corun_net::reactor::{Peer, Stream};
use corun_topology::affinity;

use super::judge::{self, Facts};
use super::login::{LoggedInWith, Passwords, open};
use super::plan::{Account, Server};
use super::{Level, Line, accounts, or_refusal};
use crate::config::Switch;
use crate::core::ConfigFiles;
use crate::hosts::ProbeError;
use crate::hosts::probe::{Level as Ask, read_row};
use crate::talk::{Conversation, Rows, TalkError, Target};
use corun_wire::auth::Credentials;

/// Everything a server says of itself, for PostgreSQL 10 and newer and any account.
const FACTS: &str = "SELECT pg_catalog.pg_is_in_recovery(), \
     pg_catalog.current_setting('max_connections'), pg_catalog.current_setting('superuser_reserved_connections'), \
     pg_catalog.current_setting('reserved_connections', true), \
     (SELECT pg_catalog.sum(numbackends) FROM pg_catalog.pg_stat_database), \
     pg_catalog.current_setting('update_process_title'), pg_catalog.current_setting('track_activities'), \
     pg_catalog.current_setting('default_transaction_read_only'), pg_catalog.pg_backend_pid(), \
     pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())";

/// The most connections the account and the database may have; -1: no limit.
const LIMITS: &str = "SELECT (SELECT rolconnlimit FROM pg_catalog.pg_roles WHERE rolname = current_user), \
     (SELECT datconnlimit FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

/// Whether each server that answered is in recovery.
pub(super) type Roles = BTreeMap<String, bool>;

/// Looks at a server.
pub(super) fn check(
    files: &ConfigFiles,
    server: &Server,
    limit: Duration,
    passwords: &mut Passwords<'_>,
    roles: &mut Roles,
    tell: &mut dyn FnMut(Line),
) {
    let about = server.endpoint.to_string();
    if server.accounts.is_empty() {
        tell(reach(files, server, &about, limit));
    }
    let mut told = false;
    for account in &server.accounts {
        let target = accounts::target(files, &account.effective, &server.endpoint, limit);
        let began = Instant::now();
        let (mut talk, with) = match open(files, &target, passwords) {
            Ok(opened) => opened,
            Err(failed) => {
                let line = judge::failed_login(&about, &target.user, &target.database, &failed);
                let console = failed.error.is_password() && may_be_the_consoles(files, account);
                tell(if console && !failed.given {
                    judge::only_console(line)
                } else {
                    line
                });
                if failed.is_away() {
                    return;
                }
                continue;
            }
        };
        let first = !std::mem::replace(&mut told, true);
        if first {
            let text = format!(
                "connected and logged in within {:.1} ms",
                began.elapsed().as_secs_f64() * 1e3
            );
            tell(Line::ok("reachable", &about, text));
            tell(judge::tls(&about, talk.tls().as_deref(), talk.is_local()));
        }
        login(&about, account, &mut talk, with, tell);
        if first
            && let Err(error) = look(
                files,
                server,
                &about,
                (&mut talk, target.user.as_str()),
                roles,
                tell,
            )
        {
            tell(
                Line::fail("questions", &about, error.to_string())
                    .hint("The account must be able to run a plain SELECT."),
            );
        }
    }
}

/// Whether an account may be nothing but a user of the console, whom servers need not know.
fn may_be_the_consoles(files: &ConfigFiles, account: &Account) -> bool {
    let (proxy, effective) = (&files.config.proxy, &account.effective);
    let mut console = proxy.admin_users.iter().chain(&proxy.stats_users);
    console.any(|user| *user == effective.user)
        && !effective.forced_user
        && effective.auth_user.as_ref() != Some(&effective.user)
}

/// Whether somebody is there, where nobody is known who could log in.
fn reach(files: &ConfigFiles, server: &Server, about: &str, limit: Duration) -> Line {
    let target = Target {
        endpoint: server.endpoint.clone(),
        database: String::new(),
        user: String::new(),
        credentials: Credentials::default(),
        tls: files.tls_client.clone(),
        parameters: Vec::new(),
        limit,
    };
    match Conversation::reach(&target) {
        Ok(()) => Line::ok("reachable", about, "connected; nobody logged in"),
        Err(error) => judge::refused(about, "nobody", "none", &error),
    }
}

fn login(
    about: &str,
    account: &Account,
    talk: &mut Conversation,
    with: LoggedInWith,
    tell: &mut dyn FnMut(Line),
) {
    let (user, database) = (&account.effective.user, &account.effective.dbname);
    let limits = talk.query(LIMITS).ok();
    let limit = |column| {
        limits
            .as_ref()
            .and_then(|rows| number(rows, column))
            .unwrap_or(-1)
    };
    let limits = (limit(0), limit(1));
    let asked = talk.asked();
    let line = judge::login(about, user, database, asked, account.wanted, limits);
    tell(judge::got_in_with(with, line));
}

/// All that needs one connection only.
fn look(
    files: &ConfigFiles,
    server: &Server,
    about: &str,
    (talk, user): (&mut Conversation, &str),
    roles: &mut Roles,
    tell: &mut dyn FnMut(Line),
) -> Result<(), TalkError> {
    let shown = talk
        .reported("server_version")
        .unwrap_or("of unknown version")
        .to_owned();
    let version = number(&talk.query("SHOW server_version_num")?, 0);
    let line = judge::version(about, version.unwrap_or(0), &shown);
    let old = line.level == Level::Fail;
    tell(line);
    if old {
        return Ok(());
    }
    let asked = Instant::now();
    let rows = talk.query(FACTS)?;
    let (facts, epoch) = facts(&rows);
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    roles.insert(about.to_owned(), facts.in_recovery);
    tell(judge::role(about, &facts, server.grouped));
    tell(judge::connections(about, &facts, server.wanted, server.wildcard));
    tell(judge::between(about, talk.pid(), facts.pid));
    if server.grouped {
        tell(lag(about, talk, user)?);
    }
    tell(judge::reset(about, reset(talk)?));
    let tcp = matches!(talk.stream(), Stream::Tcp(_)) && talk.is_local();
    let binds = files.config.corun.bind_backends != Switch::Off;
    tell(judge::titles(about, &facts, binds && tcp));
    tell(binding(files.config.corun.bind_backends, about, talk));
    let theirs = Duration::try_from_secs_f64(epoch).unwrap_or_default();
    tell(judge::clock(about, ours, theirs, asked.elapsed()));
    Ok(())
}

/// The row of [`FACTS`], and the server's clock.
fn facts(rows: &Rows) -> (Facts, f64) {
    let count = |column| number::<u64>(rows, column).unwrap_or(0);
    let on = |column| rows.value(column) == Some("on");
    let facts = Facts {
        in_recovery: rows.value(0) == Some("t"),
        connections_max: count(1),
        reserved: count(2).saturating_add(count(3)),
        // Our own is among them.
        connected: count(4).saturating_sub(1),
        titles: on(5),
        activities: on(6),
        read_only: on(7),
        pid: number(rows, 8).unwrap_or(0),
    };
    (facts, number(rows, 9).unwrap_or(0.0))
}

/// A value of the first row.
fn number<T: std::str::FromStr>(rows: &Rows, column: usize) -> Option<T> {
    rows.value(column)?.parse().ok()
}

/// Asks as the proxy does for role and lag.
fn lag(about: &str, talk: &mut Conversation, user: &str) -> Result<Line, TalkError> {
    let mut level = Ask::Full;
    let mut why = String::new();
    loop {
        let failed = match talk.query(level.sql()) {
            Ok(found) => {
                let row = found.rows.first().cloned().unwrap_or_default();
                let row: Vec<Option<&[u8]>> = row
                    .iter()
                    .map(|value| value.as_deref().map(str::as_bytes))
                    .collect();
                match read_row(&row, Duration::ZERO) {
                    Ok(_) => return Ok(judge::lag(about, level == Ask::Full, &why, user)),
                    Err(error) => error,
                }
            }
            Err(TalkError::Failed(said)) => ProbeError::Server {
                sqlstate: said.code,
                message: said.message,
            },
            Err(error) => return Err(error),
        };
        why = failed.to_string();
        match level.after(&failed) {
            Some(less) => level = less,
            None => return Ok(Line::fail("lag", about, why).hint("Without it nobody knows who is primary.")),
        }
    }
}

/// Prepares a statement, cleans the session, and counts what is left. Nothing of it outlives the connection.
fn reset(talk: &mut Conversation) -> Result<Result<u64, String>, TalkError> {
    for sql in [
        "PREPARE corun_preflight AS SELECT 1",
        "EXECUTE corun_preflight",
        "DISCARD ALL",
    ] {
        if let Err(why) = or_refusal(talk.query(sql))? {
            return Ok(Err(why));
        }
    }
    let left = talk.query("SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_statements")?;
    Ok(Ok(number(&left, 0).unwrap_or(0)))
}

/// Binds the process behind our own connection, as the proxy would.
fn binding(switch: Switch, about: &str, talk: &Conversation) -> Line {
    if switch == Switch::Off {
        return Line::ok("binding", about, "bind_backends is off");
    }
    let unknown = |why: &str| Line::warn("binding", about, why);
    let route = match (talk.stream(), talk.stream().peer()) {
        (Stream::Unix(_), Some(Peer::Unix { pid, .. })) => Route::Unix { listener: pid },
        (Stream::Tcp(_), Some(Peer::Tcp(peer))) => match talk.stream().local() {
            Some(local) => Route::Tcp { local, peer },
            None => return unknown("the connection has no address of its own"),
        },
        _ => return unknown("the kernel does not say who is at the other end"),
    };
    let cpus = affinity::allowed_cpus().unwrap_or_default();
    let bound = process::verify_backend(&SystemProcesses, talk.pid(), &route).and_then(|backend| {
        for &cpu in &cpus {
            process::bind(&SystemProcesses, &backend, cpu)?;
        }
        process::unbind(&SystemProcesses, &backend)
    });
    match bound {
        Ok(()) => {
            let count = cpus.len();
            let text = format!("backends can be bound to all {count} processors of the pooler");
            Line::ok("binding", about, text)
        }
        Err(refusal) => {
            let local = !matches!(refusal, Refusal::Remote { .. });
            let wanted = local || switch == Switch::On;
            let level = if wanted { Level::Warn } else { Level::Ok };
            Line::new(level, "binding", about, refusal.to_string())
                .hint("Everything else works without; bind_backends = \"off\" says that it is not wanted.")
        }
    }
}
