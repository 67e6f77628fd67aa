//! A request to a disk.

/// Bytes of a sector: the unit of addresses on every interface, whatever the drive has inside.
pub const SECTOR_BYTES: u64 = 512;

/// Read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the medium.
    Read,
    /// To the medium.
    Write,
}

/// A run of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// First sector (logical block address in units of [`SECTOR_BYTES`]).
    pub sector: u64,
    /// How many; zero is refused.
    pub sectors: u32,
    /// Which way.
    pub direction: Direction,
}

impl Request {
    /// First sector behind it.
    pub const fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors as u64)
    }
}
