//! Cancel requests: they reach the query of the client they are for, and nobody else's.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::fixture::{self, Fixture};
use crate::common::number_from_environment;
use crate::common::random::Random;
use crate::common::raw::{Login, Raw};
use crate::common::target::{Mode, Pooling};

/// Sends a cancel request. PostgreSQL never replies; a packet that is none at all may be told so.
fn cancel(login: &Login, key: &(u32, Vec<u8>)) {
    let said = fixture::cancel(login, key);
    assert!(
        said.is_empty() || said[0] == b'E',
        "an answer to a cancel request: {said:?}"
    );
}

#[test]
fn a_cancel_ends_the_query_and_the_client_goes_on() {
    for mode in [Mode::Session, Mode::Transaction] {
        let fixture = Fixture::start(&Pooling::new(mode, 2));
        let (mut a, mut b) = fixture.two();
        for round in 0..3 {
            a.send_query("select pg_sleep(60)");
            fixture.wait_until("select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()");
            cancel(&fixture.login(), &a.key);
            let answer = a.until_ready();
            assert_eq!(
                answer[answer.len() - 2].field(b'C').as_deref(),
                Some("57014"),
                "{mode:?}, round {round}: {answer:?}"
            );
            assert_eq!(a.value("select 1"), "1");
            assert_eq!(b.value("select 1"), "1");
        }
    }
}

#[test]
fn a_wrong_or_old_key_cancels_nothing() {
    let fixture = Fixture::transactions(2);
    let (mut a, b) = fixture.two();
    let gone = b.key.clone();
    assert_ne!(a.key, gone);
    drop(b);
    // Its query goes on for as long as this client holds the table.
    let mut holder = fixture.direct();
    holder.rows("create table held (n int)");
    holder.rows("begin");
    holder.rows("lock table held in access exclusive mode");
    a.send_query("select 'finished', count(*) from held");
    fixture.wait_until("select count(*) = 1 from pg_locks where not granted and relation = 'held'::regclass");
    let (pid, secret) = a.key.clone();
    let mut other = secret.clone();
    other[0] ^= 1;
    for key in [
        gone,
        (pid, other),
        (pid, vec![0; 4]),
        (0, vec![0; 4]),
        (pid.wrapping_add(1), secret),
        (pid, Vec::new()),
        (pid, vec![1; 256]),
    ] {
        cancel(&fixture.login(), &key);
    }
    holder.rows("commit");
    let answer = a.until_ready();
    assert!(
        answer.iter().any(|m| format!("{m:?}").contains("finished")),
        "{answer:?}"
    );
}

#[test]
fn a_cancel_of_an_idle_client_hits_nobody() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("select 1");
    for n in 0..50 {
        b.send_query(&format!("select pg_sleep(0.01), {n}"));
        cancel(&fixture.login(), &a.key);
        let answer = b.until_ready();
        assert!(answer.iter().all(|m| m.tag != b'E'), "{answer:?}");
    }
}

#[test]
fn a_waiting_query_can_be_cancelled() {
    let fixture = Fixture::transactions(1);
    if !fixture.target.shares_servers() {
        return;
    }
    let (mut a, mut b) = fixture.two();
    a.rows("begin");
    b.send_query("select 'never ran'");
    fixture.wait_for_waiting(1);
    cancel(&fixture.login(), &b.key);
    // Whether the connection goes on or not, there is an error, before the server is free.
    let mut seen = Vec::new();
    while let Ok(answer) = b.read() {
        let ready = answer.tag == b'Z';
        seen.push(answer);
        if ready {
            break;
        }
    }
    assert!(seen.iter().any(|m| m.tag == b'E'), "{seen:?}");
    assert!(seen.iter().all(|m| m.tag != b'D'), "{seen:?}");
    a.rows("commit");
}

#[test]
fn a_thousand_cancels_under_load_hit_only_their_clients() {
    const VICTIMS: usize = 4;
    const OTHERS: usize = 8;
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 5));
    let cancels = number_from_environment("CORUN_TEST_CANCELS", 1000) as usize;
    let stop = AtomicBool::new(false);
    let hits = AtomicUsize::new(0);
    let victims: Vec<Raw> = (0..VICTIMS).map(|_| fixture.client()).collect();
    let keys: Vec<_> = victims.iter().map(|victim| victim.key.clone()).collect();
    std::thread::scope(|scope| {
        for mut victim in victims {
            let (stop, hits) = (&stop, &hits);
            scope.spawn(move || {
                let mut random = Random::new(u64::from(victim.key.0));
                while !stop.load(Ordering::Relaxed) {
                    let n = random.below(1000);
                    let sql = format!("select {n} from pg_sleep(0.00{})", random.below(10));
                    match victim.try_rows(&sql) {
                        Ok(rows) if rows == [[Some(n.to_string())]] => {}
                        Err(error) if error.starts_with("57014") => {
                            hits.fetch_add(1, Ordering::Relaxed);
                        }
                        other => panic!("victim: {sql}: {other:?}"),
                    }
                }
            });
        }
        for other in 0..OTHERS {
            let (stop, fixture) = (&stop, &fixture);
            scope.spawn(move || {
                let mut client = fixture.client();
                let mut random = Random::new(other as u64);
                while !stop.load(Ordering::Relaxed) {
                    let n = random.below(1_000_000);
                    let sql = format!("select {n} from pg_sleep(0.00{})", random.below(4));
                    let transaction = random.percent(20);
                    if transaction {
                        client.rows("begin");
                    }
                    let answer = client.try_rows(&sql);
                    if transaction {
                        client.rows("commit");
                    }
                    let expected = Ok(vec![vec![Some(n.to_string())]]);
                    assert_eq!(answer, expected, "client {other}: {sql}");
                }
            });
        }
        let mut random = Random::new(5);
        let login = fixture.login();
        for _ in 0..cancels {
            cancel(&login, &keys[random.below(VICTIMS)]);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(
        hits.load(Ordering::Relaxed) > 0,
        "not one of {cancels} cancels arrived"
    );
}
