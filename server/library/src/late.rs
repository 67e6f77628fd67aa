//! Roots that open after the start, or once more, when it is settled which engine reads what.

use std::sync::atomic::Ordering;

use crate::state::State;

impl State {
    /// Looks whether another folder is at the path of a root by now, and takes that. May block for as
    /// long as the root's disk likes.
    pub(crate) fn revisit(&self, root: usize) {
        self.check_late(root);
        if !self.is_served(root) {
            return;
        }
        let ground = &self.maker.ground;
        let at = &ground.roots[root];
        if at.reopen(|real, dev| ground.devices.move_root(root, dev, real)) {
            let root = at.path.display();
            tracing::warn!(%root, "another folder is at the path of a root; it is served from now on");
        }
    }

    /// Says what is wrong with a root that has opened since the start, once: nothing of it can be put
    /// right while the server runs. Opens it if need be.
    pub(crate) fn check_late(&self, root: usize) {
        if !self.roots()[root].is_late() {
            return;
        }
        for trouble in self.late_troubles(root) {
            tracing::error!("{trouble}");
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

    /// What is to be said if a root lies on another device than was thought at the start.
    fn wrong_device(&self, root: usize) -> Option<String> {
        let ground = &self.maker.ground;
        let at = &ground.roots[root];
        let (real, dev) = at.place()?;
        if at.was_missing.load(Ordering::Relaxed) {
            // Its engine was begun for whatever disk would come.
            ground.devices.move_root(root, dev, &real);
            return None;
        }
        let found = ground.place(root, "", dev).device;
        let thought = *ground.devices.of_root(root).first()?;
        let devices = ground.devices.all();
        (found != thought).then(|| {
            format!(
                "folder {}: it lies on {} and not on {}, as was thought while its disk did not \
                 answer; restart the server",
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
    use crate::stream::Ground;

    /// What is said of roots, none of which answered at the start, once they do; all lie on a network
    /// by the table of mounts.
    fn troubles(paths: &[PathBuf]) -> Vec<Vec<String>> {
        let sys = crate::sysfs::tests::Sys::new();
        let kernel = Kernel {
            sys: sys.path().to_path_buf(),
            mountinfo: sys.path().join("mountinfo"),
        };
        fs::write(&kernel.mountinfo, "22 1 0:999 / / rw - nfs far:/ rw\n").expect("written");
        let roots: Vec<_> = paths
            .iter()
            .map(|path| Arc::new(Root::late(path)))
            .collect();
        let ground = Ground::new(Devices::of_roots(kernel, &roots), roots);
        let state = State::new(ground, LibraryOptions::default());
        let of_root = |root| state.late_troubles(root);
        let first: Vec<_> = (0..paths.len()).map(of_root).collect();
        assert!(
            (0..paths.len()).all(|root| of_root(root).is_empty()),
            "said once"
        );
        first
    }

    #[test]
    fn a_late_root_on_another_disk_than_was_thought_is_an_error_that_says_to_restart() {
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
    fn a_root_that_turns_out_to_lie_in_another_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).expect("made");
        let said = troubles(&[folder.path().to_path_buf(), inner]).concat();
        let is_nested = |text: &&String| text.contains("lies inside");
        assert_eq!(said.iter().filter(is_nested).count(), 1, "{said:?}");
    }
}
