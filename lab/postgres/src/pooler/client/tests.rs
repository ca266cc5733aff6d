//! Answers and errors are read to their end; messages that lie are errors.

use super::*;

/// A client whose server says these bytes and hangs up.
fn client(said: &[u8]) -> Client {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    theirs.write_all(said).expect("it is small");
    Client {
        stream: Stream::Unix(ours),
        input: Vec::new(),
        from: 0,
    }
}

#[test]
fn an_answer_is_read_to_its_end() {
    let column = [&b"abalance\0"[..], &[0; 6], &[0, 0, 0, 23], &[0; 8]].concat();
    let mut said = message(b'T', &[&[0, 1][..], &column].concat());
    said.extend(message(b'D', &[0, 1, 0, 0, 0, 2, b'4', b'2']));
    said.extend(message(b'D', &[0, 1, 0xff, 0xff, 0xff, 0xff]));
    said.extend(message(b'C', b"SELECT 2\0"));
    said.extend(message(b'Z', b"I"));
    let answer = client(&said).answer().expect("whole");
    assert_eq!(answer.columns, [[("abalance".to_owned(), 23)]]);
    assert_eq!(answer.rows, [[Some("42".to_owned())], [None]]);
    assert_eq!((answer.tags, answer.error), (vec!["SELECT 2".to_owned()], None));
}

#[test]
fn an_error_before_hanging_up_is_an_answer_and_silence_is_not() {
    let said = message(b'E', b"SFATAL\0C53300\0Mtoo many\0\0");
    let answer = client(&said).answer().expect("an error");
    assert_eq!(answer.error, Some(("53300".to_owned(), "too many".to_owned())));
    assert!(client(b"").answer().is_err());
    assert!(client(&message(b'C', b"SELECT 1\0")).answer().is_err());
}

#[test]
fn messages_that_lie_are_errors() {
    // A row shorter than it says, a length below its own, an unknown message, one that is too long.
    for said in [
        message(b'D', &[0, 1, 0, 0, 0, 9, b'x']),
        vec![b'C', 0, 0, 0, 3],
        message(b'?', b""),
        vec![b'D', 0x7f, 0xff, 0xff, 0xff],
    ] {
        assert!(client(&said).answer().is_err(), "{said:?}");
    }
}

#[test]
fn a_password_asked_for_is_a_refusal() {
    let answer = client(&message(b'R', &[0, 0, 0, 10]))
        .answer()
        .expect("an answer");
    assert!(answer.error.is_some_and(|(_, words)| words.contains("password")));
}
