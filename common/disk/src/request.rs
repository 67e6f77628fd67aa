//! A request to a disk.

/// Bytes per sector: the unit of addresses on every interface, whatever the drive uses internally.
pub const SECTOR_BYTES: u64 = 512;

/// Read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the medium.
    Read,
    /// To the medium.
    Write,
}

/// A contiguous run of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// First sector (logical block address in units of [`SECTOR_BYTES`]).
    pub sector: u64,
    /// Number of sectors; zero is rejected.
    pub sectors: u32,
    /// Read or write.
    pub direction: Direction,
}

impl Request {
    /// The first sector after the request.
    pub const fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors as u64)
    }
}
