//! Fills: titles fetched ahead of viewers, on request at the admin address.
//!
//! A fill runs as long as its client polls it. Each poll sets the rate and returns the progress. If
//! the client stops polling, the fill ends; a later request continues, because slices already
//! present are not fetched again.
//!
//! Invariants: one slice of a title is fetched at a time; the disk usage stays within its limit; a
//! fill evicts only slices that would be evicted first anyway.

use std::sync::Arc;
use std::time::Instant;

use headlong_engine::DeviceState;
use headlong_pull::{FillSchedule, FillStep, ResponseFault, ViewerState};
use headlong_units::Duration as ModelTime;

use super::fills::{FillState, FillView, TitleFill};
use super::titles::Pull;

/// Upper limit of fills per path, including finished ones whose result has not been read.
const FILLS_MAX: usize = 16;
/// A fill ends if it has not been polled for this long.
const LEASE: ModelTime = ModelTime::from_secs(10);
/// Interval between checks for waiting viewers.
const LOOK_INTERVAL: ModelTime = ModelTime::from_millis(250);

impl Pull {
    /// Starts or continues the fill of a title at `bytes_per_second` and returns its progress.
    /// `None` if too many fills are running. The final state is returned once.
    pub fn fill(self: &Arc<Self>, name: &str, bytes_per_second: u64) -> Option<FillView> {
        let mut table = self.fills.table();
        let lease = self.scale.wall(LEASE);
        table.retain(|_, of| !of.view.state.is_over() || of.asked_at.elapsed() <= lease);
        if let Some(of) = table.get_mut(name) {
            of.asked_at = Instant::now();
            of.bytes_per_second = bytes_per_second;
            let view = of.view;
            if view.state.is_over() {
                table.remove(name);
            }
            return Some(view);
        }
        if table.len() >= FILLS_MAX {
            return None;
        }
        let view = FillView {
            state: FillState::Running,
            bytes: 0,
            bytes_there: 0,
            bytes_fetched: 0,
            fault: None,
        };
        let name: Arc<str> = Arc::from(name);
        let filling = TitleFill {
            view,
            bytes_per_second,
            asked_at: Instant::now(),
        };
        table.insert(Arc::clone(&name), filling);
        drop(table);
        let pull = Arc::clone(self);
        tokio::spawn(async move {
            match pull.fill_title(&name).await {
                Some(Ok(state)) => pull.fills.update(&name, |view| view.state = state),
                Some(Err(fault)) => pull.fills.update(&name, |view| {
                    view.state = FillState::Failed;
                    view.fault = Some(fault.name());
                }),
                // The client has stopped polling.
                None => drop(pull.fills.table().remove(&*name)),
            }
        });
        Some(view)
    }

    /// Fetches the missing slices of a title. `None` if the client has stopped polling.
    async fn fill_title(self: &Arc<Self>, name: &str) -> Option<Result<FillState, ResponseFault>> {
        let version = match self.find(name, None).await {
            Ok(found) => found.version,
            Err(fault) => return Some(Err(fault)),
        };
        let slices = version.slices();
        self.fills
            .update(name, |view| view.bytes = version.size_bytes());
        let mut fill = FillSchedule::new(1);
        for index in 0..slices.count() {
            let bytes = slices.range(index).len();
            if !version.has(index) {
                self.wait_for_turn(name, &mut fill).await?;
                if version.is_retired() {
                    return Some(Err(ResponseFault::Changed));
                }
                if !self.has_room_for_fill(bytes) {
                    return Some(Ok(FillState::Full));
                }
                fill.went(self.now(), bytes);
                match self.fetch_for_fill(&version, index).await {
                    Ok(()) => {}
                    Err(ResponseFault::NoSpace) => return Some(Ok(FillState::Full)),
                    Err(fault) => return Some(Err(fault)),
                }
                self.fills.update(name, |view| view.bytes_fetched += bytes);
            }
            self.fills.update(name, |view| view.bytes_there += bytes);
        }
        Some(Ok(FillState::Done))
    }

    /// Waits until the next slice may be fetched; `None` if the client has stopped polling.
    async fn wait_for_turn(self: &Arc<Self>, name: &str, fill: &mut FillSchedule) -> Option<()> {
        let interval = self.scale.wall(LOOK_INTERVAL);
        loop {
            let rate = self.fills.rate(name, self.scale.wall(LEASE))?;
            fill.set_rate(rate);
            let turn = fill.turn(self.now(), self.viewers().await);
            let (state, pause) = match turn {
                FillStep::Now => (FillState::Running, None),
                FillStep::At(at) => {
                    let left = self.scale.wall(at.since(self.now()));
                    (FillState::Running, Some(left.min(interval)))
                }
                FillStep::Yield => (FillState::Yielding, Some(interval)),
            };
            self.fills.update(name, |view| view.state = state);
            match pause {
                None => return Some(()),
                Some(pause) => tokio::time::sleep(pause).await,
            }
        }
    }

    async fn viewers(&self) -> ViewerState {
        let wait_for_origin = self.counters.waiting() > 0;
        let disk_is_late = match self.device.get() {
            Some(device) => {
                let seen = device.snapshot().await;
                seen.is_overloaded || seen.state == DeviceState::Offline
            }
            None => true,
        };
        ViewerState {
            wait_for_origin,
            disk_is_late,
        }
    }
}
