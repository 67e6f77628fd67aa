//! The seek test, sent to a target.

use headlong_disk::{Measurements, Phase, Timings};
use headlong_units::Duration;

use super::error::ProbeError;
use super::target::Target;

/// Smallest measurable size: the steps of the phases must not overlap.
pub(super) const BYTES_MIN: u64 = 64 << 20;

/// Result of the test.
#[derive(Debug, Clone)]
pub struct SeekTest {
    /// The figures.
    pub measured: Measurements,
    /// The time of each timed request, by phase, in order of submission.
    pub phases: Vec<(Phase, Vec<Duration>)>,
}

/// Runs all phases. `rpm` is the label's value, 0 if the drive does not rotate; `say` is called
/// with each phase before it begins.
///
/// # Errors
/// If the target is too small or a request fails.
pub fn test_seeks(
    target: &mut dyn Target,
    name: &str,
    rpm: u32,
    say: &mut dyn FnMut(Phase),
) -> Result<SeekTest, ProbeError> {
    let sectors = target.sectors();
    let bytes = sectors * headlong_disk::SECTOR_BYTES;
    if bytes < BYTES_MIN {
        return Err(ProbeError::too_small(name, bytes, BYTES_MIN));
    }
    let mut timings = Timings::default();
    let mut phases = Vec::new();
    for phase in Phase::ALL {
        say(phase);
        if let Some(first) = phase.first(sectors) {
            target.perform(first)?;
        }
        let requests = phase.requests(sectors).into_iter();
        let times = requests.map(|request| target.perform(request));
        let times: Vec<Duration> = times.collect::<Result<_, _>>()?;
        let elapsed = times.iter().fold(Duration::ZERO, |sum, time| sum + *time);
        timings.record(phase, elapsed);
        phases.push((phase, times));
    }
    Ok(SeekTest {
        measured: timings.measurements(bytes, rpm),
        phases,
    })
}
