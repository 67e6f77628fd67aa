//! A drive as an argument: the name of a preset, or a drive description file.

pub(crate) use headlong_bench::drive_spec;
