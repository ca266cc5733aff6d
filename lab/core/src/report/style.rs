//! The style sheet of every report: system fonts, CSS variables for light and dark, one column that fits a phone.
//!
//! Colours of series 0 and 1 (grey-violet against teal in light, both lifted in dark) stay apart for the common kinds
//! of colour blindness and in grey print; further series follow for later plots.

/// The whole style sheet.
pub(super) const STYLE: &str = r"
:root {
  color-scheme: light dark;
  --page: #fbfbf9; --card: #ffffff; --ink: #1b1f24; --soft: #5b6470; --rule: #e3e4e0; --grid: #ececea;
  --series-0: #8a86a3; --series-1: #0f8b8d; --series-2: #c8702a; --series-3: #4f6fc4;
  --series-4: #a63d6b; --series-5: #5b8c2a;
  --good: #0b6e4f; --bad: #a4262c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1c2024; --ink: #e8eaec; --soft: #a3abb5; --rule: #30363c; --grid: #2a2f35;
    --series-0: #a7a3c2; --series-1: #35c2bd; --series-2: #f0a060; --series-3: #8fa8f0;
    --series-4: #e284ac; --series-5: #a3d06a;
    --good: #58cfa0; --bad: #ff8a8a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif;
}
main { max-width: 860px; margin: 0 auto; padding: 28px 16px 56px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; line-height: 1.3; margin: 0 0 .5rem; }
p { margin: 0 0 .7rem; max-width: 68ch; }
.lead { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 18px; margin: 18px 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 14px 16px; }
.tile b { display: block; font-size: 1.75rem; line-height: 1.15; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { display: block; color: var(--soft); font-size: .86rem; line-height: 1.4; }
.tile span.name { color: var(--ink); }
.entry { border-top: 1px solid var(--rule); padding: 10px 0 8px; } .entry b { display: block; margin-bottom: 2px; font-weight: 600; }
.entry p { margin: 0 0 .3rem; font-size: .92rem; color: var(--soft); max-width: none; }
.entry code { display: block; background: var(--page); border: 1px solid var(--rule); border-radius: 6px; padding: 6px 9px; margin: 4px 0; white-space: pre-wrap; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 .6rem; padding: 0; list-style: none; font-size: .88rem; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
.key-0 { background: var(--series-0); } .key-1 { background: var(--series-1); }
.key-2 { background: var(--series-2); } .key-3 { background: var(--series-3); }
.key-4 { background: var(--series-4); } .key-5 { background: var(--series-5); }
.key-again { background-image: repeating-linear-gradient(90deg, transparent 0 3px, var(--card) 3px 5px); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 6px 12px 6px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--soft); font-weight: 550; }
td.number, th.number { text-align: right; white-space: nowrap; padding: 6px 0 6px 12px; }
tr:last-child td { border-bottom: 0; }
footer { color: var(--soft); font-size: .86rem; margin-top: 26px; }
code { font: .92em ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', monospace; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
figure { margin: 10px 0 0; }
figcaption { color: var(--soft); font-size: .88rem; margin-bottom: 4px; }
svg { display: block; max-width: 100%; height: auto; font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif; }
svg.fill { width: 100%; }
.narrow { display: none; }
@media (max-width: 640px) {
  main { padding: 18px 10px 40px; } section { padding: 14px 10px; }
  .wide { display: none; } .narrow { display: block; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; } .tile { padding: 10px 12px; } .tile b { font-size: 1.4rem; }
  table { font-size: .82rem; } th, td { padding-right: 8px; } td.number, th.number { padding-left: 8px; }
}
svg text { fill: var(--ink); } svg .tick, svg .axis-name { fill: var(--soft); } svg .axis-name { font-size: 12px; }
svg .value { font-variant-numeric: tabular-nums; }
svg .halo { paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
svg .grid { stroke: var(--grid); } svg .base { stroke: var(--soft); } svg .whisker { stroke: var(--ink); stroke-width: 1.3; }
svg .median { stroke: var(--card); stroke-width: 2.5; }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .mark { fill: var(--soft); opacity: .45; }
svg .fill-0 { fill: var(--series-0); } svg .fill-1 { fill: var(--series-1); }
svg .fill-2 { fill: var(--series-2); } svg .fill-3 { fill: var(--series-3); }
svg .fill-4 { fill: var(--series-4); } svg .fill-5 { fill: var(--series-5); }
svg .line-0 { stroke: var(--series-0); } svg .line-1 { stroke: var(--series-1); }
svg .line-2 { stroke: var(--series-2); } svg .line-3 { stroke: var(--series-3); }
svg .line-4 { stroke: var(--series-4); } svg .line-5 { stroke: var(--series-5); }
svg .dot-0 { fill: var(--series-0); } svg .dot-1 { fill: var(--series-1); }
svg .dot-2 { fill: var(--series-2); } svg .dot-3 { fill: var(--series-3); }
svg .dot-4 { fill: var(--series-4); } svg .dot-5 { fill: var(--series-5); }
svg .ring-0 { fill: var(--card); stroke: var(--series-0); stroke-width: 2; }
svg .ring-1 { fill: var(--card); stroke: var(--series-1); stroke-width: 2; }
svg .ring-2 { fill: var(--card); stroke: var(--series-2); stroke-width: 2; }
svg .ring-3 { fill: var(--card); stroke: var(--series-3); stroke-width: 2; }
svg .ring-4 { fill: var(--card); stroke: var(--series-4); stroke-width: 2; }
svg .ring-5 { fill: var(--card); stroke: var(--series-5); stroke-width: 2; }
svg .line-again { stroke-dasharray: 6 4; } svg .dot-again { fill-opacity: .35; } svg .fill-again { fill-opacity: .55; } svg .ring-again { stroke-dasharray: 3 2; }
@media print { section, .tile { break-inside: avoid; } }
";

/// Series colours the style sheet knows.
const SERIES_COLOURS: usize = 6;

/// The classes of a mark (`line`, `dot`, `fill`, `ring`, `key`) of a series. Beyond the last colour they begin again, with dashes and
/// paler areas.
pub(super) fn class(mark: &str, series: usize) -> String {
    let class = format!("{mark}-{}", series % SERIES_COLOURS);
    if series < SERIES_COLOURS {
        return class;
    }
    format!("{class} {mark}-again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_begin_again_with_dashes_and_all_are_in_the_style_sheet() {
        assert_eq!(
            (class("line", 5), class("line", 7)),
            ("line-5".to_owned(), "line-1 line-again".to_owned())
        );
        for mark in ["line", "dot", "fill", "ring", "key"] {
            for series in 0..8 {
                for class in class(mark, series).split(' ') {
                    assert!(STYLE.contains(&format!(".{class} ")), "{class}");
                }
            }
        }
    }
}
