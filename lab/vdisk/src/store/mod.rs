//! Content of the disk, stored in little space: runs of pages that follow a rule, and literal
//! pages.
//!
//! Invariant: a read returns the latest written data, and zeros where nothing was written.

mod extents;
mod literals;
mod persistence;
mod sequence;
mod table;

use std::io;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use extents::{ExtentMap, PageRun};
pub use persistence::StoreManifest;
pub use sequence::{PAGE_BYTES, PageContent, WordSequence};

use crate::error::Error;
use literals::LiteralPages;
use persistence::PersistentStore;

const PAGE: u64 = PAGE_BYTES as u64;

/// Content of one disk.
#[derive(Debug)]
pub struct ContentStore {
    capacity_bytes: u64,
    extents: RwLock<ExtentMap>,
    literals: LiteralPages,
    keeper: Option<PersistentStore>,
}

/// Use of a store, for people and for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct StoreUsage {
    /// Entries in the table of extents.
    pub runs: u64,
    /// Bytes of pages with a rule.
    pub sequence_bytes: u64,
    /// Bytes of literal pages.
    pub literal_bytes: u64,
}

impl ContentStore {
    /// An empty disk that is discarded with its process; `directory` holds its literals.
    pub fn temporary(directory: &Path, capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            extents: RwLock::default(),
            literals: LiteralPages::new(directory, capacity_bytes),
            keeper: None,
        }
    }

    /// Opens the disk stored in `directory`, or creates an empty one there.
    ///
    /// # Errors
    /// If the store there has another size, was not closed, is damaged or is in use.
    pub fn open(
        directory: &Path,
        drive: &str,
        capacity_bytes: u64,
        force_new: bool,
    ) -> Result<Self, Error> {
        let (keeper, extents) = PersistentStore::open(directory, drive, capacity_bytes, force_new)?;
        Ok(Self {
            capacity_bytes,
            extents: RwLock::new(extents.unwrap_or_default()),
            literals: LiteralPages::new(directory, capacity_bytes),
            keeper: Some(keeper),
        })
    }

    /// Its manifest, if it is persistent.
    pub fn manifest(&self) -> Option<StoreManifest> {
        self.keeper.as_ref().map(PersistentStore::manifest)
    }

    /// Changes the manifest.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn change_manifest(&self, change: impl FnOnce(&mut StoreManifest)) -> io::Result<()> {
        match &self.keeper {
            Some(keeper) => keeper.change(change),
            None => Ok(()),
        }
    }

    /// Makes the stored data one consistent disk: until the next change it can be reopened even
    /// after a crash.
    ///
    /// # Errors
    /// If it cannot be written; then the store stays unclean.
    pub fn sync(&self) -> io::Result<()> {
        let Some(keeper) = &self.keeper else {
            return Ok(());
        };
        let extents = self.read_extents();
        self.literals.sync()?;
        keeper.save(&extents)
    }

    /// Use of the store.
    pub fn usage(&self) -> StoreUsage {
        let mut usage = StoreUsage::default();
        for (_, run) in self.read_extents().iter() {
            usage.runs += 1;
            match run.content {
                PageContent::Literal => usage.literal_bytes += run.pages * PAGE,
                _ => usage.sequence_bytes += run.pages * PAGE,
            }
        }
        usage
    }

    /// Reads the bytes at `offset`.
    ///
    /// # Errors
    /// If literals cannot be read.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let extents = self.read_extents();
        self.read_from(&extents, offset, buffer)
    }

    fn read_from(&self, extents: &ExtentMap, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (head, pages, tail) = split(offset, buffer.len());
        let (buffer_head, rest) = buffer.split_at_mut(head);
        let (mut buffer_pages, buffer_tail) = rest.split_at_mut(pages);
        if head > 0 {
            self.read_part(extents, offset, buffer_head)?;
        }
        let first = (offset + head as u64) / PAGE;
        for (page, run) in extents.pieces(first, (pages / PAGE_BYTES) as u64) {
            let (target, rest) = buffer_pages.split_at_mut(run.pages as usize * PAGE_BYTES);
            self.read_run(page, run, target)?;
            buffer_pages = rest;
        }
        if tail > 0 {
            self.read_part(extents, offset + (head + pages) as u64, buffer_tail)?;
        }
        Ok(())
    }

    fn read_run(&self, page: u64, run: PageRun, target: &mut [u8]) -> io::Result<()> {
        match run.content {
            PageContent::Zero => target.fill(0),
            PageContent::Sequence(sequence) => sequence.fill(target),
            PageContent::Head(sequence, bytes) => {
                let (head, rest) = target.split_at_mut(usize::from(bytes).min(target.len()));
                sequence.fill(head);
                rest.fill(0);
            }
            PageContent::Literal => self.literals.read(page * PAGE, target)?,
        }
        Ok(())
    }

    /// Reads within one page.
    fn read_part(&self, extents: &ExtentMap, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let mut page = [0; PAGE_BYTES];
        self.read_from(extents, offset / PAGE * PAGE, &mut page)?;
        let from = (offset % PAGE) as usize;
        target.copy_from_slice(&page[from..from + target.len()]);
        Ok(())
    }

    /// Writes the bytes at `offset`.
    ///
    /// # Errors
    /// If literals cannot be written; then the content of these pages is undefined.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (head, pages, _) = split(offset, data.len());
        let (data_head, rest) = data.split_at(head);
        let (data_pages, data_tail) = rest.split_at(pages);
        // The expensive part, without the lock.
        let runs = runs_of(data_pages);
        let mut extents = self.write_extents();
        self.soil()?;
        if !data_head.is_empty() {
            self.write_part(&mut extents, offset, data_head)?;
        }
        let mut at = offset + head as u64;
        let mut rest = data_pages;
        for run in runs {
            let (bytes, behind) = rest.split_at(run.pages as usize * PAGE_BYTES);
            if run.content == PageContent::Literal {
                self.literals.write(at, bytes)?;
            }
            extents.put(at / PAGE, run);
            at += bytes.len() as u64;
            rest = behind;
        }
        if !data_tail.is_empty() {
            self.write_part(&mut extents, at, data_tail)?;
        }
        Ok(())
    }

    /// Writes within one page.
    fn write_part(&self, extents: &mut ExtentMap, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = offset / PAGE * PAGE;
        let mut page = [0; PAGE_BYTES];
        self.read_from(extents, start, &mut page)?;
        let from = (offset % PAGE) as usize;
        page[from..from + data.len()].copy_from_slice(data);
        let content = PageContent::of_page(&page);
        if content == PageContent::Literal {
            self.literals.write(start, &page)?;
        }
        extents.put(start / PAGE, PageRun { pages: 1, content });
        Ok(())
    }

    /// Zeroes `length` bytes at `offset`, without a buffer of that size.
    ///
    /// # Errors
    /// As [`ContentStore::write`].
    pub fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.saturating_add(length).min(self.capacity_bytes);
        let (first, behind) = (offset.div_ceil(PAGE), end / PAGE);
        let mut extents = self.write_extents();
        self.soil()?;
        let zeroes = [0; PAGE_BYTES];
        if first > behind {
            let within = end.saturating_sub(offset) as usize;
            return self.write_part(&mut extents, offset, &zeroes[..within]);
        }
        let (head, tail) = ((first * PAGE - offset) as usize, (end % PAGE) as usize);
        if head > 0 {
            self.write_part(&mut extents, offset, &zeroes[..head])?;
        }
        let (pages, content) = (behind - first, PageContent::Zero);
        extents.put(first, PageRun { pages, content });
        if tail > 0 {
            self.write_part(&mut extents, behind * PAGE, &zeroes[..tail])?;
        }
        Ok(())
    }

    fn soil(&self) -> io::Result<()> {
        self.keeper.as_ref().map_or(Ok(()), PersistentStore::soil)
    }

    fn read_extents(&self) -> RwLockReadGuard<'_, ExtentMap> {
        self.extents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_extents(&self) -> RwLockWriteGuard<'_, ExtentMap> {
        self.extents.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lengths of the part before the first whole page, of the whole pages, and of the rest.
fn split(offset: u64, length: usize) -> (usize, usize, usize) {
    let to_page = (offset.wrapping_neg() % PAGE) as usize;
    let head = to_page.min(length);
    let pages = (length - head) / PAGE_BYTES * PAGE_BYTES;
    (head, pages, length - head - pages)
}

/// Runs of whole pages.
fn runs_of(data: &[u8]) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::with_capacity(4);
    let (pages, _) = data.as_chunks::<PAGE_BYTES>();
    for page in pages {
        let content = PageContent::of_page(page);
        match runs.last_mut() {
            Some(run) if run.content.continues(run.pages, content) => run.pages += 1,
            _ => runs.push(PageRun { pages: 1, content }),
        }
    }
    runs
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
