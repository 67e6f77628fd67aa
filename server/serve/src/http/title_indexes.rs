//! Indexes of titles that are packaged: each is made once for all requests that wait for it, by a task
//! that goes on if they end, and those that were used least recently are dropped. Their outlines take
//! a quarter of the memory and are kept longer: playlists of a title need those of all its files.
//!
//! Invariants: an index or outline is of one version of its file; all together take no more memory
//! than the setting allows, besides that of the latest one and of requests in progress.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use headlong_config::{
    EtagTime, PACKAGE_READING_BYTES, PACKAGE_SEGMENT_BYTES, PACKAGE_STORING_BYTES,
};
use headlong_package::{PackageFault, Title, TitleOutline, Version};
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;
use tokio::time::{Instant, timeout, timeout_at};

use super::fragment_store::FragmentStore;

/// Most files with an index, or with a reason why there is none.
const ENTRIES_MAX: usize = 4096;
/// Memory of an entry besides its index.
const ENTRY_BYTES: usize = 512;
/// Share of the memory that outlines may take: one part of so many.
const OUTLINE_SHARE: u64 = 4;
/// Unit of the memory for reading.
const UNIT_BYTES: u64 = 1 << 20;
/// Unit of the memory for heads of segments.
const SEGMENT_UNIT_BYTES: u64 = 16 << 10;
/// Files of a device whose headers are read at a time: a disk that does not answer holds up no
/// others.
const READERS_PER_DEVICE: usize = 4;

/// The index of a version of a file.
#[derive(Debug)]
pub(super) struct PackagedTitle {
    pub(super) title: Title,
    pub(super) version: Version,
}

/// The outline of a version of a file.
#[derive(Debug)]
pub(super) struct PackagedOutline {
    pub(super) outline: TitleOutline,
    pub(super) version: Version,
}

impl PackagedTitle {
    /// Its outline.
    pub(super) fn outline(&self) -> Arc<PackagedOutline> {
        Arc::new(PackagedOutline {
            outline: self.title.outline(),
            version: self.version,
        })
    }
}

/// An index, or why the file cannot be packaged.
pub(super) type IndexOutcome = Result<Arc<PackagedTitle>, PackageFault>;

/// The key of an index, besides the path of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexKey {
    pub(super) stream: u64,
    pub(super) part: u32,
    pub(super) segment: headlong_units::Duration,
    pub(super) etag: EtagTime,
    /// Whether the file's own index of its fragments was wrong.
    pub(super) is_distrusted: bool,
}

/// The place of an index.
#[derive(Debug, Default)]
struct IndexSlot {
    outcome: OnceLock<IndexOutcome>,
    /// Held while it is read: by the task that reads it, whether its request has ended or not.
    reading: Arc<AsyncMutex<()>>,
}

#[derive(Debug)]
struct IndexEntry {
    key: IndexKey,
    slot: Arc<IndexSlot>,
    /// Time of the last use, counted in uses.
    used: u64,
}

#[derive(Debug)]
struct OutlineEntry {
    key: IndexKey,
    made: Arc<PackagedOutline>,
    /// Time of the last use, counted in uses.
    used: u64,
}

/// An entry of a table whose least recently used entries are dropped.
trait TableEntry {
    fn bytes(&self) -> u64;
    fn used(&self) -> u64;
}

impl TableEntry for IndexEntry {
    fn bytes(&self) -> u64 {
        let made = self
            .slot
            .outcome
            .get()
            .and_then(|outcome| outcome.as_ref().ok());
        (ENTRY_BYTES + made.map_or(0, |made| made.title.memory_bytes())) as u64
    }

    fn used(&self) -> u64 {
        self.used
    }
}

impl TableEntry for OutlineEntry {
    fn bytes(&self) -> u64 {
        (ENTRY_BYTES + self.made.outline.memory_bytes()) as u64
    }

    fn used(&self) -> u64 {
        self.used
    }
}

/// Drops the entries that were used least recently; returns the bytes of the others.
fn trim<E: TableEntry>(by_path: &mut HashMap<String, E>, bytes_max: u64) -> u64 {
    let mut bytes: u64 = by_path.values().map(TableEntry::bytes).sum();
    while by_path.len() > 1 && (bytes > bytes_max || by_path.len() > ENTRIES_MAX) {
        let oldest = by_path.iter().min_by_key(|(_, entry)| entry.used());
        let Some(path) = oldest.map(|(path, _)| path.clone()) else {
            break;
        };
        if let Some(entry) = by_path.remove(&path) {
            bytes -= entry.bytes();
        }
    }
    bytes
}

#[derive(Debug, Default)]
struct IndexTable {
    by_path: HashMap<String, IndexEntry>,
    outlines: HashMap<String, OutlineEntry>,
    /// Streams whose own index of their fragments was wrong.
    distrusted: HashSet<u64>,
    uses: u64,
}

impl IndexTable {
    fn trim(&mut self, bytes_max: u64) {
        let of_outlines = trim(&mut self.outlines, bytes_max / OUTLINE_SHARE);
        trim(&mut self.by_path, bytes_max.saturating_sub(of_outlines));
    }

    /// The time of a use.
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

fn units_of(bytes: u64, unit_bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(unit_bytes)).unwrap_or(u32::MAX)
}

/// Memory that readers wait for.
#[derive(Debug, Clone)]
pub(super) struct HeaderMemory {
    units: Arc<Semaphore>,
    unit_bytes: u64,
}

impl HeaderMemory {
    fn new(bytes: u64, unit_bytes: u64) -> Self {
        let units = units_of(bytes, unit_bytes) as usize;
        Self {
            units: Arc::new(Semaphore::new(units)),
            unit_bytes,
        }
    }

    fn units(&self, bytes: u64) -> u32 {
        units_of(bytes, self.unit_bytes)
    }

    /// Reserves memory if it is available now.
    pub(super) fn try_reserve(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = self.units(bytes);
        Arc::clone(&self.units).try_acquire_many_owned(units).ok()
    }

    /// Waits for memory for headers that other readers hold; `None` if there
    /// is none in time.
    pub(super) async fn reserve(
        &self,
        bytes: u64,
        within: Duration,
    ) -> Option<OwnedSemaphorePermit> {
        let memory = Arc::clone(&self.units).acquire_many_owned(self.units(bytes));
        timeout(within, memory).await.ok()?.ok()
    }

    /// Extends a reservation to so many bytes, if they are available now; returns whether it did.
    /// Waiting for more while memory is held would let readers wait for each other.
    pub(super) fn extend(&self, held: &mut OwnedSemaphorePermit, bytes: u64) -> bool {
        let held_units = u32::try_from(held.num_permits()).unwrap_or(u32::MAX);
        let lacking = self.units(bytes).saturating_sub(held_units);
        match Arc::clone(&self.units).try_acquire_many_owned(lacking) {
            Ok(more) => {
                held.merge(more);
                true
            }
            Err(_) => false,
        }
    }
}

/// The indexes; clones share them.
#[derive(Debug, Clone)]
pub(super) struct TitleIndexes {
    table: Arc<Mutex<IndexTable>>,
    readers: Arc<[Arc<Semaphore>]>,
    /// For headers of files.
    pub(super) memory: HeaderMemory,
    /// For heads of segments, which never wait for a file whose reading takes minutes.
    pub(super) segment_memory: HeaderMemory,
    /// For copies of headers while they are stored.
    pub(super) storing_memory: HeaderMemory,
    store: Arc<OnceLock<FragmentStore>>,
}

impl TitleIndexes {
    /// For files of so many devices.
    pub(super) fn new(devices: usize) -> Self {
        let readers = |_| Arc::new(Semaphore::new(READERS_PER_DEVICE));
        Self {
            table: Arc::default(),
            readers: (0..devices).map(readers).collect(),
            memory: HeaderMemory::new(PACKAGE_READING_BYTES, UNIT_BYTES),
            segment_memory: HeaderMemory::new(PACKAGE_SEGMENT_BYTES, SEGMENT_UNIT_BYTES),
            storing_memory: HeaderMemory::new(PACKAGE_STORING_BYTES, UNIT_BYTES),
            store: Arc::default(),
        }
    }

    /// Keeps headers that took many reads in the state folder from now on.
    pub(super) fn keep_in(&self, state: &Path) {
        // It is set once, at the start.
        let _ = self.store.set(FragmentStore::new(state));
    }

    /// Where such headers are kept, if anywhere.
    pub(super) fn store(&self) -> Option<FragmentStore> {
        self.store.get().cloned()
    }

    /// The index of a file: a stored one of the same version, or the output of the future that `begin`
    /// returns. `begin` ends with the request, that future runs to its end. A failure is not stored.
    pub(super) async fn get<R, E>(
        &self,
        path: &str,
        key: IndexKey,
        bytes_max: u64,
        begin: impl Future<Output = Result<R, E>> + Send,
    ) -> Result<IndexOutcome, E>
    where
        R: Future<Output = Result<IndexOutcome, E>> + Send + 'static,
        E: From<JoinError> + Send + 'static,
    {
        let slot = self.slot(path, key, bytes_max);
        if let Some(outcome) = slot.outcome.get() {
            return Ok(outcome.clone());
        }
        let reading = Arc::clone(&slot.reading).lock_owned().await;
        // Read while this request waited.
        if let Some(outcome) = slot.outcome.get() {
            return Ok(outcome.clone());
        }
        let read = begin.await?;
        let (indexes, path) = (self.clone(), path.to_owned());
        let task = tokio::spawn(async move {
            let made = read.await?;
            indexes.store_outline(path, key, &made);
            // Empty, as only the holder of `reading` fills it.
            let _ = slot.outcome.set(made.clone());
            indexes.lock().trim(bytes_max);
            drop(reading);
            Ok::<_, E>(made)
        });
        task.await?
    }

    /// Stores the outline of an index, unless the file has another version meanwhile.
    fn store_outline(&self, path: String, key: IndexKey, made: &IndexOutcome) {
        let Ok(made) = made else {
            return;
        };
        let made = made.outline();
        let mut table = self.lock();
        let current = table.by_path.get(&path);
        if current.is_none_or(|entry| entry.key == key) {
            let used = table.next_use();
            let entry = OutlineEntry { key, made, used };
            table.outlines.insert(path, entry);
        }
    }

    /// Notes that a stream's own index of its fragments is wrong.
    pub(super) fn distrust(&self, stream: u64) {
        let mut table = self.lock();
        if table.distrusted.len() >= ENTRIES_MAX {
            // Those that are still requested are noted again.
            table.distrusted.clear();
        }
        table.distrusted.insert(stream);
    }

    pub(super) fn distrusts(&self, stream: u64) -> bool {
        self.lock().distrusted.contains(&stream)
    }

    /// The outline of a file that was indexed in this version, unless it was dropped since.
    pub(super) fn outline(&self, path: &str, key: IndexKey) -> Option<Arc<PackagedOutline>> {
        let mut table = self.lock();
        let used = table.next_use();
        let entry = table.outlines.get_mut(path)?;
        entry.used = used;
        (entry.key == key).then(|| Arc::clone(&entry.made))
    }

    /// Files that cannot be packaged, with their stream: those that were requested of late.
    pub(super) fn refused(&self) -> Vec<(String, u64, PackageFault)> {
        let table = self.lock();
        let refused = table.by_path.iter().filter_map(|(path, entry)| {
            let fault = entry.slot.outcome.get()?.as_ref().err()?;
            Some((path.clone(), entry.key.stream, *fault))
        });
        refused.collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, IndexTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of an index; another version of the file is forgotten.
    fn slot(&self, path: &str, key: IndexKey, bytes_max: u64) -> Arc<IndexSlot> {
        let mut table = self.lock();
        let used = table.next_use();
        if let Some(entry) = table.by_path.get_mut(path)
            && entry.key == key
        {
            entry.used = used;
            return Arc::clone(&entry.slot);
        }
        let entry = IndexEntry {
            key,
            slot: Arc::default(),
            used,
        };
        let slot = Arc::clone(&entry.slot);
        table.by_path.insert(path.to_owned(), entry);
        table.trim(bytes_max);
        slot
    }

    /// Waits for a turn to read headers from a device; `None` if there
    /// is none by then.
    pub(super) async fn turn(&self, device: usize, until: Instant) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(self.readers.get(device)?).acquire_owned();
        timeout_at(until, turn).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: IndexKey = IndexKey {
        stream: 1,
        part: 0,
        segment: headlong_units::Duration::ZERO,
        etag: EtagTime::Seconds,
        is_distrusted: false,
    };

    #[derive(Debug)]
    struct ReadFailed;

    impl From<JoinError> for ReadFailed {
        fn from(_: JoinError) -> Self {
            Self
        }
    }

    async fn fails_to_be_packaged() -> Result<IndexOutcome, ReadFailed> {
        Ok(Err(PackageFault::NoTrack))
    }

    async fn made(indexes: &TitleIndexes, path: &str, key: IndexKey, bytes_max: u64) -> bool {
        let mut is_made = false;
        let begin = async {
            is_made = true;
            Ok::<_, ReadFailed>(fails_to_be_packaged())
        };
        let outcome = indexes.get(path, key, bytes_max, begin).await;
        assert_eq!(outcome.expect("read").err(), Some(PackageFault::NoTrack));
        is_made
    }

    #[tokio::test]
    async fn index_is_made_once_for_each_version() {
        let indexes = TitleIndexes::new(2);
        assert!(made(&indexes, "a", KEY, 1 << 20).await);
        assert!(!made(&indexes, "a", KEY, 1 << 20).await);
        let changed = IndexKey { stream: 2, ..KEY };
        assert!(made(&indexes, "a", changed, 1 << 20).await);
        assert!(made(&indexes, "a", KEY, 1 << 20).await);
        let fails = async { Ok::<_, ReadFailed>(async { Err(ReadFailed) }) };
        let failed = indexes.get("b", KEY, 1 << 20, fails).await;
        assert!(failed.is_err());
        assert!(made(&indexes, "b", KEY, 1 << 20).await);
    }

    #[tokio::test]
    async fn least_recently_used_index_is_dropped() {
        let indexes = TitleIndexes::new(2);
        let room = 2 * ENTRY_BYTES as u64;
        made(&indexes, "a", KEY, room).await;
        made(&indexes, "b", KEY, room).await;
        assert!(!made(&indexes, "a", KEY, room).await);
        made(&indexes, "c", KEY, room).await;
        assert!(!made(&indexes, "a", KEY, room).await);
        assert!(made(&indexes, "b", KEY, room).await);
    }

    #[tokio::test]
    async fn memory_for_reading_is_shared() {
        let indexes = TitleIndexes::new(2);
        let most = indexes
            .memory
            .reserve(PACKAGE_READING_BYTES - UNIT_BYTES, Duration::ZERO);
        let most = most.await.expect("memory");
        let more = || indexes.memory.reserve(UNIT_BYTES + 1, Duration::ZERO);
        assert!(more().await.is_none());
        drop(most);
        assert!(more().await.is_some());
        let _turns = all_turns(&indexes).await;
        assert!(indexes.turn(0, Instant::now()).await.is_none());
        assert!(indexes.turn(1, Instant::now()).await.is_some());
    }

    #[tokio::test]
    async fn memory_for_reading_is_extended_without_waiting() {
        let indexes = TitleIndexes::new(1);
        let mut held = indexes
            .memory
            .reserve(UNIT_BYTES, Duration::ZERO)
            .await
            .expect("memory");
        assert!(indexes.memory.extend(&mut held, 3 * UNIT_BYTES));
        assert_eq!(held.num_permits(), 3);
        let left = PACKAGE_READING_BYTES - 3 * UNIT_BYTES;
        let other = indexes
            .memory
            .reserve(left, Duration::ZERO)
            .await
            .expect("memory");
        assert!(!indexes.memory.extend(&mut held, 4 * UNIT_BYTES));
        assert_eq!(held.num_permits(), 3);
        drop(other);
        assert!(indexes.memory.extend(&mut held, PACKAGE_READING_BYTES));
    }

    async fn all_turns(indexes: &TitleIndexes) -> Vec<OwnedSemaphorePermit> {
        let mut turns = Vec::new();
        for _ in 0..READERS_PER_DEVICE {
            turns.push(indexes.turn(0, Instant::now()).await.expect("a turn"));
        }
        turns
    }

    #[tokio::test(start_paused = true)]
    async fn requests_for_one_index_wait_for_a_turn_together() {
        let indexes = TitleIndexes::new(1);
        let _turns = all_turns(&indexes).await;
        let within = Duration::from_secs(5);
        let began = Instant::now();
        let until = began + within;
        let asks = || {
            let begin = async {
                let turn = indexes.turn(0, until).await;
                turn.map(|_| fails_to_be_packaged()).ok_or(ReadFailed)
            };
            indexes.get("a", KEY, 1 << 20, begin)
        };
        let (one, two, three) = tokio::join!(asks(), asks(), asks());
        assert!([one, two, three].iter().all(Result::is_err));
        assert!(began.elapsed() < 2 * within);
    }
}
