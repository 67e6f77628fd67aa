//! An S3 bucket that verifies signatures with its own implementation, in Python.

use std::path::Path;

use crate::python::PythonServer;

/// A running bucket; stopped when dropped.
pub struct Bucket(PythonServer);

impl Bucket {
    /// Starts a bucket over the files of a folder, with one key; its clock is ahead by this many
    /// seconds.
    pub fn start(
        folder: &Path,
        ahead_s: i64,
        (key, secret, region): (&str, &str, &str),
    ) -> std::io::Result<Self> {
        let (folder, ahead_s) = (folder.display().to_string(), ahead_s.to_string());
        let arguments = [&folder, &ahead_s, key, secret, region];
        PythonServer::start("python3", include_str!("s3_origin.py"), &arguments).map(Self)
    }

    /// URL of the bucket, with a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/bucket/", self.0.port)
    }

    /// Its requests and responses: method, path, status, reason.
    pub fn lines(&self) -> Vec<String> {
        self.0.lines()
    }
}
