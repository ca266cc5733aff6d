//! Lists of operations, teams, and what is counted.

use std::cell::RefCell;

use corun_exec::ctx;
use corun_exec::teams::{NextTeam, Operation, OperationStatistics, TeamOptions, operation, yield_now};

use super::{all, scheduler, team};

#[test]
fn a_team_has_at_most_so_many_members() {
    let mut scheduler = scheduler(TeamOptions {
        team_size_max: 2,
        ..Default::default()
    });
    let log = RefCell::new(String::new());
    scheduler.scope(|scope| {
        for name in ["a", "b", "c", "d", "e"] {
            let log = &log;
            scope.spawn(name, move || {
                operation(Operation(0));
                for step in 0..2 {
                    log.borrow_mut().push_str(&format!("{name}{step} "));
                    ctx!();
                }
            });
        }
    });
    assert_eq!(log.into_inner(), "a0 b0 a1 b1 c0 d0 c1 d1 e0 e1 ");
    assert_eq!(
        scheduler.statistics(),
        [OperationStatistics {
            operation: 0,
            teams: 3,
            in_: 5,
            out: 5,
            // Of a pair each switches at both points, as neither has left before the other's second; alone nobody does.
            ctx_calls: 4 + 4,
        }]
    );
    assert_eq!(scheduler.ready_average(), (5 + 3 + 1) as f64 / 3.0);
}

#[test]
fn statistics_are_those_of_a_schedule_by_hand() {
    let mut scheduler = team();
    let control = scheduler.control();
    scheduler.scope(|scope| {
        for name in ["a", "b", "c"] {
            scope.spawn(name, move || {
                operation(Operation(4)); // in 3
                ctx!(); // a b c: 3 switches
                if name == "b" {
                    yield_now(); // astray: 2 of 3 go out in their team
                }
                ctx!(); // a to b, which yields; c to a, which ends: 2 switches
                operation(Operation(2)); // a, c join; then b, the stray, may join before the team is chosen: in 3
                operation(Operation(4)); // in 3, out 3
            });
        }
    });
    let expected = |operation, teams, in_, out, ctx_calls| OperationStatistics {
        operation,
        teams,
        in_,
        out,
        ctx_calls,
    };
    assert_eq!(
        control.statistics(),
        [expected(2, 1, 3, 3, 0), expected(4, 2, 6, 5, 5)]
    );
    assert_eq!(scheduler.ready_average(), 3.0);
    let fetch = control.statistics()[1];
    assert_eq!((fetch.in_average(), fetch.out_average()), (3.0, 2.5));
    control.reset_statistics();
    assert_eq!(control.statistics(), []);
    assert_eq!(control.ready_average(), 0.0);
}

#[test]
fn merged_operations_share_a_team() {
    let mut scheduler = team();
    scheduler.merge(vec![0, 0]);
    let log = RefCell::new(String::new());
    let run = |scheduler: &mut corun_exec::teams::Scheduler| {
        scheduler.scope(|scope| {
            for number in 0..4_u16 {
                let log = &log;
                scope.spawn("one", move || {
                    operation(Operation(number % 2));
                    log.borrow_mut().push_str(&format!("{number}a "));
                    ctx!();
                    log.borrow_mut().push_str(&format!("{number}b "));
                });
            }
        });
        log.take()
    };
    assert_eq!(run(&mut scheduler), "0a 1a 2a 3a 0b 1b 2b 3b ");
    scheduler.merge(Vec::new());
    // The last to join wanted operation 1.
    assert_eq!(run(&mut scheduler), "1a 3a 1b 3b 0a 2a 0b 2b ");
}

/// Three operations: 0 with one member, 1 with three, 2 with two, joined in the order 0 1 1 1 2 2. Who runs first?
fn order_of(next_team: NextTeam) -> String {
    let mut scheduler = scheduler(TeamOptions {
        next_team,
        ..Default::default()
    });
    let log = RefCell::new(String::new());
    scheduler.scope(|scope| {
        for number in [0_u16, 1, 1, 1, 2, 2] {
            let log = &log;
            scope.spawn("one", move || {
                operation(Operation(number));
                log.borrow_mut().push_str(&number.to_string());
            });
        }
    });
    log.into_inner()
}

#[test]
fn policies_choose_the_next_team() {
    assert_eq!(order_of(NextTeam::LastMember), "221110");
    assert_eq!(order_of(NextTeam::Largest), "111220");
    assert_eq!(order_of(NextTeam::Oldest), "011122");
}

#[test]
fn no_list_starves_while_others_keep_the_last_member() {
    for next_team in [NextTeam::LastMember, NextTeam::Largest, NextTeam::Oldest] {
        let mut scheduler = scheduler(TeamOptions {
            next_team,
            ..Default::default()
        });
        let turns = RefCell::new(0_u32);
        let results = scheduler.scope(|scope| {
            let turns = &turns;
            scope.spawn("seldom", move || {
                operation(Operation(100));
                *turns.borrow()
            });
            for _ in 0..3 {
                scope.spawn("often", move || {
                    for number in 0..1000_u16 {
                        operation(Operation(number % 2));
                        *turns.borrow_mut() += 1;
                    }
                    0
                });
            }
        });
        let waited = all(results)[0];
        assert!(waited <= 3 * 70, "{next_team:?}: {waited}");
    }
}
