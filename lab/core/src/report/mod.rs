//! Self-contained HTML reports: plots as inline SVG, light and dark, readable on a phone.
//!
//! Order of calls: build a plot ([`bar::BarPlot`], [`line::LinePlot`], [`box_plot::BoxPlot`],
//! [`cumulative::CumulativePlot`]) from numbers, wrap it
//! in a [`page::Section`], collect sections in a [`page::Page`], call [`page::Page::render`]. Everything here is
//! pure text in, text out: no file is read or written, no clock is asked, and the page loads nothing from elsewhere.
//!
//! It is not a plotting library: axes, ticks and marks cover what corun's own reports show, nothing more.

pub mod bar;
pub mod box_plot;
pub mod cumulative;
pub mod finding;
pub mod line;
pub mod page;
pub mod scale;
mod style;
mod svg;
pub mod text;

use page::Table;

/// A plot that can be drawn at any width; the page embeds one drawing for desks and one for phones, because an SVG
/// scaled down to a phone would shrink its text below reading size.
pub trait Plot {
    /// The SVG element, `width` CSS pixels wide.
    fn render(&self, width: f64) -> String;

    /// What is drawn, as a table for a terminal.
    fn table(&self) -> Table;
}
