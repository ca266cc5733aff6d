//! Clients that send without end, or without sense: each takes little memory, and the others go on.

use std::time::Duration;

use super::{KeysFixture, held, rows_until_ready};
use crate::common::message::{self, code};
use crate::common::wait::wait_until;

#[test]
fn ends_of_copies_that_end_nothing_are_not_kept() {
    let fixture = KeysFixture::with_proxy("");
    let mut client = fixture.client();
    client.send(&message::parse("", "select 7", &[]));
    let ends = message::copy_done().repeat(100_000);
    for _ in 0..20 {
        client.send(&ends);
    }
    client.send(&message::run("", &[]));
    let tags: Vec<u8> = client.until_ready().iter().map(|message| message.tag).collect();
    assert_eq!(tags, *b"12DCZ");
    let kept = held(&mut fixture.console(), "server_buffer");
    assert!(kept < 1 << 20, "{kept} bytes are kept");
}

#[test]
fn a_name_without_an_end_is_refused_before_it_is_kept() {
    for tag in [b'B', b'P'] {
        let fixture = KeysFixture::with_proxy("");
        // With a server of its own, and without.
        for begins in ["", "begin"] {
            let mut client = fixture.client();
            if !begins.is_empty() {
                client.rows(begins);
            }
            let mut bytes = vec![tag];
            bytes.extend((100u32 << 20).to_be_bytes());
            bytes.resize(64 << 10, b'x');
            // In pieces, so that no first look sees more than the limit; the refusal may come before the last one.
            for piece in bytes.chunks(4 << 10) {
                let _ = client.try_send(piece);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(code(&client.until_closed()), "54000", "{tag} {begins}");
        }
        assert_eq!(fixture.client().value("select 1"), "1");
    }
}

#[test]
fn copied_data_that_nobody_asked_for_is_thrown_away_as_it_comes() {
    let fixture = KeysFixture::with_proxy("");
    let mut client = fixture.client();
    let mut bytes = vec![b'd'];
    let length = 8u32 << 20;
    bytes.extend((4 + length).to_be_bytes());
    client.send(&bytes);
    let part = vec![b'x'; 1 << 20];
    for _ in 0..7 {
        client.send(&part);
    }
    wait_until("all of it is thrown away", || {
        let clients = fixture.console().table("show sockets");
        clients
            .iter()
            .any(|row| row["pkt_remain"] == (1 << 20).to_string())
    });
    let kept = held(&mut fixture.console(), "client_buffer");
    assert!(kept < 256 << 10, "{kept} bytes are kept");
    client.send(&part);
    assert_eq!(client.value("select 1"), "1");
}

#[test]
fn statements_of_one_client_have_a_limit_that_is_told() {
    let fixture = KeysFixture::with("pool_mode = \"transaction\"", "client_memory_max = \"1MB\"");
    let (mut client, mut other) = (fixture.client(), fixture.client());
    other.ask(&message::prepare("mine", "select 5", &[]));
    let mut refused = None;
    for number in 0..2_000 {
        let text = format!("select '{}', {number}", "x".repeat(2_000));
        client.send(&message::prepare(&format!("s{number}"), &text, &[]));
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
    wait_until("its statements are gone", || {
        held(&mut fixture.console(), "prepared_statements") < 8 << 10
    });
    let answer = other.ask(&message::run("mine", &[]));
    assert!(answer.contains(&"row [Some(\"5\")]".to_owned()), "{answer:?}");
}

#[test]
fn a_pipeline_without_sync_waits_for_its_answers_and_takes_bounded_memory() {
    const PAIRS: usize = 50_000;
    let fixture = KeysFixture::with_proxy("");
    let (mut client, mut other) = (fixture.client(), fixture.client());
    let mut writer = client.writer();
    let first = [
        message::parse("nap", "select pg_sleep(0.5)", &[]),
        message::bind("", "nap", &[], false),
        message::execute("", 0),
        message::parse("s", "select $1::int", &[]),
    ];
    let pair = message::bind_execute("s", &[Some("1")]);
    let sender = std::thread::spawn(move || {
        let parts = std::iter::once(first.concat()).chain((0..PAIRS / 1_000).map(|_| pair.repeat(1_000)));
        parts
            .chain([message::sync()])
            .try_for_each(|part| writer.write_all(&part))
    });
    for _ in 0..20 {
        assert_eq!(other.value("select 1"), "1");
        let kept = held(&mut fixture.console(), "server_buffer");
        assert!(kept < 8 << 20, "{kept} bytes are kept");
    }
    assert_eq!(rows_until_ready(&mut client), PAIRS + 1);
    sender.join().expect("a thread").expect("all is sent");
}
