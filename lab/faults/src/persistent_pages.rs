//! The bytes of an SSD, durable and pending, and the ways to lose them.

use std::collections::BTreeMap;
use std::rc::Rc;

use headlong_flash::format::ReadFailed;

use crate::random_source::RandomSource;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Unit of atomic writes: smaller than that of any SSD, because a summary of few runs is shorter
/// than a sector and must be torn, too.
const LINE: usize = 64;
/// Lines with the same index modulo this are torn together.
const FATES: usize = 8;

type Page = Rc<[u8; PAGE]>;
type Pages = BTreeMap<u64, Page>;

/// Pages. Absent pages consist of the byte `blank`.
#[derive(Debug, Clone, Default)]
pub(crate) struct PersistentPages {
    visible: Pages,
    durable: Pages,
    /// Writes since the last flush, in order.
    pending: Vec<(u64, Page)>,
    /// Previous content of each page.
    before: Pages,
    blank: u8,
}

impl PersistentPages {
    fn page(&self, number: u64) -> Page {
        let page = self.visible.get(&number).cloned();
        page.unwrap_or_else(|| Rc::new([self.blank; PAGE]))
    }

    /// Reads; offset and length are multiples of a page.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) {
        for (index, part) in into.chunks_mut(PAGE).enumerate() {
            let number = at / PAGE as u64 + index as u64;
            match self.visible.get(&number) {
                Some(page) => part.copy_from_slice(&page[..part.len()]),
                None => part.fill(self.blank),
            }
        }
    }

    /// A read function for the flash format.
    pub(crate) fn reader(&self) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_ {
        |at, into| {
            self.read(at, into);
            Ok(())
        }
    }

    /// Reads the previous content of pages.
    pub(crate) fn read_before(&self, at: u64, into: &mut [u8]) {
        for (index, part) in into.chunks_mut(PAGE).enumerate() {
            let number = at / PAGE as u64 + index as u64;
            match self.before.get(&number) {
                Some(page) => part.copy_from_slice(&page[..part.len()]),
                None => part.fill(self.blank),
            }
        }
    }

    /// Writes whole pages; the last one is padded with zeros.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        for (index, part) in bytes.chunks(PAGE).enumerate() {
            let mut page = [0; PAGE];
            page[..part.len()].copy_from_slice(part);
            self.put(at / PAGE as u64 + index as u64, Rc::new(page));
        }
    }

    fn put(&mut self, number: u64, page: Page) {
        let before = self.page(number);
        self.before.insert(number, before);
        self.visible.insert(number, Rc::clone(&page));
        self.pending.push((number, page));
    }

    /// Writes only some lines.
    pub(crate) fn write_torn(&mut self, draw: &mut RandomSource, at: u64, bytes: &[u8]) {
        for (index, part) in bytes.chunks(PAGE).enumerate() {
            let number = at / PAGE as u64 + index as u64;
            let mut whole = [0; PAGE];
            whole[..part.len()].copy_from_slice(part);
            let torn = torn(draw, &self.page(number), &whole);
            self.put(number, Rc::new(torn));
        }
    }

    /// Makes all writes durable.
    pub(crate) fn flush(&mut self) {
        for (number, page) in std::mem::take(&mut self.pending) {
            self.durable.insert(number, page);
        }
    }

    /// Pending writes stay readable but never become durable.
    pub(crate) fn fail_flush(&mut self) {
        self.pending.clear();
    }

    /// Any part of the pending writes survives, down to lines.
    pub(crate) fn cut_power(&mut self, draw: &mut RandomSource) {
        let kept = draw.pick(&[0, 30, 50, 80, 100]);
        for (number, page) in std::mem::take(&mut self.pending) {
            if draw.percent(kept) {
                let before = self.durable.get(&number).cloned();
                let before = before.unwrap_or_else(|| Rc::new([self.blank; PAGE]));
                let page = match draw.percent(40) {
                    true => Rc::new(torn(draw, &before, &page)),
                    false => page,
                };
                self.durable.insert(number, page);
            }
        }
        self.visible = self.durable.clone();
    }

    /// Flips a bit of the stored content.
    pub(crate) fn flip(&mut self, draw: &mut RandomSource) {
        let count = self.visible.len() as u64;
        let Some((&number, page)) = self.visible.iter().nth(draw.0.below(count) as usize) else {
            return;
        };
        let mut bytes = **page;
        // The beginning of a page is often a header.
        let bytes_of = if draw.percent(50) { 128 } else { PAGE as u64 };
        let bit = draw.0.below(bytes_of * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let page = Rc::new(bytes);
        self.visible.insert(number, Rc::clone(&page));
        self.durable.insert(number, page);
    }

    /// Erases everything; all bytes read as `byte`.
    pub(crate) fn wipe(&mut self, byte: u8) {
        *self = Self {
            blank: byte,
            ..Self::default()
        };
    }

    /// Takes over the content of another image.
    pub(crate) fn restore(&mut self, image: &Self) {
        *self = Self {
            visible: image.visible.clone(),
            durable: image.visible.clone(),
            blank: image.blank,
            ..Self::default()
        };
    }
}

fn torn(draw: &mut RandomSource, before: &[u8; PAGE], after: &[u8; PAGE]) -> [u8; PAGE] {
    let mut page = *before;
    for fate in 0..FATES {
        if draw.percent(50) {
            for from in (fate * LINE..PAGE).step_by(FATES * LINE) {
                page[from..from + LINE].copy_from_slice(&after[from..from + LINE]);
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_random::Generator;

    fn read(medium: &PersistentPages, page: u64) -> u8 {
        let mut bytes = [0; PAGE];
        medium.read(page * PAGE as u64, &mut bytes);
        bytes[0]
    }

    #[test]
    fn flushed_data_survives_power_cut_and_pending_may() {
        let (mut kept, mut lost) = (0, 0);
        for seed in 0..200 {
            let mut medium = PersistentPages::default();
            medium.write(0, &[1; PAGE]);
            medium.flush();
            medium.write(PAGE as u64, &[2; PAGE]);
            medium.cut_power(&mut RandomSource(Generator::new(seed)));
            assert_eq!(read(&medium, 0), 1);
            match read(&medium, 1) {
                2 => kept += 1,
                0 => lost += 1,
                other => panic!("{other}"),
            }
        }
        assert!(kept > 20 && lost > 20, "{kept} {lost}");
    }

    #[test]
    fn data_of_failed_flush_is_readable_until_power_cut() {
        let mut medium = PersistentPages::default();
        medium.write(0, &[1; PAGE]);
        medium.fail_flush();
        medium.flush();
        assert_eq!(read(&medium, 0), 1);
        medium.cut_power(&mut RandomSource(Generator::new(1)));
        assert_eq!(read(&medium, 0), 0);
    }
}
