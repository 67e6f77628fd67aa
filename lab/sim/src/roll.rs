//! Things that are numbered as they come and go in any order.
//!
//! The one idea: those present are few and their numbers lie close together, so a number is a place:
//! that of the thing behind the oldest that is still there. Nothing is searched.
//!
//! Invariants: a number is given once; what is kept reaches back to the oldest thing present and no
//! further.

use std::collections::VecDeque;

/// Things by number.
#[derive(Debug)]
pub(crate) struct Roll<T> {
    /// Number of the first place that is kept.
    first: u64,
    places: VecDeque<Option<Box<T>>>,
    present: usize,
}

impl<T> Default for Roll<T> {
    fn default() -> Self {
        Self {
            first: 0,
            places: VecDeque::new(),
            present: 0,
        }
    }
}

impl<T> Roll<T> {
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
        let mut roll = Roll::default();
        let numbers: Vec<u64> = "abcd".chars().map(|thing| roll.add(thing)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(roll.remove(1), Some('b'));
        assert_eq!(
            (roll.get(1), roll.get(0), roll.len()),
            (None, Some(&'a'), 3)
        );
        assert_eq!(roll.remove(0), Some('a'));
        assert_eq!(roll.places.len(), 2, "nothing is kept before the oldest");
        assert_eq!((roll.remove(0), roll.get(9)), (None, None));
        roll.remove(2);
        roll.remove(3);
        assert!(roll.is_empty() && roll.places.is_empty());
        assert_eq!(roll.add('e'), 4);
        assert_eq!(roll.get_mut(4), Some(&mut 'e'));
    }
}
