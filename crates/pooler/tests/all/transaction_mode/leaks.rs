//! Nothing that a client does to its session reaches another client, whatever way it takes: plain texts, texts the pooler does not parse,
//! blocks, functions, triggers and views, simple and extended, committed and rolled back.
//!
//! Each case runs on a connection of its own, once directly and once through a pool of one server. Another client asks for that server
//! as soon as the case is over. It must find what a new connection finds; the first client must find what it finds directly.

use std::fmt::Write as _;
use std::time::Duration;

use crate::common::fixture::Fixture;
use crate::common::message::{first_error, queries, query, statement, sync};
use crate::common::postgres::{new_database, shared};
use crate::common::raw::Raw;
use crate::common::target::{Mode, Pooling};

/// What changes a session. `;` between statements: all of them in one transaction where there is one.
const CHANGES: [&str; 52] = [
    "set work_mem = '3MB'",
    "select set_config('work_mem', '3MB', false)",
    "set search_path = pg_catalog",
    "set datestyle = 'German'",
    "set time zone 'Asia/Tokyo'",
    "set role leaker",
    "select set_config('role', 'leaker', false)",
    "set session authorization leaker",
    "set app.leak = 'x'",
    "set \"App\".\"Leak\" = 'x'",
    "select set_config('app.leak', 'x', false)",
    "select set_config('app.' || 'leak', 'x', false)",
    "set statement_timeout = '7min'",
    "set session characteristics as transaction isolation level serializable",
    "set default_transaction_isolation = 'repeatable read'",
    "set default_transaction_read_only = on",
    "set enable_seqscan = off",
    "set client_min_messages = 'error'",
    "set bytea_output = 'escape'",
    "set extra_float_digits = 0",
    "set intervalstyle = 'iso_8601'",
    "set lock_timeout = '7min'",
    "set application_name = 'leak'",
    "set row_security = off",
    "set random_page_cost = 7",
    "set session_replication_role = 'replica'",
    "set xmloption = 'document'",
    "set names 'LATIN1'",
    "set geqo = off",
    "set join_collapse_limit = 3",
    "set standard_conforming_strings = off",
    "set work_mem = '3MB'; reset work_mem; set app.leak = 'y'",
    "set local app.leak = 'x'; set local role leaker",
    "select set_config('app.leak', 'x', true)",
    "update pg_settings set setting = 'off' where name = 'enable_hashjoin'",
    "create temp table leak (v int)",
    "create temporary view leak as select 1 as v",
    "create temp sequence leak",
    "create table pg_temp.leak as select 1 as v",
    "create type pg_temp.leak as (v int)",
    "create domain pg_temp.leak as int",
    "create function pg_temp.leak() returns int language sql as 'select 1'",
    "create temp table leak (v int) on commit drop",
    "select pg_advisory_lock(4711)",
    "select pg_advisory_lock_shared(4711)",
    "select pg_try_advisory_lock(4711)",
    "select pg_advisory_xact_lock(4711)",
    "listen leak",
    "prepare leak as select 1",
    "declare leak cursor with hold for select 1",
    "select setseed(0.25)",
    "select nextval('numbers')",
];

/// What a session is, in a row.
const PROBE: &str = "select current_user::text, session_user::text, coalesce(current_setting('app.leak', true), ''), \
    (select string_agg(name || '=' || setting, ' ' order by name) from pg_settings \
        where name not in ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable') \
            and context in ('user', 'superuser') and name not like 'ssl%' and name not like 'plpgsql.%'), \
    exists (select from pg_class where relnamespace = pg_my_temp_schema()) \
        or exists (select from pg_type where typnamespace = pg_my_temp_schema()) \
        or exists (select from pg_proc where pronamespace = pg_my_temp_schema()), \
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()), \
    (select count(*) from pg_listening_channels()), \
    (select count(*) from pg_prepared_statements where from_sql), \
    (select count(*) from pg_cursors where is_holdable)";

/// What `random()` says first after `setseed(0.25)`, and whether a sequence tells a last number.
const HIDDEN: [&str; 2] = ["select random()", "select lastval()"];

/// A way to run a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Simple,
    Extended,
    Pipeline,
    /// Beyond what the pooler parses.
    Long,
    /// Nested deeper than it parses.
    Deep,
    Committed,
    RolledBack,
    Block,
    BlockOfText,
    Function,
    FunctionOfText,
    FunctionInFunction,
    SqlFunction,
    Trigger,
    View,
    Rule,
    Policy,
    Default,
    Procedure,
    /// A view or a default that calls PostgreSQL's own functions itself.
    PlainView,
    PlainDefault,
    /// Prepared in SQL, and run later.
    Executed,
    /// A function that is made, called and dropped.
    Made,
    MadeAtOnce,
}

const FORMS: [Form; 24] = [
    Form::Simple,
    Form::Extended,
    Form::Pipeline,
    Form::Long,
    Form::Deep,
    Form::Committed,
    Form::RolledBack,
    Form::Block,
    Form::BlockOfText,
    Form::Function,
    Form::FunctionOfText,
    Form::FunctionInFunction,
    Form::SqlFunction,
    Form::Trigger,
    Form::View,
    Form::Rule,
    Form::Policy,
    Form::Default,
    Form::Procedure,
    Form::PlainView,
    Form::PlainDefault,
    Form::Executed,
    Form::Made,
    Form::MadeAtOnce,
];

/// A change as statements of PL/pgSQL.
fn body(change: &str) -> String {
    let statements = change
        .split("; ")
        .map(|statement| match statement.strip_prefix("select ") {
            Some(rest) => format!("perform {rest};"),
            None => format!("{statement};"),
        });
    statements.collect()
}

/// What must exist for a form before anybody connects; `None`: it needs nothing.
fn definition(form: Form, number: usize, change: &str) -> Option<String> {
    let function = |returns: &str, body: &str, last: &str| {
        format!(
            "create function f{number}() returns {returns} language plpgsql as $f$ begin {body} {last} end $f$"
        )
    };
    let text = format!("execute {};", quoted(change));
    let returns_one = function("int", &body(change), "return 1;");
    Some(match form {
        Form::Function => returns_one,
        Form::FunctionOfText => function("int", &text, "return 1;"),
        Form::FunctionInFunction => format!(
            "{returns_one}; create function g{number}() returns int language sql as 'select f{number}()'"
        ),
        Form::SqlFunction => {
            format!("create function f{number}() returns int language sql as $f$ {change}; select 1 $f$")
        }
        Form::Trigger => format!(
            "{}; create table t{number} (v int); \
             create trigger t before insert on t{number} for each row execute function f{number}()",
            function("trigger", &body(change), "return new;")
        ),
        Form::View => format!("{returns_one}; create view v{number} as select f{number}() as v"),
        Form::Rule => format!(
            "{returns_one}; create table t{number} (v int); create rule r as on insert to t{number} do also select f{number}()"
        ),
        Form::Policy => format!(
            "{returns_one}; create table t{number} (v int); insert into t{number} values (1); alter table t{number} enable row level security; \
             alter table t{number} force row level security; create policy p on t{number} using (f{number}() = 1); \
             alter table t{number} owner to plain; grant all on t{number} to public"
        ),
        Form::Default => format!("{returns_one}; create table t{number} (v int default f{number}(), w int)"),
        Form::Procedure => {
            format!(
                "create procedure p{number}() language plpgsql as $f$ begin {} end $f$",
                body(change)
            )
        }
        Form::PlainView => format!("create view v{number} as {change}"),
        Form::PlainDefault => format!(
            "create table t{number} (v text default ({})::text, w int)",
            change.strip_prefix("select ").unwrap_or("no expression")
        ),
        _ => return None,
    })
}

fn made(number: usize, change: &str) -> String {
    format!(
        "create or replace function made{number}() returns int language plpgsql as $f$ begin {} return 1; end $f$",
        body(change)
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The requests of a case, one after the other.
fn requests(form: Form, number: usize, change: &str) -> Vec<Vec<u8>> {
    let extended = |sql: &str| statement(sql, &[]);
    let each = || change.split("; ");
    let block = |end| {
        queries(
            &["begin"]
                .into_iter()
                .chain(each())
                .chain([end])
                .collect::<Vec<_>>(),
        )
    };
    match form {
        Form::Simple => each().map(query).collect(),
        Form::Extended => each().map(|one| [extended(one), sync()].concat()).collect(),
        Form::Pipeline => vec![
            [
                extended("select 1"),
                each().flat_map(extended).collect(),
                extended("select 2"),
                sync(),
            ]
            .concat(),
        ],
        Form::Long => vec![query(&format!("/* {} */ {change}", "long ".repeat(8000)))],
        Form::Deep => vec![query(&format!(
            "{change}; select {}1{}",
            "(".repeat(220),
            ")".repeat(220)
        ))],
        Form::Committed => block("commit"),
        Form::RolledBack => block("rollback"),
        Form::Block => vec![query(&format!("do $d$ begin {} end $d$", body(change)))],
        Form::BlockOfText => vec![query(&format!(
            "do $d$ begin execute {}; end $d$",
            quoted(change)
        ))],
        Form::Function | Form::FunctionOfText | Form::SqlFunction => {
            vec![query(&format!("select f{number}()"))]
        }
        Form::FunctionInFunction => vec![[extended(&format!("select g{number}()")), sync()].concat()],
        Form::Trigger | Form::Rule => vec![query(&format!("insert into t{number} values (1)"))],
        Form::View | Form::PlainView => vec![query(&format!("select * from v{number}"))],
        Form::Executed => queries(&[
            &format!("prepare later as {change}"),
            "execute later",
            "deallocate later",
        ]),
        Form::Made => queries(&[
            "begin",
            &made(number, change),
            &format!("select made{number}()"),
            &format!("drop function made{number}()"),
            "commit",
        ]),
        Form::MadeAtOnce => vec![query(&format!("{}; select made{number}()", made(number, change)))],
        Form::Policy => vec![query(&format!("set local role plain; select v from t{number}"))],
        Form::Default | Form::PlainDefault => vec![query(&format!("insert into t{number} (w) values (1)"))],
        Form::Procedure => vec![query(&format!("call p{number}()"))],
    }
}

/// Sends the requests of a case; whether one was refused.
fn run(client: &mut Raw, requests: &[Vec<u8>]) -> bool {
    let mut refused = false;
    for request in requests {
        client.send(request);
        refused |= first_error(&client.until_ready()).is_some();
    }
    refused
}

/// What a client finds in its session.
fn look(client: &mut Raw) -> Vec<String> {
    let row = client.try_rows(PROBE);
    let mut found = match row {
        Ok(rows) => rows
            .into_iter()
            .flatten()
            .map(Option::unwrap_or_default)
            .collect(),
        Err(error) => vec![error],
    };
    // The number tells nothing, but that there is one.
    found.push(client.try_rows(HIDDEN[1]).is_ok().to_string());
    found
}

#[test]
fn nothing_reaches_another_client() {
    let database = new_database();
    let server = shared();
    let sql = |text: &str| server.sql_in(&database, text);
    sql(
        "create sequence numbers; grant all on sequence numbers to public; grant create, usage on schema public to public",
    );
    let mut cases: Vec<(usize, Form, &str)> = Vec::new();
    let mut owner = server.client("postgres", &database);
    for role in ["leaker", "plain"] {
        // Another test of this program may have made it.
        let _ = owner.try_rows(&format!("create role {role} superuser"));
    }
    let _ = owner.try_rows("alter role plain nosuperuser");
    for change in CHANGES {
        for form in FORMS {
            let number = cases.len();
            match definition(form, number, change) {
                // What cannot stand in a function is left out.
                Some(definition) if owner.try_rows(&definition).is_err() => continue,
                _ => cases.push((number, form, change)),
            }
        }
    }
    let fixture = Fixture::start_in(database.clone(), &Pooling::new(Mode::Transaction, 1));
    let proxied = || {
        fixture
            .target
            .client_as(&fixture.target.login("postgres").database(&database))
    };
    let direct = || server.client("postgres", &database);
    let clean = look(&mut proxied());
    let first_random = {
        let mut client = direct();
        client.rows("select setseed(0.25)");
        client.value(HIDDEN[0])
    };
    let unlocked = format!(
        "select not exists (select from pg_locks join pg_database d on d.oid = database \
            where locktype = 'advisory' and datname = '{database}')"
    );
    let (mut ran, mut pinned, mut leaks) = (0, 0, String::new());
    let mut console = fixture.console();
    for (number, form, change) in cases {
        let requests = requests(form, number, change);
        let mut model = direct();
        if change.contains("advisory") {
            server.wait_until(&unlocked);
        }
        let refused = run(&mut model, &requests);
        if refused && form != Form::RolledBack {
            continue; // Such a change cannot be made in this way.
        }
        ran += 1;
        let expected = look(&mut model);
        drop(model);
        if change.contains("advisory") {
            server.wait_until(&unlocked);
        }
        let mut client = proxied();
        assert_eq!(run(&mut client, &requests), refused, "{form:?}: {change}");
        let stranger = std::thread::spawn({
            let mut stranger = proxied();
            move || (stranger.value(HIDDEN[0]), look(&mut stranger))
        });
        let pin = loop {
            let clients = console.table("show clients");
            let pin = clients
                .iter()
                .map(|row| row["pin"].clone())
                .find(|pin| !pin.is_empty());
            if pin.is_some() || stranger.is_finished() {
                break pin;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        pinned += usize::from(pin.is_some());
        // A last number is its own as long as nobody else has had the server.
        let own = look(&mut client);
        let sees = own[..own.len() - 1] == expected[..expected.len() - 1];
        drop(client);
        let (random, found) = stranger.join().expect("the other client");
        if !sees {
            let _ = writeln!(
                leaks,
                "{form:?}: {change}: {}",
                differences("sees", &expected, &own)
            );
        }
        if found != clean || random == first_random {
            let _ = writeln!(
                leaks,
                "{form:?}: {change} ({pin:?}): {}",
                differences("leaks", &clean, &found)
            );
        }
    }
    assert!(leaks.is_empty(), "{leaks}");
    assert!(ran > 500, "{ran} cases");
    assert!(pinned < ran, "somebody is served by turns");
}

fn differences(what: &str, expected: &[String], found: &[String]) -> String {
    let words = |all: &[String]| -> Vec<String> { all.join(" ").split(' ').map(str::to_owned).collect() };
    let (expected, found) = (words(expected), words(found));
    let new = found.iter().filter(|word| !expected.contains(word));
    format!("{what} {}", new.cloned().collect::<Vec<_>>().join(" "))
}
