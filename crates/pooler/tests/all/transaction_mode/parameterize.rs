//! Simple queries that differ in literals run as one statement, and are answered as the server answers them directly.

use crate::common::fixture::Fixture;
use crate::common::message;
use crate::common::number_from_environment;
use crate::common::postgres;
use crate::common::random::Random;
use crate::common::raw::Raw;
use crate::common::shapes::{SHAPES, STRINGS};
use crate::common::target::{Kind, Mode, Pooling, kind};

const TABLES: &[&str] = &[
    "create type mood as enum ('sad', 'ok', 'happy')",
    "create domain small as int check (value < 100)",
    "create table t (id int primary key, a int, b bigint, s smallint, n numeric, n5 numeric(5,2), f float8, r real, x text, v varchar(4),
        c char(3), d date, ts timestamp, tz timestamptz, i interval, u uuid, j jsonb, bo bool, m mood, dom small, ia int[], ta text[])",
    "create table k (id serial primary key, t_id int unique, note text)",
    "create table loud (id int, v varchar(3))",
    "create function shout() returns trigger language plpgsql as $$ begin raise notice 'row %', new.id; return new; end $$",
    "create trigger shout before insert on loud for each row execute function shout()",
    "create function aloud(n int) returns int language plpgsql stable as $$ begin raise notice 'asked for %', n; return n; end $$",
    "create table parts (id int, part int) partition by list (part)",
    "create table parts_1 partition of parts for values in (1, 2)",
    "create table parts_2 partition of parts for values in (3, 4)",
    "insert into parts select g, 1 + g % 4 from generate_series(1, 40) g",
    "create view few as select id, a, x, d from t where id < 20",
    "grant all on all tables in schema public to public; grant all on all sequences in schema public to public",
];

/// What the tables hold in the beginning, and again after every few rounds.
const ROWS: &[&str] = &[
    "delete from t; delete from k; delete from loud",
    "insert into t select g, g % 7, g * 1000000000::bigint, g % 5, g / 4.0, g, g / 8.0, g / 2.0, 'text ' || g, 'v' || g % 9, 'c' || g % 9,
        date '2024-01-01' + g, timestamp '2024-01-01' + g * interval '1 hour', timestamptz '2024-01-01 UTC' + g * interval '1 day',
        g * interval '1 minute', ('00000000-0000-0000-0000-0000000000' || 10 + g)::uuid, jsonb_build_object('k', g), g % 2 = 0,
        case g % 3 when 0 then 'sad' when 1 then 'ok' else 'happy' end::mood, g, array[g, g + 1], array['a', 'b' || g]
        from generate_series(1, 40) g",
    "insert into k (t_id, note) select g, 'note' || g from generate_series(1, 20) g",
];

/// Beside [`SHAPES`], which says what the places are.
const MORE_SHAPES: &[&str] = &[
    "select id, n + 1.5, n5 * 2, f from t where n > % order by id limit 3",
    "select id from t where x = ~::text or b = ?::bigint or n = %::numeric order by id",
    "select id from t where d = date ~ or i = interval ~ order by id",
    "select id from t where x like ~ or length(x) = ? order by id limit ? offset ?",
    "select id, 100 / (a - ?) from t where id < ? order by id",
    "select id from t where 12 / (s - ?) > ? order by id",
    "select id, x::int from t where id = ? and @ <> ~",
    "select gr\u{fc}n, id from t where id = ?",
    "select id from t where id = ? and nosuch = ~",
    "select id from few where id > ? and d <> ~ order by id for update",
    "select aloud(a) from t where id = ?",
    "select aloud(id) / (a - ?) from t where id = ?",
    "select id from parts where part = ? and id > ? order by id",
    "insert into t (id, a, x) values (?, ?, ~) returning *",
    "insert into t (id, a, x) values (?, ?, ~) on conflict (id) do update set x = ~ where t.id > ?",
    "insert into k (t_id) values (?) returning id",
    "insert into loud (id, v) values (?, ~), (?, ~) returning id",
    "insert into loud (id, v) values (?, ~)",
    "insert into parts (id, part) values (?, ?)",
    "update t set a = a + ?, b = b - ?, n = n * %, s = s + ? where id = ?",
    "update t set a = a / ?, x = x || ~ where id > ?",
    "delete from k using t where k.t_id = t.id and k.note = ~",
];

const COLUMNS: &[&str] = &[
    "a", "b", "s", "n", "n5", "f", "r", "x", "v", "c", "d", "ts", "tz", "i", "u", "j", "bo", "m", "dom",
    "ia", "ta",
];

struct Texts(Random);

impl Texts {
    fn integer(&mut self) -> String {
        match self.0.below(20) {
            0..=15 => self.0.below(45).to_string(),
            16..=17 => format!("-{}", self.0.below(9)),
            _ => self.0.text(&[
                "2147483647",
                "2147483648",
                "-2147483649",
                "5000000000",
                "9223372036854775808",
                "70000",
                "007",
            ]),
        }
    }

    fn number(&mut self) -> String {
        match self.0.below(10) {
            0..=3 => self.integer(),
            4..=7 => format!("{}.{:02}", self.0.below(45), self.0.below(100)),
            _ => self.0.text(&[
                "1.50",
                "-2.25",
                "1e3",
                "7.",
                "16777217.0",
                "99999.99",
                "0.333333333333333333333",
            ]),
        }
    }

    fn string(&mut self) -> String {
        format!("'{}'", self.0.pick(STRINGS))
    }

    fn fill(&mut self, shape: &str, column: &str) -> String {
        let mut text = String::new();
        for place in shape.chars() {
            match place {
                '?' => text.push_str(&self.integer()),
                '%' => text.push_str(&self.number()),
                '~' => text.push_str(&self.string()),
                '^' => match self.0.below(11) {
                    0..=4 => text.push_str(&self.number()),
                    5..=9 => text.push_str(&self.string()),
                    _ => text.push_str(self.0.pick(&["null", "true", "default"])),
                },
                '@' => text.push_str(column),
                other => text.push(other),
            }
        }
        text
    }
}

/// All of an answer, errors with every field.
fn answer(client: &mut Raw, sql: &str) -> (Vec<String>, u8) {
    client.send_query(sql);
    let seen = client.until_ready();
    let status = seen.last().map_or(b'I', |ready| ready.body[0]);
    let mut lines = message::shown(&seen);
    if !sql.contains("order by")
        && let Some(first) = lines.iter().position(|line| line.starts_with("row "))
    {
        // Rows come as they are stored, which is a matter of free space.
        let count = lines[first..]
            .iter()
            .take_while(|line| line.starts_with("row "))
            .count();
        lines[first..first + count].sort();
    }
    (lines, status)
}

/// One server for all.
fn fixture() -> Option<Fixture> {
    fixture_with(Pooling::new(Mode::Transaction, 1))
}

fn fixture_with(pooling: Pooling) -> Option<Fixture> {
    let pooling = pooling.ours("auto_prepare = \"parameterize\"");
    (kind() == Kind::Corun).then(|| Fixture::start(&pooling))
}

/// What the one server connection has prepared and run.
fn prepared(client: &mut Raw) -> Vec<String> {
    // Version 13 does not count what has run.
    let only = match postgres::version() {
        ..14 => "",
        _ => "where generic_plans + custom_plans > 0",
    };
    let rows = client.rows(&format!(
        "select statement from pg_prepared_statements {only} order by statement"
    ));
    rows.into_iter().filter_map(|mut row| row.remove(0)).collect()
}

#[test]
fn random_statements_are_answered_as_by_the_server() {
    let Some(fixture) = fixture_with(Pooling::new(Mode::Transaction, 2)) else {
        return;
    };
    let copy = postgres::new_database();
    for database in [&fixture.database, &copy] {
        for statement in TABLES.iter().chain(ROWS) {
            postgres::shared().sql_in(database, statement);
        }
    }
    let mut direct = postgres::shared().client("app", &copy);
    let mut clients = [fixture.client(), fixture.client()];
    let mut holder = fixture.client();
    let seed = number_from_environment("CORUN_TEST_SEED", 1);
    let shapes = [SHAPES, MORE_SHAPES].concat();
    let mut texts = Texts(Random::new(seed));
    let (mut lifted, mut errors) = (std::collections::BTreeSet::new(), 0);
    for round in 0..number_from_environment("CORUN_TEST_ROUNDS", 150) {
        // A few shapes a round, so that each comes again; a client of either kind, so that blocks and single statements mix.
        if round % 10 == 9 {
            for statement in ROWS {
                fixture.sql(statement);
                postgres::shared().sql_in(&copy, statement);
            }
        }
        // Sometimes another client has one of the two servers for itself.
        if round % 3 == 0 {
            holder.rows("begin; select 7");
        }
        let turn = texts.0.below(2);
        let block = texts.0.percent(40);
        let mut history = vec![format!("CORUN_TEST_SEED={seed}, round {round}")];
        let (shape, column) = (texts.0.pick(&shapes), texts.0.pick(COLUMNS));
        let mut status = b'I';
        for n in 0..14 {
            let text = match (block, n, status) {
                (true, 4, _) => "begin".to_owned(),
                (true, 13, _) => "rollback".to_owned(),
                (_, _, b'E') => "rollback; begin".to_owned(),
                _ => texts.fill(shape, column),
            };
            history.push(text.clone());
            let (expected, after) = answer(&mut direct, &text);
            let (seen, _) = answer(&mut clients[turn], &text);
            assert_eq!(seen, expected, "{}", history.join("\n"));
            status = after;
            errors += usize::from(expected.iter().any(|line| line.starts_with("error ")));
        }
        if round % 3 == 0 {
            holder.rows("commit");
        }
        let now = prepared(&mut clients[turn]);
        lifted.extend(now.into_iter().filter(|text| text.contains("$1")));
        let contents = "select * from t order by id; select * from k order by id; select * from loud order by id, v; select * from parts order by id, part";
        assert_eq!(
            answer(&mut clients[turn], contents),
            answer(&mut direct, contents),
            "{}",
            history.join("\n")
        );
    }
    assert!(
        lifted.len() >= 15 && errors >= 50,
        "{errors} errors, lifted: {lifted:#?}"
    );
}

#[test]
fn texts_that_differ_in_literals_are_one_statement_of_all_clients() {
    let Some(fixture) = fixture() else {
        return;
    };
    let (mut a, mut b) = fixture.two();
    a.rows("create table t (v int, x text); insert into t select n, 'x' || n from generate_series(1, 100) n");
    for n in 1..=20 {
        assert_eq!(
            a.value(&format!("select x from t where v = {n}")),
            format!("x{n}")
        );
        assert_eq!(
            b.value(&format!("select v from t where x = 'x{n}' and v < 50")),
            n.to_string()
        );
        a.value(&format!("select {n}"));
    }
    let expected = [
        "select v from t where x = $1 and v < $2",
        "select x from t where v = $1",
    ];
    assert_eq!(prepared(&mut b), expected);
    // Also where every statement stands in a block: the question goes ahead of a BEGIN.
    for n in 1..=20 {
        b.rows("begin");
        assert_eq!(
            b.rows(&format!("update t set v = v + {n} where x = 'x{n}' returning x"))
                .len(),
            1
        );
        b.rows("commit");
    }
    assert_eq!(
        prepared(&mut a)[2],
        "update t set v = v + $1 where x = $2 returning x"
    );
    assert_eq!(a.value("select v from t where x = 'x20'"), "40");
}

#[test]
fn changed_definitions_are_noticed() {
    let Some(fixture) = fixture() else {
        return;
    };
    let (mut a, mut b) = fixture.two();
    a.rows("create table t (id int, d date); insert into t values (1, '2024-01-05')");
    let text = |hour: u32| format!("select id from t where d = '2024-01-05 0{hour}:00'");
    for hour in 1..6 {
        assert_eq!(a.value(&text(hour)), "1", "a date has no hours");
    }
    assert_eq!(prepared(&mut a), ["select id from t where d = $1"]);
    // As a date, the literal would still be equal.
    b.rows("alter table t alter d type timestamp");
    for hour in 1..6 {
        assert_eq!(a.value(&text(hour)), "null");
    }
    assert_eq!(a.value("select id from t where d = '2024-01-05 00:00'"), "1");
    // In the block that changes them.
    for n in 1..4 {
        assert_eq!(
            a.rows(&format!("select * from t where id = {n}")).len(),
            usize::from(n == 1)
        );
    }
    a.rows("begin");
    a.rows("alter table t add w int");
    assert_eq!(a.rows("select * from t where id = 1")[0].len(), 3);
    a.rows("rollback");
    assert_eq!(a.rows("select * from t where id = 1")[0].len(), 2);
    // Past the proxy: refused by the server, and run as it came.
    for n in 1..4 {
        a.rows(&format!("select * from t where id = {n}"));
    }
    fixture.sql("alter table t add w int");
    for _ in 0..3 {
        assert_eq!(a.rows("select * from t where id = 1")[0].len(), 3);
    }
}

#[test]
fn settings_decide_what_literals_are() {
    let Some(fixture) = fixture() else {
        return;
    };
    let (mut a, mut b) = fixture.two();
    a.rows("create table t (id int, d date); insert into t values (1, '2024-01-02'), (2, '2024-02-01')");
    b.rows("set datestyle = 'ISO, DMY'");
    // One literal is lifted and read when it is bound, the other is read when the statement is parsed.
    let check = |client: &mut Raw, id: &str, date: &str| {
        assert_eq!(client.value("select id from t where d = '01/02/2024'"), id);
        assert_eq!(client.value("select date '01/02/2024' from t where id = 1"), date);
    };
    for _ in 0..4 {
        check(&mut a, "1", "2024-01-02");
        check(&mut b, "2", "2024-02-01");
    }
    // What is set within a block is not known; neither are texts run under it.
    a.rows("begin; set local datestyle = 'ISO, DMY'");
    for _ in 0..4 {
        check(&mut a, "2", "2024-02-01");
    }
    a.rows("commit");
    check(&mut a, "1", "2024-01-02");
}

#[test]
fn settings_of_a_session_decide_too() {
    let Some(fixture) = fixture_with(Pooling::new(Mode::Session, 1)) else {
        return;
    };
    let mut a = fixture.client();
    a.rows("create table t (id int, d date); insert into t values (1, '2024-01-02'), (2, '2024-02-01')");
    for expected in [["1", "2024-01-02"], ["2", "2024-02-01"]] {
        for _ in 0..4 {
            assert_eq!(a.value("select id from t where d = '01/02/2024'"), expected[0]);
            let dates = a.rows("select date '01/02/2024' from t where id = 1");
            assert_eq!(dates[0][0].as_deref(), Some(expected[1]));
        }
        a.rows("set datestyle = 'ISO, DMY'");
    }
}

#[test]
fn what_is_sent_behind_a_query_does_not_overtake_it() {
    let Some(fixture) = fixture() else {
        return;
    };
    let mut a = fixture.client();
    a.rows("create table t (id int, d date); insert into t values (1, '2024-01-02')");
    for _ in 0..4 {
        assert_eq!(a.value("select id from t where d = '2024-01-02'"), "1");
    }
    // The first is refused with its literal lifted, and runs again.
    let texts = [
        "select id from t where d = 'no date'",
        "select 2",
        "select id from t where d = '2024-01-02'",
    ];
    let sent = texts.map(message::query).concat();
    let mut direct = fixture.direct();
    for client in [&mut a, &mut direct] {
        client.send(&sent);
    }
    for _ in texts {
        let [seen, expected] = [&mut a, &mut direct].map(|client| message::shown(&client.until_ready()));
        assert_eq!(seen, expected);
    }
}

#[test]
fn what_comes_of_an_error_comes_once() {
    let Some(fixture) = fixture() else {
        return;
    };
    let mut a = fixture.client();
    for statement in TABLES {
        fixture.sql(statement);
    }
    for n in 1..6 {
        a.rows(&format!(
            "insert into loud (id, v) values ({n}, 'abc'), ({n}, 'de')"
        ));
        a.rows(&format!("insert into k (t_id) values ({n}) returning id"));
    }
    assert_eq!(prepared(&mut a).len(), 2);
    // The second row is refused when the first is in; as a literal it is refused before.
    let (lines, _) = answer(
        &mut a,
        "insert into loud (id, v) values (7, 'abc'), (8, 'toolong')",
    );
    assert!(lines.len() == 2 && lines[0].contains("C22001"), "{lines:?}");
    // No number is drawn twice for an error that is the statement's own.
    let (lines, _) = answer(&mut a, "insert into k (t_id) values (5) returning id");
    assert!(lines.len() == 2 && lines[0].contains("C23505"), "{lines:?}");
    assert_eq!(a.value("insert into k (t_id) values (6) returning id"), "7");
    assert_eq!(a.value("select count(*) from loud"), "10");
}

#[test]
fn what_servers_and_the_proxy_keep_is_bounded() {
    let Some(fixture) = fixture_with(Pooling::new(Mode::Transaction, 1).set("max_prepared_statements", "8"))
    else {
        return;
    };
    let mut a = fixture.client();
    a.rows("create table t (v int)");
    for n in 0..40 {
        let column = format!("column_{n}");
        for v in 1..6 {
            assert_eq!(
                a.rows(&format!("select v as {column} from t where v = {v}"))
                    .len(),
                0
            );
        }
    }
    let kept: usize = a.number("select count(*) from pg_prepared_statements");
    assert!((1..=8).contains(&kept), "{kept}");
}

#[test]
fn a_lock_of_another_holds_up_nobody_who_does_not_want_it() {
    let Some(fixture) = fixture() else {
        return;
    };
    let mut a = fixture.client();
    a.rows("create table t (v int); insert into t values (1)");
    a.rows("begin");
    for _ in 0..3 {
        assert_eq!(a.value("select v from t where v = 1"), "1");
    }
    a.rows("commit");
    let mut locker = postgres::shared().client("postgres", &fixture.database);
    locker.rows("begin; lock table t in access exclusive mode");
    // The question about the text goes ahead of this, and is given up.
    assert_eq!(a.value("select 7"), "7");
    locker.rows("commit");
    assert_eq!(a.value("select v from t where v = 1"), "1");
}
