//! Published figures of real drives, and the models' results for them.

mod flash;
mod spinning;
mod wc;

pub(crate) use flash::{divergence_of, flash_figures};
pub(crate) use spinning::{diskinfo_figures, prediction_figures, thesis_figures};
pub(crate) use wc::wc_figures;

/// One figure.
#[derive(Debug, Clone)]
pub(crate) struct PublishedFigure {
    /// The drive.
    pub(crate) drive: &'static str,
    /// The quantity measured.
    pub(crate) what: String,
    /// Published value.
    pub(crate) published: f64,
    /// Value of the model.
    pub(crate) modelled: f64,
    /// Allowed relative difference.
    pub(crate) bound: f64,
}

impl PublishedFigure {
    /// Relative difference.
    pub(crate) fn residual(&self) -> f64 {
        self.modelled / self.published - 1.0
    }

    /// Whether the difference is allowed.
    pub(crate) fn is_met(&self) -> bool {
        self.residual().abs() <= self.bound
    }

    /// A table row: drive, figure, published, modelled, difference, bound.
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
