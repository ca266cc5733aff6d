//! What `EXPLAIN (CORUN)` says about the queue of heavy queries.

use machine::reactor::Reactor;

use super::estimate::words;
use super::heavy::statement;
use super::known::Fact;
use super::turn::{key_of, may_queue, values_of};
use crate::config::{PoolMode, Switch};
use crate::core::event_loop::EventLoop;
use crate::core::parts::asked;
use crate::understand::{LaneHint, Understood};
use crate::wire::build;

impl<R: Reactor> EventLoop<R> {
    /// Whether a text would queue, as what, and in which form.
    pub(in crate::core) fn explain_lane(
        &mut self,
        index: usize,
        text: &str,
        understood: &Understood,
    ) -> String {
        let Some(client) = self.clients.get(index) else {
            return String::new();
        };
        let effective = self.pools.get(client.pool).map(|pool| &pool.effective);
        let lane = &self.shared.lane;
        let off = match effective {
            Some(effective) if effective.lane == Switch::Off => "lane is off",
            Some(effective) if effective.pool_mode == PoolMode::Session => "pool_mode is session",
            _ if !lane.is_open() => "there is no queue on this machine",
            _ if understood.lane == Some(LaneHint::None) => "a comment says so",
            _ if !may_queue(understood) => "it is not one query that is known to only read",
            _ => "",
        };
        if !off.is_empty() {
            return format!("Lane: none, {off}");
        }
        let auto = effective.is_some_and(|effective| effective.lane == Switch::Auto) && !lane.auto.on();
        let statement = statement(&client.database, understood.shape);
        let hinted = understood.lane == Some(LaneHint::Analytic);
        let mean = match lane.heavy.expected(statement) {
            Some(mean) => format!("{:.1} ms on average", mean.as_secs_f64() * 1000.0),
            None => "no run of it is known".to_owned(),
        };
        if !hinted && !self.heavy.is_heavy(&lane.heavy, statement) {
            return format!("Lane: none, it is not known to take long ({mean})");
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
            lane.known.of(key, values_of(&asked), self.now)
        });
        let plans = self.world.config.corun.lane_plans;
        match fact {
            None if hinted || lane.heavy.may_ask(statement) => {
                format!("Lane: queues, {mean}; its plan is asked when it comes next{state}")
            }
            None => format!(
                "Lane: none now, its plan is not known, and questions about it have cost enough for what it runs ({mean}){state}"
            ),
            Some(Fact::Refused) => format!("Lane: none now, its plan could not be asked ({mean})"),
            Some(Fact::Plans(estimate) | Fact::Due(estimate)) => {
                let choice = lane.choose(&estimate, plans && estimate.may_change);
                let class = lane.locality(&estimate, choice);
                let class = class.map(|class| class.to_string()).unwrap_or_default();
                let candidate = estimate.candidate(choice);
                format!(
                    "Lane: queues as {class}, {} bytes of hash tables, {} of {} plans ({}), {mean}{state}",
                    candidate.footprint.bytes().0,
                    choice + 1,
                    estimate.count(),
                    words(&candidate.form)
                )
            }
        }
    }
}
