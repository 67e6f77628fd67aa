//! Resource types of the simulated device.

use std::rc::Rc;

use headlong_device::Resources;

use crate::files::{Identity, Inode};
use crate::pool::Leased;

/// One version of a stream: its files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) parts: Vec<(String, Identity)>,
}

/// A simulated device.
#[derive(Debug)]
pub(crate) struct Simulated;

impl Resources for Simulated {
    type Source = Rc<Source>;
    type File = Inode;
    type Memory = Leased;
    type Client = ();
    type Record = Vec<u8>;
}
