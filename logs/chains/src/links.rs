//! Matches the requests of one group that touch, by byte position and time (A2, A6).
//!
//! Both variants handle one byte position at a time: the requests that end there (enders) and those
//! that start there (starters), each in order of arrival. An ender cannot take a starter that ended
//! too long before it (true for all later enders as well) or arrived too long after it; therefore
//! one pass over both lists suffices, however many retries there are.

use alloc::vec::Vec;

use crate::{ChainRules, GapRule, Request};

/// No item.
pub(crate) const NONE: u32 = u32::MAX;

/// A request, as used for joining.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkItem {
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) received_ms: i64,
    pub(crate) completed_ms: i64,
    pub(crate) line: u64,
    /// Index of the request.
    pub(crate) request: u32,
    pub(crate) disk: u16,
    pub(crate) is_open: bool,
}

impl LinkItem {
    pub(crate) fn new(request: &Request, place: u32) -> Self {
        Self {
            offset: request.offset,
            end: request.end(),
            received_ms: request.received_ms,
            completed_ms: request.completed_ms,
            line: request.line,
            request: place,
            disk: request.disk,
            is_open: request.asked_bytes.is_none(),
        }
    }

    /// Order of items that start at the same byte.
    pub(crate) const fn by_start(&self) -> (u64, i64, u64) {
        (self.offset, self.received_ms, self.line)
    }

    /// Order of items that end at the same byte.
    const fn by_end(&self) -> (u64, i64, u64) {
        (self.end, self.received_ms, self.line)
    }
}

/// Time from which a gap after this item is measured.
fn last_ms(item: &LinkItem, gap: GapRule) -> i64 {
    match gap {
        GapRule::Received => item.received_ms,
        GapRule::Idle => item.completed_ms,
    }
}

/// Whether `starter` ended too long before `ender` arrived to be joined.
fn is_over(starter: &LinkItem, ender: &LinkItem, rules: &ChainRules) -> bool {
    last_ms(starter, rules.gap) < ender.received_ms.saturating_sub(rules.within_ms)
}

/// Whether `starter` arrived too long after `ender` to be joined.
fn is_too_late(starter: &LinkItem, ender: &LinkItem, rules: &ChainRules) -> bool {
    starter.received_ms > last_ms(ender, rules.gap).saturating_add(rules.within_ms)
}

/// Whether two touching requests are near enough in time, in either order (A2).
pub(crate) fn are_near(ender: &LinkItem, starter: &LinkItem, rules: &ChainRules) -> bool {
    !is_over(starter, ender, rules) && !is_too_late(starter, ender, rules)
}

/// Scratch space for joining the items of one group.
#[derive(Debug, Default)]
pub(crate) struct LinkScratch {
    /// Items in order of their end.
    enders: Vec<u32>,
    /// For each item, an item of the same chain with a lower index, or itself.
    before: Vec<u32>,
    /// Starters that form one component, in order of arrival and of end.
    block: Vec<u32>,
}

impl LinkScratch {
    /// Joins the items of one group, sorted by [`LinkItem::by_start`]. Returns for each item an
    /// earlier item of the same chain, or itself.
    pub(crate) fn join(&mut self, items: &[LinkItem], rules: &ChainRules) -> &[u32] {
        let count = items.len() as u32;
        self.before.clear();
        self.before.extend(0..count);
        self.enders.clear();
        self.enders.extend(0..count);
        self.enders
            .sort_unstable_by_key(|&ender| items[ender as usize].by_end());
        let mut from = 0;
        let mut starter = 0;
        while from < items.len() && starter < items.len() {
            let position = items[self.enders[from] as usize].end;
            let is_here = |&ender: &u32| items[ender as usize].end == position;
            let to = from
                + self.enders[from..]
                    .iter()
                    .take_while(|ender| is_here(ender))
                    .count();
            while starter < items.len() && items[starter].offset < position {
                starter += 1;
            }
            let first = starter;
            while starter < items.len() && items[starter].offset == position {
                starter += 1;
            }
            match rules.link {
                crate::LinkRule::OneToOne => self.pair(items, from..to, first..starter, rules),
                crate::LinkRule::Component => self.unite(items, from..to, first..starter, rules),
            }
            from = to;
        }
        if rules.link == crate::LinkRule::Component {
            for item in 0..count {
                self.before[item as usize] = self.root(item);
            }
        }
        &self.before
    }

    /// Each ender takes the first unused starter that is near enough.
    fn pair(
        &mut self,
        items: &[LinkItem],
        enders: core::ops::Range<usize>,
        starters: core::ops::Range<usize>,
        rules: &ChainRules,
    ) {
        let mut free = starters.start;
        for &ender in &self.enders[enders] {
            let ending = &items[ender as usize];
            while free < starters.end && is_over(&items[free], ending, rules) {
                free += 1;
            }
            if free == starters.end {
                return;
            }
            if !is_too_late(&items[free], ending, rules) {
                self.before[free] = ender;
                free += 1;
            }
        }
    }

    /// Joins each ender with every starter that is near enough.
    ///
    /// All starters that arrived early enough for some ender so far, and have not ended too early
    /// for the current one, form one component. Of these, only starters that end later than all
    /// earlier arrivals matter: if any starter is near enough to an ender, one of these is.
    fn unite(
        &mut self,
        items: &[LinkItem],
        enders: core::ops::Range<usize>,
        starters: core::ops::Range<usize>,
        rules: &ChainRules,
    ) {
        self.block.clear();
        let mut alive = 0;
        let mut next = starters.start;
        for place in enders {
            let ender = self.enders[place];
            let ending = &items[ender as usize];
            let is_dead = |&starter: &u32| is_over(&items[starter as usize], ending, rules);
            while self.block.get(alive).is_some_and(is_dead) {
                alive += 1;
            }
            if let Some(&starter) = self.block.get(alive)
                && !is_too_late(&items[starter as usize], ending, rules)
            {
                self.merge(ender, starter);
            }
            while next < starters.end && !is_too_late(&items[next], ending, rules) {
                if !is_over(&items[next], ending, rules) {
                    self.merge(ender, next as u32);
                    let last = |starter: u32| last_ms(&items[starter as usize], rules.gap);
                    let is_latest = self.block[alive..]
                        .last()
                        .is_none_or(|&latest| last(latest) < last(next as u32));
                    if is_latest {
                        self.block.push(next as u32);
                    }
                }
                next += 1;
            }
        }
    }

    fn root(&mut self, item: u32) -> u32 {
        let mut root = item;
        while self.before[root as usize] != root {
            let above = self.before[root as usize];
            self.before[root as usize] = self.before[above as usize];
            root = above;
        }
        root
    }

    fn merge(&mut self, one: u32, other: u32) {
        let one = self.root(one);
        let other = self.root(other);
        self.before[one.max(other) as usize] = one.min(other);
    }
}
