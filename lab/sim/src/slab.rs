//! A slab: things that are numbered as they come and go in any order.
//!
//! Unlike in the crate of that name a number is never given again, because events that are still in the
//! queue may name a thing that has gone. Those present are few and their numbers lie close together,
//! so a number is a place behind the oldest thing that is still there. Nothing is searched.
//!
//! Invariants: a number is given once; what is kept reaches back to the oldest thing present and no
//! further.

use std::collections::VecDeque;

/// Things by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// Number of the first place that is kept.
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
    /// How many are present.
    pub(crate) fn len(&self) -> usize {
        self.present
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The next in number comes.
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

    /// All go, by number.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (u64, T)> + use<T> {
        let first = self.first + self.places.len() as u64;
        let places = std::mem::take(&mut self.places);
        let numbered = (std::mem::replace(&mut self.first, first)..).zip(places);
        self.present = 0;
        numbered.filter_map(|(number, thing)| Some((number, *thing?)))
    }

    /// One goes.
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
    fn numbers_are_found_until_their_things_go_and_are_never_given_again() {
        let mut slab = Slab::default();
        let numbers: Vec<u64> = "abcd".chars().map(|thing| slab.add(thing)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(slab.remove(1), Some('b'));
        assert_eq!(
            (slab.get(1), slab.get(0), slab.len()),
            (None, Some(&'a'), 3)
        );
        assert_eq!(slab.remove(0), Some('a'));
        assert_eq!(slab.places.len(), 2, "nothing is kept before the oldest");
        assert_eq!((slab.remove(0), slab.get(9)), (None, None));
        slab.remove(2);
        slab.remove(3);
        assert!(slab.is_empty() && slab.places.is_empty());
        assert_eq!(slab.add('e'), 4);
        assert_eq!(slab.get_mut(4), Some(&mut 'e'));
    }
}
