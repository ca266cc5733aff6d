//! [`run`]: what one client that asks for too much takes from a pooler, and from eight others.
//!
//! ```text
//!   a turn of a side:  others alone ─► the attack alone ─► others beside the attack, which begins again whenever it has ended
//!                      tps, p99        CPU, memory, time    tps, p99
//! ```
//!
//! Attacks are messages that any client may send once it is logged in, with nothing but default limits in the pooler's way.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::case::Case;
use super::contest::{Compared, seconds};
use super::fixture::Fixture;
use super::rows;
use super::sides::{Kind, Side, Spec, standard};
use crate::fixture::address::Address;
use crate::fixture::client::{Client, message, parsed};
use crate::fixture::failed;
use crate::fixture::pgbench::{self, Duty, Load, Protocol, Script, TPS};
use lab_core::contest::{Contest, Gone, SideResult};
use lab_core::error::BenchError;
use lab_core::metric::MetricSpec;
use lab_core::run::{Plan, Runner};

/// What the one client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// A Parse, then CopyDone for ever, without a Sync.
    CopyDone,
    /// A Bind whose name does not end.
    EndlessName,
    /// Prepared statements with names, without end.
    Statements,
    /// CopyData before there is a copy, or a server.
    CopyData,
    /// Queries whose rows are not read.
    Unread,
    /// All of them, one after the other.
    Mixed,
    /// No attack: many Bind and Execute behind a statement that takes a second, as drivers send for `executemany`.
    Pipeline(usize),
}

/// Bytes of a piece that is written at once.
const PIECE: usize = 64 << 10;
/// Pause between two pieces: the attack takes a part of a core, not all of it.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest wait for a login, and for a write that is not taken.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a pipeline waits for at its beginning.
const SLEEP: Duration = Duration::from_secs(1);

impl Attack {
    /// Those that are done in pieces: the end of the case's name, and how many pieces there are.
    const IN_PIECES: [(Attack, &str, usize); 5] = [
        (Attack::CopyDone, "copydone", 1_600),
        (Attack::EndlessName, "name", 1_750),
        (Attack::Statements, "statements", 1_000),
        (Attack::CopyData, "copydata", 1_600),
        (Attack::Unread, "unread", 200),
    ];

    fn in_pieces(self) -> Option<&'static (Attack, &'static str, usize)> {
        Attack::IN_PIECES.iter().find(|(attack, ..)| *attack == self)
    }

    /// The word in names of cases.
    pub fn name(self) -> String {
        match (self, self.in_pieces()) {
            (Attack::Pipeline(pairs), _) => format!("pipeline_{pairs}"),
            (_, Some((_, name, _))) => format!("attack_{name}"),
            _ => "attack_mixed".to_owned(),
        }
    }

    fn piece(self, number: usize) -> Vec<u8> {
        match (self, number) {
            (Attack::CopyDone, 0) => parsed("", "select 1"),
            (Attack::CopyDone, _) => message(b'c', b"").repeat(PIECE / 5),
            (Attack::EndlessName, 0) => {
                let total = (1_750 * PIECE) as u32;
                [&b"B"[..], &total.to_be_bytes()].concat()
            }
            (Attack::EndlessName, _) => vec![b'x'; PIECE],
            (Attack::Statements, _) => {
                let text = |n: usize| format!("select {n} /* {} */", "x".repeat(2_000));
                let each =
                    (number * 100..(number + 1) * 100).flat_map(|n| parsed(&format!("s{n}"), &text(n)));
                each.chain(message(b'S', b"")).collect()
            }
            (Attack::CopyData, _) => message(b'd', &vec![b'x'; PIECE]),
            (Attack::Unread, _) => message(b'Q', b"select repeat('x', 1000000)\0"),
            (Attack::Mixed | Attack::Pipeline(_), _) => Vec::new(),
        }
    }

    /// Does it once, as a client that has just logged in. `sample` is called now and then. A pooler that refuses has done well.
    fn run(self, address: &Address, quick: bool, sample: &mut dyn FnMut() -> bool) -> Result<(), BenchError> {
        if self == Attack::Mixed {
            let mut each = Attack::IN_PIECES.iter();
            return each.try_for_each(|(attack, ..)| attack.run(address, quick, sample));
        }
        let mut stream = Client::connect(address, PATIENCE)?.into_stream();
        if let Attack::Pipeline(pairs) = self {
            return pipeline(stream, pairs, sample);
        }
        let pieces = self.in_pieces().map_or(0, |(.., pieces)| *pieces);
        let mut reads = (self != Attack::Unread).then(|| drain(&stream)).transpose()?;
        for number in 0..if quick { pieces / 50 } else { pieces } {
            if stream.write_all(&self.piece(number)).is_err() || !sample() {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        // Whoever reads ends with the connection; one that has ended already needs no end.
        let _ = stream.shutdown(Shutdown::Both);
        reads.take().map(std::thread::JoinHandle::join);
        Ok(())
    }
}

/// Bind and Execute of a piece.
const PAIRS: usize = 1_000;

/// Many executions in one go, behind one that takes a second; every one must be answered.
fn pipeline(
    mut stream: UnixStream,
    pairs: usize,
    sample: &mut dyn FnMut() -> bool,
) -> Result<(), BenchError> {
    let unwritable = |source| BenchError::io("could not write a pipeline", source);
    let mut reader = stream.try_clone().map_err(unwritable)?;
    let counting = std::thread::spawn(move || count(&mut reader));
    let bind = |name: &str| {
        let body = [b"\0", name.as_bytes(), b"\0\0\0\0\0\0\0"].concat();
        [message(b'B', &body), message(b'E', &[0; 5])].concat()
    };
    let sleep = format!("select pg_sleep({})", SLEEP.as_secs());
    let mut head = parsed("sleep", &sleep);
    head.extend(parsed("one", "select 1"));
    head.extend(bind("sleep"));
    stream.write_all(&head).map_err(unwritable)?;
    let pair = bind("one");
    let mut left = pairs;
    while left > 0 {
        let now = left.min(PAIRS);
        stream.write_all(&pair.repeat(now)).map_err(unwritable)?;
        left -= now;
        sample();
    }
    stream.write_all(&message(b'S', b"")).map_err(unwritable)?;
    let counted = counting
        .join()
        .map_err(|_| failed("pipeline", "its reader ended"))?;
    match counted {
        Ok(rows) if rows == pairs + 1 => Ok(()),
        Ok(rows) => Err(failed(
            "pipeline",
            format!("{rows} of {} executions were answered", pairs + 1),
        )),
        Err(source) => Err(BenchError::io("could not read a pipeline's answers", source)),
    }
}

/// CommandComplete messages up to ReadyForQuery.
fn count(stream: &mut UnixStream) -> std::io::Result<usize> {
    let (mut input, mut at, mut rows) = (vec![0; 1 << 20], 0, 0);
    loop {
        let read = stream.read(&mut input[at..])?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (end, mut from) = (at + read, 0);
        while let Some(head) = input[from..end].first_chunk::<5>() {
            let total = 1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if from + total > end {
                break;
            }
            match head[0] {
                b'C' => rows += 1,
                b'Z' => return Ok(rows),
                _ => {}
            }
            from += total;
        }
        input.copy_within(from..end, 0);
        at = end - from;
    }
}

/// Reads what comes and forgets it.
fn drain(stream: &UnixStream) -> Result<std::thread::JoinHandle<()>, BenchError> {
    let mut reader = stream
        .try_clone()
        .map_err(|source| BenchError::io("could not read beside writing", source))?;
    Ok(std::thread::spawn(move || {
        let mut taken = vec![0; PIECE];
        while reader.read(&mut taken).is_ok_and(|count| count > 0) {}
    }))
}

/// What a turn gave.
#[derive(Clone, Copy, Debug)]
struct Measured {
    beside: pgbench::Turn,
    alone: pgbench::Turn,
    attack_s: f64,
    cpu_ms: Option<f64>,
    growth_bytes: Option<f64>,
}

const METRICS: [MetricSpec<Measured>; 8] = [
    MetricSpec::higher(TPS, "1/s", |turn| Some(turn.beside.tps)),
    MetricSpec::higher("kept_percent", "%", |turn| {
        Some(100.0 * turn.beside.tps / turn.alone.tps)
    }),
    MetricSpec::lower("p50_us", "us", |turn| Some(turn.beside.p50_us)),
    MetricSpec::lower("p99_us", "us", |turn| Some(turn.beside.p99_us)),
    MetricSpec::lower("p99_growth", "x", |turn| {
        Some(turn.beside.p99_us / turn.alone.p99_us)
    }),
    MetricSpec::lower("attack_s", "s", |turn| Some(turn.attack_s)),
    MetricSpec::lower("attack_cpu_ms", "ms", |turn| turn.cpu_ms),
    MetricSpec::lower("rss_growth_bytes", "bytes", |turn| turn.growth_bytes),
];

/// Runs the case and emits its rows.
pub fn run(
    case: &Case,
    attack: Attack,
    fixture: &Fixture,
    quick: bool,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let pipeline = matches!(attack, Attack::Pipeline(_));
    let wanted = |spec: &Spec| match &spec.kind {
        Kind::Direct => pipeline,
        // Those before 1.21 have no prepared statements here.
        Kind::PgBouncer { .. } => spec.name == "pgbouncer_current",
        Kind::Corun(_) | Kind::Before(_) => true,
    };
    let specs: Vec<Spec> = standard(fixture).into_iter().filter(wanted).collect();
    let start = |spec: &Spec| Side::start(spec.clone(), fixture, case.transport, 1);
    let mut sides: Vec<Side> = specs.iter().map(start).collect();
    let known = sides.iter().map(|side| SideResult {
        wrong: side.wrong.clone(),
        gone: side.contender.gone().cloned(),
        rounds: Vec::new(),
    });
    let known = known.collect();
    let compared = Compared::of(&specs);
    let plan = Plan {
        warmups: 0,
        // Each round has three parts, and what is asked here is not near 1.
        pairs_max: runner.plan().repetitions,
        ..runner.plan()
    };
    let contest = Contest {
        name: &case.name(),
        pairs: &compared.pairs,
        controls: &[compared.control],
        metric: &METRICS[0],
        plan,
    };
    let folder = fixture.pg.folder("pgbench")?;
    let progress = runner.progress();
    progress.begin(&format!("proxy {}", case.name()), plan.repetitions as u64);
    let result = contest.run(known, progress, |place, round| {
        let turn = turn(case, attack, fixture, &mut sides[place], &folder, quick, round);
        turn.map_err(|error| sides[place].contender.failure(&error))
    });
    progress.end();
    rows::emit(case, fixture.scale, &specs, &compared, &METRICS, &result, runner);
    Ok(())
}

fn turn(
    case: &Case,
    attack: Attack,
    fixture: &Fixture,
    side: &mut Side,
    folder: &Path,
    quick: bool,
    round: usize,
) -> Result<(Measured, Option<String>), BenchError> {
    let address = side.contender.address()?.clone();
    let duty = Duty::Seconds(seconds(quick, case.clients));
    let load = Load::new(Script::SelectOnly, Protocol::Simple, case.clients, duty);
    let program = fixture.pg.programs.path("pgbench");
    let others = || pgbench::run(&program, &load, &address, round + 1, folder);
    let alone = others()?;
    let (cpu, memory) = (side.contender.cpu_us(), side.contender.resident_bytes());
    let (mut peak, mut calls) = (memory, 0u32);
    let began = Instant::now();
    attack.run(&address, quick, &mut || {
        calls += 1;
        if calls.is_multiple_of(16) {
            peak = peak
                .zip(side.contender.resident_bytes())
                .map(|(peak, now)| peak.max(now));
        }
        true
    })?;
    let mut attack_s = began.elapsed().as_secs_f64();
    if matches!(attack, Attack::Pipeline(_)) {
        attack_s -= SLEEP.as_secs_f64();
    }
    let cpu_ms = cpu
        .zip(side.contender.cpu_us())
        .map(|(before, after)| (after - before) / 1e3);
    peak = peak
        .zip(side.contender.resident_bytes())
        .map(|(peak, now)| peak.max(now));
    let over = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // What it is told is no matter here: it was counted above.
                let _ = attack.run(&address, quick, &mut || !over.load(Ordering::Relaxed));
                std::thread::sleep(PAUSE);
            }
        });
        let beside = others();
        over.store(true, Ordering::Relaxed);
        beside
    });
    side.contender.alive()?;
    let measured = Measured {
        beside: beside?,
        alone,
        attack_s,
        cpu_ms,
        growth_bytes: peak.zip(memory).map(|(peak, before)| peak - before),
    };
    side.compare(fixture, 1);
    match side.contender.gone() {
        Some(Gone::Failed(why) | Gone::Unavailable(why)) => Err(failed("attack", why.clone())),
        None => Ok((measured, side.wrong.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_messages_but_for_the_name_that_does_not_end() {
        for (attack, ..) in Attack::IN_PIECES {
            if attack == Attack::EndlessName {
                continue;
            }
            for number in 0..2 {
                let piece = attack.piece(number);
                let mut at = 0;
                while at < piece.len() {
                    let length = piece[at + 1..].first_chunk::<4>().expect("a length");
                    at += 1 + u32::from_be_bytes(*length) as usize;
                }
                assert_eq!(at, piece.len(), "{attack:?}");
            }
        }
        assert!(!Attack::EndlessName.piece(1).contains(&0));
    }
}
