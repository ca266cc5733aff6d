//! [`Frame`]: what is shown of one moment: a sample, and what happened since the one before.

use corun_pooler::watch::{Rates, Sample};

use super::tables::{ALWAYS, summary, tables};
use crate::top::view::View;

/// One moment.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Where the console is.
    pub place: String,
    /// Its tables.
    pub sample: Sample,
    /// Since the sample before; empty where there was none.
    pub rates: Rates,
}

impl Frame {
    /// The moment of `later`, with rates since `earlier` of the same console.
    pub fn of(place: &str, later: Sample, earlier: Option<&Sample>) -> Self {
        Self {
            place: place.to_owned(),
            rates: earlier
                .map(|earlier| Rates::between(earlier, &later))
                .unwrap_or_default(),
            sample: later,
        }
    }

    /// As it is shown.
    pub fn view(&self) -> View {
        View {
            title: self.sample.version.clone(),
            summary: summary(self),
            grids: tables(self),
            always: ALWAYS,
        }
    }
}
