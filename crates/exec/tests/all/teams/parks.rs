//! Parks and tokens, from the member's own thread and from others.
#![allow(clippy::print_stdout, reason = "a test that fails shows its seed")]

use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use corun_exec::ctx;
use corun_exec::teams::{Operation, Token, blocking, operation, park, yield_now};
use rand_lite::Random;

use super::{all, team};

/// Random numbers of the tests, from a seed they print.
mod rand_lite {
    pub struct Random(pub u64);

    impl Random {
        pub fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }

        pub fn seeded(name: &str) -> Random {
            let seed = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(1, |time| time.as_nanos() as u64)
                | 1;
            println!("{name}: seed {seed}");
            Random(seed)
        }
    }
}

#[test]
fn an_unpark_before_the_park_is_not_lost_and_two_are_one() {
    all(team().scope(|scope| {
        scope.spawn("one", || {
            let token = Token::current().expect("a member");
            token.unpark();
            token.unpark();
            park(None);
            let deadline = Instant::now() + Duration::from_millis(20);
            park(Some(deadline));
            assert!(Instant::now() >= deadline, "the second was another notification");
        });
    }));
}

#[test]
fn a_parked_member_leaves_the_others_running() {
    let log = RefCell::new(String::new());
    let token = RefCell::new(None);
    all(team().scope(|scope| {
        for name in ["a", "b", "c"] {
            let (log, token) = (&log, &token);
            scope.spawn(name, move || {
                operation(Operation(0));
                for step in 0..3 {
                    log.borrow_mut().push_str(&format!("{name}{step} "));
                    if (name, step) == ("b", 0) {
                        token.replace(Token::current());
                        park(None);
                        log.borrow_mut().push_str("woken ");
                    }
                    if (name, step) == ("c", 1) {
                        token.borrow().as_ref().expect("b's").unpark();
                    }
                    ctx!();
                }
            });
        }
    }));
    assert_eq!(log.into_inner(), "a0 b0 c0 a1 c1 a2 c2 woken b1 b2 ");
}

#[test]
fn members_wake_in_the_order_of_their_deadlines() {
    let log = RefCell::new(Vec::new());
    let start = Instant::now() + Duration::from_millis(5);
    all(team().scope(|scope| {
        for number in [3_u32, 1, 4, 2, 0] {
            let log = &log;
            scope.spawn("sleeper", move || {
                let deadline = start + Duration::from_millis(15) * number;
                while Instant::now() < deadline {
                    park(Some(deadline));
                }
                log.borrow_mut().push(number);
            });
        }
    }));
    assert_eq!(log.into_inner(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_deadline_that_has_passed_and_yields_do_not_keep_a_team_away() {
    let stop = AtomicBool::new(false);
    let results = team().scope(|scope| {
        let stop = &stop;
        scope.spawn("yields", move || {
            while !stop.load(Ordering::Relaxed) {
                yield_now();
                park(Some(Instant::now()));
            }
            0
        });
        scope.spawn("works", move || {
            for _ in 0..100 {
                operation(Operation(0));
                yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            1
        });
    });
    assert_eq!(all(results), [0, 1]);
}

#[test]
fn other_threads_wake_members_and_none_is_lost() {
    const MEMBERS: usize = 24;
    const WAKES: u64 = 400;
    let counts: Vec<AtomicU64> = (0..MEMBERS).map(|_| AtomicU64::new(0)).collect();
    let tokens: Mutex<Vec<Option<Token>>> = Mutex::new(vec![None; MEMBERS]);
    let ended = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        let mut random = Random::seeded("other_threads_wake_members");
        for _ in 0..2 {
            let mut random = Random(random.below(u64::MAX) | 1);
            let (counts, tokens, ended) = (&counts, &tokens, &ended);
            threads.spawn(move || {
                while ended.load(Ordering::Relaxed) < MEMBERS {
                    let member = random.below(MEMBERS as u64) as usize;
                    counts[member].fetch_add(1, Ordering::Relaxed);
                    let token = tokens.lock().expect("not poisoned")[member].clone();
                    if let Some(token) = token {
                        token.unpark();
                    }
                    if random.below(8) == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let results = team().scope(|scope| {
            for member in 0..MEMBERS {
                let (counts, tokens, ended) = (&counts, &tokens, &ended);
                scope.spawn("woken", move || {
                    tokens.lock().expect("not poisoned")[member] = Token::current();
                    let mut seen = 0;
                    while seen < WAKES {
                        operation(Operation(member as u16 % 3));
                        let now = counts[member].load(Ordering::Relaxed);
                        if now == seen {
                            // Whoever counts up unparks afterwards: this never sleeps for ever.
                            park(None);
                        }
                        seen = now;
                        ctx!();
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        all(results);
    });
}

#[test]
fn members_of_two_schedulers_wake_each_other() {
    // A ring of members over two OS threads; a ball goes round.
    const MEMBERS: usize = 12;
    const ROUNDS: u64 = 300;
    let ball = AtomicU64::new(0);
    let tokens: Vec<Mutex<Option<Token>>> = (0..MEMBERS).map(|_| Mutex::new(None)).collect();
    let barrier = std::sync::Barrier::new(2);
    std::thread::scope(|threads| {
        for half in 0..2 {
            let (ball, tokens, barrier) = (&ball, &tokens, &barrier);
            threads.spawn(move || {
                let results = team().scope(|scope| {
                    scope.spawn("ready", move || {
                        // Runs after the others have left their tokens.
                        for _ in 0..2 {
                            yield_now();
                        }
                        blocking(|| barrier.wait());
                        for token in tokens {
                            if let Some(token) = &*token.lock().expect("not poisoned") {
                                token.unpark();
                            }
                        }
                        0
                    });
                    for member in (half..MEMBERS).step_by(2) {
                        scope.spawn("player", move || {
                            *tokens[member].lock().expect("not poisoned") = Token::current();
                            let mut played = 0;
                            while played < ROUNDS {
                                let at = ball.load(Ordering::Acquire);
                                if at as usize % MEMBERS != member {
                                    park(None);
                                    continue;
                                }
                                played += 1;
                                ball.store(at + 1, Ordering::Release);
                                let next = tokens[(member + 1) % MEMBERS]
                                    .lock()
                                    .expect("not poisoned")
                                    .clone();
                                if let Some(next) = next {
                                    next.unpark();
                                }
                            }
                            played
                        });
                    }
                });
                let played: u64 = all(results).into_iter().sum();
                assert_eq!(played, ROUNDS * MEMBERS as u64 / 2);
            });
        }
    });
    assert_eq!(ball.into_inner(), ROUNDS * MEMBERS as u64);
}

#[test]
fn parks_with_deadlines_race_unparks() {
    let mut random = Random::seeded("parks_with_deadlines_race_unparks");
    let (send, receive) = mpsc::channel::<Token>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for token in receive {
                token.unpark();
            }
        });
        let results = team().scope(|scope| {
            for number in 0..10_u16 {
                let mut random = Random(random.below(u64::MAX) | 1);
                let send = send.clone();
                scope.spawn("racer", move || {
                    let mut parks = 0;
                    for _ in 0..300 {
                        operation(Operation(number % 4));
                        send.send(Token::current().expect("a member"))
                            .expect("it listens");
                        park(Some(Instant::now() + Duration::from_micros(random.below(60))));
                        parks += 1;
                        ctx!();
                    }
                    parks
                });
            }
        });
        drop(send);
        assert_eq!(all(results), [300; 10]);
    });
}

#[test]
fn blocking_work_does_not_hold_up_the_others() {
    let (send, receive) = mpsc::channel();
    let results = team().scope(|scope| {
        // Blocks until the other one has done its operations.
        scope.spawn("blocks", move || {
            blocking(move || receive.recv()).expect("a number")
        });
        scope.spawn("works", move || {
            for _ in 0..50 {
                operation(Operation(0));
            }
            send.send(7).expect("it listens");
            8
        });
    });
    assert_eq!(all(results), [7, 8]);
    // Elsewhere it runs here, and panics come back.
    let here = std::thread::current().id();
    assert_eq!(blocking(|| std::thread::current().id()), here);
    let results = team().scope(|scope| {
        scope.spawn("elsewhere", move || {
            blocking(|| std::thread::current().id()) != here
        });
        scope.spawn("panics", || {
            blocking(|| std::panic::resume_unwind(Box::new(5)));
            true
        });
    });
    assert!(matches!(results[0], Ok(true)));
    assert!(matches!(&results[1], Err(corun_exec::teams::Lost::Panicked(payload)) if payload.is::<i32>()));
}

#[test]
fn many_block_at_once() {
    let results = team().scope(|scope| {
        for number in 0..200_u64 {
            scope.spawn("blocks", move || {
                let mut sum = 0;
                for round in 0..5 {
                    sum += blocking(|| {
                        std::thread::yield_now();
                        number * round
                    });
                }
                sum
            });
        }
    });
    assert_eq!(
        all(results),
        (0..200).map(|number| number * 10).collect::<Vec<_>>()
    );
}
