//! Queries of the queue give what they would have given without it, whatever the session, the server or somebody else does meanwhile.

use crate::common::message::{
    bind, close, describe, execute, flush, parse, prepare, query, run_described, sync,
};
use crate::heavy_queue::fixture::{HINT, JOIN, Pair, QueueFixture};

#[test]
fn rights_by_table_row_and_function() {
    let fixture = QueueFixture::start("");
    for statement in [
        "create table mine (owner text, v int)",
        "insert into mine select case when i % 3 = 0 then 'app' else 'other' end, i from generate_series(1, 900) i",
        "alter table mine enable row level security",
        "create policy own on mine using (owner = current_user)",
        "grant select on mine to app",
        "create table secret (s int)",
        "insert into secret values (42)",
        "create view shown as select s from secret",
        "grant select on shown to app",
        "create function forbidden(int) returns int language sql stable as 'select $1'",
        "revoke execute on function forbidden(int) from public",
        "create function allowed() returns bigint language sql stable security definer as 'select count(*) from secret'",
        "create function fails(int) returns int language plpgsql stable as 'begin raise exception ''no %'', $1; end'",
        "create table partly (a int, b int)",
        "grant select (a) on partly to app",
    ] {
        fixture.sql(statement);
    }
    let mut pair = Pair::of(&fixture);
    pair.alike(&[
        "select count(*), sum(v) from mine",
        "select count(*) from mine, dim where v = d_id",
        "select * from secret",
        "select * from shown",
        "select forbidden(1)",
        "select d_id from dim where d_id < forbidden(5)",
        "select allowed()",
        "select fails(3)",
        "select count(*) from fact where fails(f_id) > 0",
        "select a from partly",
        "select b from partly",
        "select count(*) from partly where b > 1",
    ]);
    // Rights that come and go.
    for (change, text) in [
        ("grant select on secret to app", "select * from secret"),
        ("revoke select on secret from app", "select * from secret"),
        ("drop policy own on mine", "select count(*), sum(v) from mine"),
    ] {
        fixture.sql(change);
        pair.alike(&[text]);
    }
    fixture.wait_for_queue(0, 0);
}

#[test]
fn what_is_defined_changes_between_the_question_and_the_run() {
    let fixture = QueueFixture::start("heavy_queue_cache_bytes = \"64MB\"");
    let mut pair = Pair::of(&fixture);
    fixture.sql("create index fact_d on fact (f_d)");
    let texts = [
        JOIN,
        "select count(*), sum(f_v) from fact, dim where f_d = d_id and d_id <= 50",
        "select * from dim where d_id = 7",
    ];
    pair.alike(&texts);
    let prepared = format!("{HINT}select count(*), sum(f_v) from fact, dim where f_d = d_id and d_id <= $1");
    pair.ask(&prepare("kept", &prepared, &[23]), &prepared);
    let run = run_described("kept", &[Some("50")], false);
    for change in [
        "drop index fact_d",
        "insert into fact select i, i % 40000, 3 from generate_series(20001, 60000) i",
        "analyze",
        "alter table dim add column d_more int default 5",
        "alter table fact alter column f_v type bigint",
        "alter table dim drop constraint dim_pkey",
        "alter table dim rename column d_name to d_title",
        "alter table dim rename column d_title to d_name",
        "alter table fact drop column f_v",
        "drop table fact",
    ] {
        fixture.sql(change);
        for _ in 0..2 {
            for text in &texts {
                let text = format!("{HINT}{text}");
                pair.ask(&query(&text), &format!("after {change}: {text}"));
            }
        }
        // Servers that a statement was prepared on later have no old result to keep to.
        if !change.contains("f_v") && !change.contains("drop table") {
            let (ours, direct) = (pair.ours.ask(&run), pair.direct.ask(&run));
            // What a server refuses because its result has changed may have been parsed anew.
            let stale = direct.iter().any(|line| line.contains("C0A000"));
            let mut expected = direct;
            if stale && !ours.iter().any(|line| line.starts_with("error")) {
                pair.direct.ask(&prepare("anew", &prepared, &[23]));
                expected = pair.direct.ask(&run_described("anew", &[Some("50")], false));
                pair.direct.ask(&query("deallocate anew"));
            }
            assert_eq!(ours, expected, "after {change}");
        }
    }
    fixture.wait_for_queue(0, 0);
}

#[test]
fn settings_of_the_client_hold() {
    let fixture = QueueFixture::start("heavy_queue_cache_bytes = \"64MB\"\nheavy_queue_min = \"0ms\"");
    for statement in [
        "create schema elsewhere",
        "create table elsewhere.dim (d_id int primary key, d_name text)",
        "insert into elsewhere.dim select i, 'elsewhere ' || i from generate_series(1, 100) i",
        "grant all on schema elsewhere to app",
        "grant all on all tables in schema elsewhere to app",
    ] {
        fixture.sql(statement);
    }
    let mut pair = Pair::of(&fixture);
    let texts = [
        "select count(*), min(d_name), sum(f_v) from fact, dim where f_d = d_id and f_id <= 400",
        "select count(*), min(d_name), current_setting('work_mem'), current_setting('enable_seqscan') from dim",
        "select d_id from dim where d_id < 4 order by d_name",
    ];
    pair.alike(&texts);
    for setting in [
        "set search_path = elsewhere, public",
        "set work_mem = '64kB'",
        "set enable_hashjoin = off",
        "set enable_nestloop = off",
        "set plan_cache_mode = force_generic_plan",
        "reset search_path",
        "set datestyle = 'German'",
        "set statement_timeout = '1min'",
        "reset all",
    ] {
        pair.both(&[setting]);
        pair.alike(&texts);
        let shown = [
            "show enable_hashjoin",
            "show enable_nestloop",
            "show work_mem",
            "show search_path",
        ];
        pair.both(&shown);
    }
    // Another client of the same servers has its own.
    Pair::of(&fixture).both(&["show work_mem", "show search_path"]);
    fixture.wait_for_queue(0, 0);
}

#[test]
fn prepared_statements_that_become_generic() {
    let fixture = QueueFixture::start("heavy_queue_cache_bytes = \"64MB\"");
    let text = format!("{HINT}select count(*), sum(f_v) from fact, dim where f_d = d_id and f_id <= $1");
    for mode in ["auto", "force_generic_plan", "force_custom_plan"] {
        let mut pair = Pair::of(&fixture);
        pair.both(&[&format!("set plan_cache_mode = {mode}")]);
        pair.ask(&prepare("kept", &text, &[23]), mode);
        for round in 0..9 {
            for value in [Some("10"), Some("19000"), None, Some("many")] {
                let run = run_described("kept", &[value], false);
                pair.ask(&run, &format!("{mode}, {round}, {value:?}"));
            }
        }
        pair.both(&["show plan_cache_mode"]);
        // By the text, as SQL has it.
        pair.both(&[
            &format!("prepare by_text (int) as {text}"),
            &format!("{HINT}execute by_text (500)"),
            &format!("{HINT}execute by_text (500)"),
            "deallocate by_text",
        ]);
    }
    fixture.wait_for_queue(0, 0);
}

#[test]
fn cursors_and_results_that_are_fetched_in_part() {
    let fixture = QueueFixture::start("");
    let mut pair = Pair::of(&fixture);
    let declared = format!("declare c cursor for {HINT}{JOIN}");
    let held = format!("declare h cursor with hold for {HINT}select d_id from dim order by d_id");
    for _ in 0..2 {
        pair.both(&[
            "begin",
            &declared,
            "fetch 3 from c",
            "fetch 2 from c",
            "close c",
            "commit",
            &declared,
            &held,
            "fetch 2 from h",
            "close h",
        ]);
    }
    // A portal that is left after some rows: nothing waits for it, and it ends with its Sync.
    let text = format!("{HINT}select d_id from dim order by d_id");
    let begin = |portal: &str| [parse("", &text, &[]), bind(portal, "", &[], false)].concat();
    for bytes in [
        [begin(""), execute("", 3), sync()].concat(),
        [begin(""), execute("", 3), execute("", 2), sync()].concat(),
        [
            begin("p"),
            describe(b'P', "p"),
            execute("p", 3),
            execute("p", 2),
            sync(),
        ]
        .concat(),
        [begin("p"), execute("p", 3), close(b'P', "p"), sync()].concat(),
        [begin(""), execute("", 3), flush(), execute("", 40000), sync()].concat(),
    ] {
        for _ in 0..2 {
            pair.ask(&bytes, "fetched in part");
        }
        assert_eq!(fixture.queue(), Vec::new());
    }
    // In a block it stays for the next request.
    pair.both(&["begin"]);
    let first = [begin("p"), execute("p", 3), sync()].concat();
    let next = [execute("p", 2), sync()].concat();
    for bytes in [&first, &next, &next] {
        pair.ask(bytes, "in a block");
    }
    pair.both(&["commit"]);
    pair.ask(&next, "it is gone");
    fixture.wait_for_queue(0, 0);
}

#[test]
fn functions_that_hide_joins_and_tables_of_a_session() {
    let fixture = QueueFixture::start("");
    fixture.sql(
        "create function hidden(int) returns bigint language sql stable as \
         'select count(*) from fact, dim where f_d = d_id and f_id <= $1'",
    );
    fixture.sql(
        "create function looped() returns setof int language plpgsql stable as \
         'begin return query select d_id from dim, fact where f_d = d_id and f_id < 9 order by 1; end'",
    );
    let mut pair = Pair::of(&fixture);
    pair.alike(&[
        "select hidden(100), hidden(20000)",
        "select sum(hidden(d_id)) from dim where d_id <= 5",
        "select count(*) from looped() l, dim where l = d_id",
    ]);
    // Whoever has a table of its own keeps its server, and does not wait with it.
    pair.both(&[
        "create temp table own as select d_id as o from dim where d_id < 500",
        "analyze own",
    ]);
    pair.alike(&[
        "select count(*) from own, dim where o = d_id",
        "select count(*) from own",
    ]);
    pair.both(&["drop table own"]);
    pair.alike(&["select count(*) from own"]);
    pair.ours.send_query("select 1");
    assert_eq!(pair.ours.until_ready().len(), 4);
    fixture.wait_for_queue(0, 0);
}
