//! A statement of a paper, or a goal of this project, with our result and the verdict.

use headlong_bench::CommandOutcome;
use headlong_published::{PublishedComparison, PublishedFigure, Tolerance, Verdict, number};
use headlong_report::Table;
use serde::Serialize;

/// Whose statement it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper's: it was published.
    Paper,
    /// A goal of this project, which no paper states.
    Headlong,
}

/// A statement with our result. Published statements come before those of this project.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// Whose it is.
    pub origin: Origin,
    /// Statement, our figure and the published one.
    #[serde(flatten)]
    pub compared: PublishedComparison,
    /// Our result in words, where the figure alone does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

impl Claim {
    /// A published statement.
    pub fn published(compared: PublishedComparison) -> Self {
        Self {
            origin: Origin::Paper,
            compared,
            found: None,
        }
    }

    /// A published statement from its parts: `value` as printed (empty if there is no number) and
    /// its tolerance.
    pub(crate) fn of(
        name: impl Into<String>,
        ours: Option<f64>,
        (value, tolerance): (&str, &str),
        source: &str,
    ) -> Self {
        let value = (!value.is_empty()).then(|| value.parse().expect("a published value"));
        let tolerance: Tolerance = tolerance.parse().expect("a tolerance");
        let figure = PublishedFigure::new(source.to_owned(), value, tolerance);
        Self::published(PublishedComparison::new(name, ours, figure))
    }

    /// The same as a goal of this project.
    pub(crate) fn into_goal(self) -> Self {
        Self {
            origin: Origin::Headlong,
            ..self
        }
    }

    /// The same with our result in words.
    pub(crate) fn with_words(self, found: Option<String>) -> Self {
        Self { found, ..self }
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.compared.verdict()
    }

    /// The published number as printed, or the tolerance if there is none.
    pub fn printed(&self) -> String {
        let figure = &self.compared.published;
        match (&figure.value, figure.tolerance) {
            (Some(value), _) => value.to_string(),
            (None, Tolerance::Unstated) => String::new(),
            (None, tolerance) => format!("(within {tolerance})"),
        }
    }

    /// Our figure, with its words if there are any.
    pub fn here(&self) -> Option<String> {
        let ours = self.compared.ours.map(number);
        match (ours, &self.found) {
            (Some(ours), Some(words)) => Some(format!("{ours}: {words}")),
            (ours, words) => ours.or_else(|| words.clone()),
        }
    }
}

/// A table of claims, those of papers first.
pub(crate) fn claims_table(claims: &[Claim]) -> Table {
    let mut sorted: Vec<&Claim> = claims.iter().collect();
    sorted.sort_by_key(|claim| claim.origin == Origin::Headlong);
    Table::of(
        sorted,
        &[
            ("Claim", &|claim| match claim.origin {
                Origin::Paper => claim.compared.name.as_str().into(),
                Origin::Headlong => format!("(Headlong's) {}", claim.compared.name).into(),
            }),
            ("Published", &|claim| claim.printed().into()),
            ("Tolerance", &|claim| {
                claim.compared.published.tolerance.to_string().into()
            }),
            ("Here", &|claim| claim.here().into()),
            ("Comes out", &|claim| claim.verdict().word().into()),
            ("Where", &|claim| {
                claim.compared.published.source.to_string().into()
            }),
        ],
    )
}

/// Missed if a claim does not come out.
pub(crate) fn outcome_of(claims: &[Claim]) -> CommandOutcome {
    match claims.iter().any(|claim| claim.verdict() == Verdict::No) {
        true => CommandOutcome::Missed,
        false => CommandOutcome::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_that_does_not_come_out_misses() {
        let claim = |ours| Claim::of("a size", ours, ("4 MB", "10 %"), "nowhere");
        let of = |ours| outcome_of(&[claim(Some(4.0)), claim(ours)]);
        assert_eq!(of(Some(4.1)), CommandOutcome::Done);
        assert_eq!(of(None), CommandOutcome::Done);
        assert_eq!(of(Some(5.0)), CommandOutcome::Missed);
    }

    #[test]
    fn published_claims_come_first() {
        let claims = [
            Claim::of("a goal", Some(2.0), ("> 1", ""), "aim").into_goal(),
            Claim::of("a result", None, ("", "0 to 1"), "nowhere"),
        ];
        let text = claims_table(&claims).to_markdown();
        let [result, goal] = ["a result", "(Headlong's) a goal"].map(|name| text.find(name));
        assert!(result < goal && result.is_some(), "{text}");
        assert!(text.contains("not run") && text.contains("yes"), "{text}");
    }
}
