//! A small SVG writer: shapes with CSS classes, so that colours follow the page's light or dark theme.

use std::fmt::Write;

/// Where a text hangs on its anchor point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG element under construction.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Height of the labels in CSS pixels; the style sheet sets the same size.
pub(super) const TEXT_SIZE: f64 = 12.0;

/// A generous guess of how wide `text` is; proportional fonts cannot be measured without the reader's machine.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * TEXT_SIZE * 0.58
}

/// `text` safe inside HTML and SVG, in elements and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Svg {
        Svg {
            width,
            height,
            body: String::new(),
        }
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    /// A rectangle with slightly rounded corners and a tooltip.
    pub(super) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), tip: &str) {
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" rx="2"><title>{}</title></rect>"#,
            width.max(0.0),
            height.max(0.0),
            escape(tip)
        );
    }

    /// A dot with a tooltip.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), tip: &str) {
        let _ = write!(
            self.body,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="4"><title>{}</title></circle>"#,
            escape(tip)
        );
    }

    /// An open line through `points`.
    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut list = String::new();
        for (x, y) in points {
            let _ = write!(list, "{x:.1},{y:.1} ");
        }
        let _ = write!(
            self.body,
            r#"<polyline class="{class}" points="{}"/>"#,
            list.trim_end()
        );
    }

    /// A text whose baseline starts, ends or is centred at the point.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
            escape(text)
        );
    }

    /// The finished element; `label` is what a screen reader says.
    pub(super) fn finish(self, label: &str) -> String {
        format!(
            r#"<svg role="img" aria-label="{}" width="{w:.0}" height="{h:.0}" viewBox="0 0 {w:.0} {h:.0}">{}</svg>"#,
            escape(label),
            self.body,
            w = self.width,
            h = self.height,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_labels_is_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("label", (0.0, 0.0), Anchor::Start, "<b>&\"x\"");
        let drawn = svg.finish("a<b");
        assert!(drawn.contains("&lt;b&gt;&amp;&quot;x&quot;"), "{drawn}");
        assert!(drawn.contains(r#"aria-label="a&lt;b""#), "{drawn}");
    }

    #[test]
    fn negative_sizes_are_drawn_as_nothing() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.rect("bar", (0.0, 0.0), (-3.0, 2.0), "t");
        assert!(svg.finish("x").contains(r#"width="0.0""#));
    }
}
