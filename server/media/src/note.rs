//! What was odd about a manifest, said in words and in bounded number.

use alloc::string::String;
use alloc::vec::Vec;

/// Most notes kept of one title; the rest is only counted.
pub const NOTES_PER_TITLE_MAX: usize = 8;

/// Sentences about one title, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notes {
    kept: Vec<String>,
    dropped_count: u64,
}

impl Notes {
    /// Adds a sentence unless it has been said, or enough has been said.
    pub fn push(&mut self, note: String) {
        if self.kept.contains(&note) {
            return;
        }
        if self.kept.len() < NOTES_PER_TITLE_MAX {
            self.kept.push(note);
        } else {
            self.dropped_count += 1;
        }
    }

    /// Adds those of others.
    pub(crate) fn add(&mut self, others: &Self) {
        others.kept.iter().for_each(|note| self.push(note.clone()));
        self.dropped_count += others.dropped_count;
    }

    /// The sentences, in the order they came up.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }

    /// How many more there were than are kept.
    pub fn dropped_count(&self) -> u64 {
        self.dropped_count
    }

    /// Whether nothing was odd.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn a_thousand_odd_segments_make_few_notes() {
        let mut notes = Notes::default();
        for i in 0..1000 {
            notes.push(format!("segment {}", i / 2));
        }
        assert_eq!(notes.iter().count(), NOTES_PER_TITLE_MAX);
        assert!(notes.dropped_count() > 0);
    }
}
