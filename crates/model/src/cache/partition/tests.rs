//! Plans for machines that exist only as capabilities.

use super::*;

fn cache(
    name: &str,
    ways: u32,
    ways_min: u32,
    sparse: bool,
    hardware: u32,
    domains: &[u32],
) -> CacheResource {
    let part = match &name[2..] {
        "CODE" => CachePart::Code,
        "DATA" => CachePart::Data,
        _ => CachePart::Unified,
    };
    CacheResource {
        name: name.to_owned(),
        level: name.as_bytes()[1] - b'0',
        part,
        full: WayMask::window(0, Ways(ways)),
        ways_min: Ways(ways_min),
        sparse,
        hardware: WayMask(hardware),
        domains: domains
            .iter()
            .map(|&id| CacheDomain {
                id,
                closed: WayMask::default(),
            })
            .collect(),
    }
}

fn group(name: &str, schemata: &str) -> Group {
    Group {
        name: name.to_owned(),
        schemata: Schemata::parse(schemata).expect("schemata"),
        ..Group::default()
    }
}

/// Two sockets, 11 ways, devices in the upper two, bandwidth in steps of ten percent.
fn xeon() -> Capabilities {
    Capabilities {
        caches: vec![cache("L3", 11, 1, false, 0x600, &[0, 1])],
        bandwidth: Some(BandwidthResource {
            unit: BandwidthUnit::Percent,
            minimum: 10,
            step: 10,
            domains: vec![0, 1],
        }),
        classes: 8,
        monitors: Some(144),
        root: group("", "L3:0=7ff;1=7ff\nMB:0=100;1=100\n"),
        groups: vec![],
    }
}

fn two_ways() -> Wishes {
    Wishes {
        weak_ways: Ways(2),
        default: DefaultShare::Rest,
        level: None,
        domains: None,
        weak_bandwidth_percent: None,
    }
}

/// The plan as a person reads it.
fn text(capabilities: &Capabilities, wishes: &Wishes) -> String {
    match plan(capabilities, wishes) {
        Ok(plan) => {
            let mut text = String::new();
            for share in &plan.shares {
                text += &format!("[{}]\n{}", share.class.group(), share.schemata);
                text.extend(share.reasons.iter().map(|reason| format!("# {reason}\n")));
            }
            text.extend(plan.reasons.iter().map(|reason| format!("# {reason}\n")));
            text
        }
        Err(error) => {
            let lines = [
                Some(error.to_string()),
                error.detail().map(|line| format!("detail: {line}")),
                error.hint().map(|line| format!("hint: {line}")),
            ];
            lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
        }
    }
}

#[test]
fn a_server_with_two_sockets() {
    assert_eq!(
        text(&xeon(), &two_ways()),
        "[corun-weak]\n\
         L3:0=3;1=3\n\
         MB:0=100;1=100\n\
         # L3: 2 of 11 ways (mask 3) in domains 0,1: enough for data that is read once\n\
         [corun-default]\n\
         L3:0=7fc;1=7fc\n\
         MB:0=100;1=100\n\
         # L3: 9 of 11 ways (mask 7fc) in domains 0,1: the rest, which weak queries cannot fill\n\
         # L3 is the outermost cache that can be partitioned here\n\
         # tasks nobody moved stay in the root group, which keeps its ways and shares them\n"
    );
}

#[test]
fn all_ways_for_the_default_class_and_less_bandwidth_for_the_weak_one() {
    let wishes = Wishes {
        default: DefaultShare::All,
        weak_bandwidth_percent: Some(45),
        ..two_ways()
    };
    let text = text(&xeon(), &wishes);
    assert!(
        text.contains("[corun-weak]\nL3:0=3;1=3\nMB:0=50;1=50\n"),
        "{text}"
    );
    assert!(
        text.contains("MB: at most 50 % of the memory bandwidth (45 is between two steps"),
        "{text}"
    );
    assert!(text.contains("L3:0=7ff;1=7ff\nMB:0=100;1=100\n"), "{text}");
    assert!(
        text.contains("all there is; weak queries cannot fill 9 of them"),
        "{text}"
    );
}

#[test]
fn gaps_in_domain_ids_holes_in_masks_and_a_choice_of_domains() {
    let mut epyc = xeon();
    epyc.caches = vec![cache("L3", 16, 1, true, 0, &[0, 3, 8])];
    epyc.caches[0].domains[1].closed = WayMask(0x0ff0);
    epyc.bandwidth.as_mut().unwrap().unit = BandwidthUnit::NonLinear;
    let wishes = Wishes {
        domains: Some(vec![3, 8]),
        weak_ways: Ways(4),
        ..two_ways()
    };
    let text = text(&epyc, &wishes);
    assert!(
        text.contains("L3:0=ffff;3=f;8=f\n# "),
        "no bandwidth line: {text}"
    );
    assert!(text.contains("L3:0=ffff;3=f000;8=fff0\n"), "{text}");
    assert!(
        text.contains("L3 domain 3: ways ff0 are exclusive to another group"),
        "{text}"
    );
    // Holes on both sides of the weak ways remain one mask on this machine.
    epyc.caches[0].domains[1].closed = WayMask(0x00f0);
    epyc.caches[0].hardware = WayMask(0x000f);
    let plan = plan(&epyc, &wishes).unwrap();
    assert_eq!(plan.shares[0].schemata.get("L3", 3), Some(0x0f00));
    assert_eq!(plan.shares[1].schemata.get("L3", 3), Some(0xf00f));
}

#[test]
fn code_and_data_apart() {
    let mut cdp = xeon();
    cdp.caches = vec![
        cache("L3CODE", 11, 1, false, 0, &[0]),
        cache("L3DATA", 11, 1, false, 0, &[0]),
    ];
    let text = text(&cdp, &two_ways());
    assert!(
        text.contains("[corun-weak]\nL3CODE:0=7ff\nL3DATA:0=3\n"),
        "{text}"
    );
    assert!(
        text.contains("[corun-default]\nL3CODE:0=7ff\nL3DATA:0=7fc\n"),
        "{text}"
    );
    assert!(
        text.contains("L3CODE: no limit, because classes run the same code"),
        "{text}"
    );
    // What an exclusive group holds for code is closed to data too.
    cdp.caches[0].domains[0].closed = WayMask(0x3);
    let plan = plan(&cdp, &two_ways()).unwrap();
    assert_eq!(
        plan.shares[0].schemata.to_string(),
        "L3CODE:0=7fc\nL3DATA:0=c\nMB:0=100;1=100\n"
    );
}

#[test]
fn the_other_level_is_left_whole() {
    let mut both = xeon();
    both.caches.insert(0, cache("L2", 8, 1, false, 0, &[0, 1, 2]));
    let outer = text(&both, &two_ways());
    assert!(
        outer.contains("[corun-weak]\nL2:0=ff;1=ff;2=ff\nL3:0=3;1=3\n"),
        "{outer}"
    );
    let inner = text(
        &both,
        &Wishes {
            level: Some(2),
            ..two_ways()
        },
    );
    assert!(
        inner.contains("[corun-weak]\nL2:0=3;1=3;2=3\nL3:0=7ff;1=7ff\n"),
        "{inner}"
    );
    assert!(inner.contains("L2 was asked for"), "{inner}");
}

#[test]
fn others_are_named_and_counted() {
    let mut busy = xeon();
    busy.classes = 4;
    busy.groups = vec![
        group("runc-1", "L3:0=f0;1=f0\n"),
        group("corun-weak", "L3:0=1;1=1\n"),
    ];
    let named = text(&busy, &two_ways());
    assert!(
        named.contains("groups of other tools keep their ways, which may be the same: runc-1"),
        "{named}"
    );

    busy.groups.push(group("cmt-2", "L3:0=7ff;1=7ff\n"));
    assert_eq!(
        text(&busy, &two_ways()),
        "too few classes of service are free: 2 are needed\n\
         detail: this machine has 4, one of them the root group's; others hold 2: runc-1, cmt-2\n\
         hint: end a tool that holds a group, or remove its group"
    );
    // A pseudo-locked region has given its class back.
    busy.groups[2].mode = GroupMode::PseudoLocked;
    assert!(plan(&busy, &two_ways()).is_ok());

    // Ids: root 1, its groups 2, runc 1, a monitor inside our group 1; two more are needed.
    busy.root.monitor_groups = 2;
    busy.groups[1].monitor_groups = 1;
    busy.monitors = Some(7);
    assert!(plan(&busy, &two_ways()).is_ok());
    busy.monitors = Some(6);
    assert_eq!(
        text(&busy, &two_ways()),
        "too few monitoring ids are free: 2 are needed\n\
         detail: this machine has 6, of which groups and monitoring groups hold 5\n\
         hint: remove monitoring groups nobody reads (rmdir)"
    );
    busy.monitors = None;
    assert!(plan(&busy, &two_ways()).is_ok());
}

#[test]
fn wishes_no_machine_grants() {
    let first = |capabilities: &Capabilities, wishes: Wishes| {
        text(capabilities, &wishes)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let ways = |ways| Wishes {
        weak_ways: Ways(ways),
        ..two_ways()
    };
    assert_eq!(
        text(&xeon(), &ways(11)),
        "11 ways of L3 are too many for `corun-weak` in domain 0\n\
         detail: of 11 ways it may have 10, less where other groups leave holes\n\
         hint: ask for 10 or less"
    );
    assert!(plan(&xeon(), &ways(10)).is_ok());
    assert!(
        plan(
            &xeon(),
            &Wishes {
                default: DefaultShare::All,
                ..ways(11)
            }
        )
        .is_ok()
    );
    assert_eq!(first(&xeon(), ways(0)), "0 ways of L3 are too few for a class");
    let mut haswell = xeon();
    haswell.caches = vec![cache("L3", 20, 2, false, 0xc0000, &[0])];
    assert_eq!(
        text(&haswell, &ways(1)),
        "1 ways of L3 are too few for a class\ndetail: a mask needs at least 2\nhint: ask for 2 or more"
    );

    let with = |change: fn(&mut Wishes)| {
        let mut wishes = two_ways();
        change(&mut wishes);
        wishes
    };
    assert_eq!(
        text(&xeon(), &with(|w| w.level = Some(2))),
        "the L2 cache of this machine cannot be partitioned\n\
         detail: it can partition L3\n\
         hint: leave the level out to take the outermost"
    );
    assert_eq!(
        text(&xeon(), &with(|w| w.domains = Some(vec![0, 2]))),
        "there is no cache domain 2\n\
         detail: there are domains 0,1\n\
         hint: leave the domains out to take all"
    );
    assert_eq!(
        first(&xeon(), with(|w| w.domains = Some(vec![]))),
        "no cache domain was chosen"
    );
    for percent in [0, 9, 101] {
        let wishes = Wishes {
            weak_bandwidth_percent: Some(percent),
            ..two_ways()
        };
        assert_eq!(
            first(&xeon(), wishes),
            format!("{percent} % of the memory bandwidth cannot be had")
        );
    }

    let limited = || with(|w| w.weak_bandwidth_percent = Some(50));
    let mut other = xeon();
    other.bandwidth.as_mut().unwrap().unit = BandwidthUnit::Megabytes;
    assert_eq!(
        first(&other, limited()),
        "memory bandwidth is not limited in percent on this machine"
    );
    other.bandwidth = None;
    assert_eq!(
        first(&other, limited()),
        "memory bandwidth cannot be limited on this machine"
    );
    other.caches[0].domains[1].closed = WayMask(0x7ff);
    assert_eq!(
        first(&other, two_ways()),
        "L3 domain 1 has no ways left for corun"
    );
    other.caches.clear();
    assert_eq!(
        first(&other, two_ways()),
        "no cache of this machine can be partitioned"
    );
    let mut cdp = xeon();
    cdp.classes = 2;
    assert!(text(&cdp, &two_ways()).contains("hint: mount resctrl without the options cdp"));
}
