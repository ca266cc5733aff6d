//! A client in the simulated network: it sends a script in pieces of any size, reads as slowly as luck wants, and keeps what it got.

use corun_net::reactor::twin::Remote;

use super::message::{self, Message, shown};
use super::random::Random;
use super::session::{Ledger, Session};

/// Bytes, and how many ReadyForQuery messages must have come before they are sent.
#[derive(Clone, Debug)]
pub struct Step {
    pub after: usize,
    pub bytes: Vec<u8>,
}

/// A client.
pub struct Actor {
    pub remote: Remote,
    random: Random,
    script: Vec<Step>,
    /// Next step, and the byte in it.
    at: (usize, usize),
    /// Steps sent before their time.
    ahead: usize,
    received: Vec<u8>,
    pub messages: Vec<Message>,
    readies: usize,
    /// It reads only now and then.
    slow: bool,
    /// It goes away after so many bytes.
    pub leaves_after: Option<usize>,
    sent: usize,
}

impl Actor {
    pub fn new(remote: Remote, script: Vec<Step>, seed: u64) -> Actor {
        let mut random = Random::new(seed);
        let slow = random.percent(30);
        if slow {
            remote.set_room(32 << random.below(6));
        }
        Actor {
            remote,
            script,
            at: (0, 0),
            ahead: random.below(3),
            received: Vec::new(),
            messages: Vec::new(),
            readies: 0,
            slow,
            leaves_after: None,
            sent: 0,
            random,
        }
    }

    /// Sends and reads a part, and does read where `eager`. `false`: there is nothing to do.
    pub fn step(&mut self, eager: bool) -> bool {
        let mut moved = false;
        let most = if self.slow {
            32 + self.random.below(300)
        } else {
            usize::MAX
        };
        if eager || !self.slow || self.random.percent(40) {
            let bytes = self.remote.receive_at_most(most);
            moved |= !bytes.is_empty();
            self.received.extend(bytes);
        }
        while let Some(message) = message::take(&mut self.received) {
            self.readies += usize::from(message.tag == b'Z');
            self.messages.push(message);
        }
        // What stands at the end of a script waits for everything before it.
        let (step, byte) = self.at;
        let Some(next) = self.script.get(step) else {
            return moved;
        };
        let last = step + 1 == self.script.len();
        let ahead = if last { 0 } else { self.ahead };
        if byte == 0 && self.readies + ahead < next.after || self.remote.is_finished() {
            return moved;
        }
        if self.random.percent(30) {
            return true;
        }
        let rest = next.bytes.len() - byte;
        let mut part = match self.random.below(3) {
            0 => rest,
            1 => 1 + self.random.below(rest),
            _ => 1 + self.random.below(rest.min(8)),
        };
        if let Some(leaves_after) = self.leaves_after {
            part = part.min(leaves_after.saturating_sub(self.sent).max(1));
        }
        self.remote.send(&next.bytes[byte..byte + part]);
        self.sent += part;
        self.at = if part == rest {
            (step + 1, 0)
        } else {
            (step, byte + part)
        };
        true
    }

    /// Whether it has sent all it wanted to before it goes away.
    pub fn leaves(&self) -> bool {
        self.leaves_after.is_some_and(|after| self.sent >= after)
    }

    /// Whether the whole script was sent and the connection has ended.
    pub fn is_done(&self) -> bool {
        self.at.0 == self.script.len() && self.remote.is_finished()
    }

    /// Process and secret that a cancel request of its needs, once it has been told.
    pub fn key(&self) -> Option<(u32, Vec<u8>)> {
        let key = self.messages.iter().find(|message| message.tag == b'K')?;
        Some((key.u32_at(0), key.body[4..].to_vec()))
    }

    /// Every message, as lines; the bytes of one that did not arrive whole are the last.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = shown(&self.messages);
        if !self.received.is_empty() {
            lines.push(format!("cut off: {:02x?}", self.received));
        }
        lines
    }

    /// Whether it was told what a server of its own would have told it, all of it.
    pub fn is_right(&self) -> bool {
        let (expected, lines) = (self.expected(), self.lines());
        let pairs = expected.iter().zip(&lines);
        expected.len() == lines.len() && pairs.into_iter().all(|(expected, line)| same(expected, line))
    }

    /// Panics where it was told something else than a server of its own would have told it.
    pub fn check(&self, about: &str) {
        let (expected, lines) = (self.expected(), self.lines());
        if !self.is_right() {
            let at = expected
                .iter()
                .zip(&lines)
                .position(|(expected, line)| !same(expected, line))
                .unwrap_or(expected.len().min(lines.len()));
            let from = at.saturating_sub(6);
            let readies = lines[..at]
                .iter()
                .filter(|line| line.starts_with("ready"))
                .count();
            panic!(
                "{about}: another answer, from message {at}\nexpected: {:?}\ngot:      {:?}\nbefore: {:#?}\nsent: {:#?}",
                expected.get(at),
                lines.get(at),
                &lines[from..at],
                self.sent_around(readies)
            );
        }
    }

    /// What it sent around the time of so many ReadyForQuery messages.
    pub fn sent_around(&self, readies: usize) -> Vec<String> {
        let near = |step: &&Step| step.after <= readies && step.after + 4 > readies;
        let text = |step: &Step| format!("after {}: {}", step.after, String::from_utf8_lossy(&step.bytes));
        self.script.iter().filter(near).map(text).collect()
    }

    /// What the stand-in alone answers to the same script.
    pub fn expected(&self) -> Vec<String> {
        let mut session = Session::new(1, vec![0; 4], &Ledger::default());
        for step in &self.script {
            session.receive(&step.bytes);
            while session.sleeps() {
                session.wake();
            }
        }
        shown(&message::all(&session.take_output()))
    }
}

/// Returns whether an answer is the one that was expected. In a transaction that has failed, a statement that was prepared on another server
/// connection cannot be parsed on this one: the server says that the transaction has failed, and not what else is wrong.
pub fn same(expected: &str, line: &str) -> bool {
    expected == line
        || (expected.starts_with("error ") && line.starts_with("error ") && line.contains(" C25P02 "))
}

/// The first step of every script.
pub fn log_in(user: &str, parameters: &[(&str, &str)]) -> Step {
    let mut all = vec![("user", user), ("database", "app")];
    all.extend(parameters);
    Step {
        after: 0,
        bytes: message::startup(0, &all),
    }
}

/// A script that logs in and sends each of these texts when all before it is answered.
pub fn texts(texts: &[impl AsRef<str>]) -> Vec<Step> {
    let sent = texts.iter().enumerate().map(|(at, text)| Step {
        after: 1 + at,
        bytes: message::query(text.as_ref()),
    });
    std::iter::once(log_in("app", &[])).chain(sent).collect()
}

/// A client with statements that last until somebody ends them; each begins with `hint`.
pub fn sleeper(hint: &str, name: &str, statements: usize) -> Vec<Step> {
    let sleep = |at| format!("{hint}select '{name}:{at}' sleep");
    let mut steps = texts(&(0..statements).map(sleep).collect::<Vec<_>>());
    steps.push(Step {
        after: 1 + statements,
        bytes: message::terminate(),
    });
    steps
}
