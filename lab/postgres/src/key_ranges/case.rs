//! [`Case`]: which experiment, and with how many clients.

use lab_core::metric::parameters;
use lab_core::row::Value;

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// TPC-W's browsing mix (Figs. 7 and 8).
    Tpcw,
    /// Best Seller alone (Figs. 3 and 4).
    BestSeller,
    /// TPC-C.
    Tpcc,
    /// Point reads whose ranges fit a private cache.
    PointFit,
    /// Point reads of more than fits.
    PointLarge,
    /// Point reads of two copies whose memory holds half of the data each.
    ReplicasHalf,
    /// The same on disks as slow as a usual cloud volume.
    ReplicasHalfVolume,
    /// The same where everything fits.
    ReplicasFit,
}

impl Family {
    /// All of them, those that share a server side by side.
    pub const ALL: [Family; 8] = [
        Family::Tpcw,
        Family::BestSeller,
        Family::Tpcc,
        Family::PointFit,
        Family::PointLarge,
        Family::ReplicasHalf,
        Family::ReplicasHalfVolume,
        Family::ReplicasFit,
    ];

    /// Its name, and the parameters `figure` and `workload` of its rows.
    fn words(self) -> [&'static str; 3] {
        match self {
            Family::Tpcw => ["tpcw", "fig7_fig8", "tpcw_browsing"],
            Family::BestSeller => ["best_seller", "fig4", "best_seller"],
            Family::Tpcc => ["tpcc", "tpcc", "tpcc_standard"],
            Family::PointFit => ["point_fit", "ranges", "point_reads_fit"],
            Family::PointLarge => ["point_large", "ranges", "point_reads_large"],
            Family::ReplicasHalf => ["replicas_half", "replicas", "point_reads_half"],
            Family::ReplicasHalfVolume => ["replicas_volume", "replicas", "point_reads_half"],
            Family::ReplicasFit => ["replicas_fit", "replicas", "point_reads_whole"],
        }
    }

    /// What the paper says of it; never measured here.
    fn paper(self) -> Option<&'static str> {
        match self {
            Family::Tpcw => Some(
                "throughput over PostgreSQL: +12 % on 4 x Xeon E7-4860 (Fig. 7), +6 % on 4 x Opteron 6174 (Fig. 8); \
                 CARIC-DA-1 a little below PostgreSQL with fewer than 80 clients",
            ),
            _ => None,
        }
    }

    fn clients(self, quick: bool) -> &'static [usize] {
        match (self, quick) {
            (Family::BestSeller, _) => &[1],
            (Family::Tpcw | Family::Tpcc, false) => &[1, 2, 4, 8, 16, 32, 64],
            (Family::PointFit | Family::PointLarge, false) => &[1, 2, 8, 32],
            (Family::ReplicasHalf | Family::ReplicasHalfVolume | Family::ReplicasFit, false) => &[2, 8, 32],
            (_, true) => &[4],
        }
    }
}

/// A case of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The experiment.
    pub family: Family,
    /// How many clients there are.
    pub clients: usize,
}

impl Case {
    /// The name in rows, such as `tpcw_c8`.
    pub fn name(&self) -> String {
        format!("{}_c{}", self.family.words()[0], self.clients)
    }

    /// Parameters of all its rows.
    pub fn parameters(&self) -> Vec<(String, Value)> {
        let [_, figure, workload] = self.family.words();
        let mut all = vec![
            ("figure", Value::from(figure)),
            ("workload", Value::from(workload)),
            ("clients", Value::from(self.clients)),
            ("cores", Value::from(lab_core::suite::all_cores())),
        ];
        all.extend(self.family.paper().map(|paper| ("paper", Value::from(paper))));
        parameters(all)
    }
}

/// All cases; those of `--quick` have few clients.
pub fn cases(quick: bool) -> Vec<Case> {
    let of = |family: Family| {
        let clients = family.clients(quick).iter();
        clients.map(move |&clients| Case { family, clients })
    };
    Family::ALL.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_say_what_runs() {
        for quick in [false, true] {
            let mut names: Vec<String> = cases(quick).iter().map(Case::name).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
            for wanted in ["tpcw_c4", "best_seller_c1", "tpcc_c4"] {
                assert!(names.iter().any(|name| name == wanted), "{wanted}");
            }
        }
    }
}
