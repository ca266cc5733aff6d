//! The report of `llc`: what its older pages left out.

use super::*;

#[test]
fn what_only_the_axis_of_colours_has_is_drawn() {
    let rows = recorded(&["records/2026-11-21-vm/llc-sim.jsonl"]);
    let page = page("llc", &rows, &[], false).expect("a page");
    let section = page
        .sections
        .iter()
        .find(|section| section.heading == "Simulated: figure 5");
    let figures = section.map_or(&[][..], |section| &section.figures);
    let drawn: String = figures.iter().map(|figure| figure.plot.render(788.0)).collect();
    for tip in [
        "plq5:hash beside plq25:index, colours the weak query may fill 4: 1.28 slow-down",
        "plq5:hash | plq25:index, 4 colours, paper: 1.05x",
        "plq5:hash beside plq25:index, ways of 16 the weak query may fill 4: 1.04 slow-down",
    ] {
        assert!(drawn.contains(tip), "{tip}");
    }
}
