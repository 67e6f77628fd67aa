use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use headlong_workload::content::Content;
use headlong_workload::{Catalogue, Form, Specification};

use crate::{Extent, FillError, Filled, MANIFEST, Manifest, fill, verify};

/// Twelve titles of two groups, 22 MB in all; some larger than a block, none a multiple of it.
fn catalogue(chunk: &str) -> Catalogue {
    let text = "[title.sd]\ncount = 8\ndurations = [[1, 0], [30, 1]]\n\
                [title.hd]\ncount = 4\ndurations = [[1, 0], [30, 1]]\nsegment_bytes = \"2560KiB\"\n\
                [catalogue]\npad = \"1KB\"\n";
    let overrides = [("catalogue.chunk".to_string(), chunk.to_string())];
    let specification = Specification::read("tiny", text, &overrides).expect("it is right");
    Catalogue::of(&specification)
}

fn run(folder: &Path, catalogue: &Catalogue) -> Result<Filled, FillError> {
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
        Extent::Everything,
        &stop,
        &mut |_| {},
    )
    .map(|done| done.files)
}

/// All bytes of each title, put together from its files.
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
fn titles_have_the_same_bytes_in_single_files_and_in_chunks() {
    let (single, chunked) = (
        tempfile::tempdir().expect("one"),
        tempfile::tempdir().expect("two"),
    );
    let catalogues = ["off", "512KiB"].map(catalogue);
    run(single.path(), &catalogues[0]).expect("it fits");
    run(chunked.path(), &catalogues[1]).expect("it fits");
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
    assert_eq!(check(single.path(), &catalogues[0]).expect("right"), 12);
    assert!(check(chunked.path(), &catalogues[1]).expect("right") > 12);
}

#[test]
fn files_say_that_they_are_old_so_that_no_server_takes_them_for_new() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("512KiB");
    run(folder.path(), &catalogue).expect("it fits");
    let files = catalogue.titles.iter();
    let files = files.flat_map(|title| catalogue.files(title));
    for file in files {
        let metadata = fs::metadata(folder.path().join(file.path)).expect("a file");
        let age = metadata.modified().expect("a time").elapsed();
        assert!(age.expect("past") > Duration::from_secs(365 * 24 * 3600));
    }
}

#[test]
fn segments_files_are_made_of_whole_words_of_their_title() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[title.odd]\ncount = 3\ndurations = [[1, 0], [30, 1]]\nsegment_time = \"2s\"\n\
                renditions = [\"101kbps\", \"503kbps\"]\nsegment_variation = 0.5\n\
                table_entry_bytes = 9\n[catalogue]\nchunk = \"segment\"\n";
    let specification = Specification::read("odd", text, &[]).expect("it is right");
    let catalogue = Catalogue::of(&specification);
    run(folder.path(), &catalogue).expect("it fits");
    let mut odd = 0;
    for file in catalogue
        .titles
        .iter()
        .flat_map(|title| catalogue.files(title))
    {
        let bytes = fs::read(folder.path().join(&file.path)).expect("a file");
        assert_eq!(bytes.len() as u64, file.range.len(), "{}", file.path);
        let (title, offset) = headlong_workload::locate(&file.path, None).expect("its place");
        assert_eq!(Content::of_title(title).first_wrong(offset, &bytes), None);
        odd += u64::from(file.range.start != offset);
    }
    assert!(odd > 0);
    let note = Manifest::read(folder.path())
        .expect("right")
        .expect("there");
    assert_eq!((note.chunk_bytes, note.segment_files), (None, true));
    let count = check(folder.path(), &catalogue).expect("right");
    assert_eq!(count, note.files);
    let again = run(folder.path(), &catalogue).expect("nothing to do");
    assert_eq!((again.files_written, again.files_kept), (0, count));
    // In one file each it is another catalogue's folder.
    let single = Catalogue {
        form: Form::Whole,
        ..catalogue
    };
    let error = run(folder.path(), &single)
        .expect_err("another form")
        .to_string();
    assert!(error.contains("in segments' files"), "{error}");
}

#[test]
fn what_is_there_is_kept_and_what_is_wrong_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("off");
    let first = run(folder.path(), &catalogue).expect("it fits");
    assert_eq!((first.files_written, first.files_kept), (12, 0));
    assert_eq!(first.bytes_written, catalogue.file_bytes());
    let again = run(folder.path(), &catalogue).expect("nothing to do");
    assert_eq!((again.files_written, again.files_kept), (0, 12));
    let path = |number: usize| {
        let mut files = catalogue.files(&catalogue.titles[number]);
        folder.path().join(files.next().expect("a file").path)
    };
    fs::remove_file(path(3)).expect("it was there");
    fs::write(path(5), b"short").expect("it can be written");
    let size = catalogue.titles[9].file_bytes as usize;
    fs::write(path(9), vec![0; size]).expect("it can be written");
    let third = run(folder.path(), &catalogue).expect("it fits");
    assert_eq!((third.files_written, third.files_kept), (3, 9));
    assert_eq!(check(folder.path(), &catalogue).expect("right"), 12);
}

#[test]
fn a_wrong_byte_is_found_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("off");
    run(folder.path(), &catalogue).expect("it fits");
    let largest = catalogue
        .titles
        .iter()
        .max_by_key(|title| title.file_bytes)
        .expect("one");
    let path = catalogue.files(largest).next().expect("a file").path;
    let mut bytes = fs::read(folder.path().join(&path)).expect("a file");
    let at = bytes.len() - 5000;
    bytes[at] ^= 1;
    fs::write(folder.path().join(&path), bytes).expect("it can be written");
    let error = check(folder.path(), &catalogue)
        .expect_err("a byte is wrong")
        .to_string();
    assert!(
        error.contains(&format!("{path}: byte {at} is wrong; delete the file")),
        "{error}"
    );
}

#[test]
fn another_catalogue_in_the_folder_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &catalogue("off")).expect("it fits");
    let error = run(folder.path(), &catalogue("512KiB"))
        .expect_err("another form")
        .to_string();
    assert!(error.contains("in single files), not "), "{error}");
    assert!(
        error.ends_with("empty the folder, or name another one"),
        "{error}"
    );
    assert!(check(folder.path(), &catalogue("512KiB")).is_err());
    assert_eq!(
        check(folder.path(), &catalogue("off")).expect("untouched"),
        12
    );
}

#[test]
fn a_run_that_is_stopped_leaves_whole_files_and_goes_on_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("off");
    let stop = AtomicBool::new(false);
    let stopped = fill(folder.path(), "tiny", &catalogue, &stop, &mut |progress| {
        if progress.bytes > catalogue.file_bytes() / 2 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let error = stopped.expect_err("it was stopped");
    let FillError::Stopped { done, total: 12 } = error else {
        panic!("{error}");
    };
    assert!((1..12).contains(&done));
    assert_eq!(Manifest::read(folder.path()).expect("no error"), None);
    assert!(check(folder.path(), &catalogue).is_err());
    let rest = run(folder.path(), &catalogue).expect("it fits");
    assert_eq!((rest.files_kept, rest.files_written), (done, 12 - done));
    assert_eq!(check(folder.path(), &catalogue).expect("right"), 12);
}

#[test]
fn a_catalogue_that_does_not_fit_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[title.sd]\ncount = 1000\ndurations = \"100000s\"\nsegment_bytes = \"64MiB\"\n";
    let specification = Specification::read("huge", text, &[]).expect("it is right");
    let error = run(folder.path(), &Catalogue::of(&specification)).expect_err("too large");
    assert!(matches!(error, FillError::NoRoom(..)), "{error}");
    assert!(error.to_string().contains("are needed and"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn the_note_says_which_catalogue_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = catalogue("1MiB");
    run(folder.path(), &catalogue).expect("it fits");
    let note = Manifest::read(folder.path())
        .expect("readable")
        .expect("there");
    assert_eq!(note.catalogue, format!("{:016x}", catalogue.fingerprint()));
    assert_eq!((note.chunk_bytes, note.titles), (Some(1 << 20), 12));
    fs::write(folder.path().join(MANIFEST), "{").expect("it can be written");
    let error = run(folder.path(), &catalogue)
        .expect_err("broken")
        .to_string();
    assert!(
        error.contains("headlong-catalogue.json: is not what this Headlong writes"),
        "{error}"
    );
}
