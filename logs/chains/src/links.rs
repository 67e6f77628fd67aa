//! Which requests of one group touch: matched by byte position and time (A2, A6).
//!
//! Both ways of joining look at one byte position at a time: the requests that end there and those
//! that start there, each in order of arrival. A starter can be taken by an ender unless it was
//! over too long before the ender came (it then is so for all later enders too) or came too long
//! after; so one walk over both does it, however many retries there are.

use alloc::vec::Vec;

use crate::{Gap, Request, Rules};

/// No such item.
pub(crate) const NONE: u32 = u32::MAX;

/// A request as joining sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
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

impl Item {
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

    /// Order of those that start at one byte.
    pub(crate) const fn by_start(&self) -> (u64, i64, u64) {
        (self.offset, self.received_ms, self.line)
    }

    /// Order of those that end at one byte.
    const fn by_end(&self) -> (u64, i64, u64) {
        (self.end, self.received_ms, self.line)
    }
}

/// The moment from which a gap after this item is counted.
fn last_ms(item: &Item, gap: Gap) -> i64 {
    match gap {
        Gap::Received => item.received_ms,
        Gap::Idle => item.completed_ms,
    }
}

/// Whether `starter` was over so long before `ender` came that nothing joins them.
fn is_over(starter: &Item, ender: &Item, rules: &Rules) -> bool {
    last_ms(starter, rules.gap) < ender.received_ms.saturating_sub(rules.within_ms)
}

/// Whether `starter` came so long after `ender` that nothing joins them.
fn is_too_late(starter: &Item, ender: &Item, rules: &Rules) -> bool {
    starter.received_ms > last_ms(ender, rules.gap).saturating_add(rules.within_ms)
}

/// Whether two requests that touch are near enough in time, in either order (A2).
pub(crate) fn are_near(ender: &Item, starter: &Item, rules: &Rules) -> bool {
    !is_over(starter, ender, rules) && !is_too_late(starter, ender, rules)
}

/// Room for joining the items of one group.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Items by the byte after their last.
    enders: Vec<u32>,
    /// Of each item, one of the same chain with a lower index, or itself.
    before: Vec<u32>,
    /// Starters that are one component; those first that come and end first.
    block: Vec<u32>,
}

impl Links {
    /// Joins the items of one group, which are sorted by [`Item::by_start`]. Answers for each item
    /// with one of the same chain that comes before it, or with itself.
    pub(crate) fn join(&mut self, items: &[Item], rules: &Rules) -> &[u32] {
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
                crate::Link::OneToOne => self.pair(items, from..to, first..starter, rules),
                crate::Link::Component => self.unite(items, from..to, first..starter, rules),
            }
            from = to;
        }
        if rules.link == crate::Link::Component {
            for item in 0..count {
                self.before[item as usize] = self.root(item);
            }
        }
        &self.before
    }

    /// Each ender takes the first starter that is free and near enough.
    fn pair(
        &mut self,
        items: &[Item],
        enders: core::ops::Range<usize>,
        starters: core::ops::Range<usize>,
        rules: &Rules,
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

    /// Joins each ender with every starter near enough.
    ///
    /// All starters that came early enough for some ender so far and are not over for the present
    /// one are of one component. Of these only such matter that end later than all that came
    /// before them: if another is near enough to an ender, so is one of these.
    fn unite(
        &mut self,
        items: &[Item],
        enders: core::ops::Range<usize>,
        starters: core::ops::Range<usize>,
        rules: &Rules,
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
