//! Contents of the pure crates: no I/O, no clock and no threads.
//!
//! `no_std` removes the standard library, the allow-list limits external crates, and
//! `forbid(unsafe_code)` prevents circumvention.

use std::collections::BTreeSet;

use crate::source::{Source, lines_with, tokens};

/// An external crate that pure crates may use, and why it is harmless.
pub struct Allowed {
    /// Package name.
    pub name: &'static str,
    /// Why it is needed, and that it is `no_std` as used here.
    pub reason: &'static str,
}

/// The allow-list; keep it short.
pub const ALLOWED: &[Allowed] = &[
    Allowed {
        name: "base64",
        reason: "tokens of signed URLs are written in it; no_std with alloc",
    },
    Allowed {
        name: "hmac",
        reason: "tokens of signed URLs; no_std",
    },
    Allowed {
        name: "md-5",
        reason: "links signed as nginx's secure_link does; no_std",
    },
    Allowed {
        name: "sha2",
        reason: "the hash of tokens; no_std",
    },
    Allowed {
        name: "subtle",
        reason: "comparison in constant time; no_std",
    },
    Allowed {
        name: "digest",
        reason: "the traits of md-5, sha2 and hmac; no_std",
    },
    Allowed {
        name: "block-buffer",
        reason: "part of md-5 and sha2; no_std",
    },
    Allowed {
        name: "crypto-common",
        reason: "part of digest; no_std",
    },
    Allowed {
        name: "hybrid-array",
        reason: "arrays of digest; no_std",
    },
    Allowed {
        name: "typenum",
        reason: "lengths of those arrays; no_std",
    },
    Allowed {
        name: "ctutils",
        reason: "comparison in hmac, in constant time; no_std",
    },
    Allowed {
        name: "cmov",
        reason: "part of ctutils; no_std",
    },
    Allowed {
        name: "cpufeatures",
        reason: "part of sha2: asks the processor which instructions it has; no_std, same results",
    },
    Allowed {
        name: "cfg-if",
        reason: "part of sha2, a macro; no_std",
    },
    Allowed {
        name: "hashbrown",
        reason: "hash tables, with a hash of our own that is the same in every run; no_std",
    },
    Allowed {
        name: "libm",
        reason: "mathematics with bit-identical results on every machine; no_std",
    },
    Allowed {
        name: "percent-encoding",
        reason: "escapes in URLs, which paths and manifests hold; no_std without its std feature",
    },
    Allowed {
        name: "rand_core",
        reason: "the interface of rand_xoshiro; no_std, no entropy source",
    },
    Allowed {
        name: "rand_xoshiro",
        reason: "a seeded generator with published test vectors; no_std",
    },
    Allowed {
        name: "serde",
        reason: "the written form of specifications (drives); no_std, without its std feature",
    },
    Allowed {
        name: "serde_core",
        reason: "the traits of serde; no_std",
    },
    Allowed {
        name: "serde_json",
        reason: "traces of viewers are JSON lines; no_std without its std feature, text and values only",
    },
    Allowed {
        name: "itoa",
        reason: "part of serde_json: prints integers; no_std",
    },
    Allowed {
        name: "zmij",
        reason: "part of serde_json: prints floating-point numbers; no_std",
    },
    Allowed {
        name: "memchr",
        reason: "part of serde_json: searches bytes; no_std without its std feature",
    },
    Allowed {
        name: "serde_derive",
        reason: "serde's macro; runs in the compiler, not part of the program",
    },
    Allowed {
        name: "proc-macro2",
        reason: "part of serde_derive; runs in the compiler",
    },
    Allowed {
        name: "quote",
        reason: "part of serde_derive; runs in the compiler",
    },
    Allowed {
        name: "syn",
        reason: "part of serde_derive; runs in the compiler",
    },
    Allowed {
        name: "unicode-ident",
        reason: "part of serde_derive; runs in the compiler",
    },
    Allowed {
        name: "thiserror",
        reason: "the text of an error beside each of its cases; no_std without its std feature",
    },
    Allowed {
        name: "thiserror-impl",
        reason: "thiserror's macro; runs in the compiler, not part of the program",
    },
    Allowed {
        name: "toml",
        reason: "specifications of workloads are texts that pure code reads; no_std without its \
                 default features, from text to values and nothing else",
    },
    Allowed {
        name: "toml_parser",
        reason: "part of toml; no_std",
    },
    Allowed {
        name: "toml_datetime",
        reason: "part of toml; no_std, and it cannot tell the time",
    },
    Allowed {
        name: "serde_spanned",
        reason: "part of toml: where in the text a value was; no_std",
    },
    Allowed {
        name: "winnow",
        reason: "what toml parses with; no_std",
    },
    Allowed {
        name: "xxhash-rust",
        reason: "checksums of records on flash (XXH3); no_std, nothing but arithmetic",
    },
    Allowed {
        name: "smallvec",
        reason: "short lists without an allocation for each request; no_std",
    },
];

/// Crates in `tree`, the dependency tree of the pure crate `package`, that are neither pure nor
/// allowed.
pub fn impure(
    package: &str,
    tree: &[String],
    pure: &BTreeSet<String>,
    allowed: &[Allowed],
) -> Vec<String> {
    let strangers: BTreeSet<&String> = tree
        .iter()
        .filter(|name| !pure.contains(*name) && !allowed.iter().any(|a| a.name == name.as_str()))
        .collect();
    let say = |name: &&String| {
        format!(
            "{package}: {name} is in its dependency tree; remove it, use it in a crate that is not pure, or, if it \
             is no_std and does no I/O, add it with the reason to ALLOWED in tests/house/src/purity.rs"
        )
    };
    strangers.iter().map(say).collect()
}

/// Entries of the allow-list that no tree needs.
pub fn stale(trees: &[Vec<String>], allowed: &[Allowed]) -> Vec<String> {
    let needed: BTreeSet<&str> = trees.iter().flatten().map(String::as_str).collect();
    allowed
        .iter()
        .filter(|entry| !needed.contains(entry.name))
        .map(|entry| {
            format!(
                "{} is allowed in pure crates but unused; remove it from ALLOWED",
                entry.name
            )
        })
        .collect()
}

/// Attributes missing at the top of a pure crate's `lib.rs`.
pub fn unguarded(lib: &Source) -> Vec<String> {
    let tokens = match tokens(lib) {
        Ok(tokens) => tokens,
        Err(error) => return vec![error],
    };
    let guards: [(&str, &[&str]); 2] = [
        ("#![no_std]", &["#", "!", "[", "no_std", "]"]),
        (
            "#![forbid(unsafe_code)]",
            &["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"],
        ),
    ];
    guards
        .into_iter()
        .filter(|(_, words)| lines_with(&tokens, words).is_empty())
        .map(|(guard, _)| {
            format!(
                "{}: `{guard}` is missing; write it below the crate's docs",
                lib.path
            )
        })
        .collect()
}

/// Places where a file of a pure crate imports the standard library outside its tests.
pub fn smuggled(file: &Source) -> Vec<String> {
    let tokens = match tokens(file) {
        Ok(tokens) => tokens,
        Err(error) => return vec![error],
    };
    let words = ["extern", "crate", "std"];
    let all = lines_with(&tokens, &words);
    let for_tests = ["#", "[", "cfg", "(", "test", ")", "]"];
    let guarded = lines_with(&tokens, &[&for_tests[..], &words[..]].concat());
    if all.len() == guarded.len() {
        return Vec::new();
    }
    vec![format!(
        "{}:{}: the standard library is imported; write #[cfg(test)] above `extern crate std`, \
         or remove it",
        file.path,
        all.first().copied().unwrap_or_default()
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn source(text: &str) -> Source {
        Source {
            path: "server/x/src/lib.rs".into(),
            text: text.into(),
        }
    }

    #[test]
    fn reports_external_crate_once() {
        let core = names(&["headlong-engine", "headlong-units"])
            .into_iter()
            .collect();
        let allowed = [Allowed {
            name: "libm",
            reason: "mathematics",
        }];
        let tree = names(&[
            "headlong-engine",
            "headlong-units",
            "libm",
            "rand",
            "getrandom",
            "rand",
        ]);
        let wrong = impure("headlong-engine", &tree, &core, &allowed);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].starts_with("headlong-engine: getrandom is in its dependency tree; remove it")
        );
        assert!(impure("headlong-engine", &tree[..3], &core, &allowed).is_empty());
    }

    #[test]
    fn unused_allowance_is_stale() {
        let allowed = [Allowed {
            name: "libm",
            reason: "mathematics",
        }];
        assert_eq!(stale(&[names(&["headlong-units"])], &allowed).len(), 1);
        assert!(stale(&[names(&["libm"])], &allowed).is_empty());
    }

    #[test]
    fn both_attributes_must_be_unconditional() {
        assert!(unguarded(&source("//! x\n#![no_std]\n#![forbid(unsafe_code)]\n")).is_empty());
        let wrong = unguarded(&source(
            "// #![no_std]\n#![cfg_attr(not(test), no_std)]\n#![deny(unsafe_code)]\n",
        ));
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].contains("`#![no_std]` is missing; write it"),
            "{wrong:?}"
        );
    }

    #[test]
    fn standard_library_is_allowed_for_tests_only() {
        assert!(
            smuggled(&source(
                "#[cfg(test)]\nextern crate std;\nextern crate alloc;"
            ))
            .is_empty()
        );
        let wrong = smuggled(&source(
            "#[cfg(test)]\nextern crate std;\nmod a {\nextern crate std;\n}",
        ));
        assert_eq!(wrong.len(), 1, "{wrong:?}");
    }
}
