//! Published figures of real drives, and what the models say to the same question.

mod flash;
mod spinning;
mod wc;

pub(crate) use flash::{divergence_of, flash_figures};
pub(crate) use spinning::{diskinfo_figures, prediction_figures, thesis_figures};
pub(crate) use wc::wc_figures;

/// One figure.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Which drive.
    pub(crate) drive: &'static str,
    /// What was measured.
    pub(crate) what: String,
    /// What was published.
    pub(crate) published: f64,
    /// What the model says.
    pub(crate) modelled: f64,
    /// By how much they may differ, as a part of the published one.
    pub(crate) bound: f64,
}

impl Figure {
    /// By how much they differ, as a part of the published one.
    pub(crate) fn residual(&self) -> f64 {
        self.modelled / self.published - 1.0
    }

    /// Whether that is allowed.
    pub(crate) fn is_met(&self) -> bool {
        self.residual().abs() <= self.bound
    }

    /// As a row of a table: drive, figure, published, modelled, difference, bound.
    pub(crate) fn row(&self) -> String {
        let digits = if self.published < 1.0 { 4 } else { 1 };
        format!(
            "| {} | {} | {:.digits$} | {:.digits$} | {:+.1} % | {:.0} % |",
            self.drive,
            self.what,
            self.published,
            self.modelled,
            self.residual() * 100.0,
            self.bound * 100.0,
        )
    }
}
