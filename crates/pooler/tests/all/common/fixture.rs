//! [`Fixture`]: a database behind a target, and everybody who may ask there: clients, clients past the target, the console, the superuser.

use super::message::cancel_request;
use super::postgres::{self, Postgres};
use super::raw::{Login, Raw, Rows, number};
use super::target::{Mode, Pooling, Target};
use super::wait::wait_for;

/// A database that only this test uses, and a target in front of it.
pub struct Fixture {
    // Dropped first.
    pub target: Target,
    pub database: String,
    /// Its own server, for tests that harm one.
    own: Option<Postgres>,
}

impl Fixture {
    /// Starts a target in front of a new database of the shared server; `{database}` in the settings is its name.
    pub fn start(pooling: &Pooling) -> Fixture {
        Fixture::start_in(postgres::new_database(), pooling)
    }

    /// The same in front of a database that is there.
    pub fn start_in(database: String, pooling: &Pooling) -> Fixture {
        let target = Target::start(postgres::shared(), &pooling.in_database(&database));
        let own = None;
        Fixture {
            target,
            database,
            own,
        }
    }

    /// The same on this server, or on the shared one.
    pub fn start_on(own: Option<Postgres>, pooling: &Pooling) -> Fixture {
        let Some(server) = own else {
            return Fixture::start(pooling);
        };
        let database = "app".to_owned();
        Fixture {
            target: Target::start(&server, &pooling.in_database(&database)),
            database,
            own: Some(server),
        }
    }

    /// Transaction mode with so many servers.
    pub fn transactions(pool_size: usize) -> Fixture {
        Fixture::start(&Pooling::new(Mode::Transaction, pool_size))
    }

    pub fn server(&self) -> &Postgres {
        self.own.as_ref().unwrap_or_else(|| postgres::shared())
    }

    /// Its own server, to be stopped and started.
    pub fn own_mut(&mut self) -> &mut Postgres {
        self.own.as_mut().expect("a server of its own")
    }

    /// How user `app` logs in to the database through the target.
    pub fn login(&self) -> Login {
        self.target.login("app").database(&self.database)
    }

    /// A client of user `app`.
    pub fn client(&self) -> Raw {
        self.target.client_as(&self.login())
    }

    /// Two of them.
    pub fn two(&self) -> (Raw, Raw) {
        (self.client(), self.client())
    }

    /// A client of user `app` past the target.
    pub fn direct(&self) -> Raw {
        self.server().client("app", &self.database)
    }

    /// The console of the target, for its administrator.
    pub fn console(&self) -> Raw {
        self.target
            .client_as(&self.target.login("postgres").database("pgbouncer"))
    }

    /// Sends a cancel request for a client.
    pub fn cancel(&self, client: &Raw) {
        cancel(&self.login(), &client.key);
    }

    /// Waits until the console says that so many clients of the database wait for a server.
    pub fn wait_for_waiting(&self, count: usize) {
        wait_for_waiting(&mut self.console(), &self.database, count);
    }

    /// Statements of the superuser, past the target.
    pub fn sql(&self, text: &str) -> Rows {
        self.server().sql_in(&self.database, text)
    }

    /// The last value of statements of the superuser.
    pub fn value(&self, text: &str) -> String {
        self.server().value_in(&self.database, text)
    }

    /// Waits until no server process of the database fulfils a condition on `pg_stat_activity`.
    pub fn wait_for_no_server(&self, condition: &str) {
        self.wait_until(&format!(
            "select count(*) = 0 from pg_stat_activity where datname = current_database() and {condition}"
        ));
    }

    /// Waits until a query of the superuser returns `t`.
    pub fn wait_until(&self, query: &str) {
        self.server().wait_until_in(&self.database, query);
    }
}

/// Sends a cancel request as drivers do, and waits until the other side closes. Returns what it has said: nothing, as a rule.
pub fn cancel(login: &Login, (pid, secret): &(u32, Vec<u8>)) -> Vec<u8> {
    use std::io::{Read as _, Write as _};
    let mut socket = std::net::TcpStream::connect((login.host.as_str(), login.port)).expect("connected");
    socket
        .set_read_timeout(Some(super::raw::PATIENCE))
        .expect("timeout");
    socket.write_all(&cancel_request(*pid, secret)).expect("sent");
    let mut said = Vec::new();
    let _ = socket.read_to_end(&mut said);
    said
}

/// Waits until the console says that so many clients of a database wait for a server.
pub fn wait_for_waiting(console: &mut Raw, database: &str, count: usize) {
    wait_for(count, || {
        let pools = console.table("show pools");
        let pools = pools.iter().filter(|pool| pool["database"] == database);
        pools.map(|pool| number::<usize>(pool, "cl_waiting")).sum()
    });
}

/// Bytes that the proxy has read of clients of a database.
pub fn received(console: &mut Raw, database: &str) -> u64 {
    let rows = console.table("show stats");
    let row = rows.iter().find(|row| row["database"] == database);
    row.map_or(0, |row| number(row, "total_received"))
}
