//! A program that runs to its end, and what it printed.

use std::process::{Command, Output};

use serde_json::Value;

/// Exit code and output of a program.
#[derive(Debug, Clone)]
pub struct ProgramRun {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output; what is not UTF-8 is replaced.
    pub stdout: String,
    /// The same of standard error.
    pub stderr: String,
}

impl ProgramRun {
    /// Runs it to its end.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        command.output().expect("the program starts").into()
    }

    /// The same, after a check of the exit code.
    ///
    /// # Panics
    /// If the code is another.
    #[track_caller]
    pub fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// If it is something else.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("JSON")
    }
}

impl From<Output> for ProgramRun {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}
