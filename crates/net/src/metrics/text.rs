//! [`Text`]: metrics in the text format that Prometheus reads (version 0.0.4).
//!
//! Names begin with `corun_`, units are seconds and bytes, counters end in `_total`.

use std::fmt::{Display, Write};

use super::Histogram;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Histograms show these powers of two of microseconds: 64 µs to 67 s.
const POWERS: std::ops::RangeInclusive<u32> = 6..=26;

/// The labels of a sample with their values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Metrics, one after the other: for each a head, then its samples. Names are given without `corun_`.
#[derive(Debug, Clone, Default)]
pub struct Text(String);

impl Text {
    /// Begins a metric; `kind` is `gauge`, `counter` or `histogram`.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP corun_{name} {help}\n# TYPE corun_{name} {kind}");
    }

    /// A sample of the metric that was begun last.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        let _ = write!(self.0, "corun_{name}");
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"{}\"", escape(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A metric with one sample.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A metric with its samples; nothing where there are no rows.
    pub fn family<T>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        rows: impl IntoIterator<Item = T>,
        mut sample: impl FnMut(&mut Text, T),
    ) {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_some() {
            self.head(name, kind, help);
            rows.for_each(|row| sample(self, row));
        }
    }

    /// A counter of each value of a label.
    pub fn counts(&mut self, name: &str, help: &str, label: &str, counts: &[(impl AsRef<str>, u64)]) {
        self.family((name, "counter", help), counts, |text, (value, count)| {
            text.sample(name, &[(label, value.as_ref())], *count);
        });
    }

    /// The samples of a histogram of whole microseconds that are cut off: below 2^k means that the time was below it.
    pub fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        for power in POWERS {
            let le = seconds(1 << power).to_string();
            let labels = [labels, &[("le", le.as_str())][..]].concat();
            self.sample(&bucket, &labels, histogram.below_power(power));
        }
        let all = [labels, &[("le", "+Inf")][..]].concat();
        self.sample(&bucket, &all, histogram.count());
        self.sample(&format!("{name}_sum"), labels, seconds(histogram.sum()));
        self.sample(&format!("{name}_count"), labels, histogram.count());
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.0
    }
}

/// A label's value as the format wants it.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
