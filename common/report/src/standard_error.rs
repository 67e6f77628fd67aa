//! What people are told on standard error, which may be full or closed: `eprintln!` would end the
//! program there, and with it what it has worked for.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to standard error. One that cannot be written is lost, and nothing else is.
pub fn say_line(line: Arguments<'_>) {
    say_to(&mut std::io::stderr().lock(), line);
}

fn say_to(place: &mut dyn Write, line: Arguments<'_>) {
    // Nobody is left to tell.
    let _ = writeln!(place, "{line}");
}

/// Tells people something on standard error, in the words of `eprintln!`, and goes on if it cannot.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say_line(::core::format_args!($($words)*))
    };
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    #[test]
    fn what_cannot_be_said_ends_nothing() {
        let full = OpenOptions::new().write(true).open("/dev/full");
        super::say_to(&mut full.expect("every Linux has it"), format_args!("lost"));
        let mut heard = Vec::new();
        super::say_to(&mut heard, format_args!("{} of {}", 1, 2));
        assert_eq!(heard, b"1 of 2\n");
    }
}
