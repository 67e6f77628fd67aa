//! Real and virtual figures by phase of a run.

use serde::Serialize;

use crate::run_phases::RunPhase;

/// Largest difference of figures that agree, as a share of the real one.
const DIFFERENCE_MAX: f64 = 0.05;

/// A figure that is compared by phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseFigure {
    /// Bytes that viewers received, per second.
    Delivered,
    /// Bytes that the drives read between two seeks, on average.
    BytesPerSeek,
    /// Share of the server's jobs that were completed after their deadline.
    LateJobs,
}

impl PhaseFigure {
    const ALL: [Self; 3] = [Self::Delivered, Self::BytesPerSeek, Self::LateJobs];

    /// Name and unit, as a table shows it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Delivered => "Delivered (MiB/s)",
            Self::BytesPerSeek => "MB a seek",
            Self::LateJobs => "Late jobs (%)",
        }
    }

    fn of(self, phase: &RunPhase) -> Option<f64> {
        match self {
            Self::Delivered => Some(phase.delivered),
            Self::BytesPerSeek => phase.bytes_per_seek(),
            Self::LateJobs => phase.late_share(),
        }
    }
}

/// One figure of one phase, real and virtual.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseComparison {
    /// See [`RunPhase::name`].
    pub phase: String,
    /// Beginning of the phase, in seconds from the start of the run.
    pub from_s: f64,
    /// End of the phase in the real run.
    pub to_s: f64,
    /// The figure.
    pub figure: PhaseFigure,
    /// On the emulated drives.
    pub real: Option<f64>,
    /// In virtual time.
    pub simulated: Option<f64>,
    /// The virtual figure less the real one, as a share of the real one.
    pub difference: Option<f64>,
    /// Whether they differ by at most 5 %; nothing if a side lacks the figure.
    pub agrees: Option<bool>,
}

/// Every figure of the phases that both runs have.
pub(super) fn compare(real: &[RunPhase], simulated: &[RunPhase]) -> Vec<PhaseComparison> {
    let pairs = real.iter().filter_map(|real| {
        let simulated = simulated.iter().find(|phase| phase.name == real.name)?;
        Some((real, simulated))
    });
    let each = pairs.flat_map(|pair| PhaseFigure::ALL.map(|figure| (pair, figure)));
    let compare = |((real, simulated), figure): ((&RunPhase, &RunPhase), PhaseFigure)| {
        let (from_s, to_s) = (real.from_s, real.to_s);
        let phase = real.name.clone();
        let (real, simulated) = (figure.of(real), figure.of(simulated));
        let both = real.zip(simulated);
        let agrees =
            |(real, simulated): (f64, f64)| (simulated - real).abs() <= DIFFERENCE_MAX * real.abs();
        PhaseComparison {
            phase,
            from_s,
            to_s,
            figure,
            real,
            simulated,
            // Without a real value there is no share of it, but equal zeros agree.
            difference: both
                .filter(|(real, _)| *real != 0.0)
                .map(|(real, simulated)| simulated / real - 1.0),
            agrees: both.map(agrees),
        }
    };
    each.map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, delivered: f64, seeks: u64, late: Option<u64>) -> RunPhase {
        RunPhase {
            name: name.to_owned(),
            from_s: 0.0,
            to_s: 100.0,
            delivered,
            read_bytes: 1_000_000,
            seeks,
            jobs: late.map(|_| 100),
            jobs_late: late,
        }
    }

    #[test]
    fn phases_of_both_runs_are_compared_at_five_percent() {
        let real = [
            phase("start", 100.0, 100, Some(0)),
            phase("ramp", 1.0, 1, None),
        ];
        let simulated = [
            phase("start", 104.0, 90, Some(0)),
            phase("steady", 1.0, 1, None),
        ];
        let found = compare(&real, &simulated);
        let told: Vec<_> = found.iter().map(|one| (one.figure, one.agrees)).collect();
        assert_eq!(
            told,
            [
                (PhaseFigure::Delivered, Some(true)),
                (PhaseFigure::BytesPerSeek, Some(false)),
                (PhaseFigure::LateJobs, Some(true)),
            ]
        );
        let difference = found[1].difference.expect("both have it");
        assert!((difference - 1.0 / 9.0).abs() < 1e-12, "{difference}");
        assert_eq!(found[2].difference, None);
    }

    #[test]
    fn figure_that_one_side_lacks_has_no_verdict() {
        let found = compare(
            &[phase("start", 1.0, 0, Some(5))],
            &[phase("start", 1.0, 10, None)],
        );
        let agrees: Vec<_> = found.iter().map(|one| one.agrees).collect();
        assert_eq!(agrees, [Some(true), None, None]);
    }
}
