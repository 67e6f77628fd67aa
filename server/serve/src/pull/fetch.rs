//! Slices that are not there: fetched once for all who wait, written, and made known to the engine.
//!
//! Invariants: a fetch belongs to nobody, so that who leaves takes nothing from the others; one that
//! nobody waits for any more when its turn comes is not made, unless it is ahead of who reads on.

use std::sync::Arc;
use std::time::Duration;

use headlong_engine::PartSpec;
use headlong_pull::{Fault, SliceKey};
use tokio::sync::watch;

use super::counters::Counters;
use super::pinned::Pinned;
use super::store;
use super::title;
use super::titles::Pull;
use super::version::{Outcome, Version};
use crate::log::RequestId;

/// How often a slice is asked for again where it broke off, and how long after.
const TRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// When the disk is full although there should be room, so many slices go at once.
const SLICES_FREED: u64 = 8;

/// Why a slice is looked at.
#[derive(Clone, Copy)]
struct Wanted {
    /// Whoever wants it waited for it already.
    is_miss: bool,
    /// Nobody waits for it.
    is_ahead: bool,
    /// Nobody may, for it is brought ahead of all viewers.
    is_fill: bool,
}

/// Whether nobody waits for a slice any more; then it is not coming either. The table holds one of
/// those who would be told.
fn is_given_up(version: &Version, index: u32, say: &watch::Sender<Outcome>) -> bool {
    let mut table = version.table();
    let is_given_up = say.receiver_count() <= 1;
    if is_given_up {
        table.coming.remove(&index);
    }
    is_given_up
}

/// What a look at a slice found.
enum Look {
    Here(Pinned),
    Coming(watch::Receiver<Outcome>),
}

impl Pull {
    /// Has a slice brought for a reply to the request `by` that goes on to the byte `until` of the title.
    ///
    /// # Errors
    /// Why it cannot be brought.
    pub async fn bring(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
        until: u64,
        by: &RequestId,
    ) -> Result<Pinned, Fault> {
        let (mut is_miss, mut tried) = (false, 0);
        let pinned = loop {
            match self.look(
                version,
                index,
                Wanted {
                    is_miss,
                    is_ahead: false,
                    is_fill: false,
                },
                Some(by),
            ) {
                Look::Here(pinned) => break pinned,
                Look::Coming(mut outcome) => {
                    is_miss = true;
                    self.ahead(version, index, until, by);
                    let _waits = self.counters.wait();
                    match self.wait(&mut outcome).await {
                        // A fill has less room than a viewer.
                        Err(Fault::NoSpace) if tried == 0 => tried += 1,
                        outcome => outcome?,
                    }
                }
            }
        };
        let counter = if is_miss {
            &self.counters.misses
        } else {
            &self.counters.hits
        };
        Counters::add(counter, 1);
        self.state().space.touch(SliceKey {
            version: version.key,
            index,
        });
        if !is_miss {
            self.ahead(version, index, until, by);
        }
        Ok(pinned)
    }

    /// Has a slice brought that nobody has asked for.
    ///
    /// # Errors
    /// Why it cannot be brought; [`Fault::NoSpace`] also if others are worth more.
    pub(super) async fn bring_for_fill(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
    ) -> Result<(), Fault> {
        let wanted = Wanted {
            is_miss: true,
            is_ahead: true,
            is_fill: true,
        };
        match self.look(version, index, wanted, None) {
            Look::Here(_) => Ok(()),
            Look::Coming(mut outcome) => self.wait(&mut outcome).await,
        }
    }

    /// Whether a slice of so many bytes has room that viewers need less.
    pub(super) fn has_room_for_fill(&self, bytes: u64) -> bool {
        let state = self.state();
        let wanted = state.space.used_bytes() + state.coming_bytes + bytes;
        let over = wanted.saturating_sub(self.rule.bytes_max);
        let victims = state
            .space
            .victims_of_fill(over, |key| state.is_pinned(key));
        victims.is_some()
    }

    /// A read found another file than that of a slice, or none: if it is none, it is fetched again.
    pub async fn check(&self, version: &Arc<Version>, index: u32) {
        let path = store::slice_path(&version.folder, index);
        if self.store.run(move || path.exists()).await != Some(false) {
            return;
        }
        let mut state = self.state();
        state.space.remove(SliceKey {
            version: version.key,
            index,
        });
        if let Some(present) = version.table().present.get_mut(index as usize) {
            *present = false;
        }
    }

    fn look(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
        wanted: Wanted,
        by: Option<&RequestId>,
    ) -> Look {
        let mut table = version.table();
        if table.present.get(index as usize) == Some(&true) {
            *table.pins.entry(index).or_insert(0) += 1;
            return Look::Here(Pinned::new(version, index, wanted.is_miss));
        }
        if let Some(coming) = table.coming.get(&index) {
            return Look::Coming(coming.clone());
        }
        let (say, coming) = watch::channel(None);
        table.coming.insert(index, coming.clone());
        let (pull, by) = (Arc::clone(self), by.cloned());
        tokio::spawn(pull.fetch(Arc::clone(version), (index, wanted), by, say));
        Look::Coming(coming)
    }

    /// Fetches what who reads this slice will read next.
    fn ahead(self: &Arc<Self>, version: &Arc<Version>, index: u32, until: u64, by: &RequestId) {
        let reads_on = index > 0 && version.table().present.get(index as usize - 1) == Some(&true);
        let ahead = version
            .slices
            .ahead(index, until, self.rule.ahead_bytes, reads_on);
        for next in ahead.start..ahead.end {
            // Dropping what it answers leaves the fetch to itself.
            let wanted = Wanted {
                is_miss: true,
                is_ahead: true,
                is_fill: false,
            };
            drop(self.look(version, next as u32, wanted, Some(by)));
        }
    }

    async fn fetch(
        self: Arc<Self>,
        version: Arc<Version>,
        (index, wanted): (u32, Wanted),
        by: Option<RequestId>,
        say: watch::Sender<Outcome>,
    ) {
        let outcome = match self.fetches.acquire().await {
            Ok(_turn) => {
                if !wanted.is_ahead && is_given_up(&version, index, &say) {
                    return;
                }
                Counters::add(&self.counters.in_flight, 1);
                let outcome = self
                    .fetch_now(&version, (index, wanted.is_fill), by.as_ref())
                    .await;
                self.counters
                    .in_flight
                    .fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                outcome
            }
            Err(_) => Err(Fault::Unreachable),
        };
        if let Err(fault) = outcome {
            self.counters.fault(fault);
            tracing::debug!(
                path = title::split(&version.about.path).0,
                index,
                fault = fault.name(),
                "a slice did not come"
            );
            if matches!(fault, Fault::Changed | Fault::WrongLength | Fault::Absent) {
                self.distrust(&version);
            }
        }
        version.table().coming.remove(&index);
        let _ = say.send(Some(outcome));
    }

    async fn fetch_now(
        self: &Arc<Self>,
        version: &Arc<Version>,
        (index, is_fill): (u32, bool),
        by: Option<&RequestId>,
    ) -> Result<(), Fault> {
        let range = version.slices.range(index);
        let mut bytes = Vec::with_capacity(range.len() as usize);
        let mut tried = 0;
        loop {
            if version.is_retired() {
                return Err(Fault::Changed);
            }
            let before = bytes.len();
            let fetched = self
                .origin
                .fetch(&version.about.path, &version.told, (range, by), &mut bytes)
                .await;
            let more = bytes.len().saturating_sub(before) as u64;
            Counters::add(&self.counters.fetched_bytes, more);
            if is_fill {
                Counters::add(&self.counters.filled_bytes, more);
            }
            match fetched {
                Ok(()) => break,
                // What has come is kept, and the rest asked for.
                Err(fault) if fault.is_passing() && tried + 1 < TRIES_MAX => tried += 1,
                Err(fault) => return Err(fault),
            }
            tokio::time::sleep(RETRY_PAUSE * tried).await;
        }
        self.keep(version, (index, is_fill), Arc::new(bytes)).await
    }

    /// Writes a slice, after what it takes the place of has gone.
    async fn keep(
        self: &Arc<Self>,
        version: &Arc<Version>,
        (index, is_fill): (u32, bool),
        bytes: Arc<Vec<u8>>,
    ) -> Result<(), Fault> {
        let length = bytes.len() as u64;
        self.state().coming_bytes += length;
        if !self.free(0, is_fill).await {
            self.state().coming_bytes -= length;
            return Err(Fault::NoSpace);
        }
        let mut written = self.write(version, index, &bytes).await;
        for _ in 0..TRIES_MAX {
            if is_fill || !written.as_ref().is_err_and(is_no_space) {
                break;
            }
            // Others may have taken what went, or be taking away all that can go at this moment.
            self.free(SLICES_FREED * self.rule.slice_bytes, false).await;
            // The engine closes what it had open of it.
            tokio::time::sleep(RETRY_PAUSE).await;
            written = self.write(version, index, &bytes).await;
        }
        if let Err(error) = written.as_ref()
            && !(is_fill && is_no_space(error))
        {
            let folder = version.folder.display();
            tracing::warn!(%folder, %error, "a slice cannot be written");
        }
        let written = written.map_err(|error| match is_no_space(&error) {
            true => Fault::NoSpace,
            false => Fault::Disk,
        });
        let mut state = self.state();
        state.coming_bytes -= length;
        let part = written?;
        if version.is_retired() || state.version(version.key).is_none() {
            let folder = version.folder.clone();
            self.store.begin(move || store::remove_version(&folder));
            return Err(Fault::Changed);
        }
        let key = SliceKey {
            version: version.key,
            index,
        };
        match is_fill {
            true => state.space.add_filled(key, length as u32),
            false => state.space.add_awaited(key, length as u32),
        }
        version.table().present[index as usize] = true;
        if let Some(device) = self.device.get() {
            device.part(version.stream, index, part);
        }
        Ok(())
    }

    async fn write(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
        bytes: &Arc<Vec<u8>>,
    ) -> std::io::Result<PartSpec> {
        let (of, bytes, library) = (Arc::clone(version), Arc::clone(bytes), self.library.clone());
        let free_bytes_min = self.store.free_bytes_min();
        let job = move || {
            let file = store::write(&of.folder, &of.about, index, &bytes, free_bytes_min)?;
            Ok(of.part(index, &library, Some(&file)))
        };
        let written: Option<std::io::Result<PartSpec>> = self.store.run(job).await;
        written.unwrap_or_else(|| Err(std::io::Error::other("too much waits for the disk")))
    }

    /// Takes away slices until there is room for what comes and `more` besides; they have gone when it
    /// returns. Whether there is room; for who is no fill there is.
    async fn free(&self, more: u64, is_fill: bool) -> bool {
        let Some(all_going) = self.begin_freeing(more, is_fill) else {
            return false;
        };
        for mut going in all_going {
            let _ = going.wait_for(Option::is_some).await;
        }
        true
    }

    fn begin_freeing(&self, more: u64, is_fill: bool) -> Option<Vec<watch::Receiver<Outcome>>> {
        let mut state = self.state();
        let wanted = state.space.used_bytes() + state.coming_bytes;
        let over = wanted.saturating_sub(self.rule.bytes_max).max(more);
        let is_pinned = |key| state.is_pinned(key);
        let victims = match is_fill {
            true => state.space.victims_of_fill(over, is_pinned)?,
            false => state.space.victims(over, is_pinned),
        };
        let (mut gone, mut all_going) = (0, Vec::new());
        for key in victims {
            gone += state.space.evict(key);
            let Some(version) = state.version(key.version).cloned() else {
                continue;
            };
            if let Some(device) = self.device.get() {
                let part = version.part(key.index, &self.library, None);
                device.part(version.stream, key.index, part);
            }
            let (say, going) = watch::channel(None);
            all_going.push(going.clone());
            {
                // Whoever wants it has it fetched when it has gone, so that the new one is not removed.
                let mut table = version.table();
                table.present[key.index as usize] = false;
                table.coming.insert(key.index, going);
            }
            self.store.begin(move || {
                store::remove_slice(&version.folder, key.index);
                version.table().coming.remove(&key.index);
                let _ = say.send(Some(Ok(())));
            });
        }
        Counters::add(&self.counters.evicted_bytes, gone);
        Some(all_going)
    }
}

fn is_no_space(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
