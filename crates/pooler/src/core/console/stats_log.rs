//! `log_stats`: a line of totals every `stats_period`.
//!
//! The first event loop asks all for their counts; the last that answers tells it.

use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::admin::Stats;
use crate::core::console::ask::{Answers, Order, Tell};
use crate::core::console::rows;
use crate::core::event_loop::EventLoop;

/// What was logged last.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::core) struct StatsLog {
    at: Duration,
    total: Stats,
    /// The loops have been asked and have not all answered.
    asked: bool,
}

impl<R: Reactor> EventLoop<R> {
    /// Asks for the counts when it is time.
    pub(in crate::core) fn stats_tick(&mut self) {
        let proxy = &self.files.config.proxy;
        let period = proxy.stats_period;
        let due = !period.is_zero() && self.now.saturating_sub(self.stats_log.at) >= period;
        if self.index != 0 || !proxy.log_stats || !due || self.stats_log.asked || self.stopping {
            return;
        }
        self.stats_log.asked = true;
        Answers::ask(&self.shared, &Order::Count, Tell::Log);
    }

    /// All loops have told what they counted.
    pub(in crate::core) fn log_counted(&mut self, answers: &Answers) {
        let all = rows::stats(&answers.parts());
        let total = all
            .into_values()
            .fold(Stats::default(), |sum, stats| sum.plus(&stats));
        let now = StatsLog {
            at: self.now,
            total,
            asked: false,
        };
        let before = std::mem::replace(&mut self.stats_log, now);
        // Counts of databases that are forgotten are missing from the total; a difference below nothing is nothing.
        let mean = total
            .since(&before.total)
            .averages(self.now.saturating_sub(before.at));
        tracing::info!(
            "stats: {} xacts/s, {} queries/s, {} client parses/s, {} server parses/s, {} binds/s, in {} B/s, out {} B/s, \
             xact {} us, query {} us, wait {} us",
            mean.xact_count,
            mean.query_count,
            mean.client_parse_count,
            mean.server_parse_count,
            mean.bind_count,
            mean.received,
            mean.sent,
            mean.xact_time,
            mean.query_time,
            mean.wait_time
        );
    }
}
