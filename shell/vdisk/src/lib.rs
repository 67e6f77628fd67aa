//! Block devices of this machine that take as long as a modelled drive.

pub mod layout;
