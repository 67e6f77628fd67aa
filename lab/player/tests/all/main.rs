//! Viewers in virtual time.

mod adaptive;
mod properties;
mod rig;
mod script;
