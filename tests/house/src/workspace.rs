//! The crates of this workspace, from their manifests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// One crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// Package name.
    pub name: String,
    /// Folder from the root of the workspace: `server/engine`.
    pub folder: String,
    /// Whether its manifest says `[package.metadata.headlong] pure = true`: no I/O, no clock, no
    /// threads, no unsafe code, and only dependencies with the same properties.
    pub pure: bool,
    /// Workspace packages that its code or its build script depends on.
    pub knows: BTreeSet<String>,
    /// Workspace packages that only its tests depend on.
    pub tests_know: BTreeSet<String>,
    /// All entries of `[dependencies]` and `[build-dependencies]`, as written in code:
    /// `tokio_rustls`.
    pub needs: BTreeSet<String>,
    /// The same for `[dev-dependencies]`.
    pub tests_need: BTreeSet<String>,
    /// Whether it uses the lints of the workspace.
    pub inherits_lints: bool,
}

impl Member {
    /// The wing: its top folder.
    pub fn wing(&self) -> &str {
        self.folder.split('/').next().unwrap_or_default()
    }

    /// The crate's name within its wing: `engine`.
    pub fn noun(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or_default()
    }
}

/// The root of the workspace of this crate.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// All crates of the workspace. Needs no network: only manifests of the workspace are read.
pub fn members(root: &Path) -> Result<Vec<Member>, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(|error| format!("cargo metadata failed: {error}"))?;
    let packages = metadata.workspace_packages();
    let names: BTreeSet<String> = packages
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    let member = |package: &&cargo_metadata::Package| {
        let of_kind = |is_test: bool| {
            let dependencies = package.dependencies.iter();
            dependencies
                .filter(|dependency| (dependency.kind == DependencyKind::Development) == is_test)
                // Dependencies of features that are not shipped, such as mutations.
                .filter(|dependency| !dependency.optional)
                .map(|dependency| dependency.name.clone())
                .filter(|name| names.contains(name))
                .collect()
        };
        let in_code = |is_test: bool| {
            let dependencies = package.dependencies.iter();
            dependencies
                .filter(|dependency| (dependency.kind == DependencyKind::Development) == is_test)
                .map(|dependency| dependency.rename.as_ref().unwrap_or(&dependency.name))
                .map(|name| name.replace('-', "_"))
                .collect()
        };
        let manifest = package.manifest_path.as_std_path();
        let folder = manifest.parent().unwrap_or(root);
        let text = std::fs::read_to_string(manifest).unwrap_or_default();
        Member {
            name: package.name.to_string(),
            folder: folder
                .strip_prefix(root)
                .unwrap_or(folder)
                .display()
                .to_string(),
            pure: package.metadata["headlong"]["pure"] == true,
            knows: of_kind(false),
            tests_know: of_kind(true),
            needs: in_code(false),
            tests_need: in_code(true),
            inherits_lints: text.contains("[lints]\nworkspace = true"),
        }
    };
    Ok(packages.iter().map(member).collect())
}

/// Names of all packages in the dependency tree of one package, including itself, without those
/// that only tests or build scripts need.
pub fn tree(root: &Path, package: &str) -> Result<Vec<String>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args([
            "tree", "--edges", "normal", "--prefix", "none", "--format", "{p}",
        ])
        .args(["--package", package])
        .output()
        .map_err(|error| format!("cargo tree did not start: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo tree --package {package} failed: {stderr}"));
    }
    Ok(names_in_tree(&String::from_utf8_lossy(&output.stdout)))
}

fn names_in_tree(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_names_from_cargo_tree() {
        let text = "headlong-engine v0.1.0 (/x y/server/engine)\nserde v1.0.1\nserde_derive v1.0.1 (proc-macro)\nserde v1.0.1 (*)\n\n";
        assert_eq!(
            names_in_tree(text),
            ["headlong-engine", "serde", "serde_derive", "serde"]
        );
    }
}
