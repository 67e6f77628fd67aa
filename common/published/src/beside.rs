//! A figure of ours beside the published one, and how both are printed.

use alloc::format;
use alloc::string::{String, ToString as _};

use serde::Serialize;

use crate::{Judgement, Published};

/// A figure of ours beside the published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    /// What it is, with its unit.
    pub name: String,
    /// Ours; `None` if there is nothing of the kind.
    pub ours: Option<f64>,
    /// The paper's.
    #[serde(flatten)]
    pub published: Published,
}

impl Beside {
    /// Heads of the columns that [`Self::cells`] fills.
    pub const HEADS: [&'static str; 5] = ["What", "Here", "Published", "Difference (%)", "Where"];

    /// Ours beside the paper's.
    pub fn new(name: impl Into<String>, ours: Option<f64>, published: Published) -> Self {
        Self {
            name: name.into(),
            ours,
            published,
        }
    }

    /// How ours stands to it.
    pub fn judgement(&self) -> Judgement {
        self.published.judge(self.ours)
    }

    /// A row of a table: name, ours, the paper's with how exactly it says so, difference in per
    /// cent, source. What is missing is `None`.
    pub fn cells(&self) -> [Option<String>; 5] {
        let published = self.published.value.map(|value| {
            let exactly = self.published.tolerance.to_string();
            let text = format!("{exactly} {}", number(value));
            match exactly.starts_with(char::is_alphabetic) {
                true => text,
                false => number(value),
            }
        });
        let difference = self.published.difference(self.ours);
        [
            Some(self.name.clone()),
            self.ours.map(number),
            published,
            difference.map(|part| format!("{:.1}", part * 100.0)),
            Some(self.published.source.to_string()),
        ]
    }
}

/// A number with as many decimals as its size deserves: none from a thousand on, one from ten on,
/// else three.
pub fn number(value: f64) -> String {
    let decimals = match libm::fabs(value) {
        size if size >= 1_000.0 => 0,
        size if size >= 10.0 => 1,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tolerance;

    #[test]
    fn a_row_has_both_numbers_their_difference_and_the_source() {
        let published = Published::new("thesis Table 5.1", 30.8).within(Tolerance::About);
        let row = Beside::new("data sent, TiB", Some(33.88), published).cells();
        let expected = [
            "data sent, TiB",
            "33.9",
            "about 30.8",
            "10.0",
            "thesis Table 5.1",
        ];
        assert_eq!(
            row.each_ref().map(|cell| cell.as_deref()),
            expected.map(Some)
        );
        let row = Beside::new("a curve", None, Published::without_number("Figure 1")).cells();
        assert_eq!(row[1..4], [None, None, None]);
    }

    #[test]
    fn as_json_it_is_flat() {
        let published = Published::new("thesis 5.3", 2.0);
        let json = serde_json::to_value(Beside::new("a", Some(1.0), published)).expect("JSON");
        let expected = serde_json::json!({
            "name": "a", "ours": 1.0, "published": 2.0, "source": "thesis 5.3",
        });
        assert_eq!(json, expected);
    }
}
