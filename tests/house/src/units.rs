//! The systemd units: settings that every unit needs, and settings that would break it.

/// Settings of every unit.
const REQUIRED: [(&str, &str); 14] = [
    ("Type", "notify"),
    ("LimitCORE", "0"),
    ("NoNewPrivileges", "yes"),
    ("ProtectClock", "yes"),
    ("ProtectHostname", "yes"),
    ("DevicePolicy", "closed"),
    ("KeyringMode", "private"),
    ("RestrictNamespaces", "yes"),
    ("RestrictRealtime", "yes"),
    ("LockPersonality", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallFilter", "~@privileged @resources"),
    ("SystemCallErrorNumber", "EPERM"),
];

/// Settings that give a unit its own mount namespace (systemd.exec), which would hide a mount that
/// the unit makes.
const OWN_MOUNTS: [&str; 23] = [
    "BindPaths",
    "BindReadOnlyPaths",
    "ExecPaths",
    "InaccessiblePaths",
    "MountFlags",
    "NoExecPaths",
    "PrivateDevices",
    "PrivateIPC",
    "PrivateMounts",
    "PrivateNetwork",
    "PrivateTmp",
    "ProcSubset",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectProc",
    "ProtectSystem",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "RootDirectory",
    "TemporaryFileSystem",
];

/// Mistakes in a unit.
pub fn wrong_settings(name: &str, unit: &str) -> Vec<String> {
    let settings: Vec<(&str, &str)> = unit
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .collect();
    let has = |key: &str| settings.iter().any(|(known, _)| *known == key);
    let mut wrong = Vec::new();
    let missing = REQUIRED
        .iter()
        .filter(|setting| !settings.contains(setting));
    wrong.extend(missing.map(|(key, value)| format!("{name}: {key}={value} is missing")));
    let is_closed = |mask: &str| mask.len() == 4 && mask.ends_with('7');
    if !settings
        .iter()
        .any(|(key, mask)| *key == "UMask" && is_closed(mask))
    {
        wrong.push(format!(
            "{name}: files are readable by all users; set UMask=0077"
        ));
    }
    if has("RestrictSUIDSGID") {
        wrong.push(format!("{name}: RestrictSUIDSGID= blocks openat2"));
    }
    if settings.iter().any(|(key, calls)| {
        *key == "SystemCallFilter" && calls.split_whitespace().any(|call| call == "mount")
    }) {
        let hiding = OWN_MOUNTS.iter().filter(|key| has(key));
        wrong.extend(hiding.map(|key| format!("{name}: {key}= hides its mount")));
    }
    wrong
}

/// The rating in the output of `systemd-analyze security`: 0 is closed, 10 is open.
pub fn exposure(told: &str) -> Option<f64> {
    let line = told.lines().find(|line| line.contains("exposure level"))?;
    let (_, rating) = line.split_once(": ")?;
    rating.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_missing_and_harmful_settings() {
        let required = REQUIRED.map(|(key, value)| format!("{key}={value}\n"));
        let unit = format!("[Service]\n{}UMask=0027\n", required.concat());
        assert_eq!(wrong_settings("x", &unit), [""; 0]);
        let commented = unit.replace("LimitCORE", "# LimitCORE");
        let told = wrong_settings("x", &commented);
        assert_eq!(told, ["x: LimitCORE=0 is missing"]);
        let open = unit.replace("UMask=0027", "UMask=0022\nRestrictSUIDSGID=yes");
        assert_eq!(wrong_settings("x", &open).len(), 2);
        let hiding = format!("{unit}SystemCallFilter=@system-service mount\nProtectHome=yes\n");
        let told = wrong_settings("x", &hiding);
        assert_eq!(told, ["x: ProtectHome= hides its mount"]);
    }

    #[test]
    fn rating_is_read_from_last_line() {
        let told = "  NAME  EXPOSURE\n\n→ Overall exposure level for x.service: 3.7 OK 🙂\n";
        assert_eq!(exposure(told), Some(3.7));
        assert_eq!(exposure("Failed to load: 3.7"), None);
    }
}
