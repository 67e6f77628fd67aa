//! Open files and folders by handle number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Objects by number; a number is never reused.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            open: RwLock::default(),
        }
    }

    /// Adds an object, and returns its number.
    pub(crate) fn add(&self, one: T) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(number, Arc::new(one));
        number
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<T>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&number).cloned()
    }

    /// Removes an object; it is dropped with its last reference.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.remove(&number)
    }

    pub(crate) fn count(&self) -> usize {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_is_never_reused() {
        let handles = Handles::new();
        let (first, second) = (handles.add('a'), handles.add('b'));
        assert_eq!(handles.get(first).as_deref(), Some(&'a'));
        assert!(handles.remove(first).is_some() && handles.remove(first).is_none());
        let third = handles.add('c');
        assert!(third != first && third != second);
        assert_eq!(handles.get(first), None);
        assert_eq!(handles.count(), 2);
    }
}
