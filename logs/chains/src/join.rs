//! Joins requests to chains by rules A1 to A10, exactly and in nearly linear time.
//!
//! Requests are grouped by session and file, and sorted by offset within a group. They are then
//! nearly always consecutive and free of overlap, so that only neighbours can touch; where content
//! was read again, [`links`](crate::links) matches them by byte position.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::links::{LinkItem, LinkScratch, NONE, are_near};
use crate::sorted_indexes::{GroupedIndex, SortedIndexes};
use crate::{Chain, ChainRules, Request};

/// Returned by [`Joiner::join_with_places`] for a request that belongs to no chain (A7).
pub const NO_CHAIN: u32 = NONE;

/// Replaces the contents of `out` with the chains of `requests`, ordered by session, start time,
/// file, start offset, and the longest first. The order of `requests` does not matter; their lines
/// must differ where they break ties (A9).
pub fn chains(requests: &[Request], rules: &ChainRules, out: &mut Vec<Chain>) {
    Joiner::new(*rules).join(requests, out);
}

/// Joins requests to chains, one partition of a log at a time, reusing its memory: about 32 bytes
/// for each request of the largest partition.
#[derive(Debug)]
pub struct Joiner {
    rules: ChainRules,
    places: SortedIndexes,
    items: Vec<LinkItem>,
    links: LinkScratch,
    /// The chain of each item of a group.
    chain_of_item: Vec<u32>,
    order: Vec<u32>,
    unordered: Vec<Chain>,
}

impl Joiner {
    /// A joiner with these rules.
    pub fn new(rules: ChainRules) -> Self {
        Self {
            rules,
            places: SortedIndexes::default(),
            items: Vec::new(),
            links: LinkScratch::default(),
            chain_of_item: Vec::new(),
            order: Vec::new(),
            unordered: Vec::new(),
        }
    }

    /// As [`chains`]. Sessions must be whole: all requests of a session in one call.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 - 1 requests.
    pub fn join(&mut self, requests: &[Request], out: &mut Vec<Chain>) {
        self.join_groups(requests, |_, _| ());
        self.put_in_order(out);
    }

    /// As [`join`](Self::join); also returns the index in `out` of the chain of each request, or
    /// [`NO_CHAIN`].
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 - 1 requests.
    pub fn join_with_places(
        &mut self,
        requests: &[Request],
        out: &mut Vec<Chain>,
        chain_of: &mut Vec<u32>,
    ) {
        chain_of.clear();
        chain_of.resize(requests.len(), NO_CHAIN);
        self.join_groups(requests, |request, chain| {
            chain_of[request as usize] = chain
        });
        self.put_in_order(out);
        let mut rank = core::mem::take(&mut self.chain_of_item);
        rank.clear();
        rank.resize(self.order.len(), 0);
        for (&chain, place) in self.order.iter().zip(0..) {
            rank[chain as usize] = place;
        }
        for chain in chain_of.iter_mut().filter(|chain| **chain != NO_CHAIN) {
            *chain = rank[*chain as usize];
        }
        self.chain_of_item = rank;
    }

    /// Leaves the chains in `unordered`, by session and file, in order of their first items.
    fn join_groups(&mut self, requests: &[Request], mut assign: impl FnMut(u32, u32)) {
        assert!(u32::try_from(requests.len()).is_ok_and(|count| count < NONE));
        self.unordered.clear();
        let places = self.places.sort(requests);
        for group in places.chunk_by(|one, other| one.group == other.group) {
            let is_in_order = gather(requests, group, &mut self.items);
            let is_in_order = is_in_order || sort(&mut self.items);
            let head = &requests[group[0].request as usize];
            if is_in_order {
                for place in 0..self.items.len() {
                    let item = &self.items[place];
                    let is_joined = place.checked_sub(1).is_some_and(|before| {
                        let before = &self.items[before];
                        before.end == item.offset && are_near(before, item, &self.rules)
                    });
                    match self.unordered.last_mut() {
                        Some(chain) if is_joined => add(chain, item),
                        _ => self.unordered.push(begin(head, item)),
                    }
                    assign(item.request, self.unordered.len() as u32 - 1);
                }
                continue;
            }
            let before = self.links.join(&self.items, &self.rules);
            self.chain_of_item.clear();
            for (item, place) in self.items.iter().zip(0..) {
                let before = before[place as usize];
                let chain = if before == place {
                    self.unordered.push(begin(head, item));
                    self.unordered.len() as u32 - 1
                } else {
                    let chain = self.chain_of_item[before as usize];
                    add(&mut self.unordered[chain as usize], item);
                    chain
                };
                self.chain_of_item.push(chain);
                assign(item.request, chain);
            }
        }
    }

    /// Sorts the chains of each session. Chains that compare equal keep their order.
    fn put_in_order(&mut self, out: &mut Vec<Chain>) {
        self.order.clear();
        self.order.extend(0..self.unordered.len() as u32);
        let chains = &self.unordered;
        let session = |place: &u32| chains[*place as usize].session;
        for same in self
            .order
            .chunk_by_mut(|one, other| session(one) == session(other))
        {
            same.sort_unstable_by_key(|&place| (rank(&chains[place as usize]), place));
        }
        out.clear();
        out.extend(self.order.iter().map(|&place| chains[place as usize]));
    }
}

/// Sort key of the chains of a session.
fn rank(chain: &Chain) -> impl Ord + use<> {
    (
        chain.start_ms,
        chain.file,
        chain.start,
        Reverse(chain.length),
        chain.end_ms,
        chain.is_open,
        chain.requests,
    )
}

/// Collects the items of a group; returns whether each starts at or after the end of the previous
/// one.
fn gather(requests: &[Request], group: &[GroupedIndex], items: &mut Vec<LinkItem>) -> bool {
    items.clear();
    let mut is_in_order = true;
    let mut end = 0;
    for place in group {
        let item = LinkItem::new(&requests[place.request as usize], place.request);
        is_in_order &= item.offset >= end;
        end = item.end;
        items.push(item);
    }
    is_in_order
}

/// Sorts by offset; returns the same as [`gather`].
fn sort(items: &mut [LinkItem]) -> bool {
    if !sort_nearly_sorted(items) {
        items.sort_unstable_by_key(LinkItem::by_start);
    }
    items.windows(2).all(|pair| pair[0].end <= pair[1].offset)
}

/// Insertion sort: moves each item that is out of order back to its position. Requests on several
/// connections overtake each other by a few positions only; if too many moves are needed, the sort
/// stops and returns `false`.
fn sort_nearly_sorted(items: &mut [LinkItem]) -> bool {
    let mut moves_left = 4 * items.len();
    for place in 1..items.len() {
        let mut to = place;
        while to > 0 && items[place].by_start() < items[to - 1].by_start() {
            to -= 1;
        }
        if to == place {
            continue;
        }
        match moves_left.checked_sub(place - to) {
            Some(left) => moves_left = left,
            None => return false,
        }
        items[to..=place].rotate_right(1);
    }
    true
}

fn begin(of: &Request, head: &LinkItem) -> Chain {
    Chain {
        session: of.session,
        file: of.file,
        start: head.offset,
        length: head.end - head.offset,
        start_ms: head.received_ms,
        end_ms: head.completed_ms,
        is_open: head.is_open,
        is_mixed: false,
        requests: 1,
        disk: head.disk,
    }
}

fn add(chain: &mut Chain, item: &LinkItem) {
    chain.length = chain.length.max(item.end - chain.start);
    chain.start_ms = chain.start_ms.min(item.received_ms);
    chain.end_ms = chain.end_ms.max(item.completed_ms);
    chain.is_mixed |= chain.is_open != item.is_open;
    chain.requests += 1;
}
