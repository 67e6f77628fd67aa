//! Deferred roots: roots that open after the start, or are replaced while the server runs.

use std::sync::atomic::Ordering;

use crate::state::LibraryState;

impl LibraryState {
    /// Checks whether the path of a root is another folder now, and switches to it. May block for
    /// as long as the root's disk does.
    pub(crate) fn revisit(&self, root: usize) {
        self.check_late(root);
        let ground = &self.maker.ground;
        let at = &ground.roots[root];
        if !self.is_served(root) && !at.is_link_target {
            return;
        }
        if at.reopen(|real, dev| ground.devices.move_root(root, dev, real)) {
            let root = at.path.display();
            tracing::warn!(%root, "root was replaced by another folder; serving the new one");
        }
    }

    /// Logs errors of a root that has opened since the start, once: they cannot be corrected while
    /// the server runs. Opens it if necessary.
    pub(crate) fn check_late(&self, root: usize) {
        let targets = self.roots().iter().enumerate();
        let targets = targets.filter(|(_, root)| root.is_link_target);
        let late = targets.map(|(index, _)| index).chain([root]);
        for root in late.filter(|root| self.roots()[*root].is_late()) {
            for trouble in self.late_troubles(root) {
                tracing::error!("{trouble}");
            }
        }
    }

    fn late_troubles(&self, root: usize) -> Vec<String> {
        let at = &self.roots()[root];
        if !at.is_late_and_open() {
            return Vec::new();
        }
        let others = self
            .roots()
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != root);
        let overlaps = others.filter_map(|(_, other)| at.overlap(other));
        let overlaps = overlaps.map(|error| format!("{error}, and restart the server"));
        overlaps.chain(self.wrong_device(root)).collect()
    }

    /// The error if a root lies on another device than was assumed at the start.
    fn wrong_device(&self, root: usize) -> Option<String> {
        let ground = &self.maker.ground;
        let at = &ground.roots[root];
        let (real, dev) = at.place()?;
        if at.was_missing.load(Ordering::Relaxed) {
            // Its engine was created for any disk that would appear.
            ground.devices.move_root(root, dev, &real);
            return None;
        }
        let found = ground.place(root, "", dev).device;
        let thought = *ground.devices.of_root(root).first()?;
        let devices = ground.devices.all();
        (found != thought).then(|| {
            format!(
                "folder {}: it lies on {}, not on {} as assumed while its disk did not respond; \
                 restart the server",
                at.path.display(),
                devices[found].name,
                devices[thought].name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::device::{Devices, Kernel};
    use crate::options::LibraryOptions;
    use crate::root::Root;
    use crate::stream::LibraryContext;

    /// The errors of roots that did not respond at the start and now do; all lie on a network file
    /// system by the mount table.
    fn troubles(paths: &[PathBuf]) -> Vec<Vec<String>> {
        let sys = crate::sysfs::tests::FakeSysfs::new();
        let kernel = Kernel {
            sys: sys.path().to_path_buf(),
            mountinfo: sys.path().join("mountinfo"),
        };
        fs::write(&kernel.mountinfo, "22 1 0:999 / / rw - nfs far:/ rw\n").expect("written");
        let roots: Vec<_> = paths
            .iter()
            .map(|path| Arc::new(Root::late(path)))
            .collect();
        let ground = LibraryContext::new(Devices::of_roots(kernel, &roots), roots);
        let state = LibraryState::new(ground, LibraryOptions::default());
        let of_root = |root| state.late_troubles(root);
        let first: Vec<_> = (0..paths.len()).map(of_root).collect();
        assert!(
            (0..paths.len()).all(|root| of_root(root).is_empty()),
            "reported twice"
        );
        first
    }

    #[test]
    fn deferred_root_on_other_disk_than_assumed_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = troubles(&[folder.path().to_path_buf()]);
        let [only] = &said[0][..] else {
            panic!("{said:?}");
        };
        let name = folder.path().display().to_string();
        let words = [&name, "it lies on", "restart the server"];
        assert!(words.iter().all(|word| only.contains(word)), "{only}");
    }

    #[test]
    fn deferred_root_inside_another_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).expect("made");
        let said = troubles(&[folder.path().to_path_buf(), inner]).concat();
        let is_nested = |text: &&String| text.contains("lies inside");
        assert_eq!(said.iter().filter(is_nested).count(), 1, "{said:?}");
    }
}
