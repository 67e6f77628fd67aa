//! Indexes of titles that are packaged: each is made once for all requests that wait for it, and
//! those that were used least recently are dropped. Their outlines take a tenth of the memory and are
//! kept longer: playlists of a title need those of all its files.
//!
//! Invariants: an index or outline is of one version of its file; all together take no more memory
//! than the setting allows, besides that of the latest one and of requests in progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headlong_config::{EtagTime, PACKAGE_READING_BYTES};
use headlong_package::{PackageFault, Title, TitleOutline, Version};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

/// Most files with an index, or with a reason why there is none.
const ENTRIES_MAX: usize = 4096;
/// Memory of an entry besides its index.
const ENTRY_BYTES: usize = 512;
/// Share of the memory that outlines may take: one part of so many.
const OUTLINE_SHARE: u64 = 4;
/// Unit of the memory for reading.
const UNIT_BYTES: u64 = 1 << 20;
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
}

#[derive(Debug)]
struct IndexEntry {
    key: IndexKey,
    outcome: Arc<OnceCell<IndexOutcome>>,
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
        let made = self.outcome.get().and_then(|outcome| outcome.as_ref().ok());
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

/// The indexes.
#[derive(Debug)]
pub(super) struct TitleIndexes {
    table: Mutex<IndexTable>,
    readers: Vec<Arc<Semaphore>>,
    memory: Arc<Semaphore>,
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

impl TitleIndexes {
    /// For files of so many devices.
    pub(super) fn new(devices: usize) -> Self {
        let readers = |_| Arc::new(Semaphore::new(READERS_PER_DEVICE));
        Self {
            table: Mutex::default(),
            readers: (0..devices).map(readers).collect(),
            memory: Arc::new(Semaphore::new(units(PACKAGE_READING_BYTES) as usize)),
        }
    }

    /// The index of a file: a stored one of the same version, or that which `read` returns. A failure
    /// of `read` is not stored.
    pub(super) async fn get<E>(
        &self,
        path: &str,
        key: IndexKey,
        bytes_max: u64,
        read: impl Future<Output = Result<IndexOutcome, E>> + Send,
    ) -> Result<IndexOutcome, E> {
        let outcome = self.outcome(path, key, bytes_max);
        if let Some(outcome) = outcome.get() {
            return Ok(outcome.clone());
        }
        let made = outcome.get_or_try_init(|| read).await?.clone();
        let outline = made.as_ref().ok().map(|made| made.outline());
        let mut table = self.lock();
        if let Some(made) = outline {
            let used = table.next_use();
            let entry = OutlineEntry { key, made, used };
            table.outlines.insert(path.to_owned(), entry);
        }
        table.trim(bytes_max);
        Ok(made)
    }

    /// The outline of a file that was indexed in this version, unless it was dropped since.
    pub(super) fn outline(&self, path: &str, key: IndexKey) -> Option<Arc<PackagedOutline>> {
        let mut table = self.lock();
        let used = table.next_use();
        let entry = table.outlines.get_mut(path)?;
        entry.used = used;
        (entry.key == key).then(|| Arc::clone(&entry.made))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, IndexTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of an index; another version of the file is forgotten.
    fn outcome(&self, path: &str, key: IndexKey, bytes_max: u64) -> Arc<OnceCell<IndexOutcome>> {
        let mut table = self.lock();
        let used = table.next_use();
        if let Some(entry) = table.by_path.get_mut(path)
            && entry.key == key
        {
            entry.used = used;
            return Arc::clone(&entry.outcome);
        }
        let entry = IndexEntry {
            key,
            outcome: Arc::default(),
            used,
        };
        let outcome = Arc::clone(&entry.outcome);
        table.by_path.insert(path.to_owned(), entry);
        table.trim(bytes_max);
        outcome
    }

    /// A turn to read headers from a device, for which other readers are waited for; `None` if there
    /// is none by then.
    pub(super) async fn turn(&self, device: usize, until: Instant) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(self.readers.get(device)?).acquire_owned();
        timeout_at(until, turn).await.ok()?.ok()
    }

    /// Memory for headers, for which other readers that have theirs are waited for; `None` if there
    /// is none in time.
    pub(super) async fn reserve(
        &self,
        bytes: u64,
        within: Duration,
    ) -> Option<OwnedSemaphorePermit> {
        let memory = Arc::clone(&self.memory).acquire_many_owned(units(bytes));
        timeout(within, memory).await.ok()?.ok()
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
    };

    async fn made(indexes: &TitleIndexes, path: &str, key: IndexKey, bytes_max: u64) -> bool {
        let mut is_made = false;
        let read = async {
            is_made = true;
            Ok::<_, ()>(Err(PackageFault::NoTrack))
        };
        let outcome = indexes.get(path, key, bytes_max, read).await;
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
        let failed = indexes.get("b", KEY, 1 << 20, async { Err(()) }).await;
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
        let most = indexes.reserve(PACKAGE_READING_BYTES - UNIT_BYTES, Duration::ZERO);
        let most = most.await.expect("memory");
        let more = || indexes.reserve(UNIT_BYTES + 1, Duration::ZERO);
        assert!(more().await.is_none());
        drop(most);
        assert!(more().await.is_some());
        let _turns = all_turns(&indexes).await;
        assert!(indexes.turn(0, Instant::now()).await.is_none());
        assert!(indexes.turn(1, Instant::now()).await.is_some());
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
            let read = async {
                let turn = indexes.turn(0, until).await;
                turn.map(|_| Err(PackageFault::NoTrack)).ok_or(())
            };
            indexes.get("a", KEY, 1 << 20, read)
        };
        let (one, two, three) = tokio::join!(asks(), asks(), asks());
        assert!([one, two, three].iter().all(Result::is_err));
        assert!(began.elapsed() < 2 * within);
    }
}
