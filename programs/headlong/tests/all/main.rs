//! Exit codes and output of `headlong`.

mod any_program;
mod command_line;
mod talks_to_a_server;
mod tune;
