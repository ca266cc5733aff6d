//! [`Place`]: a database behind the proxy, and everybody who may ask there: clients, clients past the proxy, the console, the superuser.

use super::postgres::{self, Postgres};
use super::raw::{Login, Raw};
use super::target::{Pooling, Target};

pub struct Place {
    // Dropped first.
    pub target: Target,
    pub database: String,
    /// Its own server, for tests that harm one.
    pub own: Option<Postgres>,
}

impl Place {
    /// A proxy of what `pooling` says for the database, on its own server or a new database of the shared one.
    pub fn start(own: Option<Postgres>, pooling: impl FnOnce(&str) -> Pooling) -> Place {
        let database = match own {
            Some(_) => "app".to_owned(),
            None => postgres::new_database(),
        };
        let server = own.as_ref().unwrap_or_else(|| postgres::shared());
        Place {
            target: Target::start(server, &pooling(&database)),
            database,
            own,
        }
    }

    pub fn server(&self) -> &Postgres {
        self.own.as_ref().unwrap_or_else(|| postgres::shared())
    }

    pub fn login(&self) -> Login {
        self.target.login("app").database(&self.database)
    }

    pub fn client(&self) -> Raw {
        self.target.client_as(&self.login())
    }

    /// A client past the proxy.
    pub fn direct(&self) -> Raw {
        Raw::connect(&self.server().login("app").database(&self.database)).expect("a client of the server")
    }

    pub fn console(&self) -> Raw {
        let login = self.target.login("postgres").database("pgbouncer");
        self.target.client_as(&login)
    }

    /// Statements of the superuser, past the proxy.
    pub fn sql(&self, text: &str) -> Vec<Vec<Option<String>>> {
        self.server().sql_in(&self.database, text)
    }
}
