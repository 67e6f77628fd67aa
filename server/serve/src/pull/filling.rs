//! Titles that are brought ahead of viewers, on a request at the admin address.
//!
//! The one idea: a title is filled for as long as somebody asks about it. Each question says the rate
//! and gets how far it is; who asks no more ends it, and who asks again later goes on where it was, for
//! what is there is not fetched again.
//!
//! Invariants: one slice of a title is fetched at a time; the disk has no more than its bound; nothing
//! goes for a fill that is read more than what goes first anyway.

use std::sync::Arc;
use std::time::Instant;

use headlong_engine::DeviceState;
use headlong_pull::{Fault, Fill, Turn, Viewers};
use headlong_units::Duration as ModelTime;

use super::fills::{FillState, FillView, Filling};
use super::titles::Pull;

/// Titles of a path that are being filled at a time, or that somebody is still to be told of.
const FILLS_MAX: usize = 16;
/// Who has not asked for so long has ended it.
const LEASE: ModelTime = ModelTime::from_secs(10);
/// Between two looks at who waits.
const LOOK_INTERVAL: ModelTime = ModelTime::from_millis(250);

impl Pull {
    /// Brings a title at so many bytes a second, or goes on to, and says how far it is. `None` if as
    /// many are being filled as may be. What has ended is said once.
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
        let filling = Filling {
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
                // Nobody asks any more.
                None => drop(pull.fills.table().remove(&*name)),
            }
        });
        Some(view)
    }

    /// `None` if nobody asks about it any more.
    async fn fill_title(self: &Arc<Self>, name: &str) -> Option<Result<FillState, Fault>> {
        let version = match self.find(name, None).await {
            Ok(found) => found.version,
            Err(fault) => return Some(Err(fault)),
        };
        let slices = version.slices();
        self.fills
            .update(name, |view| view.bytes = version.size_bytes());
        let mut fill = Fill::new(1);
        for index in 0..slices.count() {
            let bytes = slices.range(index).len();
            if !version.has(index) {
                self.wait_for_turn(name, &mut fill).await?;
                if version.is_retired() {
                    return Some(Err(Fault::Changed));
                }
                if !self.has_room_for_fill(bytes) {
                    return Some(Ok(FillState::Full));
                }
                fill.went(self.now(), bytes);
                match self.bring_for_fill(&version, index).await {
                    Ok(()) => {}
                    Err(Fault::NoSpace) => return Some(Ok(FillState::Full)),
                    Err(fault) => return Some(Err(fault)),
                }
                self.fills.update(name, |view| view.bytes_fetched += bytes);
            }
            self.fills.update(name, |view| view.bytes_there += bytes);
        }
        Some(Ok(FillState::Done))
    }

    /// Waits until the next slice may be fetched; `None` if nobody asks any more.
    async fn wait_for_turn(self: &Arc<Self>, name: &str, fill: &mut Fill) -> Option<()> {
        let interval = self.scale.wall(LOOK_INTERVAL);
        loop {
            let rate = self.fills.rate(name, self.scale.wall(LEASE))?;
            fill.set_rate(rate);
            let turn = fill.turn(self.now(), self.viewers().await);
            let (state, pause) = match turn {
                Turn::Now => (FillState::Running, None),
                Turn::At(at) => {
                    let left = self.scale.wall(at.since(self.now()));
                    (FillState::Running, Some(left.min(interval)))
                }
                Turn::Yield => (FillState::Yielding, Some(interval)),
            };
            self.fills.update(name, |view| view.state = state);
            match pause {
                None => return Some(()),
                Some(pause) => tokio::time::sleep(pause).await,
            }
        }
    }

    async fn viewers(&self) -> Viewers {
        let wait_for_origin = self.counters.waiting() > 0;
        let disk_is_late = match self.device.get() {
            Some(device) => {
                let seen = device.snapshot().await;
                seen.is_overloaded || seen.state == DeviceState::Offline
            }
            None => true,
        };
        Viewers {
            wait_for_origin,
            disk_is_late,
        }
    }
}
