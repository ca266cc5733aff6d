//! What every reactor does, whatever it is built on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use crate::support::{Log, Real, echo, loopback, turn_until};

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
