//! What must run whole, and what must not be refused.

use corun_pooler::split::Refusal;

use super::executor::{Client, Unprepared, key, prepare};
use crate::common::cases::cases;
use crate::common::postgres::shared;

const TABLES: &str = "
    create type mood as enum ('sad', 'happy');
    create table t (id int primary key, g int, x text, y text collate \"POSIX\", f float8, p interval, m mood, b bool, d date,
        tx text collate \"und-x-icu\", j jsonb);
    create table u (uid int, t_id int, v numeric, w text);
    create view seen as select * from t;
    create table parted (id int, g int) partition by range (id);
    create table parted_1 partition of parted for values from (0) to (100);
    create table guarded (id int, g int);
    alter table guarded enable row level security;
    alter table guarded force row level security;
    create table \"Odd \"\"Name\"\"\" (\"Key Col\" int, v int)";

/// What is refused, and the refusal. `Failed`: the server does not run it either.
const REFUSED: &str = r#"
    insert into t values (1) => NotPlainSelect
    select 1; select 2 => NotPlainSelect
    select id from t union select uid from u => NotPlainSelect
    with q as (select 1) select id from t => NotPlainSelect
    select id from t for update => NotPlainSelect
    select id into z from t => NotPlainSelect
    select distinct on (g) g, id from t order by g, id => NotPlainSelect
    select a.id from t a, t b => KeyTable
    select uid from u => KeyTable
    select uid from u left join t on t.id = u.t_id => KeyOptional
    select uid from t right join u on t.id = u.t_id => From
    select uid from t full join u on t.id = u.t_id => From
    select t.id from t natural join u => From
    select q.id from (select id from t) q => From
    select id from t, generate_series(1, 3) => From
    select id from t tablesample system (10) => From
    select a from t as t (a) => From
    select id, row_number() over (order by id) from t => Function
    select id, sum(g) over () from t => Construct
    select g, count(*) from t group by rollup (g) => Construct
    select id, generate_series(1, g) from t => Function
    select id from t where d < now() => Function
    select id from t where d < current_date => Construct
    select id from t where d < 'today' => Clock
    select id from t where random() < 0.5 => Function
    select id from t limit 3 => LimitWithoutOrder
    select g from t group by g offset 3 => LimitWithoutOrder
    select id from t order by id limit 1 + 1 => LimitExpression
    select id from t order by g fetch first 2 rows with ties => WithTies
    select string_agg(x, ',') from t => Function
    select array_agg(id) from t => Function
    select public.abs(id) from t => Function
    select id from t where id operator(public.=) 3 => Operator
    select g, sum(f) from t group by g => MergeType
    select avg(f) from t => MergeType
    select sum(p) from t => MergeType
    select p from t order by p => MergeType
    select m from t order by m => MergeType
    select x, count(*) from t group by x order by x collate "und-x-icu" => Collation
    select id from t order by tx => Collation
    select id from t where x in (select w from u limit 3) => SubSelect
    select id from t where x = (select w from u limit 1) => SubSelect
    select id from t where f in (select sum(t.f) from t) => SubSelect
    select array(select uid from u) from t => Construct
    select id from seen => KeyTable
    select t.id from t, seen => TableKind
    select t.id from t, guarded => TableKind
    select t from t => Column
    select ctid from t => Column
    select g, x from t group by g => Failed
    select g::regclass from t => Cast
    select g::mood from t => Cast
    select j['a'] from t => Construct
    select (select max(uid) from u), id from t order by max => SortName
"#;

#[test]
fn refused_and_not() {
    let (_, mut admin) = Client::in_new_database(TABLES);
    for text in [
        "select * from t",
        "select id, x from t where g = 3 and f < 2 and p > '1 day'",
        "select count(*) from t",
        "select g, avg(v) from t, u where t.id = t_id group by g having count(*) > 2 order by avg(v) limit 5",
        "select x, f, sum(f) from t group by id, x, f order by f limit 3",
        "select f from t order by f desc",
        "select f, max(f) from t group by f",
        "select id, (select max(v) from u where t_id = t.id) from t order by 2, 1",
        "select t_id, count(*) from u join t on t.id = u.t_id group by t_id",
        "select distinct t.* from t, u order by id",
        "select m, count(*) from t group by id, m",
        "select id from t order by y, id",
        "select id as x from t order by x",
        "select y from t group by id order by 1",
        "select id from t where b is not false and d > '2020-01-01'::date",
        "select x is null, g from t order by g, id",
        "select max(g) - min(g) from t where x ~ '^a' or x ilike 'b%' escape '!'",
        "select id from t where id = any($1) or g = all(array[1, 2])",
        "select count(distinct x), count(distinct id) from t",
        "select count(*) from t where f = (select sum(f) from t)",
        "select d at time zone 'UTC' from t",
        "select d::text, case when b then 1 else g end from t order by d, id",
        "select x::varchar(3), g::numeric(5, 2) from t order by x, g",
        "select (select max(uid) from u), id from t order by 1, id",
    ] {
        if let Err(why) = prepare(&mut admin, text, &key("t.id")) {
            panic!("{text}: {why:?}");
        }
    }
    for text in [
        "select g, sum(id) from parted group by g",
        "select id from parted where g > 2",
    ] {
        assert!(prepare(&mut admin, text, &key("parted.id")).is_ok(), "{text}");
    }
    let odd = corun_pooler::split::KeyColumn {
        schema: Some("public".to_owned()),
        table: "Odd \"Name\"".to_owned(),
        column: "Key Col".to_owned(),
    };
    let text = "select o.v from \"Odd \"\"Name\"\"\" o order by 1";
    assert!(prepare(&mut admin, text, &odd).is_ok());

    for (text, why) in cases(REFUSED) {
        let outcome = prepare(&mut admin, &text, &key("t.id"));
        let named = match &outcome {
            Ok(_) => "nothing".to_owned(),
            Err(Unprepared::Failed(_)) => "Failed".to_owned(),
            Err(Unprepared::Refused(refusal)) => format!("{refusal:?}"),
            Err(Unprepared::Wrong(wrong)) => panic!("{text}: {wrong}"),
        };
        assert!(named.starts_with(why), "{text}: {named}, not {why}");
        if let Err(Unprepared::Refused(refusal)) = outcome {
            let said = refusal.to_string();
            assert!(said.len() > 10 && !said.contains('\n'), "{said}");
        }
    }
}

/// Names that stand for something else here than they usually do.
#[test]
fn what_the_database_has_of_its_own() {
    let (login, mut admin) = Client::in_new_database(TABLES);
    let text = "select id from t where id > 3 and abs(g) = 2";
    let refused = |admin: &mut Client, sql: &str, expected: &dyn Fn(&Refusal) -> bool| {
        admin.run(sql);
        match prepare(admin, text, &key("t.id")) {
            Err(Unprepared::Refused(refusal)) => assert!(expected(&refusal), "{sql}: {refusal:?}"),
            Ok(_) => panic!("{sql}: not refused"),
            Err(other) => panic!("{sql}: {other:?}"),
        }
    };
    let shadowed = |why: &Refusal| matches!(why, Refusal::Shadowed(_));
    // One that PostgreSQL's own hides is never called.
    admin.run("begin; create function abs(int) returns int language sql as 'select 1'");
    assert!(prepare(&mut admin, text, &key("t.id")).is_ok());
    admin.run("rollback");
    for sql in [
        "begin; create function abs(date) returns int language sql as 'select 1'",
        "rollback; begin; create function abs(mood) returns int language sql as 'select 1'",
        "rollback; begin; create function odd(int, bool) returns bool language sql as 'select true';
         create operator > (leftarg = int, rightarg = bool, function = odd)",
    ] {
        refused(&mut admin, sql, &shadowed);
    }
    refused(
        &mut admin,
        "rollback; set search_path = public, pg_catalog",
        &|why| *why == Refusal::SearchPath,
    );
    refused(
        &mut admin,
        "reset search_path; set default_transaction_isolation = serializable",
        &|why| *why == Refusal::Serializable,
    );
    refused(
        &mut admin,
        "reset default_transaction_isolation; create temp table t (id int, g int)",
        &|why| matches!(why, Refusal::TableKind(..)),
    );
    admin.run("drop table t");
    // Types of others, with their own operators and functions, do not matter as long as no column in the text has one.
    admin.run(
        "begin; create type own as (a int); create function abs(own) returns int language sql as 'select 1';
         create function less(own, own) returns bool language sql as 'select true';
         create operator > (leftarg = own, rightarg = own, function = less)",
    );
    assert!(prepare(&mut admin, text, &key("t.id")).is_ok());
    admin.run("alter table t add column mine own");
    let outcome = prepare(&mut admin, "select id from t where mine > mine", &key("t.id"));
    assert!(matches!(
        outcome,
        Err(Unprepared::Refused(Refusal::ColumnType(_)))
    ));
    assert!(prepare(&mut admin, "select * from t where id > 3", &key("t.id")).is_ok());
    admin.run("rollback");
    // A cast of the database's own between PostgreSQL's types needs a superuser.
    let super_login = shared().login("postgres").database(&login.database);
    let mut root = Client::connect(&super_login);
    refused(
        &mut root,
        "begin; create cast (text as date) with inout as implicit",
        &|why| *why == Refusal::OwnCasts,
    );
    root.run("rollback");
}

#[test]
fn names_of_the_output_are_the_servers() {
    let (_, mut admin) = Client::in_new_database("create table t (id int, g int, x text)");
    // Each is ordered by the name the server gives it, which is found where the query is split; a column of that name would be
    // another one.
    for expression in [
        "g",
        "t.g",
        "count(g)",
        "g::text",
        "'x'::text",
        "'x'::text::varchar",
        "(g + 1)::int8",
        "(g + 1)",
        "case when true then g end",
        "case when true then 1 else g end",
        "(case when true then 1 end)::int8",
        "coalesce(g, 1)",
        "nullif(g, 1)",
        "g is null",
        "x collate \"C\"",
        "case when true then 1 else abs(g) end::numeric",
        "1::int2",
    ] {
        let whole = format!("select {expression}, 1 as one from t group by g, x limit 0");
        admin.0.send_query(&whole);
        let name = admin.0.until_ready()[0].column_names()[0].clone();
        let text = format!("select {expression}, g as one from t group by id, g, x order by \"{name}\", id");
        let outcome = prepare(&mut admin, &text, &key("t.id"));
        assert!(outcome.is_ok(), "{text}: {:?}", outcome.err());
    }
}
