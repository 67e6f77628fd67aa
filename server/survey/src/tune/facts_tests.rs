use std::os::unix::fs::symlink;

use super::*;

/// A `/sys` and a `/proc` in a folder.
pub(in crate::tune) struct FakeKernelTrees(tempfile::TempDir);

impl FakeKernelTrees {
    pub(in crate::tune) fn new() -> Self {
        let tree = Self(tempfile::tempdir().expect("a folder"));
        for folder in ["sys/class/block", "sys/dev/block", "proc/self"] {
            fs::create_dir_all(tree.path(folder)).expect("a folder");
        }
        tree
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    pub(in crate::tune) fn system(&self) -> KernelTrees {
        KernelTrees::at(self.path("sys"), self.path("proc"))
    }

    fn write(&self, below: &str, value: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("{value}\n")).expect("written");
    }

    /// Writes a setting of a device.
    pub(in crate::tune) fn put(&self, device: &str, file: &str, value: &str) {
        self.write(&format!("sys/devices/ata1/block/{device}/{file}"), value);
    }

    /// A disk with the usual settings, except for these.
    pub(in crate::tune) fn disk(&self, name: &str, settings: &[(&str, &str)]) {
        let usual = [
            ("queue/rotational", "1"),
            ("queue/scheduler", "none [mq-deadline] bfq"),
            ("queue/max_sectors_kb", "1280"),
            ("queue/max_hw_sectors_kb", "32767"),
            ("queue/nr_requests", "64"),
            ("queue/read_ahead_kb", "128"),
            ("queue/write_cache", "write back"),
            ("device/queue_depth", "32"),
        ];
        for (file, value) in usual.iter().chain(settings) {
            self.put(name, file, value);
        }
        self.link(name, name, None);
    }

    /// A partition, as device `8:minor`.
    fn partition(&self, disk: &str, name: &str, minor: u32) {
        self.put(&format!("{disk}/{name}"), "partition", "1");
        self.link(&format!("{disk}/{name}"), name, Some(minor));
    }

    fn link(&self, device: &str, name: &str, minor: Option<u32>) {
        let target = self.path(&format!("sys/devices/ata1/block/{device}"));
        symlink(&target, self.path(&format!("sys/class/block/{name}"))).expect("a link");
        if let Some(minor) = minor {
            symlink(target, self.path(&format!("sys/dev/block/8:{minor}"))).expect("a link");
        }
    }

    /// Builds a device on others.
    fn stack(&self, device: &str, on: &[&str]) {
        for below in on {
            let link = self.path(&format!("sys/devices/ata1/block/{device}/slaves/{below}"));
            fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
            let target = self.path(&format!("sys/class/block/{below}"));
            symlink(target.canonicalize().expect("there"), link).expect("a link");
        }
    }
}

fn names(facts: &[TuneFacts]) -> Vec<&str> {
    facts.iter().map(|facts| facts.name.as_str()).collect()
}

#[test]
fn all_facts_of_a_disk_are_read() {
    let tree = FakeKernelTrees::new();
    tree.disk("sdz", &[("device/wwid", "naa.5")]);
    tree.partition("sdz", "sdz1", 33);
    tree.write(
        "proc/self/mountinfo",
        "24 22 8:33 / /srv/my\\040films rw,relatime - xfs /dev/sdz1 rw\n\
         25 22 8:49 / /other rw - xfs /dev/no/such rw",
    );
    tree.write(
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always madvise [never]",
    );
    let facts = tree.system().facts("sdz1").expect("there");
    assert_eq!(
        facts,
        [TuneFacts {
            name: "sdz".into(),
            members: Vec::new(),
            rotational: Some(true),
            scheduler: Some("mq-deadline".into()),
            schedulers: ["none", "mq-deadline", "bfq"].map(Into::into).to_vec(),
            max_sectors_kb: Some(1280),
            max_hw_sectors_kb: Some(32767),
            nr_requests: Some(64),
            queue_depth: Some(32),
            read_ahead_kb: Some(128),
            write_cache: Some("write back".into()),
            mounts: vec![MountFacts {
                point: "/srv/my films".into(),
                options: "rw,relatime".into(),
            }],
            numa: None,
            huge_pages: Some("never".into()),
            identity: Some(("ATTRS{wwid}", "naa.5".into())),
        }]
    );
}

#[test]
fn members_precede_their_device_and_mounts_are_listed_once() {
    let tree = FakeKernelTrees::new();
    for disk in ["sdx", "sdy"] {
        tree.disk(disk, &[]);
        tree.partition(disk, &format!("{disk}1"), if disk == "sdx" { 1 } else { 2 });
    }
    tree.disk("md0", &[]);
    tree.stack("md0", &["sdy1", "sdx1"]);
    tree.disk("dm-0", &[]);
    tree.stack("dm-0", &["md0"]);
    tree.partition("dm-0", "dm-0p", 3);
    tree.write("proc/self/mountinfo", "24 22 8:3 / /srv rw - xfs /dev/x rw");
    let system = tree.system();
    let facts = system.facts("dm-0").expect("there");
    assert_eq!(names(&facts), ["sdx", "sdy", "md0", "dm-0"]);
    assert_eq!(facts[2].members, ["sdx", "sdy"]);
    let mounts: Vec<usize> = facts.iter().map(|facts| facts.mounts.len()).collect();
    assert_eq!(mounts, [0, 0, 0, 1]);
    let disk = system.facts("sdx").expect("there");
    assert_eq!((names(&disk), disk[0].mounts.len()), (vec!["sdx"], 1));
    assert_eq!(system.name("sdx1").expect("there"), "sdx");
}

#[test]
fn cyclic_devices_terminate() {
    let tree = FakeKernelTrees::new();
    tree.disk("dm-0", &[]);
    tree.disk("dm-1", &[]);
    tree.stack("dm-0", &["dm-1"]);
    tree.stack("dm-1", &["dm-0"]);
    assert!(tree.system().facts("dm-0").is_ok());
}

#[test]
fn disk_on_another_node_than_the_processors_is_far() {
    let tree = FakeKernelTrees::new();
    tree.disk("sdz", &[]);
    tree.write("sys/devices/ata1/numa_node", "1");
    tree.write("sys/devices/system/node/online", "0-1");
    tree.write("sys/devices/system/node/node1/cpulist", "4-7,12");
    let is_near = |allowed: &str| {
        let line = format!("Name:\tx\nCpus_allowed_list:\t{allowed}");
        tree.write("proc/self/status", &line);
        let facts = tree.system().facts("sdz").expect("there");
        facts[0]
            .numa
            .map(|numa| (numa.node, numa.nodes, numa.is_near))
    };
    assert_eq!(is_near("0-3"), Some((1, 2, false)));
    assert_eq!(is_near("0-3,12"), Some((1, 2, true)));
    tree.write("sys/devices/ata1/numa_node", "-1");
    assert_eq!(is_near("0-3"), None);
}

#[test]
fn non_disk_is_refused_by_its_kind() {
    let tree = FakeKernelTrees::new();
    fs::create_dir_all(tree.path("sys/devices/ata1/block/sdz")).expect("a folder");
    tree.link("sdz", "sdz", None);
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let memory = memory.path().display().to_string();
    let hung = tree.system().facts_by_name(&memory);
    assert!(matches!(hung, Err(TuneError::NoDisk(_))), "{hung:?}");
    for (device, words) in [
        ("sdq", "sdq: no such block device; `lsblk`"),
        ("/dev/null", "/dev/null: no such block device"),
        ("sdz", "sdz/queue: no such folder, so the kernel"),
        (memory.as_str(), "lies on no disk of this machine"),
    ] {
        let error = tree.system().facts(device).expect_err("not a disk");
        let text = error.to_string();
        assert!(text.contains(words), "{device}: {text}");
    }
}
