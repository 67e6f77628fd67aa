//! `headlong tune` on a real block device: a loop device, which root can create and configure.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The settings that the tests change; `nr_requests` depends on the scheduler.
const SETTINGS: [&str; 4] = [
    "scheduler",
    "max_sectors_kb",
    "nr_requests",
    "read_ahead_kb",
];

/// A loop device, removed on drop. The kernel keeps its settings for the next user, so they are
/// restored.
struct Loop {
    name: String,
    folder: tempfile::TempDir,
    before: [String; 4],
}

impl Loop {
    fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = folder.path().join("disk");
        fs::write(&file, vec![0; 1 << 20]).map_err(|error| error.to_string())?;
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&file)
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        let path = text(&output.stdout);
        match path.trim().strip_prefix("/dev/") {
            Some(name) if output.status.success() => {
                let mut device = Self {
                    name: name.to_owned(),
                    folder,
                    before: Default::default(),
                };
                device.before = device.all();
                Ok(device)
            }
            _ => Err(text(&output.stderr)),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/{name}", self.name))
    }

    fn get(&self, name: &str) -> String {
        let text = fs::read_to_string(self.file(name)).expect("a setting");
        let inside = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        inside.map_or(text.trim(), |(name, _)| name).to_owned()
    }

    fn all(&self) -> [String; 4] {
        SETTINGS.map(|name| self.get(name))
    }

    fn set(&self, name: &str, value: &str) {
        fs::write(self.file(name), value).expect("a setting that root may change");
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headlong"));
        command
            .args(["tune", &format!("/dev/{}", self.name), "--state"])
            .arg(self.folder.path())
            .args(flags)
            .stdin(Stdio::null());
        command
    }

    fn tune(&self, flags: &[&str]) -> Output {
        self.command(flags).output().expect("the binary starts")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        for (name, value) in SETTINGS.iter().zip(&self.before) {
            let _ = fs::write(self.file(name), value);
        }
        let path = format!("/dev/{}", self.name);
        let _ = Command::new("losetup").args(["--detach", &path]).status();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn settings_of_device_are_shown_set_and_restored() {
    let device = match Loop::new() {
        Ok(device) => device,
        Err(error) => {
            let name = "settings_of_device_are_shown_set_and_restored";
            headlong_testkit::skip(name, &error);
            return;
        }
    };
    let all = || device.all();
    // A scheduler that this kernel may lack.
    let _ = fs::write(device.file("scheduler"), "bfq");
    device.set("max_sectors_kb", "64");
    device.set("read_ahead_kb", "192");
    let before = all();

    let told = device.tune(&[]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    assert!(
        text(&told.stdout).contains("\n- max_sectors_kb "),
        "{told:?}"
    );
    assert_eq!(all(), before, "showing settings changed them");

    let applied = device.tune(&["--apply"]);
    assert_eq!(applied.status.code(), Some(0), "{}", text(&applied.stderr));
    let [scheduler, request_kb, _, read_ahead_kb] = all();
    assert_ne!(scheduler, "bfq");
    let most: u64 = device.get("max_hw_sectors_kb").parse().expect("a number");
    assert_eq!(request_kb, most.min(4096).to_string());
    assert_eq!(read_ahead_kb, "192", "an unrelated setting was changed");

    let rule = text(&device.tune(&["--udev"]).stdout);
    let wanted = format!("ATTR{{queue/max_sectors_kb}}=\"{request_kb}\"");
    assert!(rule.contains(&wanted), "{rule}");

    // Other users may not.
    device.set("max_sectors_kb", "64");
    let mut nobody = device.command(&["--apply"]);
    // Other users may not have access to the build folder.
    if let Ok(output) = nobody.uid(65534).output() {
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        assert!(
            text(&output.stderr).contains("run the command as root"),
            "{output:?}"
        );
    }
    assert_eq!(device.get("max_sectors_kb"), "64");

    let undone = device.tune(&["--undo", "--json"]);
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone.stderr));
    assert_eq!(all(), before);
    assert_eq!(device.tune(&["--undo"]).status.code(), Some(64));
}

#[test]
fn unknown_device_is_a_mistake_of_the_command_line() {
    let output = Command::new(env!("CARGO_BIN_EXE_headlong"))
        .args(["tune", "no-such-disk"])
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(64));
    let error = text(&output.stderr);
    assert!(
        error.contains("no-such-disk: no such block device"),
        "{error}"
    );
    assert!(output.stdout.is_empty());
}
