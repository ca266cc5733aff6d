//! Tenants as members of a team, with functions of SQLite's as CTX points: answers, and what one does to the others.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use corun_exec::teams::patch::{Entries, PatchError, Prefetch, patch};
use corun_exec::teams::{self, Lost, Operation, Scheduler, TeamOptions};
use libsqlite3_sys as ffi;
use steps_sqlite::run::{self, Answers, Marks};
use steps_sqlite::sqlite::SqliteError;
use steps_sqlite::tenant::{Kind, Oracle, Request, Tenant};

const CUSTOMERS: i64 = 200;
/// Functions all over SQLite: its interface, parser, planner, code generator, virtual machine, sorter, trees and pager.
const POINTS: [&str; 12] = [
    "sqlite3_step",
    "sqlite3VdbeExec",
    "sqlite3BtreeBeginTrans",
    "sqlite3BtreeTableMoveto",
    "sqlite3VdbeSorterWrite",
    "sqlite3RunParser",
    "sqlite3Select",
    "sqlite3WhereBegin",
    "sqlite3ExprCodeTarget",
    "sqlite3VdbeHalt",
    "sqlite3Malloc",
    "sqlite3PcacheRelease",
];

/// One test at a time: functions are patched for the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tenants(count: u32) -> Vec<Tenant> {
    (0..count)
        .map(|tenant| Tenant::open(tenant, CUSTOMERS).unwrap())
        .collect()
}

fn scheduler(team_size_max: usize) -> Scheduler {
    Scheduler::new(TeamOptions {
        team_size_max,
        ..TeamOptions::default()
    })
    .unwrap()
}

/// Requests of all kinds, in an order of its own for each tenant; now and then one that finds nothing.
fn mixed(tenants: u32, count: u32) -> Vec<Vec<Request>> {
    let of = |tenant: u32, number: u32| {
        let kind = Kind::ALL[((tenant * 7 + number * 5 + number / 3) % 3) as usize];
        let customers = if number.is_multiple_of(11) {
            50 * CUSTOMERS
        } else {
            CUSTOMERS
        };
        kind.request(tenant, number, customers)
    };
    (0..tenants)
        .map(|tenant| (0..count).map(|number| of(tenant, number)).collect())
        .collect()
}

/// What the oracle says, and the balances it ends with.
fn expected(tenant: u32, requests: &[Request]) -> (Answers, Vec<i64>) {
    let mut oracle = Oracle::new(tenant, CUSTOMERS);
    (
        requests.iter().map(|&request| Ok(oracle.run(request))).collect(),
        oracle.balances().to_vec(),
    )
}

#[test]
fn a_team_answers_as_a_serial_run_and_as_the_oracle() {
    let _alone = alone();
    let entries = Entries::of_this_process().unwrap();
    let requests = mixed(9, 60);
    let mut one_by_one = tenants(9);
    let serial = run::serial(&mut one_by_one, &requests, Marks::None);
    for team_size in [1, 4, 9] {
        // SAFETY: tests run one at a time; no other thread is in SQLite.
        let patched = unsafe { patch(&entries, &POINTS, Prefetch::Nothing) }.unwrap();
        let (mut tenants, mut scheduler) = (tenants(9), scheduler(team_size));
        let team = run::team(&mut scheduler, &mut tenants, &requests, Marks::None);
        patched.unpatch().unwrap();
        for (number, answers) in team.into_iter().enumerate() {
            let (answers, (right, balances)) = (answers.unwrap(), expected(number as u32, &requests[number]));
            assert_eq!(answers, right, "tenant {number}, teams of {team_size}");
            assert_eq!(answers, serial[number], "tenant {number}, teams of {team_size}");
            assert_eq!(tenants[number].balances().unwrap(), balances);
        }
        let switches: u64 = scheduler
            .control()
            .statistics()
            .iter()
            .map(|one| one.ctx_calls)
            .sum();
        assert_eq!(
            switches > 0,
            team_size > 1,
            "{switches} switches in teams of {team_size}"
        );
    }
}

#[test]
fn threads_with_teams_share_nothing_but_sqlite() {
    let _alone = alone();
    let entries = Entries::of_this_process().unwrap();
    // SAFETY: patched before the threads start, un-patched when they have ended; tests run one at a time.
    let patched = unsafe { patch(&entries, &POINTS, Prefetch::Nothing) }.unwrap();
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                // Databases are opened and closed while the other threads run: SQLite's own mutexes are contended.
                for round in 0..3 {
                    let (requests, mut tenants) = (mixed(5, 12 + round), tenants(5));
                    let team = run::team(&mut scheduler(5), &mut tenants, &requests, Marks::None);
                    for (number, answers) in team.into_iter().enumerate() {
                        assert_eq!(answers.unwrap(), expected(number as u32, &requests[number]).0);
                    }
                }
            });
        }
    });
    patched.unpatch().unwrap();
}

/// A function for SQL: its argument says how badly to behave.
unsafe extern "C" fn misbehave(
    context: *mut ffi::sqlite3_context,
    _: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    fn descend(depth: u64) -> u64 {
        let mut frame = [0_u8; 256];
        std::hint::black_box(&mut frame);
        if depth == 0 {
            0
        } else {
            descend(depth - 1) + u64::from(frame[3])
        }
    }
    // SAFETY: SQLite hands over a context and one value.
    unsafe {
        match ffi::sqlite3_value_int(*values) {
            0 => ffi::sqlite3_result_error(context, c"on purpose".as_ptr(), -1),
            _ => ffi::sqlite3_result_int64(context, descend(u64::MAX) as i64),
        }
    }
}

fn with_misbehaviour(tenant: &Tenant) {
    // SAFETY: an open connection, a C string, a function of that signature, nothing to destroy.
    let code = unsafe {
        ffi::sqlite3_create_function_v2(
            tenant.connection().as_ptr(),
            c"misbehave".as_ptr(),
            1,
            ffi::SQLITE_UTF8,
            std::ptr::null_mut::<c_void>(),
            Some(misbehave),
            None,
            None,
            None,
        )
    };
    assert_eq!(code, ffi::SQLITE_OK);
}

#[test]
fn errors_panics_and_overflows_of_a_tenant_harm_no_other() {
    let _alone = alone();
    let entries = Entries::of_this_process().unwrap();
    let (requests, mut tenants) = (mixed(6, 30), tenants(6));
    tenants.iter().for_each(with_misbehaviour);
    // SAFETY: tests run one at a time; no other thread is in SQLite.
    let patched = unsafe { patch(&entries, &POINTS, Prefetch::Nothing) }.unwrap();
    let mut scheduler = scheduler(6);
    let results = scheduler.scope(|scope| {
        for (number, (tenant, requests)) in tenants.iter_mut().zip(&requests).enumerate() {
            scope.spawn(format!("tenant {number}"), move || {
                let mut answers = Answers::new();
                for (at, &request) in requests.iter().enumerate() {
                    teams::operation(Operation(request.kind() as u16));
                    if at == 7 {
                        match number {
                            1 => panic!("the client of tenant 1"),
                            2 => tenant.connection().execute("SELECT misbehave(1) FROM customer").unwrap(),
                            3 => {
                                let error = tenant.connection().execute("UPDATE customer SET balance = misbehave(0)");
                                let message = "on purpose".to_string();
                                assert!(
                                    matches!(&error, Err(SqliteError::Refused { message: said, .. }) if *said == message),
                                    "{error:?}"
                                );
                                assert!(tenant.connection().execute("INSERT INTO item VALUES(1, 1)").is_err());
                                assert!(tenant.connection().prepare("SELECT nonsense").is_err());
                            }
                            _ => {}
                        }
                    }
                    answers.push(tenant.run(request));
                }
                answers
            });
        }
    });
    for (number, result) in results.into_iter().enumerate() {
        match (number, result) {
            (1, Err(Lost::Panicked(_))) | (2, Err(Lost::Overflowed { .. })) => {}
            (1 | 2, other) => panic!("tenant {number}: {other:?}"),
            (_, answers) => assert_eq!(answers.unwrap(), expected(number as u32, &requests[number]).0),
        }
    }
    // The panicked client's database is whole; what SQLite shares between databases works too.
    let (_, balances) = expected(1, &requests[1][..7]);
    assert_eq!(tenants[1].balances().unwrap(), balances);
    assert_eq!(Tenant::open(9, 5).unwrap().balances().unwrap().len(), 5);
    // The lost member will never give its connection's mutex back: its database must not be asked again, nor closed.
    std::mem::forget(tenants.remove(2));
    patched.unpatch().unwrap();
}

#[test]
fn too_little_stack_is_an_error_before_sqlite_is_entered() {
    let _alone = alone();
    let mut tenants = tenants(1);
    let mut scheduler = Scheduler::new(TeamOptions {
        stack_bytes: 32 << 10,
        ..TeamOptions::default()
    })
    .unwrap();
    let requests = run::requests(Kind::Join, 1, 0, 1, CUSTOMERS);
    let mut answers = run::team(&mut scheduler, &mut tenants, &requests, Marks::None)
        .remove(0)
        .unwrap();
    let error = answers.remove(0).unwrap_err();
    assert!(
        matches!(error, SqliteError::Stack { left, .. } if left < 64 << 10),
        "{error}"
    );
    assert!(error.to_string().contains("TeamOptions::stack_bytes"), "{error}");
}

#[test]
fn every_function_of_sqlite_has_a_patchable_entry_under_its_name() {
    let _alone = alone();
    let entries = Entries::of_this_process().unwrap();
    assert!(entries.as_slice().len() > 1000, "{}", entries.as_slice().len());
    for name in POINTS {
        assert!(entries.find(name).unwrap().names.contains(&name.to_string()));
    }
    let error = entries.find("sqlite3VdbeExek").unwrap_err();
    assert!(
        matches!(&error, PatchError::Unknown { nearest, .. } if nearest[0] == "sqlite3VdbeExec"),
        "{error}"
    );
}
