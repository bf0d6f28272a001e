//! What a new sandbox is provisioned with before it runs: a repository, dotfiles and setup steps.

use crate::{EnvMap, Exit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Commands that make a new sandbox ready. They run once, in order, before its services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SetupSpec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<SetupStepSpec>,
}

/// One command of the setup. The first that fails ends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SetupStepSpec {
    /// Name for people; default: the first line of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Command line.
    pub run: String,
    /// Shell that gets the command line after `-c`: an absolute path, or one of sh, bash, dash, ash, zsh, ksh and fish;
    /// default: `/bin/sh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Directory, absolute or relative to the app directory, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Environment variables beside those of the sandbox. Values are never shown again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    /// Time limit, as in `90s` or `15m`; default: 10 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// A git repository that a new sandbox begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SourceSpec {
    /// Address, as in `https://example.com/acme/web.git` or `git@example.com:acme/web.git`, without a password.
    pub url: String,
    /// Branch, tag or whole commit hash; default: the default branch of the server.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Credential; default: the secret `ssh.HOST` or `git.HOST` of the tenant, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<SourceAuth>,
    /// Number of commits to fetch of the branch; default: all of all branches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Directory below the home directory, absolute or relative to the app directory, which is the default. It must be
    /// empty or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// The credential of a repository, by its name. Its value stays in hostd.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SourceAuth {
    /// Name of a secret for the server of the repository: `git.HOST` or `git-LABEL.HOST`, or of a key `ssh.HOST` or
    /// `ssh-LABEL.HOST`.
    pub secret: String,
}

/// Files for the home directory of a new sandbox: of a repository, or of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DotfilesSpec {
    /// Address of a git repository; this or `archive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Branch, tag or whole commit hash of the repository; default: the default branch of the server.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Credential of the repository, as of a source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<SourceAuth>,
    /// Tar, tar.gz or zip archive in base64; its content is never shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Default: `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<DotfilesInstall>,
}

/// How dotfiles get from their directory `~/.dotfiles` into the home directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DotfilesInstall {
    /// `chezmoi` or `stow` where the image has the program and the files have its layout, else `copy`. chezmoi runs the
    /// scripts and templates among the files as the sandbox's user.
    #[default]
    Auto,
    /// Every file is copied; a file that it replaces is kept as `<name>.before-dotfiles`.
    Copy,
    /// `stow` links every package, which is a directory at the top.
    Stow,
    /// `chezmoi apply`, which runs the scripts and templates among the files.
    Chezmoi,
    /// Runs `install.sh`, `bootstrap.sh`, `setup.sh`, `install`, `bootstrap` or `setup`, whichever comes first.
    Script,
}

/// Progress of the provisioning of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetupView {
    /// Steps that succeeded.
    pub done: u32,
    /// Names of all steps, in order: those of the source and of the dotfiles first, where there are any.
    pub steps: Vec<String>,
}

/// The step of a setup that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailedStep {
    pub name: String,
    /// Number of the step, from 1.
    pub number: u32,
    /// Number of all steps.
    pub of: u32,
    /// Exec that ran it; absent where none was run. Its whole output can be read once the sandbox runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<String>,
    /// How its process ended; absent where none was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}
