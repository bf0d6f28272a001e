//! What git is told, and not told, when it speaks to a server in a sandbox.

/// Begins a script for `sh`. Nothing that the image, the home directory or the environment says about git counts: its
/// variables are removed, it finds no configuration and no file of credentials, and speaks no protocol but those of the
/// gateway.
pub const GIT_ISOLATION: &str = r#"set -eu
for name in $(env | sed -n 's/^\(GIT_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$name"; done
unset XDG_CONFIG_HOME
export HOME=/dev/null GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 GIT_ALLOW_PROTOCOL=http:git
# Neither the environment nor core.gitProxy leads git elsewhere, and no program is asked for anything.
export GIT_PROXY_COMMAND= GIT_TERMINAL_PROMPT=0 GIT_ASKPASS= GIT_NO_LAZY_FETCH=1 GIT_LFS_SKIP_SMUDGE=1
"#;
