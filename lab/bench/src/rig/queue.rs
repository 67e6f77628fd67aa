//! Settings of a block device's queue.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::RigError;
use crate::experiment::BlockQueueSettings;

/// Settings in effect, as read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// I/O scheduler.
    pub scheduler: String,
    /// See [`BlockQueueSettings::read_ahead_kb`].
    pub read_ahead_kb: u32,
    /// See [`BlockQueueSettings::max_sectors_kb`].
    pub max_sectors_kb: u32,
    /// Largest request of the device.
    pub max_hw_sectors_kb: u32,
    /// Whether the kernel considers it rotational.
    pub is_rotational: bool,
}

/// Sets the queue of `device` (such as `loop0`), and reads it back. Settings missing in `kernel`
/// are reset to their defaults: an earlier server may have changed them.
///
/// `read_ahead_kb` comes last: the kernel resets it when another limit of the queue is written.
pub(crate) fn set(device: &str, kernel: &BlockQueueSettings) -> Result<QueueSettings, RigError> {
    write(device, "scheduler", &kernel.scheduler)?;
    let most = look(device)?.max_hw_sectors_kb;
    let largest = largest_kb(kernel, most);
    write(device, "max_sectors_kb", &largest.to_string())?;
    write(device, "read_ahead_kb", &kernel.read_ahead_kb.to_string())?;
    let in_force = look(device)?;
    if in_force.read_ahead_kb != kernel.read_ahead_kb || in_force.scheduler != kernel.scheduler {
        let text = format!("{device}: requested {kernel:?}, but in effect is {in_force:?}");
        return Err(RigError::Machine(text));
    }
    Ok(in_force)
}

/// The largest request of a loop device that supports `most`: that much, unless a setting is lower.
/// The papers' 16 MB exceed it; the record shows the value in effect.
fn largest_kb(kernel: &BlockQueueSettings, most: u32) -> u32 {
    kernel.max_sectors_kb.map_or(most, |kb| kb.min(most))
}

/// Sets only the scheduler.
pub(crate) fn set_scheduler(device: &str, scheduler: &str) -> Result<(), RigError> {
    write(device, "scheduler", scheduler)
}

/// Settings in effect.
pub(crate) fn look(device: &str) -> Result<QueueSettings, RigError> {
    let number = |file| Ok::<u32, RigError>(read(device, file)?.parse().unwrap_or(0));
    Ok(QueueSettings {
        scheduler: chosen(&read(device, "scheduler")?).to_owned(),
        read_ahead_kb: number("read_ahead_kb")?,
        max_sectors_kb: number("max_sectors_kb")?,
        max_hw_sectors_kb: number("max_hw_sectors_kb")?,
        is_rotational: number("rotational")? == 1,
    })
}

/// The name in brackets, or the only one.
fn chosen(text: &str) -> &str {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text.trim(), |(name, _)| name)
}

fn path(device: &str, file: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/{device}/queue/{file}"))
}

fn read(device: &str, file: &str) -> Result<String, RigError> {
    let path = path(device, file);
    let text = fs::read_to_string(&path).map_err(|error| RigError::io(path.display(), error))?;
    Ok(text.trim().to_owned())
}

fn write(device: &str, file: &str, value: &str) -> Result<(), RigError> {
    let path = path(device, file);
    fs::write(&path, value)
        .map_err(|error| RigError::io(format!("{} = {value}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_limit_is_reset_for_next_server() {
        let kernel = |max_sectors_kb| BlockQueueSettings {
            max_sectors_kb,
            ..BlockQueueSettings::default()
        };
        let largest = |kb| largest_kb(&kernel(kb), 1280);
        assert_eq!(largest(Some(512)), 512);
        assert_eq!(largest(None), 1280);
        assert_eq!(largest(Some(16_384)), 1280);
    }

    #[test]
    fn active_scheduler_is_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none\n"), "none");
    }
}
