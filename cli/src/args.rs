//! The command line: every command with its help. What a command does is in `commands/`.

use crate::commands::{
    acp, agents, attach, attempts, audit, backup, budget, completions, context, cp, create, down, egress,
    ensure, events, exec, files, fork, forward, get, git, host, image, lifecycle, limits, logs, ls, man, mcp,
    model, ports, preview_link, ps, quota, restore, rm, run, secret, service, services, sh, share, shares,
    snapshot, sync, task, tls, token, unshare, up, webhook,
};
use crate::connection::ConnectionFlags;
use clap::{Parser, Subcommand};

const AFTER_HELP: &str = "\
A sandbox is given by its id, by a unique prefix of its id, or by its name.

By default slipway connects to the hostd of this machine on <data>/hostd.sock, which only root may use; <data> is
SLIPWAY_DATA_DIR or /var/lib/slipway. `slipway context` names others. The first of these counts:
  --context NAME       a context; `local` is the socket of this machine
  SLIPWAY_URL          https://host:port, with SLIPWAY_TOKEN; verified by the system's roots, or by SLIPWAY_CA_FILE (PEM),
                       SLIPWAY_FINGERPRINT (SHA-256), or not at all with SLIPWAY_INSECURE=1
  SLIPWAY_CONTEXT      a context, or `local`
  SLIPWAY_DATA_DIR     the socket in that directory
  the current context  chosen by `slipway context use`
  the local socket
A token is sent to its own address only.

Exit codes: 0 success; 1 refused or failed; 2 wrong arguments; 130 interrupted by Ctrl-C. `exec`, `sh`, `attach`, `run`
and `task follow` exit with the code of the command or agent, see their help.
Start with `slipway up`; if that fails, run `slipway doctor`.";

/// Sandboxes for coding agents and the apps they build.
///
/// Every sandbox has its own files, processes, limits and preview URLs, and its own PID 1 that supervises them.
/// Sandboxes sleep when idle and wake on demand.
#[derive(Debug, Parser)]
#[command(name = "slipway", version, after_help = AFTER_HELP, disable_help_subcommand = false)]
pub struct Args {
    /// Print JSON: the API response as one document, streams as one document per line
    #[arg(long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub connection: ConnectionFlags,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start hostd if needed, and find or create the default sandbox
    ///
    /// hostd runs as root, detached, with its log in the data directory. The sandbox is named `up`, and the next
    /// `slipway up` finds it again. Flags apply only when it is created: `slipway rm up` first to change them.
    Up(up::UpArgs),
    /// Stop the hostd of this machine; sandboxes keep running unless --all
    ///
    /// The next `slipway up` starts it again, and it takes over its sandboxes.
    Down(down::DownArgs),
    /// Create a sandbox, and wait until it runs
    ///
    /// `slipway create web` names it web. Prints its id. A failed create prints why and exits 1; its record stays for
    /// `slipway attempts`.
    Create(create::CreateArgs),
    /// Find the live sandbox with this scope, or create it
    ///
    /// Prints its id when it is ready. Flags apply only to a new sandbox; an existing one is returned unchanged.
    /// Without --scope it is your sandbox of the project.
    Ensure(ensure::EnsureArgs),
    /// List sandboxes
    ///
    /// PORTS are advertised for previews, LISTENING are in use by a process now.
    #[command(visible_alias = "list")]
    Ls(ls::LsArgs),
    /// Show everything about a sandbox
    #[command(alias = "show", alias = "inspect")]
    Get(get::GetArgs),
    /// Run a task with an agent in a new sandbox, show its events, and exit with its code
    ///
    /// `slipway task` does the same in single steps, in an existing sandbox.
    Run(Box<run::RunArgs>),
    /// Submit, list, show, follow and cancel tasks of a sandbox
    ///
    /// Tasks of a sandbox run one after the other. They continue without a client, and when hostd restarts.
    Task(task::TaskArgs),
    /// List coding agents: whether they are installed and have a model
    ///
    /// With a sandbox: the agents installed there, with versions. Missing steps are listed below, with commands.
    Agents(agents::AgentsArgs),
    /// Serve an editor that starts this command: an agent in a sandbox, by the Agent Client Protocol
    Acp(acp::AcpArgs),
    /// Run a command in a sandbox, and exit with its code
    Exec(exec::ExecArgs),
    /// Open a shell in a sandbox, as with ssh
    #[command(visible_aliases = ["ssh", "shell"])]
    Sh(sh::ShArgs),
    /// Attach to a command that was started before, and exit with its code
    ///
    /// Shows its output from the first byte and follows it to the end; a terminal is shown as it is now and takes input.
    /// Exit codes are those of `slipway exec`.
    Attach(attach::AttachArgs),
    /// Copy files and directories into a sandbox, out of it, or between sandboxes
    Cp(cp::CpArgs),
    /// List, read, write, search and edit files of a sandbox
    Files(files::FilesArgs),
    /// Inspect, commit, branch, push and fetch a git repository in a sandbox
    Git(git::GitArgs),
    /// Keep a directory of this machine and one of a sandbox the same, both ways
    Sync(sync::SyncArgs),
    /// Start sandboxes that are stopped or in error
    Start(lifecycle::LifecycleArgs),
    /// Stop sandboxes: memory is freed, files are kept
    Stop(lifecycle::LifecycleArgs),
    /// Freeze sandboxes: memory is kept, no process runs
    Pause(lifecycle::LifecycleArgs),
    /// Resume paused sandboxes
    Resume(lifecycle::LifecycleArgs),
    /// Launch sandboxes again from scratch, keeping only their files
    Recreate(lifecycle::LifecycleArgs),
    /// Destroy sandboxes, with their files unless --keep-workspace
    ///
    /// Running processes are killed. Records and events are kept: see `slipway ls --all` and `slipway events`.
    #[command(visible_aliases = ["delete", "destroy"], alias = "remove")]
    Rm(rm::RmArgs),
    /// List the services of a sandbox
    Services(services::ServicesArgs),
    /// Start, stop or restart a service
    Service(service::ServiceArgs),
    /// Show the log of a service
    ///
    /// The service may be omitted where there is only one. The log includes output before the last restart. Standard
    /// output and standard error are kept apart.
    Logs(logs::LogsArgs),
    /// Show events
    ///
    /// Of one sandbox or of all, oldest first. Destroyed sandboxes keep their events.
    Events(events::EventsArgs),
    /// List the execs of a sandbox, running and ended
    Ps(ps::PsArgs),
    /// List the listening ports of a sandbox
    Ports(ports::PortsArgs),
    /// Forward ports of a sandbox to this machine, until Ctrl-C
    ///
    /// Any TCP protocol, from wherever slipway runs.
    #[command(visible_alias = "port-forward")]
    Forward(forward::ForwardArgs),
    /// Create a link to a private preview, and print its URL
    ///
    /// Anyone with the URL can open the app on that port, and nothing else, until the link expires or is revoked.
    PreviewLink(preview_link::PreviewLinkArgs),
    /// Share a sandbox with colleagues of your tenant, to read or to run
    ///
    /// They find it in `slipway ls` and use it by its name. Shared to run does not include: destroy, recreate, rename,
    /// share, links, egress rules, limits and lifetime. Repeated, it changes what the share allows.
    Share(share::ShareArgs),
    /// End shares of a sandbox: streams, terminals and tunnels of those principals end at once
    Unshare(unshare::UnshareArgs),
    /// List with whom a sandbox is shared
    Shares(shares::SharesArgs),
    /// Show or change the egress rules of a sandbox
    ///
    /// Changes apply at once: open connections that are now denied end. Denials are events: slipway events --kind egress.
    Egress(egress::EgressArgs),
    /// Show resource use of running sandboxes; on a terminal until Ctrl-C
    Top,
    /// Show or change the memory, CPU and process limits of a sandbox
    ///
    /// New limits are in force at once, also for a sandbox that is paused, and stay for later starts.
    Limits(limits::LimitsArgs),
    /// List the attempts to launch a sandbox, and why they failed
    Attempts(attempts::AttemptsArgs),
    /// Take, list, verify, restore and remove snapshots of sandboxes
    Snapshot(snapshot::SnapshotArgs),
    /// Make sandboxes with the files of a snapshot, or of a sandbox as it is now
    ///
    /// Image, limits, ports, services and network are those of the first sandbox; its environment, tokens, shares and
    /// holds are not carried over.
    Fork(fork::ForkArgs),
    /// Import, list and remove images
    Image(image::ImageArgs),
    /// Add, list and remove model providers
    ///
    /// Agents call models through hostd, which alone has the keys.
    Model(model::ModelArgs),
    /// List the models that tasks may use
    Models,
    /// Set, list and remove model budgets of tenants
    Budget(budget::BudgetArgs),
    /// Set, list and remove secrets of a tenant
    ///
    /// Credentials that other resources refer to by name, as in `slipway model add anthropic --key-secret NAME`. Stored
    /// encrypted and never shown. For admins of the tenant.
    Secret(secret::SecretArgs),
    /// Add, choose, list and remove contexts: named addresses of hostd, each with its token
    ///
    /// One machine drives several hosts: a command goes to the current context, or to that of --context.
    Context(context::ContextArgs),
    /// Set, show and remove quotas of tenants and principals
    ///
    /// A principal is bound by its own quota and by that of its tenant.
    Quota(quota::QuotaArgs),
    /// Create, list and revoke API tokens
    Token(token::TokenArgs),
    /// Add, list, test and remove webhooks: endpoints that are told of events
    ///
    /// Deliveries are signed, sent at least once and in the order of each sandbox, and repeated when they fail. For admins
    /// of the tenant.
    Webhook(webhook::WebhookArgs),
    /// Show the audit log: who changed what, and who was refused
    ///
    /// For admins of the tenant.
    Audit(audit::AuditArgs),
    /// Make a certificate for the API
    Tls(tls::TlsArgs),
    /// Show the load, memory and disk of the host, and what each sandbox costs; for the operator
    ///
    /// While memory or disk is not `ok`, creates and wakes are refused. A dash is a number that is not known, or a sandbox
    /// that does not run.
    Host(host::HostArgs),
    /// Back the host up into one encrypted file, while it runs; for the operator
    Backup(backup::BackupArgs),
    /// Restore a backup on this machine, or check one, while no hostd runs
    Restore(restore::RestoreArgs),
    /// List the drivers of this host, and what is missing for those that are not usable
    ///
    /// The default has a star. Names of other tools are listed with the driver to use instead.
    Drivers,
    /// List resources that carry marks of this hostd but fail its checks
    ///
    /// Containers with copied or incomplete labels, directories with a broken badge. hostd never touches them: inspect
    /// each, and remove it with the tools of its backend. For the operator of the host.
    Stale,
    /// Check the requirements of this machine, and print how to fix what is missing
    ///
    /// Works without hostd. Exits 1 when a requirement is missing.
    Doctor,
    /// Print the completion script of a shell: for commands, flags, sandboxes, tasks and services
    ///
    /// Install it where the shell looks for it, as in
    /// `slipway completions bash > /usr/share/bash-completion/completions/slipway`.
    Completions(completions::CompletionsArgs),
    /// Serve the Model Context Protocol on standard input and output, for desktop clients
    ///
    /// Its tools create and use sandboxes, with the rights of the token. A restart of hostd goes unnoticed. Clients that
    /// speak HTTP need no command: the same is served at `/mcp` of hostd.
    Mcp(mcp::McpArgs),
    /// Show the versions of slipway and hostd
    Version,
    /// Write the manual pages of all commands into a directory
    #[command(hide = true)]
    Man(man::ManArgs),
}

impl Command {
    /// Returns whether the exit code is that of a command in a sandbox, so that own failures need another code.
    pub fn runs_commands(&self) -> bool {
        matches!(self, Self::Exec(_) | Self::Sh(_) | Self::Attach(_) | Self::Run(_))
            || matches!(self, Self::Task(args) if args.follows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_and_flag_has_help() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Args::command());
    }
}
