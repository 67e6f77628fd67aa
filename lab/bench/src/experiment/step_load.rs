//! Step load: caches are filled once, then the offered rate rises until a call fails (FlashStream
//! 5.2 searches limits this way).

use headlong_settings::{Document, Rows, ValueKind, rate, share, time, whole};
use headlong_units::Duration;
use serde::{Serialize, Serializer};

/// Parameters of the step load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepLoad {
    /// Duration of the cache fill; its calls do not count.
    #[serde(rename = "fill_s", serialize_with = "as_seconds")]
    pub fill: Duration,
    /// Offered rate during the fill, in bytes per second; lower if the first step is lower.
    pub fill_rate: f64,
    /// Rate of the first step, unless the server's `rate_start` replaces it.
    pub from: f64,
    /// Increase from step to step, as a share.
    pub step: f64,
    /// Duration of a step.
    #[serde(rename = "step_time_s", serialize_with = "as_seconds")]
    pub step_time: Duration,
    /// Largest number of steps.
    pub steps: u32,
}

/// Serializes a time in seconds, as records do.
fn as_seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

const MIB: f64 = 1_048_576.0;

impl Default for StepLoad {
    fn default() -> Self {
        Self {
            fill: Duration::from_secs(600),
            fill_rate: 10.0 * MIB,
            from: 10.0 * MIB,
            step: 0.125,
            step_time: Duration::from_secs(60),
            steps: 16,
        }
    }
}

impl StepLoad {
    /// Offered rate of a step, counted from 0, in bytes per second.
    pub fn rate(&self, step: u32) -> f64 {
        self.from * (1.0 + self.step).powi(step as i32)
    }

    /// The same with another first step. A lower first step also lowers the fill rate, so that a
    /// slow server starts without a backlog.
    pub fn starting_at(self, from: f64) -> Self {
        Self {
            fill_rate: self.fill_rate * (from / self.from).min(1.0),
            from,
            ..self
        }
    }

    /// Rate and duration of the fill and of all steps.
    pub(crate) fn stretches(&self) -> Vec<(f64, Duration)> {
        let steps = (0..self.steps).map(|step| (self.rate(step), self.step_time));
        std::iter::once((self.fill_rate, self.fill))
            .chain(steps)
            .collect()
    }
}

fn rows() -> Rows<StepLoad> {
    let some: fn() -> ValueKind<Duration> = || time().at_least(Duration::from_secs(1));
    let mut rows = Rows::<StepLoad>::default();
    rows.add("fill", some(), |c| &mut c.fill, "");
    rows.add("fill_rate", rate(), |c| &mut c.fill_rate, "");
    rows.add("from", rate(), |c| &mut c.from, "");
    rows.add("step", share().between(0.005, 1.0), |c| &mut c.step, "");
    rows.add("step_time", some(), |c| &mut c.step_time, "");
    rows.add("steps", whole().between(1, 100), |c| &mut c.steps, "");
    rows
}

/// `[climb]`, if present.
pub(super) fn climb(document: &mut Document) -> Option<StepLoad> {
    if !document.is_written("climb") {
        return None;
    }
    let mut climb = StepLoad::default();
    rows().read(document, "climb", &mut climb);
    for key in ["fill_rate", "from"] {
        if !document.is_written(&format!("climb.{key}")) {
            document.wrong_too(&format!("climb.{key}"), "is missing; write a rate");
        }
    }
    if document.is_written("phases") {
        let text = "sets the length of a run, and so does [climb]; leave one of them out";
        document.wrong("phases", text);
    }
    Some(climb)
}

/// Values replaced by `[quick.climb]`.
pub(super) fn quick(document: &mut Document, climb: &mut Option<StepLoad>) {
    match climb {
        Some(climb) => rows().read(document, "quick.climb", climb),
        None if document.is_written("quick.climb") => {
            document.wrong("quick.climb", "needs a table [climb]");
        }
        None => {}
    }
}
