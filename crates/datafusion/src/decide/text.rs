//! A decision in words, for `EXPLAIN`.

use crate::decide::decision::{Decision, JoinOrder, PipelineReport};
use corun_model::cache::locality::{Footprint, Locality, Thresholds};
use corun_model::cache::pipeline::PipelineEnd;
use corun_model::units::Bytes;
use std::fmt::Write;

/// Class, `S` and `C` and their relation, pipelines, tables, the forms of the plan and why one was taken; lines of text.
pub fn decision_text(decision: &Decision, thresholds: &Thresholds) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_decision(&mut text, decision, thresholds);
    text
}

fn write_decision(text: &mut String, decision: &Decision, thresholds: &Thresholds) -> std::fmt::Result {
    writeln!(
        text,
        "class: {}: {}",
        decision.class,
        relation(decision.footprint, decision.cache, decision.class, thresholds)
    )?;
    writeln!(text, "expected: {} alone", milliseconds(decision.expected_ns))?;
    writeln!(text, "pipelines, in the order they run:")?;
    for (number, pipeline) in decision.pipelines.iter().enumerate() {
        let PipelineReport {
            rows,
            footprint,
            class,
            end,
        } = pipeline;
        let end = match end {
            PipelineEnd::Build => "a join's table",
            PipelineEnd::Aggregate => "groups",
            PipelineEnd::Sort => "a sort",
            PipelineEnd::Merge => "a merge",
            PipelineEnd::Result => "the result",
        };
        writeln!(
            text,
            "  {}. {} rows into {end}: {class}, {}",
            number + 1,
            rows.0,
            size(*footprint)
        )?;
    }
    if !decision.tables.is_empty() {
        writeln!(text, "hash tables (* the class rests on):")?;
    }
    for table in &decision.tables {
        let mark = if table.counts { '*' } else { ' ' };
        writeln!(
            text,
            "  {mark} {}: {}, {} rows ({})",
            table.what, table.bytes, table.rows.0, table.from
        )?;
    }
    if !decision.join_orders.is_empty() {
        writeln!(text, "orders of inner joins:")?;
    }
    for JoinOrder { joins, why } in &decision.join_orders {
        writeln!(text, "  {joins}: {why}")?;
    }
    writeln!(text, "forms of the plan (> chosen):")?;
    for (number, form) in decision.alternatives.iter().enumerate() {
        let mark = if number == decision.chosen { '>' } else { ' ' };
        let joins = if form.joins.is_empty() {
            "no joins".to_string()
        } else {
            form.joins.join(", ")
        };
        writeln!(
            text,
            "  {mark} {joins}: cost {}, {}, {}",
            milliseconds(form.cost_ns),
            form.class,
            size(form.footprint)
        )?;
    }
    writeln!(text, "why: {}", decision.why)
}

fn size(footprint: Footprint) -> String {
    match footprint {
        Footprint::Streams => "no tables".into(),
        Footprint::Tables(bytes) => format!("S = {bytes}"),
    }
}

fn milliseconds(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}

/// `S = 12.3 MiB, C/3 = 8 MiB <= S < 3C = 72 MiB`.
fn relation(footprint: Footprint, cache: Bytes, class: Locality, thresholds: &Thresholds) -> String {
    let Footprint::Tables(tables) = footprint else {
        return format!("no hash table in the main pipeline, C = {cache}");
    };
    let third = Bytes((cache.0 as f64 / thresholds.strong_divisor()) as u64);
    let triple = Bytes((cache.0 as f64 * thresholds.weak_factor()) as u64);
    let (third, triple) = (
        format!("C/{} = {third}", thresholds.strong_divisor()),
        format!("{}C = {triple}", thresholds.weak_factor()),
    );
    let order = match class {
        Locality::Strong => format!("S < {third}"),
        Locality::Moderate => format!("{third} <= S < {triple}"),
        Locality::Weak => format!("{triple} <= S"),
    };
    format!("S = {tables}, {order}")
}
