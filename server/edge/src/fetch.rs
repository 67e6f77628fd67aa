//! Fetches missing slices: one fetch for all replies that need a slice. They receive the bytes as
//! they arrive; then the slice is written and the engine is notified.
//!
//! Invariants: a fetch is independent of the replies that wait for it, so a client that disconnects
//! does not affect others; a fetch that no reply waits for when its turn comes is skipped, unless
//! it is a prefetch; bytes that cannot be stored are still delivered, in pieces while the store
//! fails.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headlong_engine::PartSpec;
use headlong_pull::{FOLDER_BYTES, ResponseFault, SliceKey, file_bytes};
use headlong_telemetry::RequestId;
use headlong_units::ByteRange;
use tokio::sync::watch;

use super::counters::PullCounters;
use super::incoming_slice::{IncomingBytes, IncomingSlice};
use super::origin::FETCHES_MAX;
use super::slice_pin::SlicePin;
use super::store;
use super::store_task::is_no_space;
use super::title;
use super::titles::Pull;
use super::version::{SlicePart, Version};

/// Upper limit of attempts per slice, and the pause between them. Each attempt continues after the
/// bytes received.
const TRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Number of slices to evict when the disk is unexpectedly full.
const SLICES_FREED: u64 = 8;

/// The bytes of a title that a reply needs next.
#[derive(Debug, Clone, Copy)]
pub struct SliceRequest {
    /// Their slice.
    pub index: u32,
    /// Their range in the slice; not empty.
    pub range: ByteRange,
    /// The end of the reply in the title.
    pub until: u64,
    /// Whether the reply has received bytes of this slice before.
    pub is_further: bool,
    /// Whether the device that stores the slices does not answer: the bytes come from the origin,
    /// even if the slice is stored.
    pub is_device_offline: bool,
}

/// Where a reply finds the bytes that it needs.
#[derive(Debug)]
pub enum SliceContent {
    /// In a stored slice.
    Stored(SlicePin),
    /// Here: the first of them, as they came from the origin.
    Bytes(Bytes),
}

/// Purpose of a slice lookup.
#[derive(Clone, Copy)]
struct FetchPurpose {
    /// The caller has waited for this slice already.
    is_miss: bool,
    /// A prefetch: no reply waits for it.
    is_ahead: bool,
    /// A fill: fetched ahead of all viewers.
    is_fill: bool,
    /// The bytes are not stored, and not read from the store.
    skips_store: bool,
}

/// Whether no reply waits for a slice any more; then its fetch is cancelled. One receiver is held
/// by the table.
fn is_given_up(version: &Version, part: SlicePart, say: &watch::Sender<IncomingSlice>) -> bool {
    let mut table = version.table();
    let is_given_up = say.receiver_count() <= 1;
    if is_given_up {
        table.coming.remove(&part);
    }
    is_given_up
}

/// Result of a slice lookup.
enum SliceLookup {
    Here(SlicePin),
    Coming(SlicePart, watch::Receiver<IncomingSlice>),
}

impl Pull {
    /// Brings bytes of a slice to the reply to request `by`.
    ///
    /// # Errors
    /// If they cannot be fetched.
    pub async fn fetch(
        self: &Arc<Self>,
        version: &Arc<Version>,
        wanted: SliceRequest,
        by: &RequestId,
    ) -> Result<SliceContent, ResponseFault> {
        let SliceRequest {
            index,
            range,
            until,
            is_further,
            is_device_offline,
        } = wanted;
        let mut is_miss = is_further;
        let brought = loop {
            let purpose = FetchPurpose {
                is_miss,
                is_ahead: false,
                is_fill: false,
                skips_store: is_device_offline,
            };
            match self.lookup(version, index, range.start, purpose, Some(by)) {
                SliceLookup::Here(pinned) => break SliceContent::Stored(pinned),
                SliceLookup::Coming(part, mut incoming) => {
                    is_miss = true;
                    if !is_further && !is_device_offline {
                        self.ahead(version, index, until, by);
                    }
                    let _waits = self.counters.wait();
                    let start = part.offset();
                    let range = ByteRange::new(range.start - start, range.end - start);
                    match self
                        .wait(&mut incoming, |slice| slice.read(range))
                        .await??
                    {
                        IncomingBytes::Bytes(bytes) => break SliceContent::Bytes(bytes),
                        IncomingBytes::Ended => {}
                    }
                }
            }
        };
        if !is_further {
            let counter = if is_miss {
                &self.counters.misses
            } else {
                &self.counters.hits
            };
            PullCounters::add(counter, 1);
        }
        if let SliceContent::Stored(_) = brought {
            self.touch(version, index);
        }
        if !is_miss {
            self.ahead(version, index, until, by);
        }
        Ok(brought)
    }

    /// Fetches a slice for a fill.
    ///
    /// # Errors
    /// If the slice cannot be fetched or stored; [`ResponseFault::NoSpace`] also if that would
    /// evict more valuable slices.
    pub(super) async fn fetch_for_fill(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
    ) -> Result<(), ResponseFault> {
        if let Some(fault) = self.health.fault() {
            return Err(fault);
        }
        let wanted = FetchPurpose {
            is_miss: true,
            is_ahead: true,
            is_fill: true,
            skips_store: false,
        };
        match self.lookup(version, index, 0, wanted, None) {
            SliceLookup::Here(_) => Ok(()),
            SliceLookup::Coming(_, mut incoming) => {
                self.wait(&mut incoming, |slice| slice.end).await?
            }
        }
    }

    /// Whether `bytes` fit without evicting slices more valuable to viewers.
    pub(super) fn has_room_for_fill(&self, bytes: u64) -> bool {
        let state = self.state();
        let wanted = state.space.used_bytes() + state.coming_bytes + usage_of(bytes);
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
        if self.store.run(move || path.exists()).await == Some(false) {
            self.mark_absent(version, index);
        }
    }

    /// The disk could not read a slice: removes it and marks it as absent, so that it is fetched
    /// again. If it cannot be removed, writing the new one fails, and its bytes are passed on.
    pub async fn discard(&self, version: &Arc<Version>, index: u32) {
        let path = store::slice_path(&version.folder, index);
        self.health.note_unreadable(&path);
        let _ = self.store.run(move || std::fs::remove_file(path)).await;
        self.mark_absent(version, index);
    }

    fn mark_absent(&self, version: &Version, index: u32) {
        let mut state = self.state();
        state.space.remove(SliceKey {
            version: version.key,
            index,
        });
        if let Some(present) = version.table().present.get_mut(index as usize) {
            *present = false;
        }
    }

    /// Finds the slice, or the part of it with this offset that is being fetched, or starts to
    /// fetch it.
    fn lookup(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
        offset: u64,
        wanted: FetchPurpose,
        by: Option<&RequestId>,
    ) -> SliceLookup {
        let mut table = version.table();
        if table.present.get(index as usize) == Some(&true) && !wanted.skips_store {
            *table.pins.entry(index).or_insert(0) += 1;
            return SliceLookup::Here(SlicePin::new(version, index, wanted.is_miss));
        }
        let whole = SlicePart::whole(index);
        let piece = SlicePart::piece_at(index, offset);
        for part in [whole, piece] {
            // A fill needs slices.
            if wanted.is_fill && !part.is_whole() {
                continue;
            }
            if let Some(coming) = table.coming.get(&part) {
                return SliceLookup::Coming(part, coming.clone());
            }
        }
        let part = match self.health.fault().is_some() || wanted.skips_store {
            true => piece,
            false => whole,
        };
        let length = part.range(version.slices).len();
        let (say, coming) = watch::channel(IncomingSlice::new(length));
        table.coming.insert(part, coming.clone());
        let (pull, by) = (Arc::clone(self), by.cloned());
        tokio::spawn(pull.fetch_part(Arc::clone(version), part, wanted, by, say));
        SliceLookup::Coming(part, coming)
    }

    /// Prefetches the slices that a reader of this one needs next.
    fn ahead(self: &Arc<Self>, version: &Arc<Version>, index: u32, until: u64, by: &RequestId) {
        if self.health.fault().is_some() {
            // It would be dropped before it is read.
            return;
        }
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
                skips_store: false,
            };
            drop(self.lookup(version, next as u32, 0, wanted, Some(by)));
        }
    }

    async fn fetch_part(
        self: Arc<Self>,
        version: Arc<Version>,
        part: SlicePart,
        wanted: FetchPurpose,
        by: Option<RequestId>,
        say: watch::Sender<IncomingSlice>,
    ) {
        let outcome = match self.fetches.acquire().await {
            Ok(_turn) => {
                if !wanted.is_ahead && is_given_up(&version, part, &say) {
                    return;
                }
                PullCounters::add(&self.counters.in_flight, 1);
                let outcome = self
                    .fetch_now(&version, part, wanted.is_fill, by.as_ref(), &say)
                    .await;
                self.counters
                    .in_flight
                    .fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                outcome
            }
            Err(_) => Err(ResponseFault::Unreachable),
        };
        let is_whole = say.borrow().is_whole();
        if let Err(fault) = outcome {
            self.counters.fault(fault);
            tracing::debug!(
                path = title::split(&version.about.path).0,
                index = part.index,
                fault = fault.name(),
                "slice not fetched or not stored"
            );
            if matches!(
                fault,
                ResponseFault::Changed | ResponseFault::WrongLength | ResponseFault::Absent
            ) {
                self.distrust(&version);
            }
        }
        let is_storing = self.health.fault().is_none() && !wanted.skips_store;
        match outcome {
            Err(fault) if !is_storing && is_whole && !version.is_retired() => {
                let length = part.range(version.slices).len();
                PullCounters::add(&self.counters.unstored_bytes, length);
                self.health.note_unstored(fault);
                let bytes_max = self.rule.slice_bytes * FETCHES_MAX as u64;
                self.state().add_unstored(&version, part, bytes_max);
            }
            _ => drop(version.table().coming.remove(&part)),
        }
        say.send_modify(|slice| slice.end(outcome));
    }

    /// Fetches a part of a slice into `slice`, and stores it if it is a whole one.
    async fn fetch_now(
        self: &Arc<Self>,
        version: &Arc<Version>,
        part: SlicePart,
        is_fill: bool,
        by: Option<&RequestId>,
        slice: &watch::Sender<IncomingSlice>,
    ) -> Result<(), ResponseFault> {
        let range = part.range(version.slices);
        let mut tried = 0;
        let mut has_all = self.fetch_from_peer(version, range, by, slice).await;
        while !has_all {
            if version.is_retired() {
                return Err(ResponseFault::Changed);
            }
            let before = slice.borrow().received();
            let fetched = self
                .origin
                .fetch(&version.about.path, &version.told, range, by, slice)
                .await;
            let more = slice.borrow().received() - before;
            PullCounters::add(&self.counters.fetched_bytes, more);
            if is_fill {
                PullCounters::add(&self.counters.filled_bytes, more);
            }
            match fetched {
                Ok(()) => {
                    has_all = true;
                    continue;
                }
                // Keep the received bytes and request the rest.
                Err(fault) if fault.is_passing() && tried + 1 < TRIES_MAX => tried += 1,
                Err(fault) => return Err(fault),
            }
            tokio::time::sleep(RETRY_PAUSE * tried).await;
        }
        let mut bytes = Arc::default();
        slice.send_modify(|slice| bytes = slice.complete());
        if !part.is_whole() {
            return Err(self.health.fault().unwrap_or(ResponseFault::Disk));
        }
        self.store(version, part.index, is_fill, bytes).await?;
        if slice.borrow().was_read() {
            self.touch(version, part.index);
        }
        Ok(())
    }

    /// Fetches a range from the peers, if one of them has the version: first from that one, which
    /// may lack the slice. Returns whether all of it has come; the origin sends the rest.
    async fn fetch_from_peer(
        &self,
        version: &Version,
        range: ByteRange,
        by: Option<&RequestId>,
        slice: &watch::Sender<IncomingSlice>,
    ) -> bool {
        let Some(known) = version.peer() else {
            return false;
        };
        let name = &version.about.path;
        let mut peers: Vec<_> = self.peers.order(name).collect();
        peers.sort_by_key(|(number, _)| *number != known);
        for (number, peer) in peers {
            let before = slice.borrow().received();
            let fetched = peer.fetch(name, &version.told, range, by, slice).await;
            PullCounters::add(
                &self.counters.peer_bytes,
                slice.borrow().received() - before,
            );
            if fetched.is_ok() {
                version.set_peer(Some(number));
                return true;
            }
        }
        false
    }

    /// Counts a read of a stored slice.
    fn touch(&self, version: &Version, index: u32) {
        self.state().space.touch(SliceKey {
            version: version.key,
            index,
        });
    }

    /// Writes a slice after making room for it.
    async fn store(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
        is_fill: bool,
        bytes: Arc<Vec<u8>>,
    ) -> Result<(), ResponseFault> {
        if let Some(fault) = self.health.fault() {
            return Err(fault);
        }
        let usage = usage_of(bytes.len() as u64);
        self.state().coming_bytes += usage;
        if !self.free(0, is_fill).await {
            self.state().coming_bytes -= usage;
            return Err(ResponseFault::NoSpace);
        }
        let mut written = self.write(version, index, &bytes).await;
        for _ in 0..TRIES_MAX {
            if is_fill || !written.as_ref().is_err_and(is_no_space) {
                break;
            }
            // Other fetches may have used the freed space, or be freeing all that can be freed now.
            self.free_more().await;
            // Time for the engine to close its open files of evicted slices.
            tokio::time::sleep(RETRY_PAUSE).await;
            written = self.write(version, index, &bytes).await;
        }
        let written = written.map_err(|error| match is_fill && is_no_space(&error) {
            true => ResponseFault::NoSpace,
            false => self.lose_store(&error),
        });
        let mut state = self.state();
        state.coming_bytes -= usage;
        let (part, disk_bytes) = written?;
        if version.is_retired() || state.version(version.key).is_none() {
            let folder = version.folder.clone();
            self.store.begin(move || store::remove_version(&folder));
            return Err(ResponseFault::Changed);
        }
        let key = SliceKey {
            version: version.key,
            index,
        };
        match is_fill {
            true => state.space.add_filled(key, disk_bytes),
            false => state.space.add_awaited(key, disk_bytes),
        }
        version.table().present[index as usize] = true;
        if let Some(device) = self.device.get() {
            device.part(version.stream, index, part);
        }
        Ok(())
    }

    /// Writes a slice; returns it as a part of the stream, and its disk usage.
    async fn write(
        self: &Arc<Self>,
        version: &Arc<Version>,
        index: u32,
        bytes: &Arc<Vec<u8>>,
    ) -> std::io::Result<(PartSpec, u32)> {
        let (of, bytes, library) = (Arc::clone(version), Arc::clone(bytes), self.library.clone());
        let free_bytes_min = self.store.free_bytes_min();
        let job = move || {
            let files = of.files.read().unwrap_or_else(PoisonError::into_inner);
            let written = store::write(&of.folder, &of.about, index, &bytes, free_bytes_min);
            drop(files);
            if written.is_err() {
                let _files = of.files.write().unwrap_or_else(PoisonError::into_inner);
                store::remove_if_empty(&of.folder);
            }
            let file = written?;
            let disk_bytes = store::disk_bytes(&file.metadata()?);
            Ok((of.part(index, &library, Some(&file)), disk_bytes))
        };
        let written = self.store.run(job).await;
        written.unwrap_or_else(|| Err(std::io::Error::other("too many jobs wait for the disk")))
    }

    /// Evicts several slices, when the disk is unexpectedly full.
    pub(super) async fn free_more(&self) {
        self.free(SLICES_FREED * self.rule.slice_bytes, false).await;
    }

    /// Evicts slices until the pending slices and `more` bytes fit, and waits for their removal.
    /// Returns whether there is room; always true except for a fill.
    async fn free(&self, more: u64, is_fill: bool) -> bool {
        let Some(all_going) = self.begin_freeing(more, is_fill) else {
            return false;
        };
        for mut going in all_going {
            let _ = going.wait_for(|slice| slice.end.is_some()).await;
        }
        true
    }

    fn begin_freeing(
        &self,
        more: u64,
        is_fill: bool,
    ) -> Option<Vec<watch::Receiver<IncomingSlice>>> {
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
            let (say, going) = watch::channel(IncomingSlice::default());
            all_going.push(going.clone());
            {
                // A request for the evicted slice waits for the removal, so that the removal does
                // not delete a new file.
                let mut table = version.table();
                table.present[key.index as usize] = false;
                table.coming.insert(SlicePart::whole(key.index), going);
            }
            self.store.begin(move || {
                let files = version
                    .files
                    .write()
                    .unwrap_or_else(PoisonError::into_inner);
                store::remove_slice(&version.folder, key.index);
                drop(files);
                version.table().coming.remove(&SlicePart::whole(key.index));
                say.send_modify(|slice| slice.end(Ok(())));
            });
        }
        PullCounters::add(&self.counters.evicted_bytes, gone);
        Some(all_going)
    }
}

/// Disk usage of a slice of `bytes` bytes before it is written, with its folder.
const fn usage_of(bytes: u64) -> u64 {
    file_bytes(bytes) + FOLDER_BYTES
}
