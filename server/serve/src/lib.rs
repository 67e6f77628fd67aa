//! The server: executes the decisions of the pure crates. Sockets, disks, logs.

pub mod admin;
mod certificate_expiry;
mod core_dumps;
pub mod devices;
mod flash_attachment;
mod handover;
pub mod http;
mod listeners;
mod media_view;
pub mod package_survey;
pub mod pending_scans;
mod prepared;
mod record_file;
mod reload;
mod root_attachment;
pub mod run;
mod run_error;
mod running;
mod scan_throttle;
pub mod service_manager;
mod signals;
mod start;
mod state_folder;
mod state_record;
mod tasks;
pub mod upgrade;
mod whole_file;

pub use certificate_expiry::now_unix_s;
