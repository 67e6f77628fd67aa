//! The set of correct replies: states of a title that existed while the reply was made.

use std::fmt::Write as _;
use std::time::Instant;

use super::{Content, State};

/// States of a title that existed while a reply was made.
#[derive(Debug)]
pub struct Window<'a> {
    states: &'a [State],
    since: Instant,
    until: Instant,
}

impl<'a> Window<'a> {
    /// The states between two times.
    pub fn new(states: &'a [State], since: Instant, until: Instant) -> Self {
        Self {
            states,
            since,
            until,
        }
    }

    fn there(&self) -> impl Iterator<Item = (usize, &'a State)> {
        let (since, until) = (self.since, self.until);
        let all = self.states.iter().enumerate();
        all.filter(move |(_, state)| state.was_there(since, until))
    }

    /// Whether the file was absent for a moment.
    pub fn was_absent(&self) -> bool {
        self.there().any(|(_, state)| state.content.is_none())
    }

    /// Whether anything changed.
    pub fn has_change(&self) -> bool {
        self.there().count() > 1
    }

    /// Whether bytes of a file were overwritten or truncated in place.
    pub fn has_change_in_place(&self) -> bool {
        self.steps()
            .any(|(before, after)| before.file == after.file)
    }

    /// Steps from one content to another whose time overlaps the window.
    fn steps(&self) -> impl Iterator<Item = (&'a Content, &'a Content)> {
        self.there().filter_map(|(index, state)| {
            let before = self.states.get(index.checked_sub(1)?)?;
            Some((before.content.as_ref()?, state.content.as_ref()?))
        })
    }

    /// Contents for which `stat` may have reported this length and time: those that have them, and,
    /// during a call, one between two lengths with the time of either. Each comes with the contents
    /// from which bytes may have been read.
    pub fn told_as(&self, size: u64, mtime_ns: i128) -> Vec<Vec<&'a Content>> {
        let mut found = Vec::new();
        for (_, state) in self.there() {
            let content = state.content.as_ref();
            let told = content.filter(|it| (it.size, it.mtime_ns) == (size, mtime_ns));
            found.extend(told.map(|content| vec![content]));
        }
        for (before, after) in self.steps().filter(|(a, b)| a.file == b.file) {
            let (least, most) = (before.size.min(after.size), before.size.max(after.size));
            let is_time = [before.mtime_ns, after.mtime_ns].contains(&mtime_ns);
            if (least..=most).contains(&size) && is_time {
                found.push(vec![before, after]);
            }
        }
        found
    }

    /// Whether these bytes of a page all belong to one content in the window, or to a page during a
    /// write. Where a file was truncated in place, zeros may stand for bytes that it did not have
    /// at that moment.
    pub fn has_piece(&self, offset: u64, bytes: &[u8]) -> bool {
        let there: Vec<_> = self.there().collect();
        let mut all = there
            .iter()
            .rev()
            .filter_map(|(_, state)| state.content.as_ref());
        if all.any(|content| content.has(offset, bytes)) {
            return true;
        }
        let has_shrunk = self
            .steps()
            .any(|(a, b)| a.file == b.file && b.size < a.size);
        let mut steps = self.steps().filter(|(a, b)| a.file == b.file);
        steps.any(|(a, b)| {
            left_of(&[a, b], offset, bytes)
                .iter()
                .all(|byte| has_shrunk && *byte == 0)
        })
    }

    /// Describes bytes that belong to no content in the window, for the failure report.
    pub fn diagnosis(&self, offset: u64, bytes: &[u8]) -> String {
        let mut told = String::new();
        for (index, state) in self.states.iter().enumerate() {
            let Some(content) = &state.content else {
                continue;
            };
            let expected = content.bytes(offset..offset + bytes.len() as u64);
            let same = expected.iter().zip(bytes).filter(|(a, b)| a == b).count();
            if same * 4 > bytes.len() {
                let ended = state
                    .until
                    .map(|end| self.since.saturating_duration_since(end));
                let _ = write!(
                    told,
                    "\n{same} of {} bytes are of state {index} of {}: {} bytes of file {}, time {}, \
                     ended before what may be seen by {ended:?}",
                    bytes.len(),
                    self.states.len(),
                    content.size,
                    content.file,
                    content.mtime_ns,
                );
            }
        }
        told
    }

    /// Whether a content is the last one of its file with this length and time.
    pub fn is_last_of_its_time(&self, content: &Content) -> bool {
        let key = |of: &Content| (of.file, of.size, of.mtime_ns);
        let mut all = self
            .states
            .iter()
            .filter_map(|state| state.content.as_ref());
        let last = all.rfind(|other| key(other) == key(content));
        last == Some(content)
    }
}

/// Whether each byte belongs to one of these contents; later ones are likelier.
pub fn is_of_any(contents: &[&Content], offset: u64, bytes: &[u8]) -> bool {
    if contents.iter().rev().any(|it| it.has(offset, bytes)) {
        return true;
    }
    contents.len() > 1 && left_of(contents, offset, bytes).is_empty()
}

/// The bytes that belong to none of them.
fn left_of(contents: &[&Content], offset: u64, bytes: &[u8]) -> Vec<u8> {
    let range = offset..offset + bytes.len() as u64;
    let mut left: Vec<usize> = (0..bytes.len()).collect();
    for content in contents.iter().rev() {
        let expected = content.bytes(range.clone());
        left.retain(|at| expected.get(*at) != Some(&bytes[*at]));
        if left.is_empty() {
            break;
        }
    }
    left.into_iter().map(|at| bytes[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(number: u64) -> Content {
        Content::of(1, 7, &[(1000, number)])
    }

    #[test]
    fn mixed_bytes_belong_to_the_set_but_to_neither_content() {
        let (one, two) = (content(1), content(2));
        let mut bytes = one.bytes(0..1000);
        assert!(one.has(0, &bytes) && one.has(7, &bytes[7..900]) && !one.has(8, &bytes[7..900]));
        let beyond = one.bytes(500..1000)[..400].repeat(2);
        assert!(!one.has(500, &beyond), "beyond its end");
        bytes[500..].copy_from_slice(&two.bytes(500..1000));
        assert!(is_of_any(&[&one, &two], 0, &bytes));
        assert!(!is_of_any(&[&one], 0, &bytes) && !is_of_any(&[&two], 0, &bytes));
    }
}
