//! End-to-end tests that share the machine with one another. They compare bytes, states and counts,
//! which a busy machine does not change.
//!
//! One program for all of them, because linking each file by itself takes longer than most files
//! run. A name selects a file: `cargo test -p headlong-e2e-tests upgrade::`.

mod access;
mod adaptive;
mod at_hand;
mod by_path;
mod bytes;
mod certbot;
mod changes;
mod clients;
mod cold_titles;
mod command_line;
mod conformance;
mod disk_looks;
mod expecting;
mod faults;
mod fill;
mod flash;
mod flash_faults;
mod fleet;
mod fleet_chaos;
mod foreign_formats;
mod history;
mod history_mount;
mod hostile;
mod ill_parts;
mod leaving;
mod life;
mod limits;
mod monitoring;
mod mount_changes;
mod mount_chunks;
mod mount_disks;
mod mount_ends;
mod mount_programs;
mod mount_servers;
mod mounted_again;
mod nginx_side_by_side;
mod own_log;
mod package;
mod packaging;
mod packaging_corpus;
mod preload_chunks;
mod preload_faults;
mod preload_leftovers;
mod preload_own;
mod preload_programs;
mod preload_servers;
mod preload_together;
mod proxies;
mod pull;
mod pull_passing;
mod reception_faults;
mod reception_hangs;
mod s3;
mod s3_faults;
mod search;
mod secrets;
mod slow_replies;
mod steering;
mod subvolumes;
mod tls;
mod unix_sockets;
mod upgrade;
