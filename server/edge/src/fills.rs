//! The fills of a path, and their progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// State of a fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FillState {
    /// Running.
    Running,
    /// Paused while viewers wait.
    Yielding,
    /// The whole title is present.
    Done,
    /// Stopped: only space used by more valuable slices is left.
    Full,
    /// Failed.
    Failed,
}

impl FillState {
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Full | Self::Failed)
    }
}

/// Progress of a fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct FillView {
    /// State.
    pub state: FillState,
    /// Size of the title in bytes; zero until it is known.
    pub bytes: u64,
    /// Bytes of the title that are present.
    pub bytes_there: u64,
    /// Bytes fetched by the fill.
    pub bytes_fetched: u64,
    /// Reason of a failure, by its name in the metrics.
    pub fault: Option<&'static str>,
}

/// A fill, running or finished.
pub(super) struct TitleFill {
    pub(super) view: FillView,
    pub(super) bytes_per_second: u64,
    pub(super) asked_at: Instant,
}

/// The fills of a path.
#[derive(Default)]
pub(super) struct Fills(Mutex<HashMap<Arc<str>, TitleFill>>);

impl Fills {
    pub(super) fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, TitleFill>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of running fills.
    pub(super) fn running(&self) -> u64 {
        let table = self.table();
        let running = table.values().filter(|of| !of.view.state.is_over());
        running.count() as u64
    }

    pub(super) fn update(&self, name: &str, change: impl FnOnce(&mut FillView)) {
        if let Some(of) = self.table().get_mut(name) {
            change(&mut of.view);
        }
    }

    /// The rate requested last, if the client still polls.
    pub(super) fn rate(&self, name: &str, lease: Duration) -> Option<u64> {
        let table = self.table();
        let of = table.get(name)?;
        (of.asked_at.elapsed() <= lease).then_some(of.bytes_per_second)
    }
}
