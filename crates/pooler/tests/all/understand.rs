//! What texts are understood to do, statement by statement.

use corun_pooler::understand::{
    Access, Discard, Hint, Isolation, Limits, Pins, Shape, StatementKind as Kind, TransactionEffect,
    Understanding, Understood,
};
use std::sync::Arc;

use crate::common::cases::cases;

fn of(text: impl AsRef<[u8]>) -> Arc<Understood> {
    Understanding::new(Limits::default()).of(text.as_ref())
}

#[test]
fn a_read_is_one_only_when_that_is_certain() {
    let check = |access, texts: &[&str]| {
        for text in texts {
            assert_eq!(of(text).access, access, "{text}");
        }
    };
    check(
        Access::Read,
        &[
            "select 1",
            "SELECT a, lower(b), count(*) over (partition by c order by d) FROM t WHERE x = $1 ORDER BY 1 LIMIT 5",
            "select * from a join b using (id) left join lateral (select max(x) from c where c.id = a.id) m on true",
            "with q as (select 1) select * from q union all select 2 intersect values (3)",
            "table t",
            "values (1), (2)",
            "select extract(year from d), d at time zone 'UTC', x like 'a!%' escape '!', s similar to 'x' from t",
            "select count(*) filter (where x > 1), array[1,2], row(1,2), (x).y, a[1:2], case when x then 1 else 2 end from t",
            "select exists(select 1 from t), x in (select 2), 3 = any(array[1]), current_date, coalesce(a, b), greatest(1, 2) from t",
            "select * from generate_series(1, 10) with ordinality g(i, n), unnest(array[1]) u",
            "select * from t tablesample system (5)",
            "select relname from pg_catalog.pg_class join pg_namespace n on true",
            "select sum(x) from t group by grouping sets ((a), (b), ()) having grouping(a) = 0",
            "explain select 1",
            "explain (analyze, buffers) select * from t",
            "copy t to stdout",
            "copy (select 1) to stdout with csv",
            "declare c cursor for select * from t",
            "select 1; select 2",
        ],
    );
    check(
        Access::Write,
        &[
            "insert into t values (1)",
            "update t set a = 1",
            "delete from t",
            "merge into t using s on t.a = s.a when matched then delete",
            "with x as (delete from t returning *) select * from x",
            "select * from (select 1) s where exists (with y as (insert into t values (1) returning 1) select 1)",
            "select * from t for update",
            "select * from (select * from t for key share) s",
            "select * from t union all (select * from t for no key update)",
            "select * into x from t",
            "select 1 as a into x union select 2",
            "explain analyze insert into t values (1)",
            "explain (analyze) delete from t",
            "copy t from stdin",
            "copy t to '/tmp/x'",
            "copy t to program 'cat'",
            "create table t (a int)",
            "drop table t",
            "truncate t",
            "call p()",
            "do $$ begin end $$",
            "lock table t",
            "vacuum t",
            "notify c, 'x'",
            "listen c",
            "prepare p as select 1",
            "begin",
            "commit",
            "set a.b = 1",
            "discard all",
            "refresh materialized view v",
            "comment on table t is 'x'",
            "select 1; delete from t",
        ],
    );
    check(
        Access::Unknown,
        &[
            "",
            ";",
            "-- nothing\n",
            "select nextval('s')",
            "select random()",
            "select clock_timestamp()",
            "select my_function(1)",
            "select public.lower('x')",
            "select * from my_rows()",
            "select * from t order by my_key(x)",
            "select * from t limit my_limit()",
            "select * from t where x = any(array(select f(1)))",
            "select sum(x) over (partition by f(y)) from t",
            "select sum(x) filter (where f(y)) from t",
            "select string_agg(x, ',' order by f(y)) from t",
            "select case when f(1) then 1 end",
            "select a[f(1)] from t",
            "select * from t join s on f(t.x)",
            "values (f(1))",
            "select current_setting('x')",
            "select pg_is_in_recovery()",
            "select pg_backend_pid()",
            "select * from pg_stat_activity",
            "select * from pg_catalog.pg_locks",
            "show transaction_read_only",
            "execute p",
            "fetch all from c",
            "select * from t tablesample my_method (5)",
            "select json_object('a': 1)",
            "this is not sql",
            "select 'unterminated",
        ],
    );
}

#[test]
fn settings_that_outlive_the_transaction() {
    let check = |text: &str, settings: bool, names: &[&str]| {
        let understood = of(text);
        let found: Vec<&str> = understood.setting_names.iter().map(|name| &**name).collect();
        assert_eq!((understood.settings, &found[..]), (settings, names), "{text}");
    };
    check("set work_mem = '1MB'", true, &[]);
    check("set session datestyle to iso", true, &[]);
    check("set time zone 5", true, &[]);
    check("set names 'utf8'", true, &[]);
    check("reset work_mem", true, &[]);
    check("reset all", true, &[]);
    check("set local work_mem = '1MB'", false, &[]);
    check("set app.who = 'x'", true, &["app.who"]);
    check(
        "SET App.Who = 'x'; set b.c to 1; set app.who to 2",
        true,
        &["app.who", "b.c"],
    );
    check("set role joe", true, &["role"]);
    check("reset role", true, &["role"]);
    check("set local role joe", false, &[]);
    check("set session characteristics as transaction read only", true, &[]);
    check("set transaction read only", false, &[]);
    check("select set_config('app.who', $1, false)", true, &["app.who"]);
    check("select set_config('work_mem', '1MB', false) from t", true, &[]);
    check("select set_config('app.who', 'x', true)", false, &[]);
    check("select set_config('app.who', 'x', 't')", false, &[]);
    check("select set_config('app.who', 'x', 'true'::bool)", false, &[]);
    check("select pg_catalog.set_config($1, $2, true)", false, &[]);
    check("select set_config('app.who', 'x', 'f')", true, &["app.who"]);
    check("select set_config('app.who', 'x', $1)", true, &["app.who"]);
    check(
        "with s as (select set_config('a.b', 'x', false)) select * from s",
        true,
        &["a.b"],
    );
    check("update pg_settings set setting = 'x' where name = 'y'", true, &[]);
    check("discard all", true, &["role"]);
    check("alter system set work_mem = '1MB'", false, &[]);
    check("alter role joe set work_mem = '1MB'", false, &[]);
    check("explain select set_config('a.b', 'x', false)", false, &["a.b"]);
    check("select 'set_config'", false, &[]);
    assert!(of("select set_config($1, $2, false)").pins.contains(Pins::OTHER));
    let temporary = of("set search_path = pg_temp, public");
    assert!(temporary.pins.contains(Pins::TEMP_TABLE));
}

#[test]
fn pins_and_what_undoes_them() {
    let check = |pins: Pins, unpins: Pins, texts: &[&str]| {
        for text in texts {
            let understood = of(text);
            assert_eq!((understood.pins, understood.unpins), (pins, unpins), "{text}");
        }
    };
    let none = Pins::NONE;
    check(
        Pins::TEMP_TABLE,
        none,
        &[
            "create temp table x (a int)",
            "create temporary table x as select 1",
            "create temp table x (a int) on commit delete rows",
            "create table pg_temp.x (a int)",
            "create temp view v as select 1",
            "create temp sequence s",
            "select 1 into temp x",
            "select 1 as a into temporary x union select 2",
            "create function pg_temp.f() returns int language sql as 'select 1'",
            "create type pg_temp.t as (a int)",
            // Grammar unknown: by words.
            "frobnicate temporary things",
        ],
    );
    check(
        none,
        none,
        &[
            "create temp table x (a int) on commit drop",
            "create temp table x on commit drop as select 1",
            "create table x (a int)",
            "select pg_advisory_xact_lock(1)",
            "select pg_advisory_unlock(1)",
            // It may not run: the server is asked.
            "select pg_advisory_unlock_all()",
            "explain select pg_advisory_lock(1)",
            "unlisten c",
            "declare c cursor for select 1",
            "close c",
            "deallocate p",
            "discard plans",
            "select * from t",
        ],
    );
    check(
        Pins::ADVISORY_LOCK,
        none,
        &[
            "select pg_advisory_lock(1)",
            "select a from t where pg_try_advisory_lock_shared(1, a)",
            "select pg_catalog.pg_advisory_lock(1)",
            "insert into t select pg_try_advisory_lock(1)",
            "explain analyze select pg_advisory_lock(1)",
            // In doubt for the pin: the lock stays when a later statement fails.
            "select pg_advisory_lock(1); select pg_advisory_unlock_all()",
            "select json_object('a': pg_advisory_lock(1))",
        ],
    );
    check(Pins::LISTEN, none, &["listen c"]);
    check(none, Pins::LISTEN, &["unlisten *"]);
    check(
        Pins::HOLD_CURSOR,
        none,
        &["declare c cursor with hold for select 1"],
    );
    check(none, Pins::HOLD_CURSOR, &["close all"]);
    check(Pins::SQL_PREPARE, none, &["prepare p as select 1"]);
    check(
        Pins::SQL_PREPARE | Pins::ADVISORY_LOCK,
        none,
        &["prepare p as select pg_advisory_lock(1)"],
    );
    check(none, Pins::SQL_PREPARE, &["deallocate all"]);
    check(
        Pins::SESSION_AUTHORIZATION,
        none,
        &["set session authorization joe"],
    );
    check(
        none,
        Pins::SESSION_AUTHORIZATION,
        &["set session authorization default", "reset session authorization"],
    );
    check(Pins::LOAD, none, &["load 'x'"]);
    check(Pins::OTHER, none, &["select setseed(0.5)", "set seed to 0.5"]);
    check(none, Pins::TEMP_TABLE, &["discard temp"]);
    check(none, Pins::DISCARDED, &["discard all"]);
}

#[test]
fn transactions() {
    use TransactionEffect as Effect;
    let begin = |read_only, isolation, deferrable| Effect::Begin {
        read_only,
        isolation,
        deferrable,
    };
    let check = |text: &str, effect| assert_eq!(of(text).transaction, effect, "{text}");
    check("begin", begin(None, None, None));
    check("start transaction read only", begin(Some(true), None, None));
    check(
        "begin read write, isolation level read committed",
        begin(Some(false), Some(Isolation::ReadCommitted), None),
    );
    check(
        "begin transaction isolation level serializable read only deferrable",
        begin(Some(true), Some(Isolation::Serializable), Some(true)),
    );
    check(
        "begin isolation level repeatable read, not deferrable",
        begin(None, Some(Isolation::RepeatableRead), Some(false)),
    );
    check("commit", Effect::Commit { chain: false });
    check("end and chain", Effect::Commit { chain: true });
    check("rollback", Effect::Rollback { chain: false });
    check("abort and chain", Effect::Rollback { chain: true });
    check("savepoint a", Effect::Savepoint);
    check("release a", Effect::Release);
    check("rollback to a", Effect::RollbackTo);
    check("prepare transaction 'a'", Effect::Prepare);
    check("commit prepared 'a'", Effect::CommitPrepared);
    check("rollback prepared 'a'", Effect::RollbackPrepared);
    check(
        "set transaction isolation level serializable",
        Effect::Characteristics,
    );
    check("begin; select 1", Effect::Mixed);
    check("select 1; commit", Effect::Mixed);
    check("select 1; select 2", Effect::None);
}

/// Statements, and the tables they name.
const TABLES: &str = r#"
    select * from b, A, s.c x where exists (select 1 from "D") and b.x in (select a from b) => D a b s.c
    with q as (select * from t) select * from q, u => t u
    with q as (select 1) insert into t select * from q => t
    update t set a = (select 1 from u) from v where t.x = v.x => t u v
    delete from t using u returning (select 1 from v) => t u v
    copy t (a, b) to stdout => t
"#;

#[test]
fn kinds_tables_and_the_rest() {
    let tables = |text: &str| {
        let understood = of(text);
        let name = |table: &corun_pooler::understand::TableName| match &table.schema {
            Some(schema) => format!("{schema}.{}", table.name),
            None => table.name.to_string(),
        };
        understood.tables.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    for (text, expected) in cases(TABLES) {
        assert_eq!(tables(&text), expected, "{text}");
    }
    assert_eq!(of("select 1").kind, Kind::Select);
    assert_eq!(of("select 1; select 2").kind, Kind::Select);
    assert_eq!(of("select 1; delete from t").kind, Kind::Several);
    assert_eq!(of("select 1; select 2").statements, 2);
    assert_eq!(of(" ; ").kind, Kind::Empty);
    assert_eq!(of("copy t from stdin").kind, Kind::CopyIn);
    assert_eq!(of("copy t to stdout").kind, Kind::CopyOut);
    assert_eq!(of("grant all on t to joe").kind, Kind::Definition);
    assert_eq!(of("nonsense").kind, Kind::Unknown);
    assert_eq!(of("nonsense").shape, Shape::UNKNOWN);
    assert_eq!(of("select 1 from t where a = $7 or b = $2").parameters, 7);
    let names = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect::<Vec<_>>();
    assert_eq!(
        of("deallocate p").discards_prepared,
        Discard::Named(names(&["p"]))
    );
    assert_eq!(
        of("deallocate p; deallocate prepare \"Q\"").discards_prepared,
        Discard::Named(names(&["p", "Q"]))
    );
    assert_eq!(of("deallocate p; deallocate all").discards_prepared, Discard::All);
    assert_eq!(of("discard all").discards_prepared, Discard::All);
    assert_eq!(of("prepare p as select 1").prepares, names(&["p"]));
    assert_eq!(of("execute p(1); explain execute q").executes, names(&["p", "q"]));
    assert_eq!(of("/* corun: replica */ select f()").hint, Some(Hint::Replica));
    assert_eq!(of("/* corun: primary */ nonsense").hint, Some(Hint::Primary));
    for text in [
        "select f()",
        "do ''",
        "call p()",
        "execute p",
        "nonsense",
        "select query_to_xml('x', true, true, '')",
    ] {
        assert!(of(text).opaque, "{text}");
    }
    for text in [
        "select lower('x')",
        "begin",
        "insert into t values (nextval('s'))",
        "select pg_sleep(1)",
    ] {
        assert!(!of(text).opaque, "{text}");
    }
    for (text, plain) in [
        ("select 1", true),
        ("values (1)", true),
        ("insert into t values (1)", true),
        ("select 1; select 2", false),
        ("select $1", false),
        ("select 1 into t", false),
        (
            "merge into t using s on t.a = s.a when matched then delete",
            false,
        ),
        ("begin", false),
    ] {
        assert_eq!(of(text).plain, plain, "{text}");
    }
}

#[test]
fn shapes_ignore_literals_and_normalised_texts_hold_none() {
    let a = of("select * from t where a = 1 and b = 'secret one' and c > date '2020-01-01' and d = -5.5");
    let b = of("select  * from t where a = 22 and b = 'secret two' and c > date '2021-01-01' and d = 6");
    assert_eq!(a.shape, b.shape);
    assert_ne!(a.shape, Shape::UNKNOWN);
    assert_ne!(a.shape, of("select * from t where a = 1").shape);
    let normalised = a.normalised.as_deref().expect("a statement on data");
    assert!(!normalised.contains("secret"), "{normalised}");
    for text in [
        "alter role joe password 'secret'",
        "create subscription s connection 'password=secret' publication p",
        "alter role joe password 'secret'; select 1",
        "select 1; alter role joe password 'secret'",
        "syntax error password 'secret'",
    ] {
        let debug = format!("{:?}", of(text));
        assert!(!debug.contains("secret"), "{debug}");
    }
}

#[test]
fn texts_that_are_no_utf8_are_understood_all_the_same() {
    let mut text = b"create temp table t\xe4glich (a int); select '".to_vec();
    text.extend_from_slice(b"\xfc\xff' from pg_class");
    let understood = of(&text);
    assert_eq!((understood.pins, understood.statements), (Pins::TEMP_TABLE, 2));
}

#[test]
fn long_and_deep_texts_are_unknown_and_harmless() {
    // Longer than anybody would allow, to get at the parser.
    let of = |text: &str| {
        let limits = Limits {
            text_bytes_max: 256 << 10,
            ..Limits::default()
        };
        Understanding::new(limits).of(text.as_bytes())
    };
    let deep = [
        format!("select {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("select {}1", "1+".repeat(100_000)),
        format!("select {}1", "- ".repeat(100_000)),
        format!("select {}true", "not ".repeat(60_000)),
        format!("select 1{}", "::int".repeat(40_000)),
        format!("select {}1", "case when true then ".repeat(12_000)),
        format!("select 1 {}", "union select 1 ".repeat(15_000)),
        format!("select * from a {}", "join b on true ".repeat(15_000)),
        format!("select {}1{}", "array[".repeat(40_000), "]".repeat(40_000)),
        format!("select {}1{}", "f(".repeat(150), ")".repeat(150)),
        format!("{}select 1", "explain ".repeat(30_000)),
        "select ''''''''".repeat(20_000),
        "begin;".repeat(40_000),
        "x".repeat(300_000),
    ];
    for text in deep {
        // In a thread with a stack as small as they come.
        let handle = std::thread::Builder::new().stack_size(2 << 20);
        let head: String = text.chars().take(30).collect();
        let understood = handle
            .spawn(move || of(&text))
            .expect("a thread")
            .join()
            .expect(&head);
        assert_ne!(understood.access, Access::Read, "{head}");
    }
    for (end, pins) in [
        ("); create temp table x (a int)", Pins::TEMP_TABLE),
        (", 'please hold and prepare')", Pins::NONE),
    ] {
        let understood = of(&format!("insert into t values ('{}'{end}", "y".repeat(300_000)));
        assert_eq!((understood.kind, understood.pins), (Kind::Unknown, pins), "{end}");
    }
    for wide in [
        format!("select * from t where a in ({}1)", "1, ".repeat(50_000)),
        format!("select a{} from t", "[1]".repeat(10_000)),
        format!("select * from t where a = 1{}", " or a = 1".repeat(1_000)),
    ] {
        assert_eq!(of(&wide).access, Access::Read, "{}", &wide[..40]);
    }
}

#[test]
fn the_cache_stays_within_its_bounds() {
    let limits = Limits {
        entries_max: 50,
        bytes_max: 20_000,
        ..Limits::default()
    };
    let mut understanding = Understanding::new(limits.clone());
    for number in 0..500 {
        let text = format!("select column_{number} from t where a = {number}");
        let first = understanding.of(text.as_bytes());
        let again =
            understanding.of(format!("select column_{number} from t where a = {}", number + 7).as_bytes());
        assert!(Arc::ptr_eq(&first, &again));
        let statistics = understanding.statistics();
        assert!(
            statistics.entries <= limits.entries_max && statistics.bytes <= limits.bytes_max,
            "{statistics:?}"
        );
    }
    let statistics = understanding.statistics();
    assert_eq!(
        (statistics.asked, statistics.parsed, statistics.found_rough),
        (1000, 500, 500)
    );
    assert_eq!(statistics.evicted, 500 - statistics.entries as u64);
}
