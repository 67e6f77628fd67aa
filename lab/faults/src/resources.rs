//! Resource types of the simulated device.

use std::rc::Rc;

use headlong_device::Resources;

use crate::files::{Inode, StatIdentity};
use crate::pool::SlotLease;

/// One version of a stream: its files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StreamSource {
    pub(crate) parts: Vec<(String, StatIdentity)>,
}

/// A simulated device.
#[derive(Debug)]
pub(crate) struct SimulatedResources;

impl Resources for SimulatedResources {
    type Source = Rc<StreamSource>;
    type File = Inode;
    type Memory = SlotLease;
    type Client = ();
    type Record = Vec<u8>;
}
