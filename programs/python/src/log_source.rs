//! Logs given by a caller: paths, buffers or Arrow tables, with the options of reading them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatchReader as _;
use headlong_chains::{ChainRules, GapRule, LinkRule};
use headlong_trace::{
    Format, Intake, IntakeProgress, IntakeResult, Shard, SilentProgress, TrustedProxies, take_in,
};
use headlong_units::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};
use tempfile::NamedTempFile;

use crate::arrow_input::store;
use crate::errors::{LogError, of_intake};
use crate::progress::ProgressFunction;
use crate::raw;

/// Logs, and how to read them.
pub(crate) struct LogSource {
    intake: Intake,
    allow_dropped: bool,
    /// Names of the given options that say how a log is read.
    reading: Vec<String>,
    /// A stored buffer or table, which is removed with this.
    _stored: Option<NamedTempFile>,
    progress: Option<ProgressFunction>,
}

impl LogSource {
    /// The logs in `source`, with these options.
    pub(crate) fn new(
        source: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut read = Self::without_log(options)?;
        read.logs(source)?;
        Ok(read)
    }

    /// The options alone, for what was read elsewhere.
    pub(crate) fn without_log(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut read = Self {
            intake: Intake {
                keep_unplaced: true,
                ..Intake::default()
            },
            allow_dropped: false,
            reading: Vec::new(),
            _stored: None,
            progress: None,
        };
        let mut threads = None;
        for (name, value) in options.into_iter().flatten() {
            let name: String = name.extract()?;
            if value.is_none() {
                continue;
            }
            match name.as_str() {
                "threads" => threads = Some(value.extract::<usize>()?.max(1)),
                _ => read.option(&name, &value)?,
            }
            if !["threads", "memory", "spill", "progress"].contains(&name.as_str()) {
                read.reading.push(name);
            }
        }
        let intake = &mut read.intake;
        intake.threads = threads.unwrap_or_else(|| Intake::threads_for(intake.memory_bytes_max));
        Ok(read)
    }

    fn option(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let wrong = |error: &dyn std::fmt::Display| {
            PyValueError::new_err(format!("option {name}: {error}"))
        };
        let intake = &mut self.intake;
        match name {
            "files" => intake.files = Some(value.extract()?),
            "format" => {
                let text: String = value.extract()?;
                intake.format = Some(text.parse::<Format>().map_err(|error| wrong(&error))?);
            }
            "log_format" => {
                let text: String = value.extract()?;
                let format = Format::from_configuration(&text);
                intake.format = Some(format.map_err(|error| wrong(&error))?);
            }
            "session_field" => intake.session_field = Some(value.extract()?),
            "session_idle_s" => {
                let seconds: f64 = value.extract()?;
                let idle = Duration::try_from_secs_f64(seconds);
                intake.session_idle = idle.map_err(|error| wrong(&error))?;
            }
            "title_rule" => intake.title_rule = Some(value.extract()?),
            "trusted" => {
                let text: String = value.extract()?;
                let trusted = text.parse::<TrustedProxies>();
                intake.trusted = trusted.map_err(|error| wrong(&error))?;
            }
            "memory" => {
                intake.memory_bytes_max = match value.extract::<u64>() {
                    Ok(bytes) => bytes,
                    Err(_) => {
                        let text: String = value.extract()?;
                        text.parse::<Bytes>().map_err(|error| wrong(&error))?.0
                    }
                };
            }
            "spill" => intake.spill = Some(value.extract()?),
            "allow_dropped" => self.allow_dropped = value.extract()?,
            "progress" => self.progress = Some(ProgressFunction::new(value.clone().unbind())),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "unknown option `{name}`; there are files, format, log_format, session_field, \
                     session_idle_s, title_rule, trusted, memory, threads, spill, allow_dropped, \
                     progress"
                )));
            }
        }
        Ok(())
    }

    fn logs(&mut self, source: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(path) = source.extract::<PathBuf>() {
            self.intake.logs = vec![path];
        } else if source.is_instance_of::<PyList>() || source.is_instance_of::<PyTuple>() {
            self.intake.logs = source.extract()?;
        } else if source.hasattr("__arrow_c_stream__")? {
            self.store_table(source)?;
        } else if let Ok(buffer) = PyBuffer::<u8>::get(source) {
            let bytes = buffer.to_vec(source.py())?;
            self.store_bytes(&bytes)?;
        } else if source.hasattr("read")? {
            let read = source.call_method0("read")?;
            let bytes = match read.extract::<String>() {
                Ok(text) => text.into_bytes(),
                Err(_) => read.extract::<Vec<u8>>()?,
            };
            self.store_bytes(&bytes)?;
        } else {
            return Err(PyTypeError::new_err(format!(
                "a log is a path, a list of paths, a buffer, an open file or an Arrow table, not {}",
                source.get_type().name()?
            )));
        }
        Ok(())
    }

    fn stored_file(&self) -> PyResult<NamedTempFile> {
        let folder = self.intake.spill.clone();
        let folder = folder.unwrap_or_else(std::env::temp_dir);
        NamedTempFile::new_in(&folder)
            .map_err(|error| PyOSError::new_err(format!("{}: {error}", folder.display())))
    }

    /// Keeps a stored log, which is called so.
    fn keep(&mut self, file: NamedTempFile, name: &str) {
        self.intake.logs = vec![file.path().to_owned()];
        self.intake.name = Some(name.to_owned());
        self._stored = Some(file);
    }

    fn store_bytes(&mut self, bytes: &[u8]) -> PyResult<()> {
        let mut file = self.stored_file()?;
        file.write_all(bytes)?;
        self.keep(file, "the buffer");
        Ok(())
    }

    fn store_table(&mut self, source: &Bound<'_, PyAny>) -> PyResult<()> {
        let capsule = source.call_method0("__arrow_c_stream__")?;
        let reader = raw::stream(capsule.cast::<PyCapsule>()?)?;
        let file = self.stored_file()?;
        let fields = reader.schema().fields.to_vec();
        let output = file.reopen()?;
        let path = file.path();
        // With the lock of Python: the stream may be one of its objects.
        store(reader, &fields, (output, path))
            .map_err(|error| LogError::new_err(format!("the table: {error}")))?;
        self.keep(file, "the table");
        Ok(())
    }

    /// The shard, if it is the only log.
    ///
    /// # Errors
    /// If options say how to read it, which its split did already.
    pub(crate) fn shard(&self) -> PyResult<Option<&Path>> {
        let [path] = &self.intake.logs[..] else {
            return Ok(None);
        };
        match self.reading.first() {
            _ if !Shard::is_one(path) => Ok(None),
            None => Ok(Some(path)),
            Some(option) => Err(PyTypeError::new_err(format!(
                "option {option}: {} is a shard, which was read by `split`; give it there",
                path.display()
            ))),
        }
    }

    /// The logs and options.
    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Most memory, bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.intake.memory_bytes_max
    }

    /// Threads.
    pub(crate) fn threads(&self) -> usize {
        self.intake.threads
    }

    /// The same, for chains only, which need no estimates of files.
    pub(crate) fn without_estimates(mut self) -> Self {
        self.intake.estimates = false;
        self
    }

    /// Reads the logs.
    pub(crate) fn take_in(&self) -> PyResult<IntakeResult> {
        let progress: &dyn IntakeProgress = match &self.progress {
            Some(function) => function,
            None => &SilentProgress,
        };
        let taken = take_in(&self.intake, progress).map_err(of_intake)?;
        self.check(&taken)?;
        Ok(taken)
    }

    /// Reports that so many requests of all are summed.
    pub(crate) fn summed(&self, done: u64, of: u64) {
        if let Some(function) = &self.progress {
            function.call("summing", done, Some(of));
        }
    }

    /// Checks that there are requests, and not too few.
    pub(crate) fn check(&self, taken: &IntakeResult) -> PyResult<()> {
        let name = || taken.logs.first().map_or("", |log| log.name.as_str());
        if taken.requests == 0 {
            return Err(LogError::new_err(format!(
                "{}: there is no request in the log",
                name()
            )));
        }
        if taken.is_mostly_dropped() && !self.allow_dropped {
            let notes = headlong_trace::summary(taken).join("\n");
            return Err(LogError::new_err(format!(
                "{}: more than a tenth of the lines were dropped; allow_dropped=True reads the rest\n\
                 {notes}",
                name()
            )));
        }
        Ok(())
    }
}

/// Rules for joining requests to chains.
pub(crate) fn rules(gap: &str, link: &str) -> PyResult<ChainRules> {
    Ok(ChainRules {
        gap: match gap {
            "received" => GapRule::Received,
            "idle" => GapRule::Idle,
            other => return Err(no_rule("gap", other, "received or idle")),
        },
        link: match link {
            "one-to-one" => LinkRule::OneToOne,
            "component" => LinkRule::Component,
            other => return Err(no_rule("link", other, "one-to-one or component")),
        },
        ..ChainRules::default()
    })
}

fn no_rule(name: &str, given: &str, there_are: &str) -> PyErr {
    PyValueError::new_err(format!("{name} is {there_are}, not {given:?}"))
}
