//! Clients that append to lists and read them in random transactions of each level, and the checker of their history ([`super::history`]).
//!
//! `CORUN_TEST_SECONDS=600` goes on for so long at each level; each round has new lists and is checked by itself.

use super::harness::{Client, Failure, Server, number_from_environment};
use super::history::{Level, Op, Transaction, check};
use super::random::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: u64 = 8;
/// Lists that are appended to at a time.
const LISTS: u64 = 5;
/// Appends after which a list is left for a new one.
const LENGTH: u64 = 40;

/// What the clients of a round share.
struct Round<'s> {
    server: &'s Server,
    level: Level,
    /// The order of beginnings and ends.
    clock: AtomicU64,
    /// Values, which are all different.
    values: AtomicU64,
    /// Transactions of each client.
    transactions: u64,
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ReadCommitted => "read committed",
        Level::RepeatableRead => "repeatable read",
        Level::Serializable => "serializable",
    }
}

/// The list in a field: numbers and commas, with one at the beginning.
fn list(text: &str) -> Vec<u64> {
    let numbers = text.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().expect("a number")).collect()
}

impl Round<'_> {
    /// Everything that one client does.
    fn client(&self, seed: u64) -> Vec<Transaction> {
        let client = self.server.client();
        let mut random = Random::new(seed);
        // Half of the clients send parameters.
        let parameters = seed % 2 == 1;
        (0..self.transactions)
            .map(|_| self.transaction(&client, &mut random, parameters))
            .collect()
    }

    fn transaction(&self, client: &Client, random: &mut Random, parameters: bool) -> Transaction {
        let begun = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut ops = Vec::new();
        let ended = self.statements(client, random, parameters, &mut ops);
        let committed = match ended {
            Ok(committed) => committed,
            Err((code, message)) => {
                let again = ["40001", "40P01"].contains(&code.as_str());
                assert!(again, "{code} {message}");
                client.execute("rollback");
                false
            }
        };
        Transaction {
            begun,
            ended: self.clock.fetch_add(1, Ordering::SeqCst),
            committed,
            ops,
        }
    }

    /// Returns whether it has committed; what it did is in `ops` before it is known to have been done.
    fn statements(
        &self,
        client: &Client,
        random: &mut Random,
        parameters: bool,
        ops: &mut Vec<Op>,
    ) -> Result<bool, Failure> {
        let count = 1 + random.below(5);
        // Statements alone are transactions, too.
        if count == 1 && random.percent(50) {
            client.execute(&format!(
                "set default_transaction_isolation = '{}'",
                level_name(self.level)
            ));
            match random.percent(50) {
                true => self.append(client, random, parameters, ops)?,
                false => self.read(client, random, parameters, ops)?,
            }
            return Ok(true);
        }
        client.try_execute(&format!("begin isolation level {}", level_name(self.level)))?;
        for _ in 0..count {
            match random.below(20) {
                0..=9 => self.append(client, random, parameters, ops)?,
                10 => {
                    client.try_execute("savepoint s")?;
                    let from = ops.len();
                    self.append(client, random, parameters, ops)?;
                    client.try_execute("rollback to s")?;
                    for op in &mut ops[from..] {
                        if let Op::Append(key, value) = *op {
                            *op = Op::Undone(key, value);
                        }
                    }
                }
                _ => self.read(client, random, parameters, ops)?,
            }
        }
        let commits = random.percent(92);
        client.try_execute(if commits { "commit" } else { "rollback" })?;
        Ok(commits)
    }

    /// One of the lists that are in use.
    fn key(&self, random: &mut Random) -> u64 {
        let base = self.values.load(Ordering::Relaxed) / (LENGTH * LISTS) * LISTS;
        // Now and then one of before, at which others may still be.
        match random.percent(10) {
            true => base.saturating_sub(LISTS) + random.below(LISTS as usize) as u64,
            false => base + random.below(LISTS as usize) as u64,
        }
    }

    fn append(
        &self,
        client: &Client,
        random: &mut Random,
        parameters: bool,
        ops: &mut Vec<Op>,
    ) -> Result<(), Failure> {
        let key = self.key(random);
        let value = self.values.fetch_add(1, Ordering::Relaxed);
        ops.push(Op::Append(key, value));
        let update = random.percent(60);
        let number = i64::try_from(key).expect("a small number");
        let text = format!(",{value}");
        let changed = match (update, parameters) {
            (true, true) => client.execute_with(
                "update lists set items = items || $2 where key = $1",
                &[&number, &text],
            )?,
            (true, false) => client.try_execute(&format!(
                "update lists set items = items || '{text}' where key = {key}"
            ))?,
            (false, _) => 0,
        };
        if changed == 1 {
            return Ok(());
        }
        const UPSERT: &str = "on conflict (key) do update set items = l.items || excluded.items";
        let changed = match parameters {
            true => client.execute_with(
                &format!("insert into lists as l (key, items) values ($1, $2) {UPSERT}"),
                &[&number, &text],
            )?,
            false => client.try_execute(&format!(
                "insert into lists as l (key, items) values ({key}, '{text}') {UPSERT}"
            ))?,
        };
        assert_eq!(changed, 1, "an append of {value} to {key}");
        Ok(())
    }

    fn read(
        &self,
        client: &Client,
        random: &mut Random,
        parameters: bool,
        ops: &mut Vec<Op>,
    ) -> Result<(), Failure> {
        let key = self.key(random);
        let number = i64::try_from(key).expect("a small number");
        if random.percent(70) {
            let items = match parameters {
                true => {
                    let rows = client.query("select items from lists where key = $1", &[&number])?;
                    rows.first().map(|row| row.get::<_, String>(0))
                }
                false => {
                    let rows = client.try_rows(&format!("select items from lists where key = {key}"))?;
                    rows.first().and_then(|row| row[0].clone())
                }
            };
            ops.push(Op::Read(key, list(&items.unwrap_or_default())));
            return Ok(());
        }
        // Several lists, of one moment; those that are not there are empty.
        let last = key + LISTS - 1;
        let rows = client.try_rows(&format!(
            "select key, items from lists where key between {key} and {last}"
        ))?;
        for key in key..=last {
            let found = rows
                .iter()
                .find(|row| row[0].as_deref() == Some(&key.to_string()));
            let items = found.and_then(|row| row[1].as_deref()).unwrap_or_default();
            ops.push(Op::Read(key, list(items)));
        }
        Ok(())
    }
}

/// Rounds of a level; returns transactions that committed and those that did not.
fn rounds(level: Level, default_seed: u64) {
    let seconds = number_from_environment("CORUN_TEST_SECONDS", 0);
    let seed = number_from_environment("CORUN_TEST_SEED", default_seed);
    let begin = Instant::now();
    let server = Server::start();
    let (mut committed, mut failed, mut number) = (0, 0, 0);
    loop {
        let history = round(
            &server,
            level,
            seed + number,
            if seconds == 0 { 40 } else { 1000 },
        );
        let ended = history.iter().filter(|of| of.committed).count();
        (committed, failed) = (committed + ended, failed + history.len() - ended);
        let found = check(&history, level);
        assert!(
            found.is_empty(),
            "{} problems at {}, CORUN_TEST_SEED={}:\n{}",
            found.len(),
            level_name(level),
            seed + number,
            found[..found.len().min(5)].join("\n")
        );
        number += 100;
        if begin.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    if seconds > 0 {
        eprintln!(
            "{}: {committed} transactions committed, {failed} did not",
            level_name(level)
        );
    }
    assert!(committed > failed / 20, "hardly any transaction comes through");
}

fn round(server: &Server, level: Level, seed: u64, transactions: u64) -> Vec<Transaction> {
    let last = server.client();
    last.execute("drop table if exists lists");
    last.execute("create table lists (key bigint primary key, items text not null)");
    let round = Round {
        server,
        level,
        clock: AtomicU64::new(0),
        values: AtomicU64::new(0),
        transactions,
    };
    let mut history: Vec<Transaction> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let round = &round;
                scope.spawn(move || round.client(seed * 1000 + client))
            })
            .collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("a client"))
            .collect()
    });
    let begun = round.clock.fetch_add(1, Ordering::SeqCst);
    let rows = last.rows("select key, items from lists");
    let ops = rows.iter().map(|row| {
        let key = row[0].as_deref().and_then(|key| key.parse().ok());
        Op::Read(key.expect("a key"), list(row[1].as_deref().expect("a list")))
    });
    history.push(Transaction {
        begun,
        ended: round.clock.fetch_add(1, Ordering::SeqCst),
        committed: true,
        ops: ops.collect(),
    });
    history
}

/// What the level lets through is seen: the checker is not blind to what the wire brings.
#[test]
fn write_skew_of_repeatable_read_is_found() {
    let server = Server::start();
    let last = server.client();
    last.execute("create table lists (key bigint primary key, items text not null)");
    last.execute("insert into lists values (1, ''), (2, '')");
    let read = |client: &Client| {
        let rows = client.rows("select items from lists order by key");
        let items = rows.iter().map(|row| list(row[0].as_deref().unwrap_or_default()));
        (1..)
            .zip(items)
            .map(|(key, list)| Op::Read(key, list))
            .collect::<Vec<Op>>()
    };
    let clients = [server.client(), server.client()];
    let mut history: Vec<Transaction> = clients
        .iter()
        .map(|client| {
            client.execute("begin isolation level repeatable read");
            Transaction {
                begun: 0,
                ended: 1,
                committed: true,
                ops: read(client),
            }
        })
        .collect();
    for (key, (client, of)) in (1..).zip(clients.iter().zip(&mut history)) {
        client.execute(&format!(
            "update lists set items = items || ',{key}' where key = {key}"
        ));
        of.ops.push(Op::Append(key, key));
    }
    for client in &clients {
        client.execute("commit");
    }
    history.push(Transaction {
        begun: 2,
        ended: 3,
        committed: true,
        ops: read(&last),
    });
    assert_eq!(check(&history, Level::RepeatableRead), Vec::<String>::new());
    let found = check(&history, Level::Serializable);
    assert!(found.len() == 1 && found[0].starts_with("G2"), "{found:?}");
}

#[test]
fn read_committed_has_no_dirty_reads() {
    rounds(Level::ReadCommitted, 1);
}

#[test]
fn repeatable_read_has_snapshots() {
    rounds(Level::RepeatableRead, 2);
}

#[test]
fn serializable_has_an_order() {
    rounds(Level::Serializable, 3);
}
