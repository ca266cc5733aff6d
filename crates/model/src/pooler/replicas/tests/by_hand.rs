//! Histories worked out by hand: failovers, lag, bans, places in the log.

use std::time::Duration;

use super::super::{Choice, Fleet, Lag, Lsn, Missing, Probe, Role, Settings, Want, Warning};
use super::{ms, primary, replica};

const READ: Want = Want::Read { min_lsn: None };

fn settings() -> Settings {
    Settings {
        lag_max_bytes: Some(1000),
        lag_max: Some(ms(5000)),
        answer_age_max: ms(10_000),
        ban_time: ms(1000),
        failures_before_ban: 2,
        successes_before_use: 2,
        primary_wait_max: ms(5000),
        ..Settings::default()
    }
}

/// Host 0 is primary, hosts 1 and 2 have replayed all of its log.
fn healthy() -> Fleet {
    let mut fleet = Fleet::new(settings(), &[1, 1, 1], ms(0));
    fleet.probed(0, primary(0, 10_000, 1), ms(1));
    fleet.probed(1, replica(1, 10_000, 1), ms(2));
    fleet.probed(2, replica(1, 10_000, 1), ms(2));
    fleet
}

fn read(fleet: &Fleet, now: u64) -> Vec<Choice> {
    (0..2).map(|turn| fleet.route(READ, ms(now), &[], turn)).collect()
}

#[test]
fn writes_go_to_the_primary_and_reads_take_turns_on_the_replicas() {
    let fleet = healthy();
    assert_eq!(fleet.primary(), Some(0));
    assert_eq!(fleet.route(Want::Write, ms(3), &[90, 0, 0], 0), Choice::Host(0));
    assert_eq!(read(&fleet, 3), [Choice::Host(1), Choice::Host(2)]);
    assert_eq!(fleet.route(READ, ms(3), &[0, 2, 1], 0), Choice::Host(2));
    assert_eq!(fleet.route(READ, ms(3), &[0, 2], 1), Choice::Host(2));
    assert_eq!(fleet.warnings(), []);
}

#[test]
fn weights_divide_load_and_turns() {
    let mut fleet = Fleet::new(settings(), &[1, 1, 3, 0], ms(0));
    fleet.probed(0, primary(0, 10_000, 1), ms(1));
    (1..4).for_each(|i| fleet.probed(i, replica(1, 10_000, 1), ms(2)));
    let turns: Vec<Choice> = (0..4).map(|turn| fleet.route(READ, ms(3), &[], turn)).collect();
    assert_eq!(turns, [1, 2, 2, 2].map(Choice::Host));
    assert_eq!(fleet.route(READ, ms(3), &[0, 2, 5, 0], 0), Choice::Host(2));
    assert_eq!(fleet.route(READ, ms(3), &[0, 2, 7, 0], 0), Choice::Host(1));
}

#[test]
fn the_primary_takes_reads_only_if_told_to() {
    let mut fleet = healthy();
    fleet.set_settings(
        Settings {
            primary_reads: true,
            ..settings()
        },
        ms(3),
    );
    assert_eq!(fleet.route(READ, ms(3), &[0, 1, 1], 0), Choice::Host(0));
    fleet.set_settings(settings(), ms(3));
    assert_eq!(fleet.route(READ, ms(3), &[0, 1, 1], 0), Choice::Host(1));
}

#[test]
fn one_host_gets_everything_and_no_host_nothing() {
    let mut one = Fleet::new(settings(), &[1], ms(0));
    one.failed(0, ms(1));
    one.failed(0, ms(1));
    assert_eq!(one.route(Want::Write, ms(9), &[], 0), Choice::Host(0));
    assert_eq!(one.route(READ, ms(9), &[], 0), Choice::Host(0));
    let none = Fleet::new(settings(), &[], ms(0));
    assert_eq!(none.route(READ, ms(9), &[], 0), Choice::None(Missing::Hosts));
}

#[test]
fn before_the_first_answers_everything_waits_and_not_for_ever() {
    let fleet = Fleet::new(settings(), &[1, 1], ms(100));
    assert_eq!(
        fleet.route(Want::Write, ms(200), &[], 0),
        Choice::WaitForPrimary(ms(5100))
    );
    assert_eq!(
        fleet.route(READ, ms(200), &[], 0),
        Choice::WaitForPrimary(ms(5100))
    );
    assert_eq!(
        fleet.route(Want::Write, ms(5100), &[], 0),
        Choice::None(Missing::Primary)
    );
}

#[test]
fn failover_waits_for_the_promoted_replica_and_shuts_the_old_primary_out() {
    let mut fleet = healthy();
    fleet.failed(0, ms(1000));
    assert_eq!(
        fleet.route(Want::Write, ms(1000), &[], 0),
        Choice::Host(0),
        "one failure is none"
    );
    fleet.failed(0, ms(1100));
    assert_eq!(fleet.hosts()[0].role(), Role::Down);
    assert_eq!(fleet.lost_at(), Some(ms(1100)));
    assert_eq!(
        fleet.route(Want::Write, ms(1200), &[], 0),
        Choice::WaitForPrimary(ms(6100))
    );
    assert_eq!(
        read(&fleet, 1200),
        [Choice::Host(1), Choice::Host(2)],
        "reads go on"
    );

    fleet.probed(1, primary(1500, 10_500, 2), ms(1501));
    assert_eq!(fleet.route(Want::Write, ms(1502), &[], 0), Choice::Host(1));
    let old = Warning::OldTimeline {
        host: 2,
        timeline: 1,
        newest: 2,
    };
    assert_eq!(fleet.warnings(), [old]);
    assert_eq!(
        read(&fleet, 1502),
        [Choice::Host(1); 2],
        "replica 2 may have replayed what the new primary never had"
    );
    fleet.probed(2, replica(1600, 10_500, 2), ms(1601));
    assert_eq!(read(&fleet, 1602), [Choice::Host(2); 2]);

    // The old primary is back, and does not know.
    fleet.probed(0, primary(2000, 11_000, 1), ms(2001));
    fleet.probed(0, primary(3000, 11_000, 1), ms(3001));
    assert_eq!(fleet.warnings(), [Warning::SplitBrain { primary: 1, other: 0 }]);
    assert_eq!(fleet.route(Want::Write, ms(3002), &[], 0), Choice::Host(1));
    // Even when the new one fails.
    fleet.failed(1, ms(3100));
    fleet.failed(1, ms(3200));
    assert_eq!(
        fleet.warnings(),
        [Warning::Superseded {
            host: 0,
            timeline: 1,
            newest: 2
        }]
    );
    assert_eq!(
        fleet.route(Want::Write, ms(5900), &[], 0),
        Choice::WaitForPrimary(ms(8200))
    );
    assert_eq!(
        fleet.route(Want::Write, ms(8200), &[], 0),
        Choice::None(Missing::NewerPrimary)
    );

    // Rebuilt from the new primary it is a replica like others.
    fleet.probed(1, primary(8300, 12_000, 2), ms(8301));
    fleet.probed(0, replica(8302, 12_000, 2), ms(8303));
    assert_eq!(fleet.hosts()[0].role(), Role::Replica);
    assert_eq!(fleet.warnings(), []);
}

#[test]
fn a_replica_of_an_unknown_newer_primary_stops_writes_to_the_old_one() {
    let mut fleet = healthy();
    fleet.probed(2, replica(100, 10_000, 2), ms(101));
    assert_eq!(fleet.primary(), None);
    assert_eq!(
        fleet.warnings()[0],
        Warning::Superseded {
            host: 0,
            timeline: 1,
            newest: 2
        }
    );
    assert!(matches!(
        fleet.route(Want::Write, ms(200), &[], 0),
        Choice::WaitForPrimary(_)
    ));
}

#[test]
fn of_two_primaries_of_one_timeline_the_old_one_stays_or_the_longer_log_wins() {
    let mut fleet = healthy();
    fleet.probed(1, primary(100, 90_000, 1), ms(101));
    assert_eq!(fleet.primary(), Some(0));
    assert_eq!(fleet.warnings(), [Warning::SplitBrain { primary: 0, other: 1 }]);
    fleet.probed(0, replica(200, 10_000, 1), ms(201));
    assert_eq!(fleet.primary(), Some(1));

    // Both replicas promoted before either was asked.
    let mut fleet = healthy();
    fleet.failed(0, ms(10));
    fleet.failed(0, ms(11));
    fleet.failed(1, ms(12));
    fleet.failed(1, ms(13));
    fleet.probed(2, primary(14, 10_100, 2), ms(15));
    assert_eq!(fleet.primary(), Some(2));
    fleet.probed(1, primary(16, 10_200, 2), ms(17));
    assert_eq!(fleet.primary(), Some(2));
}

#[test]
fn another_cluster_is_not_used_even_when_nothing_else_is_left() {
    let mut fleet = healthy();
    fleet.probed(
        1,
        Probe {
            system: Some(8),
            ..replica(5, 10_000, 1)
        },
        ms(6),
    );
    fleet.probed(
        2,
        Probe {
            system: Some(8),
            ..primary(5, 99_000, 9)
        },
        ms(6),
    );
    assert_eq!(fleet.primary(), Some(0));
    assert_eq!(fleet.newest_timeline(), Some(1));
    assert_eq!(
        fleet.warnings(),
        [
            Warning::OtherCluster { host: 1 },
            Warning::OtherCluster { host: 2 }
        ]
    );
    assert_eq!(read(&fleet, 7), [Choice::Host(0); 2]);
    fleet.failed(0, ms(8));
    fleet.failed(0, ms(9));
    assert!(matches!(
        fleet.route(Want::Write, ms(10), &[], 0),
        Choice::WaitForPrimary(_)
    ));
    assert!(matches!(
        fleet.route(READ, ms(10), &[], 0),
        Choice::WaitForPrimary(_)
    ));
}

#[test]
fn lag_is_told_from_the_primarys_log_and_ends_at_half_the_limit() {
    let mut fleet = healthy();
    // Nothing is written: as far behind as before, however old the last transaction.
    fleet.probed(0, primary(5000, 10_000, 1), ms(5001));
    let idle = Probe {
        replay_age: Some(ms(900_000)),
        ..replica(5000, 10_000, 1)
    };
    fleet.probed(1, idle, ms(5001));
    assert_eq!(
        fleet.hosts()[1].lag(),
        Lag {
            bytes: Some(0),
            time: Some(Duration::ZERO)
        }
    );

    fleet.probed(0, primary(6000, 10_900, 1), ms(6001));
    fleet.probed(1, replica(6000, 10_000, 1), ms(6001));
    // It shows what was committed by 5000, when the primary was asked last before it wrote on.
    assert_eq!(
        fleet.hosts()[1].lag(),
        Lag {
            bytes: Some(900),
            time: Some(ms(1000))
        }
    );
    assert!(!fleet.hosts()[1].is_lagging());

    fleet.probed(0, primary(7000, 11_100, 1), ms(7001));
    fleet.probed(1, replica(7000, 10_000, 1), ms(7001));
    fleet.probed(2, replica(7000, 11_050, 1), ms(7001));
    assert_eq!(fleet.warnings(), [Warning::Lagging { host: 1 }]);
    assert_eq!(read(&fleet, 7002), [Choice::Host(2); 2]);
    fleet.probed(1, replica(7100, 10_500, 1), ms(7101));
    assert!(
        fleet.hosts()[1].is_lagging(),
        "600 bytes are more than half of 1000"
    );
    fleet.probed(1, replica(7200, 10_600, 1), ms(7201));
    assert_eq!(read(&fleet, 7202), [Choice::Host(1), Choice::Host(2)]);

    // Paused: it receives and does not replay, and the bytes alone would pass.
    fleet.probed(0, primary(11900, 11_200, 1), ms(11901));
    fleet.probed(
        1,
        Probe {
            received: Some(Lsn(11_200)),
            ..replica(11900, 10_900, 1)
        },
        ms(11901),
    );
    assert_eq!(
        fleet.hosts()[1].lag(),
        Lag {
            bytes: Some(300),
            time: Some(ms(5900))
        }
    );
    assert!(fleet.hosts()[1].is_lagging());
}

#[test]
fn lag_is_what_the_primary_had_when_the_replica_was_asked() {
    let mut fleet = healthy();
    // Asked at 100, answered at 170; meanwhile the primary said at 150 that it had written on.
    fleet.probed(0, primary(150, 99_000, 1), ms(160));
    fleet.probed(1, replica(100, 10_000, 1), ms(170));
    assert_eq!(fleet.hosts()[1].lag().bytes, Some(0));
    // What the replica itself has received is behind it too, whatever the primary said last.
    let receives = Probe {
        received: Some(Lsn(99_500)),
        ..replica(200, 99_000, 1)
    };
    fleet.probed(1, receives, ms(201));
    assert_eq!(fleet.hosts()[1].lag().bytes, Some(500));
}

#[test]
fn a_replica_that_tells_no_place_in_the_log_is_read_from_only_without_limits() {
    let mut fleet = healthy();
    let mute = Probe {
        sent: ms(3),
        in_recovery: true,
        ..Probe::default()
    };
    fleet.probed(1, mute, ms(4));
    fleet.probed(2, mute, ms(4));
    assert_eq!(read(&fleet, 5), [Choice::Host(0); 2]);
    fleet.set_settings(
        Settings {
            lag_max: None,
            lag_max_bytes: None,
            ..settings()
        },
        ms(5),
    );
    fleet.probed(1, mute, ms(6));
    assert_eq!(read(&fleet, 7), [Choice::Host(1); 2]);
    let own = Want::Read {
        min_lsn: Some(Lsn(1)),
    };
    assert_eq!(fleet.route(own, ms(7), &[], 0), Choice::Host(0));
}

#[test]
fn old_answers_and_reads_without_a_replica() {
    let mut fleet = healthy();
    assert_eq!(
        read(&fleet, 20_000),
        [Choice::Host(0); 2],
        "answers too old to tell lag"
    );
    fleet.set_settings(
        Settings {
            read_fallback: false,
            ..settings()
        },
        ms(20_000),
    );
    assert_eq!(
        fleet.route(READ, ms(20_000), &[], 0),
        Choice::None(Missing::Replica)
    );
    fleet.probed(1, replica(20_000, 10_000, 1), ms(20_001));
    let own = Want::Read {
        min_lsn: Some(Lsn(10_001)),
    };
    assert_eq!(
        fleet.route(own, ms(20_002), &[], 0),
        Choice::Host(0),
        "own writes are shown at any cost"
    );
    assert_eq!(fleet.route(READ, ms(20_002), &[], 0), Choice::Host(1));
}

#[test]
fn bans_end_with_good_probes_and_grow_with_repetition() {
    let mut fleet = healthy();
    let ban = |fleet: &mut Fleet, at: u64| {
        fleet.failed(1, ms(at));
        fleet.failed(1, ms(at));
        fleet.hosts()[1].banned_until().expect("banned")
    };
    assert_eq!(ban(&mut fleet, 1000), ms(2000));
    fleet.connected(1);
    fleet.probed(1, replica(1500, 10_000, 1), ms(1501));
    fleet.probed(1, replica(1600, 10_000, 1), ms(1601));
    assert!(fleet.hosts()[1].is_banned(), "good too soon");
    fleet.probed(1, replica(2000, 10_000, 1), ms(2001));
    assert_eq!(fleet.hosts()[1].role(), Role::Replica);
    assert_eq!(
        ban(&mut fleet, 3000),
        ms(5000),
        "failed again soon: twice as long"
    );
    fleet.probed(1, replica(5000, 10_000, 1), ms(5001));
    assert!(fleet.hosts()[1].is_banned(), "one good probe is not enough");
    fleet.probed(1, replica(5100, 10_000, 1), ms(5101));
    assert!(!fleet.hosts()[1].is_banned());
    assert_eq!(
        ban(&mut fleet, 60_000),
        ms(61_000),
        "after a long time in use it starts anew"
    );
}

#[test]
fn connections_between_failures_forgive_them() {
    let mut fleet = healthy();
    for at in 0..50 {
        fleet.failed(0, ms(at));
        fleet.connected(0);
    }
    assert_eq!(fleet.primary(), Some(0));
}

#[test]
fn with_every_host_banned_the_last_primary_is_tried() {
    let mut fleet = healthy();
    for host in 0..3 {
        fleet.failed(host, ms(5));
        fleet.failed(host, ms(6));
    }
    assert_eq!(fleet.route(Want::Write, ms(7), &[], 0), Choice::Host(0));
    assert_eq!(read(&fleet, 7), [Choice::Host(0); 2]);
    fleet.probed(0, primary(8, 10_000, 1), ms(9));
    assert_eq!(
        fleet.primary(),
        Some(0),
        "a primary's first good probe ends its ban"
    );
}

#[test]
fn a_replica_without_its_receiver_keeps_the_timeline_it_followed() {
    let mut fleet = healthy();
    fleet.probed(0, primary(10, 10_100, 2), ms(11));
    fleet.probed(1, replica(12, 10_100, 2), ms(13));
    fleet.probed(1, replica(14, 10_100, 1), ms(15));
    assert_eq!(
        fleet.warnings(),
        [Warning::OldTimeline {
            host: 2,
            timeline: 1,
            newest: 2
        }]
    );
    fleet.probed(1, replica(16, 9_000, 1), ms(17));
    assert_eq!(fleet.warnings().len(), 2, "it was rebuilt from something older");
}

#[test]
fn the_log_after_a_write_is_that_of_the_first_probe_sent_since() {
    let mut fleet = healthy();
    assert_eq!(fleet.lsn_after(ms(1)), None);
    fleet.probed(0, primary(1000, 11_000, 1), ms(1001));
    fleet.probed(0, primary(2000, 12_000, 1), ms(2001));
    assert_eq!(fleet.lsn_after(ms(0)), Some(Lsn(11_000)));
    assert_eq!(fleet.lsn_after(ms(999)), Some(Lsn(11_000)));
    assert_eq!(
        fleet.lsn_after(ms(1000)),
        Some(Lsn(12_000)),
        "sent at the same time: nobody knows which was first"
    );
    assert_eq!(fleet.lsn_after(ms(1999)), Some(Lsn(12_000)));
    // It crashed and lost what was not flushed; or another was promoted.
    fleet.probed(0, primary(3000, 11_900, 1), ms(3001));
    assert_eq!(fleet.lsn_after(ms(1001)), Some(Lsn(11_900)));
    fleet.probed(1, primary(4000, 11_950, 2), ms(4001));
    assert_eq!(fleet.lsn_after(ms(1001)), Some(Lsn(11_950)));
}

#[test]
fn places_in_the_log_are_read_and_written_as_postgresql_does() {
    for (text, value) in [
        ("0/0", 0),
        ("16/B374D848", 0x16_B374_D848),
        ("FFFFFFFF/FFFFFFFF", u64::MAX),
    ] {
        assert_eq!(text.parse(), Ok(Lsn(value)));
        assert_eq!(Lsn(value).to_string(), text);
    }
    for wrong in [
        "",
        "/",
        "0/",
        "/0",
        "0/0/0",
        "+1/0",
        "0/-1",
        "0/123456789",
        "g/0",
        " 0/0",
        "0",
    ] {
        assert!(wrong.parse::<Lsn>().is_err(), "{wrong:?}");
    }
}

#[test]
fn an_empty_page_is_no_progress() {
    let end = |lsn: u64| Lsn(lsn).end_of_record(8192, 1 << 24).0;
    assert_eq!(end(5 * 8192 + 24), 5 * 8192);
    assert_eq!(
        end(5 * 8192 + 40),
        5 * 8192 + 40,
        "the end of a record that began on the page before"
    );
    assert_eq!(end((7 << 24) + 40), 7 << 24);
    assert_eq!(end((7 << 24) + 48), (7 << 24) + 48);
    assert_eq!(Lsn(24).end_of_record(0, 0), Lsn(24), "sizes unknown");
}
