# Shared by the scripts beside it, which source it first; never run by itself. Goes to the repository's
# root, settles where cargo builds and where pinned tools live, and holds what the scripts say with.
# shellcheck shell=bash

# Where the script is, before the change of directory.
script=$(realpath -- "$0")
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$root" || exit

# shellcheck disable=SC2034  # the scripts use it
musl_target=x86_64-unknown-linux-musl
# shellcheck disable=SC2034  # the scripts use it
gnu_target=x86_64-unknown-linux-gnu
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}"

# Outside the work tree, so that `cargo clean` and a second clone keep the tools, and outside
# ~/.cargo/bin, so that nobody's own tools are replaced.
tools_dir="${SLIPWAY_TOOLS_DIR:-${XDG_CACHE_HOME:-${HOME:?is not set}/.cache}/slipway/tools}"
export PATH="$tools_dir/bin:$PATH"

# Standard output is for results: what a script says goes to standard error.
log() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
  log "$*"
  exit 1
}

# options "$@": for scripts that take none. `--help` prints the comment the script opens with.
options() {
  case "${1:-}" in
    '') ;;
    -h | --help)
      sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script"
      exit 0
      ;;
    *)
      log "unknown argument $1 (see --help)"
      exit 64
      ;;
  esac
}

# step NAME COMMAND...: runs the command, says how long it took, ends the script when it fails.
# The command is a program, not a shell function: inside `||` a function would run without `set -e`.
step() {
  local name=$1 started_s=$SECONDS status=0
  shift
  log "$name: started"
  "$@" || status=$?
  if ((status != 0)); then
    log "$name: FAILED with status $status after $((SECONDS - started_s)) s: $*"
    exit "$status"
  fi
  log "$name: passed in $((SECONDS - started_s)) s"
  [[ -z "${timings:-}" ]] || printf '%7d s  %s\n' "$((SECONDS - started_s))" "$name" >>"$timings"
}

# time_steps: from now on the time of each step is kept, also of those in subshells; when the script ends, whether
# in order or not, the times are printed.
time_steps() {
  timings=$(mktemp)
  trap 'cat -- "$timings" >&2; rm -f -- "$timings"' EXIT
}

# instance_of DIRECTORY: the name of a hostd that lives in a directory of mktemp.
instance_of() { printf '%s\n' "${1##*[.-]}-apart"; }

# own_instance DIRECTORY NAME: makes a data directory for a hostd of that name. Its control groups are named after it.
own_instance() {
  mkdir -p "$1"
  chmod 711 "$1"
  printf '%s\n' "$2" >"$1/instance"
}

# remove_groups NAME: removes the control groups of the hostd of that name, which has ended.
remove_groups() {
  local group tries
  for group in "/sys/fs/cgroup/slipway-$1" /sys/fs/cgroup/*/"slipway-$1"; do
    # What was killed a moment ago is in them until it is gone.
    for ((tries = 0; tries < 100; tries++)); do
      [[ -d "$group" ]] || break
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
    [[ ! -d "$group" ]] || log "could not remove the control group $group"
  done
}

# install_tool NAME VERSION: a cargo tool at exactly that version. Unoptimised, because it is built
# more often than it is waited for: cargo-deny takes 1 minute instead of 3, and still answers in 1 s.
install_tool() {
  local name=$1 version=$2
  if [[ "$("$tools_dir/bin/$name" --version 2>/dev/null)" == "$name $version" ]]; then
    return
  fi
  log "installing $name $version"
  env -u CARGO_TARGET_DIR \
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 CARGO_PROFILE_RELEASE_DEBUG=0 \
    cargo install --quiet --locked --force --root "$tools_dir" --version "$version" "$name"
}
