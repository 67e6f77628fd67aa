//! Static checks of the Containerfile, without a program that builds containers: its instructions
//! are known, the copied files exist, and its shell commands are extracted.

use std::path::Path;

/// Known instructions of a Containerfile.
const KNOWN: [&str; 10] = [
    "FROM",
    "WORKDIR",
    "COPY",
    "RUN",
    "USER",
    "VOLUME",
    "EXPOSE",
    "STOPSIGNAL",
    "ENTRYPOINT",
    "CMD",
];

/// Result of parsing a recipe.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// Shell commands that run during the build.
    pub commands: Vec<String>,
    /// Errors.
    pub wrong: Vec<String>,
}

/// Parses a recipe. `exists` says whether a path from the root of the workspace exists.
pub fn read(text: &str, exists: impl Fn(&Path) -> bool) -> Recipe {
    let mut recipe = Recipe::default();
    let mut stages = Vec::<&str>::new();
    let joined = text.replace("\\\n", " ");
    for line in joined.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let mut say = |what: String| recipe.wrong.push(format!("{what}: {line}"));
        match (instruction, words.as_slice()) {
            ("FROM", [_, "AS", stage]) => stages.push(stage),
            ("RUN", _) => recipe.commands.push(rest.to_owned()),
            ("COPY", [from, _, _]) if from.starts_with("--from=") => {
                let stage = from.trim_start_matches("--from=");
                if !stages.contains(&stage) {
                    say(format!("there is no stage {stage}"));
                }
            }
            ("COPY", [source, _]) if !exists(Path::new(source)) => {
                say(format!("{source} is not there"));
            }
            ("CMD" | "ENTRYPOINT", _) if !rest.starts_with('[') => {
                say("a shell would intercept the program's signals".to_owned());
            }
            (name, _) if !KNOWN.contains(&name) => say("unknown".to_owned()),
            _ => {}
        }
    }
    recipe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_missing_files_stages_and_instructions() {
        let text = "# x\nFROM a AS b\nCOPY web web\nCOPY no no\nRUN one \\\n    && two\n\
                    COPY --from=b /x y\nCOPY --from=c /x y\nRUM x\nCMD serve\nCMD [\"serve\"]\n";
        let recipe = read(text, |path| path == Path::new("web"));
        assert_eq!(recipe.commands, ["one      && two"]);
        let told: Vec<&str> = recipe
            .wrong
            .iter()
            .filter_map(|text| text.rsplit(": ").next())
            .collect();
        assert_eq!(
            told,
            ["COPY no no", "COPY --from=c /x y", "RUM x", "CMD serve"],
            "{recipe:?}"
        );
    }
}
