#!/bin/sh
# Installs Slipway from this directory, an unpacked tarball, and upgrades an earlier version. Sandboxes keep running.
#
# usage: ./install.sh [--prefix DIR] [--uninstall]
#   --prefix DIR   where programs, manual pages and documents go; /usr/local by default
#   --uninstall    removes what was installed there; keeps the data directory, and the configuration if it was changed
#
# As root it also installs the systemd unit, /etc/slipway/slipway.toml and a file of sysctl settings. Another user, with
# a prefix of its own, gets the programs and their pages: enough for `slipway` with a hostd on another machine.
set -eu
umask 022
export LC_ALL=C
here=$(cd -- "$(dirname -- "$0")" && pwd)
prefix=/usr/local uninstall='' config=/etc/slipway/slipway.toml

say() { printf 'install.sh: %s\n' "$*"; }
die() {
  say "$*" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case "$1" in
    --prefix) [ $# -ge 2 ] || die "--prefix needs a directory (see --help)" && prefix=$2 && shift 2 ;;
    --uninstall) uninstall=1 && shift ;;
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) say "unknown argument $1 (see --help)" >&2 && exit 64 ;;
  esac
done
case "$prefix" in
  /?*) prefix=${prefix%/} ;;
  *) die "--prefix must be an absolute path, not $prefix" ;;
esac
case "$prefix" in *[!A-Za-z0-9/._+-]*) die "--prefix may hold letters, digits and /._+- only, not $prefix" ;; esac

# The list of files and directories that were installed; a directory ends in a slash.
own="$prefix/share/slipway" root='' units=/etc/systemd/system sysctl=/etc/sysctl.d
[ "$(id -u)" -ne 0 ] || root=1
# Elsewhere systemd does not look.
[ "$prefix" != /usr/local ] || units=$prefix/lib/systemd/system sysctl=$prefix/lib/sysctl.d
nearest=$prefix
while [ ! -d "$nearest" ]; do nearest=$(dirname -- "$nearest"); done
[ -w "$nearest" ] || die "may not write to $nearest: run it as root, or with a --prefix of your own"
[ -z "$root" ] || [ "$(dpkg-query -W -f='${db:Status-Status}' slipway 2>/dev/null)" != installed ] ||
  die "the Debian package slipway is installed: apt-get remove slipway first"

# Where systemd runs, and the unit is ours to change.
systemd() { [ -n "$root" ] && [ -d /run/systemd/system ]; }

make_directory() {
  [ ! -d "$1" ] || return 0
  make_directory "$(dirname -- "$1")"
  mkdir -- "$1"
  printf '%s/\n' "$1" >>"$list"
}

# place FILE TARGET MODE: by a rename, so that a program that runs keeps its file, and no reader sees half of one.
place() {
  make_directory "$(dirname -- "$2")"
  cp -- "$1" "$2.part"
  chmod "$3" "$2.part"
  mv -f -- "$2.part" "$2"
  printf '%s\n' "$2" >>"$list"
}

# Never overwrites a configuration that was changed: compares it with the one that was installed with it.
place_configuration() {
  if [ ! -e "$config" ] || cmp -s -- "$config" "$own/slipway.toml"; then
    place "$here/etc/slipway.toml" "$config" 644
  elif ! cmp -s -- "$config" "$here/etc/slipway.toml"; then
    place "$here/etc/slipway.toml" "$config.new" 644
    say "kept $config, which was changed; the new defaults are in $config.new"
  fi
}

# Removes the files of the list, then the directories that they leave empty.
remove_listed() {
  sort -r -- "$list" >"$work/reverse"
  while read -r path; do
    case "$path" in */ | "$config") ;; *) rm -f -- "$path" ;; esac
  done <"$work/reverse"
  while read -r path; do
    case "$path" in */) rmdir -- "$path" 2>/dev/null || true ;; esac
  done <"$work/reverse"
}

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
list=$work/list
: >"$list"

if [ -n "$uninstall" ]; then
  [ -e "$own/installed" ] || die "nothing is installed in $prefix: there is no $own/installed"
  data=$(sed -n 's/^data_dir *= *"\(.*\)".*/\1/p' "$config" 2>/dev/null || true)
  data=${data:-/var/lib/slipway}
  if systemd; then
    systemctl --quiet disable --now slipway.service || die "could not stop hostd: see systemctl status slipway"
    say "hostd is stopped; sandboxes that run keep running"
  fi
  if [ -n "$root" ] && [ -e "$config" ]; then
    if cmp -s -- "$config" "$own/slipway.toml"; then rm -f -- "$config"; else say "kept $config, which was changed"; fi
  fi
  cp -- "$own/installed" "$list"
  remove_listed
  ! systemd || systemctl daemon-reload
  [ -z "$root" ] || [ ! -d "$data" ] ||
    say "kept every sandbox in $data; to remove them, with nothing mounted there: rm -r --one-file-system $data"
  exit 0
fi

(cd -- "$here" && sha256sum --check --quiet SHA256SUMS) || die "the files beside it are not those of the release"
[ -z "$root" ] || place_configuration
(cd -- "$here" && find bin share -type f | sort) >"$work/files"
while read -r file; do
  case "$file" in bin/*) mode=755 ;; *) mode=644 ;; esac
  place "$here/$file" "$prefix/$file" "$mode"
done <"$work/files"
if [ -n "$root" ]; then
  sed "s|@PREFIX@|$prefix|g" "$here/etc/slipway.service.in" >"$work/unit"
  place "$work/unit" "$units/slipway.service" 644
  place "$here/etc/60-slipway.conf" "$sysctl/60-slipway.conf" 644
fi
place "$here/etc/slipway.toml" "$own/slipway.toml" 644
printf '%s\n' "$own/installed" >>"$list"
# Of an earlier version: files that this one does not have go; directories that it made, and a new configuration, stay.
if [ -e "$own/installed" ]; then
  sort -u -- "$own/installed" >"$work/old"
  sort -u -- "$list" >"$work/new"
  comm -23 -- "$work/old" "$work/new" >"$work/only-old"
  while read -r path; do
    case "$path" in
      */ | "$config" | "$config.new") printf '%s\n' "$path" >>"$list" ;;
      *) rm -f -- "$path" ;;
    esac
  done <"$work/only-old"
fi
cp -- "$list" "$own/installed"
say "installed $("$prefix/bin/slipway" --version) in $prefix"
if systemd; then
  systemctl daemon-reload
  sysctl --quiet --load "$sysctl/60-slipway.conf" 2>/dev/null || say "could not set what $sysctl/60-slipway.conf has"
  systemctl try-restart slipway.service
  systemctl --quiet is-active slipway.service || say "to start hostd, now and at boot: systemctl enable --now slipway"
fi
