//! The stages of a request: all that may change its way from the client to a server's answer, in order. What leaves the pooler takes its
//! lines here along.
//!
//! ```text
//!  client ─► at_any_time ─┬─ no server yet ─► before_a_server ─► pool_for ─► its queue, or a server ─┐
//!                         └─ a server ◄──────────────────────────────────────────────────────────────┘
//!                              └─► on_its_server ─► classify::forward ─► server ─► after_a_query
//! ```
//!
//! Each stage looks first whether it is on for this client, which costs one comparison; nothing is looked up before a stage asks for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::core::classify::request::Request;
use crate::core::event_loop::EventLoop;
use crate::core::ranges::dispatch::CorePool;
use crate::understand::Understood;

/// Why a request goes no further now. A stage that lets it go on says `Continue`, after it has shortened the request perhaps.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// So many bytes are done with; the client goes on with what is behind them.
    Done(usize),
    /// So many bytes are done with; what is behind them waits.
    Wait(usize),
    /// The same, and the client leaves the server it has.
    Leave(usize),
    /// The client is gone.
    Gone,
}

/// What a stage says about a request.
pub(super) type Verdict = ControlFlow<Halt>;

impl<R: Reactor> EventLoop<R> {
    /// The client may have a server or not.
    pub(super) fn at_any_time(&mut self, reactor: &mut R, request: &mut Request<'_>) -> Verdict {
        self.explain(reactor, request)
    }

    /// The client has no server, and its request needs one.
    pub(super) fn before_a_server(&mut self, reactor: &mut R, request: &mut Request<'_>) -> Verdict {
        self.heavy_queue_lets(reactor, request)
    }

    /// The pool that the request goes to.
    pub(super) fn pool_for(
        &mut self,
        reactor: &mut R,
        request: &mut Request<'_>,
    ) -> ControlFlow<Halt, CorePool> {
        let key = self.key_of_request(request);
        let host_pool = self.pool_of_host(reactor, request, key)?;
        ControlFlow::Continue(self.core_pool(host_pool, request.client, key))
    }

    /// The client has a server, which nothing of the proxy's own is under way on.
    pub(super) fn on_its_server(
        &mut self,
        reactor: &mut R,
        server: usize,
        request: &mut Request<'_>,
    ) -> Verdict {
        self.heavy_queue_on_server(reactor, server, request)?;
        self.split(reactor, server, request)
    }

    /// A server has answered queries, the first after this time; `learnt`: it was one that ran alone.
    pub(super) fn after_a_query(
        &mut self,
        reactor: &mut R,
        server: usize,
        learnt: Option<&Understood>,
        took: Duration,
    ) {
        self.split_timed(server, took);
        self.heavy_queue_ran(reactor, server, learnt, took);
    }

    /// What `EXPLAIN (CORUN)` says of the stages.
    pub(super) fn explanation(
        &mut self,
        client: usize,
        text: &str,
        understood: &Arc<Understood>,
    ) -> Vec<String> {
        let mut lines = self.explain_key(client, text, understood);
        lines.push(self.explain_split(client, text, understood));
        lines.push(self.explain_heavy_queue(client, text, understood));
        lines
    }
}
