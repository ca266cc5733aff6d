//! Two processes at one port, and hundreds of cancel requests that arrive at either: each strikes the query it is for.

use crate::common::child::{Folder, free_port};
use crate::common::fixture;
use crate::common::number_from_environment;
use crate::common::postgres;
use crate::common::process::PoolerProcess;
use crate::common::random::Random;
use crate::common::raw::{Login, Raw};

use super::{PROCESS, cancel_at, login_at, peer, peer_of};

/// Waits until so many queries of a database sleep.
fn wait_for_sleepers(database: &str, count: usize) {
    let query = format!(
        "select count(*) = {count} from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
    );
    postgres::shared().wait_until_in(database, &query);
}

fn assert_cancelled(client: &mut Raw) {
    let answer = client.until_ready();
    let code = answer[answer.len() - 2].field(b'C');
    assert_eq!(code.as_deref(), Some("57014"), "{answer:?}");
}

#[test]
fn every_cancel_strikes_its_own_query_whichever_process_gets_it() {
    const CLIENTS: usize = 8;
    let rounds = number_from_environment("CORUN_TEST_CANCELS", 320) as usize / CLIENTS;
    let (folder, port) = (Folder::new("peers"), free_port());
    let database = postgres::new_database();
    // One names only the other, the other also itself.
    let _processes = [(1, vec![(2, 2)]), (2, vec![(1, 1), (2, 2)])].map(|(id, peers)| {
        let text = peer(&folder, port, id, &peers);
        PoolerProcess::start(PROCESS, folder.path(), &id.to_string(), &text)
    });
    let mut clients: Vec<Raw> = (0..CLIENTS)
        .map(|number| {
            let id = 1 + number as u16 % 2;
            let mut login = login_at(&folder, port, id, &database);
            // Protocol 3.2 has longer keys.
            login.minor = if number % 4 < 2 { 0 } else { 2 };
            let client = Raw::connect(&login).expect("connected");
            assert_eq!(peer_of(&client.key), id);
            assert_eq!(client.key.1.len(), if number % 4 < 2 { 4 } else { 32 });
            client
        })
        .collect();
    let tcp = Login::new("127.0.0.1", port, "app").database(&database);
    let mut random = Random::new(24);
    for round in 0..rounds {
        for client in &mut clients {
            client.send_query("select pg_sleep(600)");
        }
        wait_for_sleepers(&database, CLIENTS);
        let (first, second): (Vec<usize>, Vec<usize>) = (0..CLIENTS).partition(|_| random.below(2) == 0);
        let mut left = CLIENTS;
        for group in [first, second] {
            for &number in &group {
                let key = &clients[number].key;
                // The kernel chooses the process, or it is the wrong one.
                match (round + number) % 2 {
                    0 => assert!(fixture::cancel(&tcp, key).is_empty()),
                    _ => cancel_at(&folder, port, 3 - peer_of(key), key),
                }
            }
            for &number in &group {
                assert_cancelled(&mut clients[number]);
            }
            left -= group.len();
            wait_for_sleepers(&database, left);
        }
    }
    for client in &mut clients {
        assert_eq!(client.value("select 1"), "1");
    }
}

#[test]
fn a_process_that_waits_for_its_clients_takes_cancels_from_its_peer() {
    let (folder, port) = (Folder::new("peers"), free_port());
    let database = postgres::new_database();
    let [mut old, _new] = [1, 2].map(|id| {
        let text = peer(&folder, port, id, &[(1, 1), (2, 2)]);
        PoolerProcess::start(PROCESS, folder.path(), &id.to_string(), &text)
    });
    let login = login_at(&folder, port, 1, &database);
    let mut client = Raw::connect(&login).expect("connected");
    let console = login.clone().user("postgres").database("pgbouncer");
    let mut console = Raw::connect(&console).expect("connected");
    console.send_query("shutdown wait_for_clients");
    console.until_ready();
    drop(console);
    // Once it serves nobody new, the other process is the only one at the port.
    crate::common::wait::wait_until("it goes on taking clients", || Raw::connect(&login).is_err());
    for by in [1, 2] {
        client.send_query("select pg_sleep(600)");
        wait_for_sleepers(&database, 1);
        cancel_at(&folder, port, by, &client.key);
        assert_cancelled(&mut client);
    }
    drop(client);
    old.wait_until_ended();
}
