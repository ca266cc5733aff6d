//! Commands of the console, and another configuration, while a query runs in parts.

use super::house::{House, PATIENCE, all, errors, wait};
use crate::common::message::query;
use crate::common::raw::Raw;
use crate::common::target::wait_for_waiting;

/// Some seconds at most.
const WHILE: usize = 600;

/// The rows of what a client waits for.
fn answer(client: &mut Raw) -> Vec<Vec<Option<String>>> {
    let messages = client.until_ready();
    assert!(errors(&messages).is_empty(), "{messages:?}");
    messages
        .iter()
        .filter(|message| message.tag == b'D')
        .map(|message| message.columns())
        .collect()
}

/// Starts a query that takes a while. Answers what its rows will be.
fn start(house: &House, client: &mut Raw) -> Vec<Vec<Option<String>>> {
    let expected = house.direct().rows(&all(WHILE));
    client.set_patience(2 * PATIENCE);
    house.begin(client, &all(WHILE));
    expected
}

#[test]
fn a_pause_waits_for_all_parts() {
    let house = House::start();
    let mut client = house.warm_client();
    let expected = start(&house, &mut client);
    let mut console = house.console();
    console.set_patience(2 * PATIENCE);
    console.rows(&format!("pause {}", house.database));
    assert_eq!(answer(&mut client), expected);
    assert_eq!(
        house.value(
            "select count(*) from pg_stat_activity where datname = current_database() and usename = 'app'"
        ),
        "0"
    );
    client.send(&query("select 'after'")).expect("sent");
    wait_for_waiting(&mut console, &house.database, 1);
    console.rows(&format!("resume {}", house.database));
    assert_eq!(answer(&mut client), [[Some("after".to_owned())]]);
    house.all_is_well(&mut client);
}

#[test]
fn a_kill_ends_all_parts() {
    let house = House::start();
    let mut client = house.warm_client();
    house.start_slow(&mut client);
    house.console().rows(&format!("kill {}", house.database));
    let messages = client.until_closed();
    assert_eq!(errors(&messages).len(), 1, "{messages:?}");
    house.wait_until(
        "select count(*) = 0 from pg_stat_activity where datname = current_database() and usename = 'app'",
    );
    house.console().rows(&format!("resume {}", house.database));
    let mut client = house.warm_client();
    house.all_is_well(&mut client);
}

#[test]
fn a_reload_leaves_what_runs_alone() {
    let house = House::start();
    let mut client = house.warm_client();
    // The same; another cut; other parts; without the split; with it again.
    let gone = "[splits.slow]";
    for change in [
        &[][..],
        &[("parts = 2", "parts = 3")],
        &[("minimum = 1\n", "minimum = 400\n")],
        &[("key = \"spread.k\"", "key = \"spread.v\"")],
        &[(gone, "[splits.before]")],
        &[("split = \"on\"", "split = \"off\"")],
        &[],
    ] {
        let expected = start(&house, &mut client);
        house.target.reload_with(change);
        assert_eq!(answer(&mut client), expected, "{change:?}");
        assert_eq!(client.rows(&all(10)), house.direct().rows(&all(10)));
        house.quiet();
        house.target.reload();
        wait(|| {
            let rows = house.console().table("show splits");
            match rows.iter().any(|row| row["name"] == "slow") {
                true => Ok(()),
                false => Err(format!("{rows:?}")),
            }
        });
        house.warm(&mut client);
    }
    house.all_is_well(&mut client);
}

#[test]
fn servers_that_are_to_be_replaced_are_when_their_part_is_done() {
    let house = House::start();
    let mut client = house.warm_client();
    let expected = start(&house, &mut client);
    let before = house.active();
    house.console().rows(&format!("reconnect {}", house.database));
    assert_eq!(answer(&mut client), expected);
    house.quiet();
    for (pid, _) in before {
        house.wait_until(&format!(
            "select count(*) = 0 from pg_stat_activity where pid = {pid}"
        ));
    }
    house.all_is_well(&mut client);
}

#[test]
fn a_shutdown_waits_for_the_answer() {
    let house = House::start();
    let mut client = house.warm_client();
    let expected = start(&house, &mut client);
    house
        .console()
        .send(&query("shutdown wait_for_servers"))
        .expect("sent");
    assert_eq!(answer(&mut client), expected);
    client.until_closed();
    house.wait_until(
        "select count(*) = 0 from pg_stat_activity where datname = current_database() and usename = 'app'",
    );
}

#[test]
fn a_shutdown_at_once_ends_all_parts() {
    let house = House::start();
    let mut client = house.warm_client();
    house.start_slow(&mut client);
    house.console().send(&query("shutdown")).expect("sent");
    let messages = client.until_closed();
    assert_eq!(errors(&messages).len(), 1, "{messages:?}");
    // A server notices that its client is gone when it has something to say; the cancel request comes first.
    house.wait_until(
        "select count(*) = 0 from pg_stat_activity where datname = current_database() and usename = 'app'",
    );
}
