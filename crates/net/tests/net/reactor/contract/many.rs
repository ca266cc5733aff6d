//! Many connections at once, and one that wants everything.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use corun_net::reactor::Stream;

use crate::reactor::support::{
    Log, Real, connection, descriptors, echo, ignore, loopback, turn_a_while, turn_until,
};

pub fn echo_of_many_connections<R: Real>() {
    let (listener, address) = loopback();
    let clients: Vec<_> = (0..64u8)
        .map(|client| {
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                for round in 0..50usize {
                    let sent: Vec<u8> = (0..1 + round * 397 % 9000)
                        .map(|byte| byte as u8 ^ client)
                        .collect();
                    stream.write_all(&sent).unwrap();
                    let mut received = vec![0; sent.len()];
                    stream.read_exact(&mut received).unwrap();
                    assert_eq!(received, sent);
                }
                stream.shutdown(Shutdown::Write).unwrap();
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                assert!(rest.is_empty());
            })
        })
        .collect();
    let mut reactor = R::make();
    reactor.listen(1, listener).unwrap();
    let mut log = Log::new(echo);
    turn_until(&mut reactor, &mut log, |_, log| {
        log.seen.values().filter(|seen| seen.closed == Some(None)).count() == 64
    });
    for client in clients {
        client.join().unwrap();
    }
}

pub fn ten_thousand_connections<R: Real>() {
    // Two descriptors each; other tests have theirs meanwhile.
    let count = (descriptors(21_000).saturating_sub(600) / 2).min(10_000);
    let mut reactor = R::make();
    let mut log = Log::new(echo);
    let mut others = Vec::new();
    for token in 0..count {
        let (ours, other) = UnixStream::pair().unwrap();
        reactor.add(token, Stream::Unix(ours)).unwrap();
        others.push(other);
    }
    for round in 0..3u32 {
        for (token, other) in others.iter_mut().enumerate() {
            other.write_all(&(token as u32 ^ round).to_ne_bytes()).unwrap();
        }
        let bytes = (round as usize + 1) * 4;
        turn_until(&mut reactor, &mut log, |_, log| {
            (0..count).all(|token| log.data(token).len() == bytes)
        });
        turn_a_while(&mut reactor, &mut log);
        for (token, other) in others.iter_mut().enumerate() {
            let mut answer = [0; 4];
            other.read_exact(&mut answer).unwrap();
            assert_eq!(u32::from_ne_bytes(answer), token as u32 ^ round);
        }
    }
    drop(others);
    turn_until(&mut reactor, &mut log, |_, log| {
        (0..count).all(|token| log.closed(token).is_some())
    });
}

pub fn a_flood_does_not_starve_others<R: Real>() {
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    let (ours, mut flood) = connection();
    flood.set_nonblocking(true).unwrap();
    let (quiet, mut other) = UnixStream::pair().unwrap();
    reactor.add(1, ours).unwrap();
    reactor.add(2, Stream::Unix(quiet)).unwrap();
    let refill = |flood: &mut TcpStream| {
        let block = vec![7; 1 << 20];
        let mut sent = 0;
        loop {
            match flood.write(&block) {
                Ok(count) => sent += count,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    return sent;
                }
            }
        }
    };
    let mut sent = refill(&mut flood);
    assert!(sent > 1 << 20, "loopback holds only {sent} bytes");
    for round in 1..=20 {
        other.write_all(&[round]).unwrap();
        let before = log.data(1).len();
        // Waiting for nothing must not mean serving only what is at hand.
        for _ in 0..4 {
            if log.data(2).last() == Some(&round) {
                break;
            }
            reactor.turn(Some(Duration::ZERO), &mut log).unwrap();
        }
        assert_eq!(log.data(2).last(), Some(&round));
        assert!(log.data(1).len() - before <= 4 << 20, "it was read without end");
        sent += refill(&mut flood);
    }
    drop(flood);
    turn_until(&mut reactor, &mut log, |_, log| log.closed(1).is_some());
    assert_eq!(log.data(1).len(), sent);
}
