//! The next timeout of each of many parts, and the earliest of all: a tree of minima, so that a change
//! costs the logarithm of their number.

use headlong_units::Instant;

/// Next timeouts by the number of a part.
#[derive(Debug)]
pub(crate) struct NextTimes {
    /// The earliest of all is at 1, the halves of the part at `n` at `2 n` and `2 n + 1`.
    minima: Vec<Instant>,
    leaves: usize,
}

impl NextTimes {
    /// No timeout for `count` parts.
    pub(crate) fn new(count: usize) -> Self {
        let leaves = count.max(1).next_power_of_two();
        Self {
            minima: vec![Instant::NEVER; 2 * leaves],
            leaves,
        }
    }

    /// The earliest of all; [`Instant::NEVER`] if there is none.
    pub(crate) fn first(&self) -> Instant {
        self.minima[1]
    }

    /// Sets the next timeout of a part.
    pub(crate) fn set(&mut self, part: usize, at: Instant) {
        let mut place = self.leaves + part;
        self.minima[place] = at;
        while place > 1 {
            let least = self.minima[place].min(self.minima[place ^ 1]);
            place /= 2;
            if self.minima[place] == least {
                return;
            }
            self.minima[place] = least;
        }
    }

    /// The first part from this number on whose timeout is due.
    pub(crate) fn due_from(&self, part: usize, now: Instant) -> Option<usize> {
        let is_due = |place: usize| self.minima[place] <= now;
        let mut place = self.leaves + part;
        if part >= self.leaves {
            return None;
        }
        while !is_due(place) {
            // Up as long as it is a right half; then the right half beside it.
            while place % 2 == 1 {
                place /= 2;
            }
            if place == 0 {
                return None;
            }
            place += 1;
        }
        while place < self.leaves {
            place = 2 * place + usize::from(!is_due(2 * place));
        }
        Some(place - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_parts_are_found_in_order() {
        for count in [1, 2, 5, 8, 100] {
            let mut times = NextTimes::new(count);
            assert_eq!(times.first(), Instant::NEVER);
            let at = |part: usize| Instant((part as u64 * 7 + 3) % 11);
            (0..count).for_each(|part| times.set(part, at(part)));
            let least = (0..count).map(at).min();
            assert_eq!(Some(times.first()), least);
            for now in (0..11).map(Instant) {
                let mut found = Vec::new();
                let mut from = 0;
                while let Some(part) = times.due_from(from, now) {
                    found.push(part);
                    from = part + 1;
                }
                let expected = (0..count).filter(|part| at(*part) <= now);
                assert_eq!(found, expected.collect::<Vec<_>>(), "{count} {now:?}");
            }
            (0..count).for_each(|part| times.set(part, Instant::NEVER));
            assert_eq!(times.first(), Instant::NEVER);
        }
    }
}
