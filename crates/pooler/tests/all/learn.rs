//! What `learn` proposes of real servers, that it can be pasted and does what it says; and `SHOW QUERIES`, which it asks.

use std::time::Duration;

use crate::common::assert_contains;
use crate::common::child::free_port;
use crate::common::configuration::files;
use crate::common::message::{bind_execute, prepare, run, sync};
use crate::common::pooler::TestPooler;
use crate::common::postgres::{self, Options as Server, Postgres};
use crate::common::raw::{Raw, Row, number};
use crate::common::wait::wait_until;
use corun_pooler::config::KeyType;
use corun_pooler::learn::{self, Learnt, Options, Proposal, RangeProposal, Remark, SplitProposal};
use corun_pooler::preflight::Passwords;
use corun_pooler::watch::Address;

/// A configuration in front of a database, `more` behind it.
fn file(port: u16, server: u16, database: &str, more: &str) -> String {
    format!(
        "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\nauth_type = \"any\"\n\
         admin_users = [\"postgres\"]\npool_mode = \"transaction\"\ndefault_pool_size = 8\n[corun]\nevent_loops = 1\n\
         [databases.shop]\nhost = \"127.0.0.1\"\nport = {server}\ndbname = \"{database}\"\nuser = \"app\"\n{more}"
    )
}

fn learnt(text: &str, workers: usize) -> Learnt {
    let options = Options {
        workers: Some(workers),
        limit: Some(Duration::from_secs(30)),
        ..Options::default()
    };
    learnt_with(text, &options, None)
}

/// The same with a password given, whoever it is for.
fn learnt_with(text: &str, options: &Options, password: Option<&str>) -> Learnt {
    let mut ask = |_: &str| password.map(str::to_owned);
    let found = learn::run(&files(text), text, options, &mut Passwords::new(&mut ask));
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// The remark that contains a text.
fn remark<'a>(learnt: &'a Learnt, part: &str) -> &'a str {
    let texts = learnt.remarks.iter().map(|remark| remark.text.as_str());
    let mut found = texts.filter(|text| text.contains(part));
    found.next().unwrap_or_else(|| panic!("{:#?}", learnt.remarks))
}

fn client(pooler: &TestPooler) -> Raw {
    pooler.client_as(&pooler.login("app").database("shop"))
}

fn ranges(learnt: &Learnt) -> Vec<&RangeProposal> {
    proposals(learnt).0
}

fn splits(learnt: &Learnt) -> Vec<&SplitProposal> {
    proposals(learnt).1
}

fn proposals(learnt: &Learnt) -> (Vec<&RangeProposal>, Vec<&SplitProposal>) {
    let (mut ranges, mut splits) = (Vec::new(), Vec::new());
    for proposal in &learnt.proposals {
        match proposal {
            Proposal::Range(range) => ranges.push(range),
            Proposal::Split(split) => splits.push(split),
        }
    }
    (ranges, splits)
}

/// Rows of a column between the bounds of each worker, as parts of all.
fn parts(client: &mut Raw, column: &str, range: &RangeProposal) -> Vec<f64> {
    let (table, column) = column.split_once('.').expect("table.column");
    let all: f64 = client.number(&format!("select count({column}) from {table}"));
    let from: Vec<&Option<String>> = range.workers.iter().map(|share| &share.from).collect();
    (0..from.len())
        .map(|worker| {
            let mut condition = "true".to_owned();
            if let Some(from) = from[worker] {
                condition.push_str(&format!(" and {column} >= '{from}'"));
            }
            if let Some(Some(to)) = from.get(worker + 1) {
                condition.push_str(&format!(" and {column} < '{to}'"));
            }
            client.number::<f64>(&format!("select count(*) from {table} where {condition}")) / all
        })
        .collect()
}

fn assert_balanced(parts: &[f64]) {
    let fair = 1.0 / parts.len() as f64;
    for part in parts {
        assert!((part / fair - 1.0).abs() < 0.1, "{parts:?}");
    }
}

/// A shop whose first customers order most, and whose first items sell best.
const SHOP: &[&str] = &[
    "create table customer (c_id int primary key, c_name text)",
    "create table item (i_id int primary key, i_title text, i_subject text)",
    "create table orders (o_id int primary key, o_c_id int references customer, o_date date)",
    "create table order_line (ol_o_id int references orders, ol_id int, ol_i_id int references item, ol_qty int, \
     primary key (ol_o_id, ol_id))",
    "insert into customer select i, 'c' || i from generate_series(1, 300) i",
    "insert into item select i, 'title ' || i, (array['ARTS', 'COOKING'])[1 + i % 2] from generate_series(1, 1000) i",
    "insert into orders select i, 1 + floor(300 * power((i * 7919 % 60000) / 60000.0, 3)), date '2026-01-01' + i % 365 \
     from generate_series(1, 60000) i",
    "insert into order_line select o, l, 1 + floor(1000 * power((o * 7919 + l * 131) % 60000 / 60000.0, 2)), l \
     from generate_series(1, 60000) o, generate_series(1, 3) l",
    "create index on orders (o_c_id)",
    "create index on order_line (ol_i_id)",
    "analyze customer, item, orders, order_line",
];

const BEST_SELLER: &str = "select i_id, i_title, sum(ol_qty) from item, order_line where i_id = ol_i_id and i_subject = 'ARTS' \
    group by i_id, i_title order by sum(ol_qty) desc, i_id limit 50";

/// Asks what a shop asks, and nothing else is in the server's statistics afterwards. Returns the best sellers.
fn ask(server: &Postgres, direct: &mut Raw) -> Vec<Vec<Option<String>>> {
    server.sql("select pg_stat_statements_reset()");
    for customer in 1..=300 {
        direct.rows(&format!("select * from orders where o_c_id = {customer}"));
    }
    let whole = direct.rows(BEST_SELLER);
    direct.rows(&BEST_SELLER.replace("ARTS", "COOKING"));
    // Not to be split, as its result is another at each time. All rows are read, so that the query is a heavy one on any machine.
    direct.rows("select i_id, count(*) from item, order_line where i_id = ol_i_id and random() < 2 group by i_id order by 2, 1 limit 5");
    whole
}

#[test]
fn proposals_are_balanced_and_do_what_they_say_when_pasted() {
    let server = Postgres::start_with(Server {
        settings: vec!["shared_preload_libraries = 'pg_stat_statements'".to_owned()],
        ..Server::default()
    });
    server.sql("create extension pg_stat_statements");
    let mut direct = server.client("app", "app");
    for statement in SHOP {
        direct.rows(statement);
    }
    let whole = ask(&server, &mut direct);

    let port = free_port();
    let text = file(port, server.port(), "app", "");
    let found = learnt(&text, 4);
    assert_eq!(found.reached, 1, "{:#?}", found.remarks);
    assert!(found.remarks.iter().any(|remark| remark.about == "console"));

    let ranges = ranges(&found);
    let customers = ranges.first().unwrap_or_else(|| panic!("{found:#?}"));
    // What statements name comes first, though its tables are not the largest.
    assert_eq!(customers.columns, ["customer.c_id", "orders.o_c_id"]);
    assert_eq!(
        (&*customers.name, customers.key_type),
        ("customer", KeyType::Integer)
    );
    assert!(customers.keyed_part > Some(0.9), "{customers:?}");
    assert_eq!(customers.source, "pg_stats of orders.o_c_id");
    assert_eq!(customers.workers.len(), 4);
    assert_balanced(&parts(&mut direct, "orders.o_c_id", customers));
    for share in &customers.workers {
        assert!((13_500..16_500).contains(&share.rows), "{customers:?}");
    }
    let mut others = ranges
        .iter()
        .filter(|range| ["item", "orders"].contains(&range.name.as_str()));
    let lines = others.next().unwrap_or_else(|| panic!("{ranges:#?}"));
    let of_lines = |name: &String| name.starts_with("order_line.");
    assert!(lines.columns.iter().any(of_lines), "{lines:?}");

    let splits = splits(&found);
    let [split] = splits.as_slice() else {
        panic!("{:#?}\n{:#?}", splits, found.remarks)
    };
    // Groups are whole in each part; the larger table has more of the work.
    assert_eq!(split.key, "order_line.ol_i_id", "{:#?}", found.remarks);
    assert_eq!((split.calls, split.source), (2, "pg_stat_statements"));
    let own = remark(&found, "sees its own statements only");
    assert_contains(own, "GRANT pg_read_all_stats TO \"app\"");
    assert!(split.expected_us < split.mean_us && split.time_part > 0.0);
    let random = remark(&found, "random()");
    assert_contains(random, "function random");

    // The same queries are heavy ones that a queue could take.
    let [heavy_queue] = found.heavy_queues.as_slice() else {
        panic!("{:#?}", found.heavy_queues)
    };
    let mut sums = heavy_queue
        .heavy
        .iter()
        .filter(|heavy| heavy.query.contains("order by sum"));
    let heavy = sums.next().unwrap_or_else(|| panic!("{heavy_queue:#?}"));
    assert_eq!((heavy.reads_only, heavy.calls), (true, 2), "{heavy:?}");
    assert!(heavy.mean_us >= 5_000, "{heavy:?}");
    assert!(heavy_queue.heavy_queue_min_us >= Some(5_000), "{heavy_queue:#?}");
    assert!(found.toml().contains("heavy_queue_min = "), "{}", found.toml());

    // Pasted, the same query is the one that is meant, and answers the same.
    let pasted = format!("{text}\n{}", found.toml());
    let pooler = TestPooler::start(port, &pasted);
    let mut client = client(&pooler);
    // Servers for the parts are made meanwhile.
    for _ in 0..4 {
        assert_eq!(client.rows(BEST_SELLER), whole);
    }
    let mut console = pooler.console();
    // Where servers were still to be made, a run is neither.
    wait_until("it runs in parts, or whole", || {
        assert_eq!(client.rows(BEST_SELLER), whole);
        let row = console.table("show splits").remove(0);
        number::<u64>(&row, "split_count") + number::<u64>(&row, "whole_count") > 0
    });
    let known = console.table("show keys");
    let named = known.iter().any(|row| row["name"] == "customer");
    assert!(known.is_empty() || named, "{known:?}");

    // Found again from the same questions, it takes the place of what is there. Parts and plans that the pooler asks for are no question
    // of the shop's: it ends before.
    drop((client, console, pooler));
    ask(&server, &mut direct);
    let again = learnt(&pasted, 4);
    let places = self::ranges(&again);
    // Which range comes second beside the customers' depends on the server's samples; one that is there already is replaced, not doubled.
    let was_there = |range: &&&RangeProposal| ranges.iter().any(|before| before.columns == range.columns);
    let known: Vec<_> = places.iter().filter(was_there).collect();
    assert!(
        !known.is_empty() && known.iter().all(|range| range.replaces),
        "{again:#?}"
    );
    let names: Vec<&str> = self::splits(&again)
        .into_iter()
        .filter(|split| split.replaces)
        .map(|split| split.name.as_str())
        .collect();
    assert_eq!(names, ["order_line_ol_i_id"], "{again:#?}");
    assert!(
        !format!("{:?}", again.remarks).contains("pg_stats s"),
        "{again:#?}"
    );
}

#[test]
fn keys_that_statements_ask_for_move_the_cuts() {
    let database = postgres::new_database();
    let port = free_port();
    let text = file(
        port,
        postgres::shared().port(),
        &database,
        "dispatch = \"range\"\n[ranges.accounts]\ndatabase = \"shop\"\ncolumns = [\"account.id\"]\nminimum = 1\nmaximum = 1000\n",
    );
    let pooler = TestPooler::start(port, &text);
    let mut client = client(&pooler);
    client.rows("create table account (id int primary key, balance int)");
    client.rows("insert into account select i, 0 from generate_series(1, 1000) i");
    client.rows("analyze account");
    for number in 0..2000 {
        client.rows(&format!(
            "select balance from account where id = {}",
            1 + number % 100
        ));
    }
    let mut console = pooler.console();
    wait_until("keys are counted", || {
        let rows = console.table("show keys");
        rows.first()
            .is_some_and(|row| number::<u64>(row, "query_count") >= 2000)
    });
    let options = Options {
        workers: Some(2),
        console: Address::parse(&format!("postgres://postgres@127.0.0.1:{port}/pgbouncer"), "").ok(),
        ..Options::default()
    };
    let found = learnt_with(&text, &options, None);
    let ranges = ranges(&found);
    let [range] = ranges.as_slice() else {
        panic!("{found:#?}")
    };
    assert!(range.replaces && range.name == "accounts", "{range:?}");
    assert_contains(&range.source, "statements the pooler has seen");
    // Two thirds of the load are in the first tenth.
    let cut = range.workers[1].from.as_deref().expect("a cut");
    let cut: i64 = cut.parse().expect("a key");
    assert!((50..200).contains(&cut), "{range:?}");
    assert!(
        !found.remarks.iter().any(|remark| remark.about == "console"),
        "{found:#?}"
    );
}

#[test]
fn texts_days_and_tables_without_statistics() {
    let database = postgres::new_database();
    let text = file(free_port(), postgres::shared().port(), &database, "");
    let mut direct = postgres::shared().client("app", &database);
    for statement in [
        "create table person (name text primary key, born date)",
        "insert into person select substr(md5(i::text), 1, 8), date '1980-01-01' + i from generate_series(1, 4000) i",
        "create table visit (person text references person, at timestamptz)",
        "insert into visit select name, '2026-01-01' from person, generate_series(1, 3)",
        "create index on visit (person)",
        "analyze person, visit",
    ] {
        direct.rows(statement);
    }
    let found = learnt(&text, 2);
    let people = ranges(&found)[0];
    assert_eq!(people.columns, ["person.name", "visit.person"]);
    assert_eq!(people.key_type, KeyType::Text);
    assert_balanced(&parts(&mut direct, "visit.person", people));

    let database = postgres::new_database();
    let text = file(free_port(), postgres::shared().port(), &database, "");
    let mut direct = postgres::shared().client("app", &database);
    direct.rows("create table day (day date primary key, note text) with (autovacuum_enabled = off)");
    direct.rows("insert into day select date '2026-01-01' + i from generate_series(0, 364) i");
    let found = learnt(&text, 2);
    let days = ranges(&found)[0];
    assert_eq!(days.columns, ["day.day"]);
    assert_eq!(days.key_type, KeyType::Date);
    assert!(days.source.contains("ANALYZE"), "{days:?}");
    assert_balanced(&parts(&mut direct, "day.day", days));
}

#[test]
fn what_cannot_be_asked_is_said() {
    let text = file(free_port(), free_port(), "nosuch", "");
    let found = learnt(&text, 2);
    assert_eq!((found.reached, found.proposals.len()), (0, 0));
    let of_shop = |remark: &Remark| remark.about == "shop" && remark.text.contains("cannot connect");
    assert!(found.remarks.iter().any(of_shop), "{found:#?}");
    let toml = found.toml();
    assert!(toml.lines().all(|line| line.starts_with('#')), "{toml}");
    // A database with nothing in it.
    let database = postgres::new_database();
    let found = learnt(&file(free_port(), postgres::shared().port(), &database, ""), 2);
    assert_eq!((found.reached, found.proposals.len()), (1, 0), "{found:#?}");
    assert!(remark(&found, "no range is proposed").starts_with("no range"));
}

#[test]
fn with_a_secret_the_password_is_given_and_missing_grants_are_named() {
    let server = postgres::shared();
    let database = postgres::new_database();
    let verifier = server.value("select rolpassword from pg_authid where rolname = 'app_scram'");
    let base = file(free_port(), server.port(), &database, "")
        .replace("user = \"app\"\n", "")
        .replace("\"any\"", "\"scram-sha-256\"");
    let text = format!("{base}[users.app_scram]\npassword = \"{verifier}\"\n");
    let found = learnt(&text, 2);
    assert_eq!(found.reached, 0);
    assert_contains(remark(&found, "app_scram"), "set PGPASSWORD");
    let mut owner = server.client("app", &database);
    for statement in [
        "create table open (id int primary key)",
        "create table closed (id int primary key)",
        "grant select on open to app_scram",
        "create schema inner_room",
        "create table inner_room.chest (id int primary key)",
        "grant select on inner_room.chest to app_scram",
    ] {
        owner.rows(statement);
    }
    let options = Options {
        workers: Some(2),
        ..Options::default()
    };
    let found = learnt_with(&text, &options, Some(postgres::PASSWORD));
    assert_eq!(found.reached, 1, "{found:#?}");
    let lacks = remark(&found, "may not read");
    assert_contains(lacks, "GRANT USAGE ON SCHEMA \"inner_room\" TO \"app_scram\"");
    assert_contains(lacks, "GRANT SELECT ON \"public\".\"closed\" TO \"app_scram\"");
    assert!(!lacks.contains("open"), "{lacks}");
    assert!(!format!("{found:?}").contains(postgres::PASSWORD), "{found:#?}");
}

#[test]
fn every_database_that_the_wildcard_stands_for_is_asked() {
    let server = Postgres::start();
    server.sql("create database shop");
    let text = file(free_port(), server.port(), "unused", "")
        .replace("dbname = \"unused\"\n", "")
        .replace("[databases.shop]", "[databases.\"*\"]");
    let found = learnt(&text, 2);
    // Also `app` and `postgres`.
    assert_eq!(found.reached, 3, "{found:#?}");
}

#[test]
fn the_console_shows_what_takes_time() {
    let database = postgres::new_database();
    let port = free_port();
    let pooler = TestPooler::start(port, file(port, postgres::shared().port(), &database, ""));
    let mut client = client(&pooler);
    client.rows("select pg_sleep(0.02), 'secret' as a");
    client.rows("select pg_sleep(0.03), 'other' as a");
    // The same, prepared.
    client.ask(&prepare("s", "select length($2), pg_sleep($1) as b", &[701, 25]));
    client.ask(&run("s", &[Some("0.02"), Some("x")]));
    // Two at once, of which nobody knows whose time it is.
    let one = bind_execute("s", &[Some("0.02"), Some("x")]);
    client.ask(&[one.clone(), one, sync()].concat());
    let mut console = pooler.console();
    let rows = console.table("show queries");
    assert!(rows.iter().all(|row| row["database"] == "shop"), "{rows:#?}");
    let of = |end: &str| -> Row {
        let mut found = rows.iter().filter(|row| row["query"].ends_with(end));
        let row = found.next().unwrap_or_else(|| panic!("{end}: {rows:#?}")).clone();
        assert!(found.next().is_none(), "{rows:#?}");
        row
    };
    let simple = of("as a");
    assert_eq!(simple["query"], "select pg_sleep($1), $2 as a");
    assert_eq!(number::<u64>(&simple, "query_count"), 2);
    assert!(number::<u64>(&simple, "total_us") >= 50_000 && number::<u64>(&simple, "mean_us") >= 25_000);
    assert_eq!(number::<u64>(&of("as b"), "query_count"), 1);
    assert!(!format!("{rows:?}").contains("secret"));
    // Those with the most time first.
    let times: Vec<u64> = rows.iter().map(|row| number(row, "total_us")).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
}
