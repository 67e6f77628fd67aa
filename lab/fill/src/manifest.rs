//! The manifest of a filled folder, which identifies its catalogue.

use std::fs;
use std::io;
use std::path::Path;

use headlong_workload::{Catalogue, TitleForm};
use serde::{Deserialize, Serialize};

use crate::error::{FillError, io_error};

/// Its file name in the filled folder.
pub const MANIFEST: &str = "headlong-catalogue.json";

/// Content of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub version: u32,
    /// Name of the specification.
    pub specification: String,
    /// [`Catalogue::fingerprint`] in 16 hexadecimal digits; traces have it as well.
    pub catalogue: String,
    /// Bytes of a chunk file, if titles are split into chunk files.
    pub chunk_bytes: Option<u64>,
    /// Whether titles are split into one file per segment.
    #[serde(default)]
    pub segment_files: bool,
    /// Number of titles.
    pub titles: u64,
    /// Number of files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

impl Manifest {
    /// The manifest of a catalogue.
    pub fn of(specification: &str, catalogue: &Catalogue) -> Self {
        let titles = catalogue.titles.iter();
        let files = titles.map(|title| catalogue.file_count(title));
        Self {
            version: 1,
            specification: specification.to_string(),
            catalogue: format!("{:016x}", catalogue.fingerprint()),
            chunk_bytes: catalogue.form.chunk_bytes(),
            segment_files: catalogue.form == TitleForm::Segments,
            titles: catalogue.titles.len() as u64,
            files: files.sum(),
            bytes: catalogue.file_bytes(),
        }
    }

    /// Reads the manifest of `folder`; `None` if there is none.
    ///
    /// # Errors
    /// If it exists and cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Self>, FillError> {
        let path = folder.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(&path, "cannot be read")(error)),
        };
        let manifest = serde_json::from_slice(&text).map_err(io::Error::from);
        manifest
            .map(Some)
            .map_err(io_error(&path, "is not a manifest of this version"))
    }

    /// Whether both describe the same files; names of specifications are ignored.
    pub fn is_same(&self, other: &Self) -> bool {
        let form = |manifest: &Self| (manifest.chunk_bytes, manifest.segment_files);
        self.catalogue == other.catalogue && form(self) == form(other)
    }

    /// Description for error messages.
    pub(crate) fn label(&self) -> String {
        let form = match self.chunk_bytes {
            Some(bytes) => format!("in chunk files of {bytes} bytes"),
            None if self.segment_files => "in segment files".to_string(),
            None => "in single files".to_string(),
        };
        format!(
            "{} ({}, {} titles {form})",
            self.catalogue, self.specification, self.titles
        )
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), FillError> {
        let path = folder.join(MANIFEST);
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from);
        let written = text.and_then(|mut text| {
            text.push(b'\n');
            fs::write(&path, text)
        });
        written.map_err(io_error(&path, "cannot be written"))
    }

    pub(crate) fn remove(folder: &Path) -> Result<(), FillError> {
        let path = folder.join(MANIFEST);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error(&path, "cannot be removed")(error))
            }
            _ => Ok(()),
        }
    }
}
