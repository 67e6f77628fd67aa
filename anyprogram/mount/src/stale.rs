//! What the kernel need not keep, and the thread that tells it: pages of an older version, and bytes
//! that programs have gone past.
//!
//! Telling waits until pages that are being read are there, so it has a thread of its own: whoever
//! answers reads must not wait for it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fuser::{INodeNo, Notifier};

use crate::behind::Part;

/// Parts that wait to be told of; the kernel finds those beyond them by itself.
const PARTS_MAX: usize = 4096;

/// What to tell of, each node once, and all of them first.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeSet<u64>,
    parts: VecDeque<Part>,
    is_over: bool,
}

/// One thing to tell of.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Node(u64),
    Part(Part),
}

impl Stale {
    /// A node's file is another version than before.
    pub(crate) fn add(&self, node: u64) {
        self.lock().nodes.insert(node);
        self.came.notify_one();
    }

    /// Programs have gone past these, and they are in the mount's memory or not worth it.
    pub(crate) fn add_parts(&self, parts: Vec<Part>) {
        if parts.is_empty() {
            return;
        }
        let mut state = self.lock();
        let room = PARTS_MAX.saturating_sub(state.parts.len());
        state.parts.extend(parts.into_iter().take(room));
        drop(state);
        self.came.notify_one();
    }

    /// The kernel need not be told any more.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.came.notify_one();
    }

    /// Tells the kernel, on a thread of its own, until the end.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn tell(self: &Arc<Self>, kernel: Notifier) -> std::io::Result<()> {
        let stale = Arc::clone(self);
        let thread = std::thread::Builder::new().name("stale".to_owned());
        thread.spawn(move || {
            while let Some(next) = stale.next() {
                let (node, (offset, length)) = match &next {
                    // All of it.
                    Next::Node(node) => (*node, (0, 0)),
                    Next::Part(part) => (part.node, range(part)),
                };
                // What it has forgotten is not stale.
                if let Err(error) = kernel.inval_inode(INodeNo(node), offset, length) {
                    tracing::debug!(node, %error, "the kernel was not told what it need not keep");
                }
            }
        })?;
        Ok(())
    }

    fn next(&self) -> Option<Next> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(node) = state.nodes.pop_first() {
                return Some(Next::Node(node));
            }
            if let Some(part) = state.parts.pop_front() {
                return Some(Next::Part(part));
            }
            state = self
                .came
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Offset and length, as the kernel takes them.
fn range(part: &Part) -> (i64, i64) {
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
    fn a_node_is_told_of_once_however_often_it_changed_and_nothing_after_the_end() {
        let stale = Stale::default();
        for node in [5, 3, 5] {
            stale.add(node);
        }
        let part = Part {
            node: 9,
            bytes: 0..4096,
        };
        stale.add_parts(vec![part.clone()]);
        let told = [(); 3].map(|()| stale.next());
        let expected = [Next::Node(3), Next::Node(5), Next::Part(part)].map(Some);
        assert_eq!(told, expected);
        stale.add(5);
        stale.end();
        assert_eq!(stale.next(), None);
    }
}
