//! Fast path for Parquet rows that need no parsing.
//!
//! A table with the columns and types of our own request log means what
//! [`interpret`](crate::read::entry::interpret) would derive from its text. A batch without
//! exceptional rows is passed on as columns; a single exceptional row (an empty cell, a negative
//! number, a time out of range) sends the whole batch through text parsing, which reports why a row
//! is not a request.
//!
//! Invariant: a plain row means what its text would mean.

use ::parquet::data_type::ByteArray;

use super::cells::{BatchValues, GroupColumn, NeededColumn};
use crate::read::number::{AMOUNT_MAX, is_moment, is_service};
use crate::read::row::Field;

/// Column indexes of a plain table.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlainColumns {
    end: usize,
    /// Factor and divisor that convert a time to ms.
    end_scale: (i64, i64),
    service_ms: Option<usize>,
    session: usize,
    file: usize,
    offset: usize,
    size: Option<usize>,
    bytes: usize,
    disk: Option<usize>,
    device: Option<usize>,
}

/// Fields that a plain table may have.
const PLAIN: [Field; 10] = [
    Field::EndS,
    Field::EndMs,
    Field::ServiceMs,
    Field::Session,
    Field::Device,
    Field::Disk,
    Field::File,
    Field::Offset,
    Field::Size,
    Field::Bytes,
];

impl PlainColumns {
    /// The plan for these columns; `None` if some need parsing.
    pub(super) fn of(wanted: &[NeededColumn], columns: &[GroupColumn]) -> Option<Self> {
        let place = |field: Field| wanted.iter().position(|wanted| wanted.field == field);
        let is_once = |wanted_one: &NeededColumn| {
            let of_field = wanted
                .iter()
                .filter(|other| other.field == wanted_one.field);
            PLAIN.contains(&wanted_one.field) && of_field.count() == 1
        };
        let is_name = |field| {
            matches!(
                field,
                Field::Session | Field::File | Field::Device | Field::Disk
            )
        };
        let is_typed = wanted
            .iter()
            .zip(columns)
            .all(|(wanted, column)| match column.cells() {
                BatchValues::Ints(_) => wanted.places == 0 || wanted.field == Field::EndS,
                BatchValues::Texts(_) => is_name(wanted.field),
                BatchValues::Flags(_) | BatchValues::Reals(_) => false,
            });
        if !wanted.iter().all(is_once) || !is_typed {
            return None;
        }
        let (end, end_scale) = match (place(Field::EndS), place(Field::EndMs)) {
            (Some(place), None) => match wanted[place].places {
                0 => (place, (1000, 1)),
                places => (place, (1, 10_i64.pow(places.checked_sub(3)?))),
            },
            (None, Some(place)) => (place, (1, 1)),
            _ => return None,
        };
        Some(Self {
            end,
            end_scale,
            service_ms: place(Field::ServiceMs),
            session: place(Field::Session)?,
            file: place(Field::File)?,
            offset: place(Field::Offset)?,
            size: place(Field::Size),
            bytes: place(Field::Bytes)?,
            disk: place(Field::Disk),
            device: place(Field::Device),
        })
    }

    /// All rows of a batch, if each of them is plain. `ends_ms` is scratch space for times.
    pub(super) fn batch<'a>(
        &self,
        columns: &'a [GroupColumn],
        ends_ms: &'a mut Vec<i64>,
    ) -> Option<PlainBatch<'a>> {
        let is_amount = |number: i64| number.cast_unsigned() <= AMOUNT_MAX;
        let numbers = |place: usize| columns[place].whole_ints();
        let names = |place: usize| NameColumn::of(&columns[place]);
        let service_ms = maybe(self.service_ms, numbers)?;
        let (offset, sent_bytes) = (numbers(self.offset)?, numbers(self.bytes)?);
        let asked_bytes = maybe(self.size, |place| match columns[place].cells() {
            BatchValues::Ints(numbers) => Some((numbers.as_slice(), &columns[place])),
            _ => None,
        })?;
        // An empty size cell holds an arbitrary value of another row, or the default.
        let is_fine = are_all(offset, is_amount)
            && are_all(sent_bytes, is_amount)
            && asked_bytes.is_none_or(|(asked, _)| are_all(asked, is_amount))
            && service_ms.is_none_or(|all| are_all(all, |ms| is_service(ms.cast_unsigned())));
        let (times, by) = self.end_scale;
        let ends = numbers(self.end)?;
        ends_ms.clear();
        match (times, by) {
            (1, 1) => ends_ms.extend_from_slice(ends),
            // An overflow saturates, and is rejected as a time later.
            (_, 1) => ends_ms.extend(ends.iter().map(|end| end.saturating_mul(times))),
            _ => ends_ms.extend(ends.iter().map(|end| end.saturating_mul(times) / by)),
        }
        (is_fine && are_all(ends_ms, is_moment)).then_some(())?;
        Some(PlainBatch {
            completed_ms: ends_ms,
            service_ms,
            session: names(self.session)?,
            file: names(self.file)?,
            offset,
            sent_bytes,
            disk: maybe(self.disk, names)?,
            device: maybe(self.device, names)?,
            asked_bytes,
        })
    }
}

/// Applies `of` to an index, if there is one; `None` if `of` fails.
fn maybe<T>(place: Option<usize>, of: impl Fn(usize) -> Option<T>) -> Option<Option<T>> {
    match place {
        Some(place) => of(place).map(Some),
        None => Some(None),
    }
}

/// A batch of plain rows.
pub(crate) struct PlainBatch<'a> {
    pub(crate) completed_ms: &'a [i64],
    /// `None` if the table has no such column.
    pub(crate) service_ms: Option<&'a [i64]>,
    pub(crate) session: NameColumn<'a>,
    pub(crate) file: NameColumn<'a>,
    pub(crate) offset: &'a [i64],
    pub(crate) sent_bytes: &'a [i64],
    pub(crate) disk: Option<NameColumn<'a>>,
    pub(crate) device: Option<NameColumn<'a>>,
    asked_bytes: Option<(&'a [i64], &'a GroupColumn)>,
}

/// Names of all rows of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NameColumn<'a> {
    /// No number is negative.
    Numbers(&'a [i64]),
    /// No text is empty.
    Texts(&'a [ByteArray]),
}

impl PlainBatch<'_> {
    /// Bytes requested by a row; `None` if open-ended.
    #[inline]
    pub(crate) fn asked_bytes(&self, index: usize) -> Option<u64> {
        let (asked, column) = self.asked_bytes?;
        (!column.is_empty(index)).then(|| asked[index].cast_unsigned())
    }
}

/// Checks all numbers without early exit, so that the loop can be vectorised.
fn are_all(numbers: &[i64], is_fine: impl Fn(i64) -> bool) -> bool {
    numbers
        .iter()
        .fold(true, |all, number| all & is_fine(*number))
}

impl<'a> NameColumn<'a> {
    /// All names; `None` if one is missing or not plain.
    fn of(column: &'a GroupColumn) -> Option<Self> {
        if let BatchValues::Texts(texts) = column.cells() {
            let is_name = |text: &ByteArray| !matches!(text.data(), b"" | b"-");
            return texts.iter().all(is_name).then_some(Self::Texts(texts));
        }
        let numbers = column.whole_ints()?;
        are_all(numbers, |number| number >= 0).then_some(Self::Numbers(numbers))
    }
}
