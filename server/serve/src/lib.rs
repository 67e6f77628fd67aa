//! The server's shell: it does what the cores decide. Sockets, disks, configuration, logs.

pub mod admin;
pub mod config;
pub mod descriptors;
pub mod devices;
pub mod disk;
pub mod flash;
mod hand_over;
mod headers;
pub mod http;
mod late_flash;
pub mod log;
pub mod net;
pub mod pull;
mod raw;
mod reload;
pub mod run;
mod run_error;
mod signals;
mod start;
mod state_folder;
mod state_record;
mod tasks;
pub mod thread_pool;
pub mod time_scale;
pub mod upgrade;
mod view;
