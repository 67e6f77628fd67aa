//! Exit codes and output of `headlong-lab`.

mod bench;
mod capacity;
mod disk;
mod disk_measured;
mod load;
mod simulate_chains;
mod simulate_faults;
mod simulate_plan;
mod trace_chains;
mod trace_logs;
mod trace_parts;
mod workload;
