//! A drive model as a probe target, measured in virtual time.

use std::fmt::Display;

use headlong_drive::{Drive, DriveSpec, Request, RequestId};
use headlong_survey::probe::{ProbeError, Target};
use headlong_units::{Duration, Instant};

/// Limit on timeouts until a request completes. A model that exceeds it has lost the request.
const STEPS_MAX: usize = 1_000_000;

/// A modelled drive whose time passes only during requests.
#[derive(Debug)]
pub struct ModelTarget {
    name: String,
    drive: Box<dyn Drive>,
    now: Instant,
    next_id: u64,
}

impl ModelTarget {
    /// A new drive of a specification.
    pub fn new(spec: &DriveSpec) -> Self {
        Self::of(spec.name(), spec.build())
    }

    /// Any drive, with its name for errors.
    pub fn of(name: &str, drive: Box<dyn Drive>) -> Self {
        Self {
            name: name.to_string(),
            drive,
            now: Instant::ZERO,
            next_id: 0,
        }
    }

    fn failed(&self, request: &Request, problem: impl Display) -> ProbeError {
        let (name, sector) = (&self.name, request.sector);
        ProbeError::Failed(format!(
            "{name}: the model does not answer a request at sector {sector}: {problem}"
        ))
    }
}

impl Target for ModelTarget {
    fn sectors(&self) -> u64 {
        self.drive.capacity_sectors()
    }

    fn perform(&mut self, request: Request) -> Result<Duration, ProbeError> {
        let (began, id) = (self.now, RequestId(self.next_id));
        self.next_id += 1;
        let taken = self.drive.handle_request(began, id, request);
        taken.map_err(|refusal| self.failed(&request, refusal))?;
        for _ in 0..STEPS_MAX {
            while let Some(done) = self.drive.poll_completion() {
                if done.id == id {
                    self.now = self.now.max(done.ended);
                    return Ok(self.now.since(began));
                }
            }
            let Some(next) = self.drive.poll_timeout() else {
                return Err(self.failed(&request, "no event is pending"));
            };
            self.now = self.now.max(next);
            self.drive.handle_timeout(self.now);
        }
        Err(self.failed(&request, "it does not complete"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_drive::{Phase, fit, measure, preset};
    use headlong_survey::probe::test_seeks;

    #[test]
    fn probe_of_model_matches_direct_measurement() {
        let spec = preset("wd-red-wd10efrx").expect("a preset");
        let mut target = ModelTarget::new(&spec);
        let mut said = Vec::new();
        let rpm = spec.rpm().expect("a rotating drive");
        let test = test_seeks(&mut target, spec.name(), rpm, &mut |phase| said.push(phase));
        let test = test.expect("measured");
        assert_eq!(said, Phase::ALL);
        assert_eq!(test.measured, measure(&spec));
        assert_eq!(test.phases[0].1.len(), 250);
    }

    #[test]
    fn fitted_model_reproduces_measurement() {
        let spec = preset("wd-red-wd10efrx").expect("a preset");
        let measured = measure(&spec);
        let fitted = DriveSpec::HardDrive(fit("fitted", &measured));
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
