# Functions of the scripts in this directory, which source it first; it is not run by itself. Changes to the root of
# the repository, and sets the build directory and the directory of pinned tools.
# shellcheck shell=bash

# The path of the script, taken before the change of directory.
script=$(realpath -- "$0")
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$root" || exit

# shellcheck disable=SC2034  # the scripts use it
musl_target=x86_64-unknown-linux-musl
# shellcheck disable=SC2034  # the scripts use it
gnu_target=x86_64-unknown-linux-gnu
# RUSTFLAGS of the programs: without paths of this machine, and for glibc static; for musl they are static anyway.
musl_flags="--remap-path-prefix=${CARGO_HOME:-${HOME:?is not set}/.cargo}=cargo --remap-path-prefix=$root=slipway"
# shellcheck disable=SC2034  # the scripts use it
gnu_flags="$musl_flags -C target-feature=+crt-static"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}"

# Outside the work tree, so that `cargo clean` and a second clone keep the tools, and outside ~/.cargo/bin, so that
# the user's own tools are not replaced.
tools_dir="${SLIPWAY_TOOLS_DIR:-${XDG_CACHE_HOME:-${HOME:?is not set}/.cache}/slipway/tools}"
export PATH="$tools_dir/bin:$PATH"

# Standard output is for results; messages go to standard error.
log() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
  log "$*"
  exit 1
}

# options "$@": for scripts without options. `--help` prints the comment at the top of the script.
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

# missing_packages NAME...: the Debian packages of these that are not installed, one per line.
missing_packages() {
  local name
  for name in "$@"; do
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" == installed ]] || printf '%s\n' "$name"
  done
}

# step NAME COMMAND...: runs the command, logs its duration, and ends the script if it fails.
# The command is a program, not a shell function: inside `||` a function would run without `set -e`.
step() {
  local name=$1 started_s=$SECONDS status=0 end=''
  shift
  log "$name: started"
  within="${within:-}$name/" "$@" || status=$?
  ((status == 0)) || end=' FAILED'
  # Steps of a step are recorded before it, with its name before theirs.
  [[ -z "${timings:-}" ]] ||
    printf '%7d s  %s%s\n' "$((SECONDS - started_s))" "${within:-}$name" "$end" >>"$timings"
  if ((status != 0)); then
    log "$name: FAILED with status $status after $((SECONDS - started_s)) s: $*"
    exit "$status"
  fi
  log "$name: passed in $((SECONDS - started_s)) s"
}

# time_steps: records the duration of every later step, also in subshells and in scripts that are steps, and prints
# them when this script ends, successful or not.
time_steps() {
  timings=$(mktemp)
  export timings
  trap 'print_timings; rm -f -- "$timings"' EXIT
}

print_timings() { cat -- "$timings" >&2; }

# verify_static PROGRAM: ends the script if the program needs a loader or a shared library.
verify_static() {
  local elf
  elf=$(readelf --program-headers --dynamic --wide "$1")
  if grep -qE '\bINTERP\b|\(NEEDED\)' <<<"$elf"; then
    die "$1 is not static: it needs a loader or a shared library"
  fi
}

# instance_of DIRECTORY: the instance name of a hostd whose data directory is below this directory of mktemp.
instance_of() { printf '%s\n' "${1##*[.-]}-apart"; }

# own_instance DIRECTORY NAME: creates a data directory for a hostd of that name, after which its control groups are named.
own_instance() {
  mkdir -p "$1"
  chmod 711 "$1"
  printf '%s\n' "$2" >"$1/instance"
}

# remove_groups NAME: removes the control groups of the ended hostd of that name.
remove_groups() {
  local group tries
  for group in "/sys/fs/cgroup/slipway-$1" /sys/fs/cgroup/*/"slipway-$1"; do
    # Killed processes stay in the groups until they are reaped.
    for ((tries = 0; tries < 100; tries++)); do
      [[ -d "$group" ]] || break
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
    [[ ! -d "$group" ]] || log "could not remove the control group $group"
  done
}

# run_tests PROFILE [WITHIN...]: every test of the workspace, with the profile of that name in .config/nextest.toml
# and in Cargo.toml, within another command if one is given. Compiling is a step of its own; it also builds the program
# that starts the engines which tests share.
run_tests() {
  local profile=$1 directory=$1
  shift
  local command=(cargo nextest run --locked --workspace --profile "$profile")
  if [[ "$profile" == default ]]; then
    directory=debug
  else
    command+=(--cargo-profile "$profile")
  fi
  step compile "${command[@]}" --no-run
  step test "$@" "$CARGO_TARGET_DIR/$directory/shared-engines" "${command[@]}"
}

# install_tool NAME VERSION: installs a cargo tool at exactly that version. Unoptimised, since building takes longer
# than running: cargo-deny builds in 1 minute instead of 3, and still runs in 1 s.
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
