//! Progress bars on stderr; nothing at all when stderr is not a terminal.

use std::sync::Mutex;
use std::time::Duration;

use corun_model::progress::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::out;

/// One bar at a time, replaced as work goes on.
#[derive(Default)]
pub struct Bars {
    current: Mutex<Option<ProgressBar>>,
}

impl Bars {
    /// No bar yet.
    pub fn new() -> Bars {
        Bars::default()
    }

    /// Runs `print` with the bar out of the way.
    pub fn suspend(&self, print: impl FnOnce()) {
        let bar = self.current.lock().ok().and_then(|current| current.clone());
        match bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Runs `change` on the current bar, if there is one. A bar is only decoration: a poisoned lock is ignored.
    fn with_current(&self, change: impl FnOnce(&mut Option<ProgressBar>)) {
        if let Ok(mut current) = self.current.lock() {
            change(&mut current);
        }
    }
}

/// A bar of known length, or a spinner when `total` is 0.
fn bar(what: &str, total: u64) -> ProgressBar {
    let (bar, template) = match total {
        0 => (ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}"),
        _ => (
            ProgressBar::new(total),
            "{msg} {wide_bar} {percent:>3}%  {elapsed} of about {duration}",
        ),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl Progress for Bars {
    fn begin(&self, what: &str, total: u64) {
        self.with_current(|current| {
            if let Some(old) = current.replace(bar(what, total)) {
                old.finish_and_clear();
            }
        });
    }

    fn advance(&self, steps: u64) {
        self.with_current(|current| {
            if let Some(bar) = current {
                bar.inc(steps);
            }
        });
    }

    fn note(&self, text: &str) {
        self.with_current(|current| match current {
            Some(bar) => bar.suspend(|| out::note(text)),
            None => out::note(text),
        });
    }

    fn end(&self) {
        self.with_current(|current| {
            if let Some(bar) = current.take() {
                bar.finish_and_clear();
            }
        });
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.end();
    }
}
