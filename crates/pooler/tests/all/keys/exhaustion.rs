//! Clients that send without end, or without sense: each takes little memory, and the others go on.

use super::{Lines, Scene, held, rows_until_ready, wait};
use crate::common::message::{self, Message};

fn code(messages: &[Message]) -> Option<String> {
    messages.iter().find(|message| message.tag == b'E')?.field(b'C')
}

#[test]
fn ends_of_copies_that_end_nothing_are_not_kept() {
    let scene = Scene::start(Lines::default());
    let mut client = scene.client();
    client.send(&message::parse("", "select 7", &[])).expect("sent");
    let ends = message::copy_done().repeat(100_000);
    for _ in 0..20 {
        client.send(&ends).expect("sent");
    }
    client
        .send(
            &[
                message::bind("", "", &[], false),
                message::execute("", 0),
                message::sync(),
            ]
            .concat(),
        )
        .expect("sent");
    let tags: Vec<u8> = client.until_ready().iter().map(|message| message.tag).collect();
    assert_eq!(tags, *b"12DCZ");
    let kept = held(&mut scene.console(), "server_buffer");
    assert!(kept < 1 << 20, "{kept} bytes are kept");
}

#[test]
fn a_name_without_an_end_is_refused_before_it_is_kept() {
    for tag in [b'B', b'P'] {
        let scene = Scene::start(Lines::default());
        // With a server of its own, and without.
        for begins in ["", "begin"] {
            let mut client = scene.client();
            if !begins.is_empty() {
                client.rows(begins);
            }
            let mut bytes = vec![tag];
            bytes.extend((100u32 << 20).to_be_bytes());
            bytes.resize(64 << 10, b'x');
            client.send(&bytes).expect("sent");
            assert_eq!(
                code(&client.until_closed()).as_deref(),
                Some("54000"),
                "{tag} {begins}"
            );
        }
        assert_eq!(scene.client().value("select 1"), "1");
    }
}

#[test]
fn copied_data_that_nobody_asked_for_is_thrown_away_as_it_comes() {
    let scene = Scene::start(Lines::default());
    let mut client = scene.client();
    let mut bytes = vec![b'd'];
    let length = 8u32 << 20;
    bytes.extend((4 + length).to_be_bytes());
    client.send(&bytes).expect("sent");
    let part = vec![b'x'; 1 << 20];
    for _ in 0..7 {
        client.send(&part).expect("sent");
    }
    wait("all of it is thrown away", || {
        let clients = scene.console().table("show sockets");
        let to_come =
            |row: &&std::collections::BTreeMap<String, String>| row["pkt_remain"] == (1 << 20).to_string();
        clients.iter().find(to_come).map(|_| ())
    });
    let kept = held(&mut scene.console(), "client_buffer");
    assert!(kept < 256 << 10, "{kept} bytes are kept");
    client.send(&part).expect("sent");
    assert_eq!(client.value("select 1"), "1");
}

#[test]
fn statements_of_one_client_have_a_limit_that_is_told() {
    let scene = Scene::start(Lines {
        proxy: "pool_mode = \"transaction\"",
        corun: "client_memory_max = \"1MB\"",
        ..Lines::default()
    });
    let (mut client, mut other) = (scene.client(), scene.client());
    other.ask(&[message::parse("mine", "select 5", &[]), message::sync()].concat());
    let mut refused = None;
    for number in 0..2_000 {
        let text = format!("select '{}', {number}", "x".repeat(2_000));
        client
            .send(&[message::parse(&format!("s{number}"), &text, &[]), message::sync()].concat())
            .expect("sent");
        let answer = client.until(|seen| seen.iter().any(|message| matches!(message.tag, b'Z' | b'E')));
        if let Some(error) = answer.into_iter().find(|message| message.tag == b'E') {
            refused = Some((number, error));
            break;
        }
    }
    let (number, error) = refused.expect("there is a limit");
    assert!((100..400).contains(&number), "{number} statements");
    assert_eq!(error.field(b'C').as_deref(), Some("54000"));
    assert!(
        error
            .field(b'H')
            .is_some_and(|hint| hint.contains("client_memory_max"))
    );
    drop(client);
    wait("its statements are gone", || {
        (held(&mut scene.console(), "prepared_statements") < 8 << 10).then_some(())
    });
    let answer = other.ask(
        &[
            message::bind("", "mine", &[], false),
            message::execute("", 0),
            message::sync(),
        ]
        .concat(),
    );
    assert!(answer.contains(&"row [Some(\"5\")]".to_owned()), "{answer:?}");
}

#[test]
fn a_pipeline_without_sync_waits_for_its_answers_and_takes_bounded_memory() {
    const PAIRS: usize = 50_000;
    let scene = Scene::start(Lines::default());
    let (mut client, mut other) = (scene.client(), scene.client());
    let mut writer = client.writer();
    let first = [
        message::parse("nap", "select pg_sleep(0.5)", &[]),
        message::bind("", "nap", &[], false),
        message::execute("", 0),
        message::parse("s", "select $1::int", &[]),
    ];
    let pair = [
        message::bind("", "s", &[Some("1")], false),
        message::execute("", 0),
    ]
    .concat();
    let sender = std::thread::spawn(move || {
        let parts = std::iter::once(first.concat()).chain((0..PAIRS / 1_000).map(|_| pair.repeat(1_000)));
        parts
            .chain([message::sync()])
            .try_for_each(|part| writer.write_all(&part))
    });
    for _ in 0..20 {
        assert_eq!(other.value("select 1"), "1");
        let kept = held(&mut scene.console(), "server_buffer");
        assert!(kept < 8 << 20, "{kept} bytes are kept");
    }
    assert_eq!(rows_until_ready(&mut client), PAIRS + 1);
    sender.join().expect("a thread").expect("all is sent");
}
