//! What is visited: each server of the configuration once, with the accounts that log in there and the connections its pools may
//! have. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Line, Options};
use crate::config::{CONSOLE, Effective, Endpoint, WILDCARD};
use crate::core::ConfigFiles;

/// Accounts that log in to one database on one server.
const ACCOUNTS_MAX: usize = 16;
/// Database that is looked at for `[databases."*"]` where none is named.
pub(super) const ANY_DATABASE: &str = "postgres";

/// All that is to be visited.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Each server, in the order of the configuration.
    pub servers: Vec<Server>,
    /// Databases whose hosts are one group: the name, and where its members are.
    pub groups: Vec<(String, Vec<String>)>,
    /// Names of the databases.
    pub names: Vec<String>,
    /// What the plan itself leaves out.
    pub remarks: Vec<Line>,
}

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    /// Where.
    pub endpoint: Endpoint,
    /// Pools that log in there, each user of each database.
    pub accounts: Vec<Account>,
    /// Connections of all pools that are known.
    pub wanted: u64,
    /// Whether it belongs to a group of primary and replicas.
    pub grouped: bool,
    /// Whether it stands for databases that nobody has named.
    pub wildcard: bool,
}

impl Server {
    fn at(endpoint: &Endpoint) -> Self {
        Self {
            endpoint: endpoint.clone(),
            accounts: Vec::new(),
            wanted: 0,
            grouped: false,
            wildcard: false,
        }
    }
}

/// One pool.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub effective: Arc<Effective>,
    /// Connections it may have on one server, reserve included.
    pub wanted: u64,
}

/// Makes the plan for this many event loops.
pub(super) fn plan(files: &ConfigFiles, options: &Options, loops: usize) -> Plan {
    let mut plan = Plan::default();
    for name in names(files, options) {
        add(&mut plan, files, options, loops, &name);
        plan.names.push(name);
    }
    if plan.servers.is_empty() {
        let line = Line::fail(
            "databases",
            "configuration",
            "the configuration names no database that could be looked at",
        );
        plan.remarks
            .push(line.hint("Add [databases.NAME] or [databases.\"*\"]."));
    }
    plan
}

pub(super) fn names(files: &ConfigFiles, options: &Options) -> Vec<String> {
    let known = &files.config.databases;
    let named = &options.databases;
    let mut names: Vec<String> = known
        .keys()
        .filter(|name| *name != WILDCARD && *name != CONSOLE)
        .cloned()
        .collect();
    let more = named.iter().filter(|name| !known.contains_key(*name));
    names.extend(more.cloned());
    if named.is_empty() && known.contains_key(WILDCARD) && !known.contains_key(ANY_DATABASE) {
        names.push(ANY_DATABASE.to_owned());
    }
    if !named.is_empty() {
        names.retain(|name| named.contains(name));
    }
    names.dedup();
    names
}

fn add(plan: &mut Plan, files: &ConfigFiles, options: &Options, loops: usize, name: &str) {
    let users = users(files, options, name);
    let Some(first) = files.effective(name, users.first().map_or("", String::as_str)) else {
        let line = Line::fail("databases", name, "the configuration has no such database");
        plan.remarks
            .push(line.hint("Name one of it, or add [databases.\"*\"]."));
        return;
    };
    if users.is_empty() {
        let line = Line::warn(
            "login",
            name,
            "no user is known whose connections could be tried: clients' own accounts are used, and no file lists them",
        );
        plan.remarks.push(line.hint("Name some with --user."));
    }
    if users.len() > ACCOUNTS_MAX {
        let text = format!("{} of {} users are tried", ACCOUNTS_MAX, users.len());
        plan.remarks
            .push(Line::ok("login", name, text).hint("Name others with --user."));
    }
    let mut accounts: BTreeMap<String, Account> = BTreeMap::new();
    for user in &users {
        if let Some(effective) = files.effective(name, user) {
            let wanted = connections(files, &effective, loops);
            accounts
                .entry(effective.user.clone())
                .or_insert(Account { effective, wanted });
        }
    }
    let sum: u64 = accounts.values().map(|account| account.wanted).sum();
    let wanted = capped(sum, first.max_db_connections);
    let grouped = !first.replicas.is_empty();
    let endpoints: Vec<&Endpoint> = first.hosts.iter().chain(&first.replicas).collect();
    for &endpoint in &endpoints {
        let known = plan
            .servers
            .iter()
            .position(|server| server.endpoint == *endpoint);
        let at = known.unwrap_or_else(|| {
            plan.servers.push(Server::at(endpoint));
            plan.servers.len() - 1
        });
        let server = &mut plan.servers[at];
        server
            .accounts
            .extend(accounts.values().take(ACCOUNTS_MAX).cloned());
        server.wanted = server.wanted.saturating_add(wanted);
        server.grouped |= grouped;
        server.wildcard |= first.wildcard;
    }
    if grouped {
        let places = endpoints.iter().map(ToString::to_string).collect();
        plan.groups.push((name.to_owned(), places));
    }
}

/// Who logs in at the proxy, as far as files and options tell, and who asks for secrets.
pub(super) fn users(files: &ConfigFiles, options: &Options, database: &str) -> Vec<String> {
    if !options.users.is_empty() {
        return options.users.clone();
    }
    let mut users: Vec<String> = files.config.users.keys().cloned().collect();
    users.extend(files.users.names().map(str::to_owned));
    users.sort();
    users.dedup();
    let effective = files.effective(database, "");
    if let Some(effective) = &effective
        && effective.forced_user
        && users.is_empty()
    {
        // Whoever logs in, the server sees one user.
        users.push(effective.user.clone());
    }
    if let Some(auth_user) = effective.and_then(|effective| effective.auth_user.clone())
        && !users.contains(&auth_user)
    {
        users.push(auth_user);
    }
    users
}

/// Connections one pool may open on a server, on all event loops.
fn connections(files: &ConfigFiles, effective: &Effective, loops: usize) -> u64 {
    let (size, reserve) = files.sizes(effective, loops);
    capped((size + reserve) as u64, effective.max_user_connections)
}

fn capped(count: u64, limit: u32) -> u64 {
    match limit {
        0 => count,
        limit => count.min(u64::from(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn planned(text: &str, options: &Options, loops: usize) -> Plan {
        let rest = text.strip_prefix("[proxy]\n").unwrap_or(text);
        let text = format!("[proxy]\nauth_file = \"users.txt\"\n{rest}");
        let mut config = Config::parse(&text, "corun.toml")
            .expect("a configuration")
            .config;
        // Nothing is read here.
        config.proxy.auth_file = None;
        plan(&ConfigFiles::of(config).expect("a files"), options, loops)
    }

    fn wanted(plan: &Plan) -> Vec<(String, u64, usize)> {
        let of = |server: &Server| (server.endpoint.to_string(), server.wanted, server.accounts.len());
        plan.servers.iter().map(of).collect()
    }

    const TWO: &str = "[proxy]\ndefault_pool_size = 10\nreserve_pool_size = 2\n\
        [users.a]\n[users.b]\npool_size = 3\n\
        [databases.x]\nhost = \"db1\"\n[databases.y]\nhost = \"db1\"\nuser = \"owner\"\n";

    #[test]
    fn pools_of_all_users_and_databases_of_a_server_count() {
        // x: a with 10+2, b with 3+2; y: one pool of its owner, whoever comes.
        let plan = planned(TWO, &Options::default(), 1);
        assert_eq!(wanted(&plan), [("db1:5432".to_owned(), 29, 3)]);
        assert_eq!(plan.names, ["x", "y"]);
        // Event loops share a pool.
        let plan = planned(TWO, &Options::default(), 8);
        assert_eq!(wanted(&plan), [("db1:5432".to_owned(), 29, 3)]);
        let each = format!("{TWO}[corun]\nbackends_per_core = 2\n");
        let plan = planned(&each, &Options::default(), 8);
        assert_eq!(
            wanted(&plan),
            [("db1:5432".to_owned(), 3 * 16 + 2 * 3, 3)],
            "a size for each loop"
        );
    }

    #[test]
    fn limits_of_databases_and_users_hold() {
        let limited = format!("{TWO}max_db_connections = 5\n");
        assert_eq!(
            planned(&limited, &Options::default(), 1).servers[0].wanted,
            17 + 5
        );
        let limited = TWO.replace("[users.a]\n", "[users.a]\nmax_user_connections = 1\n");
        assert_eq!(
            planned(&limited, &Options::default(), 1).servers[0].wanted,
            1 + 5 + 12
        );
    }

    #[test]
    fn replicas_are_servers_of_a_group() {
        let plan = planned(
            "[users.a]\n[databases.x]\nhost = \"db1\"\nreplicas = [\"db2\", \"db3:6000\"]\n",
            &Options::default(),
            2,
        );
        let places = ["db1:5432", "db2:5432", "db3:6000"].map(str::to_owned);
        assert_eq!(plan.groups, [("x".to_owned(), places.to_vec())]);
        assert!(
            plan.servers
                .iter()
                .all(|server| server.grouped && server.wanted == 20)
        );
    }

    #[test]
    fn the_wildcard_stands_for_those_that_are_named() {
        let text = "[users.a]\n[databases.\"*\"]\nhost = \"db1\"\n";
        assert_eq!(planned(text, &Options::default(), 1).names, ["postgres"]);
        let named = Options {
            databases: vec!["shop".to_owned()],
            users: vec!["c".to_owned()],
            ..Options::default()
        };
        let plan = planned(text, &named, 1);
        assert_eq!(plan.names, ["shop"]);
        assert_eq!(plan.servers[0].accounts[0].effective.user, "c");
        let plan = planned("[users.a]\n[databases.x]\nhost = \"db1\"\n", &named, 1);
        assert_eq!(plan.servers.len(), 0);
        assert_eq!(plan.remarks[0].about, "shop");
    }

    #[test]
    fn nobody_known_is_said() {
        let plan = planned("[databases.x]\nhost = \"db1\"\n", &Options::default(), 1);
        assert!(plan.remarks.iter().any(|line| line.check == "login"));
        assert_eq!(wanted(&plan), [("db1:5432".to_owned(), 0, 0)]);
    }
}
