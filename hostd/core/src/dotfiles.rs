//! How dotfiles are installed, decided from the names at the top of their directory and one level below.

use protocol::api::DotfilesInstall;

/// The directory of dotfiles in the home directory.
pub const DOTFILES_DIR: &str = ".dotfiles";
/// Scripts that install dotfiles by themselves, the first that is there.
const SCRIPTS: [&str; 6] = ["install.sh", "bootstrap.sh", "setup.sh", "install", "bootstrap", "setup"];
/// Names at the top that are not dotfiles.
const NO_DOTFILES: [&str; 3] = ["readme", "license", "copying"];

/// A name below the directory, as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DotfilesEntry {
    /// Relative to the directory.
    pub path: String,
    pub is_directory: bool,
    pub is_executable: bool,
}

/// Programs that the image has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DotfilesPrograms {
    pub stow: bool,
    pub chezmoi: bool,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallDecision {
    Copy,
    /// Run this in a directory relative to the home directory.
    Run {
        argv: Vec<String>,
        dir: &'static str,
    },
    Impossible(String),
}

/// Decides how to install dotfiles of this listing. `home` is the home directory.
pub fn decide_install(
    wanted: DotfilesInstall,
    entries: &[DotfilesEntry],
    programs: DotfilesPrograms,
    home: &str,
) -> InstallDecision {
    let packages = stow_packages(entries);
    match wanted {
        DotfilesInstall::Copy => InstallDecision::Copy,
        DotfilesInstall::Auto if programs.chezmoi && has_chezmoi_layout(entries) => chezmoi(home),
        DotfilesInstall::Auto if programs.stow && has_stow_layout(entries, &packages) => {
            stow(home, &packages)
        }
        DotfilesInstall::Auto => InstallDecision::Copy,
        DotfilesInstall::Stow if !programs.stow => missing("stow"),
        DotfilesInstall::Stow if packages.is_empty() => {
            InstallDecision::Impossible("there is no directory that stow could link".to_owned())
        }
        DotfilesInstall::Stow => stow(home, &packages),
        DotfilesInstall::Chezmoi if !programs.chezmoi => missing("chezmoi"),
        DotfilesInstall::Chezmoi => chezmoi(home),
        DotfilesInstall::Script => script(entries, home),
    }
}

fn missing(program: &str) -> InstallDecision {
    InstallDecision::Impossible(format!(
        "the image has no program {program}: use another image, or install: copy"
    ))
}

fn chezmoi(home: &str) -> InstallDecision {
    let (source, home) = (format!("{home}/{DOTFILES_DIR}"), home.to_owned());
    let argv = ["chezmoi", "apply", "--no-tty", "--source", &source, "--destination", &home];
    InstallDecision::Run { argv: argv.map(str::to_owned).to_vec(), dir: "." }
}

fn stow(home: &str, packages: &[&str]) -> InstallDecision {
    let source = format!("{home}/{DOTFILES_DIR}");
    let fixed = ["stow", "--verbose", "--dir", &source, "--target", home, "--"];
    let argv = fixed.into_iter().chain(packages.iter().copied()).map(str::to_owned).collect();
    InstallDecision::Run { argv, dir: "." }
}

fn script(entries: &[DotfilesEntry], home: &str) -> InstallDecision {
    let at = |name: &&str| entries.iter().find(|entry| entry.path == **name && !entry.is_directory);
    let Some(found) = SCRIPTS.iter().find_map(at) else {
        return InstallDecision::Impossible(format!("there is none of {}", SCRIPTS.join(", ")));
    };
    let path = format!("{home}/{DOTFILES_DIR}/{}", found.path);
    // The shell also takes an executable script whose first line names no program.
    let shell: &[&str] = if found.is_executable { &["/bin/sh", "-c", "exec \"$0\""] } else { &["/bin/sh"] };
    let argv = shell.iter().map(|&word| word.to_owned()).chain([path]).collect();
    InstallDecision::Run { argv, dir: DOTFILES_DIR }
}

/// Directories at the top that are not hidden.
fn stow_packages(entries: &[DotfilesEntry]) -> Vec<&str> {
    let is_package = |entry: &&DotfilesEntry| {
        entry.is_directory && !entry.path.contains('/') && !entry.path.starts_with('.')
    };
    entries.iter().filter(is_package).map(|entry| entry.path.as_str()).collect()
}

/// Whether all dotfiles are in packages: each has a hidden name, and nothing hidden lies beside them, except for files
/// of git and stow.
fn has_stow_layout(entries: &[DotfilesEntry], packages: &[&str]) -> bool {
    let has_hidden = |package: &&str| {
        entries.iter().any(|entry| {
            entry
                .path
                .strip_prefix(*package)
                .is_some_and(|rest| rest.starts_with("/.") || rest.starts_with("/dot-"))
        })
    };
    let is_of_tools = |name: &str| {
        let lower = name.to_lowercase();
        name.starts_with(".git")
            || name.starts_with(".stow")
            || NO_DOTFILES.iter().any(|text| lower.starts_with(text))
    };
    let beside = |entry: &DotfilesEntry| {
        let at_top = !entry.path.contains('/');
        at_top && !packages.contains(&entry.path.as_str()) && !is_of_tools(&entry.path)
    };
    !packages.is_empty() && packages.iter().all(has_hidden) && !entries.iter().any(beside)
}

fn has_chezmoi_layout(entries: &[DotfilesEntry]) -> bool {
    entries.iter().any(|entry| entry.path.starts_with(".chezmoi") || entry.path.starts_with("dot_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(paths: &[&str]) -> Vec<DotfilesEntry> {
        let entry = |path: &&str| DotfilesEntry {
            path: path.trim_end_matches(['/', '*']).to_owned(),
            is_directory: path.ends_with('/'),
            is_executable: path.ends_with('*'),
        };
        paths.iter().map(entry).collect()
    }

    fn first(decision: InstallDecision) -> String {
        match decision {
            InstallDecision::Copy => "copy".to_owned(),
            InstallDecision::Run { argv, .. } => argv[0].clone(),
            InstallDecision::Impossible(_) => "impossible".to_owned(),
        }
    }

    #[test]
    fn the_layout_and_the_programs_decide() {
        use DotfilesInstall::{Auto, Chezmoi, Copy, Script, Stow};
        let plain: &[&str] = &[".bashrc", ".config/", ".config/nvim/", "install.sh*"];
        let stowed: &[&str] = &["README.md", ".gitignore", "zsh/", "zsh/.zshrc", "vim/", "vim/.vimrc"];
        let chezmoi: &[&str] = &["dot_bashrc", "dot_config/"];
        let table: [(_, &[&str], _, _, &str); 13] = [
            (Auto, plain, true, true, "copy"),
            (Auto, stowed, true, false, "stow"),
            (Auto, stowed, false, false, "copy"),
            (Auto, chezmoi, true, true, "chezmoi"),
            (Auto, chezmoi, true, false, "copy"),
            (Auto, &["bin/", "bin/x", ".bashrc"], true, false, "copy"),
            (Copy, stowed, true, true, "copy"),
            (Stow, stowed, false, false, "impossible"),
            (Stow, &[".bashrc"], true, false, "impossible"),
            (Chezmoi, plain, false, false, "impossible"),
            (Chezmoi, plain, false, true, "chezmoi"),
            (Script, plain, false, false, "/bin/sh"),
            (Script, &["setup", ".bashrc"], false, false, "/bin/sh"),
        ];
        for (wanted, paths, stow, chezmoi, expected) in table {
            let programs = DotfilesPrograms { stow, chezmoi };
            let decision = decide_install(wanted, &entries(paths), programs, "/home/sandbox");
            assert_eq!(first(decision), expected, "{wanted:?} {paths:?}");
        }
        let none = decide_install(Script, &entries(&[".bashrc"]), DotfilesPrograms::default(), "/h");
        assert_eq!(first(none), "impossible");
    }

    #[test]
    fn stow_gets_every_package() {
        let decision = stow("/h", &["vim", "zsh"]);
        let InstallDecision::Run { argv, .. } = decision else { panic!("{decision:?}") };
        assert_eq!(argv.join(" "), "stow --verbose --dir /h/.dotfiles --target /h -- vim zsh");
    }
}
