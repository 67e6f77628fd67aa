//! Invalidation queue: tells the kernel to drop pages of older versions and bytes behind readers.
//!
//! An invalidation waits for pages that are being read, so it runs on its own thread; threads that
//! answer reads must not wait for it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fuser::{INodeNo, Notifier};

use crate::cache_trimming::NodeRange;

/// Queued ranges; further ones are left to the kernel's own eviction.
const PARTS_MAX: usize = 4096;

/// Pending invalidations: each node once, nodes before ranges.
#[derive(Debug, Default)]
pub(crate) struct PendingInvalidations {
    state: Mutex<InvalidationQueue>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct InvalidationQueue {
    nodes: BTreeSet<u64>,
    parts: VecDeque<NodeRange>,
    is_over: bool,
}

/// The next invalidation.
#[derive(Debug, PartialEq, Eq)]
enum Invalidation {
    Node(u64),
    Part(NodeRange),
}

impl PendingInvalidations {
    /// A node's file has a new version.
    pub(crate) fn add(&self, node: u64) {
        self.lock().nodes.insert(node);
        self.came.notify_one();
    }

    /// Ranges behind readers, to be dropped from the page cache.
    pub(crate) fn add_parts(&self, parts: Vec<NodeRange>) {
        if parts.is_empty() {
            return;
        }
        let mut state = self.lock();
        let room = PARTS_MAX.saturating_sub(state.parts.len());
        state.parts.extend(parts.into_iter().take(room));
        drop(state);
        self.came.notify_one();
    }

    /// Stops the thread.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.came.notify_one();
    }

    /// Starts the thread that notifies the kernel.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub(crate) fn start(self: &Arc<Self>, kernel: Notifier) -> std::io::Result<()> {
        let stale = Arc::clone(self);
        let thread = std::thread::Builder::new().name("stale".to_owned());
        thread.spawn(move || {
            while let Some(next) = stale.next() {
                let (node, (offset, length)) = match &next {
                    // The whole file.
                    Invalidation::Node(node) => (*node, (0, 0)),
                    Invalidation::Part(part) => (part.node, range(part)),
                };
                // A node that the kernel has forgotten has no stale pages.
                if let Err(error) = kernel.inval_inode(INodeNo(node), offset, length) {
                    tracing::debug!(node, %error, "cannot invalidate pages in the kernel");
                }
            }
        })?;
        Ok(())
    }

    fn next(&self) -> Option<Invalidation> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(node) = state.nodes.pop_first() {
                return Some(Invalidation::Node(node));
            }
            if let Some(part) = state.parts.pop_front() {
                return Some(Invalidation::Part(part));
            }
            state = self
                .came
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, InvalidationQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Offset and length, as the kernel takes them.
fn range(part: &NodeRange) -> (i64, i64) {
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    (
        signed(part.bytes.start),
        signed(part.bytes.end - part.bytes.start),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_node_is_queued_once_and_none_after_the_end() {
        let stale = PendingInvalidations::default();
        for node in [5, 3, 5] {
            stale.add(node);
        }
        let part = NodeRange {
            node: 9,
            bytes: 0..4096,
        };
        stale.add_parts(vec![part.clone()]);
        let told = [(); 3].map(|()| stale.next());
        let expected = [
            Invalidation::Node(3),
            Invalidation::Node(5),
            Invalidation::Part(part),
        ]
        .map(Some);
        assert_eq!(told, expected);
        stale.add(5);
        stale.end();
        assert_eq!(stale.next(), None);
    }
}
