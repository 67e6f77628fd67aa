//! Extents: the content of runs of pages. A whole title is one entry, and zeros have none.
//!
//! Invariants: runs do not overlap and are not empty; none holds zeros; adjacent runs do not
//! continue each other, or they would be merged.

use std::collections::BTreeMap;

use super::sequence::PageContent;

/// A run of pages with the same content rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// Number of pages.
    pub pages: u64,
    /// Content of the first page; the others continue it.
    pub content: PageContent,
}

/// Runs by first page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtentMap {
    runs: BTreeMap<u64, PageRun>,
}

impl ExtentMap {
    /// Number of runs.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// All runs, by first page.
    pub fn iter(&self) -> impl Iterator<Item = (u64, PageRun)> {
        self.runs.iter().map(|(first, run)| (*first, *run))
    }

    /// Sets the content of these pages.
    pub fn put(&mut self, first: u64, run: PageRun) {
        if run.pages == 0 {
            return;
        }
        let end = first + run.pages;
        self.cut(first, end);
        if run.content == PageContent::Zero {
            return;
        }
        let (mut first, mut run) = (first, run);
        let before = self.runs.range(..first).next_back();
        if let Some((&start, &before)) = before
            && start + before.pages == first
            && before.content.continues(before.pages, run.content)
        {
            first = start;
            run = PageRun {
                pages: before.pages + run.pages,
                content: before.content,
            };
        }
        if let Some(&behind) = self.runs.get(&end)
            && run.content.continues(run.pages, behind.content)
        {
            self.runs.remove(&end);
            run.pages += behind.pages;
        }
        self.runs.insert(first, run);
    }

    /// Removes the content of these pages.
    fn cut(&mut self, first: u64, end: u64) {
        let before = self.runs.range_mut(..first).next_back();
        if let Some((&start, run)) = before
            && start + run.pages > first
        {
            let whole = *run;
            run.pages = first - start;
            self.keep_behind(start, whole, end);
        }
        while let Some((&start, &run)) = self.runs.range(first..end).next() {
            self.runs.remove(&start);
            self.keep_behind(start, run, end);
        }
    }

    /// Reinserts the part of a run after `end`.
    fn keep_behind(&mut self, start: u64, run: PageRun, end: u64) {
        let run_end = start + run.pages;
        if run_end > end {
            let rest = PageRun {
                pages: run_end - end,
                content: run.content.skip(end - start),
            };
            self.runs.insert(end, rest);
        }
    }

    /// Content of `pages` pages from `first` on, in order, including zeros.
    pub fn pieces(&self, first: u64, pages: u64) -> impl Iterator<Item = (u64, PageRun)> {
        let (mut at, end) = (first, first + pages);
        std::iter::from_fn(move || {
            let first = at;
            let piece = (first < end).then(|| self.piece(first, end))?;
            at += piece.pages;
            Some((first, piece))
        })
    }

    /// The longest uniform run from `first` on, up to `end`.
    fn piece(&self, first: u64, end: u64) -> PageRun {
        match self.runs.range(..=first).next_back() {
            Some((&start, run)) if start + run.pages > first => PageRun {
                pages: (start + run.pages).min(end) - first,
                content: run.content.skip(first - start),
            },
            _ => {
                let next = self.runs.range(first..end).next();
                PageRun {
                    pages: next.map_or(end, |(&start, _)| start) - first,
                    content: PageContent::Zero,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequence::WordSequence;
    use super::*;

    fn sequence(first_page: u64) -> PageContent {
        PageContent::Sequence(WordSequence { first: 3, step: 5 }.skip(first_page))
    }

    fn run(pages: u64, content: PageContent) -> PageRun {
        PageRun { pages, content }
    }

    #[test]
    fn continuing_runs_merge_in_any_order() {
        let mut extents = ExtentMap::default();
        for first in [8, 0, 4, 12] {
            extents.put(first, run(4, sequence(first)));
        }
        let all: Vec<_> = extents.iter().collect();
        assert_eq!(all, [(0, run(16, sequence(0)))]);
    }

    #[test]
    fn overwrite_in_middle_leaves_both_ends() {
        let mut extents = ExtentMap::default();
        extents.put(0, run(10, sequence(0)));
        extents.put(4, run(2, PageContent::Literal));
        let all: Vec<_> = extents.iter().collect();
        let expected = [
            (0, run(4, sequence(0))),
            (4, run(2, PageContent::Literal)),
            (6, run(4, sequence(6))),
        ];
        assert_eq!(all, expected);
        extents.put(4, run(2, sequence(4)));
        assert_eq!(extents.count(), 1);
        extents.put(0, run(10, PageContent::Zero));
        assert_eq!(extents.count(), 0);
    }

    #[test]
    fn pieces_cover_range_in_order() {
        let mut extents = ExtentMap::default();
        extents.put(2, run(3, PageContent::Literal));
        extents.put(7, run(9, sequence(7)));
        let pieces: Vec<_> = extents.pieces(1, 9).collect();
        let expected = [
            (1, run(1, PageContent::Zero)),
            (2, run(3, PageContent::Literal)),
            (5, run(2, PageContent::Zero)),
            (7, run(3, sequence(7))),
        ];
        assert_eq!(pieces, expected);
    }
}
