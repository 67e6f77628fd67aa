//! Names of the files of a title: what they differ in, and a list of them in the form of
//! nginx-vod-module.

use alloc::format;
use alloc::string::String;

/// Digits in the suffix of a file.
const SUFFIX_DIGITS: core::ops::RangeInclusive<usize> = 2..=5;

/// Whether a text is what names of the files of one title differ in: `_480`, `-720p`, `_2500`.
pub fn is_file_suffix(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['_', '-']) else {
        return false;
    };
    let digits = rest.strip_suffix('p').unwrap_or(rest);
    SUFFIX_DIGITS.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The path of the title that nginx-vod-module names by a list of its files: `film.mp4` for
/// `film_,480,720,.mp4.urlset`; `None` for other paths.
pub fn title_of_urlset(path: &str) -> Option<String> {
    let (folder, name) = path.split_at(path.rfind('/').map_or(0, |at| at + 1));
    let (files, rest) = name.strip_suffix(".urlset")?.rsplit_once(',')?;
    let mut numbers = files.split(',');
    let stem = numbers.next()?;
    let separator = stem.get(stem.len().checked_sub(1)?..)?;
    let mut suffixes = numbers.map(|number| format!("{separator}{number}"));
    let first = suffixes.next()?;
    let is_title = is_file_suffix(&first) && suffixes.all(|suffix| is_file_suffix(&suffix));
    // Nothing else, so that no path becomes one of another folder.
    let extension = rest.strip_prefix('.')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
    let is_extension = !extension.is_empty() && extension.bytes().all(is_plain);
    let title = || format!("{folder}{}.{extension}", &stem[..stem.len() - 1]);
    (is_title && is_extension).then(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_a_separator_and_a_number() {
        for suffix in ["_480", "-720p", "_64", "_12000"] {
            assert!(is_file_suffix(suffix), "{suffix}");
        }
        for text in [
            "", "_", "_p", "_1", "480", "_123456", "_48 0", "__480", "_480P", "_4k", "_-48",
        ] {
            assert!(!is_file_suffix(text), "{text}");
        }
    }

    #[test]
    fn list_of_files_names_their_title() {
        let title = |path: &str| title_of_urlset(path).unwrap_or_default();
        assert_eq!(title("a/film_,480,720,.mp4.urlset"), "a/film.mp4");
        assert_eq!(title("a/b,c/film-,480p,.m4v.urlset"), "a/b,c/film.m4v");
        for path in [
            "film.mp4",
            "film_480.mp4.urlset",
            "film,480,.mp4.urlset",
            "film_,480,720.mp4.urlset",
            "film_,low,high,.mp4.urlset",
            "film_,480,.mp4",
            "_480,.mp4.urlset",
            "._,480,./x.mp4.urlset",
            "._,480,..urlset",
            "a/_,480,/../b.mp4.urlset",
        ] {
            assert_eq!(title(path), "", "{path}");
        }
    }
}
