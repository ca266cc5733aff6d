//! Rows of probes, their schedule, and what loops see of a fleet; servers are played by hand.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corun_model::pooler::replicas::split::{Ask, Defaults, Form, Place, ReadYourWrites, Rules, Session};
use corun_model::pooler::replicas::{Choice, Lsn, Role, Want};
use proptest::prelude::*;

use super::probe::{Level, read_row};
use super::{Hosts, Order, Pace, ProbeError, Report, Row, Settings, ask};
use crate::understand::{Limits, Understanding};

const READ: Want = Want::Read { min_lsn: None };

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A row of words, of which `-` is NULL.
fn row(words: &'static str) -> Vec<Option<&'static [u8]>> {
    let value = |word: &'static str| (word != "-").then_some(word.as_bytes());
    words.split(' ').map(value).collect()
}

const PRIMARY: &str = "f 0/3000060 - 1700000000.25 - 000000020000000000000003 - 1 -5 - 8192 16777216";
const REPLICA: &str = "t 0/3000028 0/3000060 1700000000.25 1699999999.75 - 2 1 -5 f 8192 16777216";
const CAUGHT_UP: &str = "t 0/3000060 0/3000060 1700000000.25 1699999999.75 - 2 1 -5 f 8192 16777216";

#[test]
fn rows_say_what_the_server_is() {
    let primary = read_row(&row(PRIMARY), ms(7)).expect("a row");
    assert!(!primary.in_recovery && !primary.paused);
    assert_eq!(primary.sent, ms(7));
    assert_eq!(primary.lsn, Some(Lsn(0x300_0060)));
    assert_eq!(
        primary.timeline,
        Some(2),
        "of the file, not of the last checkpoint"
    );
    assert_eq!(primary.system, Some(u64::MAX - 4));

    let replica = read_row(&row(REPLICA), ms(7)).expect("a row");
    assert!(replica.in_recovery);
    assert_eq!(
        replica.lsn,
        Some(Lsn(0x300_0000)),
        "behind the header of an empty file"
    );
    assert_eq!(replica.received, Some(Lsn(0x300_0060)));
    assert_eq!(replica.replay_age, Some(ms(500)));
    assert_eq!(replica.timeline, Some(2));

    let mut away = row(REPLICA);
    (away[2], away[4], away[6]) = (None, None, None);
    let away = read_row(&away, ms(7)).expect("a row");
    assert_eq!(
        (away.received, away.replay_age, away.timeline),
        (None, None, Some(1))
    );

    let role_only = read_row(&row("t - - - - - - - - - - -"), ms(7)).expect("a row");
    assert_eq!(
        (role_only.in_recovery, role_only.lsn, role_only.timeline),
        (true, None, None)
    );
}

#[test]
fn rows_of_something_else_are_named() {
    assert_eq!(
        read_row(&[], ms(0)),
        Err(ProbeError::Columns {
            found: 0,
            expected: 12
        })
    );
    for (column, value) in [
        (0, None),
        (0, Some("yes")),
        (1, Some("3")),
        (5, Some("2")),
        (11, Some("-1")),
        (8, Some("x")),
    ] {
        let mut row = row(PRIMARY);
        row[column] = value.map(str::as_bytes);
        let error = read_row(&row, ms(0)).expect_err("wrong");
        let expected = ProbeError::Value {
            column: column + 1,
            value: value.unwrap_or("NULL").to_owned(),
        };
        assert_eq!(error, expected);
    }
    assert!(read_row(&[Some(&b"\xff"[..]); 12], ms(0)).is_err());
}

fn refused() -> ProbeError {
    ProbeError::Connection("refused".to_owned())
}

fn settings() -> Settings {
    let fleet = corun_model::pooler::replicas::Settings {
        failures_before_ban: 2,
        ban_time: ms(1000),
        primary_wait_max: ms(5000),
        ..corun_model::pooler::replicas::Settings::default()
    };
    Settings {
        fleet,
        pace: Pace {
            interval: ms(1000),
            timeout: ms(2000),
        },
    }
}

fn hosts(count: usize) -> Arc<Hosts> {
    let names = (0..count).map(|i| format!("host{i}")).collect();
    Hosts::new("shop", names, &[], &settings(), ms(0))
}

/// Why the last probe of a host failed.
fn error_of(hosts: &Hosts, host: usize) -> String {
    hosts.status()[host].error.clone().unwrap_or_default()
}

fn orders(hosts: &Hosts, now: u64) -> Vec<Order> {
    std::iter::from_fn(|| hosts.next_probe(ms(now), 0)).collect()
}

/// Probes what is due; the host `primary` answers so, others as replicas, those in `down` not at all.
fn round(hosts: &Hosts, now: u64, primary: usize, down: &[usize]) {
    for order in orders(hosts, now) {
        let row = row(if order.host == primary { PRIMARY } else { CAUGHT_UP });
        let outcome = if down.contains(&order.host) {
            Err(refused())
        } else {
            Ok(&row[..])
        };
        hosts.probed(&order, outcome, ms(now), 0);
    }
}

#[test]
fn each_probe_is_given_out_once_and_again_after_its_answer() {
    let hosts = hosts(2);
    let first = orders(&hosts, 0);
    assert_eq!(first.iter().map(|order| order.host).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(orders(&hosts, 1900), []);
    hosts.probed(&first[0], Ok(&row(PRIMARY)), ms(100), 0);
    assert_eq!(hosts.fleet().primary(), Some(0));
    assert_eq!(
        hosts.wake_at(),
        Some(ms(100) + ms(1000) / 4 - ms(1000) / 4 / 8),
        "there was no primary yet"
    );
    let again = orders(&hosts, 400);
    assert_eq!(again.iter().map(|order| order.host).collect::<Vec<_>>(), [0]);
    hosts.probed(&again[0], Ok(&row(PRIMARY)), ms(400), 0);
    assert_eq!(orders(&hosts, 1274), []);
    assert_eq!(orders(&hosts, 1275).len(), 1);
    // The answer that was missing comes after its time.
    assert_eq!(
        orders(&hosts, 2000).len(),
        0,
        "it failed just now, and is due again later"
    );
    assert!(error_of(&hosts, 1).contains("2s"));
    hosts.probed(&first[1], Ok(&row(CAUGHT_UP)), ms(2001), 0);
    assert_eq!(hosts.status()[1].role, Role::Unknown);
}

#[test]
fn a_single_host_is_not_probed() {
    let hosts = hosts(1);
    assert_eq!(hosts.wake_at(), None);
    assert_eq!(orders(&hosts, 100_000), []);
    hosts.report(0, Report::Refused, ms(1));
    assert_eq!(hosts.view().route(Want::Write, ms(1), &[]), Choice::Host(0));
}

#[test]
fn views_see_what_changed_and_listeners_hear_of_primaries() {
    let hosts = hosts(3);
    let changes = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&changes);
    hosts.on_primary_change(Box::new(move || {
        heard.fetch_add(1, Ordering::Relaxed);
    }));
    let mut view = hosts.view();
    assert!(matches!(
        view.route(Want::Write, ms(0), &[]),
        Choice::WaitForPrimary(_)
    ));
    round(&hosts, 0, 0, &[]);
    assert_eq!(view.route(Want::Write, ms(1), &[]), Choice::Host(0));
    let reads: BTreeSet<_> = (0..4)
        .map(|_| format!("{:?}", view.route(READ, ms(1), &[])))
        .collect();
    assert_eq!(reads.len(), 2, "equals take turns: {reads:?}");
    assert_eq!(changes.load(Ordering::Relaxed), 1);
    round(&hosts, 1500, 0, &[]);
    assert_eq!(changes.load(Ordering::Relaxed), 1);
    // A pool cannot connect: the host is probed before its time, and it is lost after two failures.
    hosts.report(0, Report::Refused, ms(1600));
    assert_eq!(orders(&hosts, 1599), []);
    round(&hosts, 1600, 1, &[0]);
    assert_eq!(changes.load(Ordering::Relaxed), 2);
    assert!(matches!(
        view.route(Want::Write, ms(1601), &[]),
        Choice::WaitForPrimary(_)
    ));
    // All hosts are asked at once, so a promotion is found soon.
    round(&hosts, 1601, 1, &[0]);
    assert_eq!(view.route(Want::Write, ms(1602), &[]), Choice::Host(1));
    assert_eq!(changes.load(Ordering::Relaxed), 3);
    let status = hosts.status();
    assert!(status[1].primary && status[0].role == Role::Down && status[2].role == Role::Replica);
    assert!(error_of(&hosts, 0).contains("refused"));
}

#[test]
fn suspects_are_probed_at_once_but_not_banned_and_not_without_pause() {
    let hosts = hosts(2);
    round(&hosts, 0, 0, &[]);
    for _ in 0..50 {
        hosts.report(0, Report::Suspect, ms(50));
    }
    assert_eq!(
        orders(&hosts, 50),
        [],
        "asked less than a tenth of the interval ago"
    );
    let order = orders(&hosts, 100);
    assert_eq!(order.len(), 1);
    hosts.probed(&order[0], Ok(&row(PRIMARY)), ms(100), 0);
    assert_eq!(hosts.fleet().primary(), Some(0));
}

#[test]
fn a_host_that_refuses_is_asked_less() {
    let hosts = hosts(2);
    let denied = || ProbeError::Server {
        sqlstate: "42501".to_owned(),
        message: "permission denied".to_owned(),
    };
    for expected in [Level::Full, Level::Log, Level::Role] {
        let due = orders(&hosts, 10);
        let order = due.iter().find(|order| order.host == 0).expect("due at once");
        assert_eq!(order.level, expected);
        hosts.probed(order, Err(denied()), ms(10), 0);
        assert!(!hosts.fleet().hosts()[0].is_banned());
    }
    assert_eq!(
        orders(&hosts, 11),
        [],
        "the least was refused too: that is a failure"
    );
    assert_eq!(hosts.fleet().hosts()[0].failures(), 1);
    let overloaded = ProbeError::Server {
        sqlstate: "53300".to_owned(),
        message: "too many".to_owned(),
    };
    assert_eq!(Level::Full.after(&overloaded), None);
    assert_eq!(Level::Full.after(&refused()), None);
}

#[test]
fn texts_are_read_for_the_split() {
    let mut understanding = Understanding::new(Limits::default());
    let mut check = |text: &str, expected: Place| {
        let text_of = understanding.of(text.as_bytes());
        let ask = Ask {
            statement: ask::statement(&text_of),
            form: Form::Simple,
            hint: text_of.hint,
            defaults: Defaults::default(),
        };
        let rules = Rules {
            split: true,
            read_your_writes: ReadYourWrites::Log,
        };
        assert_eq!(Session::new().decide(&rules, &ask), expected, "{text}");
    };
    for text in [
        "select * from t where a = 1",
        "with c as (select 1) select * from c",
        "begin read only",
        "start transaction isolation level repeatable read, read only",
        "/* corun: replica */ select f()",
    ] {
        check(text, Place::Replica);
    }
    for text in [
        "insert into t values (1)",
        "select * from t for update",
        "with c as (delete from t returning *) select * from c",
        "select f()",
        "select nextval('s')",
        "select pg_advisory_lock(1)",
        "begin",
        "begin isolation level serializable read only",
        "select 1; select 2",
        "copy t to stdout",
        "copy t from stdin",
        "set work_mem = '1MB'",
        "listen c",
        "create temp table x (a int)",
        "this is not sql",
        "commit",
        "",
        "/* corun: primary */ select 1",
    ] {
        check(text, Place::Primary);
    }
}

proptest! {
    /// Whatever bytes a server sends: a probe or an error, never a panic.
    #[test]
    fn any_row_is_read_or_refused(row in proptest::collection::vec(proptest::option::of(".{0,30}"), 0..14)) {
        let row: Vec<Option<&[u8]>> = row.iter().map(|column| column.as_deref().map(str::as_bytes)).collect();
        let row: &Row<'_> = &row;
        prop_assert!(read_row(row, ms(0)).is_err() || row.len() == 12);
    }

    /// In any order of answers, timeouts and reports, every host is asked again and again, and never twice at once.
    #[test]
    fn every_host_is_asked_for_ever(random in proptest::collection::vec(any::<u64>(), 200)) {
        let hosts = hosts(3);
        let mut open: Vec<Order> = Vec::new();
        let mut asked = [0; 3];
        let mut now = 0;
        for random in random {
            now += random % 400;
            while let Some(order) = hosts.next_probe(ms(now), random) {
                open.retain(|other| other.sent + ms(2000) > ms(now));
                prop_assert!(open.iter().all(|other| other.host != order.host), "{:?} {:?}", open, order);
                asked[order.host] += 1;
                open.push(order);
            }
            match random % 5 {
                0 | 1 if !open.is_empty() => {
                    let order = open.remove((random / 5) as usize % open.len());
                    hosts.probed(&order, Ok(&row(PRIMARY)), ms(now), random);
                }
                2 if !open.is_empty() => {
                    let order = open.remove((random / 5) as usize % open.len());
                    hosts.probed(&order, Err(refused()), ms(now), random);
                }
                3 => hosts.report((random / 5) as usize % 3, Report::Suspect, ms(now)),
                _ => {}
            }
        }
        // At the slowest, a timeout and an interval with its spread lie between two probes.
        for asked in asked {
            prop_assert!(asked + 1 >= now / (2000 + 1125 + 400 * 2), "{} in {} ms", asked, now);
        }
    }
}
