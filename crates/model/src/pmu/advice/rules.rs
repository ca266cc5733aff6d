//! The rules: each looks at its own figures and is silent without them.

use super::facts::digits;
use super::{
    Advice, FETCH_MISS_PERCENT, Facts, Figure, Host, INSENSITIVE_PERCENT, INVOLUNTARY_SWITCHES, Kind, Point,
    RATE_FLAT_PERCENT, RUN_DELAY_SHARE_PERCENT, SENSITIVE_PERCENT, SMT_PERCENT, STEAL_PERCENT,
    STREAMING_MISS_PERCENT, Workload,
};
use crate::cache::locality::Locality;
use crate::spread::Label;

/// The command that takes a proxy's configuration; settings stand behind it as a comment.
const PROXY: &str = "corun proxy --config corun.toml";

/// Simulated if one of them is.
fn label_of(figures: &[&Figure]) -> Label {
    if figures.iter().any(|figure| figure.label == Label::Simulated) {
        Label::Simulated
    } else {
        Label::Measured
    }
}

/// Steal time.
pub(super) fn disturbed(facts: &Facts) -> Option<Advice> {
    let steal = facts.machine.steal_percent.as_ref()?;
    (steal.value >= STEAL_PERCENT).then(|| Advice {
        kind: Kind::Disturbed,
        subject: "machine".to_owned(),
        evidence: format!("the hypervisor gave others {} of the CPUs' time", steal.text("%")),
        command: "corun-lab characterize".to_owned(),
        stake_percent: None,
        label: label_of(&[steal]),
    })
}

/// How strongly a workload's speed depends on the shared cache, as its figures have it, and the evidence; `None` where they do not
/// say. One that is slowed down is called moderate whatever it reuses: what others flush is what it loses.
fn locality(workload: &Workload) -> Option<(Locality, String)> {
    let sensitivity = workload.sensitivity_percent.as_ref()?;
    let slowed = format!(
        "{}: {} slower beside a polluter of the whole cache",
        workload.name,
        sensitivity.text("%")
    );
    if sensitivity.value >= SENSITIVE_PERCENT && sensitivity.low >= INSENSITIVE_PERCENT {
        return Some((Locality::Moderate, slowed));
    }
    let misses = workload.llc_miss_percent.as_ref()?;
    if sensitivity.value >= INSENSITIVE_PERCENT {
        return None;
    }
    let class = if misses.value >= STREAMING_MISS_PERCENT {
        Locality::Weak
    } else {
        Locality::Strong
    };
    Some((
        class,
        format!(
            "{slowed}, and {} of its loads miss the last-level cache",
            misses.text("%")
        ),
    ))
}

/// The shared cache: who lives from it, and who streams beside.
pub(super) fn cache(facts: &Facts) -> Vec<Advice> {
    let classes: Vec<(&Workload, Locality, String)> = facts
        .workloads
        .iter()
        .filter_map(|workload| {
            let (class, evidence) = locality(workload)?;
            Some((workload, class, evidence))
        })
        .collect();
    let of = |class: Locality| classes.iter().filter(move |(_, found, _)| *found == class);
    let mut sensitive: Vec<_> = of(Locality::Moderate).collect();
    if sensitive.is_empty() {
        return Vec::new();
    }
    let stake = |workload: &Workload| {
        workload
            .sensitivity_percent
            .as_ref()
            .map_or(0.0, |figure| figure.value)
    };
    sensitive.sort_by(|a, b| stake(b.0).total_cmp(&stake(a.0)));
    let weak: Vec<_> = of(Locality::Weak).collect();
    let cache = facts
        .machine
        .llc_bytes
        .as_ref()
        .map_or_else(String::new, |bytes| {
            let mib = Figure {
                value: bytes.value / MIB,
                low: bytes.low / MIB,
                high: bytes.high / MIB,
                ..bytes.clone()
            };
            format!("; the cache is effectively {}", mib.text("MiB"))
        });
    let figures = |workloads: &[&(&Workload, Locality, String)]| {
        let figures: Vec<&Figure> = workloads
            .iter()
            .flat_map(|(workload, class, _)| {
                // Misses decide only where the slow-down does not.
                let misses = workload.llc_miss_percent.as_ref();
                let misses = misses.filter(|_| *class != Locality::Moderate);
                [workload.sensitivity_percent.as_ref(), misses]
            })
            .flatten()
            .collect();
        label_of(&figures)
    };
    if weak.is_empty() {
        return sensitive
            .into_iter()
            .map(|&(workload, _, ref evidence)| Advice {
                kind: Kind::CacheShare,
                subject: workload.name.clone(),
                evidence: format!("{evidence}{cache}"),
                command: apart(facts.machine.resctrl, workload.host),
                stake_percent: Some(stake(workload)),
                label: workload
                    .sensitivity_percent
                    .as_ref()
                    .map_or(Label::Measured, |figure| label_of(&[figure])),
            })
            .collect();
    }
    let all: Vec<_> = sensitive.iter().chain(&weak).copied().collect();
    let names = |list: &[&(&Workload, Locality, String)]| {
        list.iter()
            .map(|(workload, ..)| workload.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let said: Vec<String> = all
        .iter()
        .map(|(_, class, evidence)| format!("{evidence} ({class})"))
        .collect();
    vec![Advice {
        kind: Kind::KeepApart,
        subject: format!("{} beside {}", names(&sensitive), names(&weak)),
        evidence: format!("{}{cache}", said.join("; ")),
        command: apart(facts.machine.resctrl, sensitive[0].0.host),
        stake_percent: Some(stake(sensitive[0].0)),
        label: figures(&all),
    }]
}

const MIB: f64 = 1024.0 * 1024.0;

/// The command that keeps streams out of the cache, or beside each other only. Where nobody looked for resctrl, `plan` will: it
/// says what it finds and changes nothing.
fn apart(resctrl: Option<bool>, host: Host) -> String {
    match (resctrl, host) {
        (Some(true) | None, _) => "corun partition plan".to_owned(),
        (Some(false), Host::Server) => {
            format!(
                "{PROXY}  # no resctrl here: a user of their own for queries that stream, with pool_size = 1"
            )
        }
        (Some(false), Host::Embedded) => {
            "corun-lab demo --parts analytic  # no resctrl here: co-scheduling by locality".to_owned()
        }
    }
}

/// The least concurrency whose rate is as good as the best.
fn knee(rates: &[(&Point, &Figure)]) -> Option<usize> {
    let best = rates
        .iter()
        .map(|(_, rate)| rate.value)
        .fold(f64::NEG_INFINITY, f64::max);
    rates
        .iter()
        .position(|(_, rate)| rate.value >= best * (1.0 - RATE_FLAT_PERCENT / 100.0))
}

/// The share of a query's ready time that it waits for a CPU, in percent.
fn run_delay_share(point: &Point) -> Option<f64> {
    let delay = point.run_delay_us_per_query.as_ref()?.value;
    let cpu = point.cpu_us_per_query.as_ref()?.value;
    (delay + cpu > 0.0).then(|| 100.0 * delay / (delay + cpu))
}

/// More queries at once than raise the rate. A rate that only stays level is no reason: where queries wait for locks or the disk,
/// a smaller pool gains nothing. So queries must be seen to compete for CPUs, or the rate to fall.
pub(super) fn over_subscription(workload: &Workload) -> Option<Advice> {
    let mut rates: Vec<(&Point, &Figure)> = workload
        .points
        .iter()
        .filter_map(|point| Some((point, point.queries_per_s.as_ref()?)))
        .collect();
    rates.sort_by_key(|(point, _)| point.concurrency);
    let (knee_point, knee_rate) = rates[knee(&rates)?];
    let (last, last_rate) = *rates.last()?;
    if last.concurrency <= knee_point.concurrency {
        return None;
    }
    let lost_percent = 100.0 * (knee_rate.value / last_rate.value - 1.0);
    let falls = last_rate.high < knee_rate.low && lost_percent >= RATE_FLAT_PERCENT;
    let share = run_delay_share(last);
    let delayed = share.is_some_and(|share| share >= RUN_DELAY_SHARE_PERCENT);
    let switched = last
        .involuntary_switches_per_query
        .as_ref()
        .is_some_and(|switches| switches.value >= INVOLUNTARY_SWITCHES);
    if !(falls || delayed || switched) {
        return None;
    }
    let mut figures = vec![knee_rate, last_rate];
    let mut evidence = format!(
        "{} queries/s at concurrency {}, {} at {}",
        knee_rate.text(""),
        knee_point.concurrency,
        last_rate.text(""),
        last.concurrency
    );
    if let (Some(before), Some(after)) = (&knee_point.ms_per_query, &last.ms_per_query) {
        evidence.push_str(&format!(
            "; a query takes {} ms there and {} ms here",
            before.text(""),
            after.text("")
        ));
    }
    if let (true, Some(share), Some(delay)) = (delayed, share, &last.run_delay_us_per_query) {
        figures.push(delay);
        evidence.push_str(&format!(
            "; {} % of a query's ready time is waiting for a CPU, {}",
            digits(share),
            delay.text("us")
        ));
    }
    if let (true, Some(switches)) = (switched, &last.involuntary_switches_per_query) {
        figures.push(switches);
        evidence.push_str(&format!(
            "; taken from its CPU {} times a query",
            switches.text("")
        ));
    }
    let command = match workload.host {
        Host::Server => format!("{PROXY}  # default_pool_size = {}", knee_point.concurrency),
        Host::Embedded => format!("corun-lab demo --clients {}", knee_point.concurrency),
    };
    Some(Advice {
        kind: Kind::OverSubscription,
        subject: workload.name.clone(),
        evidence,
        command,
        stake_percent: Some(lost_percent.max(0.0)),
        label: label_of(&figures),
    })
}

/// The clearest gain and the clearest loss over all concurrencies: a workload may have both.
pub(super) fn smt(workload: &Workload) -> Vec<Advice> {
    let clear = |ratio: &&super::SmtRatio, gain: bool| {
        let figure = &ratio.ratio;
        if gain {
            figure.value >= 1.0 + SMT_PERCENT / 100.0 && figure.low > 1.0
        } else {
            figure.value <= 1.0 - SMT_PERCENT / 100.0 && figure.high < 1.0
        }
    };
    let by_size = |a: &&super::SmtRatio, b: &&super::SmtRatio| a.ratio.value.total_cmp(&b.ratio.value);
    let gain = workload
        .smt
        .iter()
        .filter(|ratio| clear(ratio, true))
        .max_by(by_size);
    let loss = workload
        .smt
        .iter()
        .filter(|ratio| clear(ratio, false))
        .min_by(by_size);
    let advice = |ratio: &super::SmtRatio, kind: Kind, settings: &str| Advice {
        kind,
        subject: workload.name.clone(),
        evidence: format!(
            "with SMT {} times the queries/s at concurrency {}",
            ratio.ratio.text(""),
            ratio.concurrency
        ),
        command: match workload.host {
            Host::Server => format!("{PROXY}  # {settings}"),
            Host::Embedded if kind == Kind::SmtGain => {
                "corun-lab bench memory-latency --placement siblings  # which operators gain".to_owned()
            }
            Host::Embedded => {
                "corun-lab bench memory-latency --placement cores  # which operators lose".to_owned()
            }
        },
        stake_percent: Some(100.0 * (ratio.ratio.value - 1.0).abs()),
        label: label_of(&[&ratio.ratio]),
    };
    let gain = gain.map(|ratio| {
        advice(
            ratio,
            Kind::SmtGain,
            "split_placement = \"siblings\", bind_backends = \"on\"",
        )
    });
    let loss = loss.map(|ratio| {
        advice(
            ratio,
            Kind::SmtLoss,
            "event_loops = one for each core, bind_backends = \"on\"",
        )
    });
    gain.into_iter().chain(loss).collect()
}

/// A query's instructions against the level-one cache.
pub(super) fn instructions(workload: &Workload) -> Option<Advice> {
    let code = workload.code_bytes.as_ref()?;
    let l1i_bytes = workload.l1i_bytes? as f64;
    let loops = |misses: &Figure| misses.value < FETCH_MISS_PERCENT;
    if code.value < l1i_bytes || l1i_bytes == 0.0 || workload.l1i_miss_percent.as_ref().is_some_and(loops) {
        return None;
    }
    let kib = Figure {
        value: code.value / 1024.0,
        low: code.low / 1024.0,
        high: code.high / 1024.0,
        ..code.clone()
    };
    let mut figures = vec![code];
    let mut evidence = format!(
        "a query touches {} of instructions, {} times the level-one cache of {} KiB",
        kib.text("KiB"),
        digits(code.value / l1i_bytes),
        digits(l1i_bytes / 1024.0)
    );
    if let Some(misses) = &workload.l1i_miss_percent {
        figures.push(misses);
        evidence.push_str(&format!("; {} of fetches miss it", misses.text("%")));
    }
    Some(Advice {
        kind: Kind::InstructionFootprint,
        subject: workload.name.clone(),
        evidence,
        command: match workload.host {
            Host::Server => format!("{PROXY}  # cohorts = \"auto\""),
            Host::Embedded => {
                "corun-lab autosteps --help  # teams that switch where the cache is full".to_owned()
            }
        },
        stake_percent: None,
        label: label_of(&figures),
    })
}

/// What was looked at and what was not, where no rule has anything to say.
pub(super) fn nothing(facts: &Facts) -> Option<Advice> {
    let mut seen = Vec::new();
    let mut figures = Vec::new();
    let mut unknown: Vec<&str> = Vec::new();
    let mut miss = |what: &'static str| {
        if !unknown.contains(&what) {
            unknown.push(what);
        }
    };
    for workload in &facts.workloads {
        let name = &workload.name;
        match &workload.sensitivity_percent {
            Some(figure) => {
                seen.push(format!("{name} is {} slower beside a polluter", figure.text("%")));
                figures.push(figure);
            }
            None => miss("sensitivity to the last-level cache"),
        }
        let rates: Vec<&Figure> = workload
            .points
            .iter()
            .filter_map(|point| point.queries_per_s.as_ref())
            .collect();
        match (rates.len(), rates.last()) {
            (2.., Some(rate)) => {
                seen.push(format!("{name} does {} queries/s at most clients", rate.text("")));
                figures.push(rate);
            }
            _ => miss("rate by concurrency"),
        }
        match (&workload.code_bytes, workload.l1i_bytes) {
            (Some(figure), Some(_)) => {
                seen.push(format!(
                    "{name} touches {} of instructions a query",
                    figure.text("bytes")
                ));
                figures.push(figure);
            }
            _ => miss("instruction footprint"),
        }
        if workload.smt.is_empty() {
            miss("gain by SMT");
        }
        for ratio in &workload.smt {
            seen.push(format!(
                "{name} with SMT {} times at concurrency {}",
                ratio.ratio.text(""),
                ratio.concurrency
            ));
            figures.push(&ratio.ratio);
        }
    }
    if seen.is_empty() {
        return None;
    }
    let unknown = if unknown.is_empty() {
        String::new()
    } else {
        format!(". Not known for all: {}", unknown.join(", "))
    };
    let names: Vec<&str> = facts
        .workloads
        .iter()
        .map(|workload| workload.name.as_str())
        .collect();
    Some(Advice {
        kind: Kind::Nothing,
        subject: names.join(", "),
        evidence: format!("{}{unknown}", seen.join("; ")),
        command: String::new(),
        stake_percent: None,
        label: label_of(&figures),
    })
}
