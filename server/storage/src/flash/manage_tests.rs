use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::super::tier::FlashTier;
use super::*;

const SIZE: u64 = 40 << 20;

fn formatting() -> Formatting {
    Formatting {
        size: Some(SIZE),
        block: None,
        piece: 64 << 10,
        is_forced: false,
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tier");
    (folder, path)
}

#[test]
fn formats_inspects_verifies_and_drops_a_file() {
    let (_folder, path) = place();
    let said = format(&path, &formatting()).expect("made");
    assert!(said.contains("flash = ["), "{said}");
    assert_eq!(std::fs::metadata(&path).expect("there").len(), SIZE);
    let shown = status(&path).expect("shown");
    assert!(shown.contains("sealed   0"), "{shown}");
    assert!(verify(&path).expect("verified").1);
    drop_tier(&path).expect("dropped");
    let error = status(&path).expect_err("gone");
    assert!(error.to_string().contains("no flash tier"), "{error}");
}

#[test]
fn format_refuses_recognised_data_unless_forced() {
    let (_folder, path) = place();
    let mut content = vec![0; SIZE as usize];
    content[0x438..0x43a].copy_from_slice(b"\x53\xef");
    std::fs::write(&path, &content).expect("written");
    let of_file = Formatting {
        size: None,
        ..formatting()
    };
    let error = format(&path, &of_file).expect_err("refused");
    assert!(error.to_string().contains("ext4"), "{error}");
    assert_eq!(std::fs::read(&path).expect("there"), content);
    let forced = Formatting {
        is_forced: true,
        ..of_file
    };
    format(&path, &forced).expect("made");
    let error = format(&path, &of_file).expect_err("refused");
    assert!(error.to_string().contains("a flash tier"), "{error}");
}

#[test]
fn failed_format_leaves_no_file() {
    let (folder, path) = place();
    let refused = |formatting| {
        let error = format(&path, &formatting).expect_err("refused").to_string();
        assert!(!path.exists(), "{error}");
        error
    };
    let without_size = Formatting {
        size: None,
        ..formatting()
    };
    assert!(refused(without_size).contains("--size"));
    let small = Formatting {
        size: Some(20 << 20),
        ..formatting()
    };
    assert!(refused(small).contains("at least 100"));
    let large_blocks = Formatting {
        block: Some(1 << 20),
        ..formatting()
    };
    assert!(refused(large_blocks).contains("at least 100"));
    let odd_blocks = Formatting {
        block: Some(300_000),
        ..formatting()
    };
    assert!(refused(odd_blocks).contains("power of two"));
    let beyond = Formatting {
        size: Some(1 << 60),
        ..formatting()
    };
    let text = refused(beyond);
    assert!(
        text.contains("no room") || text.contains("too many"),
        "{text}"
    );
    let error = format(folder.path(), &formatting()).expect_err("a folder");
    assert!(error.to_string().contains("neither"), "{error}");
}

#[test]
fn open_refuses_tier_in_use_or_of_different_size() {
    let (_folder, path) = place();
    format(&path, &formatting()).expect("made");
    let paths = [path.clone()];
    let open = |piece| FlashTier::open(&paths, piece, 1);
    let (tier, ill) = open(128 << 10).expect("it is free");
    assert!(
        tier.is_none() && ill[0].to_string().contains("piece"),
        "{ill:?}"
    );
    let owner = loop {
        // Threads of the previous tier end on their own.
        if let Ok((Some(tier), _)) = open(64 << 10) {
            break tier;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let text = open(64 << 10).expect_err("refused").to_string();
    assert!(text.contains("in use"), "{text}");
    let forced = Formatting {
        size: None,
        is_forced: true,
        ..formatting()
    };
    let error = format(&path, &forced).expect_err("in use");
    assert!(error.to_string().contains("in use"), "{error}");
    drop(owner);
    while open(64 << 10).is_err() {
        // Its threads end on their own.
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let file = OpenOptions::new().write(true).open(&path).expect("opens");
    file.set_len(SIZE - 4096).expect("shrunk");
    assert!(
        status(&path)
            .expect_err("shrank")
            .to_string()
            .contains("was made on")
    );
    file.set_len(SIZE).expect("grown");
    file.write_all_at(&[9], 20).expect("damaged");
    assert!(status(&path).is_ok(), "the second copy is used");
    file.write_all_at(&[9], (32 << 10) + 20).expect("damaged");
    assert!(
        status(&path)
            .expect_err("damaged")
            .to_string()
            .contains("damaged")
    );
}

#[test]
fn block_size_follows_drive_hint_within_bounds() {
    assert_eq!(proposed_block(None), 16 << 20);
    assert_eq!(proposed_block(Some(4096)), 16 << 20);
    assert_eq!(proposed_block(Some(24 << 20)), 32 << 20);
    assert_eq!(proposed_block(Some(u64::MAX)), 256 << 20);
}
