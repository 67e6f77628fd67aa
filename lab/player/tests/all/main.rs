//! Viewers in virtual time.

mod adaptive;
mod phases;
mod properties;
mod rig;
mod script;
