//! What facts mean: pure.

use std::time::Duration;

use super::host::Roles;
use super::login::{FailedLogin, LoggedInWith};
use super::{Level, Line, grant};
use crate::split::quoted_name;
use crate::talk::{Asked, TalkError};
use corun_wire::auth::LoginError;

/// Oldest version of a server, as `server_version_num`.
const VERSION_MIN: u64 = 10_00_00;
/// The first version that is newer than this program.
const VERSION_END: u64 = 19_00_00;
/// Descriptors beside connections: listeners, pollers, logs, libraries.
const DESCRIPTORS_OWN: u64 = 64;
/// A larger difference of clocks is a warning.
const CLOCK_MAX: Duration = Duration::from_secs(5);

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// A replica.
    pub in_recovery: bool,
    /// `max_connections`.
    pub connections_max: u64,
    /// Of these for superusers, and for members of `pg_use_reserved_connections`.
    pub reserved: u64,
    /// Connected now, other than us.
    pub connected: u64,
    /// `update_process_title`.
    pub titles: bool,
    /// `track_activities`.
    pub activities: bool,
    /// `default_transaction_read_only`.
    pub read_only: bool,
    /// The process that answered.
    pub pid: u32,
}

/// Soft and hard limit of open files in the text of `/proc/self/limits`.
pub(super) fn files(limits: &str) -> Option<(u64, u64)> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let mut numbers = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(u64::MAX),
        word => word.parse().ok(),
    });
    Some((numbers.next()??, numbers.next()??))
}

/// Whether clients and servers find descriptors.
pub(super) fn descriptors(limits: Option<(u64, u64)>, clients: u64, servers: u64) -> Line {
    let needed = clients.saturating_add(servers).saturating_add(DESCRIPTORS_OWN);
    match limits {
        None => Line::warn("open_files", "here", "the limit of open files cannot be read")
            .hint("Is /proc mounted?"),
        Some((soft, _)) if soft >= needed => Line::ok(
            "open_files",
            "here",
            format!("{needed} may be needed, {soft} are allowed"),
        ),
        Some((soft, hard)) => {
            let text = format!(
                "{needed} may be needed (max_client_conn {clients}, servers {servers}), and only {soft} are allowed in this shell"
            );
            let raise = if hard >= needed {
                format!("ulimit -n {needed} in the shell that starts it")
            } else {
                format!("the hard limit here is {hard}: raise it in /etc/security/limits.conf")
            };
            Line::warn("open_files", "here", text).hint(format!(
                "Set LimitNOFILE={needed} in the systemd unit (the packaged one has 131072), or {raise}, or lower max_client_conn."
            ))
        }
    }
}

/// Whether the version is one we know.
pub(super) fn version(about: &str, number: u64, text: &str) -> Line {
    let shown = format!("PostgreSQL {text}");
    match number {
        ..VERSION_MIN => Line::fail("version", about, format!("{shown} is too old"))
            .hint("The pooler is made for 10 to 18."),
        VERSION_END.. => Line::warn("version", about, format!("{shown} is newer than this program"))
            .hint("The pooler is made for 10 to 18, and tested with 15."),
        _ if number / 10_000 == 15 => Line::ok("version", about, shown),
        _ => Line::ok(
            "version",
            about,
            format!("{shown}; the pooler is tested with 15, and made for 10 to 18"),
        ),
    }
}

/// Whether the server has room for the pools. `open_ended`: there may be more pools than are known.
pub(super) fn connections(about: &str, facts: &Facts, wanted: u64, open_ended: bool) -> Line {
    let free = facts.connections_max.saturating_sub(facts.reserved);
    let room = format!(
        "max_connections {} less {} reserved",
        facts.connections_max, facts.reserved
    );
    let less = "Lower default_pool_size or reserve_pool_size, set max_db_connections, or raise max_connections on the server.";
    if wanted > free {
        let text = format!("pools may open {wanted} connections, and the server has {free} ({room})");
        return Line::fail("connections", about, text).hint(less);
    }
    if wanted.saturating_add(facts.connected) > free {
        let text = format!(
            "pools may open {wanted} connections, {} are connected now, and the server has {free} ({room})",
            facts.connected
        );
        return Line::warn("connections", about, text).hint(format!(
            "Fine if those connections are the pooler's or end. {less}"
        ));
    }
    let mut text = format!("pools may open {wanted} of {free} connections ({room})");
    if open_ended {
        text.push_str("; each further user or database adds a pool");
    }
    Line::ok("connections", about, text)
}

/// Primary or replica.
pub(super) fn role(about: &str, facts: &Facts, grouped: bool) -> Line {
    match (facts.in_recovery, grouped) {
        (false, _) if facts.read_only => {
            Line::warn("role", about, "primary, but default_transaction_read_only is on")
                .hint("Writes are refused until it is off for this server, database or user.")
        }
        (false, _) => Line::ok("role", about, "primary"),
        (true, true) => Line::ok("role", about, "replica"),
        (true, false) => Line::warn(
            "role",
            about,
            "replica, and the database has no other host: writes are refused",
        )
        .hint("Name the primary in host and this one in replicas, if writes are wanted."),
    }
}

/// Whether each group has one primary.
pub(super) fn groups(groups: &[(String, Vec<String>)], roles: &Roles) -> Vec<Line> {
    groups
        .iter()
        .map(|(name, places)| {
            let of = |in_recovery| -> Vec<&str> {
                let member = |place: &&String| roles.get(*place) == Some(&in_recovery);
                places.iter().filter(member).map(String::as_str).collect()
            };
            let (primaries, replicas) = (of(false), of(true));
            match primaries.as_slice() {
                [primary] => Line::ok(
                    "group",
                    name,
                    format!("primary {primary}, replicas: {}", list(&replicas)),
                ),
                [] => Line::fail("group", name, "none of its hosts is a primary: writes wait and then fail")
                    .hint("Promote one, or name the primary in host."),
                several => Line::fail("group", name, format!("several hosts are primaries: {}", list(several)))
                    .hint("Hosts and replicas of a database are one cluster: name others in a database of their own."),
            }
        })
        .collect()
}

fn list(places: &[&str]) -> String {
    match places {
        [] => "none".to_owned(),
        places => places.join(", "),
    }
}

/// Whether the clocks agree; `ours` and `theirs` since 1970, `slack` how long the answer took.
pub(super) fn clock(about: &str, ours: Duration, theirs: Duration, slack: Duration) -> Line {
    let apart = ours.abs_diff(theirs);
    if apart <= CLOCK_MAX.saturating_add(slack) {
        return Line::ok("clock", about, "agrees with this machine's");
    }
    let direction = if theirs > ours { "ahead of" } else { "behind" };
    let text = format!("{:.0} s {direction} this machine's", apart.as_secs_f64());
    Line::warn("clock", about, text)
        .hint("Run a time service on both: certificates and passwords expire by these clocks, and logs are compared.")
}

/// What a server that could not be logged in to said.
pub(super) fn refused(about: &str, user: &str, database: &str, error: &TalkError) -> Line {
    let fail = |check: &'static str| Line::fail(check, about, error.to_string());
    match error {
        TalkError::Unreachable { .. } | TalkError::Timeout { .. } => {
            fail("reachable").hint("Is the server running? Do host, port, its listen_addresses and firewalls agree?")
        }
        TalkError::Lost { .. } | TalkError::Protocol { .. } => {
            fail("reachable").hint("Is it a PostgreSQL server that listens there?")
        }
        TalkError::Tls { .. } => fail("tls")
            .hint("Set ssl = on on the server, or another server_tls_sslmode; verify-ca and verify-full need server_tls_ca_file."),
        // A verifier lets others in; it does not get in itself.
        TalkError::Login(LoginError::Missing(method, _)) => Line::warn(
            "login",
            about,
            format!("{user}: the server asks for {method}, and what corun has of the password is not enough for that"),
        )
        .hint(
            "With a SCRAM secret equal to the server's, the login works once a client of that user has logged in at the pooler; \
             for a pool that must work before, store the plain password.",
        ),
        TalkError::Login(_) => fail("login").hint("See pg_hba.conf of the server and auth_file."),
        TalkError::Refused(said) | TalkError::Failed(said) => {
            let text = format!("{user}, database {database}: {} (SQLSTATE {})", said.message, said.code);
            let line = Line::fail("login", about, text);
            let hint = match said.code.as_str() {
                "28P01" => "The password in auth_file, [users.NAME] or [databases.NAME] is not the server's.",
                "28000" if said.message.contains("pg_hba.conf") => return line.hint(format!(
                    "Add a line for this machine to pg_hba.conf of the server and reload it: host {database} {user} ADDRESS/32 scram-sha-256"
                )),
                "28000" => "Does the role exist on the server, and may it log in?",
                "3D000" => "Create the database, or correct dbname.",
                "42501" => return line.hint(grant("CONNECT ON DATABASE", database, user)),
                "53300" => "All connections are taken, or a limit of the role or database is reached.",
                "57P03" => "It starts or recovers: try again, or set hot_standby = on.",
                _ => return line,
            };
            line.hint(hint)
        }
    }
}

/// The same, with what to do where a password is missing, or was given and is another's.
pub(super) fn failed_login(about: &str, user: &str, database: &str, failed: &FailedLogin) -> Line {
    let line = refused(about, user, database, &failed.error);
    match (failed.advice(), failed.given, &line.hint) {
        (Some(advice), true, _) => Line {
            level: line.level.min(Level::Warn),
            ..line
        }
        .hint(advice),
        (Some(advice), false, Some(hint)) => {
            let hint = format!("{advice} {hint}");
            line.hint(hint)
        }
        _ => line,
    }
}

/// A login that may have needed a password that the files do not have.
pub(super) fn got_in_with(with: LoggedInWith, line: Line) -> Line {
    let text = match with {
        LoggedInWith::Files => return line,
        _ => format!("{}, with the password given here", line.text),
    };
    match with {
        LoggedInWith::OtherSecret if line.level == Level::Ok => Line::warn(
            line.check,
            &line.about,
            format!(
                "{text}; the SCRAM secret of the files is not the server's, so the pooler does not get in"
            ),
        )
        .hint("Store the server's own: rolpassword in pg_authid. Or store the plain password."),
        _ => Line { text, ..line },
    }
}

/// A refusal of one who may use nothing but the console, where servers are not asked.
pub(super) fn only_console(line: Line) -> Line {
    Line {
        level: line.level.min(Level::Warn),
        ..line
    }
    .hint("Fine if this user only uses the console (admin_users, stats_users); otherwise see what the server has.")
}

/// Whether others may read along.
pub(super) fn tls(about: &str, session: Option<&str>, local: bool) -> Line {
    match (session, local) {
        (Some(session), _) => Line::ok("tls", about, session),
        (None, true) => Line::ok("tls", about, "none, and the connection stays on this machine"),
        (None, false) => Line::warn("tls", about, "none: data goes over the network in clear text")
            .hint("Set ssl = on on the server and server_tls_sslmode = \"require\" or \"verify-full\"."),
    }
}

/// How a login went; limits are -1 where there is none.
pub(super) fn login(
    about: &str,
    user: &str,
    database: &str,
    asked: Asked,
    wanted: u64,
    limits: (i64, i64),
) -> Line {
    let text = format!("{user} to database {database}: {}", asked.name());
    for (limit, whose) in [(limits.0, "role"), (limits.1, "database")] {
        if let Ok(limit) = u64::try_from(limit)
            && limit < wanted
        {
            let text = format!(
                "{text}; its pool may open {wanted} connections, and the {whose} is limited to {limit}"
            );
            return Line::fail("login", about, text).hint(format!(
                "Lower its pool_size, or ALTER {} ... CONNECTION LIMIT on the server.",
                whose.to_uppercase()
            ));
        }
    }
    Line::ok("login", about, text)
}

/// What a session can be cleaned of. `left`: statements that are there after `DISCARD ALL`.
pub(super) fn reset(about: &str, outcome: Result<u64, String>) -> Line {
    match outcome {
        Ok(0) => Line::ok("reset", about, "PREPARE and DISCARD ALL do what they should"),
        Ok(left) => Line::fail("reset", about, format!("{left} prepared statements are left after DISCARD ALL"))
            .hint("Another pooler in between? Connect to the server itself."),
        Err(error) => Line::fail("reset", about, format!("PREPARE or DISCARD ALL failed: {error}"))
            .hint("The pooler cleans servers with server_reset_query and prepares statements on them: two poolers cannot share this server."),
    }
}

/// Whether the number the server told is that of the process that answered.
pub(super) fn between(about: &str, told: u32, answered: u32) -> Line {
    if told == answered {
        return Line::ok("direct", about, "no other pooler in between");
    }
    let text = format!(
        "the login named process {told}, and queries run in {answered}: another pooler is in between"
    );
    Line::warn("direct", about, text).hint(
        "Connect to the server itself: cancel requests, settings and bound processes are not to be trusted.",
    )
}

/// Whether a setting that others look at is on.
pub(super) fn titles(about: &str, facts: &Facts, binds_over_tcp: bool) -> Line {
    if !facts.titles && binds_over_tcp {
        return Line::warn(
            "activity",
            about,
            "update_process_title is off: over TCP a backend cannot be told from others",
        )
        .hint("Set update_process_title to on, or connect over the Unix socket, to have backends bound to cores.");
    }
    if !facts.activities {
        return Line::warn(
            "activity",
            about,
            "track_activities is off: pg_stat_activity shows no statements",
        )
        .hint("Set track_activities to on to see what the pooler's connections do; the pooler itself does not need track_activities.");
    }
    Line::ok(
        "activity",
        about,
        "track_activities and update_process_title are on",
    )
}

/// How much a probe of role and lag was told.
pub(super) fn lag(about: &str, full: bool, why: &str, user: &str) -> Line {
    if full {
        return Line::ok("lag", about, "role, timeline and place in the log can be read");
    }
    Line::warn("lag", about, format!("not everything can be read: {why}")).hint(format!(
        "GRANT pg_monitor TO {}: without it, limits of lag and old primaries cannot be judged.",
        quoted_name(user)
    ))
}

#[cfg(test)]
mod tests;
