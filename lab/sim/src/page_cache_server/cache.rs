//! A kernel's page cache: resident folios of files, and the order of their eviction.
//!
//! As in Linux 6.18 (mm/vmscan.c, mm/swap.c, mm/workingset.c; the classic two lists): a page that
//! is read in starts on the inactive list; a second access moves it to the active one. Eviction
//! takes the end of the inactive list, which is refilled from the active one when it has become
//! much the shorter of the two. A page that is read again soon after its eviction starts on the
//! active list. Pages that are read ahead and not yet sent get no special treatment.
//!
//! A folio is a number of pages that are allocated together. Where a file system allows large ones,
//! as ext4 since Linux 6.16, later windows of a stream consist of folios that are longer than one
//! step of `sendfile`, so each is accessed more than once although it is sent once: a streaming
//! workload promotes pages that it does not need again, at the cost of pages that it does.
//!
//! Invariants: a page is in at most one folio; folios being read into stay; the cache exceeds its
//! limit only while everything in it is being read into.

use std::collections::BTreeMap;

/// Pages of a file that share an entry of the tree.
const BLOCK_PAGES: u32 = 512;
/// No folio: never read, or a shadow.
const ABSENT: u32 = 0;
/// An entry with this bit stores the eviction time of a page, on the clock `age`.
const SHADOW: u32 = 1 << 31;
/// Number of evictions after which stale shadows are removed.
const SWEEP_INTERVAL: u64 = 1 << 18;
/// The end of a list.
const LIST_END: u32 = u32::MAX;

headlong_units::names! {
    /// Replacement policy of the cache.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
    pub enum CacheKind {
        /// Two lists, with large folios where windows are large: ext4 on Linux since 6.16.
        #[default]
        LargeFolios => "large-folios",
        /// Two lists of single pages: earlier kernels.
        Pages => "pages",
        /// A single LRU list, as in textbooks.
        Lru => "lru",
    }
}

/// A folio in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FolioId(u32);

#[derive(Debug, Clone, Copy)]
struct Folio {
    file: u32,
    first: u32,
    pages: u32,
    is_filling: bool,
    is_marked: bool,
    is_referenced: bool,
    is_active: bool,
    was_sent: bool,
    before: u32,
    behind: u32,
}

/// Numbers of evicted pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Evictions {
    pub(super) unsent_pages: u64,
    pub(super) sent_pages: u64,
}

#[derive(Debug, Clone, Copy)]
struct FolioList {
    first: u32,
    last: u32,
    pages: u64,
}

impl Default for FolioList {
    fn default() -> Self {
        Self {
            first: LIST_END,
            last: LIST_END,
            pages: 0,
        }
    }
}

type Block = Box<[u32; BLOCK_PAGES as usize]>;

/// The cache. Files and pages are identified by number.
#[derive(Debug)]
pub(super) struct PageCache {
    kind: CacheKind,
    pages_max: u64,
    blocks: BTreeMap<(u32, u32), Block>,
    folios: Vec<Folio>,
    unused: Vec<u32>,
    inactive: FolioList,
    active: FolioList,
    filling_pages: u64,
    unsent_pages: u64,
    /// Pages evicted or promoted so far: the clock of shadows.
    age: u64,
    swept_at: u64,
    evictions: Evictions,
}

/// Entries of a node of the kernel's page tree (`XA_CHUNK_SIZE`).
const NODE_PAGES: u32 = 64;

impl PageCache {
    pub(super) fn new(kind: CacheKind, pages_max: u64) -> Self {
        Self {
            kind,
            pages_max: pages_max.max(1),
            blocks: BTreeMap::new(),
            folios: Vec::new(),
            unused: Vec::new(),
            inactive: FolioList::default(),
            active: FolioList::default(),
            filling_pages: 0,
            unsent_pages: 0,
            age: 0,
            swept_at: 0,
            evictions: Evictions::default(),
        }
    }

    pub(super) fn kind(&self) -> CacheKind {
        self.kind
    }

    /// Numbers of pages: resident, active, being read into, and read but never sent.
    pub(super) fn usage(&self) -> [u64; 4] {
        let all = self.inactive.pages + self.active.pages;
        let unsent = self.unsent_pages - self.filling_pages;
        [all, self.active.pages, self.filling_pages, unsent]
    }

    pub(super) fn evictions(&self) -> Evictions {
        self.evictions
    }

    /// The folio that holds a page.
    pub(super) fn find(&self, file: u32, page: u32) -> Option<FolioId> {
        let entry = self.entry(file, page);
        (entry != ABSENT && entry & SHADOW == 0).then(|| FolioId(entry - 1))
    }

    fn entry(&self, file: u32, page: u32) -> u32 {
        let block = self.blocks.get(&(file, page / BLOCK_PAGES));
        block.map_or(ABSENT, |block| block[(page % BLOCK_PAGES) as usize])
    }

    pub(super) fn is_filling(&self, folio: FolioId) -> bool {
        self.folios[folio.0 as usize].is_filling
    }

    /// First page and number of pages.
    pub(super) fn span(&self, folio: FolioId) -> (u32, u32) {
        let folio = &self.folios[folio.0 as usize];
        (folio.first, folio.pages)
    }

    /// Marks the folio whose access triggers the next readahead.
    pub(super) fn mark(&mut self, folio: FolioId) {
        self.folios[folio.0 as usize].is_marked = true;
    }

    /// Clears the mark and returns whether it was set.
    pub(super) fn take_mark(&mut self, folio: FolioId) -> bool {
        core::mem::take(&mut self.folios[folio.0 as usize].is_marked)
    }

    /// Number of resident pages directly before a page, up to `most`.
    pub(super) fn cached_before(&self, file: u32, page: u32, most: u32) -> u32 {
        let mut count = 0;
        while count < most.min(page)
            && let Some(folio) = self.find(file, page - 1 - count)
        {
            let (first, _) = self.span(folio);
            count = page - first;
        }
        count.min(most)
    }

    /// The first of `most` pages from `page` on that is not resident, as the kernel finds it.
    ///
    /// `page_cache_next_miss` walks a tree of nodes of 64 pages. If it starts within a folio with
    /// several entries in a node, it starts at the folio's first entry but counts from the
    /// requested page, and advances one entry per page: it inspects entries that lie before the
    /// pages it counts, until it reaches another node. Observed on Linux 6.18: with `read_ahead_kb`
    /// 128 the mark of an earlier request is lost on a folio of 32 pages, because the page after
    /// the folio is not inspected.
    pub(super) fn next_missing(&self, file: u32, page: u32, most: u32) -> Option<u32> {
        let inside = self.find(file, page).map(|folio| self.span(folio));
        let inside = inside.filter(|(_, pages)| *pages < NODE_PAGES);
        let behind = inside.map_or(0, |(first, _)| page - first);
        let node = (page - behind) / NODE_PAGES;
        let looks_at = |page: u32| match page - behind {
            at if at / NODE_PAGES == node => at,
            _ => page,
        };
        let is_missing = |page: &u32| self.find(file, looks_at(*page)).is_none();
        (page..page.saturating_add(most)).find(is_missing)
    }

    /// Allocates a folio for absent pages, to be read into; evicts as needed.
    pub(super) fn insert(&mut self, file: u32, first: u32, pages: u32) -> FolioId {
        self.make_room(u64::from(pages));
        let is_active = self.kind != CacheKind::Lru && self.was_evicted_lately(file, first);
        let folio = Folio {
            file,
            first,
            pages,
            is_filling: true,
            is_marked: false,
            is_referenced: false,
            is_active,
            was_sent: false,
            before: LIST_END,
            behind: LIST_END,
        };
        let id = match self.unused.pop() {
            Some(id) => {
                self.folios[id as usize] = folio;
                id
            }
            None => {
                self.folios.push(folio);
                self.folios.len() as u32 - 1
            }
        };
        self.set_entries(file, first, pages, id + 1);
        self.filling_pages += u64::from(pages);
        self.unsent_pages += u64::from(pages);
        self.push_front(id);
        FolioId(id)
    }

    /// The folio has been read.
    pub(super) fn filled(&mut self, folio: FolioId) {
        let folio = &mut self.folios[folio.0 as usize];
        if core::mem::take(&mut folio.is_filling) {
            self.filling_pages -= u64::from(folio.pages);
        }
    }

    /// A read from the folio: `folio_mark_accessed`. Returns whether it was sent before.
    pub(super) fn touch(&mut self, id: FolioId) -> bool {
        let FolioId(id) = id;
        let folio = &mut self.folios[id as usize];
        let was_sent = core::mem::replace(&mut folio.was_sent, true);
        let pages = u64::from(folio.pages);
        if !was_sent {
            self.unsent_pages -= pages;
        }
        let is_lru = self.kind == CacheKind::Lru;
        if is_lru || (folio.is_referenced && !folio.is_active) {
            self.unlink(id);
            let folio = &mut self.folios[id as usize];
            folio.is_active = !is_lru;
            folio.is_referenced = false;
            self.age += if is_lru { 0 } else { pages };
            self.push_front(id);
        } else {
            folio.is_referenced = true;
        }
        was_sent
    }

    /// Whether a page was evicted so recently that a cache as large as the active list would still
    /// hold it: `workingset_refault`.
    fn was_evicted_lately(&self, file: u32, page: u32) -> bool {
        let entry = self.entry(file, page);
        if entry & SHADOW == 0 {
            return false;
        }
        let evicted_at = entry & !SHADOW;
        let passed = (self.age as u32).wrapping_sub(evicted_at) & !SHADOW;
        u64::from(passed) <= self.active.pages
    }

    fn make_room(&mut self, pages: u64) {
        while self.inactive.pages + self.active.pages + pages > self.pages_max {
            while self.is_inactive_low() && self.active.last != LIST_END {
                self.deactivate();
            }
            if !self.evict_one() {
                return;
            }
        }
        if self.age - self.swept_at > SWEEP_INTERVAL {
            self.sweep();
        }
    }

    /// `inactive_is_low`: the larger the memory, the smaller the inactive share may be.
    fn is_inactive_low(&self) -> bool {
        let gib = (self.inactive.pages + self.active.pages) >> 18;
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        self.inactive.pages * ratio < self.active.pages
    }

    /// Moves the oldest active folio to the front of the inactive list.
    fn deactivate(&mut self) {
        let id = self.active.last;
        if id != LIST_END {
            self.unlink(id);
            let folio = &mut self.folios[id as usize];
            folio.is_active = false;
            folio.is_referenced = false;
            self.push_front(id);
        }
    }

    /// Evicts the oldest folio that is not being read into; inactive ones first.
    fn evict_one(&mut self) -> bool {
        for list in [self.inactive, self.active] {
            let mut id = list.last;
            while id != LIST_END {
                let folio = self.folios[id as usize];
                if !folio.is_filling {
                    self.evict(id);
                    return true;
                }
                id = folio.before;
            }
        }
        false
    }

    fn evict(&mut self, id: u32) {
        self.unlink(id);
        let folio = self.folios[id as usize];
        let pages = u64::from(folio.pages);
        if folio.was_sent {
            self.evictions.sent_pages += pages;
        } else {
            self.evictions.unsent_pages += pages;
            self.unsent_pages -= pages;
        }
        let shadow = self.age as u32 | SHADOW;
        self.age += pages;
        self.set_entries(folio.file, folio.first, folio.pages, shadow);
        self.unused.push(id);
    }

    fn set_entries(&mut self, file: u32, first: u32, pages: u32, entry: u32) {
        for page in first..first + pages {
            let key = (file, page / BLOCK_PAGES);
            let block = self
                .blocks
                .entry(key)
                .or_insert_with(|| Box::new([ABSENT; BLOCK_PAGES as usize]));
            block[(page % BLOCK_PAGES) as usize] = entry;
        }
    }

    /// Removes shadows that are too old to matter, so that memory does not grow with time.
    fn sweep(&mut self) {
        self.swept_at = self.age;
        let (age, bound) = (self.age as u32, self.pages_max);
        self.blocks.retain(|_, block| {
            block.iter().any(|entry| {
                let is_shadow = entry & SHADOW != 0;
                let passed = age.wrapping_sub(entry & !SHADOW) & !SHADOW;
                *entry != ABSENT && (!is_shadow || u64::from(passed) <= bound)
            })
        });
    }

    fn list(&mut self, is_active: bool) -> &mut FolioList {
        match is_active {
            true => &mut self.active,
            false => &mut self.inactive,
        }
    }

    fn push_front(&mut self, id: u32) {
        let Folio {
            is_active, pages, ..
        } = self.folios[id as usize];
        let list = self.list(is_active);
        let behind = core::mem::replace(&mut list.first, id);
        list.pages += u64::from(pages);
        if behind == LIST_END {
            list.last = id;
        } else {
            self.folios[behind as usize].before = id;
        }
        let folio = &mut self.folios[id as usize];
        folio.before = LIST_END;
        folio.behind = behind;
    }

    fn unlink(&mut self, id: u32) {
        let Folio {
            is_active,
            pages,
            before,
            behind,
            ..
        } = self.folios[id as usize];
        let list = self.list(is_active);
        list.pages -= u64::from(pages);
        if before == LIST_END {
            list.first = behind;
        }
        if behind == LIST_END {
            list.last = before;
        }
        if before != LIST_END {
            self.folios[before as usize].behind = behind;
        }
        if behind != LIST_END {
            self.folios[behind as usize].before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cache: &mut PageCache, page: u32) -> FolioId {
        let folio = cache.insert(0, page, 1);
        cache.filled(folio);
        folio
    }

    fn send(cache: &mut PageCache, page: u32) -> Option<bool> {
        let folio = cache.find(0, page)?;
        Some(cache.touch(folio))
    }

    #[test]
    fn pages_accessed_twice_outlive_pages_accessed_once() {
        let mut cache = PageCache::new(CacheKind::Pages, 8);
        for page in 0..8 {
            read(&mut cache, page);
            send(&mut cache, page);
        }
        assert_eq!(send(&mut cache, 0), Some(true));
        for page in 8..14 {
            read(&mut cache, page);
        }
        assert!(cache.find(0, 0).is_some());
        assert_eq!(cache.find(0, 1), None);
        assert_eq!(cache.evictions().sent_pages, 6);
    }

    #[test]
    fn long_active_list_refills_inactive_list() {
        let mut cache = PageCache::new(CacheKind::Pages, 100);
        for page in 0..1000 {
            read(&mut cache, page);
            send(&mut cache, page);
            send(&mut cache, page);
        }
        let [all, active, ..] = cache.usage();
        assert_eq!(all, 100);
        assert!((45..=55).contains(&active), "{active}");
    }

    #[test]
    fn refault_after_unsent_eviction_starts_active() {
        let mut cache = PageCache::new(CacheKind::Pages, 8);
        for page in 0..4 {
            read(&mut cache, page);
            send(&mut cache, page);
            send(&mut cache, page);
        }
        for page in 8..13 {
            read(&mut cache, page);
        }
        assert_eq!(cache.evictions().unsent_pages, 1);
        assert_eq!(cache.find(0, 8), None);
        read(&mut cache, 8);
        let folio = cache.find(0, 8).expect("resident");
        assert!(cache.folios[folio.0 as usize].is_active);
    }

    #[test]
    fn lru_evicts_least_recently_used() {
        let mut cache = PageCache::new(CacheKind::Lru, 4);
        for page in 0..4 {
            read(&mut cache, page);
        }
        send(&mut cache, 0);
        read(&mut cache, 4);
        assert!(cache.find(0, 0).is_some() && cache.find(0, 1).is_none());
        let [all, active, ..] = cache.usage();
        assert_eq!((all, active), (4, 0));
    }

    #[test]
    fn folios_being_filled_are_not_evicted() {
        let mut cache = PageCache::new(CacheKind::LargeFolios, 4);
        let folios: Vec<FolioId> = (0..3).map(|n| cache.insert(0, n * 4, 4)).collect();
        assert_eq!(cache.usage(), [12, 0, 12, 0]);
        cache.filled(folios[1]);
        cache.insert(0, 100, 1);
        assert_eq!(cache.find(0, 5), None);
        assert!(cache.find(0, 1).is_some() && cache.find(0, 9).is_some());
    }

    #[test]
    fn neighbours_are_counted_in_pages() {
        let mut cache = PageCache::new(CacheKind::LargeFolios, 100);
        cache.insert(3, 8, 8);
        cache.insert(3, 16, 2);
        assert_eq!(cache.cached_before(3, 18, 32), 10);
        assert_eq!(cache.cached_before(3, 18, 4), 4);
        assert_eq!(cache.cached_before(3, 12, 32), 4);
        assert_eq!(cache.cached_before(3, 8, 32), 0);
        assert_eq!(cache.next_missing(3, 8, 32), Some(18));
        assert_eq!(cache.next_missing(3, 8, 4), None);
        assert_eq!(cache.next_missing(3, 30, 4), Some(30));
    }

    #[test]
    fn next_miss_from_within_folio_matches_kernel() {
        let mut cache = PageCache::new(CacheKind::LargeFolios, 1000);
        cache.insert(3, 8, 8);
        cache.insert(3, 16, 2);
        assert_eq!(cache.next_missing(3, 9, 32), Some(19), "18 is missing too");
        cache.insert(3, 64, 32);
        assert_eq!(cache.next_missing(3, 65, 32), None, "96 is not inspected");
        // The walk is correct again from the next node on.
        cache.insert(3, 96, 32);
        assert_eq!(cache.next_missing(3, 97, 40), Some(129));
        assert_eq!(cache.next_missing(3, 65, 65), Some(129));
        // A folio that fills a node has one entry in a node of the next level.
        cache.insert(3, 192, 64);
        assert_eq!(cache.next_missing(3, 193, 64), Some(256));
        // Single pages are found exactly.
        let mut pages = PageCache::new(CacheKind::Pages, 1000);
        for page in 0..32 {
            pages.insert(3, page, 1);
        }
        assert_eq!(pages.next_missing(3, 1, 32), Some(32));
    }
}
