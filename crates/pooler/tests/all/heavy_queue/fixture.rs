//! A database with a query that can be held up, a proxy whose queue has one core, and what must hold afterwards.

use std::fmt::{self, Display, Formatter};
use std::ops::{Deref, DerefMut};

use crate::common::fixture::Fixture;
use crate::common::message::{code, query};
use crate::common::postgres::Postgres;
use crate::common::raw::{Login, Raw, Row};
use crate::common::target::{Mode, Pooling};
use crate::common::wait::{wait, wait_for};

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

pub struct QueueFixture(Fixture);

/// What a test that waited in vain for these rows of `SHOW QUEUE` can say of everything around them.
struct Around<'a> {
    fixture: &'a QueueFixture,
    rows: Vec<Row>,
}

impl Display for Around<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut console = self.fixture.console();
        let [counts, servers] = ["show heavy_queue", "show servers"].map(|text| console.table(text));
        let backends = self.fixture.sql(
            "select pid, state, wait_event_type, wait_event, query from pg_stat_activity \
             where datname = current_database() and pid <> pg_backend_pid()",
        );
        let rows = &self.rows;
        write!(
            f,
            "{rows:#?}, with {counts:#?}, servers {servers:#?}, and backends {backends:#?}"
        )
    }
}

impl Deref for QueueFixture {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

impl DerefMut for QueueFixture {
    fn deref_mut(&mut self) -> &mut Fixture {
        &mut self.0
    }
}

impl QueueFixture {
    /// One core for the queue, and more lines of `[corun]`.
    pub fn start(corun: &str) -> QueueFixture {
        QueueFixture::with(None, corun, |pooling| pooling)
    }

    pub fn with(own: Option<Postgres>, corun: &str, change: impl FnOnce(Pooling) -> Pooling) -> QueueFixture {
        QueueFixture::with_cores(1, own, corun, change)
    }

    /// So many cores for the queue, where the machine has them.
    pub fn with_cores(
        cores: usize,
        own: Option<Postgres>,
        corun: &str,
        change: impl FnOnce(Pooling) -> Pooling,
    ) -> QueueFixture {
        let mut pooling = Pooling::new(Mode::Transaction, 4).corun("heavy_queue = \"on\"");
        if !corun.contains("heavy_queue_cores") {
            pooling = pooling.corun(&format!("heavy_queue_cores = {cores}"));
        }
        let pooling = change(pooling.corun(corun));
        let fixture = QueueFixture(Fixture::start_on(own, &pooling));
        for statement in TABLES.split(';') {
            fixture.sql(statement);
        }
        fixture
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
        wait(|| {
            let rows = self.queue();
            let count = |state: &str| rows.iter().filter(|row| row["state"] == state).count();
            match (count("waiting"), count("running")) == (waiting, running) {
                true => Ok(()),
                false => Err(Around { fixture: self, rows }),
            }
        });
    }

    /// Waits until every client has left its server, but those within a transaction. Until the code of a new database is known, a client
    /// stays on its server for what it may have left there, and what it sends next runs there past the queue.
    pub fn wait_for_idle(&self) {
        wait_for(Vec::<Row>::new(), || {
            let mut active = self.active();
            let text = "select pid from pg_stat_activity where state like 'idle in transaction%'";
            let kept = self.sql(text);
            active.retain(|row| {
                !kept
                    .iter()
                    .any(|kept| kept[0].as_ref() == Some(&row["remote_pid"]))
            });
            active
        });
    }

    /// The plans of these queries are known from now on.
    pub fn known(&self, client: &mut Raw, queries: &[String]) {
        for query in queries {
            client.rows(query);
        }
        self.wait_for_queue(0, 0);
        self.wait_for_idle();
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
        runs.send_query(&held(1));
        self.wait_for_queue(0, 1);
        self.wait_for_lock();
        waits.send_query(&held(2));
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
        self.wait_until(waiting);
    }

    /// Ends a lock, and what has waited for it succeeds.
    pub fn open(&self, mut gate: Raw, client: &mut Raw) {
        gate.rows("commit");
        assert_eq!(code(&client.until_ready()), "");
    }

    /// Server connections in use.
    pub fn active(&self) -> Vec<Row> {
        let mut rows = self.console().table("show servers");
        rows.retain(|row| row["database"] == self.database && row["state"] == "active");
        rows
    }
}

/// A client through the queue and one past the proxy.
pub struct Pair {
    pub ours: Raw,
    pub direct: Raw,
}

impl Pair {
    pub fn of(fixture: &QueueFixture) -> Pair {
        Pair {
            ours: fixture.client(),
            direct: fixture.direct(),
        }
    }

    /// Both send these bytes, with the same answers.
    pub fn ask(&mut self, bytes: &[u8], about: &str) {
        assert_eq!(self.ours.ask(bytes), self.direct.ask(bytes), "{about}");
    }

    /// Both run these, with the same answers.
    pub fn both(&mut self, texts: &[&str]) {
        for text in texts {
            self.ask(&query(text), text);
        }
    }

    /// Both run each text with the hint three times, as often as it takes to be asked about and queued, with the same answers.
    pub fn alike(&mut self, texts: &[&str]) {
        for text in texts {
            let text = format!("{HINT}{text}");
            (0..3).for_each(|_| self.both(&[&text]));
        }
    }
}
