//! What `EXPLAIN (CORUN)` says about keys.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use super::dispatch::key_of;
use crate::core::classify::request::First;
use crate::core::event_loop::EventLoop;
use crate::understand::Understood;
use corun_wire::build;

impl<R: Reactor> EventLoop<R> {
    /// The key, and who has it.
    pub(in crate::core) fn explain_key(
        &mut self,
        index: usize,
        text: &str,
        understood: &Arc<Understood>,
    ) -> Vec<String> {
        let none = |why: &str| vec![format!("Key: none, {why}")];
        let Some(client) = self.clients.get(index) else {
            return Vec::new();
        };
        let database = Arc::clone(&client.database);
        let pool = client.pool;
        self.open_dispatcher(pool);
        let decide = self.keys_decide(pool);
        let Some(Some(dispatcher)) = self.ranges.dispatchers.get_mut(&database) else {
            return none("no [ranges.NAME] names this database");
        };
        let mut message = Vec::new();
        build::query(&mut message, text);
        let Some(client) = self.clients.get(index) else {
            return Vec::new();
        };
        let ranges = &mut dispatcher.ranges;
        let mut first = First::known(Some(Arc::clone(understood)));
        let Some(key) = key_of(ranges, client, &mut self.classifier, &mut first, &message) else {
            return none("no column of a range is compared with a value, or with all of them");
        };
        let domain = &ranges.shared.domains[key.domain];
        let cpu = self
            .ranges
            .cpus
            .get(key.worker)
            .map(|cpu| format!(" on CPU {}", cpu.0));
        let state = if decide {
            ""
        } else {
            ", which does not decide now (dispatch is off, or measured not to pay)"
        };
        vec![
            format!("Key: {} of range \"{}\"", key.span, domain.name),
            format!("Worker: {}{}{state}", key.worker, cpu.unwrap_or_default()),
        ]
    }
}
