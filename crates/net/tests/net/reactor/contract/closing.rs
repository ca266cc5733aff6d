//! Every way a connection ends.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use corun_net::reactor::{Event, Handler, Reactor, Stream, Token};

use crate::reactor::support::{
    Log, Real, connection, echo, ignore, numbered, pairs, reset, turn_a_while, turn_until,
};

pub fn half_closed_connections_are_answered<R: Real>() {
    for (ours, mut other) in pairs() {
        other.write_all(b"question").unwrap();
        other.shutdown(Shutdown::Write);
        let mut reactor = R::make();
        let mut log = Log::new(echo);
        reactor.add(1, ours).unwrap();
        turn_until(&mut reactor, &mut log, |_, log| log.closed(1).is_some());
        assert_eq!(log.events(1), ["data", "closed"]);
        assert_eq!(log.closed(1), Some(None));
        turn_a_while(&mut reactor, &mut log);
        let mut answer = Vec::new();
        other.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"question");
    }
}

pub fn last_words_come_before_the_end<R: Real>() {
    for (ours, mut other) in pairs() {
        // As much as the kernel delivers before it learns that nobody takes answers.
        let sent = numbered(30_000);
        other.write_all(&sent).unwrap();
        drop(other);
        let mut reactor = R::make();
        let mut log = Log::new(ignore);
        reactor.add(1, ours).unwrap();
        // Fails, over a unix socket at once.
        reactor.send(1, &[0; 10_000]);
        reactor.send(1, &[0; 10_000]);
        turn_until(&mut reactor, &mut log, |_, log| log.closed(1).is_some());
        assert!(log.data(1) == sent);
    }
}

pub fn a_reset_is_an_error<R: Real>() {
    let (ours, other) = connection();
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    reactor.add(1, ours).unwrap();
    turn_a_while(&mut reactor, &mut log);
    reset(other);
    turn_until(&mut reactor, &mut log, |_, log| log.closed(1).is_some());
    assert_eq!(log.closed(1), Some(Some(ErrorKind::ConnectionReset)));
    // The token is free.
    let (ours, mut other) = connection();
    log.seen.clear();
    reactor.add(1, ours).unwrap();
    other.write_all(b"again").unwrap();
    turn_until(&mut reactor, &mut log, |_, log| log.data(1) == b"again");
}

pub fn a_failed_send_ends_a_paused_connection<R: Real>() {
    let (ours, other) = UnixStream::pair().unwrap();
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    reactor.add(1, Stream::Unix(ours)).unwrap();
    reactor.pause(1);
    drop(other);
    turn_a_while(&mut reactor, &mut log);
    assert_eq!(log.closed(1), None);
    reactor.send(1, b"nobody is there");
    turn_until(&mut reactor, &mut log, |_, log| log.closed(1).is_some());
    assert!(matches!(log.closed(1), Some(Some(_))), "{:?}", log.closed(1));
}

/// Closes every other connection at the first event.
struct Jealous {
    tokens: Vec<Token>,
    events: Vec<Token>,
    replacement: Option<Stream>,
}

impl<R: Reactor> Handler<R> for Jealous {
    fn event(&mut self, reactor: &mut R, event: Event<'_>) {
        let Event::Data { token, bytes } = event else {
            panic!("{event:?}");
        };
        assert!(bytes == b"all at once" || bytes == b"new");
        self.events.push(token);
        for other in self.tokens.drain(..).filter(|other| *other != token) {
            reactor.close(other);
            if let Some(stream) = self.replacement.take() {
                // Under a name the kernel may still have news for.
                reactor.add(other, stream).unwrap();
            }
        }
    }
}

pub fn what_a_handler_closed_has_no_events<R: Real>() {
    let mut reactor = R::make();
    let mut others = Vec::new();
    for token in 0..20 {
        let (ours, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"all at once").unwrap();
        reactor.add(token, Stream::Unix(ours)).unwrap();
        others.push(other);
    }
    let (replacement, mut newcomer) = UnixStream::pair().unwrap();
    let mut handler = Jealous {
        tokens: (0..20).collect(),
        events: Vec::new(),
        replacement: Some(Stream::Unix(replacement)),
    };
    turn_until(&mut reactor, &mut handler, |_, handler| {
        !handler.events.is_empty()
    });
    turn_a_while(&mut reactor, &mut handler);
    assert_eq!(handler.events.len(), 1);
    newcomer.write_all(b"new").unwrap();
    turn_until(&mut reactor, &mut handler, |_, handler| handler.events.len() == 2);
    let [first, second] = handler.events[..] else {
        unreachable!();
    };
    assert_ne!(first, second);
    for (token, mut other) in others
        .into_iter()
        .enumerate()
        .filter(|(token, _)| *token != first)
    {
        let end = other.read(&mut [0; 8]);
        assert!(matches!(end, Ok(0) | Err(_)), "{token}: {end:?}");
    }
}

pub fn a_goodbye_arrives_and_frees_the_token<R: Real>() {
    for (ours, mut other) in pairs() {
        let mut reactor = R::make();
        let mut log = Log::new(ignore);
        // Unread input would make a plain close throw our output away.
        other.write_all(&[1; 50_000]).unwrap();
        reactor.add(1, ours).unwrap();
        let sent = numbered(6 << 20);
        reactor.send(1, &sent);
        reactor.close_after_drain(1, Duration::from_secs(60));
        assert_eq!(reactor.queued(1), 0);
        let (next, mut other_next) = connection();
        reactor.add(1, next).unwrap();
        other_next.write_all(b"next").unwrap();
        let reader = thread::spawn(move || {
            other.write_all(&[2; 10_000]).unwrap();
            let mut received = Vec::new();
            other.read_to_end(&mut received).map(|_| received)
        });
        turn_until(&mut reactor, &mut log, |_, log| {
            reader.is_finished() && log.data(1) == b"next"
        });
        assert!(reader.join().unwrap().unwrap() == sent);
        assert_eq!(log.events(1), ["data"]);
    }
}

pub fn a_goodbye_does_not_wait_for_ever<R: Real>() {
    let (ours, mut other) = connection();
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    reactor.add(1, ours).unwrap();
    reactor.send(1, &vec![1; 16 << 20]);
    reactor.close_after_drain(1, Duration::from_millis(100));
    let start = reactor.now();
    while reactor.now() < start + Duration::from_millis(100) {
        reactor.turn(None, &mut log).unwrap();
    }
    turn_a_while(&mut reactor, &mut log);
    let mut received = Vec::new();
    let _ = other.read_to_end(&mut received);
    assert!(received.len() < 16 << 20);
    assert!(log.seen.is_empty());
}

pub fn close_is_silent_and_tries_once_more<R: Real>() {
    for (ours, mut other) in pairs() {
        let mut reactor = R::make();
        let mut log = Log::new(ignore);
        reactor.add(1, ours).unwrap();
        turn_a_while(&mut reactor, &mut log);
        reactor.send(1, b"bye");
        reactor.close(1);
        reactor.close(1);
        turn_a_while(&mut reactor, &mut log);
        let mut received = Vec::new();
        other.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"bye");
        assert!(log.seen.is_empty());
    }
}
