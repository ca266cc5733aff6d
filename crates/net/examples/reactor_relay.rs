//! What a reactor costs: clients, a relay on one reactor, and an echo server on threads; CPU of the relay's thread for each
//! round trip, with every reactor of this machine in turn. And the resident memory of idle connections.
//!
//! `cargo run --release -p corun-net --example reactor_relay -- [clients] [round trips of each]`

#![allow(clippy::print_stdout)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use corun_net::reactor::{Epoll, Event, Handler, Reactor, Stream, Uring};
use corun_topology::clock::thread_cpu_time;

const MESSAGE_BYTES: usize = 60;

/// Even tokens are clients, odd ones their servers.
struct Relay {
    closed: usize,
    round_trips: u64,
}

impl<R: Reactor> Handler<R> for Relay {
    fn event(&mut self, reactor: &mut R, event: Event<'_>) {
        match event {
            Event::Data { token, bytes } => {
                self.round_trips += (token % 2) as u64;
                reactor.send(token ^ 1, bytes);
            }
            Event::Closed { token, .. } => {
                self.closed += 1;
                reactor.close(token ^ 1);
            }
            _ => {}
        }
    }
}

/// The far ends: one thread plays all clients, another all servers, each waiting by a reactor of its own.
struct Far {
    left: u64,
    answer: bool,
}

impl Handler<Epoll> for Far {
    fn event(&mut self, reactor: &mut Epoll, event: Event<'_>) {
        match event {
            Event::Data { token, bytes } if self.answer || self.left > 0 => {
                self.left = self.left.saturating_sub(1);
                reactor.send(token, bytes);
            }
            Event::Data { .. } => self.left = 0,
            _ => {}
        }
    }
}

fn relay<R: Reactor>(name: &str, mut reactor: R, clients: usize, round_trips: u64) {
    let mut far_clients = Vec::new();
    let mut far_servers = Vec::new();
    for client in 0..clients {
        for (token, others) in [(client * 2, &mut far_clients), (client * 2 + 1, &mut far_servers)] {
            let (ours, other) = UnixStream::pair().unwrap();
            reactor.add(token, Stream::Unix(ours)).unwrap();
            others.push(other);
        }
    }
    let total = round_trips * clients as u64;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let threads: Vec<_> = [(far_clients, false), (far_servers, true)]
        .into_iter()
        .map(|(others, answer)| {
            let stop = std::sync::Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut reactor = Epoll::new().unwrap();
                for (token, other) in others.into_iter().enumerate() {
                    if !answer {
                        (&other).write_all(&[1; MESSAGE_BYTES]).unwrap();
                    }
                    reactor.add(token, Stream::Unix(other)).unwrap();
                }
                let left = if answer { 0 } else { u64::MAX };
                let mut far = Far { left, answer };
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    reactor.turn(Some(Duration::from_millis(10)), &mut far).unwrap();
                }
            })
        })
        .collect();
    let mut handler = Relay {
        closed: 0,
        round_trips: 0,
    };
    while handler.round_trips < total / 10 {
        reactor.turn(None, &mut handler).unwrap();
    }
    let (cpu, wall, before) = (thread_cpu_time(), Instant::now(), handler.round_trips);
    while handler.round_trips < total + before {
        reactor.turn(None, &mut handler).unwrap();
    }
    let (cpu, wall) = (thread_cpu_time() - cpu, wall.elapsed());
    let done = (handler.round_trips - before) as f64;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    println!(
        "{name} clients={clients} cpu_us_per_round_trip={:.2} round_trips_per_s={:.0}",
        cpu.as_secs_f64() * 1e6 / done,
        done / wall.as_secs_f64()
    );
}

fn resident_bytes() -> u64 {
    let mut text = String::new();
    std::fs::File::open("/proc/self/status")
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

fn idle<R: Reactor>(name: &str, mut reactor: R) {
    let count = 9000;
    let pairs: Vec<_> = (0..count).map(|_| UnixStream::pair().unwrap()).collect();
    let mut handler = Relay {
        closed: 0,
        round_trips: 0,
    };
    let before = resident_bytes();
    let mut others = Vec::with_capacity(count);
    for (token, (ours, other)) in pairs.into_iter().enumerate() {
        reactor.add(token, Stream::Unix(ours)).unwrap();
        others.push(other);
    }
    reactor
        .turn(Some(Duration::from_millis(100)), &mut handler)
        .unwrap();
    let bytes = resident_bytes().saturating_sub(before) / count as u64;
    println!("{name} resident_bytes_per_idle_connection={bytes}");
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap());
    let clients = arguments.next().unwrap_or(8) as usize;
    let round_trips = arguments.next().unwrap_or(20_000);
    for _ in 0..3 {
        relay("epoll", Epoll::new().unwrap(), clients, round_trips);
        if let Ok(reactor) = Uring::new() {
            relay("io_uring", reactor, clients, round_trips);
        }
    }
    idle("epoll", Epoll::new().unwrap());
    if let Ok(reactor) = Uring::new() {
        idle("io_uring", reactor);
    }
}
