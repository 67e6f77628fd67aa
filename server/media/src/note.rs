//! Notes about problems of a manifest, as text and in bounded number.

use alloc::string::String;
use alloc::vec::Vec;

/// Most notes kept of one title; the others are only counted.
pub const NOTES_PER_TITLE_MAX: usize = 8;

/// Notes about one title, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TitleNotes {
    kept: Vec<String>,
    dropped_count: u64,
}

impl TitleNotes {
    /// Adds a note unless it is a duplicate or the limit is reached.
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

    /// Adds the notes of `others`.
    pub(crate) fn add(&mut self, others: &Self) {
        others.kept.iter().for_each(|note| self.push(note.clone()));
        self.dropped_count += others.dropped_count;
    }

    /// The notes, in order of occurrence.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }

    /// How many more there were than are kept.
    pub fn dropped_count(&self) -> u64 {
        self.dropped_count
    }

    /// Whether there are no notes.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn thousand_bad_segments_make_few_notes() {
        let mut notes = TitleNotes::default();
        for i in 0..1000 {
            notes.push(format!("segment {}", i / 2));
        }
        assert_eq!(notes.iter().count(), NOTES_PER_TITLE_MAX);
        assert!(notes.dropped_count() > 0);
    }
}
