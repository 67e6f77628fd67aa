//! A model, measured in virtual time.

use headlong_drive::{Drive, DriveSpec, Request, RequestId};
use headlong_units::{Duration, Instant};

use super::{ProbeError, Target};

/// Most wake-ups until one request has ended. A model that needs more has lost it.
const STEPS_MAX: usize = 1_000_000;

/// A modelled drive whose time passes while it is asked, and only then.
#[derive(Debug)]
pub struct ModelTarget {
    name: String,
    drive: Box<dyn Drive>,
    now: Instant,
    next_id: u64,
}

impl ModelTarget {
    /// The drive of a specification, new.
    pub fn new(spec: &DriveSpec) -> Self {
        Self::of(spec.name(), spec.build())
    }

    /// Any drive, called `name` in errors.
    pub fn of(name: &str, drive: Box<dyn Drive>) -> Self {
        Self {
            name: name.to_string(),
            drive,
            now: Instant::ZERO,
            next_id: 0,
        }
    }

    fn failed(&self, request: &Request, problem: impl ToString) -> ProbeError {
        ProbeError::Model {
            name: self.name.clone(),
            sector: request.sector,
            problem: problem.to_string(),
        }
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
                return Err(self.failed(&request, "it waits for nothing"));
            };
            self.now = self.now.max(next);
            self.drive.handle_timeout(self.now);
        }
        Err(self.failed(&request, "it never ends"))
    }
}
