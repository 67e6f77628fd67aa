//! Output to standard error, which may be full or closed: `eprintln!` would panic there and so lose
//! the work done so far.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to standard error. A line that cannot be written is lost, without further effect.
pub fn say_line(line: Arguments<'_>) {
    say_to(&mut std::io::stderr().lock(), line);
}

fn say_to(place: &mut dyn Write, line: Arguments<'_>) {
    // There is nowhere left to report the error.
    let _ = writeln!(place, "{line}");
}

/// Writes a line to standard error with the syntax of `eprintln!`, ignoring errors.
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
    fn a_failed_write_has_no_further_effect() {
        let full = OpenOptions::new().write(true).open("/dev/full");
        super::say_to(&mut full.expect("every Linux has it"), format_args!("lost"));
        let mut heard = Vec::new();
        super::say_to(&mut heard, format_args!("{} of {}", 1, 2));
        assert_eq!(heard, b"1 of 2\n");
    }
}
