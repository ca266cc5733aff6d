//! What `EXPLAIN (CORUN)` says about queries in parts.

use corun_net::reactor::Reactor;

use crate::core::event_loop::EventLoop;
use crate::split::plan;
use crate::understand::Understood;

impl<R: Reactor> EventLoop<R> {
    /// Whether it runs in parts.
    pub(in crate::core) fn explain_split(
        &mut self,
        index: usize,
        text: &str,
        understood: &Understood,
    ) -> String {
        let Some(client) = self.clients.get(index) else {
            return String::new();
        };
        let Some(rule) = self.splits.find(&client.database, understood.shape) else {
            return "Split: no [splits.NAME] names this query".to_owned();
        };
        let rule = &self.splits.rules[rule];
        let parts = match plan(text, &rule.key) {
            Err(refusal) => return format!("Split: \"{}\", but it runs whole: {refusal}", rule.name),
            Ok(_) if !rule.why.is_empty() => {
                return format!("Split: \"{}\", but it ran whole lately: {}", rule.name, rule.why);
            }
            Ok(_) => rule.history.settled(),
        };
        let took = |parts: usize| match rule.history.time_us(parts) {
            Some(time) => format!("{:.1} ms", time / 1000.0),
            None => "not measured yet".to_owned(),
        };
        let mut line = format!(
            "Split: \"{}\" by {}.{}, whole {}",
            rule.name,
            rule.key.table,
            rule.key.column,
            took(1)
        );
        if parts > 1 {
            line.push_str(&format!(", in {parts} parts {}", took(parts)));
        }
        line.push_str(&format!(
            "; ran in parts {} times, whole {} times",
            rule.split, rule.whole
        ));
        line
    }
}
