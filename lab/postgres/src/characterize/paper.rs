//! What paper 001 itself states, to be shown beside a run's own figures: W. M. Hassanein, L. K. Rashid, M. A. Hammad, "Analyzing the
//! Effects of Hyperthreading on the Performance of Data Management Systems" (2008).
//!
//! Only what its text and tables give; its figures were not digitised. None of it is ever a row: it was measured elsewhere, on the
//! machine [`MACHINE`] names, and much of it says by how much a figure changes with SMT, not what it is.
//!
//! Order of calls: [`stated`] for a figure, [`functions`] for the functions of a workload.

/// The machine and server of the paper (sections 3.1, 3.2).
pub const MACHINE: &str = "one Pentium 4 of 3.4 GHz with two hardware threads, a 12K-uop trace cache, 2 MB of L2 cache and no L3, 1 GB \
    of memory, PostgreSQL 8.1.3";

/// Latencies of its level-one cache, level-two cache and memory, in nanoseconds (section 3.1).
pub const LATENCIES_NS: [f64; 3] = [1.18, 8.26, 137.9];

/// Something the paper says of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    /// The case of the rows it stands beside.
    pub case: &'static str,
    /// Their metric.
    pub metric: &'static str,
    /// Their workload: `utpcc`, `uss` or `unj`.
    pub workload: &'static str,
    /// Their `component` or `kind`; empty where they have none.
    pub detail: &'static str,
    /// The number, where it is one that a run can be held against.
    pub value: Option<f64>,
    /// What is shown.
    pub text: &'static str,
    /// The section, with the figure or table.
    pub section: &'static str,
}

/// A statement without a number to be held against.
const fn said(
    (case, metric): (&'static str, &'static str),
    workload: &'static str,
    text: &'static str,
    section: &'static str,
) -> Stated {
    Stated {
        case,
        metric,
        workload,
        detail: "",
        value: None,
        text,
        section,
    }
}

/// A number.
const fn number(
    (case, metric): (&'static str, &'static str),
    workload: &'static str,
    (value, text): (f64, &'static str),
    section: &'static str,
) -> Stated {
    Stated {
        value: Some(value),
        ..said((case, metric), workload, text, section)
    }
}

/// A share of the instruction mix (Tables 1 and 2), in percent.
const fn mix(
    workload: &'static str,
    kind: &'static str,
    (value, text): (f64, &'static str),
    section: &'static str,
) -> Stated {
    Stated {
        detail: kind,
        ..number(("mix", "percent"), workload, (value, text), section)
    }
}

/// A stall component's place.
const fn stall(
    workload: &'static str,
    component: &'static str,
    text: &'static str,
    section: &'static str,
) -> Stated {
    Stated {
        detail: component,
        ..said(("stalls", "stall_cpi"), workload, text, section)
    }
}

const RATIO: (&str, &str) = ("speedup", "ratio");
const INSTRUCTIONS: (&str, &str) = ("distribution", "instructions");
const L1D: (&str, &str) = ("misses", "l1d_load_miss_percent");
const L2: (&str, &str) = ("misses", "l2_load_miss_percent");
const L1I: (&str, &str) = ("misses", "l1i_miss_percent");
const ITLB: (&str, &str) = ("misses", "itlb_miss_percent");
const DTLB: (&str, &str) = ("misses", "dtlb_miss_percent");
const BRANCH: (&str, &str) = ("misses", "branch_mispredict_percent");
const CPI: (&str, &str) = ("stalls", "cpi");
const CPI_NOT_HALTED: (&str, &str) = ("stalls", "cpi_not_halted");
const UOPS: (&str, &str) = ("stalls", "uops_per_instruction");

/// All statements.
pub const STATED: &[Stated] = &[
    number(RATIO, "utpcc", (1.16, "up to 1.16 by SMT"), "4.1, Fig. 3a"),
    number(
        RATIO,
        "uss",
        (1.10, "up to 1.10 by SMT; 3 % loss with one client"),
        "5.1, Fig. 8",
    ),
    number(RATIO, "unj", (1.26, "up to 1.26 by SMT"), "5.1, Fig. 8"),
    said(
        INSTRUCTIONS,
        "utpcc",
        "halves, except at 2 clients; P0 has more",
        "4.2, Fig. 3b",
    ),
    said(
        INSTRUCTIONS,
        "uss",
        "almost halves; 2 % more in all at most",
        "5.2, Fig. 9",
    ),
    said(
        INSTRUCTIONS,
        "unj",
        "almost halves; 4 % more in all at most",
        "5.2, Fig. 9",
    ),
    said(L1D, "utpcc", "3.5 to 5.4 % more with SMT", "4.3, Fig. 4a"),
    said(L1D, "uss", "2.3 to 3 % more with SMT", "5.3, Fig. 10"),
    said(L1D, "unj", "3.2 to 4.5 % more with SMT", "5.3, Fig. 10"),
    said(L2, "utpcc", "up to 66 % less with SMT", "4.3, Fig. 4b"),
    said(
        L2,
        "uss",
        "up to 19 % less with SMT, more with one client",
        "5.3, Fig. 11",
    ),
    said(L2, "unj", "up to 42 % less with SMT", "5.3, Fig. 11"),
    said(L1I, "utpcc", "more with SMT, small (trace cache)", "4.3, Fig. 5a"),
    said(L1I, "uss", "more with SMT, small (trace cache)", "5.3, Fig. 12"),
    said(
        L1I,
        "unj",
        "more with SMT, less so than uSS (trace cache)",
        "5.3, Fig. 12",
    ),
    said(ITLB, "utpcc", "less with SMT", "4.4, Fig. 5b"),
    said(ITLB, "uss", "less with SMT", "5.4, Fig. 14"),
    said(ITLB, "unj", "more with SMT", "5.4, Fig. 14"),
    said(DTLB, "utpcc", "more with SMT", "4.4, Fig. 6a"),
    said(DTLB, "uss", "more with SMT", "5.4, Fig. 13"),
    said(DTLB, "unj", "more with SMT", "5.4, Fig. 13"),
    said(BRANCH, "utpcc", "0.34 % more with SMT at most", "4.5, Fig. 6b"),
    said(BRANCH, "uss", "1.3 % more with SMT at most", "5.5, Fig. 15"),
    said(BRANCH, "unj", "1.3 % more with SMT at most", "5.5, Fig. 15"),
    number(CPI, "utpcc", (1.81, "1.81"), "4"),
    number(CPI, "uss", (1.55, "1.55"), "5"),
    number(CPI, "unj", (2.04, "2.04"), "5"),
    number(CPI_NOT_HALTED, "utpcc", (1.54, "1.54"), "4"),
    number(CPI_NOT_HALTED, "uss", (1.53, "1.53"), "5"),
    number(CPI_NOT_HALTED, "unj", (2.0, "2.0"), "5"),
    number(UOPS, "utpcc", (1.6, "1.6"), "4"),
    number(UOPS, "uss", (1.65, "1.65"), "5"),
    number(UOPS, "unj", (1.62, "1.62"), "5"),
    stall("utpcc", "l2", "largest; less with SMT", "4.6, Fig. 7a"),
    stall("utpcc", "l1d", "second", "4.6, Fig. 7a"),
    stall("utpcc", "dtlb", "small", "4.6, Fig. 7a"),
    stall("utpcc", "l1i", "small", "4.6, Fig. 7a"),
    stall("utpcc", "branch", "small", "4.6, Fig. 7a"),
    stall("utpcc", "itlb", "almost none", "4.6, Fig. 7a"),
    stall("uss", "l2", "largest; less with SMT", "5.6, Fig. 16"),
    stall("uss", "l1d", "second", "5.6, Fig. 16"),
    stall(
        "uss",
        "dtlb",
        "almost as L1-D; shared by threads with SMT",
        "5.6, Fig. 16",
    ),
    stall("uss", "l1i", "small", "5.6, Fig. 16"),
    stall("uss", "branch", "small", "5.6, Fig. 16"),
    stall("uss", "itlb", "almost none", "5.6, Fig. 16"),
    stall("unj", "l2", "largest; less with SMT", "5.6, Fig. 16"),
    stall("unj", "l1d", "second", "5.6, Fig. 16"),
    stall("unj", "dtlb", "small", "5.6, Fig. 16"),
    stall("unj", "l1i", "small", "5.6, Fig. 16"),
    stall("unj", "branch", "small", "5.6, Fig. 16"),
    stall("unj", "itlb", "almost none", "5.6, Fig. 16"),
    mix("utpcc", "load", (36.0, "36"), "4, Table 1"),
    mix("utpcc", "store", (21.0, "21"), "4, Table 1"),
    mix("utpcc", "branch", (18.0, "18"), "4, Table 1"),
    mix("utpcc", "other", (25.0, "25"), "4, Table 1"),
    mix("uss", "load", (40.0, "40"), "5, Table 2"),
    mix("uss", "store", (25.0, "25"), "5, Table 2"),
    mix("uss", "branch", (19.0, "19"), "5, Table 2"),
    mix("uss", "other", (16.0, "16"), "5, Table 2"),
    mix("unj", "load", (36.0, "36"), "5, Table 2"),
    mix("unj", "store", (24.0, "24"), "5, Table 2"),
    mix("unj", "branch", (18.0, "18"), "5, Table 2"),
    mix("unj", "other", (22.0, "22"), "5, Table 2"),
];

/// What the paper states of a figure; `detail` is the row's `component` or `kind`, empty where it has none.
pub fn stated(case: &str, metric: &str, workload: &str, detail: &str) -> Option<&'static Stated> {
    STATED.iter().find(|stated| {
        (stated.case, stated.metric, stated.workload, stated.detail) == (case, metric, workload, detail)
    })
}

/// A function among the most time-consuming ones (Figs. 7b, 17).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Function {
    /// As PostgreSQL 8.1 calls it.
    pub name: &'static str,
    /// What does its work in PostgreSQL of today, where that has another name; empty where it has not.
    pub today: &'static [&'static str],
    /// What the text says of it; empty where it only lists it.
    pub text: &'static str,
}

/// The functions of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Functions {
    /// `utpcc`, `uss` or `unj`.
    pub workload: &'static str,
    /// Their share of the execution time together, in percent, where the text gives it.
    pub together_percent: Option<f64>,
    /// The section and figure.
    pub section: &'static str,
    /// In the order of the text, which gives no ranks.
    pub functions: &'static [Function],
}

const fn function(name: &'static str, today: &'static [&'static str], text: &'static str) -> Function {
    Function { name, today, text }
}

const SNAPSHOT: &str = "HeapTupleSatisfiesSnapshot";
const MVCC: &[&str] = &["HeapTupleSatisfiesMVCC", "HeapTupleSatisfiesVisibility"];
const HASH: &[&str] = &["hash_search_with_hash_value"];
const GETTUP: &[&str] = &["heapgettup_pagemode", "heap_getnextslot"];
const EXPRESSION: &[&str] = &["ExecInterpExpr"];

/// The lists of Figs. 7b and 17.
pub const FUNCTIONS: [Functions; 3] = [
    Functions {
        workload: "utpcc",
        together_percent: None,
        section: "4.7, Fig. 7b",
        functions: &[
            function("hash_search", HASH, ""),
            function(
                "heap_release_fetch",
                &["heap_hot_search_buffer", "heap_fetch"],
                "72 % of L2 misses; 28 % fewer with SMT at 10 clients",
            ),
            function("LWLockAcquire", &[], "less time with SMT"),
            function("tbm_iterate", &["tbm_private_iterate"], ""),
            function("tbm_comparator", &[], ""),
            function(SNAPSHOT, MVCC, ""),
            function("PinBuffer", &[], ""),
        ],
    },
    Functions {
        workload: "uss",
        together_percent: Some(56.0),
        section: "5.7, Fig. 17a",
        functions: &[
            function(
                "comparetup_heap",
                &["comparetup_heap_tiebreak", "comparetup_datum"],
                "46 % of L2 misses, 43 % of DTLB misses, 14 % of the time with SMT at 10 clients",
            ),
            function("LWLockAcquire", &[], "less time with SMT"),
            function("LWLockRelease", &[], "less time with SMT"),
            function("ExecMakeFunctionResultNoSets", EXPRESSION, ""),
            function(
                "heapgettup",
                GETTUP,
                "8 % of the time with SMT at 10 clients, more than without",
            ),
            function("tuplesort_heap_siftup", &["tuplesort_heap_replace_top"], ""),
            function(SNAPSHOT, MVCC, "26 % of L2 misses; less time with SMT"),
            function(
                "slot_deform_tuple",
                &["slot_deform_heap_tuple"],
                "less time with SMT",
            ),
            function("ExecQual", EXPRESSION, ""),
        ],
    },
    Functions {
        workload: "unj",
        together_percent: Some(46.0),
        section: "5.8, Fig. 17b",
        functions: &[
            function(
                "_bt_compare",
                &[],
                "32 % of L2 misses; among the two that take most time; less with SMT",
            ),
            function(
                "LWLockAcquire",
                &[],
                "among the two that take most time; less with SMT",
            ),
            function("LWLockRelease", &[], "less time with SMT"),
            function("hash_search", HASH, ""),
            function("PinBuffer", &[], ""),
            function(SNAPSHOT, MVCC, "19 % of L2 misses; less time with SMT"),
            function("_bt_moveright", &[], ""),
            function(
                "heapgettup",
                GETTUP,
                "3.5 % of the time with SMT at 10 clients, more than without",
            ),
            function("FunctionCall2", &["FunctionCall2Coll"], ""),
        ],
    },
];

/// The functions of a workload.
pub fn functions(workload: &str) -> Option<&'static Functions> {
    FUNCTIONS.iter().find(|functions| functions.workload == workload)
}

impl Functions {
    /// The entry of a function by its name of then or of today. Compilers put suffixes behind names, such as `.part.0`.
    pub fn find(&self, name: &str) -> Option<&'static Function> {
        let name = name.split('.').next().unwrap_or(name);
        self.functions
            .iter()
            .find(|function| function.name == name || function.today.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_statement_stands_twice_and_each_has_its_section() {
        for (index, a) in STATED.iter().enumerate() {
            assert!(a.section.starts_with(['4', '5']), "{a:?}");
            assert!(["utpcc", "uss", "unj"].contains(&a.workload));
            assert_eq!(
                stated(a.case, a.metric, a.workload, a.detail),
                Some(a),
                "{index}: another has its key"
            );
            if let Some(value) = a.value {
                assert!(a.text.contains(&format!("{value}")), "{a:?}");
            }
        }
    }

    #[test]
    fn the_tables_add_up_as_the_text_says() {
        for (workload, memory) in [("utpcc", 57.0), ("uss", 65.0), ("unj", 60.0)] {
            let share = |kind| {
                stated("mix", "percent", workload, kind)
                    .and_then(|stated| stated.value)
                    .expect("a share")
            };
            let kinds = ["load", "store", "branch", "other"];
            assert_eq!(kinds.map(share).iter().sum::<f64>(), 100.0, "{workload}");
            assert_eq!(share("load") + share("store"), memory, "{workload}");
        }
    }

    #[test]
    fn functions_are_seven_nine_and_nine_and_found_under_names_of_today() {
        let counts = FUNCTIONS.map(|list| list.functions.len());
        assert_eq!(counts, [7, 9, 9]);
        let unj = functions("unj").expect("a list");
        assert_eq!(
            unj.find("FunctionCall2Coll").map(|function| function.name),
            Some("FunctionCall2")
        );
        assert_eq!(
            unj.find("_bt_compare.part.0").map(|function| function.name),
            Some("_bt_compare")
        );
        assert_eq!(unj.find("memcpy"), None);
        assert_eq!(functions("sql"), None);
    }
}
