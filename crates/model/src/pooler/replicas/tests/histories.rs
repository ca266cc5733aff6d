//! Random histories of random fleets: whatever probes and pools report, in whatever order, routes keep the rules. The rules
//! are checked from the history itself, with none of the fleet's bookkeeping.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Choice, Fleet, Lsn, Missing, Probe, Settings, Want};
use super::{ms, primary, replica};

#[derive(Clone, Debug)]
enum Step {
    Probe {
        host: usize,
        in_recovery: bool,
        lsn: u64,
        timeline: u32,
        system: u64,
    },
    Fail {
        host: usize,
    },
    Connect {
        host: usize,
    },
    Wait {
        ms: u64,
    },
}

fn step(hosts: usize) -> impl Strategy<Value = Step> {
    let probe = (
        0..hosts,
        any::<bool>(),
        0..400_u64,
        1..4_u32,
        prop_oneof![9 => Just(7_u64), 1 => Just(8)],
    )
        .prop_map(|(host, in_recovery, lsn, timeline, system)| Step::Probe {
            host,
            in_recovery,
            lsn,
            timeline,
            system,
        });
    prop_oneof![
        6 => probe,
        3 => (0..hosts).prop_map(|host| Step::Fail { host }),
        1 => (0..hosts).prop_map(|host| Step::Connect { host }),
        2 => (1..3000_u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        proptest::option::of(0..300_u64),
        proptest::option::of(0..4000_u64),
        1..3_u32,
        1..3_u32,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(bytes, time, failures, successes, fallback, primary_reads)| Settings {
                lag_max_bytes: bytes,
                lag_max: time.map(ms),
                answer_age_max: ms(5000),
                ban_time: ms(1000),
                failures_before_ban: failures,
                successes_before_use: successes,
                primary_wait_max: ms(2000),
                read_fallback: fallback,
                primary_reads,
            },
        )
}

/// What a reader of the history knows of a host.
#[derive(Clone, Debug, Default)]
struct Told {
    last: Option<Probe>,
    answered: Duration,
    failures: u32,
    /// So many failures in a row, and since then not enough good probes, or sooner than the shortest ban.
    out: bool,
    /// The same with the longest ban.
    out_max: bool,
    good: u32,
    failed_last: Duration,
}

#[derive(Clone, Debug, Default)]
struct Witness {
    told: HashMap<usize, Told>,
    system: Option<u64>,
    newest: u32,
}

impl Witness {
    fn see(&mut self, step: &Step, probe: Option<Probe>, now: Duration, settings: &Settings) {
        match *step {
            Step::Probe { host, .. } => {
                let probe = probe.expect("made for this step");
                self.system = self.system.or(probe.system);
                if probe.system == self.system {
                    self.newest = self.newest.max(probe.timeline.unwrap_or(0));
                }
                let told = self.told.entry(host).or_default();
                told.last = Some(probe);
                told.answered = now;
                told.failures = 0;
                told.good += 1;
                let enough = told.good >= settings.successes_before_use;
                let over = |bans: u32| enough && now >= told.failed_last + settings.ban_time * bans;
                let (shortest, longest) = (over(1), over(16));
                told.out &= probe.in_recovery && !shortest;
                told.out_max &= probe.in_recovery && !longest;
            }
            Step::Fail { host } => {
                let told = self.told.entry(host).or_default();
                told.failures += 1;
                told.good = 0;
                told.failed_last = now;
                let banned = told.failures >= settings.failures_before_ban;
                told.out |= banned;
                told.out_max |= banned;
            }
            Step::Connect { host } => {
                let told = self.told.entry(host).or_default();
                if !told.out {
                    told.failures = 0;
                }
            }
            Step::Wait { .. } => {}
        }
    }

    fn told(&self, host: usize) -> Told {
        self.told.get(&host).cloned().unwrap_or_default()
    }

    /// Whether host `host` is banned; panics if it cannot be.
    fn banned(&self, fleet: &Fleet, host: usize) -> bool {
        let (told, banned) = (self.told(host), fleet.hosts()[host].is_banned());
        assert!(
            if told.out { banned } else { told.out_max || !banned },
            "host {host}: {told:?}"
        );
        banned
    }

    fn all_banned(&self, fleet: &Fleet) -> bool {
        (0..fleet.hosts().len()).all(|host| self.banned(fleet, host))
    }
}

/// Plays `steps`, calling `check` after each with the fleet, the witness and the time.
fn play(
    settings: Settings,
    hosts: usize,
    steps: &[Step],
    mut check: impl FnMut(&Fleet, &Witness, Duration) -> Result<(), TestCaseError>,
) -> Result<Fleet, TestCaseError> {
    let mut fleet = Fleet::new(settings, &vec![1; hosts], ms(0));
    let mut witness = Witness::default();
    let mut now = 0;
    for step in steps {
        now += 1;
        let mut sent = None;
        match *step {
            Step::Probe {
                host,
                in_recovery,
                lsn,
                timeline,
                system,
            } => {
                let make = if in_recovery { replica } else { primary };
                let probe = Probe {
                    system: Some(system),
                    ..make(now - 1, lsn, timeline)
                };
                sent = Some(probe);
                fleet.probed(host, probe, ms(now));
            }
            Step::Fail { host } => fleet.failed(host, ms(now)),
            Step::Connect { host } => fleet.connected(host),
            Step::Wait { ms } => now += ms,
        }
        witness.see(step, sent, ms(now), &settings);
        check(&fleet, &witness, ms(now))?;
    }
    Ok(fleet)
}

fn case() -> impl Strategy<Value = (Settings, usize, Vec<Step>)> {
    (settings(), 2..5_usize)
        .prop_flat_map(|(settings, hosts)| (Just(settings), Just(hosts), vec(step(hosts), 1..60)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Writes: never to a host in recovery, of another cluster, of an old timeline, or banned while another is not.
    #[test]
    fn writes_go_to_a_primary_of_this_cluster_on_its_newest_timeline((settings, hosts, steps) in case()) {
        play(settings, hosts, &steps, |fleet, witness, now| {
            let choice = fleet.route(Want::Write, now, &[], 0);
            let Choice::Host(host) = choice else {
                // Refused or waiting: then no host in use is fit.
                for host in 0..hosts {
                    let told = witness.told(host);
                    let fit = told.last.is_some_and(|probe| {
                        !probe.in_recovery && probe.system == witness.system && probe.timeline >= Some(witness.newest)
                    });
                    prop_assert!(witness.banned(fleet, host) || !fit, "host {} is fit, but {:?}", host, choice);
                }
                return Ok(());
            };
            let told = witness.told(host);
            let probe = told.last.expect("never asked");
            prop_assert!(!probe.in_recovery);
            prop_assert_eq!(probe.system, witness.system);
            prop_assert!(probe.timeline >= Some(witness.newest), "{:?} < {}", probe.timeline, witness.newest);
            prop_assert!(!witness.banned(fleet, host) || witness.all_banned(fleet));
            Ok(())
        })?;
    }

    /// Reads: a replica that is up, has answered lately, is within the limits of bytes and shows the session's writes; or
    /// the host that writes go to.
    #[test]
    fn reads_go_to_a_fit_replica_or_the_primary(
        (settings, hosts, steps) in case(),
        min in proptest::option::of(0..400_u64),
        load in vec(0..9_u32, 0..5),
    ) {
        let min_lsn = min.map(Lsn);
        play(settings, hosts, &steps, |fleet, witness, now| {
            let write = fleet.route(Want::Write, now, &[], 0);
            let choice = fleet.route(Want::Read { min_lsn }, now, &load, 3);
            let Choice::Host(host) = choice else {
                let refused = Choice::None(Missing::Replica);
                prop_assert!(choice == write || (choice == refused && !settings.read_fallback), "{:?}", choice);
                return Ok(());
            };
            let told = witness.told(host);
            prop_assert!(!witness.banned(fleet, host) || witness.all_banned(fleet));
            if choice == write {
                return Ok(());
            }
            let probe = told.last.expect("never asked");
            prop_assert!(probe.in_recovery);
            prop_assert_eq!(probe.system, witness.system);
            prop_assert!(now - told.answered <= settings.answer_age_max);
            prop_assert!(probe.lsn >= min_lsn);
            let lag = fleet.hosts()[host].lag();
            prop_assert!(settings.lag_max_bytes.is_none_or(|max| lag.bytes.is_some_and(|bytes| bytes <= max)));
            prop_assert!(settings.lag_max.is_none_or(|max| lag.time.is_some_and(|time| time <= max)));
            Ok(())
        })?;
    }

    /// Waiting ends: at the time named, if nothing happens before, with a refusal that says why.
    #[test]
    fn no_transaction_waits_for_ever((settings, hosts, steps) in case()) {
        play(settings, hosts, &steps, |fleet, _, now| {
            for want in [Want::Write, Want::Read { min_lsn: None }] {
                if let Choice::WaitForPrimary(until) = fleet.route(want, now, &[], 0) {
                    prop_assert!(until > now && until <= now + settings.primary_wait_max);
                    prop_assert!(matches!(fleet.route(want, until, &[], 0), Choice::None(_)));
                }
            }
            Ok(())
        })?;
    }

    /// Whatever happened before: once every host answers well for a while, the primary takes the writes and every replica
    /// its share of reads.
    #[test]
    fn a_fleet_that_is_well_again_is_used_whole((settings, hosts, steps) in case(), which in 0..5_usize) {
        let steps: Vec<Step> = steps
            .into_iter()
            .filter(|step| !matches!(step, Step::Probe { system: 8, .. }))
            .collect();
        let mut fleet = play(settings, hosts, &steps, |_, _, _| Ok(()))?;
        let (first, which) = (1_000_000_u64, which % hosts);
        for round in 0..40 {
            let sent = first + 1000 * round;
            fleet.probed(which, primary(sent, 1000, 9), ms(sent + 1));
            for host in (0..hosts).filter(|&host| host != which) {
                fleet.probed(host, replica(sent + 1, 1000, 9), ms(sent + 2));
            }
        }
        let now = ms(first + 40_000);
        prop_assert_eq!(fleet.route(Want::Write, now, &[], 0), Choice::Host(which));
        let mut seen = vec![0; hosts];
        for turn in 0..1000 {
            match fleet.route(Want::Read { min_lsn: None }, now, &[], turn) {
                Choice::Host(host) => seen[host] += 1,
                other => prop_assert!(false, "{:?}", other),
            }
        }
        let readers = hosts - usize::from(!settings.primary_reads);
        for (host, seen) in seen.into_iter().enumerate() {
            let reads = host != which || settings.primary_reads;
            let share = 1000 / readers;
            prop_assert!(if reads { (share..=share + 1).contains(&seen) } else { seen == 0 }, "{}: {}", host, seen);
        }
    }

    /// Under load nobody is left out either: sent to the least loaded, and each transaction over at some time, every
    /// replica is used, by its weight.
    #[test]
    fn load_divides_by_weight(weights in vec(1..5_u32, 2..5), turn in any::<u64>()) {
        let mut all = vec![1];
        all.extend(&weights);
        let mut fleet = Fleet::new(Settings::default(), &all, ms(0));
        fleet.probed(0, primary(0, 1000, 1), ms(1));
        (1..all.len()).for_each(|host| fleet.probed(host, replica(1, 1000, 1), ms(2)));
        let mut load = vec![0_u32; all.len()];
        let total: u32 = weights.iter().sum();
        for n in 0..u64::from(total) * 6 {
            match fleet.route(Want::Read { min_lsn: None }, ms(3), &load, turn.wrapping_add(n)) {
                Choice::Host(host) => load[host] += 1,
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(load[0], 0);
        for (host, &weight) in all.iter().enumerate().skip(1) {
            prop_assert!(load[host].abs_diff(6 * weight) <= weight, "{:?} for weights {:?}", &load, &all);
        }
    }

    /// The same history gives the same fleet and the same routes.
    #[test]
    fn histories_decide((settings, hosts, steps) in case(), turn in any::<u64>()) {
        let routes = || {
            let mut routes = Vec::new();
            let fleet = play(settings, hosts, &steps, |fleet, _, now| {
                routes.push(fleet.route(Want::Read { min_lsn: None }, now, &[1, 2], turn));
                routes.push(fleet.route(Want::Write, now, &[1, 2], turn));
                Ok(())
            });
            (fleet, routes)
        };
        let ((one, routes_one), (two, routes_two)) = (routes(), routes());
        prop_assert_eq!(one?, two?);
        prop_assert_eq!(routes_one, routes_two);
    }
}
