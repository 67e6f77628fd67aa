//! Rows that need no interpretation: numbers that are numbers already.
//!
//! The one idea: a table with the columns of our own request log, in the types that such a table
//! has, says what [`interpret`](crate::read::entry::interpret) would make of its text without ever
//! being text. A batch of rows in which nothing is odd is handed over as its columns; anything else in
//! one (an empty cell, a negative number, a moment beyond all calendars) sends it the way of text,
//! which knows why a row is no request.
//!
//! Invariant: a plain row is what its text would be.

use ::parquet::data_type::ByteArray;

use super::cells::{Cells, Column};
use super::wanted::Wanted;
use crate::read::number::{AMOUNT_MAX, is_moment, is_service};
use crate::read::row::Field;

/// Where the columns of a plain table are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    end: usize,
    /// What a moment is multiplied by to be ms, and then divided by.
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

impl Plan {
    /// The plan for these columns; `None` if some need to be interpreted.
    pub(super) fn of(wanted: &[Wanted], columns: &[Column]) -> Option<Self> {
        let place = |field: Field| wanted.iter().position(|wanted| wanted.field == field);
        let is_once = |wanted_one: &Wanted| {
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
                Cells::Ints(_) => wanted.places == 0 || wanted.field == Field::EndS,
                Cells::Texts(_) => is_name(wanted.field),
                Cells::Flags(_) | Cells::Reals(_) => false,
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

    /// Looks at a batch of rows.
    pub(super) fn batch<'a>(&self, columns: &'a [Column]) -> Option<Batch<'a>> {
        let numbers = |place: usize| Numbers::of(&columns[place]);
        let names = |place: usize| NameCells::of(&columns[place]);
        Some(Batch {
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

/// What there is at a place; `None` only if there should be something and is not.
fn maybe<T>(place: Option<usize>, of: impl Fn(usize) -> Option<T>) -> Option<Option<T>> {
    match place {
        Some(place) => of(place).map(Some),
        None => Some(None),
    }
}

/// The columns of a batch in their types.
pub(super) struct Batch<'a> {
    end: Numbers<'a>,
    end_scale: (i64, i64),
    service_ms: Option<Numbers<'a>>,
    session: NameCells<'a>,
    file: NameCells<'a>,
    offset: Numbers<'a>,
    size: Option<Numbers<'a>>,
    bytes: Numbers<'a>,
    disk: Option<NameCells<'a>>,
    device: Option<NameCells<'a>>,
}

/// A batch of which every row is plain.
pub(crate) struct PlainBatch<'a> {
    pub(crate) completed_ms: &'a [i64],
    /// `None` if no row says it.
    pub(crate) service_ms: Option<&'a [i64]>,
    pub(crate) session: NameColumn<'a>,
    pub(crate) file: NameColumn<'a>,
    pub(crate) offset: &'a [i64],
    pub(crate) sent_bytes: &'a [i64],
    pub(crate) disk: Option<NameColumn<'a>>,
    pub(crate) device: Option<NameColumn<'a>>,
    asked_bytes: Option<Numbers<'a>>,
}

/// Names of all rows of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NameColumn<'a> {
    /// None is negative.
    Numbers(&'a [i64]),
    /// None is empty.
    Texts(&'a [ByteArray]),
}

impl PlainBatch<'_> {
    /// Bytes asked for by a row; `None` if it was open-ended.
    #[inline]
    pub(crate) fn asked_bytes(&self, index: usize) -> Option<u64> {
        let asked = self.asked_bytes.as_ref()?.get(index)?;
        Some(asked.cast_unsigned())
    }
}

impl<'a> Batch<'a> {
    /// All rows at once, if every one is plain. `ends_ms` is room for moments.
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
        // Where a size is empty there is a number of another row, or none.
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
            // What does not fit is no moment.
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

/// Looks at every number, so that many are looked at at once.
fn are_all(numbers: &[i64], is_fine: impl Fn(i64) -> bool) -> bool {
    numbers
        .iter()
        .fold(true, |all, number| all & is_fine(*number))
}

/// A column of numbers.
#[derive(Clone, Copy)]
struct Numbers<'a> {
    numbers: &'a [i64],
    column: &'a Column,
}

impl<'a> Numbers<'a> {
    fn of(column: &'a Column) -> Option<Self> {
        match column.cells() {
            Cells::Ints(numbers) => Some(Self { numbers, column }),
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
    Numbers(Numbers<'a>),
    Texts(&'a [ByteArray]),
}

impl<'a> NameCells<'a> {
    fn of(column: &'a Column) -> Option<Self> {
        match column.cells() {
            Cells::Ints(_) => Numbers::of(column).map(Self::Numbers),
            Cells::Texts(texts) => Some(Self::Texts(texts)),
            _ => None,
        }
    }

    /// All names; `None` if one is not there or not plain.
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
