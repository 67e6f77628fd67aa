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

use super::cells::{BatchValues, GroupColumn};
use super::needed_columns::NeededColumn;
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

    /// The typed columns of a batch of rows.
    pub(super) fn batch<'a>(&self, columns: &'a [GroupColumn]) -> Option<TypedBatch<'a>> {
        let numbers = |place: usize| NumberColumn::of(&columns[place]);
        let names = |place: usize| NameCells::of(&columns[place]);
        Some(TypedBatch {
            end: numbers(self.end)?,
            end_scale: self.end_scale,
            service_ms: maybe(self.service_ms, numbers)?,
            session: names(self.session)?,
            file: names(self.file)?,
            offset: numbers(self.offset)?,
            size: maybe(self.size, numbers)?,
            bytes: numbers(self.bytes)?,
            disk: maybe(self.disk, names)?,
            device: maybe(self.device, names)?,
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

/// The typed columns of a batch.
pub(super) struct TypedBatch<'a> {
    end: NumberColumn<'a>,
    end_scale: (i64, i64),
    service_ms: Option<NumberColumn<'a>>,
    session: NameCells<'a>,
    file: NameCells<'a>,
    offset: NumberColumn<'a>,
    size: Option<NumberColumn<'a>>,
    bytes: NumberColumn<'a>,
    disk: Option<NameCells<'a>>,
    device: Option<NameCells<'a>>,
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
    asked_bytes: Option<NumberColumn<'a>>,
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
        let asked = self.asked_bytes.as_ref()?.get(index)?;
        Some(asked.cast_unsigned())
    }
}

impl<'a> TypedBatch<'a> {
    /// All rows, if each of them is plain. `ends_ms` is scratch space for times.
    pub(super) fn whole<'b>(&self, ends_ms: &'b mut Vec<i64>) -> Option<PlainBatch<'b>>
    where
        'a: 'b,
    {
        let is_amount = |number: i64| number.cast_unsigned() <= AMOUNT_MAX;
        let service_ms = match &self.service_ms {
            Some(service) => Some(service.whole()?),
            None => None,
        };
        let (offset, sent_bytes) = (self.offset.whole()?, self.bytes.whole()?);
        // An empty size cell holds an arbitrary value of another row, or the default.
        let is_fine = are_all(offset, is_amount)
            && are_all(sent_bytes, is_amount)
            && self
                .size
                .is_none_or(|size| are_all(size.numbers, is_amount))
            && service_ms.is_none_or(|all| are_all(all, |ms| is_service(ms.cast_unsigned())));
        let (times, by) = self.end_scale;
        let ends = self.end.whole()?;
        ends_ms.clear();
        match (times, by) {
            (1, 1) => ends_ms.extend_from_slice(ends),
            // An overflow saturates, and is rejected as a time later.
            (_, 1) => ends_ms.extend(ends.iter().map(|end| end.saturating_mul(times))),
            _ => ends_ms.extend(ends.iter().map(|end| end.saturating_mul(times) / by)),
        }
        let is_sound = is_fine && are_all(ends_ms, is_moment);
        let name = |cells: Option<NameCells<'a>>| match cells {
            Some(cells) => cells.whole().map(Some),
            None => Some(None),
        };
        is_sound.then_some(())?;
        Some(PlainBatch {
            completed_ms: ends_ms,
            service_ms,
            session: self.session.whole()?,
            file: self.file.whole()?,
            offset,
            sent_bytes,
            disk: name(self.disk)?,
            device: name(self.device)?,
            asked_bytes: self.size,
        })
    }
}

/// Checks all numbers without early exit, so that the loop can be vectorised.
fn are_all(numbers: &[i64], is_fine: impl Fn(i64) -> bool) -> bool {
    numbers
        .iter()
        .fold(true, |all, number| all & is_fine(*number))
}

/// A column of numbers.
#[derive(Clone, Copy)]
struct NumberColumn<'a> {
    numbers: &'a [i64],
    column: &'a GroupColumn,
}

impl<'a> NumberColumn<'a> {
    fn of(column: &'a GroupColumn) -> Option<Self> {
        match column.cells() {
            BatchValues::Ints(numbers) => Some(Self { numbers, column }),
            _ => None,
        }
    }

    /// All numbers; `None` if a cell is empty.
    fn whole(&self) -> Option<&'a [i64]> {
        self.column.is_whole().then_some(self.numbers)
    }

    #[inline]
    fn get(&self, index: usize) -> Option<i64> {
        (!self.column.is_empty(index)).then(|| self.numbers[index])
    }
}

/// A column of names.
#[derive(Clone, Copy)]
enum NameCells<'a> {
    Numbers(NumberColumn<'a>),
    Texts(&'a [ByteArray]),
}

impl<'a> NameCells<'a> {
    fn of(column: &'a GroupColumn) -> Option<Self> {
        match column.cells() {
            BatchValues::Ints(_) => NumberColumn::of(column).map(Self::Numbers),
            BatchValues::Texts(texts) => Some(Self::Texts(texts)),
            _ => None,
        }
    }

    /// All names; `None` if one is missing or not plain.
    fn whole(&self) -> Option<NameColumn<'a>> {
        match self {
            Self::Numbers(numbers) => {
                let numbers = numbers.whole()?;
                are_all(numbers, |number| number >= 0).then_some(NameColumn::Numbers(numbers))
            }
            Self::Texts(texts) => {
                let is_name = |text: &ByteArray| !matches!(text.data(), b"" | b"-");
                texts
                    .iter()
                    .all(is_name)
                    .then_some(NameColumn::Texts(texts))
            }
        }
    }
}
