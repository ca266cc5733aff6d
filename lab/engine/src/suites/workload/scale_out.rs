//! How throughput would grow with machines and data: a model of what was measured on a few processes, and rows that are labelled as simulated.
//!
//! ```text
//!   n machines, g times the data, statements enough to keep all of them busy; per statement
//!     workers      g * work + n * work_per_worker                                  processor time of all
//!     exchange     g * (shuffled * (n-1)/n + broadcast * (n-1))                     bytes: parts of rows, and whole tables, to the others
//!     coordinator  coordination + n * coordination_per_worker                       processor time
//!   rate = the least of   n * cores / workers,   n * bandwidth / exchange,   cores / coordinator
//! ```
//!
//! What the model leaves out: disks, skew between machines, switches that all machines share, and machines that fail.

use super::costs::Costs;
use super::{CORUN, DATAFUSION, Workload};
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::Spread;

/// What a statement cost on so many processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) workers: f64,
    pub(super) workers_cpu_ms: f64,
    pub(super) coordinator_cpu_ms: f64,
    pub(super) exchanged_bytes: f64,
}

/// Cores of each modelled machine.
const CORES: f64 = 8.0;
/// Bytes a second that each may send: 10 gigabits.
const BANDWIDTH: f64 = 1.25e9;
/// Machines that are modelled.
const MACHINES: [f64; 2] = [10.0, 100.0];

/// Costs of a statement as functions of the number of machines.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    work: f64,
    work_per_worker: f64,
    shuffled: f64,
    broadcast: f64,
    coordination: f64,
    coordination_per_worker: f64,
}

impl Model {
    /// The model nearest to what was measured on two processes or more; `None` where that are fewer than two points.
    fn of(points: &[Point]) -> Option<Model> {
        let cut: Vec<&Point> = points.iter().filter(|point| point.workers > 1.0).collect();
        if cut.len() < 2 {
            return None;
        }
        let fitted = |terms: fn(f64) -> [f64; 2], cost: fn(&Point) -> f64| {
            let rows: Vec<Measured> = cut
                .iter()
                .map(|point| (terms(point.workers), cost(point)))
                .collect();
            least_squares(&rows)
        };
        let [work, work_per_worker] = fitted(|n| [1.0, n], |point| point.workers_cpu_ms);
        let [coordination, coordination_per_worker] = fitted(|n| [1.0, n], |point| point.coordinator_cpu_ms);
        let [shuffled, broadcast] = fitted(|n| [(n - 1.0) / n, n - 1.0], |point| point.exchanged_bytes);
        Some(Model {
            work,
            work_per_worker,
            shuffled,
            broadcast,
            coordination,
            coordination_per_worker,
        })
    }

    /// Costs of a statement on `machines`, over `data` times as much as was measured.
    fn costs(&self, machines: f64, data: f64) -> Point {
        let others = machines - 1.0;
        Point {
            workers: machines,
            workers_cpu_ms: data * self.work + machines * self.work_per_worker,
            coordinator_cpu_ms: self.coordination + machines * self.coordination_per_worker,
            exchanged_bytes: data * (self.shuffled * others / machines + self.broadcast * others),
        }
    }

    /// By how much the model misses what was measured at most, as a part of it.
    fn error(&self, points: &[Point]) -> f64 {
        let cut = points.iter().filter(|point| point.workers > 1.0);
        let errors = cut.map(|point| {
            let told = self.costs(point.workers, 1.0);
            let part = |told: f64, measured: f64| (told - measured).abs() / measured.max(f64::MIN_POSITIVE);
            part(told.workers_cpu_ms, point.workers_cpu_ms)
                .max(part(told.exchanged_bytes, point.exchanged_bytes))
        });
        errors.fold(0.0, f64::max)
    }
}

/// Statements a second, and what keeps them from being more.
fn rate(costs: &Point) -> (f64, &'static str) {
    let machines = costs.workers;
    let limits = [
        (machines * CORES * 1e3 / costs.workers_cpu_ms, "workers"),
        (machines * BANDWIDTH / costs.exchanged_bytes, "network"),
        (CORES * 1e3 / costs.coordinator_cpu_ms, "coordinator"),
    ];
    let least = limits.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
    least.unwrap_or((f64::INFINITY, "nothing"))
}

/// Two terms and the value that was measured with them.
type Measured = ([f64; 2], f64);

/// The coefficients of two terms, none below zero, that are nearest to the values.
fn least_squares(rows: &[Measured]) -> [f64; 2] {
    let sum = |of: &dyn Fn(&Measured) -> f64| rows.iter().map(of).sum::<f64>();
    let [aa, ab, bb] = [
        sum(&|(terms, _)| terms[0] * terms[0]),
        sum(&|(terms, _)| terms[0] * terms[1]),
        sum(&|(terms, _)| terms[1] * terms[1]),
    ];
    let [ay, by] = [
        sum(&|(terms, value)| terms[0] * value),
        sum(&|(terms, value)| terms[1] * value),
    ];
    let determinant = aa * bb - ab * ab;
    let [a, b] = [
        (ay * bb - by * ab) / determinant,
        (by * aa - ay * ab) / determinant,
    ];
    match (a < 0.0, b < 0.0) {
        (false, false) => [a, b],
        (true, _) => [0.0, (by / bb).max(0.0)],
        (false, true) => [(ay / aa).max(0.0), 0.0],
    }
}

/// Emits rows `queries_per_second` of 10 and of 100 machines, over the same data and over data that grows alike; none where fewer than two
/// numbers of workers were measured.
pub(super) fn emit(
    workload: &Workload,
    scale_factor: f64,
    partitions: usize,
    measured: &[Costs],
    runner: &mut Runner<'_>,
) {
    for side in [CORUN, DATAFUSION] {
        let of_side = measured.iter().flatten().filter(|(name, _)| *name == side);
        let points: Vec<Point> = of_side.map(|(_, point)| *point).collect();
        let Some(model) = Model::of(&points) else { continue };
        for machines in MACHINES {
            for data in [1.0, machines] {
                let (rate, limit) = rate(&model.costs(machines, data));
                let case = format!("scale_out_sf{scale_factor}_p{partitions}_m{machines}_data{data}");
                let (suite, spread) = (workload.suite.name(), Spread::one(rate));
                let row = Row::simulated(suite, &case, "queries_per_second", "1/s", spread, true)
                    .with("engine", side)
                    .with("scale_factor", scale_factor)
                    .with("machines", machines)
                    .with("data", data)
                    .with("limited_by", limit)
                    .with("cores", CORES)
                    .with("bandwidth_bytes", BANDWIDTH)
                    .with("model_error", model.error(&points));
                runner.emit(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        Model {
            work: 900.0,
            work_per_worker: 10.0,
            shuffled: 4e6,
            broadcast: 1e6,
            coordination: 5.0,
            coordination_per_worker: 1.0,
        }
    }

    #[test]
    fn what_a_model_tells_gives_the_model_again() {
        let points = [2.0, 4.0, 8.0].map(|workers| model().costs(workers, 1.0));
        let fitted = Model::of(&points).expect("three points");
        for (fitted, known) in [
            (fitted.work, 900.0),
            (fitted.work_per_worker, 10.0),
            (fitted.shuffled, 4e6),
            (fitted.broadcast, 1e6),
            (fitted.coordination, 5.0),
            (fitted.coordination_per_worker, 1.0),
        ] {
            assert!((fitted - known).abs() < known * 1e-6, "{fitted} {known}");
        }
        assert!(fitted.error(&points) < 1e-6);
        assert!(Model::of(&points[..1]).is_none());
        // On one nothing is cut.
        assert!(Model::of(&[model().costs(1.0, 1.0), points[0]]).is_none());
    }

    #[test]
    fn nothing_costs_less_than_nothing() {
        assert_eq!(
            least_squares(&[([1.0, 2.0], 10.0), ([1.0, 4.0], 6.0)]),
            [8.0, 0.0]
        );
        let [a, b] = least_squares(&[([1.0, 2.0], 1.0), ([1.0, 4.0], 4.0)]);
        assert!(a == 0.0 && (b - 0.9).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn the_scarcest_decides() {
        // 1000 ms of ten machines' 80 cores; 15 ms of the coordinator's 8.
        let (of_workers, limit) = rate(&model().costs(10.0, 1.0));
        assert!(
            limit == "workers" && (of_workers - 80.0).abs() < 1e-9,
            "{of_workers} {limit}"
        );
        // Whole tables, and large ones, to 99 others.
        let wide = Model {
            broadcast: 5e6,
            ..model()
        };
        let (of_network, limit) = rate(&wide.costs(100.0, 100.0));
        assert_eq!(limit, "network");
        let bytes = 100.0 * (4e6 * 0.99 + 5e6 * 99.0);
        assert!(
            (of_network - 100.0 * BANDWIDTH / bytes).abs() < 1e-9,
            "{of_network}"
        );
        let free = Point {
            workers: 1.0,
            ..Point::default()
        };
        assert_eq!(rate(&free).0, f64::INFINITY);
    }
}
