//! Who waits, who runs, and what may happen to them.

use crate::common::assert_contains;
use crate::common::message::{Message, code, error, parse, prepare, run, run_described};
use crate::common::postgres::Postgres;
use crate::common::raw::Raw;
use crate::common::target::{Mode, Pooling};
use crate::common::wait::{wait, wait_for};
use crate::heavy_queue::fixture::{HINT, JOIN, Pair, QueueFixture, held};

/// Both in the queue answer once the gate is open, and nobody is left.
fn open(fixture: &QueueFixture, mut gate: Raw, waiting: Vec<&mut Raw>) {
    gate.rows("commit");
    for client in waiting {
        assert_eq!(code(&client.until_ready()), "");
        assert_eq!(client.value("select 7"), "7");
    }
    fixture.wait_for_queue(0, 0);
}

#[test]
fn a_second_query_waits_without_a_server_and_short_ones_pass() {
    let fixture = QueueFixture::start("");
    let (gate, mut runs, mut waits) = fixture.two_in_queue();
    assert_eq!(fixture.active().len(), 1, "{:#?}", fixture.active());
    let rows = fixture.queue();
    assert_eq!(rows[0]["state"], "running");
    assert!(!rows[0]["cpu"].is_empty() && rows[1]["cpu"].is_empty());
    assert_eq!(
        (&*rows[1]["database"], &*rows[1]["user"]),
        (&*fixture.database, "app")
    );
    assert_eq!(fixture.client().value("select 1"), "1");
    // One that is kept out of the queue.
    let none = "/* corun: heavy_queue=none */ select count(*) from fact, dim where f_d = d_id";
    assert_eq!(fixture.client().value(none), "20000");
    open(&fixture, gate, vec![&mut runs, &mut waits]);
    let learnt = fixture.console().table("show heavy_queue");
    assert_eq!(learnt.len(), 9, "{learnt:#?}");
}

#[test]
fn cancelled_while_it_waits() {
    let fixture = QueueFixture::start("");
    let (gate, mut runs, mut waits) = fixture.two_in_queue();
    fixture.cancel(&waits);
    let answer = error(&waits.until_ready());
    assert_eq!(answer, "57014 canceling statement due to user request");
    fixture.wait_for_queue(0, 1);
    assert_eq!(waits.value("select 5"), "5");
    open(&fixture, gate, vec![&mut runs]);
}

#[test]
fn cancelled_while_it_runs() {
    let fixture = QueueFixture::start("");
    let (gate, mut runs, mut waits) = fixture.two_in_queue();
    fixture.cancel(&runs);
    assert_eq!(code(&runs.until_ready()), "57014");
    fixture.wait_for_queue(0, 1);
    assert_eq!(runs.value("select 5"), "5");
    open(&fixture, gate, vec![&mut waits]);
}

#[test]
fn its_statement_timeout_passes_while_it_waits() {
    let fixture = QueueFixture::start("");
    // Once as the client says, once as the database does.
    let own = fixture.login().parameter("statement_timeout", "800ms");
    let expected = "57014 canceling statement due to statement timeout";
    let (gate, mut runs, mut waits) = fixture.two_in_queue_as(&own);
    assert_eq!(error(&waits.until_ready()), expected);
    assert_eq!(waits.value("select 5"), "5");
    open(&fixture, gate, vec![&mut runs]);
}

#[test]
fn the_servers_statement_timeout_passes_while_it_waits() {
    let server = Postgres::start();
    server.sql("alter role other set statement_timeout = '800ms'");
    let fixture = QueueFixture::with(Some(server), "", |pooling| pooling);
    fixture.sql("grant all on all tables in schema public to other");
    let other = fixture.target.login("other").database(&fixture.database);
    let (gate, mut runs, mut waits) = fixture.two_in_queue_as(&other);
    let answer = error(&waits.until_ready());
    assert_eq!(answer, "57014 canceling statement due to statement timeout");
    open(&fixture, gate, vec![&mut runs]);
}

#[test]
fn clients_that_leave_make_room() {
    let fixture = QueueFixture::start("");
    let (gate, runs, waits) = fixture.two_in_queue();
    drop(waits);
    fixture.wait_for_queue(0, 1);
    let mut next = fixture.client();
    next.send_query(&held(2));
    fixture.wait_for_queue(1, 1);
    drop(runs);
    fixture.wait_for_queue(0, 1);
    open(&fixture, gate, vec![&mut next]);
}

#[test]
fn a_backend_that_dies_makes_room() {
    let fixture = QueueFixture::with(Some(Postgres::start()), "", |pooling| pooling);
    let (gate, mut runs, mut waits) = fixture.two_in_queue();
    let pid = fixture.active()[0]["remote_pid"].clone();
    fixture.sql(&format!("select pg_terminate_backend({pid})"));
    assert_eq!(code(&runs.until_closed()), "57P01");
    fixture.wait_for_queue(0, 1);
    open(&fixture, gate, vec![&mut waits]);
}

#[test]
fn paused_and_killed() {
    let fixture = QueueFixture::start("");
    let (gate, mut runs, mut waits) = fixture.two_in_queue();
    let mut console = fixture.console();
    console.send_query(&format!("pause {}", fixture.database));
    drop(gate);
    assert_eq!(code(&runs.until_ready()), "");
    // Nobody has a core who gets no server.
    fixture.wait_for_queue(0, 0);
    fixture.console().rows(&format!("resume {}", fixture.database));
    assert_eq!(code(&waits.until_ready()), "");
    let (gate, mut runs, mut waits) = fixture.two_in_queue();
    fixture.console().rows(&format!("kill {}", fixture.database));
    assert_eq!(code(&waits.until_closed()), "57P01");
    assert_eq!(code(&runs.until_closed()), "57P01");
    fixture.wait_for_queue(0, 0);
    drop(gate);
}

#[test]
fn what_takes_long_is_learnt() {
    let fixture = QueueFixture::start("heavy_queue_min = \"1ms\"");
    let slow = "select count(*) from fact a, fact b where a.f_v = b.f_v and a.f_id <= 3000";
    let mut client = fixture.client();
    let asked = fixture.heavy_queue(&mut client, slow);
    assert_contains(&asked, "not known to take long");
    let expected = fixture.direct().rows(slow);
    assert_eq!(client.rows(slow), expected);
    let asked = fixture.heavy_queue(&mut client, slow);
    assert_contains(&asked, "asks for its plan");
    assert_eq!(client.rows(slow), expected);
    let known = fixture.heavy_queue(&mut client, slow);
    assert!(known.contains("queues as") && known.contains("plans"), "{known}");
    let write = "insert into gate select f_id from fact";
    assert!(fixture.heavy_queue(&mut client, write).contains("only read"));
    // Statements in a block keep their server and do not wait.
    client.rows("begin");
    assert_eq!(client.rows(slow), expected);
    client.rows("rollback");
    fixture.wait_for_queue(0, 0);
}

#[test]
fn what_cannot_be_explained_runs_all_the_same() {
    let fixture = QueueFixture::start("");
    fixture.sql("create table secret (s int)");
    Pair::of(&fixture).alike(&[
        "select * from secret",
        "select * from nowhere",
        "select 1 / (f_id - f_id) from fact",
        "select d_id, no_such(d_id) from dim",
        "select generate_series(1, 3)",
        "values (1), (2)",
        "select 1;",
        "select 1 -- with a comment",
        "select current_setting('enable_hashjoin')",
    ]);
    fixture.wait_for_queue(0, 0);
}

#[test]
fn values_of_prepared_statements_are_asked_about_as_they_came() {
    let fixture = QueueFixture::start("");
    let mut pair = Pair::of(&fixture);
    let text = format!(
        "{HINT}select count(*), sum(f_v) from fact, dim where f_d = d_id and f_id <= $1 and d_id > $2"
    );
    pair.ask(&prepare("mine", &text, &[23]), &text);
    for (values, binary) in [
        ([Some("100"), Some("5")], false),
        ([Some("15000"), Some("5")], true),
        ([None, Some("7")], false),
        ([Some("wrong"), Some("7")], false),
        ([Some("100"), Some("5")], false),
    ] {
        let named = run_described("mine", &values, binary && values[0] != Some("wrong"));
        let unnamed = [parse("", &text, &[23]), run("", &values)].concat();
        for bytes in [named, unnamed] {
            pair.ask(&bytes, &format!("{values:?}"));
        }
    }
    pair.both(&[&format!("{HINT}{JOIN}")]);
    fixture.wait_for_queue(0, 0);
}

#[test]
fn a_cancelled_question_is_asked_again() {
    let fixture = QueueFixture::start("");
    let mut client = fixture.client();
    let gate = fixture.lock();
    // The question waits for the lock, as the query would.
    client.send_query(&held(3));
    fixture.wait_for_lock();
    fixture.cancel(&client);
    let told = error(&client.until_ready());
    assert_eq!(told, "57014 canceling statement due to user request");
    drop(gate);
    fixture.known(&mut client, &[held(3)]);
    let gate = fixture.lock();
    client.send_query(&held(3));
    fixture.wait_for_queue(0, 1);
    open(&fixture, gate, vec![&mut client]);
}

#[test]
fn who_waits_for_what_does_not_end_goes_on_without() {
    let fixture = QueueFixture::start("heavy_queue_min = \"0ms\"");
    let text = |number: u32| {
        format!(
            "select count(*), {number} from gate, fact a, fact b where a.f_v = b.f_v and a.f_id <= 500 + g"
        )
    };
    let mut clients = [fixture.client(), fixture.client()];
    // Until what they have used pays for a question.
    wait(|| {
        clients[0].rows(&text(1));
        let said = fixture.heavy_queue(&mut clients[0], &text(1));
        said.contains("queues as").then_some(()).ok_or(said)
    });
    fixture.wait_for_queue(0, 0);
    fixture.wait_for_idle();
    let mut gate = fixture.lock();
    clients[0].send_query(&text(1));
    fixture.wait_for_queue(0, 1);
    clients[1].send_query(&text(1));
    // Its core is taken by one that waits for a lock itself.
    wait_for(2, || fixture.active().len());
    gate.rows("commit");
    for client in &mut clients {
        assert_eq!(code(&client.until_ready()), "");
    }
    fixture.wait_for_queue(0, 0);
}

#[test]
fn a_server_that_ends_while_queries_wait() {
    let mut fixture = QueueFixture::with(Some(Postgres::start()), "", |pooling| {
        pooling.set("server_login_retry", "1")
    });
    let (gate, mut runs, mut waits) = fixture.two_in_queue();
    fixture.own_mut().stop();
    // The session that holds it up is terminated, too: should that one go first, the query may end before its server does.
    let answer = runs.until(|seen| !code(seen).is_empty() || seen.iter().any(|message| message.tag == b'Z'));
    assert!(["57P01", ""].contains(&code(&answer).as_str()), "{answer:?}");
    fixture.own_mut().start_again();
    drop(gate);
    // As one that comes when its server is away: told so, or served when it is back.
    let told = |seen: &[Message]| code(seen).get(..2).unwrap_or_default().to_owned();
    let ends = |seen: &[Message]| ["08", "57"].contains(&told(seen).as_str());
    let answer = waits.until(|seen| ends(seen) || seen.iter().any(|message| message.tag == b'Z'));
    assert!(ends(&answer) || code(&answer).is_empty(), "{answer:?}");
    fixture.wait_for_queue(0, 0);
    let login = fixture.login();
    wait(|| {
        let mut next = Raw::connect(&login).map_err(|error| error.to_string())?;
        next.try_rows(&held(1)).map(drop)
    });
    fixture.wait_for_queue(0, 0);
}

#[test]
fn session_mode_has_no_queue() {
    let mode = Mode::Session;
    let fixture = QueueFixture::with(None, "", |pooling| Pooling { mode, ..pooling });
    let mut client = fixture.client();
    let join = format!("{HINT}{JOIN}");
    assert_eq!(client.lines(&join), fixture.direct().lines(&join));
    let rows = client.rows(&format!("explain (corun) {JOIN}"));
    assert!(format!("{rows:?}").contains("pool_mode is session"), "{rows:?}");
    let lines = fixture.console().table("show heavy_queue");
    assert_eq!(lines.len(), 9);
}

#[test]
fn queries_with_cores_use_the_connections_of_all_event_loops() {
    // As many servers as event loops, and a core for each of two queries, wherever their clients are.
    let fixture = QueueFixture::with_cores(2, None, "", |pooling| {
        pooling.ours("pool_size = 2").corun("event_loops = 2")
    });
    let _other_loops = fixture.client();
    let mut clients = [fixture.client(), fixture.client()];
    for (client, number) in clients.iter_mut().zip(1..) {
        fixture.known(client, &[held(number)]);
    }
    let gate = fixture.lock();
    for (client, number) in clients.iter_mut().zip(1..) {
        client.send_query(&held(number));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    wait_for(cores, || fixture.active().len());
    let [one, other] = &mut clients;
    open(&fixture, gate, vec![one, other]);
}
