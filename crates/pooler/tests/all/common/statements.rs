//! Random SQL of one client: statements of many kinds over a few tables, right and wrong ones, in and out of transactions.
//!
//! Each client writes only tables of its own, so that clients that take turns never wait for each other's locks, and everything
//! is determined: no clock, no random function, every result ordered.

use super::message;
use super::random::Random;

/// Something sent at once whose answer is read to its end before anything else happens.
#[derive(Clone)]
pub struct Step {
    /// As a person would read it.
    pub shown: String,
    /// The messages.
    pub bytes: Vec<u8>,
}

impl Step {
    fn simple(sql: impl Into<String>) -> Step {
        let shown = sql.into();
        Step {
            bytes: message::query(&shown),
            shown,
        }
    }
}

/// Statements that prepare a database for `clients` clients.
pub fn tables(clients: usize) -> Vec<String> {
    let mut all = vec![
        "create table shared (id int primary key, v int, t text)".to_owned(),
        "insert into shared select n, n * 7 % 13, 'text ' || n from generate_series(1, 60) n".to_owned(),
        "grant all on all tables in schema public to public".to_owned(),
        "create schema elsewhere; create table elsewhere.shared (id int, far text); insert into elsewhere.shared values (1, 'far away');
         grant all on schema elsewhere to public; grant all on elsewhere.shared to public".to_owned(),
        "create function sets(name text, value text) returns text language sql volatile as 'select set_config($1, $2, false)'".to_owned(),
        "create function fails(code text) returns int language plpgsql as
         $$ begin raise exception 'on demand' using errcode = code, hint = 'none', detail = 'given: ' || code; end $$".to_owned(),
    ];
    for n in 0..clients {
        all.push(format!(
            "create table a{n} (id int primary key, v int check (v > -1000), t text, n numeric);
             create table b{n} (id serial, a int references a{n}, v text);
             insert into a{n} select i, i * 3 % 17, 'row ' || i, i / 7.0 from generate_series(1, 20) i;
             grant all on a{n}, b{n}, b{n}_id_seq to public; alter table a{n} owner to app; alter table b{n} owner to app"
        ));
    }
    all
}

/// The generator of one client.
pub struct Statements {
    random: Random,
    client: usize,
    /// Whether a server of its own lives as long as the client: then what a server remembers and nobody can carry over is in.
    own_server: bool,
}

impl Statements {
    /// A generator; the same arguments give the same steps as long as the answers are the same.
    pub fn new(seed: u64, client: usize, own_server: bool) -> Statements {
        let random = Random::new(seed ^ (client as u64 + 1).wrapping_mul(0x1234_5678_9ABC_DEF1));
        Statements {
            random,
            client,
            own_server,
        }
    }

    /// The next step; `status` is that of the last `ReadyForQuery`.
    pub fn next(&mut self, status: u8) -> Step {
        match status {
            b'E' if self.random.percent(60) => Step::simple(self.end_of_failed()),
            b'T' if self.random.percent(18) => {
                Step::simple(
                    self.random
                        .pick(&["commit", "rollback", "end", "commit and chain", "abort"]),
                )
            }
            _ => match self.random.below(100) {
                0..=44 => Step::simple(self.one()),
                45..=52 => {
                    let count = 2 + self.random.below(3);
                    let all: Vec<String> = (0..count).map(|_| self.one()).collect();
                    Step::simple(all.join("; "))
                }
                53..=72 => self.extended(),
                73..=77 => self.copy_in(),
                78..=82 => self.named_statement(),
                _ => Step::simple(self.transaction_or_setting()),
            },
        }
    }

    fn end_of_failed(&mut self) -> String {
        self.random.text(&[
            "rollback",
            "rollback",
            "commit",
            "rollback to s1",
            "rollback to s2",
            "rollback and chain",
        ])
    }

    fn transaction_or_setting(&mut self) -> String {
        match self.random.below(10) {
            0..=3 => self.random.text(&[
                "begin",
                "begin",
                "begin",
                "start transaction read only",
                "begin isolation level repeatable read",
                "begin isolation level serializable, read write",
            ]),
            4..=5 => self.random.text(&[
                "savepoint s1",
                "savepoint s2",
                "rollback to s1",
                "release s1",
                "release s2",
                "rollback to s2",
            ]),
            _ => self.setting(),
        }
    }

    /// One statement that is not about transactions.
    fn one(&mut self) -> String {
        match self.random.below(20) {
            0..=5 => self.read(),
            6..=10 => self.write(),
            11..=12 => self.wrong(),
            13 => self.setting(),
            14 => self.definition(),
            15 => self.cursor(),
            16 => self.prepared(),
            17 => self.temporary(),
            18 => self.session(),
            _ => self.odd(),
        }
    }

    fn id(&mut self) -> usize {
        self.random.below(30)
    }

    fn read(&mut self) -> String {
        let (n, id) = (self.client, self.id());
        match self.random.below(10) {
            0 => format!("select * from a{n} order by id"),
            1 => format!("select id, v, t from a{n} where id = {id}"),
            2 => format!(
                "select a.t, s.* from a{n} a join shared s on s.id = a.id where a.v < {id} order by a.id, s.id"
            ),
            3 => "select * from shared where id = 1".to_owned(),
            4 => format!("select v, count(*), sum(n), min(t) from a{n} group by v order by v limit {id}"),
            5 => format!(
                "with w as (select * from a{n} where v > {id}) select count(*) as \"a count\", null as nothing from w"
            ),
            6 => {
                format!("select b.id, b.v, a.v from b{n} b left join a{n} a on a.id = b.a order by b.id, b.v")
            }
            7 => format!("select repeat('long ', {})", id * id * 40),
            8 => format!(
                "select g, g::text, g * 1.5::float8, g % 2 = 0, array[g, g + 1] from generate_series(1, {}) g",
                id * 5
            ),
            _ => format!("explain (costs off) select * from a{n} where id = {id}"),
        }
    }

    fn write(&mut self) -> String {
        let (n, id, v) = (self.client, self.id(), self.random.below(40));
        match self.random.below(9) {
            0 => format!("insert into a{n} values ({id}, {v}, 'new {v}', {v} / 3.0)"),
            1 => format!(
                "insert into a{n} values ({id}, {v}, 'up', 1) on conflict (id) do update set v = a{n}.v + excluded.v returning *"
            ),
            2 => format!(
                "update a{n} set v = v + 1, t = t || '.' where id % 5 = {}",
                id % 5
            ),
            3 => format!("update a{n} set n = n * 2 where id = {id} returning id, n"),
            4 => format!("delete from a{n} where id = {id} and not exists (select from b{n} where a = {id})"),
            5 => format!(
                "insert into b{n} (a, v) values ((select min(id) from a{n}), 'child {v}') returning v"
            ),
            6 => format!(
                "with d as (delete from b{n} where v like '%{}' returning *) select count(*) from d",
                v % 10
            ),
            7 => format!("select t from a{n} where id = {id} for update"),
            _ => format!("copy (select id, v, t from a{n} order by id limit {v}) to stdout"),
        }
    }

    fn wrong(&mut self) -> String {
        let (n, id) = (self.client, self.id());
        match self.random.below(12) {
            0 => "select 1 / 0".to_owned(),
            1 => "selekt 1".to_owned(),
            2 => "select nothing from shared".to_owned(),
            3 => "select * from no_such_table".to_owned(),
            4 => format!("insert into a{n} values (1, 1, 'twice', 1), (1, 2, 'twice', 1)"),
            5 => format!("update a{n} set v = -5000 where id = {id}"),
            6 => "select 'abc'::int".to_owned(),
            7 => format!("delete from a{n} where id in (select a from b{n}); select 'not reached'"),
            8 => format!(
                "select fails('{}')",
                self.random.pick(&["22000", "P0001", "40001", "57014", "XX000"])
            ),
            9 => "select 'unfinished".to_owned(),
            10 => "create table shared (id int)".to_owned(),
            _ => "do $$ begin raise notice 'first %', 1; raise warning 'then'; perform 1 / 0; end $$"
                .to_owned(),
        }
    }

    fn setting(&mut self) -> String {
        let local = if self.random.percent(30) { "local " } else { "" };
        match self.random.below(16) {
            0 => format!(
                "set {local}timezone to '{}'",
                self.random.pick(&["UTC", "Asia/Tokyo", "America/New_York"])
            ),
            1 => format!(
                "set {local}search_path to {}",
                self.random
                    .pick(&["public", "elsewhere, public", "elsewhere", "\"$user\", public"])
            ),
            2 => format!("set {local}extra_float_digits to {}", self.id() % 4),
            3 => format!(
                "set {local}datestyle to '{}'",
                self.random.pick(&["ISO, DMY", "SQL, MDY", "German"])
            ),
            4 => format!("set {local}app.mine to 'value {}'", self.id()),
            5 => format!(
                "select set_config('app.mine', 'by function {}', {})",
                self.id(),
                self.random.percent(30)
            ),
            6 => format!(
                "set {local}client_encoding to '{}'",
                self.random.pick(&["UTF8", "LATIN1"])
            ),
            7 => format!(
                "set {local}role to {}",
                self.random.pick(&["other", "none", "app"])
            ),
            8 => "reset all".to_owned(),
            9 => format!(
                "reset {}",
                self.random.pick(&[
                    "timezone",
                    "search_path",
                    "app.mine",
                    "role",
                    "datestyle",
                    "application_name"
                ])
            ),
            10 => format!("set {local}application_name to 'name {}'", self.id()),
            11 => format!(
                "set {local}intervalstyle to '{}'",
                self.random.pick(&["postgres", "iso_8601"])
            ),
            12 => format!("set {local}statement_timeout to '{}s'", 30 + self.id()),
            13 => format!("select sets('app.mine', 'inside {}')", self.id()),
            14 => self.random.text(&[
                "set no.such.thing to 1",
                "set timezone to 'Nowhere'",
                "set client_min_messages to warning",
                "set standard_conforming_strings to off",
            ]),
            _ => self.show(),
        }
    }

    fn show(&mut self) -> String {
        match self.random.below(5) {
            0 => format!(
                "show {}",
                self.random.pick(&[
                    "timezone",
                    "search_path",
                    "client_encoding",
                    "datestyle",
                    "transaction_isolation"
                ])
            ),
            1 => {
                "select nullif(current_setting('app.mine', true), ''), current_user, session_user, current_schemas(false)"
                    .to_owned()
            }
            2 if self.own_server => {
                "select name, setting from pg_settings where source = 'session' order by name".to_owned()
            }
            3 => "select '2024-03-01 12:00:00+00'::timestamptz, 0.1::float8 + 0.2, interval '3 days 2 hours'"
                .to_owned(),
            _ => "select * from shared where id = 1".to_owned(),
        }
    }

    fn definition(&mut self) -> String {
        let n = self.client;
        match self.random.below(7) {
            0 => format!("create table c{n} (id int, t text default 'd')"),
            1 => format!("drop table c{n}"),
            2 => format!("drop table if exists c{n}"),
            3 => format!("alter table c{n} add column x int default 5"),
            4 => format!("insert into c{n} (id) values (1) returning *"),
            5 => format!("create index on a{n} (v); drop index a{n}_v_idx"),
            _ => format!("select * from c{n}"),
        }
    }

    fn cursor(&mut self) -> String {
        let n = self.client;
        match self.random.below(8) {
            0 | 1 => format!("declare cur cursor for select id, t from a{n} order by id"),
            2 => format!("declare cur scroll cursor with hold for select id from a{n} order by id"),
            3 => "fetch 3 from cur".to_owned(),
            4 => "move forward 2 in cur".to_owned(),
            5 => "fetch backward 1 from cur".to_owned(),
            6 => "close cur".to_owned(),
            _ => "close all".to_owned(),
        }
    }

    fn prepared(&mut self) -> String {
        let n = self.client;
        match self.random.below(7) {
            0 | 1 => format!("prepare p1 (int) as select id, t from a{n} where id > $1 order by id limit 3"),
            2 => format!("prepare p2 as select * from c{n}"),
            3 => format!("execute p1({})", self.id()),
            4 => "execute p2".to_owned(),
            5 => "deallocate p1".to_owned(),
            _ => self.random.text(&["deallocate all", "deallocate p2", "select name, statement from pg_prepared_statements where not from_sql and name not like 'corun%' order by name limit 0"]),
        }
    }

    fn temporary(&mut self) -> String {
        match self.random.below(8) {
            0 | 1 => "create temp table tmp (id int, t text)".to_owned(),
            2 => "create temp table tmp on commit drop as select 1 as id, 'x'::text as t".to_owned(),
            3 => "insert into tmp values (1, 'one'), (2, 'two')".to_owned(),
            4 => "select * from tmp order by id".to_owned(),
            5 => "drop table if exists pg_temp.tmp".to_owned(),
            6 => "select id into temp tmp2 from shared order by id limit 2".to_owned(),
            _ => "select * from tmp2; drop table tmp2".to_owned(),
        }
    }

    fn session(&mut self) -> String {
        let (n, key) = (self.client, self.client * 10 + self.id() % 3);
        match self.random.below(if self.own_server { 14 } else { 11 }) {
            0 => format!("select pg_advisory_lock({key})"),
            1 => format!("select pg_advisory_unlock({key})"),
            2 => format!("select pg_try_advisory_lock({key})"),
            3 => format!("select pg_advisory_xact_lock({key})"),
            4 => "select pg_advisory_unlock_all()".to_owned(),
            5 => format!("listen channel{n}"),
            6 => format!("notify channel{n}, 'payload {key}'"),
            7 => format!(
                "unlisten {}",
                if key % 2 == 0 {
                    "*".to_owned()
                } else {
                    format!("channel{n}")
                }
            ),
            8 => "discard all".to_owned(),
            9 => self
                .random
                .text(&["discard plans", "discard temp", "discard sequences"]),
            10 => "select pg_listening_channels() order by 1".to_owned(),
            11 => format!("select nextval('b{n}_id_seq')"),
            12 => format!("select currval('b{n}_id_seq')"),
            _ => "select lastval()".to_owned(),
        }
    }

    fn odd(&mut self) -> String {
        let n = self.client;
        match self.random.below(9) {
            0 => String::new(),
            1 => ";;".to_owned(),
            2 => "-- only a comment".to_owned(),
            3 => "select".to_owned(),
            4 => "/* begin */ select 'a; b', $$c; d$$, E'it\\'s', \"t\" from shared where id = 2".to_owned(),
            5 => format!("lock table a{n} in access exclusive mode"),
            6 => "set transaction read only".to_owned(),
            7 => "select 'ünï ¢ödé', U&'\\0441'".to_owned(),
            _ => "do $$ begin raise notice 'noticed'; end $$".to_owned(),
        }
    }

    fn extended(&mut self) -> Step {
        let mut bytes = Vec::new();
        let mut shown = Vec::new();
        for _ in 0..=self.random.below(3) {
            let with_value = self.random.percent(50);
            let binary = self.random.percent(30);
            let n = self.client;
            let sql = match (with_value, self.random.below(4)) {
                (true, 0) => format!("select id, v, t from a{n} where id = $1::int"),
                (true, 1) => "select $1::text || '!'".to_owned(),
                (true, 2) => format!("update a{n} set v = v + $1::int where id < 4 returning id, v"),
                (true, _) => format!("insert into a{n} (id, v) values ($1::int, 3)"),
                (false, _) => self.one(),
            };
            let value = self.id().to_string();
            let values: &[Option<&str>] = match (with_value, self.random.percent(10)) {
                (true, false) => &[Some(&value)],
                (true, true) => &[None],
                (false, _) => &[],
            };
            bytes.extend(message::parse("", &sql, &[]));
            bytes.extend(message::bind("", "", values, binary));
            bytes.extend(message::describe(b'P', ""));
            bytes.extend(message::execute("", 0));
            shown.push(format!("{sql} {values:?}{}", if binary { " binary" } else { "" }));
        }
        // A COPY FROM STDIN among these would swallow the Sync; none of the statements is one.
        bytes.extend(message::sync());
        Step {
            shown: format!("extended: {}", shown.join(" / ")),
            bytes,
        }
    }

    fn named_statement(&mut self) -> Step {
        let n = self.client;
        let name = self.random.pick(&["n1", "n2", "n3"]);
        let (what, bytes) = match self.random.below(6) {
            0 | 1 => {
                let sql = match self.random.below(4) {
                    0 => format!("select id, t from a{n} where id < $1 order by id"),
                    1 => "select $1::int + 1 as more".to_owned(),
                    2 => format!("select * from c{n} where id = $1"),
                    _ => format!("update a{n} set v = $1 where id = 1"),
                };
                (format!("parse {name} {sql}"), message::parse(name, &sql, &[23]))
            }
            2 => (format!("describe {name}"), message::describe(b'S', name)),
            3 => (format!("close {name}"), message::close(b'S', name)),
            _ => {
                let value = self.id().to_string();
                let bytes = [
                    message::bind("", name, &[Some(&value)], false),
                    message::describe(b'P', ""),
                    message::execute("", 0),
                ]
                .concat();
                (format!("run {name} ({value})"), bytes)
            }
        };
        Step {
            shown: format!("extended: {what}"),
            bytes: [bytes, message::sync()].concat(),
        }
    }

    fn copy_in(&mut self) -> Step {
        let n = self.client;
        let sql = format!("copy a{n} (id, v, t) from stdin");
        let mut bytes = message::query(&sql);
        let mut shown = sql;
        for _ in 0..self.random.below(4) {
            let row = match self.random.below(6) {
                0 => "not a number\t1\tx\n".to_owned(),
                _ => format!("{}\t{}\tcopied\n", 100 + self.random.below(200), self.id()),
            };
            shown.push_str(&format!(" {row:?}"));
            // Cut anywhere: messages need not end where rows end.
            let (head, tail) = row.as_bytes().split_at(self.random.below(row.len()));
            bytes.extend(message::copy_data(head));
            bytes.extend(message::copy_data(tail));
        }
        if self.random.percent(15) {
            bytes.extend(message::copy_fail("changed my mind"));
            shown.push_str(" fail");
        } else {
            bytes.extend(message::copy_done());
        }
        Step { shown, bytes }
    }
}
