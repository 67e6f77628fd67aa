//! `headlong tune` on a real block device: a loop device, which root can create and configure.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use headlong_testkit::ProgramRun;
use serde_json::Value;

use super::headlong;

/// A loop device with small requests, removed on drop. The kernel keeps the setting for the next
/// user, so it is restored.
struct LoopDevice {
    name: String,
    _folder: tempfile::TempDir,
    request_kb: String,
}

impl LoopDevice {
    fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = folder.path().join("disk");
        fs::write(&file, vec![0; 1 << 20]).map_err(|error| error.to_string())?;
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&file)
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        let run = ProgramRun::from(output);
        match run.stdout.trim().strip_prefix("/dev/") {
            Some(name) if run.code == Some(0) => {
                let mut device = Self {
                    name: name.to_owned(),
                    _folder: folder,
                    request_kb: String::new(),
                };
                device.request_kb = device.get("max_sectors_kb");
                device.set("max_sectors_kb", "64");
                Ok(device)
            }
            _ => Err(run.stderr),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/{name}", self.name))
    }

    fn get(&self, name: &str) -> String {
        let text = fs::read_to_string(self.file(name)).expect("a setting");
        text.trim().to_owned()
    }

    fn set(&self, name: &str, value: &str) {
        fs::write(self.file(name), value).expect("a setting that root may change");
    }

    fn tune(&self, flags: &[&str]) -> String {
        let device = format!("/dev/{}", self.name);
        let run = headlong(&[&["tune", &device], flags].concat());
        run.exits_with(0).stdout
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = fs::write(self.file("max_sectors_kb"), &self.request_kb);
        let path = format!("/dev/{}", self.name);
        let _ = Command::new("losetup").args(["--detach", &path]).status();
    }
}

#[test]
fn settings_of_device_are_shown_with_rule_and_not_changed() {
    let device = match LoopDevice::new() {
        Ok(device) => device,
        Err(error) => {
            let name = "settings_of_device_are_shown_with_rule_and_not_changed";
            headlong_testkit::skip(name, &error);
            return;
        }
    };
    let most: u64 = device.get("max_hw_sectors_kb").parse().expect("a number");
    let request_kb = most.min(4096);

    let report = device.tune(&[]);
    assert!(report.contains("\n- max_sectors_kb "), "{report}");
    let rule = device.tune(&["--udev"]);
    let wanted = format!("ATTR{{queue/max_sectors_kb}}=\"{request_kb}\"");
    assert!(rule.contains(&wanted), "{rule}");
    assert!(report.ends_with(&rule), "{report}");
    let json: Value = serde_json::from_str(&device.tune(&["--json"])).expect("JSON");
    assert_eq!(json["udev"], rule);
    assert_eq!(json["device"], device.name);

    assert_eq!(
        device.get("max_sectors_kb"),
        "64",
        "the setting was changed"
    );
}

#[test]
fn unknown_device_is_a_mistake_of_the_command_line() {
    let output = headlong(&["tune", "no-such-disk"]).exits_with(64);
    let error = &output.stderr;
    assert!(
        error.contains("no-such-disk: no such block device"),
        "{error}"
    );
    assert!(output.stdout.is_empty());
}
