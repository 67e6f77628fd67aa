//! Limits on file length, no unfinished work, and no unsafe code outside the listed files.

use crate::source::{Source, lines_with, tokens};

/// Longest file of code, in lines, with its tests. Files are divided by subject, not by length.
pub const LINES_MAX: usize = 1_000;

/// Folders and files that may contain unsafe code, with reasons.
pub const UNSAFE_PLACES: &[&str] = &[
    // The memory pool, copies for sockets, io_uring and page placement.
    "server/kernel/src/raw/",
    // Options of the allocator, which are a symbol of the program.
    "programs/headlong/src/main.rs",
    // FIEMAP, for which no safe library exists.
    "server/library/src/raw.rs",
    // C functions that interpose libc's, and system calls.
    "anyprogram/deception/src/raw/",
    // Pages of files that are mapped and locked.
    "anyprogram/reception/src/held_pages.rs",
    // A stream of Arrow from Python, for which no safe function exists.
    "programs/python/src/raw.rs",
];

/// Extensions of hand-written code.
const CODE: &[&str] = &["rs", "ts", "tsx", "js", "mjs", "css", "html", "sh", "py"];

/// Whether the file is code of this repository.
fn is_code(source: &Source) -> bool {
    CODE.contains(&source.extension())
}

/// Files that are too long.
pub fn too_long(sources: &[Source]) -> Vec<String> {
    let long = sources.iter().filter(|source| is_code(source));
    long.filter_map(|source| {
        let lines = source.text.lines().count();
        (lines > LINES_MAX).then(|| {
            format!(
                "{}: {lines} lines, more than {LINES_MAX}; move a part with a name of its own to \
                 another file",
                source.path
            )
        })
    })
    .collect()
}

/// Signs of unfinished work.
pub fn unfinished(sources: &[Source]) -> Vec<String> {
    // Concatenated, so that this file does not match.
    let words = [
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
        concat!("XX", "X"),
    ];
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| is_code(source)) {
        for (index, line) in source.text.lines().enumerate() {
            let mut parts = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = parts.find(|part| words.contains(part)) {
                let path = &source.path;
                wrong.push(format!(
                    "{path}:{}: {word}; finish it, or open an issue",
                    index + 1
                ));
            }
        }
        if source.extension() != "rs" {
            continue;
        }
        let tokens = match tokens(source) {
            Ok(tokens) => tokens,
            Err(error) => {
                wrong.push(error);
                continue;
            }
        };
        let calls: [(&[&str], &str); 3] = [
            (&["todo", "!"], "write the code"),
            (
                &["unimplemented", "!"],
                "write the code, or return an error",
            ),
            (&["#", "[", "ignore"], "make the test run, or delete it"),
        ];
        for (words, remedy) in calls {
            for line in lines_with(&tokens, words) {
                wrong.push(format!(
                    "{}:{line}: {}; {remedy}",
                    source.path,
                    words.concat()
                ));
            }
        }
    }
    wrong
}

/// Unsafe code outside the listed files.
pub fn unsafe_outside(sources: &[Source], places: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let rust = sources.iter().filter(|source| source.extension() == "rs");
    for source in rust.filter(|source| !places.iter().any(|place| source.path.starts_with(place))) {
        match tokens(source) {
            Ok(tokens) => wrong.extend(lines_with(&tokens, &["unsafe"]).into_iter().map(|line| {
                format!(
                    "{}:{line}: unsafe code; use a safe library, or move it to one of {}",
                    source.path,
                    places.join(", ")
                )
            })),
            Err(error) => wrong.push(error),
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn code_may_have_1000_lines() {
        let most = "x\n".repeat(LINES_MAX);
        let files = [
            source("a.ts", &most),
            source("b.rs", &format!("{most}x\n")),
            source("golden.txt", &format!("{most}x\n")),
        ];
        let remedy = "move a part with a name of its own to another file";
        let wrong = format!("b.rs: 1001 lines, more than 1000; {remedy}");
        assert_eq!(too_long(&files), [wrong]);
    }

    #[test]
    fn reports_unfinished_work_in_code_and_comments() {
        let marker = concat!("// FIX", "ME later\n");
        let bad =
            "fn a() {\n    todo!()\n}\nfn b() { unimplemented!(\"b\") }\n#[ignore]\nfn c() {}\n";
        let files = [
            source("a.rs", bad),
            source("b.sh", &marker.replace("//", "#")),
            source(
                "c.rs",
                "// a list of things to do: todo!() is banned\nfn c() { let s = \"todo!()\"; }",
            ),
        ];
        let wrong = unfinished(&files);
        let places: Vec<_> = wrong
            .iter()
            .map(|w| w.split(": ").next().expect("a place"))
            .collect();
        assert_eq!(
            places,
            ["a.rs:2", "a.rs:4", "a.rs:5", "b.sh:1"],
            "{wrong:?}"
        );
    }

    #[test]
    fn reports_unsafe_code_outside_listed_files_only() {
        let block = "fn a() { unsafe { b() } }\nunsafe fn c() {}\n";
        let files = [
            source("server/kernel/src/raw/pool.rs", block),
            source("server/serve/src/raw.rs", block),
            source(
                "server/engine/src/lib.rs",
                "#![forbid(unsafe_code)]\n// unsafe\n",
            ),
        ];
        let wrong = unsafe_outside(&files, &["server/kernel/src/raw/"]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[1].starts_with("server/serve/src/raw.rs:2: unsafe code; use a safe library"));
    }
}
