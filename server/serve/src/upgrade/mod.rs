//! Upgrade: a new process replaces the running one, and no connection is refused meanwhile.
//!
//! The old process starts the new program and passes it the listening sockets. Both share the
//! kernel's accept queues, so connections are always accepted. The old process gives up nothing
//! irrevocable until the new one is ready. If the new program or its configuration is faulty, the
//! old process continues.
//!
//! ```text
//! old                                    new
//! starts the program        ->           checks the configuration, restarts itself and exits, so
//!                                        that the service manager becomes the parent process
//! passes its listeners      ->           checks roots, certificate and state folder
//!                           <- checked
//! saves the learned state   -> go        starts its devices, begins to scan the roots
//!                           <- ready
//! saves the viewers' latest
//! state, reports the new
//! process to the manager    -> yours     loads that state, accepts connections
//! transfers its memory      -> pieces    stores the pieces
//! accepts no more connections;
//! detaches the flash tier;
//! completes its replies                  attaches the flash tier once it is free
//! drains, if still running     <- stop   receives the stop signal
//! ```
//!
//! A service manager that stops the service only needs to signal the newest process, which passes
//! the stop on to the old one and ends after it. An old process that has finished ends after its
//! own predecessor, so that each process stays reachable.
//!
//! The processes communicate over a socket pair; the new process has its end as standard input. A
//! closed end means that the other process has ended: the old process then abandons the new one,
//! and a new process that was ready starts to serve.
//!
//! Listeners can also come from the service manager (systemd's socket activation). Then no
//! connection is refused even if a process ends before the next one starts.

mod channel;
mod error;
mod inherited_sockets;
mod predecessor;
mod program;
mod successor;

pub use error::UpgradeError;
pub(crate) use inherited_sockets::{InheritedSocket, InheritedSockets};
pub(crate) use predecessor::Predecessor;
pub(crate) use program::Program;
pub use program::step_aside;
pub(crate) use successor::Successor;
