//! The seek test, sent to a target.

use headlong_drive::{Measurements, Phase, Timings};
use headlong_units::Duration;

use super::{ProbeError, Target};

/// Least size to be measured: enough for the steps of the phases not to meet.
const BYTES_MIN: u64 = 64 << 20;

/// What the test found.
#[derive(Debug, Clone)]
pub struct SeekTest {
    /// The figures.
    pub measured: Measurements,
    /// The time of each timed request, by phase, in the order in which they were sent.
    pub phases: Vec<(Phase, Vec<Duration>)>,
}

/// Runs all phases. `rpm` is what the drive's label says, 0 if it does not turn; `say` is told of
/// each phase before it begins.
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
    let bytes = sectors * headlong_drive::SECTOR_BYTES;
    if bytes < BYTES_MIN {
        return Err(ProbeError::TooSmall {
            name: name.to_string(),
            bytes,
            needed: BYTES_MIN,
        });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::ModelTarget;
    use headlong_drive::{fit, measure, preset};

    #[test]
    fn a_model_measures_as_its_own_core_says() {
        let spec = preset("wd-red-wd10efrx").expect("a preset");
        let mut target = ModelTarget::new(&spec);
        let mut said = Vec::new();
        let rpm = spec.rpm().expect("it turns");
        let test = test_seeks(&mut target, spec.name(), rpm, &mut |phase| said.push(phase));
        let test = test.expect("measured");
        assert_eq!(said, Phase::ALL);
        assert_eq!(test.measured, measure(&spec));
        assert_eq!(test.phases[0].1.len(), 250);
    }

    #[test]
    fn the_model_fitted_to_a_measurement_measures_the_same() {
        let spec = preset("wd-red-wd10efrx").expect("a preset");
        let measured = measure(&spec);
        let fitted = headlong_drive::DriveSpec::HardDrive(fit("fitted", &measured));
        let again = measure(&fitted);
        for (first, second) in [
            (measured.full_stroke_us, again.full_stroke_us),
            (measured.half_stroke_us, again.half_stroke_us),
            (measured.quarter_stroke_us, again.quarter_stroke_us),
            (
                measured.rates.middle_bytes_per_s as f64,
                again.rates.middle_bytes_per_s as f64,
            ),
        ] {
            assert!((first / second - 1.0).abs() < 0.05, "{first} {second}");
        }
    }
}
