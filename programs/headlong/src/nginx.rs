//! `headlong check --nginx`: reads an nginx.conf with the files that it includes, and prints the
//! settings that do the same; directives without an equivalent go to standard error.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::bail;
use headlong_config::{Admin, Config, Flags, Mistakes};
use headlong_net::{ListenAddress, PortUse};
use headlong_nginx::Directive;
use headlong_units::Bytes;

use crate::root_survey::survey;
use crate::warnings::Warnings;

/// Largest file; generated maps have some megabytes.
const FILE_MAX: Bytes = Bytes(16 << 20);
/// The name of the printed file in messages.
const PRINTED: &str = "(standard output)";

/// Converts `file`, and prints the result; `quiet` omits the list of directives that are not needed.
pub(crate) fn convert(file: &Path, quiet: bool) -> anyhow::Result<Warnings> {
    let mut files = NginxFiles {
        folder: file.parent().unwrap_or(Path::new("")).to_path_buf(),
        open: Vec::new(),
        mistakes: Vec::new(),
    };
    let directives = files.read(file);
    if let Some((last, others)) = files.mistakes.split_last() {
        let prefix = headlong_report::error_prefix();
        others
            .iter()
            .for_each(|mistake| headlong_report::say!("{prefix}headlong: {mistake}"));
        bail!("{last}");
    }
    let conversion = match headlong_nginx::convert(&directives) {
        Ok(conversion) => conversion,
        Err(text) => bail!("{}: {text}", file.display()),
    };
    let mut warnings = Warnings::default();
    conversion
        .findings
        .iter()
        .for_each(|finding| warnings.say(finding));
    if !quiet && !conversion.needless.is_empty() {
        let names = conversion.needless.join(", ");
        headlong_report::say!("headlong: not needed here: {names}");
    }
    match Config::from_text(Path::new(PRINTED), &conversion.toml, &Flags::default()) {
        Ok(config) => of_machine(&config, &mut warnings),
        Err(mistakes) => incomplete(&mistakes, &mut warnings),
    }
    headlong_survey::print(&conversion.toml)?;
    Ok(warnings)
}

/// Settings that an operator has to complete.
fn incomplete(mistakes: &Mistakes, warnings: &mut Warnings) {
    mistakes.iter().for_each(|mistake| warnings.say(mistake));
}

/// Reports links that the server would not follow, and ports in use.
fn of_machine(config: &Config, warnings: &mut Warnings) {
    for root in config.served() {
        survey(&root.folder)
            .into_iter()
            .for_each(|line| warnings.say(line));
    }
    let viewers = config.listeners().into_iter().map(|on| on.address);
    let admin = match &config.admin {
        Admin::Address(address) => Some(address.clone()),
        Admin::Off => None,
    };
    for address in viewers.chain(admin) {
        let ListenAddress::Ip(ip) = &address else {
            continue;
        };
        if PortUse::of(ip).is_some_and(|found| found.listeners > 0) {
            warnings.say(format_args!(
                "{address} is in use now: stop the program there (nginx?) before the start, \
                    or try \
                 another port (`headlong serve --listen 127.0.0.1:8080`)"
            ));
        }
    }
}

/// The files of a configuration.
struct NginxFiles {
    /// That of the main file, to which included paths are relative.
    folder: PathBuf,
    /// Those being read, each included by the one before it.
    open: Vec<PathBuf>,
    mistakes: Vec<String>,
}

impl NginxFiles {
    fn read(&mut self, file: &Path) -> Vec<Directive> {
        let name = file.display().to_string();
        if self.open.iter().any(|open| open == file) {
            self.mistakes
                .push(format!("{name} includes itself; remove that `include`"));
            return Vec::new();
        }
        let bytes = match bytes_of(file) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.mistakes
                    .push(format!("{name} cannot be read: {error}"));
                return Vec::new();
            }
        };
        // Comments may be in any encoding.
        match headlong_nginx::parse(&name, &String::from_utf8_lossy(&bytes)) {
            Ok(directives) => {
                self.open.push(file.to_path_buf());
                let directives = self.with_included(directives);
                self.open.pop();
                directives
            }
            Err(error) => {
                let text = format!("{name}:{}: not an nginx.conf: {}", error.line, error.text);
                self.mistakes.push(text);
                Vec::new()
            }
        }
    }

    fn with_included(&mut self, directives: Vec<Directive>) -> Vec<Directive> {
        let mut all = Vec::with_capacity(directives.len());
        for mut directive in directives {
            if directive.name == "include" {
                all.extend(self.included(&directive));
                continue;
            }
            directive.block = directive.block.map(|block| self.with_included(block));
            all.push(directive);
        }
        all
    }

    fn included(&mut self, include: &Directive) -> Vec<Directive> {
        let written = include.args.first().map_or("", String::as_str);
        let path = self.folder.join(written);
        if !written.contains(['*', '?', '[']) {
            return self.read(&path);
        }
        let found = path.to_str().map(glob::glob);
        let Some(Ok(found)) = found else {
            let place = format!("{}:{}", include.file, include.line);
            self.mistakes.push(format!(
                "{place}: include: {written} is no pattern of file names"
            ));
            return Vec::new();
        };
        // A pattern may match nothing, as with nginx.
        found.flatten().flat_map(|file| self.read(&file)).collect()
    }
}

/// The bytes of a regular file.
fn bytes_of(file: &Path) -> io::Result<Vec<u8>> {
    let found = fs::metadata(file)?;
    if !found.is_file() {
        return Err(io::Error::other(
            "not a file; name nginx's main file, such as /etc/nginx/nginx.conf",
        ));
    }
    if found.len() > FILE_MAX.0 {
        return Err(io::Error::other(format!("larger than {FILE_MAX}")));
    }
    fs::read(file)
}
