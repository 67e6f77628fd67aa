//! A server in Python as a child process: it prints its port, then lines about its requests.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// A running server; stopped when dropped.
pub(crate) struct PythonServer {
    child: Child,
    pub(crate) port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl PythonServer {
    /// Starts a script by a Python with these arguments.
    pub(crate) fn start(python: &str, script: &str, arguments: &[&str]) -> std::io::Result<Self> {
        let mut child = Command::new(python)
            .args(["-c", script])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take();
        let mut output = BufReader::new(output.ok_or(std::io::ErrorKind::BrokenPipe)?);
        let mut first = String::new();
        output.read_line(&mut first)?;
        let Ok(port) = first.trim().parse() else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(std::io::Error::other("the script did not start"));
        };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                kept.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
            }
        });
        Ok(Self { child, port, lines })
    }

    /// Its lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock();
        lines.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
