//! Fetches missing slices: one fetch for all waiting replies, then the slice is written and the
//! engine is notified.
//!
//! Invariants: a fetch is independent of the replies that wait for it, so a client that disconnects
//! does not affect others; a fetch that no reply waits for when its turn comes is skipped, unless
//! it is a prefetch.

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

/// Upper limit of attempts per slice, and the pause between them. Each attempt continues after the
/// bytes received.
const TRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Number of slices to evict when the disk is unexpectedly full.
const SLICES_FREED: u64 = 8;

/// Purpose of a slice lookup.
#[derive(Clone, Copy)]
struct FetchPurpose {
    /// The caller has waited for this slice already.
    is_miss: bool,
    /// A prefetch: no reply waits for it.
    is_ahead: bool,
    /// A fill: fetched ahead of all viewers.
    is_fill: bool,
}

/// Whether no reply waits for a slice any more; then its fetch is cancelled. One receiver is held
/// by the table.
fn is_given_up(version: &Version, index: u32, say: &watch::Sender<Outcome>) -> bool {
    let mut table = version.table();
    let is_given_up = say.receiver_count() <= 1;
    if is_given_up {
        table.coming.remove(&index);
    }
    is_given_up
}

/// Result of a slice lookup.
enum SliceLookup {
    Here(Pinned),
    Coming(watch::Receiver<Outcome>),
}

impl Pull {
    /// Fetches a slice for the reply to request `by`, which reads up to the byte `until` of the
    /// title.
    ///
    /// # Errors
    /// If the slice cannot be fetched.
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
                FetchPurpose {
                    is_miss,
                    is_ahead: false,
                    is_fill: false,
                },
                Some(by),
            ) {
                SliceLookup::Here(pinned) => break pinned,
                SliceLookup::Coming(mut outcome) => {
                    is_miss = true;
                    self.ahead(version, index, until, by);
                    let _waits = self.counters.wait();
                    match self.wait(&mut outcome).await {
                        // A fill may use less space than a viewer.
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

    /// Fetches a slice for a fill.
    ///
    /// # Errors
    /// If the slice cannot be fetched; [`Fault::NoSpace`] also if that would evict more valuable
    /// slices.
    pub(super) async fn bring_for_fill(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
    ) -> Result<(), Fault> {
        let wanted = FetchPurpose {
            is_miss: true,
            is_ahead: true,
            is_fill: true,
        };
        match self.look(version, index, wanted, None) {
            SliceLookup::Here(_) => Ok(()),
            SliceLookup::Coming(mut outcome) => self.wait(&mut outcome).await,
        }
    }

    /// Whether `bytes` fit without evicting slices more valuable to viewers.
    pub(super) fn has_room_for_fill(&self, bytes: u64) -> bool {
        let state = self.state();
        let wanted = state.space.used_bytes() + state.coming_bytes + bytes;
        let over = wanted.saturating_sub(self.rule.bytes_max);
        let victims = state
            .space
            .victims_of_fill(over, |key| state.is_pinned(key));
        victims.is_some()
    }

    /// A read failed because the file of a slice is missing or different. A missing slice is marked
    /// as absent, so that it is fetched again.
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
        wanted: FetchPurpose,
        by: Option<&RequestId>,
    ) -> SliceLookup {
        let mut table = version.table();
        if table.present.get(index as usize) == Some(&true) {
            *table.pins.entry(index).or_insert(0) += 1;
            return SliceLookup::Here(Pinned::new(version, index, wanted.is_miss));
        }
        if let Some(coming) = table.coming.get(&index) {
            return SliceLookup::Coming(coming.clone());
        }
        let (say, coming) = watch::channel(None);
        table.coming.insert(index, coming.clone());
        let (pull, by) = (Arc::clone(self), by.cloned());
        tokio::spawn(pull.fetch(Arc::clone(version), (index, wanted), by, say));
        SliceLookup::Coming(coming)
    }

    /// Prefetches the slices that a reader of this one needs next.
    fn ahead(self: &Arc<Self>, version: &Arc<Version>, index: u32, until: u64, by: &RequestId) {
        let reads_on = index > 0 && version.table().present.get(index as usize - 1) == Some(&true);
        let ahead = version
            .slices
            .ahead(index, until, self.rule.ahead_bytes, reads_on);
        for next in ahead.start..ahead.end {
            // Dropping the result leaves the fetch running.
            let wanted = FetchPurpose {
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
        (index, wanted): (u32, FetchPurpose),
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
                "slice not fetched"
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
                // Keep the received bytes and request the rest.
                Err(fault) if fault.is_passing() && tried + 1 < TRIES_MAX => tried += 1,
                Err(fault) => return Err(fault),
            }
            tokio::time::sleep(RETRY_PAUSE * tried).await;
        }
        self.keep(version, (index, is_fill), Arc::new(bytes)).await
    }

    /// Writes a slice after making room for it.
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
            // Other fetches may have used the freed space, or be freeing all that can be freed now.
            self.free(SLICES_FREED * self.rule.slice_bytes, false).await;
            // Time for the engine to close its open files of evicted slices.
            tokio::time::sleep(RETRY_PAUSE).await;
            written = self.write(version, index, &bytes).await;
        }
        if let Err(error) = written.as_ref()
            && !(is_fill && is_no_space(error))
        {
            let folder = version.folder.display();
            tracing::warn!(%folder, %error, "cannot write slice");
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
        written.unwrap_or_else(|| Err(std::io::Error::other("too many jobs wait for the disk")))
    }

    /// Evicts slices until the pending slices and `more` bytes fit, and waits for their removal.
    /// Returns whether there is room; always true except for a fill.
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
                // A request for the evicted slice waits for the removal, so that the removal does
                // not delete a new file.
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
