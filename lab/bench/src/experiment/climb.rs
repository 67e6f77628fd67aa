//! Rates that rise within one run: caches are filled once, and each server is then asked for more and
//! more until a call fails (FlashStream 5.2 looks for its limits so).

use headlong_settings::{Document, Kind, Rows, rate, share, time, whole};
use headlong_units::Duration;
use serde::{Serialize, Serializer};

/// How a run rises.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Climb {
    /// How long caches are filled before anything counts.
    #[serde(rename = "fill_s", serialize_with = "as_seconds")]
    pub fill: Duration,
    /// What viewers ask for meanwhile, in bytes of a second; less where the first step is lower.
    pub fill_rate: f64,
    /// The first step, unless the server's `rate_start` says another.
    pub from: f64,
    /// How much higher each next step is, as a share.
    pub step: f64,
    /// How long one takes.
    #[serde(rename = "step_time_s", serialize_with = "as_seconds")]
    pub step_time: Duration,
    /// How many there are at most.
    pub steps: u32,
}

/// As other times stand in records.
fn as_seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

const MIB: f64 = 1_048_576.0;

impl Default for Climb {
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

impl Climb {
    /// What is offered in a step, from 0, in bytes of a second.
    pub fn rate(&self, step: u32) -> f64 {
        self.from * (1.0 + self.step).powi(step as i32)
    }

    /// The same with another first step; one that is lower comes with a lower rate of filling, so that
    /// a slow server is not behind before anything counts.
    pub fn starting_at(self, from: f64) -> Self {
        Self {
            fill_rate: self.fill_rate * (from / self.from).min(1.0),
            from,
            ..self
        }
    }

    /// The filling and then all steps: what is offered, for how long.
    pub(crate) fn stretches(&self) -> Vec<(f64, Duration)> {
        let steps = (0..self.steps).map(|step| (self.rate(step), self.step_time));
        std::iter::once((self.fill_rate, self.fill))
            .chain(steps)
            .collect()
    }
}

fn rows() -> Rows<Climb> {
    let some: fn() -> Kind<Duration> = || time().at_least(Duration::from_secs(1));
    let mut rows = Rows::<Climb>::default();
    rows.add("fill", some(), |c| &mut c.fill, "");
    rows.add("fill_rate", rate(), |c| &mut c.fill_rate, "");
    rows.add("from", rate(), |c| &mut c.from, "");
    rows.add("step", share().between(0.005, 1.0), |c| &mut c.step, "");
    rows.add("step_time", some(), |c| &mut c.step_time, "");
    rows.add("steps", whole().between(1, 100), |c| &mut c.steps, "");
    rows
}

/// `[climb]`, if it is there.
pub(super) fn climb(document: &mut Document) -> Option<Climb> {
    if !document.is_written("climb") {
        return None;
    }
    let mut climb = Climb::default();
    rows().read(document, "climb", &mut climb);
    for key in ["fill_rate", "from"] {
        if !document.is_written(&format!("climb.{key}")) {
            document.wrong_too(&format!("climb.{key}"), "is missing; write a rate");
        }
    }
    if document.is_written("phases") {
        let text = "says how long a run is, and [climb] does too; leave one of them out";
        document.wrong("phases", text);
    }
    Some(climb)
}

/// What `[quick.climb]` says instead.
pub(super) fn quick(document: &mut Document, climb: &mut Option<Climb>) {
    match climb {
        Some(climb) => rows().read(document, "quick.climb", climb),
        None if document.is_written("quick.climb") => {
            document.wrong("quick.climb", "needs a table [climb]");
        }
        None => {}
    }
}
