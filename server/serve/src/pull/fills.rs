//! The titles of a path that are being filled, and how far each is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How far a fill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FillState {
    /// It is under way.
    Running,
    /// It waits while viewers do.
    Yielding,
    /// All of the title is there.
    Done,
    /// There is no room but for what viewers read more.
    Full,
    /// It failed.
    Failed,
}

impl FillState {
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Full | Self::Failed)
    }
}

/// What is said of a fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct FillView {
    /// How far it is.
    pub state: FillState,
    /// Bytes of the title; zero as long as nobody knows.
    pub bytes: u64,
    /// Of those, bytes that are there.
    pub bytes_there: u64,
    /// Bytes that were fetched for it.
    pub bytes_fetched: u64,
    /// Why it failed, in the words of the metrics.
    pub fault: Option<&'static str>,
}

/// One title that is being filled, or was.
pub(super) struct Filling {
    pub(super) view: FillView,
    pub(super) bytes_per_second: u64,
    pub(super) asked_at: Instant,
}

/// The titles of a path that are being filled.
#[derive(Default)]
pub(super) struct Fills(Mutex<HashMap<Arc<str>, Filling>>);

impl Fills {
    pub(super) fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Filling>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are under way.
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

    /// The rate that was asked for last, if somebody still asks.
    pub(super) fn rate(&self, name: &str, lease: Duration) -> Option<u64> {
        let table = self.table();
        let of = table.get(name)?;
        (of.asked_at.elapsed() <= lease).then_some(of.bytes_per_second)
    }
}
