//! One process takes the place of another, and no connection is refused between them.
//!
//! The one idea: the old process starts the new program and lends it its listening sockets; both
//! wait at the same queues of the kernel, so that nobody who connects finds nobody there. Until the new
//! one has said that it could serve, the old one gives nothing up that it cannot take back. So whatever
//! is wrong with the new program or its configuration, the old one goes on.
//!
//! ```text
//! old                                    new
//! starts the program        ->           reads the configuration, starts itself again and ends, so
//!                                        that the service manager is the parent of what serves
//! lends its listeners       ->           looks at roots, certificate, state folder
//!                           <- checked
//! writes what it learned    -> go        starts its devices, begins to search the roots
//!                           <- ready
//! writes where viewers are
//! by now, names the new one
//! to the service manager    -> yours     reads that, accepts connections
//! sends what is in memory   -> pieces    takes them into memory
//! accepts no more; lets the flash tier
//! go; ends its replies                   takes the flash tier once it is free
//! drains, if it still has any  <- stop   is told to stop
//! ```
//!
//! A service manager that stops the service needs to tell the new process only: it tells the old one,
//! and ends after it. An old one that has nothing left ends after the one before it, so that none is
//! without somebody to tell it.
//!
//! Both speak over a pair of sockets, of which the new one has its end as standard input. An end
//! that is closed says that its process has ended: a new one is given up then, and a new one that
//! was ready serves.
//!
//! Listeners can come from the service manager, too (systemd's socket activation): then there is no
//! gap even where a process ends before the next is started.

mod channel;
mod error;
mod inherited;
mod predecessor;
mod program;
mod successor;

pub use error::UpgradeError;
pub(crate) use inherited::Inherited;
pub(crate) use predecessor::Predecessor;
pub(crate) use program::Program;
pub use program::step_aside;
pub(crate) use successor::Successor;
