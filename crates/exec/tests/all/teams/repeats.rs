//! Members that stay in their team for further operations of it.

use std::cell::RefCell;

use corun_exec::teams::{Operation, TeamOptions, operation};

use super::{all, scheduler};

/// The order in which two members run six operations of one list.
fn order(repeats_max: u32) -> (String, u64) {
    let options = TeamOptions {
        repeats_max,
        ..TeamOptions::default()
    };
    let mut scheduler = scheduler(options);
    let log = RefCell::new(Vec::new());
    let ended = scheduler.scope(|scope| {
        for name in ["a", "b"] {
            let log = &log;
            scope.spawn(name, move || {
                for number in 1..=6 {
                    operation(Operation(0));
                    log.borrow_mut().push(format!("{name}{number}"));
                }
            });
        }
    });
    all(ended);
    let statistics = scheduler.statistics();
    (log.into_inner().join(" "), statistics[0].in_)
}

#[test]
fn a_member_stays_in_its_team_as_often_as_it_may() {
    assert_eq!(order(0), ("a1 b1 a2 b2 a3 b3 a4 b4 a5 b5 a6 b6".to_owned(), 12));
    // The last of a team waits for the others, so that it is not alone with what they could do together.
    assert_eq!(order(2), ("a1 a2 a3 b1 a4 a5 a6 b2 b3 b4 b5 b6".to_owned(), 8));
}
