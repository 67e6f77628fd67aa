//! See the library.

fn main() -> std::process::ExitCode {
    headlong::main()
}
