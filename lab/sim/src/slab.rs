//! Slab of items that are added in order and removed in any order.
//!
//! Unlike in the crate of that name a number is never reused, because queued events may still refer
//! to a removed item. Few items are present and their numbers lie close together, so a number is an
//! offset from the oldest present item; there is no search.
//!
//! Invariants: a number is used once; storage starts at the oldest item present.

use std::collections::VecDeque;

/// Items by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// Number of the first stored place.
    first: u64,
    places: VecDeque<Option<Box<T>>>,
    present: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            first: 0,
            places: VecDeque::new(),
            present: 0,
        }
    }
}

impl<T> Slab<T> {
    /// Number of items present.
    pub(crate) fn len(&self) -> usize {
        self.present
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Adds an item and returns its number.
    pub(crate) fn add(&mut self, thing: T) -> u64 {
        self.places.push_back(Some(Box::new(thing)));
        self.present += 1;
        self.first + self.places.len() as u64 - 1
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = number.checked_sub(self.first)?;
        self.places.get_mut(place as usize)?.as_deref_mut()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let place = number.checked_sub(self.first)?;
        self.places.get(place as usize)?.as_deref()
    }

    /// Removes all items, in order of number.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (u64, T)> + use<T> {
        let first = self.first + self.places.len() as u64;
        let places = std::mem::take(&mut self.places);
        let numbered = (std::mem::replace(&mut self.first, first)..).zip(places);
        self.present = 0;
        numbered.filter_map(|(number, thing)| Some((number, *thing?)))
    }

    /// Removes an item.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let place = number.checked_sub(self.first)?;
        let thing = self.places.get_mut(place as usize)?.take()?;
        self.present -= 1;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
        Some(*thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_valid_until_removal_and_are_not_reused() {
        let mut slab = Slab::default();
        let numbers: Vec<u64> = "abcd".chars().map(|thing| slab.add(thing)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(slab.remove(1), Some('b'));
        assert_eq!(
            (slab.get(1), slab.get(0), slab.len()),
            (None, Some(&'a'), 3)
        );
        assert_eq!(slab.remove(0), Some('a'));
        assert_eq!(slab.places.len(), 2, "storage starts at the oldest item");
        assert_eq!((slab.remove(0), slab.get(9)), (None, None));
        slab.remove(2);
        slab.remove(3);
        assert!(slab.is_empty() && slab.places.is_empty());
        assert_eq!(slab.add('e'), 4);
        assert_eq!(slab.get_mut(4), Some(&mut 'e'));
    }
}
