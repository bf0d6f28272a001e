//! Decisions of hostd, pure: no IO, no clock, no `await`; time is an argument. The crate has no dependency that does
//! IO, and its clippy.toml bans the parts of `std` that do.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

mod access;
mod api_token;
mod app_port;
mod blueprint;
pub mod budget;
pub mod connection_admission;
mod container_state;
mod cookie;
mod credential;
mod death;
mod disk_limit;
mod disk_room;
mod dotfiles;
mod drift;
mod driver_name;
mod duration;
pub mod edge;
pub mod egress;
mod error_page;
mod expiry;
mod file_link;
mod git_isolation;
mod git_output;
mod git_push_commands;
mod git_ref;
mod git_ref_advertisement;
mod git_remote;
mod grant;
pub mod http2_watch;
mod idle;
mod idle_traffic;
mod image_env;
pub mod json_schema;
mod known_hosts;
pub mod limits;
mod memory_admission;
mod memory_pressure;
mod model_choice;
mod pid_namespace;
mod plan;
mod preview;
mod preview_pass;
mod preview_pass_url;
mod provision;
mod quota;
mod rate_limit;
mod reap;
mod restart_queue;
mod retry;
mod sandbox;
mod sandbox_name;
mod signal_name;
mod situation;
mod source;
mod task;
mod task_changes;
mod task_line;
mod task_outcome;
mod task_revert;
mod timestamp;
mod valid_json;
pub mod webhook;

pub use access::{Access, Grantee, Identity, SandboxAccess, Share};
pub use api_token::{bearer, is_well_formed_token, token_hash};
pub use app_port::AppPort;
pub use blueprint::{
    Blueprint, Defaults, Environment, applied_limits, blueprint, check_changed_limits, check_egress,
    check_metadata, check_name, larger_limits, resolve_network, split_environment,
};
pub use budget::{Account, BudgetBounds, Spend};
pub use container_state::{ContainerState, Handle};
pub use cookie::{make_cookies_host_only, pass_cookie, pass_cookies, strip_pass_cookies};
pub use credential::{ADMIN_PREFIX, CLIENT_TOKEN_PREFIX, CredentialScanner, E2B_TOKEN_PREFIX, TOKEN_PREFIX};
pub use death::Death;
pub use disk_limit::DiskLimitWatch;
pub use disk_room::{DiskSample, DiskThresholds, Growth, fastest_growing};
pub use dotfiles::{DOTFILES_DIR, DotfilesEntry, DotfilesPrograms, InstallDecision, decide_install};
pub use drift::{Drift, drift, restarted};
pub use driver_name::{UNSUPPORTED_DRIVERS, unsupported_driver};
pub use duration::{parse_duration_ms, rfc3339};
#[cfg(any(test, feature = "test-support"))]
pub use error_page::test_cases as error_page_cases;
pub use error_page::{
    ErrorPage, LogExcerpt, NoResponse, OtherPreview, PreviewFacts, WaitMode, WaitProgress, explain,
    is_reachable_from_preview, progress,
};
pub use expiry::{Expiry, expiry, expiry_after, ttl_ms};
pub use file_link::{FileLink, FileLinkSigner};
pub use git_isolation::GIT_ISOLATION;
pub use git_output::{
    LOG_FORMAT as GIT_LOG_FORMAT, parse_log as parse_git_log, parse_status as parse_git_status,
};
pub use git_push_commands::{
    PUSH_COMMANDS_MAX_BYTES, PushCommands, PushRefused, check_push_commands, packet_length, pushed_commit,
};
pub use git_ref::{BRANCH_MAX_BYTES, BranchName, InvalidRef, Revision};
pub use git_ref_advertisement::AdvertisedBranch;
pub use git_remote::{GitProvider, GitRemote, GitTransport, InvalidRemote, REMOTE_MAX_BYTES, login_of};
pub use grant::{GrantTerms, GrantedModel};
pub use idle::{DOZE_MAX_WINDOWS, IdleTimes, IdleWindow, SleepDecision, idle_inside_ms};
pub use idle_traffic::HeartbeatDetector;
pub use image_env::image_env;
pub use known_hosts::{HostKeyVerdict, check_host_key, known_host_name, known_key_types, split_key_secret};
pub use memory_admission::{Admissions, Headroom, expected_need};
pub use memory_pressure::{
    Attachment, MemoryCondition, MemorySample, MemoryStalls, MemoryThresholds, Occupation, OpenStreams,
    Relief, ReliefCandidate, STREAMS_IDLE_MIN_MS, may_pause_for_memory, may_stop_for_memory, relief,
};
pub use model_choice::{
    ListedModel, choose_default_model, highest_model, missing_models, model_version, newest_model,
};
pub use pid_namespace::{PidNamespace, SandboxProcesses, is_in_other_namespace};
pub use plan::{Desired, DriverVerb, Observed, PlanStep, plan};
pub use preview::{Preview, Previews, Scheme};
pub use preview_pass::{LinkId, PASS_PREFIX, PassError, PassPurpose, PassSigner, PreviewPass};
pub use preview_pass_url::{
    PATH_MAX_BYTES as PREVIEW_PATH_MAX_BYTES, StrippedUrl, strip_passes, url_with_pass,
};
pub use provision::{
    ClonePurpose, Dotfiles, DotfilesFormat, DotfilesFrom, NextStep, ProvisionStep, Provisioning, SetupStep,
    progress_line, provision_steps, redact_lines, resolve_dotfiles, setup_argv, setup_env, step_problem,
};
pub use quota::{
    CPUS_LIMIT_MAX as QUOTA_CPUS_MAX, Demand, DiskUse, HOLDERS_MAX, LIMIT_MAX as QUOTA_LIMIT_MAX, QuotaBook,
    QuotaExceeded, Shortage, Usage, binds, check_quota, counts_as_up, cpus_milli, limit_of, parse_quota,
    validate_quota,
};
pub use rate_limit::{Rate, RateLimiter};
pub use reap::{RecordOf, reap_reason};
pub use restart_queue::RestartQueue;
pub use retry::{Backoff, FailureKind, RetryDecision, classify_error_kind, classify_status, decide_retry};
pub use sandbox::{Goal, Operation, Renewal, State, Transition, TransitionRefused, apply};
pub use sandbox_name::{alternative_names, generated_name};
pub use situation::{DriftCause, PlanDecision, Retry, RunChange, Situation, VerbOutcome, Wait, no_answer};
pub use source::{GIT_FSCK_OPTIONS, Source, clone_argv, clone_env, clone_mark, clone_problem};
pub use task::{Delivery, TaskEnding, TaskFacts, TaskStep, explain_loss, task_step};
pub use task_changes::{ChangesRecord, ChangesSummary, FileChangeRecord, TaskChanges};
pub use task_line::{BadTaskLine, TaskFrames, TaskLine, TaskUpdate};
pub use task_outcome::{FailedProvider, ModelActivity, ModelFailure, explain_provider_failure, final_result};
pub use task_revert::{RevertedFiles, TaskRevertOutcome, is_path_below};
pub use timestamp::parse_rfc3339;
