//! The server's shell: it does what the cores decide. Sockets, disks, configuration, logs.

pub mod admin;
pub mod config;
pub mod disk;
mod headers;
pub mod http;
pub mod log;
pub mod net;
mod raw;
mod reload;
pub mod run;
mod sizes;
mod start;
mod tasks;
pub mod time_scale;
mod view;
