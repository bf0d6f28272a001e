//! Flags of a sandbox spec, shared by `create`, `ensure`, `up` and `run`. A new field of the spec gets its flag here.

use crate::{failure::Failure, limits, value_parser};
use base64::{Engine, prelude::BASE64_STANDARD};
use clap::{Args, ValueEnum};
use protocol::{
    ServiceSpec,
    api::{
        DotfilesInstall, DotfilesSpec, IdlePolicy, Network, NetworkRules, NetworkSpec, OnTtl, PreviewHeaders,
        SandboxScope, SandboxSpec, Seed, SetupStepSpec, SnapshotId, SourceAuth, SourceSpec, Visibility,
    },
};
use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

/// All flags of a sandbox spec.
#[derive(Debug, Args, Default)]
pub struct SpecFlags {
    #[command(flatten)]
    pub sandbox_flags: SandboxFlags,
    /// Environment variable of every process; NAME alone takes the value from your environment
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = value_parser::env)]
    pub env: Vec<(String, String)>,
    /// File of NAME=VALUE lines; --env overrides it
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// Keep it running, and restart it when it dies, instead of letting it sleep when idle
    #[arg(long)]
    pub always_on: bool,
    /// Git repository that is cloned into the app directory first, as in `https://example.com/acme/web.git`
    #[arg(long, value_name = "URL")]
    pub source: Option<String>,
    /// Branch, tag or whole commit hash of --source; default: the default branch of the server
    #[arg(long = "ref", value_name = "REF", requires = "source")]
    pub reference: Option<String>,
    /// Secret with the credential for --source, as in git.github.com; see `slipway secret`
    #[arg(long = "auth", value_name = "SECRET", requires = "source")]
    pub source_auth: Option<String>,
    /// Number of commits to fetch for --source; default: all
    #[arg(long, value_name = "COMMITS", requires = "source")]
    pub depth: Option<u32>,
    /// Directory for --source, absolute or relative to the app directory, which is the default
    #[arg(long, value_name = "DIR", requires = "source")]
    pub source_dir: Option<String>,
    /// Command that runs once in the new sandbox, before its services; repeatable, in this order. The spec of --file
    /// also takes a name, shell, directory, environment and timeout of each
    #[arg(long = "setup", value_name = "LINE")]
    pub setup: Vec<String>,
    /// Files for the home directory, put there before the setup: an archive (tar, tar.gz or zip), or the address of a
    /// git repository
    #[arg(long, value_name = "FILE|URL")]
    pub dotfiles: Option<String>,
    /// Branch, tag or whole commit hash of the repository of --dotfiles
    #[arg(long, value_name = "REF", requires = "dotfiles")]
    pub dotfiles_ref: Option<String>,
    /// Secret with the credential for the repository of --dotfiles, as in git.github.com
    #[arg(long, value_name = "SECRET", requires = "dotfiles")]
    pub dotfiles_auth: Option<String>,
    /// How dotfiles are installed. `auto` takes chezmoi or stow where the image has it and the files have its layout, else
    /// copies; chezmoi runs scripts and templates among the files, as the sandbox's user. An install script runs only
    /// with `script`
    #[arg(long, value_name = "WAY", requires = "dotfiles")]
    pub dotfiles_install: Option<InstallFlag>,
    /// Scope, as in agent-run:42 or custom:mine; at most one live sandbox has a given scope
    #[arg(long, value_name = "KIND:KEY", value_parser = value_parser::scope)]
    pub scope: Option<SandboxScope>,
    /// JSON file with the spec, `-` for standard input; flags override it
    #[arg(long, short = 'f', value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Flags that `slipway run` takes too.
#[derive(Debug, Args, Default)]
pub struct SandboxFlags {
    /// Display name; a unique one may be used instead of the id
    #[arg(long)]
    pub name: Option<String>,
    /// `host` (the programs of this machine, read-only), or the name of an imported image; `docker` also takes one
    /// of a registry
    #[arg(long)]
    pub image: Option<String>,
    /// Template of the operator that the workspace starts with
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Snapshot that the workspace starts with; see `slipway fork` for a sandbox like the old one
    #[arg(long, value_name = "ID", conflicts_with = "template")]
    pub snapshot: Option<SnapshotId>,
    /// Driver, `oci` or `docker`; see `slipway drivers`
    #[arg(long)]
    pub driver: Option<String>,
    /// OCI runtime, as in crun: only with `docker`, and only those that `slipway drivers` lists (runsc and Kata do not
    /// pass its trial); `oci` has one, chosen when hostd starts
    #[arg(long)]
    pub runtime: Option<String>,
    /// Port whose preview is advertised; repeatable
    #[arg(long = "port", short = 'p', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub ports: Vec<u16>,
    /// Memory limit, as in 512m or 2g
    #[arg(long, short = 'm', value_name = "SIZE", value_parser = value_parser::megabytes)]
    pub memory: Option<u64>,
    /// CPU limit in cores, as in 0.5 or 2
    #[arg(long, value_name = "CORES")]
    pub cpus: Option<f64>,
    /// Limit on processes and threads
    #[arg(long, value_name = "COUNT")]
    pub pids: Option<u64>,
    /// Limit on the space of the workspace, as in 10g
    #[arg(long, value_name = "SIZE", value_parser = value_parser::megabytes)]
    pub disk: Option<u64>,
    /// `proxy` (the default): what egress rules allow, through hostd; `none`: loopback only; `open`: a network with
    /// direct access, only with `docker`
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<NetworkFlag>,
    /// Destination to allow, as in '*.example.com:443'; with any allow rule everything else is denied
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,
    /// Destination to deny
    #[arg(long, value_name = "RULE")]
    pub deny: Vec<String>,
    /// Let anyone open its previews without a link
    #[arg(long, conflicts_with = "private")]
    pub public: bool,
    /// Require a link to open its previews, as hostd does by default beyond loopback
    #[arg(long)]
    pub private: bool,
    /// Leave Host and Origin as sent by browsers; otherwise apps see localhost:PORT, which dev servers expect
    #[arg(long)]
    pub headers_as_sent: bool,
    /// Time to live, as in 90s, 15m, 4h or 7d; default: unlimited
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<String>,
    /// At the end of the time to live: destroy it, or keep it paused or stopped
    #[arg(long, value_name = "WHAT")]
    pub on_ttl: Option<OnTtlFlag>,
    /// Key-value pair to store with the sandbox; repeatable
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = value_parser::pair)]
    pub metadata: Vec<(String, String)>,
    /// Project of the sandbox
    #[arg(long)]
    pub project: Option<String>,
    /// Service to keep running, as in 'name=web,command=npm run dev,port=3000'. Also takes cwd=,
    /// depends_on=, env.NAME=, restart=always|on-failure|never and health=/path|tcp:PORT|log:PATTERN|command:LINE
    #[arg(long = "service", value_name = "FIELDS", value_parser = value_parser::service)]
    pub services: Vec<ServiceSpec>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnTtlFlag {
    Destroy,
    Pause,
    Stop,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum NetworkFlag {
    None,
    Proxy,
    Open,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum InstallFlag {
    Auto,
    Copy,
    Stow,
    Chezmoi,
    Script,
}

impl From<InstallFlag> for DotfilesInstall {
    fn from(flag: InstallFlag) -> Self {
        match flag {
            InstallFlag::Auto => Self::Auto,
            InstallFlag::Copy => Self::Copy,
            InstallFlag::Stow => Self::Stow,
            InstallFlag::Chezmoi => Self::Chezmoi,
            InstallFlag::Script => Self::Script,
        }
    }
}

impl SpecFlags {
    /// Reads the named files and builds the spec.
    pub fn spec(self) -> Result<SandboxSpec, Failure> {
        let base = self.file.as_ref().map_or_else(|| Ok(SandboxSpec::default()), read_spec)?;
        let dotfiles = self.dotfiles.as_deref().map(dotfiles).transpose()?;
        let base = SandboxSpec { dotfiles: dotfiles.or(base.dotfiles.clone()), ..base };
        let mut env = protocol::EnvMap::new();
        for path in &self.env_file {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::io(format!("read {}", path.display()), error))?;
            let more = value_parser::env_file(&text)
                .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
            env.extend(more);
        }
        Ok(self.apply_to(base, env))
    }

    /// Applies the flags to a spec from a file. Single values replace, collections are merged by name.
    fn apply_to(self, mut spec: SandboxSpec, env_of_files: protocol::EnvMap) -> SandboxSpec {
        spec.env.extend(env_of_files);
        spec.env.extend(self.env);
        spec.idle_policy = self.always_on.then_some(IdlePolicy::AlwaysOn).or(spec.idle_policy);
        spec.scope = self.scope.or(spec.scope);
        if let Some(url) = self.source {
            let file = spec.source.unwrap_or_default();
            spec.source = Some(SourceSpec {
                url,
                reference: self.reference.or(file.reference),
                auth: self.source_auth.map(|secret| SourceAuth { secret }).or(file.auth),
                depth: self.depth.or(file.depth),
                dir: self.source_dir.or(file.dir),
            });
        }
        if let Some(dotfiles) = &mut spec.dotfiles {
            dotfiles.reference = self.dotfiles_ref.or(dotfiles.reference.take());
            dotfiles.auth = self.dotfiles_auth.map(|secret| SourceAuth { secret }).or(dotfiles.auth.take());
            dotfiles.install = self.dotfiles_install.map(Into::into).or(dotfiles.install);
        }
        if !self.setup.is_empty() {
            let more = self.setup.into_iter().map(|run| SetupStepSpec { run, ..SetupStepSpec::default() });
            spec.setup.get_or_insert_default().steps.extend(more);
        }
        self.sandbox_flags.apply_to(spec)
    }
}

impl SandboxFlags {
    fn seed(&self) -> Option<Seed> {
        let (template, snapshot) = (self.template.clone(), self.snapshot);
        (template.is_some() || snapshot.is_some()).then_some(Seed { template, snapshot })
    }

    /// Applies the flags to a spec, as [`SpecFlags::spec`] does.
    pub fn apply_to(self, mut spec: SandboxSpec) -> SandboxSpec {
        spec.seed = self.seed().or(spec.seed);
        spec.name = self.name.or(spec.name);
        spec.image = self.image.or(spec.image);
        spec.driver = self.driver.or(spec.driver);
        spec.runtime = self.runtime.or(spec.runtime);
        spec.ports.extend(self.ports);
        spec.ports.sort_unstable();
        spec.ports.dedup();
        spec.limits.memory_mb = self.memory.or(spec.limits.memory_mb);
        spec.limits.cpus = self.cpus.or(spec.limits.cpus);
        spec.limits.pids = self.pids.or(spec.limits.pids);
        spec.limits.disk_mb = self.disk.or(spec.limits.disk_mb);
        spec.network = network(self.network, self.allow, self.deny, spec.network);
        let private = self.private.then_some(Visibility::Private);
        spec.visibility = self.public.then_some(Visibility::Public).or(private).or(spec.visibility);
        spec.preview_headers =
            self.headers_as_sent.then_some(PreviewHeaders::AsSent).or(spec.preview_headers);
        spec.ttl = self.ttl.or(spec.ttl);
        spec.on_ttl = self.on_ttl.map(OnTtl::from).or(spec.on_ttl);
        spec.metadata.extend(self.metadata);
        spec.project = self.project.or(spec.project);
        for service in self.services {
            spec.services.retain(|known| known.name != service.name);
            spec.services.push(service);
        }
        spec
    }
}

impl From<OnTtlFlag> for OnTtl {
    fn from(flag: OnTtlFlag) -> Self {
        match flag {
            OnTtlFlag::Destroy => Self::Destroy,
            OnTtlFlag::Pause => Self::Pause,
            OnTtlFlag::Stop => Self::Stop,
        }
    }
}

impl From<NetworkFlag> for Network {
    fn from(flag: NetworkFlag) -> Self {
        match flag {
            NetworkFlag::None => Self::None,
            NetworkFlag::Proxy => Self::Proxy,
            NetworkFlag::Open => Self::Open,
        }
    }
}

/// Merges flags and file; rules of the flags are added to those of the file.
fn network(
    mode: Option<NetworkFlag>,
    allow: Vec<String>,
    deny: Vec<String>,
    file: Option<NetworkSpec>,
) -> Option<NetworkSpec> {
    let mode = mode.map(Network::from);
    if allow.is_empty() && deny.is_empty() {
        return match (mode, file) {
            (Some(mode), Some(NetworkSpec::Rules(rules))) => {
                Some(NetworkSpec::Rules(NetworkRules { mode: Some(mode), ..rules }))
            }
            (mode, file) => mode.map(NetworkSpec::Mode).or(file),
        };
    }
    let mut rules = match file {
        Some(NetworkSpec::Rules(rules)) => rules,
        Some(NetworkSpec::Mode(mode)) => NetworkRules { mode: Some(mode), ..NetworkRules::default() },
        None => NetworkRules::default(),
    };
    rules.mode = mode.or(rules.mode);
    rules.allow.extend(allow);
    rules.deny.extend(deny);
    Some(NetworkSpec::Rules(rules))
}

/// Dotfiles by the address of a repository, or by a file.
fn dotfiles(text: &str) -> Result<DotfilesSpec, Failure> {
    let is_address = text.contains("://") || text.starts_with("git@");
    match is_address {
        true => Ok(DotfilesSpec { url: Some(text.to_owned()), ..DotfilesSpec::default() }),
        false => read_archive(Path::new(text)),
    }
}

/// Reads an archive of dotfiles. hostd refuses one that is larger than it takes.
fn read_archive(path: &Path) -> Result<DotfilesSpec, Failure> {
    let failed = |error| Failure::io(format!("read {}", path.display()), error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(limits::DOTFILES_READ_MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(DotfilesSpec { archive: Some(BASE64_STANDARD.encode(bytes)), ..DotfilesSpec::default() })
}

fn read_spec(path: &PathBuf) -> Result<SandboxSpec, Failure> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::io(format!("read {}", path.display()), error))?;
    serde_json::from_str(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_collections_are_merged() {
        let file = r#"{"name":"old","ports":[80],"env":{"A":"1","B":"1"},"limits":{"memory_mb":64,"pids":9},
            "services":[{"name":"web","command":"old"}],
            "source":{"url":"https://a/b","ref":"main","auth":{"secret":"git.b"},"depth":1,"dir":"x"},
            "dotfiles":{"url":"https://d/e","ref":"v1","install":"copy"}}"#;
        let base: SandboxSpec = serde_json::from_str(file).expect("a good spec");
        let sandbox_flags = SandboxFlags {
            name: Some("new".into()),
            ports: vec![3000, 80],
            memory: Some(128),
            services: vec![value_parser::service("name=web,command=new").expect("a good service")],
            ..SandboxFlags::default()
        };
        let flags = SpecFlags {
            sandbox_flags,
            env: vec![("A".into(), "3".into())],
            always_on: true,
            source: Some("https://b/c".into()),
            reference: Some("next".into()),
            source_dir: Some("web".into()),
            dotfiles_ref: Some("v2".into()),
            dotfiles_auth: Some("git.d".into()),
            dotfiles_install: Some(InstallFlag::Stow),
            ..SpecFlags::default()
        };
        let spec =
            flags.apply_to(base, [("A".to_owned(), "2".to_owned()), ("C".to_owned(), "2".to_owned())].into());
        insta::assert_snapshot!(serde_json::to_string(&spec).expect("JSON"), @r#"{"name":"new","ports":[80,3000],"env":{"A":"3","B":"1","C":"2"},"services":[{"name":"web","command":"new","restart":"always","restart_after_task":false}],"limits":{"memory_mb":128,"pids":9},"source":{"url":"https://b/c","ref":"next","auth":{"secret":"git.b"},"depth":1,"dir":"web"},"dotfiles":{"url":"https://d/e","ref":"v2","auth":{"secret":"git.d"},"install":"stow"},"idle_policy":"always_on"}"#);
    }
}
