//! The command line, in a form that can be typed again.

use std::ffi::OsStr;

/// The command line of `headlong` with these arguments, quoted for a shell.
pub fn command_line<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> String {
    let mut line = "headlong".to_owned();
    for word in words {
        line.push(' ');
        line.push_str(&shell_word(word));
    }
    line
}

/// A word quoted for a shell. A word of plain characters is not quoted, as in `--set name=value`;
/// text that is not Unicode is replaced as far as necessary.
pub fn shell_word(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    match (is_plain(&word), shlex::try_quote(&word)) {
        (false, Ok(quoted)) => quoted.into_owned(),
        // A word with a zero byte cannot be typed.
        _ => word.into_owned(),
    }
}

fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    word.chars().all(is_plain) && !word.is_empty() && !word.starts_with('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_can_be_typed_again() {
        let words = [
            "reproduce",
            "--scenario",
            "HD, 8 GB, Red",
            "it's",
            "",
            "a=b",
        ];
        let line = command_line(words);
        let expected = "headlong reproduce --scenario 'HD, 8 GB, Red' \"it's\" '' a=b";
        assert_eq!(line, expected);
    }

    proptest::proptest! {
        #[test]
        fn a_shell_reads_what_was_typed(
            words in proptest::collection::vec("[ -~äß\n\t]{0,12}", 0..6),
        ) {
            let read = shlex::split(&command_line(&words)).expect("whole words");
            proptest::prop_assert_eq!(&read[1..], &words[..]);
        }
    }
}
