//! Many clients at once, and requests that follow each other without waiting for answers.

use crate::common::message::{code, parse, query, rows, run_described, shown, statement, sync};
use crate::common::raw::Raw;
use crate::common::wait::{wait, wait_for};
use crate::heavy_queue::fixture::{HINT, Pair, QueueFixture, held};

/// Clients at once.
const CLIENTS: usize = 300;

#[test]
fn three_hundred_clients_on_two_cores() {
    let _alone = crate::alone();
    let fixture = QueueFixture::with(
        None,
        "heavy_queue_cores = 2\nheavy_queue_overtakes_max = 3",
        |pooling| pooling.set("max_client_conn", "400"),
    );
    let mut first = fixture.client();
    let queries: Vec<String> = (0..5).map(held).collect();
    fixture.known(&mut first, &queries);
    let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| fixture.client()).collect();
    let before = fixture.target.resident_bytes();
    let mut gate = fixture.lock();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send_query(&queries[number % 5]);
    }
    fixture.wait_for_queue(CLIENTS - 2, 2);
    // Those that wait have no server, and what is kept for each is little.
    wait_for(2, || fixture.active().len());
    let grown = fixture.target.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for {CLIENTS} clients");
    assert_eq!(fixture.client().value("select 1"), "1", "short ones pass");
    gate.rows("commit");
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = rows(&client.until_ready());
        assert_eq!(answer[0][1], Some((number % 5).to_string()), "client {number}");
        if number % 50 == 0 {
            for row in fixture.queue() {
                let overtaken: u32 = row["overtaken"].parse().expect("a number");
                assert!(overtaken <= 3, "{row:?}");
            }
        }
    }
    fixture.wait_for_queue(0, 0);
}

#[test]
fn a_full_queue_is_no_reason_to_wait() {
    let _alone = crate::alone();
    let fixture = QueueFixture::start("heavy_queue_waiting_max = 2");
    let mut first = fixture.client();
    fixture.known(&mut first, &[held(1)]);
    let mut gate = fixture.lock();
    let mut clients: Vec<Raw> = (0..5).map(|_| fixture.client()).collect();
    for client in &mut clients {
        client.send_query(&held(1));
    }
    fixture.wait_for_queue(2, 1);
    wait_for(3, || fixture.active().len());
    gate.rows("commit");
    for client in &mut clients {
        assert_eq!(code(&client.until_ready()), "");
    }
    fixture.wait_for_queue(0, 0);
}

/// What `SHOW QUEUE` says of the one that runs.
fn shape(fixture: &QueueFixture) -> String {
    fixture.wait_for_queue(0, 1);
    fixture.queue()[0]["shape"].clone()
}

#[test]
fn a_second_heavy_request_behind_the_first_has_its_own_place() {
    let _alone = crate::alone();
    let fixture = QueueFixture::start("");
    let (mut ours, mut direct) = (fixture.client(), fixture.direct());
    let second = format!("{HINT}select count(*) from fact where f_id > 5");
    fixture.known(&mut ours, &[held(1), second.clone()]);
    let run = |text: &str| [statement(text, &[]), sync()].concat();
    let simple = [query(&held(1)), query(&second), query("select 3")].concat();
    let batches = [run(&held(1)), run(&second), query("select 3")].concat();
    for bytes in [simple, batches] {
        let mut gate = fixture.lock();
        let mut other = fixture.direct();
        other.rows("begin");
        other.rows("lock table fact in access exclusive mode");
        ours.send(&bytes);
        let first = shape(&fixture);
        gate.rows("commit");
        wait(|| {
            let next = shape(&fixture);
            if next == first { Err(next) } else { Ok(()) }
        });
        other.rows("commit");
        direct.send(&bytes);
        let answers =
            |client: &mut Raw| -> Vec<String> { (0..3).flat_map(|_| shown(&client.until_ready())).collect() };
        assert_eq!(answers(&mut ours), answers(&mut direct));
        fixture.wait_for_queue(0, 0);
    }
}

#[test]
fn a_statement_that_gets_its_name_with_its_first_run() {
    let _alone = crate::alone();
    let fixture = QueueFixture::start("");
    let mut pair = Pair::of(&fixture);
    let text = format!("{HINT}select count(*), $1::int from gate, dim where d_id > g + $1");
    let again = |name: &str, value: &str| run_described(name, &[Some(value)], false);
    let first = |name: &str, text: &str, value: &str| [parse(name, text, &[23]), again(name, value)].concat();
    let steps = [
        first("one", &text, "5"),
        again("one", "6"),
        // The name is taken.
        first("one", &text, "7"),
        again("one", "wrong"),
        again("one", "8"),
        // No such column, no such statement.
        first(
            "two",
            &format!("{HINT}select nosuch from dim where d_id > $1"),
            "1",
        ),
        again("two", "1"),
        first("two", &text, "wrong"),
        again("two", "9"),
    ];
    for (number, bytes) in steps.iter().enumerate() {
        pair.ask(bytes, &format!("step {number}"));
    }
    fixture.wait_for_queue(0, 0);
    // It is in the queue while it runs.
    let gate = fixture.lock();
    pair.ours.send(&first("three", &text, "5"));
    fixture.wait_for_queue(0, 1);
    drop(gate);
    assert_eq!(code(&pair.ours.until_ready()), "");
    let expected = pair.direct.ask(&first("", &text, "5"));
    assert_eq!(pair.ours.ask(&again("three", "5")), expected[1..]);
    fixture.wait_for_queue(0, 0);
}
