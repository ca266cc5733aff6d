//! Cancel requests that no process can be found for: they end, and strike nobody.

use std::net::TcpListener;

use crate::common::assert_contains;
use crate::common::child::{Folder, free_port};
use crate::common::log;
use crate::common::pooler::TestPooler;
use crate::common::postgres;
use crate::common::raw::{Login, Raw, number};
use crate::common::wait::wait_until;

use super::{cancel_at, login_at, peer};

/// The key of a client of process `id`, with other random bytes than any has.
fn key_of(id: u16) -> (u32, Vec<u8>) {
    let [low, high] = id.to_le_bytes();
    (u32::from_be_bytes([1, low, high, 1]), vec![1, 2, 3, 0xff])
}

/// Waits until the console says that nothing is on its way to a peer any more.
fn wait_until_nothing_is_forwarded(console: &mut Raw) {
    wait_until("cancel requests are on their way for ever", || {
        let rows = console.table("show peer_pools");
        let columns = [
            "cl_active_cancel_req",
            "cl_waiting_cancel_req",
            "sv_active_cancel",
            "sv_login",
        ];
        rows.iter()
            .all(|row| columns.iter().all(|column| number::<u64>(row, column) == 0))
    });
}

fn console(folder: &Folder, port: u16, id: u16) -> Raw {
    let login = login_at(folder, port, id, "pgbouncer").user("postgres");
    Raw::connect(&login).expect("connected")
}

#[test]
fn a_request_that_goes_round_and_one_to_nobody_end() {
    let (folder, port) = (Folder::new("peers"), free_port());
    let database = postgres::new_database();
    // Each takes the other for process 7; nobody is where 8 should be, and 9 is not known.
    let poolers = [(1, 2), (2, 1)].map(|(id, other)| {
        let text = peer(&folder, port, id, &[(other, other), (7, other), (8, 8)]);
        TestPooler::start(port, text)
    });
    let mut client = Raw::connect(&login_at(&folder, port, 1, &database)).expect("connected");
    client.send_query("select pg_sleep(600)");
    let sleeps = "select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()";
    postgres::shared().wait_until_in(&database, sleeps);
    // Wrong secrets and numbers beside it.
    let (pid, secret) = client.key.clone();
    let mut other = secret.clone();
    other[1] ^= 1;
    for id in [1, 2] {
        for key in [
            key_of(7),
            key_of(8),
            key_of(9),
            key_of(0),
            (pid, other.clone()),
            (pid ^ 1, secret.clone()),
        ] {
            cancel_at(&folder, port, id, &key);
        }
    }
    wait_until("nothing is said of it", || {
        let log = log::all();
        [
            "it was forwarded too often",
            "was not forwarded: no [peers.ID] has this number",
            "was not forwarded: No such file or directory",
        ]
        .iter()
        .all(|words| log.contains(words))
    });
    for id in [1, 2] {
        wait_until_nothing_is_forwarded(&mut console(&folder, port, id));
    }
    postgres::shared().wait_until_in(&database, sleeps);
    cancel_at(&folder, port, 2, &client.key);
    let error = client.try_rows("").expect_err("cancelled");
    assert_contains(&error, "57014");
    drop(poolers);
}

#[test]
fn the_console_shows_peers_in_the_order_of_their_numbers() {
    let (folder, port) = (Folder::new("peers"), free_port());
    let mut text = peer(&folder, port, 3, &[(10, 10), (9, 9)]);
    text.push_str("[peers.2]\nhost = \"pooler2\"\nport = 7000\npool_size = 5\n");
    let _pooler = TestPooler::start(port, text);
    let mut console = console(&folder, port, 3);
    let rows = console.table("show peers");
    let ids: Vec<u16> = rows.iter().map(|row| number(row, "peer_id")).collect();
    assert_eq!(ids, [2, 9, 10]);
    assert_eq!((&*rows[0]["host"], &*rows[0]["port"]), ("pooler2", "7000"));
    assert_eq!((&*rows[0]["pool_size"], &*rows[1]["pool_size"]), ("5", "10"));
    let pools = console.table("show peer_pools");
    let ids: Vec<u16> = pools.iter().map(|row| number(row, "peer_id")).collect();
    assert_eq!(ids, [2, 9, 10]);
}

#[test]
fn a_name_is_looked_up_and_requests_beyond_pool_size_wait() {
    let (folder, port) = (Folder::new("peers"), free_port());
    let database = postgres::new_database();
    // It takes connections, and does not close them.
    let silent = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("127.0.0.1:0"));
    let silent = silent.expect("a port");
    let silent_port = silent.local_addr().expect("an address").port();
    let mut text = peer(&folder, port, 1, &[]).replace("peer_id = 1", "peer_id = 1\ncancel_wait_timeout = 0");
    text.push_str(&format!(
        "[peers.2]\nhost = \"localhost\"\nport = {silent_port}\npool_size = 2\n"
    ));
    let _pooler = TestPooler::start(port, text);
    for _ in 0..5 {
        cancel_at(&folder, port, 1, &key_of(2));
    }
    let mut console = console(&folder, port, 1);
    let mut counts = |active: u64, waiting: u64| {
        wait_until("other numbers", || {
            let row = &console.table("show peer_pools")[0];
            (
                number(row, "cl_active_cancel_req"),
                number(row, "cl_waiting_cancel_req"),
            ) == (active, waiting)
        });
    };
    counts(2, 3);
    drop(silent.accept().expect("a request"));
    counts(2, 2);
    let kept: Vec<_> = (0..2).map(|_| silent.accept().expect("a request")).collect();
    drop(silent);
    drop(kept);
    counts(0, 0);
    // Nothing of that touches clients.
    let mut client =
        Raw::connect(&Login::new("127.0.0.1", port, "app").database(&database)).expect("connected");
    assert_eq!(client.value("select 1"), "1");
}
