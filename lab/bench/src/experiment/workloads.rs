//! Checks that an experiment's workloads can be played on its files.

use std::path::Path;

use headlong_settings::{Mistakes, ValueLocation};
use headlong_workload::{Catalogue, Specification};

use super::drive::is_file;
use super::{Experiment, ExperimentCell, FileSet};

impl Experiment {
    /// Reads the named specifications, and checks that every workload requests only titles on the
    /// drive.
    ///
    /// # Errors
    /// All mistakes in the specifications; `file` is the experiment's.
    pub fn check_workloads(&self, file: &Path) -> Result<(), Mistakes> {
        let mut wrong = Vec::new();
        let mut seen: Vec<(FileSet, Option<u64>)> = Vec::new();
        for cell in self.cells() {
            let files = &cell.files;
            if !seen.iter().any(|(there, _)| there == files) {
                let stored = files.catalogue();
                let stored = stored.map_err(|errors| wrong.extend(errors)).ok();
                if let (Some(stored), Some(size)) = (&stored, cell.workload.drive.size_bytes)
                    && stored.file_bytes() > size
                {
                    wrong.push(format!(
                        "drive.size: the titles take {} bytes, the drive has {size}; set fewer \
                         titles with [files.set]",
                        stored.file_bytes()
                    ));
                }
                seen.push((files.clone(), stored.map(|stored| stored.fingerprint())));
            }
            let stored = seen.iter().find(|(there, _)| there == files);
            let asked = catalogue(&cell.workload.preset, &cell.changes());
            match asked.map_err(|errors| wrong.extend(errors)) {
                Ok(asked)
                    if stored.is_some_and(|(_, f)| f.is_some_and(|f| f != asked.fingerprint())) =>
                {
                    wrong.push(format!(
                        "workload.{}: asks for other titles than {} stores; give both the same \
                         catalogue, with [files.set] for what differs from the preset",
                        cell.workload_name, files.catalogue
                    ));
                }
                _ => {}
            }
        }
        wrong.dedup();
        match wrong.is_empty() {
            true => Ok(()),
            false => {
                let whole = ValueLocation::File(file.display().to_string());
                Err(Mistakes::at(&whole, wrong))
            }
        }
    }
}

impl Experiment {
    /// Mistakes in the named specifications, if the experiment is valid enough to name them.
    pub(super) fn wrong_specifications(&self, known: &Mistakes) -> Vec<String> {
        let mut wrong = Vec::new();
        if !known.is_about("files.catalogue") {
            wrong.extend(self.files.catalogue().err().unwrap_or_default());
        }
        for (name, workload) in &self.workloads {
            if !known.is_about(&format!("workload.{name}.preset")) {
                let changes = [self.files.changes(), workload.set.clone()].concat();
                let read = catalogue(&workload.preset, &changes);
                wrong.extend(read.err().unwrap_or_default());
            }
        }
        // Catalogue and workload often share one specification.
        wrong.sort_unstable();
        wrong.dedup();
        wrong
    }
}

impl ExperimentCell {
    /// Whether its viewers have players that adapt.
    pub fn has_adaptive_players(&self) -> bool {
        let read = specification(&self.workload.preset, &self.changes());
        read.is_ok_and(|specification| specification.has_adaptive_players())
    }
}

impl FileSet {
    /// The titles.
    ///
    /// # Errors
    /// All mistakes in its specification.
    pub fn catalogue(&self) -> Result<Catalogue, Vec<String>> {
        catalogue(&self.catalogue, &self.changes())
    }

    /// Number of its files; 0 if its specification is invalid, which is reported elsewhere.
    pub(crate) fn count(&self) -> u64 {
        let Ok(catalogue) = self.catalogue() else {
            return 0;
        };
        let titles = catalogue.titles.iter();
        titles.map(|title| catalogue.file_count(title)).sum()
    }
}

fn catalogue(name: &str, changes: &[(String, String)]) -> Result<Catalogue, Vec<String>> {
    specification(name, changes).map(|specification| Catalogue::of(&specification))
}

/// A preset or a file, with overrides; the error lists all its mistakes.
pub(crate) fn specification(
    name: &str,
    changes: &[(String, String)],
) -> Result<Specification, Vec<String>> {
    let read = match is_file(name) {
        false => Specification::preset(name, changes),
        true => {
            let text = std::fs::read_to_string(name)
                .map_err(|error| vec![format!("{name}: cannot be read: {error}")])?;
            Specification::read(name, &text, changes)
        }
    };
    let lines = |text: String| text.lines().map(str::to_owned).collect();
    read.map_err(|errors| lines(errors.to_string()))
}
