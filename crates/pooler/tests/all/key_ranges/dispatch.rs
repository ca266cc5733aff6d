//! Keyed statements go to the core pool of their range.

use std::collections::BTreeSet;

use super::start;
use crate::common::assert_contains;
use crate::common::message::{prepare, run};
use crate::common::raw::Raw;
use crate::common::wait::wait;
use crate::skipped::skipped;

const RANGES: &str = "dispatch = \"range\"\n[ranges.account]\ndatabase = \"{database}\"\n\
    columns = [\"account.id\", \"entry.account_id\"]\nminimum = 1\nmaximum = 1000\n";

fn tables(client: &mut Raw) {
    client.rows("create table account (id int primary key, balance int)");
    client.rows("create table entry (id int, account_id int, amount int)");
    client.rows("insert into account select i, 0 from generate_series(1, 1000) i");
}

/// Servers that answer for keys of a range.
fn servers_of(client: &mut Raw, keys: impl Iterator<Item = i32>) -> BTreeSet<String> {
    keys.map(|key| client.value(&format!("select pg_backend_pid() from account where id = {key}")))
        .collect()
}

/// Servers of the first and of the last core pool, once both have some: while a core pool has no server yet, another lends its own.
fn warm(client: &mut Raw) -> (BTreeSet<String>, BTreeSet<String>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut both = || (servers_of(client, 1..=1), servers_of(client, 1000..=1000));
    let mut before = both();
    let mut found = before.clone();
    wait(|| {
        // Twice the same: neither was lent.
        before = std::mem::replace(&mut found, both());
        match found == before && (cores == 1 || found.0.is_disjoint(&found.1)) {
            true => Ok(()),
            false => Err(format!("{before:?}, then {found:?}")),
        }
    });
    found
}

#[test]
fn keys_of_different_ranges_have_different_servers() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let fixture = start(2 * cores, RANGES);
    let mut client = fixture.client();
    tables(&mut client);
    warm(&mut client);
    let low = servers_of(&mut client, 1..=20);
    let high = servers_of(&mut client, 981..=1000);
    // One client at a time: a core pool's last server is used again.
    assert_eq!((low.len(), high.len()), (1, 1), "{low:?} {high:?}");
    assert_eq!(low == high, cores == 1, "{low:?} {high:?}");
    // The other column of the domain, a join, an insert and a prepared statement go the same way.
    let own = low.first().cloned().expect("a server");
    assert_eq!(
        client.value("insert into entry values (1, 7, 5) returning pg_backend_pid()"),
        own
    );
    assert_eq!(
        client.value("select pg_backend_pid() from account a join entry e on a.id = e.account_id where e.account_id between 3 and 9"),
        own
    );
    let out = prepare("p", "select pg_backend_pid() from account where id = $1", &[23]);
    client.send(&out);
    client.until_ready();
    let mut ask = |key: &str| {
        let out = run("p", &[Some(key)]);
        client.ask(&out).join(" ")
    };
    assert!(ask("12").contains(&own));
    let other = high.first().cloned().expect("a server");
    assert!(ask("990").contains(&other));
}

#[test]
fn the_first_statement_of_a_transaction_decides() {
    let fixture = start(8, RANGES);
    let mut client = fixture.client();
    tables(&mut client);
    let (low, high) = warm(&mut client);
    for (key, expected) in [(5, &low), (995, &high)] {
        assert_eq!(client.lines("begin").join("|"), "complete BEGIN|ready T");
        let pid = client.value(&format!("select pg_backend_pid() from account where id = {key}"));
        assert!(expected.contains(&pid), "{key}");
        // What follows stays, whatever its key.
        client.rows("update account set balance = balance + 1 where id in (1, 1000)");
        assert_eq!(
            client.value("select pg_backend_pid() from account where id = 500"),
            pid
        );
        client.rows(if key == 5 { "commit" } else { "rollback" });
    }
    assert_eq!(client.value("select sum(balance) from account"), "2");
}

#[test]
fn a_transaction_that_begins_late_is_one_all_the_same() {
    let fixture = start(4, RANGES);
    let (mut a, mut b) = fixture.two();
    tables(&mut a);
    a.rows("begin isolation level repeatable read");
    assert_eq!(a.value("show transaction_isolation"), "repeatable read");
    b.rows("update account set balance = 9 where id = 3");
    // The snapshot is of the first statement that needs one, as ever.
    assert_eq!(a.value("select balance from account where id = 3"), "9");
    b.rows("update account set balance = 10 where id = 3");
    assert_eq!(a.value("select balance from account where id = 3"), "9");
    a.rows("commit");
    // One that fails at its first statement has failed.
    a.rows("begin");
    assert!(a.try_rows("select 1 / 0").is_err());
    a.assert_fails("select 1", "25P02");
    a.rows("rollback");
    // Nothing in it.
    for end in ["commit", "rollback"] {
        a.rows("begin");
        a.rows(end);
    }
    a.rows("begin");
    a.rows("begin");
    assert_eq!(a.value("select 1"), "1");
    a.rows("commit");
    assert_eq!(a.value("select 1"), "1");
    // Left in the middle.
    a.rows("begin");
    drop(a);
    assert_eq!(b.value("select balance from account where id = 3"), "10");
}

#[test]
fn a_busy_core_pool_lends_its_work() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let fixture = start(cores, RANGES);
    let (mut a, mut b) = fixture.two();
    tables(&mut a);
    servers_of(&mut b, [1, 1000].into_iter());
    // The only server of the first core pool is taken; the second one answers instead.
    a.rows("begin");
    let taken = a.value("select pg_backend_pid() from account where id = 1");
    if cores > 1 {
        let lent = b.value("select pg_backend_pid() from account where id = 2");
        assert_ne!(lent, taken);
    }
    a.rows("commit");
    let mut console = fixture.console();
    let ranges = console.table("show ranges");
    assert_eq!(ranges.len(), cores, "{ranges:#?}");
    assert_eq!(ranges[0]["from"], "");
    assert!(
        ranges
            .iter()
            .all(|row| row["name"] == "account" && row["state"] == "on"),
        "{ranges:#?}"
    );
}

#[test]
fn cancelling_a_transaction_that_waits_to_begin_fails_it() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores == 1 {
        skipped("a machine with one core has one core pool");
        return;
    }
    // A server for each core pool, and both taken.
    let fixture = start(2, RANGES);
    let (mut a, mut b) = fixture.two();
    let mut c = fixture.client();
    tables(&mut a);
    a.rows("begin");
    a.rows("select * from account where id = 1");
    c.rows("begin");
    c.rows("select * from account where id = 1000");
    b.rows("begin");
    b.send_query("select pg_sleep(60)");
    a.rows("commit");
    fixture.wait_until(
        "select count(*) > 0 from pg_stat_activity where datname = current_database() and query = 'select pg_sleep(60)' and state = 'active'",
    );
    fixture.cancel(&b);
    let answer = format!("{:?}", b.until_ready());
    assert_contains(&answer, "57014");
    b.assert_fails("select 1", "25P02");
    b.rows("rollback");
    assert_eq!(b.value("select 1"), "1");
}
