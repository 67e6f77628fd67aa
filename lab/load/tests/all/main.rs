//! Viewers against servers of the tests.

mod schema;
mod sockets;
mod toy;
mod truth;
