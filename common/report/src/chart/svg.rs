//! SVG as text.

use std::fmt::Write as _;

use crate::html::escape;

/// Which point of a text its position refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextAnchor {
    Start,
    Middle,
    End,
}

impl TextAnchor {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A drawing under construction. Coordinates are pixels of the view box, y downwards.
#[derive(Debug)]
pub(crate) struct Svg {
    text: String,
}

// Writing to a String cannot fail, so the results below are ignored.
impl Svg {
    /// A drawing with a title and a description for screen readers.
    pub(crate) fn new(id: &str, width: f64, height: f64, title: &str, description: &str) -> Self {
        let id = escape(id);
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n",
            escape(title),
            escape(description)
        );
        Self { text }
    }

    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, anchor: TextAnchor, text: &str) {
        let _ = writeln!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\">{}</text>",
            anchor.name(),
            escape(text)
        );
    }

    /// Vertical text, from bottom to top.
    pub(crate) fn upright_text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let _ = writeln!(
            self.text,
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escape(text)
        );
    }

    /// The vertical label of a tick, which ends at this position.
    pub(crate) fn upright_tick(&mut self, x: f64, y: f64, text: &str) {
        let _ = writeln!(
            self.text,
            "<text class=\"tick\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" \
             text-anchor=\"end\">{}</text>",
            escape(text)
        );
    }

    /// Begins a group that extends to [`Self::close_group`].
    pub(crate) fn open_group(&mut self, class: &str) {
        let _ = writeln!(self.text, "<g class=\"{class}\">");
    }

    pub(crate) fn close_group(&mut self) {
        self.text.push_str("</g>\n");
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            self.text,
            "<path class=\"{class}\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub(crate) fn path(&mut self, class: &str, steps: &str) {
        if !steps.is_empty() {
            let _ = writeln!(self.text, "<path class=\"{class}\" d=\"{steps}\"/>");
        }
    }

    /// A filled shape with a tooltip.
    pub(crate) fn shape(&mut self, class: &str, steps: &str, hint: &str) {
        let _ = writeln!(
            self.text,
            "<path class=\"{class}\" d=\"{steps}\"><title>{}</title></path>",
            escape(hint)
        );
    }

    /// Begins a region that clips to this rectangle, up to [`Self::close_window`].
    pub(crate) fn open_window(&mut self, left: f64, top: f64, width: f64, height: f64) {
        let _ = writeln!(
            self.text,
            "<svg x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             viewBox=\"{left:.1} {top:.1} {width:.1} {height:.1}\">"
        );
    }

    pub(crate) fn close_window(&mut self) {
        self.text.push_str("</svg>\n");
    }
}

/// Approximate width of a text in pixels, sufficient to keep labels apart: no font metrics are
/// available here.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let widths = text.chars().map(|c| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '\u{202f}' => 0.32,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.92,
        c if c.is_uppercase() => 0.70,
        c if c.is_ascii() => 0.58,
        _ => 1.0,
    });
    widths.sum::<f64>() * size
}

/// The outline of the symbol of series `index` with a radius of `radius` pixels: the shape
/// distinguishes series where colours do not.
pub(crate) fn symbol(index: usize, x: f64, y: f64, radius: f64) -> String {
    let polygon = |points: &[(f64, f64)]| {
        let mut steps = String::new();
        for (i, (dx, dy)) in points.iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            let _ = write!(
                steps,
                "{command}{:.1} {:.1}",
                x + dx * radius,
                y + dy * radius
            );
        }
        steps + "Z"
    };
    match index % 5 {
        0 => format!(
            "M{:.1} {y:.1}a{radius:.1} {radius:.1} 0 1 0 {:.1} 0a{radius:.1} {radius:.1} 0 1 0 {:.1} 0Z",
            x - radius,
            2.0 * radius,
            -2.0 * radius
        ),
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)]),
        3 => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        _ => polygon(&[(0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)]),
    }
}
