//! The settings a client's start-up packet asks for, and which server connections begin with them.
//!
//! Between transactions settings are replayed, and a connection begins with none. In session mode a client may also reset them
//! (`RESET`, `DISCARD ALL`), which ends where its start-up packet began: so a connection begins with those of the client it is made
//! for, and serves only clients that begin alike.

use corun_net::reactor::Reactor;

use crate::config::{Effective, PoolMode};
use crate::core::client::{Client, Phase};
use crate::core::event_loop::EventLoop;
use crate::core::server::Server;
use crate::session::settings::Settings;
use corun_wire::error::{Refusal, code};
use corun_wire::startup::Kind;

/// Settings that only take effect while a server process starts, or that are none of a client's. PostgreSQL knows `user`, `database` and
/// `replication` by these very letters and outside of `options` only; what is sent to a server is sent in small letters.
const NOT_AT_START: [&str; 8] = [
    "user",
    "database",
    "options",
    REPLICATION_PARAMETER,
    "session_authorization",
    "is_superuser",
    "local_preload_libraries",
    "session_preload_libraries",
];

/// What a client asks for that wants the log streamed, or to talk to what streams it.
pub(in crate::core) const REPLICATION_PARAMETER: &str = "replication";

/// What a client's name for itself is called. Where connections are used again it decides nothing: programs that are named otherwise
/// could share none.
const APPLICATION_NAME: &str = "application_name";

/// Whether a setting is one that a connection begins with.
fn begins_with(effective: &Effective, name: &str) -> bool {
    effective.server_lifetime.is_zero() || name != APPLICATION_NAME
}

/// Whether no server has taken a client's settings yet.
fn is_untried(client: &Client) -> bool {
    !client.is_ready() && client.start.is_empty()
}

/// The settings that a connection made for a client begins with: those it asks for as long as no server has taken them.
fn start_for(effective: &Effective, client: &Client) -> Settings {
    let start = if is_untried(client) {
        &client.settings
    } else {
        &client.start
    };
    let mut start = Settings::clone(start);
    start.0.retain(|name, _| begins_with(effective, name));
    start
}

/// Whether a connection may serve a client, for what it began with.
pub(in crate::core) fn fits(effective: &Effective, server: &Server, client: &Client) -> bool {
    if effective.pool_mode != PoolMode::Session {
        return true;
    }
    // Whether a server takes a client's settings can be tried on one without any, too.
    let alike = |start| begins_alike(effective, server, start);
    match is_untried(client) {
        true => server.session.start.is_empty() || alike(&client.settings),
        false => alike(&client.start),
    }
}

/// Whether a connection began with these settings, as far as they count.
pub(in crate::core) fn begins_alike(effective: &Effective, server: &Server, start: &Settings) -> bool {
    let start = start.0.iter().filter(|(name, _)| begins_with(effective, name));
    server.session.start.0.iter().eq(start)
}

impl<R: Reactor> EventLoop<R> {
    /// The settings that a pool's next connection begins with: those of the client that has waited longest of those for whom none is on
    /// its way.
    pub(in crate::core) fn next_start(&self, pool_index: usize) -> Settings {
        let Some(pool) = self.pools.get(pool_index) else {
            return Settings::default();
        };
        if pool.effective.pool_mode != PoolMode::Session {
            return Settings::default();
        }
        let mut coming: Vec<&Settings> = self
            .servers
            .iter()
            .filter(|(_, server)| server.pool == pool_index && server.is_connecting())
            .map(|(_, server)| &*server.session.start)
            .collect();
        for waiting in pool.waiting.iter() {
            let Some(client) = self.clients.get(waiting.client) else {
                continue;
            };
            let start = start_for(&pool.effective, client);
            match coming.iter().position(|coming| **coming == start) {
                Some(at) => coming.swap_remove(at),
                None => return start,
            };
        }
        Settings::default()
    }

    /// The waiting client whose settings a server that was to begin with them has refused.
    pub(in crate::core) fn asks_in_vain(&self, server: &Server, refusal: &Refusal) -> Option<usize> {
        // Whatever else a server says would be said to others as well.
        let to_all = code::is_away(refusal.code)
            || matches!(
                refusal.code,
                code::INVALID_CATALOG | code::TOO_MANY_CONNECTIONS | code::PROTOCOL_VIOLATION
            );
        if server.session.start.is_empty() || to_all {
            return None;
        }
        let pool = self.pools.get(server.pool)?;
        let asks = |&index: &usize| {
            let client = self.clients.get(index);
            client.is_some_and(|client| {
                is_untried(client) && start_for(&pool.effective, client) == *server.session.start
            })
        };
        pool.waiting.iter().map(|waiting| waiting.client).find(asks)
    }

    /// The settings a client's start-up packet asks for.
    pub(in crate::core) fn start_settings(&self, index: usize) -> Result<Settings, Refusal> {
        let mut settings = Settings::default();
        let Some(client) = self.clients.get(index) else {
            return Ok(settings);
        };
        let Phase::Greeting(entrance) = &client.phase else {
            return Ok(settings);
        };
        let proxy = &self.files.config.proxy;
        let ignored = |name: &str| {
            proxy
                .ignore_startup_parameters
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        let refused = |name: &str| {
            Refusal::new(
                code::PROTOCOL_VIOLATION,
                format!("unsupported startup parameter: {name}"),
            )
            .hint("Name it in ignore_startup_parameters to have it dropped.")
        };
        let set = |settings: &mut Settings, name: &str, value: &str| {
            if ignored(name) {
                return Ok(());
            }
            if NOT_AT_START.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Err(refused(name));
            }
            settings.set(name, value);
            Ok(())
        };
        for (name, value) in &entrance.startup.parameters {
            match name.as_str() {
                "user" | "database" | REPLICATION_PARAMETER => {}
                name if name.starts_with("_pq_.") => {}
                "options" if ignored("options") => {}
                "options" => {
                    for (name, value) in
                        options(value).map_err(|word| {
                            let what = "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
                            Refusal::new(code::PROTOCOL_VIOLATION, what).detail(format!("It has {word}."))
                        })?
                    {
                        set(&mut settings, &name, &value)?;
                    }
                }
                name => set(&mut settings, name, value)?,
            }
        }
        match entrance.kind {
            Kind::Queries => {}
            Kind::Physical => settings.set(REPLICATION_PARAMETER, "true"),
            Kind::Logical => settings.set(REPLICATION_PARAMETER, "database"),
        }
        if proxy.application_name_add_host {
            let name = settings.text(APPLICATION_NAME).unwrap_or("app").to_owned();
            settings.set(APPLICATION_NAME, &format!("{name} - {}", client.origin()));
        } else if !settings.0.contains_key(APPLICATION_NAME)
            && let Some(name) = self
                .files
                .config
                .databases
                .get(&*client.database)
                .and_then(|database| database.application_name.clone())
        {
            settings.set(APPLICATION_NAME, &name);
        }
        Ok(settings)
    }
}

/// The settings in `options`: `-c name=value`, `-cname=value` and `--name=value`, with backslashes before spaces.
fn options(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut words = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        let last = words.last_mut().map(|word| word as &mut String);
        match (c, escaped, last) {
            (c, true, Some(word)) => {
                word.push(c);
                escaped = false;
            }
            ('\\', false, _) => escaped = true,
            (c, false, _) if c.is_ascii_whitespace() => words.push(String::new()),
            (c, _, Some(word)) => word.push(c),
            (_, _, None) => {}
        }
    }
    words.retain(|word| !word.is_empty());
    let mut settings = Vec::new();
    let mut rest = words.into_iter();
    while let Some(word) = rest.next() {
        let pair = if word == "-c" {
            rest.next().ok_or_else(|| word.clone())?
        } else if let Some(pair) = word.strip_prefix("-c").or_else(|| word.strip_prefix("--")) {
            pair.to_owned()
        } else {
            return Err(word);
        };
        let (name, value) = pair.split_once('=').ok_or_else(|| pair.clone())?;
        // As PostgreSQL does: dashes in a name of the command line are underscores.
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn options_of_a_startup_packet() {
        let found = options(r"-c a=b -cc.d=1 --search-path=x\ y,z -c e=\\").expect("options");
        let pairs: Vec<(&str, &str)> = found
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [("a", "b"), ("c.d", "1"), ("search_path", "x y,z"), ("e", "\\")]
        );
        assert_eq!(options("-d 5"), Err("-d".to_owned()));
        assert_eq!(options("-c"), Err("-c".to_owned()));
        assert_eq!(options("--a"), Err("a".to_owned()));
    }
}
