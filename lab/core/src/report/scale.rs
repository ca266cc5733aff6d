//! Axes: from data values to pixels, with ticks at numbers people know.
//!
//! A [`Scale`] widens the data's range to whole ticks, so the first and last mark never touch the frame.

use corun_cli::number;

/// How values spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// Equal differences are equal distances.
    Linear,
    /// Equal ratios are equal distances; values must be positive.
    Log,
}

/// One tick: where, and what to write there.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// The data value.
    pub value: f64,
    /// Its text.
    pub label: String,
}

/// A mapping from data values to pixels.
#[derive(Debug, Clone)]
pub struct Scale {
    spacing: Spacing,
    low: f64,
    high: f64,
    ticks: Vec<Tick>,
    pixel_low: f64,
    pixel_high: f64,
}

impl Scale {
    /// An axis that holds `low..=high` between two pixel positions (which may run downwards), with about
    /// `tick_count` ticks. An empty, reversed or non-finite range becomes `0..1` (`1..10` when logarithmic).
    pub fn new(spacing: Spacing, (low, high): (f64, f64), pixels: (f64, f64), tick_count: usize) -> Scale {
        let tick_count = tick_count.max(2);
        let steps = match spacing {
            Spacing::Linear => linear_ticks(low, high, tick_count),
            Spacing::Log => log_steps(low, high),
        };
        let (first, last) = (steps[0], steps[steps.len() - 1]);
        let values = match spacing {
            Spacing::Log if steps.len() > tick_count.max(3) * 3 / 2 => sparse_log_ticks(&steps, tick_count),
            _ => steps,
        };
        Scale {
            spacing,
            low: first,
            high: last,
            ticks: values
                .into_iter()
                .map(|value| Tick {
                    value,
                    label: number::short(value),
                })
                .collect(),
            pixel_low: pixels.0,
            pixel_high: pixels.1,
        }
    }

    /// The pixel position of `value`, clamped to the axis.
    pub fn position(&self, value: f64) -> f64 {
        let share = match self.spacing {
            Spacing::Linear => (value - self.low) / (self.high - self.low),
            Spacing::Log => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.pixel_low + share.clamp(0.0, 1.0) * (self.pixel_high - self.pixel_low)
    }

    /// The ticks, ascending; at least two.
    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }
}

/// Multiples of 1, 2 or 5 times a power of ten that cover `low..=high`.
fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (low, high) = if low.is_finite() && high.is_finite() && low < high {
        (low, high)
    } else {
        (0.0, 1.0)
    };
    let raw_step = (high - low) / count as f64;
    let power = 10f64.powf(raw_step.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw_step * 0.999_999)
        .unwrap_or(10.0 * power);
    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil();
    let steps = (last - first).max(1.0) as usize;
    (0..=steps).map(|i| (first + i as f64) * step).collect()
}

/// The numbers 1, 2 and 5 times powers of ten from just below `low` to just above `high`.
fn log_steps(low: f64, high: f64) -> Vec<f64> {
    let valid = low.is_finite() && high.is_finite() && low > 0.0 && low <= high;
    let (low, high) = if valid { (low, high) } else { (1.0, 10.0) };
    let decades = low.log10().floor() as i32..=high.log10().floor() as i32 + 1;
    let all: Vec<f64> = decades
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(decade)))
        .collect();
    let first = all.iter().rposition(|step| *step <= low * 1.000_001).unwrap_or(0);
    let last = all
        .iter()
        .position(|step| *step >= high * 0.999_999)
        .unwrap_or(all.len() - 1);
    all[first..=last.max(first + 1).min(all.len() - 1)].to_vec()
}

/// The powers of ten among `steps`, every n-th where they are many; every n-th step when that leaves fewer than two.
fn sparse_log_ticks(steps: &[f64], count: usize) -> Vec<f64> {
    let is_power = |step: f64| (step.log10() - step.log10().round()).abs() < 1e-9;
    let powers: Vec<f64> = steps.iter().copied().filter(|step| is_power(*step)).collect();
    if powers.len() < 2 {
        return steps
            .iter()
            .copied()
            .step_by(steps.len().div_ceil(count.max(2)))
            .collect();
    }
    powers
        .iter()
        .copied()
        .step_by(powers.len().div_ceil(count * 2))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(scale: &Scale) -> Vec<f64> {
        scale.ticks().iter().map(|tick| tick.value).collect()
    }

    #[test]
    fn linear_axes_cover_the_data_with_round_ticks() {
        let scale = Scale::new(Spacing::Linear, (0.0, 97.0), (0.0, 500.0), 5);
        assert_eq!(values(&scale), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(scale.position(0.0), 0.0);
        assert_eq!(scale.position(50.0), 250.0);
        assert_eq!(scale.position(1000.0), 500.0, "clamped");
    }

    #[test]
    fn axes_may_run_downwards() {
        let scale = Scale::new(Spacing::Linear, (0.0, 10.0), (200.0, 0.0), 5);
        assert_eq!(scale.position(10.0), 0.0);
        assert_eq!(scale.position(0.0), 200.0);
    }

    #[test]
    fn log_axes_put_equal_ratios_at_equal_distances() {
        let scale = Scale::new(Spacing::Log, (1.0, 1000.0), (0.0, 300.0), 3);
        assert!((scale.position(10.0) - 100.0).abs() < 1e-9);
        assert!((scale.position(100.0) - 200.0).abs() < 1e-9);
        assert_eq!(values(&scale), [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn log_axes_of_one_decade_use_two_and_five() {
        let scale = Scale::new(Spacing::Log, (1.5, 8.0), (0.0, 1.0), 6);
        assert_eq!(values(&scale), [1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn log_axes_of_many_decades_name_powers_of_ten_only() {
        let scale = Scale::new(Spacing::Log, (0.03, 700.0), (0.0, 1.0), 4);
        assert_eq!(values(&scale), [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(
            (scale.position(0.02), scale.position(1000.0)),
            (0.0, 1.0),
            "the ends are 0.02 and 1000"
        );
        assert!(scale.position(0.03) > 0.0 && scale.position(700.0) < 1.0);
    }

    #[test]
    fn degenerate_ranges_still_give_an_axis() {
        for spacing in [Spacing::Linear, Spacing::Log] {
            for range in [
                (0.0, 0.0),
                (5.0, 5.0),
                (f64::NAN, 1.0),
                (3.0, -3.0),
                (f64::INFINITY, f64::NEG_INFINITY),
            ] {
                let scale = Scale::new(spacing, range, (0.0, 100.0), 4);
                assert!(scale.ticks().len() >= 2, "{spacing:?} {range:?}");
                assert!(scale.position(2.0).is_finite(), "{spacing:?} {range:?}");
            }
        }
    }
}
