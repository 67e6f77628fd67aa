//! An S3 bucket that verifies signatures with its own implementation, in Python.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// A running bucket; stopped when dropped.
pub struct Bucket {
    child: Child,
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Bucket {
    /// Starts a bucket over the files of a folder, with one key; its clock is ahead by this many
    /// seconds.
    pub fn start(
        folder: &Path,
        ahead_s: i64,
        (key, secret, region): (&str, &str, &str),
    ) -> std::io::Result<Self> {
        let mut child = Command::new("python3")
            .args(["-c", include_str!("s3_origin.py")])
            .arg(folder)
            .args([&ahead_s.to_string(), key, secret, region])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take();
        let mut output = BufReader::new(output.ok_or(std::io::ErrorKind::BrokenPipe)?);
        let mut first = String::new();
        output.read_line(&mut first)?;
        let Ok(port) = first.trim().parse() else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(std::io::Error::other("the bucket did not start"));
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

    /// URL of the bucket, with a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/bucket/", self.port)
    }

    /// Its requests and responses: method, path, status, reason.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock();
        lines.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
