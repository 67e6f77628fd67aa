//! Look-ups of where files lie on the device, before the first read of each file.
//!
//! A file system may have to read metadata for that: the map of a file with many extents is not in
//! its inode. The kernel needs the same metadata to read the file, so a look-up costs nothing more
//! than it saves; but it is made when the turn of a read has come, not when a request arrives. Maps
//! of files lie close together and far from their bytes, so the files of other running replies are
//! looked up along with it, as far as [`LOOKUPS_MAX`] allows: the device then seeks to the metadata
//! once for all of them.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use headlong_engine::StreamId;

use crate::files::OpenFile;
use crate::open_job::PartId;

/// Upper limit of look-ups in flight beyond those that a read waits for.
pub const LOOKUPS_MAX: usize = 16;
/// Most files of running replies whose look-up may be made along with another.
const CANDIDATES_MAX: usize = 4096;

/// Reads that wait for a look-up, each with its open file.
type WaitingForLocation<F, W> = Vec<(W, OpenFile<F>)>;

/// The look-ups of one device.
#[derive(Debug)]
pub(crate) struct Locations<F, W> {
    known: BTreeSet<PartId>,
    in_flight: BTreeMap<PartId, WaitingForLocation<F, W>>,
    /// Files of replies that have read nothing yet, oldest first.
    candidates: VecDeque<PartId>,
}

impl<F, W> Locations<F, W> {
    pub(crate) fn new() -> Self {
        Self {
            known: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            candidates: VecDeque::new(),
        }
    }

    pub(crate) fn is_known(&self, id: PartId) -> bool {
        self.known.contains(&id)
    }

    fn is_wanted(&self, id: PartId) -> bool {
        !self.known.contains(&id) && !self.in_flight.contains_key(&id)
    }

    /// A reply was accepted for a file: its look-up may be made along with another.
    pub(crate) fn add_candidate(&mut self, id: PartId) {
        if self.is_wanted(id) && self.candidates.len() < CANDIDATES_MAX {
            self.candidates.push_back(id);
        }
    }

    /// A read waits for the look-up of its file. Returns whether the caller must start it.
    pub(crate) fn wait(&mut self, id: PartId, read: W, file: OpenFile<F>) -> bool {
        let is_first = !self.in_flight.contains_key(&id);
        let waiting = self.in_flight.entry(id).or_default();
        waiting.push((read, file));
        is_first
    }

    /// The next file to look up along with another, unless enough look-ups are in flight. The
    /// caller must start it, or call [`Locations::ended`].
    pub(crate) fn next_companion(&mut self) -> Option<PartId> {
        while self.in_flight.len() <= LOOKUPS_MAX {
            let id = self.candidates.pop_front()?;
            if self.is_wanted(id) {
                self.in_flight.insert(id, Vec::new());
                return Some(id);
            }
        }
        None
    }

    /// A look-up has ended: returns the reads that waited for it.
    pub(crate) fn ended(&mut self, id: PartId, is_known: bool) -> WaitingForLocation<F, W> {
        if is_known {
            self.known.insert(id);
        }
        self.in_flight.remove(&id).unwrap_or_default()
    }

    /// A file appeared or was removed: its location may be another one.
    pub(crate) fn forget_part(&mut self, id: PartId) {
        self.known.remove(&id);
    }

    /// A stream was unregistered. Look-ups in flight end as usual.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        let id = |part| PartId { stream, part };
        let range = id(0)..=id(u32::MAX);
        let known: Vec<PartId> = self.known.range(range).copied().collect();
        for id in known {
            self.known.remove(&id);
        }
        self.candidates.retain(|of| of.stream != stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type TestLocations = Locations<u32, &'static str>;

    fn id(stream: u64) -> PartId {
        PartId {
            stream: StreamId(stream),
            part: 0,
        }
    }

    fn file(file: u32) -> OpenFile<u32> {
        OpenFile {
            file,
            is_direct: true,
        }
    }

    fn reads_of(waiting: WaitingForLocation<u32, &'static str>) -> Vec<&'static str> {
        waiting.into_iter().map(|(read, _)| read).collect()
    }

    #[test]
    fn reads_of_one_file_share_one_look_up() {
        let mut locations = TestLocations::new();
        assert!(locations.wait(id(1), "first", file(1)));
        assert!(!locations.wait(id(1), "second", file(1)));
        assert_eq!(reads_of(locations.ended(id(1), true)), ["first", "second"]);
        assert!(locations.is_known(id(1)));
    }

    #[test]
    fn candidates_are_looked_up_along_with_a_read_up_to_the_limit() {
        let mut locations = TestLocations::new();
        (0..100).for_each(|stream| locations.add_candidate(id(stream)));
        locations.forget(StreamId(1));
        assert!(locations.wait(id(2), "read", file(2)));
        let next = || locations.next_companion();
        let companions: Vec<_> = core::iter::from_fn(next).map(|id| id.stream.0).collect();
        assert_eq!(companions.len(), LOOKUPS_MAX);
        assert_eq!(companions[..3], [0, 3, 4], "in order, without the others");
        assert!(locations.ended(id(3), true).is_empty());
        assert_eq!(locations.next_companion(), Some(id(18)));
    }

    #[test]
    fn read_joins_look_up_of_its_file_in_flight() {
        let mut locations = TestLocations::new();
        locations.add_candidate(id(1));
        assert!(locations.wait(id(2), "read", file(2)));
        assert_eq!(locations.next_companion(), Some(id(1)));
        assert!(!locations.wait(id(1), "joins", file(1)));
        assert_eq!(reads_of(locations.ended(id(1), true)), ["joins"]);
    }

    #[test]
    fn file_is_looked_up_again_after_it_reappears() {
        let mut locations = TestLocations::new();
        locations.ended(id(1), true);
        locations.add_candidate(id(1));
        assert_eq!(locations.next_companion(), None);
        locations.forget_part(id(1));
        assert!(!locations.is_known(id(1)));
        locations.add_candidate(id(1));
        assert_eq!(locations.next_companion(), Some(id(1)));
    }
}
