//! Output that the other side is slow to read, and input that is not wanted yet.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use corun_net::reactor::{Event, Handler, Reactor, Stream, Token};

use crate::reactor::support::{
    Log, Real, connection, echo, ignore, numbered, pairs, turn_a_while, turn_until,
};

pub fn a_slow_reader_gets_everything<R: Real>() {
    for (ours, mut other) in pairs() {
        let mut reactor = R::make();
        let mut log = Log::new(ignore);
        reactor.add(1, ours).unwrap();
        let sent = numbered(12 << 20);
        // Small and large pieces, gathered and direct ones.
        let mut rest = &sent[..];
        for size in [1usize, 3000, 5000, 100, 70_000, 1 << 20].iter().cycle() {
            let (piece, later) = rest.split_at((*size).min(rest.len()));
            reactor.send(1, piece);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        turn_a_while(&mut reactor, &mut log);
        assert!(reactor.queued(1) > 0, "the kernel took 12 MiB that nobody reads");
        assert!(log.events(1).is_empty());
        let reader = thread::spawn(move || {
            let mut received = vec![0; 12 << 20];
            for piece in received.chunks_mut(300_001) {
                other.read_exact(piece).unwrap();
            }
            (received, other)
        });
        turn_until(&mut reactor, &mut log, |reactor, log| {
            reactor.queued(1) == 0 && log.events(1) == ["drained"]
        });
        let (received, other) = reader.join().unwrap();
        assert!(received == sent);
        drop(other);
        turn_until(&mut reactor, &mut log, |_, log| log.closed(1) == Some(None));
        assert_eq!(log.events(1), ["drained", "closed"]);
    }
}

/// Passes bytes from connection 1 to connection 2 and stops reading while too many wait.
struct Relay {
    queued_max: usize,
    pauses: usize,
    ended: bool,
}

const LIMIT: usize = 128 * 1024;

impl<R: Reactor> Handler<R> for Relay {
    fn event(&mut self, reactor: &mut R, event: Event<'_>) {
        match event {
            Event::Data { token: 1, bytes } => {
                reactor.send(2, bytes);
                self.queued_max = self.queued_max.max(reactor.queued(2));
                if reactor.queued(2) > LIMIT {
                    self.pauses += 1;
                    reactor.pause(1);
                }
            }
            Event::Drained { token: 2 } => reactor.resume(1),
            Event::Closed { token: 1, error } => {
                assert!(error.is_none());
                reactor.close_after_drain(2, Duration::from_secs(60));
                self.ended = true;
            }
            other => panic!("{other:?}"),
        }
    }
}

pub fn back_pressure_bounds_what_is_queued<R: Real>() {
    let (from, mut writer) = connection();
    let (to, mut reader) = UnixStream::pair().unwrap();
    let sent = numbered(24 << 20);
    let expected = sent.clone();
    let writer = thread::spawn(move || writer.write_all(&sent).unwrap());
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        let mut piece = vec![0; 50_000];
        loop {
            match reader.read(&mut piece).unwrap() {
                0 => return received,
                count => received.extend_from_slice(&piece[..count]),
            }
        }
    });
    let mut reactor = R::make();
    reactor.add(1, from).unwrap();
    reactor.add(2, Stream::Unix(to)).unwrap();
    let mut relay = Relay {
        queued_max: 0,
        pauses: 0,
        ended: false,
    };
    turn_until(&mut reactor, &mut relay, |_, relay| relay.ended);
    // The goodbye takes turns of its own.
    turn_until(&mut reactor, &mut relay, |_, _| reader.is_finished());
    writer.join().unwrap();
    assert!(reader.join().unwrap() == expected);
    assert!(relay.pauses > 0, "the reader was never slow");
    assert!(
        relay.queued_max <= LIMIT + 128 * 1024,
        "{} bytes were queued",
        relay.queued_max
    );
}

pub fn a_paused_connection_keeps_silent<R: Real>() {
    for (ours, mut other) in pairs() {
        let mut reactor = R::make();
        let mut log = Log::new(ignore);
        reactor.add(1, ours).unwrap();
        other.write_all(b"one").unwrap();
        turn_until(&mut reactor, &mut log, |_, log| log.data(1) == b"one");
        reactor.pause(1);
        // Whatever had been read ahead of the pause may not come either.
        other.write_all(b"two").unwrap();
        turn_a_while(&mut reactor, &mut log);
        assert_eq!(log.data(1), b"one");
        reactor.resume(1);
        turn_until(&mut reactor, &mut log, |_, log| log.data(1) == b"onetwo");
        reactor.pause(1);
        other.write_all(b"three").unwrap();
        drop(other);
        turn_a_while(&mut reactor, &mut log);
        assert_eq!((log.data(1), log.closed(1)), (&b"onetwo"[..], None));
        reactor.resume(1);
        turn_until(&mut reactor, &mut log, |_, log| log.closed(1).is_some());
        assert_eq!(log.data(1), b"onetwothree");
        assert_eq!(log.closed(1), Some(None));
    }
}

fn pause_after_first<R: Reactor>(reactor: &mut R, token: Token, _: &[u8]) {
    reactor.pause(token);
}

pub fn a_pause_inside_an_event_holds_at_once<R: Real>() {
    let (ours, mut other) = connection();
    let sent = numbered(1 << 20);
    other.write_all(&sent).unwrap();
    drop(other);
    let mut reactor = R::make();
    let mut log = Log::new(pause_after_first);
    reactor.add(1, ours).unwrap();
    let mut pieces = 0;
    while log.closed(1).is_none() {
        let before = log.data(1).len();
        turn_until(&mut reactor, &mut log, |_, log| {
            log.data(1).len() > before || log.closed(1).is_some()
        });
        let piece = log.data(1).len() - before;
        assert!(piece <= 64 * 1024);
        turn_a_while(&mut reactor, &mut log);
        assert_eq!(log.data(1).len(), before + piece, "more came while it was paused");
        reactor.resume(1);
        pieces += 1;
    }
    assert!(pieces >= 16);
    assert!(log.data(1) == sent);
}

pub fn output_is_gathered_in_order<R: Real>() {
    fn many_pieces<R: Reactor>(reactor: &mut R, token: Token, bytes: &[u8]) {
        for piece in bytes.chunks(37) {
            reactor.send(token, piece);
        }
        reactor.send(token, &[]);
        reactor.send(token, &[b'!'; 10_000]);
        reactor.send(token, b"?");
    }
    for (ours, mut other) in pairs() {
        let mut reactor = R::make();
        let mut log = Log::new(many_pieces);
        reactor.add(1, ours).unwrap();
        let sent = numbered(1000);
        other.write_all(&sent).unwrap();
        turn_until(&mut reactor, &mut log, |_, log| log.data(1).len() == 1000);
        turn_a_while(&mut reactor, &mut log);
        // An answer for each event; the kernel may have split the thousand bytes.
        let mut answer = vec![0; 1000 + 10_001];
        other.read_exact(&mut answer).unwrap();
        assert!(answer[..1000] == sent && answer[1000..11_000].iter().all(|byte| *byte == b'!'));
        assert_eq!(answer[11_000], b'?');
    }
}

pub fn sends_outside_of_events_leave_with_the_next_turn<R: Real>() {
    let (ours, mut other) = connection();
    let mut reactor = R::make();
    let mut log = Log::new(echo);
    reactor.add(1, ours).unwrap();
    reactor.send(1, b"hello");
    reactor.send(77, b"nobody");
    assert_eq!(reactor.queued(77), 0);
    reactor.turn(Some(Duration::ZERO), &mut log).unwrap();
    let mut received = [0; 5];
    turn_a_while(&mut reactor, &mut log);
    other.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"hello");
}
