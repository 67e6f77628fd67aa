//! Sort order of names in a table: by value if all are numbers, otherwise by bytes.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::names::{Name, Names};

/// Mapping between name numbers and positions in a table.
#[derive(Debug)]
pub(super) struct NameOrder<'a> {
    names: &'a Names,
    /// Position by number, and number by position; `None` if they are equal.
    moved: Option<(Vec<u32>, Vec<u32>)>,
}

impl<'a> NameOrder<'a> {
    pub(super) fn of(names: &'a Names) -> Self {
        let is_number = |name| matches!(name, Name::Number(_));
        let count = names.len() as u32;
        // Numeric names come first, by value, and all others follow by bytes; only a mixture needs
        // another order.
        let is_mixed = count > 0 && is_number(names.get(0)) && !is_number(names.get(count - 1));
        let moved = is_mixed.then(|| {
            let mut order: Vec<u32> = (0..count).collect();
            order.sort_by(|&one, &other| compare(names.get(one), names.get(other)));
            let mut places = vec![0; order.len()];
            for (&number, place) in order.iter().zip(0..) {
                places[number as usize] = place;
            }
            (places, order)
        });
        Self { names, moved }
    }

    /// Whether positions equal numbers.
    pub(super) fn is_as_numbered(&self) -> bool {
        self.moved.is_none()
    }

    /// Whether every name is an integer that fits in a signed 64-bit value.
    pub(super) fn is_of_numbers(&self) -> bool {
        let greatest = self.names.as_numbers().and_then(<[u64]>::last);
        greatest.is_some_and(|number| i64::try_from(*number).is_ok())
    }

    /// The position of a name.
    pub(super) fn place(&self, number: u32) -> u32 {
        match &self.moved {
            Some((places, _)) => places.get(number as usize).copied().unwrap_or(number),
            None => number,
        }
    }

    /// The name at a position.
    pub(super) fn name(&self, place: u32) -> Name<'a> {
        let number = match &self.moved {
            Some((_, order)) => order.get(place as usize).copied().unwrap_or(place),
            None => place,
        };
        self.names.get(number)
    }
}

/// By bytes; parts of one name in the order of the parts.
fn compare(one: Name<'_>, other: Name<'_>) -> Ordering {
    fn key(name: Name<'_>) -> (Cow<'_, [u8]>, u32) {
        match name {
            Name::Text(text) => (text.into(), 0),
            Name::Part(text, part) => (text.into(), part),
            Name::Number(_) | Name::Unknown(_) => (name.to_string().into_bytes().into(), 0),
        }
    }
    key(one).cmp(&key(other))
}
