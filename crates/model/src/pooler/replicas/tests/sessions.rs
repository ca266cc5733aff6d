//! The rules of the split: by hand, and on random sessions against the rules said plainly.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::split::{
    Ask, Defaults, Form, Hint, Modes, Place, ReadYourWrites, Rules, Session, Statement,
};
use super::super::{Choice, Fleet, Lsn, Settings, Want};
use super::{ms, primary, replica};

const RULES: Rules = Rules {
    split: true,
    read_your_writes: ReadYourWrites::Log,
};

fn ask(statement: Statement) -> Ask {
    Ask {
        statement,
        form: Form::Simple,
        hint: None,
        defaults: Defaults::default(),
    }
}

fn begin(read_only: Option<bool>, serializable: Option<bool>) -> Statement {
    Statement::Begin(Modes {
        read_only,
        serializable,
    })
}

/// Where a fresh session's first text goes.
fn first(ask: Ask) -> Place {
    Session::new().decide(&RULES, &ask)
}

#[test]
fn only_what_surely_reads_goes_to_a_replica() {
    assert_eq!(first(ask(Statement::Read)), Place::Replica);
    assert_eq!(first(ask(Statement::Write)), Place::Primary);
    assert_eq!(first(ask(Statement::Doubtful)), Place::Primary);
    assert_eq!(first(ask(begin(Some(true), None))), Place::Replica);
    assert_eq!(first(ask(begin(None, None))), Place::Primary);
    assert_eq!(first(ask(begin(Some(false), None))), Place::Primary);
}

#[test]
fn defaults_of_the_session_count_where_begin_says_nothing() {
    let read_only = Defaults {
        read_only: true,
        serializable: false,
    };
    let serializable = Defaults {
        read_only: false,
        serializable: true,
    };
    let with = |statement, defaults| {
        first(Ask {
            defaults,
            ..ask(statement)
        })
    };
    assert_eq!(with(begin(None, None), read_only), Place::Replica);
    assert_eq!(with(begin(Some(false), None), read_only), Place::Primary);
    assert_eq!(
        with(Statement::Write, read_only),
        Place::Primary,
        "the error is the primary's to give"
    );
    assert_eq!(
        with(Statement::Read, serializable),
        Place::Primary,
        "a replica refuses serializable"
    );
    assert_eq!(with(begin(Some(true), None), serializable), Place::Primary);
    assert_eq!(with(begin(Some(true), Some(false)), serializable), Place::Replica);
    assert_eq!(with(begin(Some(true), Some(true)), read_only), Place::Primary);
}

#[test]
fn pipelines_go_to_a_replica_only_when_all_of_them_is_seen() {
    let with = |form, hint| {
        first(Ask {
            form,
            hint,
            ..ask(Statement::Read)
        })
    };
    assert_eq!(with(Form::Whole, None), Place::Replica);
    assert_eq!(with(Form::Part, None), Place::Primary);
    assert_eq!(with(Form::Part, Some(Hint::Replica)), Place::Primary);
}

#[test]
fn hints_override_all_but_a_held_server() {
    let with = |statement, hint| Ask {
        hint: Some(hint),
        ..ask(statement)
    };
    assert_eq!(first(with(Statement::Read, Hint::Primary)), Place::Primary);
    assert_eq!(first(with(Statement::Write, Hint::Replica)), Place::Replica);
    let off = Rules {
        split: false,
        ..RULES
    };
    assert_eq!(Session::new().decide(&off, &ask(Statement::Read)), Place::Primary);
    assert_eq!(
        Session::new().decide(&off, &with(Statement::Read, Hint::Replica)),
        Place::Replica
    );
    let mut session = Session::new();
    assert_eq!(session.decide(&RULES, &ask(begin(None, None))), Place::Primary);
    assert_eq!(
        session.decide(&RULES, &with(Statement::Read, Hint::Replica)),
        Place::Stay
    );
    assert!(session.holds_server());
    session.finished(false, ms(0));
    assert_eq!(
        session.decide(&RULES, &with(Statement::Read, Hint::Replica)),
        Place::Replica
    );
}

/// Host 0 primary, host 1 replica, both at `lsn`, asked at `sent`.
fn fleet(lsn: u64, sent: u64) -> Fleet {
    let mut fleet = Fleet::new(Settings::default(), &[1, 1], ms(0));
    tell(&mut fleet, lsn, lsn, sent);
    fleet
}

fn tell(fleet: &mut Fleet, primary_at: u64, replica_at: u64, sent: u64) {
    fleet.probed(0, primary(sent, primary_at, 1), ms(sent + 1));
    fleet.probed(1, replica(sent + 1, replica_at, 1), ms(sent + 2));
}

#[test]
fn own_writes_are_read_from_the_primary_until_the_replica_has_them() {
    let mut fleet = fleet(1000, 0);
    let mut session = Session::new();
    session.decide(&RULES, &ask(Statement::Write));
    session.finished(true, ms(100));
    let read = |session: &mut Session, fleet: &Fleet, now: u64| {
        let place = session.decide(&RULES, &ask(Statement::Read));
        assert_eq!(place, Place::Replica);
        let want = session.want(&RULES, place, fleet, ms(now)).expect("not held");
        session.finished(false, ms(now));
        fleet.route(want, ms(now), &[], 0)
    };
    assert_eq!(
        read(&mut session, &fleet, 101),
        Choice::Host(0),
        "nobody knows how far the write went"
    );
    tell(&mut fleet, 1500, 1400, 200);
    assert_eq!(read(&mut session, &fleet, 203), Choice::Host(0));
    tell(&mut fleet, 1600, 1500, 300);
    assert_eq!(read(&mut session, &fleet, 303), Choice::Host(1));
    // A second write starts anew; learnt at once, it need not wait for a probe.
    session.decide(&RULES, &ask(Statement::Write));
    session.finished(true, ms(400));
    session.learnt(Lsn(1490));
    assert_eq!(read(&mut session, &fleet, 401), Choice::Host(1));
}

#[test]
fn windows_count_from_the_write() {
    let window = Rules {
        split: true,
        read_your_writes: ReadYourWrites::Window(ms(50)),
    };
    let off = Rules {
        split: true,
        read_your_writes: ReadYourWrites::Off,
    };
    let fleet = fleet(1000, 0);
    let mut session = Session::new();
    session.wrote(ms(100));
    let want =
        |session: &mut Session, rules: &Rules, now| session.want(rules, Place::Replica, &fleet, ms(now));
    assert_eq!(want(&mut session, &window, 149), Some(Want::Write));
    assert_eq!(
        want(&mut session, &window, 150),
        Some(Want::Read { min_lsn: None })
    );
    assert_eq!(want(&mut session, &off, 101), Some(Want::Read { min_lsn: None }));
    assert_eq!(session.want(&off, Place::Stay, &fleet, ms(1)), None);
    assert_eq!(
        session.want(&off, Place::Primary, &fleet, ms(1)),
        Some(Want::Write)
    );
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Ask),
    Finish,
    Probe { replica_behind: u64 },
    Learn,
}

fn asks() -> impl Strategy<Value = Ask> {
    let modes = (any::<Option<bool>>(), any::<Option<bool>>());
    let statement = prop_oneof![
        4 => Just(Statement::Read),
        3 => Just(Statement::Write),
        1 => Just(Statement::Doubtful),
        2 => modes.prop_map(|(read_only, serializable)| begin(read_only, serializable)),
    ];
    let form = prop_oneof![3 => Just(Form::Simple), 1 => Just(Form::Whole), 1 => Just(Form::Part)];
    let hint = prop_oneof![8 => Just(None), 1 => Just(Some(Hint::Primary)), 1 => Just(Some(Hint::Replica))];
    let defaults = prop_oneof![
        6 => Just(Defaults::default()),
        1 => any::<(bool, bool)>().prop_map(|(read_only, serializable)| Defaults { read_only, serializable }),
    ];
    (statement, form, hint, defaults).prop_map(|(statement, form, hint, defaults)| Ask {
        statement,
        form,
        hint,
        defaults,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => asks().prop_map(Step::Ask),
        4 => Just(Step::Finish),
        2 => prop_oneof![Just(0_u64), 1..500_u64].prop_map(|replica_behind| Step::Probe { replica_behind }),
        1 => Just(Step::Learn),
    ];
    vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// One session on a primary and a replica. Every write of it moves the log by 100; the replica shows what its last
    /// probe said. No write reaches the replica, whatever is asked without a hint; no read misses the session's writes;
    /// no transaction changes its server.
    #[test]
    fn sessions_keep_their_transactions_and_see_their_writes(steps in steps()) {
        let mut fleet = fleet(1000, 0);
        let mut session = Session::new();
        let (mut log, mut own, mut shown, mut now) = (1000_u64, 0_u64, 1000_u64, 10_u64);
        let mut on: Option<usize> = None;
        for step in steps {
            now += 10;
            match step {
                Step::Ask(ask) => {
                    let place = session.decide(&RULES, &ask);
                    prop_assert_eq!(place == Place::Stay, on.is_some());
                    let Some(want) = session.want(&RULES, place, &fleet, ms(now)) else {
                        continue;
                    };
                    let hinted = ask.hint == Some(Hint::Replica);
                    let host = match fleet.route(want, ms(now), &[], 0) {
                        Choice::Host(host) => host,
                        other => return Err(TestCaseError::fail(format!("{other:?}"))),
                    };
                    on = Some(host);
                    if host == 1 {
                        prop_assert!(shown >= own, "its writes are at {}, the replica at {}", own, shown);
                        let reads = match ask.statement {
                            Statement::Read => !ask.defaults.serializable,
                            Statement::Begin(modes) => {
                                modes.read_only.unwrap_or(ask.defaults.read_only)
                                    && !modes.serializable.unwrap_or(ask.defaults.serializable)
                            }
                            Statement::Write | Statement::Doubtful => false,
                        };
                        prop_assert!(hinted || reads, "{:?}", ask);
                        prop_assert!(ask.form != Form::Part);
                    } else if ask.statement == Statement::Read && ask.form == Form::Simple && ask.hint.is_none() {
                        // Refused a replica: for its settings, or for its writes.
                        prop_assert!(ask.defaults.serializable || own > 0);
                    }
                }
                Step::Finish => {
                    let wrote = on == Some(0);
                    if wrote {
                        log += 100;
                        own = log;
                    }
                    on = None;
                    session.finished(wrote, ms(now));
                }
                Step::Probe { replica_behind } => {
                    shown = shown.max(log.saturating_sub(replica_behind));
                    tell(&mut fleet, log, shown, now);
                    now += 2;
                }
                Step::Learn => session.learnt(Lsn(log)),
            }
        }
        // Once the replica has everything, reads are its own again.
        session.finished(false, ms(now));
        tell(&mut fleet, log, log, now + 10);
        let place = session.decide(&RULES, &ask(Statement::Read));
        let want = session.want(&RULES, place, &fleet, ms(now + 20)).expect("not held");
        prop_assert_eq!(fleet.route(want, ms(now + 20), &[], 0), Choice::Host(1));
    }
}

#[test]
fn times_before_the_start_are_no_trouble() {
    let mut session = Session::new();
    session.wrote(Duration::MAX);
    let rules = Rules {
        split: true,
        read_your_writes: ReadYourWrites::Window(ms(50)),
    };
    let fleet = fleet(1000, 0);
    assert_eq!(
        session.want(&rules, Place::Replica, &fleet, ms(0)),
        Some(Want::Write)
    );
}
