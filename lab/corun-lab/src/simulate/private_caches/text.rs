//! Tables for people of what `corun-lab simulate private-caches` found.

use std::io::Write;

use anyhow::Result;
use corun_cachesim::private_caches::cost::{cycles_of_part, cycles_per_query, gain_percent, misses_to_save};
use corun_cachesim::private_caches::run::{Counted, Dispatch, Region};
use corun_cachesim::private_caches::study::Split;
use corun_cli::out;
use corun_model::units::Bytes;
use lab_postgres::key_ranges_simulated::rows::{baseline, l2_percent, paper_gain, scheduler};
use lab_postgres::key_ranges_simulated::{Simulated, Study};

/// Steps of the paper's Best Seller: 3,333 orders of three lines.
const PAPER_STEPS: usize = 10_000;

/// The line above every table.
fn heading(study: &Study) -> String {
    let (setting, platform) = (&study.setting, &study.setting.platform);
    format!(
        "simulated: {} ({} cores x {} threads, L1-D {}, L2 {}), {}, {} clients",
        platform.name,
        platform.cores,
        platform.threads_per_core,
        platform.l1d.size(),
        platform.l2.size(),
        setting.kind.name(),
        setting.clients,
    )
}

fn side_name(simulated: &Simulated) -> String {
    let side = simulated.side;
    match (side.dispatch, side.split) {
        (Dispatch::Os(_), _) => format!("os {}", scheduler(side)),
        (_, Split::Mixed) => side.dispatch.name().to_owned(),
        (_, split) => format!("{} {}", side.dispatch.name(), split.name()),
    }
}

/// A table of one kind of queries; none if there were none.
fn table(out: &mut impl Write, study: &Study, title: &str, of: fn(&Simulated) -> &Counted) -> Result<()> {
    let costs = &study.setting.platform.costs;
    let before = baseline(study).map(of).filter(|counted| counted.queries > 0.0);
    let mut rows = Vec::new();
    for simulated in &study.sides {
        let counted = of(simulated);
        if counted.queries <= 0.0 {
            continue;
        }
        let all = counted.all();
        let count = |count: u64| format!("{:.1}", counted.per_query(count));
        let mut row = vec![side_name(simulated)];
        row.extend(
            Region::ALL
                .iter()
                .zip(counted.regions)
                .map(|(_, misses)| count(misses.l2)),
        );
        row.extend([
            count(all.l2),
            format!("{:.2} %", l2_percent(counted)),
            count(all.l1),
            count(all.invalidated),
            format!("{:.0}", cycles_per_query(counted, costs)),
            before.map_or_else(
                || "-".to_owned(),
                |before| format!("{:+.1} %", gain_percent(before, counted, costs)),
            ),
        ]);
        rows.push(row);
    }
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}\n")?;
    let mut headings = vec!["dispatch"];
    headings.extend(Region::ALL.map(Region::name));
    headings.extend([
        "L2 misses",
        "of touches",
        "L1 misses",
        "invalidated",
        "cycles",
        "gain at most",
    ]);
    out::table(out, &headings, 10, &rows)?;
    Ok(())
}

pub(super) fn print(study: &Study) -> Result<()> {
    let mut out = out::stdout();
    writeln!(out, "{}", heading(study))?;
    writeln!(
        out,
        "database {}, {} for each core: {:.1} times its L2",
        Bytes(study.database_bytes),
        Bytes(study.range_bytes()),
        study.range_bytes() as f64 / study.setting.platform.l2.size().0 as f64
    )?;
    table(
        &mut out,
        study,
        "L2 misses of a query, by whose lines they are",
        |simulated| &simulated.outcome.simple,
    )?;
    table(
        &mut out,
        study,
        "the same of a step of Best Seller",
        |simulated| &simulated.outcome.step,
    )?;
    let ends = "the same of the begin and end of a Best Seller, or of a part";
    table(&mut out, study, ends, |simulated| &simulated.outcome.ends)?;
    parts(&mut out, study)?;
    if let Some(text) = conclusion(study) {
        writeln!(out, "\n{text}")?;
    }
    out.flush()?;
    Ok(())
}

/// How long a Best Seller as long as the paper's takes, whole and in parts.
fn parts(out: &mut impl Write, study: &Study) -> Result<()> {
    let costs = &study.setting.platform.costs;
    // A long Best Seller may not have begun while it was counted; its ends are as those of any other side.
    let mut any_ends = study.sides.iter().map(|simulated| &simulated.outcome.ends);
    let Some(any_ends) = any_ends.rfind(|ends| ends.queries > 0.0) else {
        return Ok(());
    };
    let of = |simulated: &Simulated| {
        let parts = study.setting.parts(simulated.side.split);
        let ends = &simulated.outcome.ends;
        let ends = if ends.queries > 0.0 { ends } else { any_ends };
        (
            parts,
            cycles_of_part(ends, &simulated.outcome.step, costs, PAPER_STEPS, parts),
        )
    };
    let mut apart = study
        .sides
        .iter()
        .filter(|simulated| simulated.side.split != Split::Mixed);
    let Some((_, whole)) = apart
        .clone()
        .find(|simulated| simulated.side.split == Split::Whole)
        .map(of)
    else {
        return Ok(());
    };
    let rows: Vec<Vec<String>> = apart
        .by_ref()
        .map(|simulated| {
            let (parts, cycles) = of(simulated);
            vec![
                side_name(simulated),
                parts.to_string(),
                format!("{:.1}", cycles / 1e6),
                format!("{:.2}", whole / cycles),
                format!("{:.1}", cycles * parts as f64 / 1e6),
            ]
        })
        .collect();
    writeln!(
        out,
        "\na Best Seller of {PAPER_STEPS} steps, in millions of cycles\n"
    )?;
    out::table(
        out,
        &["dispatch", "parts", "of one part", "times faster", "of all parts"],
        4,
        &rows,
    )?;
    Ok(())
}

/// What the paper's gain would need, and what ranges save.
fn conclusion(study: &Study) -> Option<String> {
    let platform = &study.setting.platform;
    let before = baseline(study).map(|simulated| simulated.outcome.simple)?;
    let found = |dispatch: Dispatch| {
        let mut sides = study.sides.iter();
        sides
            .find(|simulated| simulated.side.dispatch == dispatch && simulated.side.split == Split::Mixed)
            .map(|simulated| simulated.outcome.simple)
    };
    let range = found(Dispatch::Range)?;
    let gain = paper_gain(&platform.name);
    let l2 = |counted: &Counted| counted.per_query(counted.all().l2);
    let needed = misses_to_save(&before, &platform.costs, gain);
    let mut text = format!(
        "A gain of {gain} % (paper 004) would need {needed:.0} of {:.0} L2 misses of a query to become hits. Ranges save {:.0}",
        l2(&before),
        l2(&before) - l2(&range),
    );
    if let Some(random) = found(Dispatch::Random) {
        text += &format!(
            ": bound backends {:.0}, keys {:.0}",
            l2(&before) - l2(&random),
            l2(&random) - l2(&range)
        );
    }
    Some(text + " (simulated).")
}

pub(super) fn print_sweep(studies: &[Study]) -> Result<()> {
    let mut out = out::stdout();
    if let Some(study) = studies.first() {
        writeln!(out, "{}\n", heading(study))?;
    }
    let mut rows = Vec::new();
    for study in studies {
        let costs = &study.setting.platform.costs;
        let [os, random, range] =
            [0, 1, 2].map(|at: usize| study.sides.get(at).map(|side| side.outcome.simple));
        let (Some(os), Some(random), Some(range)) = (os, random, range) else {
            continue;
        };
        let misses = |counted: &Counted| format!("{:.1}", counted.per_query(counted.all().l2));
        let keyed = |counted: &Counted| {
            format!(
                "{:.1}",
                counted.per_query(counted.regions[Region::Keyed as usize].l2)
            )
        };
        rows.push(vec![
            Bytes(study.range_bytes()).to_string(),
            format!(
                "{:.2}",
                study.range_bytes() as f64 / study.setting.platform.l2.size().0 as f64
            ),
            misses(&os),
            misses(&random),
            misses(&range),
            keyed(&random),
            keyed(&range),
            format!("{:+.1} %", gain_percent(&random, &range, costs)),
            format!("{:+.1} %", gain_percent(&os, &range, costs)),
        ]);
    }
    let headings = [
        "range of a core",
        "of its L2",
        "os",
        "random",
        "range",
        "keyed, random",
        "keyed, range",
        "range on random",
        "range on os",
    ];
    out::table(&mut out, &headings, 9, &rows)?;
    writeln!(out, "\nL2 misses of a query; gains at most (simulated).")?;
    out.flush()?;
    Ok(())
}
