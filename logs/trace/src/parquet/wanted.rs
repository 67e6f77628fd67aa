//! A column of a table that a request log needs.

use ::parquet::schema::types::ColumnDescriptor;

use super::cells::moment_places;
use crate::read::row::Field;

/// A column that is needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) place: usize,
    pub(super) field: Field,
    /// Digits behind the point, for moments that are whole numbers of parts of a second.
    pub(super) places: u32,
}

impl Wanted {
    /// The column at this place, which is read as this field.
    pub(super) fn new(place: usize, field: Field, column: &ColumnDescriptor) -> Self {
        let (field, places) = match (field, moment_places(column)) {
            (Field::EndS | Field::EndMs | Field::End, Some(places)) => (Field::EndS, places),
            (Field::Start | Field::StartMs, Some(places)) => (Field::Start, places),
            (field, _) => (field, 0),
        };
        Self {
            place,
            field,
            places,
        }
    }
}
