//! Which cases arguments select.

use super::*;

#[test]
fn a_case_outside_the_representative_matrix_is_found_in_the_full_one() {
    let wanted = "string_4m_x_16m_hit5_t1";
    let args = JoinArgs {
        common: Common {
            case: vec![wanted.to_string()],
            ..Common::default()
        },
        threads: Threads { threads: vec![1] },
        ..JoinArgs::default()
    };
    let entries = entries(&args).expect("the case");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].tables.case_name(1), wanted);
}

#[test]
fn an_unknown_case_is_a_usage_error_that_names_some() {
    let args = JoinArgs {
        common: Common {
            case: vec!["triangle".to_owned()],
            ..Common::default()
        },
        ..JoinArgs::default()
    };
    let error = entries(&args).expect_err("no such case");
    assert!(error.is_usage());
    assert!(
        error.hint().is_some_and(|hint| hint.contains("sparse_10k")),
        "{:?}",
        error.hint()
    );
}
