//! Columns of a table that a request log needs.

use ::parquet::schema::types::ColumnDescriptor;

use super::cells::moment_places;
use crate::read::row::Field;

/// A needed column.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeededColumn {
    pub(super) place: usize,
    pub(super) field: Field,
    /// Decimal places of timestamps stored as integers.
    pub(super) places: u32,
}

impl NeededColumn {
    /// The column at this index, read as this field.
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
