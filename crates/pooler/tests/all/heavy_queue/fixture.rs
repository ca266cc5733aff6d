//! A database with a query that can be held up, a proxy whose queue has one core, and what must hold afterwards.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Deref;
use std::time::{Duration, Instant};

use crate::common::message::{Message, cancel_request, query};
use crate::common::place::Place;
use crate::common::postgres::{Options, Postgres};
use crate::common::raw::{Login, Raw};
use crate::common::target::{Mode, Pooling};

const PATIENCE: Duration = Duration::from_secs(30);

/// A row of a table of the console.
pub type Row = BTreeMap<String, String>;

/// `gate` is what a test locks to hold queries up; `fact` joins `dim` by a hash table, or its index.
const TABLES: &str = "create table gate (g int);
    create table dim (d_id int primary key, d_name text);
    create table fact (f_id int primary key, f_d int, f_v int);
    insert into gate values (1);
    insert into dim select i, 'name ' || i from generate_series(1, 40000) i;
    insert into fact select i, 1 + i * 7919 % 40000, i % 11 from generate_series(1, 20000) i;
    grant all on all tables in schema public to app;
    analyze";

/// Puts a text into the queue.
pub const HINT: &str = "/* corun: heavy_queue=analytic */ ";

/// A query that waits while `gate` is locked.
pub fn held(number: u32) -> String {
    format!("{HINT}select count(*), {number} from gate, dim where d_id > g + {number}")
}

/// A query with a hash join, and an answer that depends on all of it.
pub const JOIN: &str = "select d_name, sum(f_v) from fact, dim where f_d = d_id and f_id <= 15000 \
                        group by d_name order by d_name";

pub struct Fixture(Place);

impl Deref for Fixture {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Fixture {
    /// One core for the queue, and more lines of `[corun]`.
    pub fn start(corun: &str) -> Fixture {
        Fixture::with(None, corun, |pooling| pooling)
    }

    pub fn with(own: Option<Postgres>, corun: &str, change: impl FnOnce(Pooling) -> Pooling) -> Fixture {
        Fixture::with_cores(1, own, corun, change)
    }

    /// So many cores for the queue, where the machine has them.
    pub fn with_cores(
        cores: usize,
        own: Option<Postgres>,
        corun: &str,
        change: impl FnOnce(Pooling) -> Pooling,
    ) -> Fixture {
        let pooling = |_: &str| {
            let pooling = Pooling::new(Mode::Transaction, 4).corun("heavy_queue = \"on\"");
            let cores = if corun.contains("heavy_queue_cores") {
                String::new()
            } else {
                format!("heavy_queue_cores = {cores}")
            };
            change(pooling.corun(&cores).corun(corun))
        };
        let fixture = Fixture(Place::start(own, pooling));
        for statement in TABLES.split(';') {
            fixture.sql(statement);
        }
        fixture
    }

    pub fn own_server() -> Postgres {
        Postgres::start_with(Options::default())
    }

    /// Its own server, to be stopped and started.
    pub fn own_mut(&mut self) -> &mut Postgres {
        self.0.own.as_mut().expect("a server of its own")
    }

    /// Sends a cancel request for a client.
    pub fn cancel(&self, client: &Raw) {
        let login = self.login();
        let mut socket = TcpStream::connect((login.host.as_str(), login.port)).expect("connected");
        socket
            .write_all(&cancel_request(client.key.0, &client.key.1))
            .expect("sent");
        let _ = socket.read_to_end(&mut Vec::new());
    }

    /// What `EXPLAIN (CORUN)` says of the queue.
    pub fn heavy_queue(&self, client: &mut Raw, text: &str) -> String {
        let rows = client.rows(&format!("explain (corun) {text}"));
        let lines = rows.into_iter().filter_map(|row| row.into_iter().next()?);
        lines.filter(|line| line.starts_with("Heavy queue:")).collect()
    }

    /// `SHOW QUEUE`.
    pub fn queue(&self) -> Vec<Row> {
        self.console().table("show queue")
    }

    /// Waits until so many wait and run.
    pub fn wait_for_queue(&self, waiting: usize, running: usize) {
        self.wait_until(|| {
            let rows = self.queue();
            let count = |state: &str| rows.iter().filter(|row| row["state"] == state).count();
            if (count("waiting"), count("running")) == (waiting, running) {
                Ok(())
            } else {
                Err(format!("{rows:#?}"))
            }
        });
    }

    pub fn wait_until(&self, mut check: impl FnMut() -> Result<(), String>) {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = check() {
            assert!(Instant::now() < until, "{error}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The plans of these queries are known from now on.
    pub fn known(&self, client: &mut Raw, queries: &[String]) {
        for query in queries {
            client.rows(query);
        }
        self.wait_for_queue(0, 0);
    }

    /// A client that runs a query of which everybody waits for the lock of the answer, and one that waits in the queue for it.
    pub fn two_in_queue(&self) -> (Raw, Raw, Raw) {
        self.two_in_queue_as(&self.login())
    }

    pub fn two_in_queue_as(&self, login: &Login) -> (Raw, Raw, Raw) {
        let (mut runs, mut waits) = (self.client(), self.target.client_as(login));
        self.known(&mut runs, &[held(1)]);
        self.known(&mut waits, &[held(2)]);
        let gate = self.lock();
        runs.send(&query(&held(1))).expect("sent");
        self.wait_for_queue(0, 1);
        self.wait_for_lock();
        waits.send(&query(&held(2))).expect("sent");
        self.wait_for_queue(1, 1);
        (gate, runs, waits)
    }

    /// Holds queries up until it commits.
    pub fn lock(&self) -> Raw {
        let mut gate = self.direct();
        gate.rows("begin");
        gate.rows("lock table gate in access exclusive mode");
        gate
    }

    /// Waits until a server waits for a lock: it has begun with what it was sent, so that a cancel request strikes.
    pub fn wait_for_lock(&self) {
        let waiting = "select count(*) > 0 from pg_locks where not granted and database = \
                       (select oid from pg_database where datname = current_database())";
        self.wait_until(|| match self.sql(waiting)[0][0].as_deref() {
            Some("t") => Ok(()),
            _ => Err("nobody waits for a lock".to_owned()),
        });
    }

    /// Server connections in use.
    pub fn active(&self) -> Vec<Row> {
        let rows = self.console().table("show servers");
        rows.into_iter()
            .filter(|row| row["database"] == self.database && row["state"] == "active")
            .collect()
    }
}

/// Code and message of the error among messages.
pub fn error(messages: &[Message]) -> (String, String) {
    let found = messages.iter().find(|message| message.tag == b'E');
    let field = |code: u8| found.and_then(|message| message.field(code)).unwrap_or_default();
    (field(b'C'), field(b'M'))
}
