//! Simple queries that run as prepared statements, and the questions that find out which may.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::config::AutoPrepare;
use crate::core::auto_prepare::lifted::{Answer, Lifted};
use crate::core::auto_prepare::simple::{Simple, Whose};
use crate::core::classify::forward::Way;
use crate::core::client::Client;
use crate::core::reply::expect::Step;
use crate::session::prepared::Prepared;
use crate::understand::{StatementKind, Understood};
use corun_wire::{TransactionStatus, build, frontend};

/// Begins a question: parsing waits for the locks of others, and the client's own message must not wait for these. It ends with the
/// transaction, which is the question.
const IMPATIENT: &[u8] = b"select pg_catalog.set_config('lock_timeout', '100ms', true)";

impl<R: Reactor> Way<'_, R> {
    /// Whether a simple query that is under way may have to run as it came: what the client sends behind it must not overtake it.
    pub(in crate::core) fn may_run_again(&self) -> bool {
        let filter = self.server.query.filter.as_ref();
        filter.is_some_and(|filter| filter.may_run_again())
    }

    /// Runs a simple query as a prepared statement, where that is known to give the same. `false`: it is not.
    ///
    /// Only where nothing else is under way: should the server refuse, the text runs as it came. And only where it is known what
    /// the session has set, and that what is defined is as it was.
    pub(in crate::core) fn prepared(&mut self, sql: &[u8], understood: &Arc<Understood>, end: usize) -> bool {
        if self.rules.auto_prepare == AutoPrepare::Off {
            return false;
        }
        let prepared = understood.plain && self.try_prepared(sql, understood, end);
        if !prepared {
            self.prove();
        }
        prepared
    }

    /// Whether nothing is owed to the client, and its session is one that everything is known of.
    fn is_plain(&self) -> bool {
        let client = &*self.client;
        self.server.expects.settled()
            && client.pins.is_empty()
            && !client.is_doubtful()
            && !client.transaction.defines
    }

    fn try_prepared(&mut self, sql: &[u8], understood: &Arc<Understood>, end: usize) -> bool {
        let client = &*self.client;
        if !self.is_plain() {
            return false;
        }
        let in_block = match self.server.session.status {
            TransactionStatus::Idle => false,
            TransactionStatus::Open => true,
            TransactionStatus::Failed => return false,
        };
        let chosen = self.classifier.choose(&Simple {
            sql,
            understood,
            whose: whose(client),
            how: self.rules.auto_prepare,
            in_block,
            now: self.rules.now,
        });
        let Some(run) = chosen else {
            return false;
        };
        let mut out = Vec::with_capacity(64 + run.values.len());
        self.server.query.counts.binds += 1;
        run.prepared.statement.bound();
        self.ensure(&run.prepared, &mut out);
        build::message(&mut out, frontend::BIND, |out| {
            out.push(0);
            out.extend(run.prepared.statement.name.as_bytes());
            out.push(0);
            out.extend(&run.values);
        });
        build::message(&mut out, frontend::DESCRIBE, |out| out.extend(b"P\0"));
        build::message(&mut out, frontend::EXECUTE, |out| out.extend([0; 5]));
        build::bare(&mut out, frontend::SYNC);
        self.server.expects.sync(true);
        self.server.query.filter = Some(Box::new(Lifted {
            sql: sql.to_vec(),
            id: run.prepared.statement.id,
            parameters: run.lifted,
            in_block,
            rows_first: understood.kind == StatementKind::Select,
            refuses_late: run.refuses_late,
            state: Answer::default(),
        }));
        self.began();
        self.replace(&out, end);
        true
    }

    /// Sends a question about a text with lifted literals ahead of what the client asks, if one waits and an error does no harm.
    fn prove(&mut self) {
        let client = &*self.client;
        if !self.is_plain() || self.server.session.status != TransactionStatus::Idle {
            return;
        }
        let Some(check) = self.classifier.ask(whose(client)) else {
            return;
        };
        let mut out = Vec::with_capacity(2 * check.wanted.sql.len() + 256);
        self.parse_unnamed(IMPATIENT, &mut out);
        build::message(&mut out, frontend::BIND, |out| out.extend([0; 8]));
        self.server.expects.step(Step::Bind, 0);
        build::message(&mut out, frontend::EXECUTE, |out| out.extend([0; 5]));
        self.server.expects.step(Step::Execute, 0);
        self.parse_unnamed(&check.wanted.sql, &mut out);
        build::message(&mut out, frontend::DESCRIBE, |out| out.extend(b"S\0"));
        self.server.expects.step(Step::Describe, 0);
        let statement = Arc::clone(&check.wanted.statement);
        self.parse_on_server(&Prepared { statement, stamp: 0 }, &mut out, None);
        build::message(&mut out, frontend::DESCRIBE, |out| {
            out.push(b'S');
            out.extend(check.wanted.statement.name.as_bytes());
            out.push(0);
        });
        self.server.expects.step(Step::Describe, 0);
        build::bare(&mut out, frontend::SYNC);
        self.server.expects.own_sync();
        self.server.query.since = self.rules.now;
        self.server.query.filter = Some(Box::new(check));
        self.flush();
        self.server.transport.send(self.reactor, &out);
    }

    /// Appends a Parse of the proxy's own: the server's unnamed statement is nobody's then.
    pub(in crate::core) fn parse_unnamed(&mut self, sql: &[u8], out: &mut Vec<u8>) {
        build::parse(out, "", sql, &[0, 0]);
        let unnamed = self.client.statements.unnamed.clone();
        let change = self.replace_unnamed(unnamed, None);
        self.server.expects.parse(true, change);
    }
}

/// By what texts of a client are told from the same texts of others.
pub(in crate::core) fn whose(client: &Client) -> Whose<'_> {
    Whose {
        database: &client.database,
        user: &client.user,
        settings: &client.settings,
    }
}
