//! What the proxy logs in this test program: kept, bounded, so that a failed test can show it and a test can look for secrets in it.

use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const LINES_MAX: usize = 10_000;

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

struct Keeper;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("corun_")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line(format!("{} {}:", metadata.level(), metadata.target()));
        event.record(&mut line);
        let mut lines = LINES.lock().unwrap_or_else(|broken| broken.into_inner());
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Keeps what is logged from now on.
pub fn keep() {
    static KEPT: OnceLock<()> = OnceLock::new();
    KEPT.get_or_init(|| {
        let _ = tracing::subscriber::set_global_default(Keeper);
    });
}

/// All lines kept, of all tests of the program.
pub fn all() -> String {
    let lines = LINES.lock().unwrap_or_else(|broken| broken.into_inner());
    lines.iter().map(|line| format!("{line}\n")).collect()
}
