//! What `EXPLAIN (CORUN)` says about the queue of heavy queries.

use corun_net::reactor::Reactor;

use super::estimate::words;
use super::heavy::statement;
use super::known::Fact;
use super::turn::{key_of, may_queue, values_of};
use crate::config::{PoolMode, Switch};
use crate::core::event_loop::EventLoop;
use crate::core::parts::asked;
use crate::understand::{HeavyQueueHint, Understood};
use corun_wire::build;

impl<R: Reactor> EventLoop<R> {
    /// Whether a text would queue, as what, and in which form.
    pub(in crate::core) fn explain_heavy_queue(
        &mut self,
        index: usize,
        text: &str,
        understood: &Understood,
    ) -> String {
        let Some(client) = self.clients.get(index) else {
            return String::new();
        };
        let effective = self.pools.get(client.pool).map(|pool| &pool.effective);
        let heavy_queue = &self.shared.heavy_queue;
        let off = match effective {
            Some(effective) if effective.heavy_queue == Switch::Off => "`heavy_queue` is off",
            Some(effective) if effective.pool_mode == PoolMode::Session => "pool_mode is session",
            _ if !heavy_queue.is_open() => "there is no queue on this machine",
            _ if understood.heavy_queue == Some(HeavyQueueHint::None) => "a comment says so",
            _ if !may_queue(understood) => "the text is not a single query that is known to only read",
            _ => "",
        };
        if !off.is_empty() {
            return format!("Heavy queue: none, {off}");
        }
        let auto = effective.is_some_and(|effective| effective.heavy_queue == Switch::Auto)
            && !heavy_queue.auto.on();
        let statement = statement(&client.database, understood.shape);
        let hinted = understood.heavy_queue == Some(HeavyQueueHint::Analytic);
        let mean = match heavy_queue.heavy.expected(statement) {
            Some(mean) => format!("{:.1} ms on average", mean.as_secs_f64() * 1000.0),
            None => "no run of the query is known".to_owned(),
        };
        if !hinted && !self.heavy.is_heavy(&heavy_queue.heavy, statement) {
            return format!("Heavy queue: none, the query is not known to take long ({mean})");
        }
        let state = if auto && !hinted {
            "; auto has it off now"
        } else {
            ""
        };
        let mut message = Vec::new();
        build::query(&mut message, text);
        let fact = asked(client, &message).and_then(|asked| {
            let key = key_of(client, statement);
            heavy_queue.known.of(key, values_of(&asked), self.now)
        });
        let plans = self.files.config.corun.heavy_queue_plans;
        match fact {
            None if hinted || heavy_queue.heavy.may_ask(statement) => {
                format!(
                    "Heavy queue: queues, {mean}; the pooler asks for its plan when the query comes next{state}"
                )
            }
            None => format!(
                "Heavy queue: none now, the plan is not known, and questions about the plan have cost enough for the time the query runs ({mean}){state}"
            ),
            Some(Fact::Refused) => {
                format!("Heavy queue: none now, the server did not give its plan ({mean})")
            }
            Some(Fact::Plans(estimate) | Fact::Due(estimate)) => {
                let choice = heavy_queue.choose(&estimate, plans && estimate.may_change);
                let class = heavy_queue.locality(&estimate, choice);
                let class = class.map(|class| class.to_string()).unwrap_or_default();
                let candidate = estimate.candidate(choice);
                format!(
                    "Heavy queue: queues as {class}, {} bytes of hash tables, {} of {} plans ({}), {mean}{state}",
                    candidate.footprint.bytes().0,
                    choice + 1,
                    estimate.count(),
                    words(&candidate.form)
                )
            }
        }
    }
}
