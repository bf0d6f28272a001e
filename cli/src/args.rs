//! The command line.

use crate::commands::{
    agents, attach, attempts, budget, completions, cp, create, down, egress, ensure, events, exec, get,
    image, lifecycle, logs, ls, model, ports, preview_link, ps, rm, run, service, services, sh, task, token,
    up,
};
use clap::{Parser, Subcommand};

const AFTER_HELP: &str = "\
A sandbox is named by its id, by the beginning of it where that is unique, or by its name.

Without more, slipway talks to the hostd of this machine on <data>/hostd.sock, which only root may use; <data> is
SLIPWAY_DATA_DIR or /var/lib/slipway. With SLIPWAY_URL=http://host:port and SLIPWAY_TOKEN it talks to any hostd.

Exit codes: 0 done; 1 refused or failed; 2 wrong arguments; 130 ended by Ctrl-C. `exec`, `sh`, `attach`, `run` and
`task follow` exit as the command or the agent did, see there.
Start with `slipway up`, or with `slipway doctor` when that does not work.";

/// Sandboxes for coding agents and the apps they build.
///
/// Every sandbox has its own files, processes, limits and preview addresses, and its own PID 1 that
/// watches all of it. They sleep when nothing happens in them and wake when someone needs them.
#[derive(Debug, Parser)]
#[command(name = "slipway", version, after_help = AFTER_HELP, disable_help_subcommand = false)]
pub struct Args {
    /// Print JSON for programs: what the API answered as one document, streams as one document a line
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start hostd when it does not run, and get a sandbox ready to use
    ///
    /// Hostd runs as root, detached, with its log in the data directory. The sandbox is yours and is called `up`:
    /// the next `slipway up` finds it again. Flags count when it is made: `slipway rm` the old one to change them.
    Up(up::UpArgs),
    /// Stop the hostd of this machine; sandboxes keep running unless told otherwise
    ///
    /// The next `slipway up` starts it again, and it finds its sandboxes as they are then.
    Down(down::DownArgs),
    /// Make a sandbox, and wait until it runs
    ///
    /// `slipway create web` calls it web. Prints its id. A create that fails says why and exits 1; the record stays, for `slipway attempts`.
    Create(create::CreateArgs),
    /// Find the live sandbox with this scope, or make it
    ///
    /// Prints its id when it is awake and well. One that exists is given as it is: only a new one is made as the
    /// flags say. Without --scope it is the one that you have for the project.
    Ensure(ensure::EnsureArgs),
    /// List sandboxes
    ///
    /// PORTS are those whose previews are advertised, LISTENING those that something listens on now.
    #[command(visible_alias = "list")]
    Ls(ls::LsArgs),
    /// Show everything about a sandbox
    #[command(alias = "show", alias = "inspect")]
    Get(get::GetArgs),
    /// Let an agent do a task in a sandbox of its own, show what it does, and exit as it does
    ///
    /// The shortest way from a prompt to a result. `slipway task` does the same in steps.
    Run(Box<run::RunArgs>),
    /// Submit, list, show, follow and cancel tasks of a sandbox
    ///
    /// Tasks of a sandbox are done one after the other. They go on when nobody looks, and when hostd restarts.
    Task(task::TaskArgs),
    /// List the agents that can do tasks: whether they are installed, and whether there is a model for them
    ///
    /// With a sandbox: those that it has, and their versions. What is missing is said below, with what to type.
    Agents(agents::AgentsArgs),
    /// Run a command in a sandbox, and exit as it does
    Exec(exec::ExecArgs),
    /// Open a shell in a sandbox, as with ssh
    #[command(visible_aliases = ["ssh", "shell"])]
    Sh(sh::ShArgs),
    /// Show the output of a command that was started before, and exit as it does
    ///
    /// Shows all of it from the first byte, and follows it to its end; a terminal as it is now, to be typed into. Exit codes are those of `slipway exec`.
    Attach(attach::AttachArgs),
    /// Start sandboxes that are stopped, or that failed
    Start(lifecycle::LifecycleArgs),
    /// Stop sandboxes: memory is freed, files are kept
    Stop(lifecycle::LifecycleArgs),
    /// Freeze sandboxes: memory is kept, nothing runs
    Pause(lifecycle::LifecycleArgs),
    /// Let paused sandboxes go on
    Resume(lifecycle::LifecycleArgs),
    /// Bring sandboxes up again from nothing but their files
    Recreate(lifecycle::LifecycleArgs),
    /// Destroy sandboxes, with their files unless told otherwise
    ///
    /// Whatever they are doing: what runs in them is ended. The record of what happened is kept, see
    /// `slipway ls --all` and `slipway events`.
    #[command(visible_aliases = ["delete", "destroy"], alias = "remove")]
    Rm(rm::RmArgs),
    /// List the services of a sandbox
    Services(services::ServicesArgs),
    /// Start, stop or restart a service
    Service(service::ServiceArgs),
    /// Show what a service printed
    ///
    /// Of the only service, where none is named. Also from before its last restart. Standard output and standard error go where they went in the sandbox.
    Logs(logs::LogsArgs),
    /// Show what happened
    ///
    /// Of one sandbox or of all of them, oldest first. Destroyed ones keep their events.
    Events(events::EventsArgs),
    /// List the commands of a sandbox, running and ended
    Ps(ps::PsArgs),
    /// List the ports that something listens on in a sandbox
    Ports(ports::PortsArgs),
    /// Make a link that opens a private preview, and print its address
    ///
    /// Whoever has the address sees the app on that port until the link expires or is revoked, and nothing else.
    PreviewLink(preview_link::PreviewLinkArgs),
    /// Show or change what a sandbox may reach through the proxy
    ///
    /// In force at once: what is open and now denied ends. Denials are events: slipway events --kind egress.
    Egress(egress::EgressArgs),
    /// Show what running sandboxes use; goes on until Ctrl-C on a terminal
    Top,
    /// List the tries to bring a sandbox up, and why they failed
    Attempts(attempts::AttemptsArgs),
    /// Import, list and remove images
    Image(image::ImageArgs),
    /// Add, list and remove providers of models
    ///
    /// Agents reach their models through hostd, which alone has the keys.
    Model(model::ModelArgs),
    /// List the models that tasks may use
    Models,
    /// Bound what the tasks of a tenant may use of models
    Budget(budget::BudgetArgs),
    /// Make, list and revoke tokens
    Token(token::TokenArgs),
    /// List the drivers: what runs sandboxes here, what could, and what is missing for it
    ///
    /// The default has a star. Names that people know from elsewhere are listed with what to use instead.
    Drivers,
    /// List what drivers find that carries our marks and is not ours
    ///
    /// Containers with copied or incomplete labels, directories with a broken badge. hostd never touches them:
    /// look at each, and take it away with the tools of its backend. For the operator of the host.
    Stale,
    /// Check what this machine has and what it lacks, and say how to fix it
    ///
    /// Works without hostd. Exits 1 when something that is needed is missing.
    Doctor,
    /// Print the completions of a shell: of commands and flags, and of your sandboxes, tasks and services
    ///
    /// Put them where the shell looks for them, as in
    /// `slipway completions bash > /usr/share/bash-completion/completions/slipway`.
    Completions(completions::CompletionsArgs),
    /// Show the version of slipway, and of hostd where one answers
    Version,
    /// There is no cp: says what to use instead
    #[command(hide = true, disable_help_flag = true)]
    Cp(cp::CpArgs),
}

impl Command {
    /// Whether the exit code belongs to a command in a sandbox, so that our own failures need another.
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
