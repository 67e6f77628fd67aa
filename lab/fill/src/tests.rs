use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use headlong_workload::content::Content;
use headlong_workload::{Catalogue, Specification, TitleForm};

use crate::{FillError, FillResult, MANIFEST, Manifest, VerifyScope, fill, verify};

/// Twelve titles of two groups, 22 MB in all; some larger than a block, none a multiple of it.
fn catalogue(chunk: &str) -> Catalogue {
    let text = "[title.sd]\ncount = 8\ndurations = [[1, 0], [30, 1]]\n\
                [title.hd]\ncount = 4\ndurations = [[1, 0], [30, 1]]\nsegment_bytes = \"2560KiB\"\n\
                [catalogue]\npad = \"1KB\"\n";
    let overrides = [("catalogue.chunk".to_string(), chunk.to_string())];
    let specification = Specification::read("tiny", text, &overrides).expect("valid");
    Catalogue::of(&specification)
}

fn run(folder: &Path, catalogue: &Catalogue) -> Result<FillResult, FillError> {
    fill(
        folder,
        "tiny",
        catalogue,
        &AtomicBool::new(false),
        &mut |_| {},
    )
}

fn check(folder: &Path, catalogue: &Catalogue) -> Result<u64, FillError> {
    let stop = AtomicBool::new(false);
    verify(
        folder,
        "tiny",
        catalogue,
        VerifyScope::Everything,
        &stop,
        &mut |_| {},
    )
    .map(|done| done.files)
}

/// All bytes of each title, joined from its files.
fn titles(folder: &Path, catalogue: &Catalogue) -> BTreeMap<u32, Vec<u8>> {
    let read = |file| fs::read(folder.join(file)).expect("a file");
    let whole = |title| {
        catalogue
            .files(title)
            .flat_map(|file| read(file.path))
            .collect()
    };
    catalogue
        .titles
        .iter()
        .map(|title| (title.number, whole(title)))
        .collect()
}

#[test]
fn single_and_chunk_files_have_same_bytes() {
    let (single, chunked) = (
        tempfile::tempdir().expect("one"),
        tempfile::tempdir().expect("two"),
    );
    let catalogues = ["off", "512KiB"].map(catalogue);
    run(single.path(), &catalogues[0]).expect("enough space");
    run(chunked.path(), &catalogues[1]).expect("enough space");
    let bytes = titles(single.path(), &catalogues[0]);
    assert_eq!(bytes, titles(chunked.path(), &catalogues[1]));
    for (number, bytes) in bytes {
        assert_eq!(
            Content::of_title(u64::from(number)).first_wrong(0, &bytes),
            None
        );
        assert_eq!(
            bytes.len() as u64,
            catalogues[0].titles[number as usize].file_bytes
        );
    }
    assert_eq!(
        check(single.path(), &catalogues[0]).expect("correct files"),
        12
    );
    assert!(check(chunked.path(), &catalogues[1]).expect("correct files") > 12);
}

#[test]
fn files_have_old_modification_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("512KiB");
    run(folder.path(), &catalogue).expect("enough space");
    let files = catalogue.titles.iter();
    let files = files.flat_map(|title| catalogue.files(title));
    for file in files {
        let metadata = fs::metadata(folder.path().join(file.path)).expect("a file");
        let age = metadata.modified().expect("a time").elapsed();
        assert!(age.expect("past") > Duration::from_secs(365 * 24 * 3600));
    }
}

#[test]
fn segment_files_have_content_of_their_title() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[title.odd]\ncount = 3\ndurations = [[1, 0], [30, 1]]\nsegment_time = \"2s\"\n\
                renditions = [\"101kbps\", \"503kbps\"]\nsegment_variation = 0.5\n\
                table_entry_bytes = 9\n[catalogue]\nchunk = \"segment\"\n";
    let specification = Specification::read("odd", text, &[]).expect("a valid specification");
    let catalogue = Catalogue::of(&specification);
    run(folder.path(), &catalogue).expect("enough space");
    let mut odd = 0;
    for file in catalogue
        .titles
        .iter()
        .flat_map(|title| catalogue.files(title))
    {
        let bytes = fs::read(folder.path().join(&file.path)).expect("a file");
        assert_eq!(bytes.len() as u64, file.range.len(), "{}", file.path);
        let (title, offset) = headlong_workload::locate(&file.path, None).expect("a known path");
        assert_eq!(Content::of_title(title).first_wrong(offset, &bytes), None);
        odd += u64::from(file.range.start != offset);
    }
    assert!(odd > 0);
    let note = Manifest::read(folder.path())
        .expect("a readable manifest")
        .expect("a manifest");
    assert_eq!((note.chunk_bytes, note.segment_files), (None, true));
    let count = check(folder.path(), &catalogue).expect("correct files");
    assert_eq!(count, note.files);
    let again = run(folder.path(), &catalogue).expect("nothing to do");
    assert_eq!((again.files_written, again.files_kept), (0, count));
    // With single files it is the folder of another catalogue.
    let single = Catalogue {
        form: TitleForm::Whole,
        ..catalogue
    };
    let error = run(folder.path(), &single)
        .expect_err("another form")
        .to_string();
    assert!(error.contains("in segment files"), "{error}");
}

#[test]
fn correct_files_are_kept_and_wrong_ones_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("off");
    let first = run(folder.path(), &catalogue).expect("enough space");
    assert_eq!((first.files_written, first.files_kept), (12, 0));
    assert_eq!(first.bytes_written, catalogue.file_bytes());
    let again = run(folder.path(), &catalogue).expect("nothing to do");
    assert_eq!((again.files_written, again.files_kept), (0, 12));
    let path = |number: usize| {
        let mut files = catalogue.files(&catalogue.titles[number]);
        folder.path().join(files.next().expect("a file").path)
    };
    fs::remove_file(path(3)).expect("an existing file");
    fs::write(path(5), b"short").expect("a writable file");
    let size = catalogue.titles[9].file_bytes as usize;
    fs::write(path(9), vec![0; size]).expect("a writable file");
    let third = run(folder.path(), &catalogue).expect("enough space");
    assert_eq!((third.files_written, third.files_kept), (3, 9));
    assert_eq!(check(folder.path(), &catalogue).expect("correct files"), 12);
}

#[test]
fn verify_reports_wrong_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("off");
    run(folder.path(), &catalogue).expect("enough space");
    let largest = catalogue
        .titles
        .iter()
        .max_by_key(|title| title.file_bytes)
        .expect("a title");
    let path = catalogue.files(largest).next().expect("a file").path;
    let mut bytes = fs::read(folder.path().join(&path)).expect("a file");
    let at = bytes.len() - 5000;
    bytes[at] ^= 1;
    fs::write(folder.path().join(&path), bytes).expect("a writable file");
    let error = check(folder.path(), &catalogue)
        .expect_err("a byte is wrong")
        .to_string();
    assert!(
        error.contains(&format!("{path}: byte {at} is wrong; delete the file")),
        "{error}"
    );
}

#[test]
fn folder_of_another_catalogue_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &catalogue("off")).expect("enough space");
    let error = run(folder.path(), &catalogue("512KiB"))
        .expect_err("another form")
        .to_string();
    assert!(error.contains("in single files), not "), "{error}");
    assert!(
        error.ends_with("empty the folder or choose another one"),
        "{error}"
    );
    assert!(check(folder.path(), &catalogue("512KiB")).is_err());
    assert_eq!(
        check(folder.path(), &catalogue("off")).expect("untouched"),
        12
    );
}

#[test]
fn stopped_run_keeps_complete_files_and_resumes() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("off");
    let stop = AtomicBool::new(false);
    let stopped = fill(folder.path(), "tiny", &catalogue, &stop, &mut |progress| {
        if progress.bytes > catalogue.file_bytes() / 2 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let error = stopped.expect_err("a stopped run");
    let FillError::Stopped { done, total: 12 } = error else {
        panic!("{error}");
    };
    assert!((1..12).contains(&done));
    assert_eq!(Manifest::read(folder.path()).expect("no error"), None);
    assert!(check(folder.path(), &catalogue).is_err());
    let rest = run(folder.path(), &catalogue).expect("enough space");
    assert_eq!((rest.files_kept, rest.files_written), (done, 12 - done));
    assert_eq!(check(folder.path(), &catalogue).expect("correct files"), 12);
}

#[test]
fn oversized_catalogue_is_rejected_before_writing() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[title.sd]\ncount = 1000\ndurations = \"100000s\"\nsegment_bytes = \"64MiB\"\n";
    let specification = Specification::read("huge", text, &[]).expect("a valid specification");
    let error = run(folder.path(), &Catalogue::of(&specification)).expect_err("too large");
    assert!(matches!(error, FillError::NoRoom(..)), "{error}");
    assert!(error.to_string().contains("are needed and"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn manifest_identifies_catalogue() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("1MiB");
    run(folder.path(), &catalogue).expect("enough space");
    let note = Manifest::read(folder.path())
        .expect("a readable manifest")
        .expect("a manifest");
    assert_eq!(note.catalogue, format!("{:016x}", catalogue.fingerprint()));
    assert_eq!((note.chunk_bytes, note.titles), (Some(1 << 20), 12));
    fs::write(folder.path().join(MANIFEST), "{").expect("a writable file");
    let error = run(folder.path(), &catalogue)
        .expect_err("broken")
        .to_string();
    assert!(
        error.contains("headlong-catalogue.json: is not a manifest of this version"),
        "{error}"
    );
}
