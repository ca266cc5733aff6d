//! [`Request`]: what a client asks for next, read once; and what its first message says about where it should run.
//!
//! ```text
//!  the first message ─► First: looked up when somebody asks for the first time ─► routing, queueing, splitting ─► forward
//!       └ its client waits for a server: what was found waits with it
//! ```

use std::sync::Arc;

use crate::core::classify::classifier::{Classifier, Rules};
use crate::core::classify::forward::COLLECTED_MAX;
use crate::core::client::Client;
use crate::understand::{Isolation, TransactionEffect, Understood};
use corun_wire::error::{Refusal, code};
use corun_wire::{HEADER_BYTES, TransactionStatus, build, frontend, header, read};

/// What a client asks for next, on its way to a server and to that server's answer.
pub(in crate::core) struct Request<'a> {
    pub client: usize,
    /// What is to be done with, from the first byte of a message on.
    pub bytes: &'a [u8],
    pub rules: Rules,
    pub first: First,
}

impl Request<'_> {
    /// No more than so many bytes go on; the rest waits until they are answered.
    pub fn only(&mut self, bytes: usize) {
        self.bytes = &self.bytes[..bytes.min(self.bytes.len())];
    }
}

/// What the statement of a request's first message does. Whoever asks first looks it up for all.
#[derive(Debug, Default)]
pub(in crate::core) struct First(Option<Option<Arc<Understood>>>);

impl First {
    /// What was known already.
    pub fn known(understood: Option<Arc<Understood>>) -> Self {
        First(understood.map(Some))
    }

    /// What the statement does; `None`: the message has none, or none that is known, or is not whole. `bytes` begin with the message.
    pub fn understood(
        &mut self,
        client: &Client,
        classifier: &mut Classifier,
        bytes: &[u8],
    ) -> Option<&Arc<Understood>> {
        self.0
            .get_or_insert_with(|| look_up(client, classifier, bytes))
            .as_ref()
    }

    /// What was found, to be kept or used up.
    pub fn take(&mut self) -> Option<Arc<Understood>> {
        self.0.take().flatten()
    }
}

/// What the statement of the message does that `bytes` begin with.
pub(in crate::core) fn look_up(
    client: &Client,
    classifier: &mut Classifier,
    bytes: &[u8],
) -> Option<Arc<Understood>> {
    let head = header(bytes).ok()??;
    let whole = bytes.len() >= head.total;
    let body = &bytes[HEADER_BYTES..head.total.min(bytes.len())];
    let name = match head.tag {
        frontend::QUERY if whole => return Some(classifier.understanding.of(read::query(body)?)),
        frontend::PARSE if whole => return Some(classifier.understanding.of(read::parse(body)?.sql)),
        frontend::BIND => read::bind(body)?.1,
        frontend::DESCRIBE if whole => read::target(body).filter(|&(kind, _)| kind == b'S')?.1,
        _ => return None,
    };
    Some(Arc::clone(&client.statements.get(name)?.statement.understood))
}

/// What the first message of a request needs.
#[derive(Debug)]
pub(in crate::core) enum Needs {
    /// More bytes.
    More,
    /// No server: this message, of so many bytes in all, is answered here, with this.
    Answer(usize, Vec<u8>),
    /// A server.
    Server,
    /// Nothing yet: a transaction begins that nothing is known of. These bytes are kept until its first statement says where it belongs.
    Begin(usize, Arc<Understood>),
    /// Goodbye.
    Goodbye,
    /// It is refused.
    Refusal(Refusal),
}

/// Looks at the first message of a client without a server.
pub(in crate::core) fn needs(
    client: &Client,
    classifier: &mut Classifier,
    request: &mut Request<'_>,
) -> Needs {
    let bytes = request.bytes;
    let head = match request.rules.header(bytes) {
        Ok(Some(head)) => head,
        Ok(None) => return Needs::More,
        Err(refusal) => return Needs::Refusal(refusal),
    };
    let whole = bytes.len() >= head.total;
    let body = &bytes[HEADER_BYTES..head.total.min(bytes.len())];
    match head.tag {
        frontend::QUERY | frontend::PARSE if !whole && head.total <= COLLECTED_MAX => Needs::More,
        // The name is not whole, and never long.
        frontend::PARSE if !whole && read::text(body).is_none() => Needs::More,
        frontend::BIND if !whole && read::bind(body).is_none() => Needs::More,
        frontend::DESCRIBE | frontend::CLOSE if !whole => Needs::More,
        frontend::QUERY if request.rules.late_begin && client.begun.is_none() => {
            let understood = request.first.understood(client, classifier, bytes);
            match understood.filter(|understood| is_begin(understood)) {
                Some(understood) if read::query(body).and_then(begin_tag).is_some() => {
                    Needs::Begin(head.total, Arc::clone(understood))
                }
                _ => Needs::Server,
            }
        }
        // Outside of a transaction there is nothing for it to end.
        frontend::SYNC => {
            let mut out = Vec::new();
            let status = match client.begun {
                Some(_) => TransactionStatus::Open,
                None => TransactionStatus::Idle,
            };
            build::ready(&mut out, status);
            Needs::Answer(head.total, out)
        }
        // With nothing under way there is nothing to flush, and a server that does not copy ignores the others.
        frontend::FLUSH | frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL => {
            Needs::Answer(head.total, Vec::new())
        }
        frontend::TERMINATE => Needs::Goodbye,
        frontend::QUERY
        | frontend::PARSE
        | frontend::BIND
        | frontend::DESCRIBE
        | frontend::CLOSE
        | frontend::EXECUTE
        | frontend::FUNCTION_CALL => Needs::Server,
        tag => Needs::Refusal(Refusal::new(
            code::PROTOCOL_VIOLATION,
            format!("invalid frontend message type {tag}"),
        )),
    }
}

/// The command tag of a text that begins a transaction block; `None`: it begins with something else, a comment for one.
pub(in crate::core) fn begin_tag(sql: &[u8]) -> Option<&'static str> {
    let first = sql.trim_ascii_start();
    let begins = |word: &str| {
        first
            .get(..word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    };
    match (begins("begin"), begins("start")) {
        (true, _) => Some("BEGIN"),
        (_, true) => Some("START TRANSACTION"),
        _ => None,
    }
}

/// Whether a text only begins a transaction block, and cannot fail where it does: SERIALIZABLE and READ WRITE are refused by a server in
/// recovery.
fn is_begin(understood: &Understood) -> bool {
    let plain = match understood.transaction {
        TransactionEffect::Begin {
            isolation, read_only, ..
        } => isolation != Some(Isolation::Serializable) && read_only != Some(false),
        _ => false,
    };
    plain && understood.statements == 1 && understood.hint.is_none()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corun_net::reactor::twin::Network;

    use super::*;
    use crate::config::{AutoPrepare, Config, Doubtful, PoolMode};
    use crate::core::classify::batch;
    use crate::core::classify::forward::{Stop, forward};
    use crate::core::ranges::dispatch::key_of;
    use crate::core::ranges::{LoopRanges, Ranges};
    use crate::core::server::session::ServerSession;
    use crate::core::server::{Server, ServerHost};
    use crate::session::prepared::Statements;
    use crate::understand::Limits;
    use corun_wire::transport::Transport;

    #[test]
    fn a_text_is_looked_up_once_for_replicas_ranges_and_its_server() {
        let text = "[proxy]\nauth_type = \"any\"\n[databases.a]\nhost = \"h\"\nuser = \"u\"\n\
            [ranges.keys]\ndatabase = \"a\"\ncolumns = [\"t.k\"]\nminimum = 1\nmaximum = 1000\nbuckets = 100\n";
        let config = Config::parse(text, "corun.toml").expect("a configuration").config;
        let mut ranges = LoopRanges::new(Arc::new(Ranges::of(&config, "a", 4).expect("ranges")));
        let mut classifier = Classifier::new(
            Limits::default(),
            Arc::new(Statements::new(1)),
            Arc::default(),
            Arc::default(),
        );
        let mut reactor = Network::random(1).reactor();
        let mut client = Client::new(0, 1, Duration::ZERO);
        let replica = ServerHost {
            replica: true,
            ..ServerHost::default()
        };
        let session = ServerSession::new(Arc::default(), 10);
        let mut server = Server::new(Transport::new(1), 0, 1, Duration::ZERO, replica, session);
        let mut bytes = Vec::new();
        for (number, sql) in ["select * from t where k = 7", "select 1", "select 2"]
            .iter()
            .enumerate()
        {
            bytes.clear();
            build::query(&mut bytes, sql);
            let looked_up = classifier.understanding.statistics().asked;
            let mut request = Request {
                client: 0,
                bytes: &bytes,
                rules: Rules {
                    mode: PoolMode::Transaction,
                    auto_prepare: AutoPrepare::Off,
                    doubtful: Doubtful::Trust,
                    split: true,
                    late_begin: true,
                    carry_statements: true,
                    counts_statements: true,
                    extended_only: false,
                    packet_bytes_max: 1 << 20,
                    statement_bytes_max: 1 << 20,
                    now: Duration::ZERO,
                },
                first: First::default(),
            };
            let needs = needs(&client, &mut classifier, &mut request);
            assert!(matches!(needs, Needs::Server), "{needs:?}");
            let key = key_of(&mut ranges, &client, &mut classifier, &mut request.first, &bytes);
            assert_eq!(key.is_some(), number == 0);
            batch::ask(&client, &mut classifier, &mut request.first, &bytes);
            let (used, stop) = forward(
                &mut client,
                &mut server,
                &mut classifier,
                &mut reactor,
                &mut request,
            );
            assert!(matches!(stop, Stop::Unfinished), "{stop:?}");
            assert_eq!(used, bytes.len());
            assert_eq!(
                classifier.understanding.statistics().asked,
                looked_up + 1,
                "{sql}"
            );
        }
    }

    #[test]
    fn a_block_begins_by_either_word() {
        assert_eq!(
            begin_tag(b" \n BEGIN isolation level repeatable read"),
            Some("BEGIN")
        );
        assert_eq!(begin_tag(b"start transaction"), Some("START TRANSACTION"));
        for other in [
            &b""[..],
            b"beg",
            b"/* start */ begin",
            b"-- begin\nstart transaction",
            b";begin",
        ] {
            assert_eq!(begin_tag(other), None);
        }
    }
}
