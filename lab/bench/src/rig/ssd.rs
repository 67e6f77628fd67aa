//! The emulated SSD of a flash tier: made and formatted for one run, and gone after it.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::Duration;

use headlong_units::Bytes;
use serde_json::{Value, json};

use super::RigError;
use super::control::Control;
use super::disk::{device_name, ready_line};
use super::guard::{Guard, Kind, Start};
use super::process::{Output, Process};
use crate::experiment::FlashTier;

/// Formatting writes two pages.
const FORMAT_PATIENCE: Duration = Duration::from_secs(60);

/// A running SSD with an empty tier on it; it is asked to end when dropped.
#[derive(Debug)]
pub(crate) struct Ssd {
    process: Process,
    control: Control,
    device: PathBuf,
    /// As it was started and formatted.
    pub(crate) commands: [String; 2],
    /// Held, so that it may go on to print.
    _stdout: BufReader<ChildStdout>,
}

/// What an SSD needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SsdSetup<'a> {
    pub(crate) headlong: &'a Path,
    pub(crate) tier: &'a FlashTier,
    /// The server's `piece`, if it says one.
    pub(crate) piece: Option<&'a str>,
    pub(crate) time_scale: u32,
}

impl SsdSetup<'_> {
    /// The command that starts the SSD.
    pub(crate) fn words(&self, socket: &Path) -> Vec<String> {
        let mut words = vec![
            self.headlong.display().to_string(),
            "disk".into(),
            "emulate".into(),
            self.tier.preset.clone(),
            "--time-scale".into(),
            self.time_scale.to_string(),
            "--file-system".into(),
            "none".into(),
            "--control".into(),
            socket.display().to_string(),
            "--json".into(),
        ];
        if let Some(bytes) = self.tier.size_bytes {
            words.extend(["--size".into(), bytes.to_string()]);
        }
        words
    }

    /// The command that makes it a tier.
    pub(crate) fn format_words(&self, device: &Path) -> Vec<String> {
        let mut words = vec![
            self.headlong.display().to_string(),
            "flash".into(),
            "format".into(),
            device.display().to_string(),
            "--block".into(),
            Bytes(self.tier.block_bytes).to_string(),
        ];
        if let Some(piece) = self.piece {
            words.extend(["--piece".into(), piece.to_owned()]);
        }
        words
    }
}

impl Ssd {
    /// Starts it and makes it a tier; its times are off.
    pub(crate) fn start(
        guard: &Guard,
        folder: &Path,
        setup: &SsdSetup<'_>,
    ) -> Result<Self, RigError> {
        let socket = folder.join("ssd.sock");
        let command = setup.words(&socket);
        let start = Start {
            kind: Kind::Disk,
            ..Start::PLAIN
        };
        let mut process = Process::start(guard, start, &command, Output::Kept)?;
        let (ready, stdout) = ready_line(&mut process)?;
        let device = Path::new("/dev").join(device_name(&ready)?);
        let mut control = Control::connect(&socket)?;
        control.timing(false)?;
        let format = setup.format_words(&device);
        let mut formatting = Process::start(guard, Start::PLAIN, &format, Output::Kept)?;
        formatting.drain();
        if !formatting.wait(FORMAT_PATIENCE)?.success() {
            return Err(RigError::Failed {
                what: format.join(" "),
                words: formatting.last_words(),
            });
        }
        Ok(Self {
            process,
            control,
            device,
            commands: [command.join(" "), format.join(" ")],
            _stdout: stdout,
        })
    }

    /// The block device.
    pub(crate) fn device(&self) -> &Path {
        &self.device
    }

    /// From now on it takes its time, and what it does is counted.
    pub(crate) fn begin(&mut self) -> Result<(), RigError> {
        self.control.ask(&json!({ "do": "counters_reset" }))?;
        self.control.timing(true)
    }

    /// How late it answers is counted from here on.
    pub(crate) fn forget_lateness(&mut self) -> Result<(), RigError> {
        self.control.forget_lateness()
    }

    /// Its counters; its times are off afterwards.
    pub(crate) fn end(&mut self) -> Result<Value, RigError> {
        let counters = self.control.ask(&json!({ "do": "counters" }))?;
        self.control.timing(false)?;
        Ok(counters)
    }
}

impl Drop for Ssd {
    fn drop(&mut self) {
        self.process.stop();
    }
}
