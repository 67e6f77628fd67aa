//! Registered streams, and which of them has been unused for longest.
//!
//! Invariants: `chains` is the number of chains that read the stream; a stream without chains has a
//! turn in `unused`, any other has none.

use alloc::vec::Vec;

use headlong_units::{BitRate, Instant};

use crate::age_queue::{AgeQueue, StayId};
use crate::id_map::IdMap;
use crate::ids::StreamId;
use crate::layout::Layout;
use crate::stream::{Extent, PartSpec};

/// A registered stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) layout: Layout,
    pub(crate) bit_rate: Option<BitRate>,
    chains: usize,
    /// Some exactly while `chains` is zero.
    unused: Option<StayId>,
}

/// All registered streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_id: IdMap<StreamId, Stream>,
    unused: AgeQueue<StreamId>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn contains(&self, id: StreamId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.by_id.get(&id)
    }

    pub(crate) fn layout(&self, id: StreamId) -> Option<&Layout> {
        self.get(id).map(|stream| &stream.layout)
    }

    pub(crate) fn bit_rate(&self, id: StreamId) -> Option<BitRate> {
        self.get(id).and_then(|stream| stream.bit_rate)
    }

    /// A part of a stream appeared or was removed.
    pub(crate) fn set_part(&mut self, id: StreamId, part: u32, spec: PartSpec) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.layout.set_part(part, spec);
        }
    }

    /// The location of a part became known. Returns the layout if that changes it.
    pub(crate) fn set_extents(
        &mut self,
        id: StreamId,
        part: u32,
        extents: Vec<Extent>,
    ) -> Option<&Layout> {
        let layout = &mut self.by_id.get_mut(&id)?.layout;
        layout.set_extents(part, extents).then_some(layout)
    }

    /// Appends parts; returns whether all could be numbered.
    pub(crate) fn append(&mut self, id: StreamId, parts: Vec<PartSpec>) -> bool {
        let stream = self.by_id.get_mut(&id);
        stream.is_some_and(|stream| stream.layout.append(parts))
    }

    /// The bit rate became known or more accurate; zero means unknown.
    pub(crate) fn set_bit_rate(&mut self, id: StreamId, rate: BitRate) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.bit_rate = Some(rate).filter(|rate| rate.0 > 0);
        }
    }

    /// Adds a stream that is not registered yet.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        id: StreamId,
        layout: Layout,
        rate: Option<BitRate>,
    ) {
        let stream = Stream {
            layout,
            bit_rate: rate.filter(|rate| rate.0 > 0),
            chains: 0,
            unused: Some(self.unused.push(now, id)),
        };
        self.by_id.insert(id, stream);
        self.tidy();
    }

    pub(crate) fn remove(&mut self, id: StreamId) {
        self.by_id.remove(&id);
    }

    /// A chain begins to read the stream.
    pub(crate) fn begin_chain(&mut self, id: StreamId) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.chains += 1;
            stream.unused = None;
        }
    }

    /// A chain stops reading the stream.
    pub(crate) fn end_chain(&mut self, now: Instant, id: StreamId) {
        let Some(stream) = self.by_id.get_mut(&id) else {
            return;
        };
        stream.chains -= 1;
        if stream.chains == 0 {
            stream.unused = Some(self.unused.push(now, id));
            self.tidy();
        }
    }

    /// The stream that no chain has read for longest, if there is an unused one.
    pub(crate) fn longest_unused(&mut self) -> Option<StreamId> {
        let turn_of = |id| self.by_id.get(&id)?.unused;
        self.unused.oldest(turn_of).map(|(_, id)| id)
    }

    fn tidy(&mut self) {
        let turn_of = |id| self.by_id.get(&id)?.unused;
        self.unused.tidy(self.by_id.len(), turn_of);
    }

    /// Panics if an invariant is broken. `chains_of` counts the chains that read a stream.
    pub(crate) fn check_invariants(&self, chains_of: impl Fn(StreamId) -> usize) {
        for (id, stream) in &self.by_id {
            assert_eq!(stream.chains, chains_of(*id), "readers of {id:?}");
            assert_eq!(stream.unused.is_some(), stream.chains == 0, "{id:?}");
            let is_known = |turn| self.unused.has(turn);
            assert!(stream.unused.is_none_or(is_known), "{id:?} is in no queue");
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn layout() -> Layout {
        let part = PartSpec {
            size_bytes: 1,
            extents: vec![],
            flash_key: None,
            is_absent: false,
        };
        Layout::new(vec![part], 4096).expect("few pieces")
    }

    proptest! {
        #[test]
        fn longest_unused_is_stream_whose_last_chain_ended_first(
            steps in prop::collection::vec((0_u64..6, 0_u8..4), 0..300),
        ) {
            let mut streams = Streams::default();
            // Number of chains, and when the last of them ended.
            let mut model: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
            for (now, (id, what)) in (0_u64..).zip(steps) {
                let (stream, at) = (StreamId(id), Instant(now));
                match (model.get_mut(&id), what) {
                    (None, _) => {
                        streams.add(at, stream, layout(), None);
                        model.insert(id, (0, now));
                    }
                    (Some((chains, ended)), 0) if *chains > 0 => {
                        streams.end_chain(at, stream);
                        (*chains, *ended) = (*chains - 1, now);
                    }
                    (Some((chains, _)), 1) if *chains == 0 => {
                        streams.remove(stream);
                        model.remove(&id);
                    }
                    (Some((chains, _)), _) => {
                        streams.begin_chain(stream);
                        *chains += 1;
                    }
                }
                streams.check_invariants(|id| model[&id.0].0);
                let unused = model.iter().filter(|(_, (chains, _))| *chains == 0);
                let oldest = unused.min_by_key(|(_, (_, ended))| *ended);
                let oldest = oldest.map(|(id, _)| StreamId(*id));
                prop_assert_eq!(streams.longest_unused(), oldest);
            }
        }
    }
}
