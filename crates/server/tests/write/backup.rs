//! Copies of a store that is served, and a follower of it, while clients write.

use super::harness::{PATIENCE, Server};
use corun_store::{Follower, Options, Snapshot, Table};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: u64 = 20;

/// The sum of all balances, and how many transfers there were.
fn sums(table: &Table, moves: &Table, moment: &Snapshot) -> (i64, u64) {
    let rows = moment.rows(table, 0..table.rid_end()).expect("rows");
    let sum = rows.map(|found| found.row.int("balance")).sum();
    let moves = moment.rows(moves, 0..moves.rid_end()).expect("rows").count();
    (sum, moves as u64)
}

#[test]
fn a_backup_and_a_follower_have_whole_transactions_while_clients_write() {
    let to = tempfile::tempdir().expect("a folder");
    let folder = to.path().to_owned();
    let server = Server::with(|config| config.data.allow_write = vec![folder.clone()]);
    let client = server.client();
    client.execute("create table account (id int primary key, balance bigint not null)");
    client.execute("create table move (id bigint primary key)");
    client.execute(&format!(
        "insert into account select g, 100 from generate_series(1, {ACCOUNTS}) as g"
    ));
    // Numbers of moves that their clients were told of, from one thread each.
    let done = [AtomicU64::new(0), AtomicU64::new(0)];
    let ends = AtomicBool::new(false);
    let write = |at: usize| {
        let client = server.client();
        while !ends.load(Ordering::Acquire) {
            let number = done[at].load(Ordering::Acquire);
            let (from, to) = (number % ACCOUNTS + 1, (number * 7 + 3) % ACCOUNTS + 1);
            let moved = client.try_execute(&format!(
                "begin; update account set balance = balance - 1 where id = {from}; \
                 update account set balance = balance + 1 where id = {to}; \
                 insert into move values ({}); commit",
                number * 2 + at as u64
            ));
            match moved {
                Ok(_) => _ = done[at].fetch_add(1, Ordering::AcqRel),
                // Two that wait for each other.
                Err((code, _)) if code == "40P01" => _ = client.execute("rollback"),
                Err(failure) => panic!("{failure:?}"),
            };
        }
    };
    std::thread::scope(|scope| {
        for at in 0..done.len() {
            scope.spawn(move || write(at));
        }
        // Whatever fails below ends them.
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let _ends = Ends(&ends);
        let follower = Follower::open(server.folder(), Options::default()).expect("it follows");
        for name in ["one", "two"] {
            super::harness::wait("nobody writes", || {
                done.iter().all(|done| done.load(Ordering::Acquire) > 5)
            });
            let before: u64 = done.iter().map(|done| done.load(Ordering::Acquire)).sum();
            client.execute(&format!("call corun.backup('{name}')"));
            let copy = to.path().join(name);
            let verified = corun_store::verify(&copy).expect("nothing is damaged");
            let restored = to.path().join(format!("{name}-restored"));
            corun_store::restore(&copy, &restored).expect("a store again");
            let again = Server::open(&restored, |_| {});
            let client = again.client();
            assert_eq!(
                client.one("select sum(balance) from account"),
                (ACCOUNTS * 100).to_string()
            );
            let moves: u64 = client.one("select count(*) from move").parse().expect("a number");
            assert!(
                moves >= before,
                "{moves} of {before} moves that were told are in the copy"
            );
            let newer = follower.wait_for(verified.last, PATIENCE).expect("it follows");
            assert!(newer, "the follower does not come that far");
            let table = |name| follower.table(name).expect("it is there");
            let moment = follower.snapshot().expect("a moment");
            let (sum, followed) = sums(&table("account"), &table("move"), &moment);
            assert_eq!(sum, (ACCOUNTS * 100) as i64);
            assert!(followed >= moves, "{followed} of {moves}");
        }
    });
}

#[test]
fn backups_go_where_they_may() {
    let to = tempfile::tempdir().expect("a folder");
    let folder = to.path().to_owned();
    let server = Server::with(|config| config.data.allow_write = vec![folder.clone()]);
    let client = server.client();
    let code = |sql: &str| client.error(sql).0;
    assert_eq!(code("call corun.backup('/elsewhere/copy')"), "42501");
    assert_eq!(code("call corun.backup('../copy')"), "42501");
    assert_eq!(code("call corun.backup()"), "42601");
    assert_eq!(code("call corun.backup('a', 'b')"), "42601");
    assert_eq!(code("call something_else('a')"), "0A000");
    assert_eq!(code("begin; call corun.backup('copy')"), "25001");
    client.execute("rollback");
    client.execute("call corun.backup('copy')");
    assert_eq!(code("call corun.backup('copy')"), "58P02");
}
