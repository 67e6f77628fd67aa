//! The recipe for containers: no program that builds one is needed to see that its instructions are
//! known, that what it copies is there, and what its shell commands are.

use std::path::Path;

/// Instructions of a Containerfile.
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

/// What was read of a recipe.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// The commands that a shell runs while it is built.
    pub commands: Vec<String>,
    /// What cannot be right.
    pub wrong: Vec<String>,
}

/// Reads a recipe. `exists` says whether a path from the root of the workspace is there.
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
                say("a shell would stand between the program and its signals".to_owned());
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
    fn a_recipe_that_names_what_is_not_there_is_found() {
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
