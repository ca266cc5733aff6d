//! The page around the plots: headline tiles, sections, tables, facts about the machine.

use std::fmt::Write;

use super::Plot;
use super::style::{STYLE, class};
use super::svg::escape;

/// Width of the drawing for desks, in CSS pixels: what the page's column leaves.
const WIDE: f64 = 788.0;
/// Width of the drawing for phones: a 360 pixel screen without margins and padding.
const NARROW: f64 = 318.0;

/// One big number at the top.
#[derive(Debug, Clone)]
pub struct Tile {
    /// The number, with its unit.
    pub value: String,
    /// What it is.
    pub name: String,
    /// How sure it is: the spread, the control.
    pub note: String,
}

/// A table; cells are plain text.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Column headings.
    pub headings: Vec<String>,
    /// How many columns, from the right, hold numbers and are aligned right.
    pub numeric_columns: usize,
    /// Rows of as many cells as there are headings.
    pub rows: Vec<Vec<String>>,
}

/// A titled drawing within a section.
pub struct Figure {
    /// One line above the plot; empty for none.
    pub caption: String,
    /// The plot.
    pub plot: Box<dyn Plot>,
}

/// An item of a list whose texts are too long for a table: a bold line, sentences, and a command to copy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    /// The bold line.
    pub heading: String,
    /// Sentences below it, a line each.
    pub text: Vec<String>,
    /// A command, in a fixed-width font; empty for none.
    pub command: String,
}

/// A card: heading, text, and then whatever of legend, plots and table it has.
#[derive(Default)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// A list below them.
    pub entries: Vec<Entry>,
    /// Colours and their names: (series, name).
    pub legend: Vec<(usize, String)>,
    /// Plots, one below the other.
    pub figures: Vec<Figure>,
    /// A table below them.
    pub table: Option<Table>,
}

impl Section {
    /// The card that says where a run's numbers come from: name and value of each fact about machine, build and date.
    pub fn machine(facts: &[(String, String)]) -> Section {
        Section {
            heading: "The machine and the run".to_owned(),
            table: Some(Table {
                headings: vec![String::new(), String::new()],
                numeric_columns: 0,
                rows: facts
                    .iter()
                    .map(|(name, value)| vec![name.clone(), value.clone()])
                    .collect(),
            }),
            ..Section::default()
        }
    }
}

/// A whole report.
#[derive(Default)]
pub struct Page {
    /// Title and main heading.
    pub title: String,
    /// One or two sentences under it.
    pub lead: String,
    /// Big numbers.
    pub tiles: Vec<Tile>,
    /// The cards, in reading order.
    pub sections: Vec<Section>,
    /// The last line: how the page came about.
    pub footer: String,
}

impl Page {
    /// The page as one HTML file that needs nothing else.
    pub fn render(&self) -> String {
        let mut html = String::with_capacity(64 * 1024);
        let title = escape(&self.title);
        let _ = write!(
            html,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p class=\"lead\">{}</p>\n",
            escape(&self.lead)
        );
        if !self.tiles.is_empty() {
            html.push_str("<div class=\"tiles\">\n");
            for tile in &self.tiles {
                let _ = writeln!(
                    html,
                    "<div class=\"tile\"><b>{}</b><span class=\"name\">{}</span><span>{}</span></div>",
                    escape(&tile.value),
                    escape(&tile.name),
                    escape(&tile.note)
                );
            }
            html.push_str("</div>\n");
        }
        for section in &self.sections {
            section.render(&mut html);
        }
        let _ = write!(
            html,
            "<footer>{}</footer>\n</main>\n</body>\n</html>\n",
            escape(&self.footer)
        );
        html
    }
}

impl Section {
    fn render(&self, html: &mut String) {
        let _ = write!(html, "<section>\n<h2>{}</h2>\n", escape(&self.heading));
        for paragraph in &self.text {
            let _ = writeln!(html, "<p>{}</p>", escape(paragraph));
        }
        for entry in &self.entries {
            let _ = write!(html, "<div class=\"entry\"><b>{}</b>", escape(&entry.heading));
            for line in &entry.text {
                let _ = write!(html, "<p>{}</p>", escape(line));
            }
            if !entry.command.is_empty() {
                let _ = write!(html, "<code>{}</code>", escape(&entry.command));
            }
            html.push_str("</div>\n");
        }
        if !self.legend.is_empty() {
            html.push_str("<ul class=\"legend\">");
            for (series, name) in &self.legend {
                let _ = write!(
                    html,
                    "<li><i class=\"{}\"></i>{}</li>",
                    class("key", *series),
                    escape(name)
                );
            }
            html.push_str("</ul>\n");
        }
        for figure in &self.figures {
            html.push_str("<figure>");
            if !figure.caption.is_empty() {
                let _ = write!(html, "<figcaption>{}</figcaption>", escape(&figure.caption));
            }
            let _ = writeln!(
                html,
                "<div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>",
                figure.plot.render(WIDE),
                figure.plot.render(NARROW)
            );
        }
        if let Some(table) = &self.table {
            table.render(html);
        }
        html.push_str("</section>\n");
    }
}

impl Table {
    fn render(&self, html: &mut String) {
        let first_number = self.headings.len().saturating_sub(self.numeric_columns);
        let row = |html: &mut String, tag: &str, cells: &[String]| {
            html.push_str("<tr>");
            for (index, cell) in cells.iter().enumerate() {
                let class = if index >= first_number {
                    " class=\"number\""
                } else {
                    ""
                };
                let _ = write!(html, "<{tag}{class}>{}</{tag}>", escape(cell));
            }
            html.push_str("</tr>\n");
        };
        html.push_str("<div class=\"scroll\"><table>\n");
        if self.headings.iter().any(|heading| !heading.is_empty()) {
            html.push_str("<thead>");
            row(html, "th", &self.headings);
            html.push_str("</thead>\n");
        }
        html.push_str("<tbody>\n");
        for cells in &self.rows {
            row(html, "td", cells);
        }
        html.push_str("</tbody></table></div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::bar::{BarPlot, BarRow};
    use crate::report::scale::Spacing;

    fn page() -> Page {
        Page {
            title: "corun <demo>".to_owned(),
            lead: "measured here".to_owned(),
            tiles: vec![Tile {
                value: "1.5x".to_owned(),
                name: "faster".to_owned(),
                note: "1.4..1.6".to_owned(),
            }],
            sections: vec![Section {
                heading: "Queries".to_owned(),
                legend: vec![(0, "stock".to_owned()), (1, "corun".to_owned())],
                figures: vec![Figure {
                    caption: String::new(),
                    plot: Box::new(BarPlot {
                        label: "bars".to_owned(),
                        axis: "x".to_owned(),
                        suffix: "x".to_owned(),
                        base: 1.0,
                        spacing: Spacing::Linear,
                        rows: vec![BarRow {
                            label: "Q".to_owned(),
                            value: 2.0,
                            spread: None,
                            series: 1,
                        }],
                    }),
                }],
                table: Some(Table {
                    headings: vec!["side".to_owned(), "ms".to_owned()],
                    numeric_columns: 1,
                    rows: vec![vec!["stock".to_owned(), "12".to_owned()]],
                }),
                ..Section::default()
            }],
            footer: "end".to_owned(),
        }
    }

    #[test]
    fn the_page_loads_nothing_and_escapes_text() {
        let html = page().render();
        assert!(html.contains("corun &lt;demo&gt;"));
        for outside in [
            "http://", "https://", "<script", "<link", "url(", "@import", "src=",
        ] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn entries_have_their_commands() {
        let page = Page {
            sections: vec![Section {
                entries: vec![Entry {
                    heading: "1. a < b".to_owned(),
                    text: vec!["because & so".to_owned()],
                    command: "corun topology".to_owned(),
                }],
                ..Section::default()
            }],
            ..Page::default()
        };
        let html = page.render();
        assert!(
            html.contains("<b>1. a &lt; b</b><p>because &amp; so</p><code>corun topology</code></div>"),
            "{html}"
        );
    }

    #[test]
    fn plots_come_in_two_widths_and_numbers_are_aligned() {
        let html = page().render();
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(html.contains("<td class=\"number\">12</td>"));
        assert!(html.contains("<td>stock</td>"));
        assert!(html.contains("prefers-color-scheme: dark"));
    }
}
