//! The table of system calls, which both forms of the filter are made from. A call that is not listed fails
//! with ENOSYS, so that libraries fall back to one that exists.
//!
//! Allows what common programs, compilers, databases and debuggers use; nothing that creates namespaces,
//! mounts, loads code into the kernel or reaches large, young parts of it: `bpf`, `io_uring`, `userfaultfd`,
//! `perf_event_open`, keys.

use nix::libc;

/// Pairs of name and number; the names carry `SYS_`.
macro_rules! calls {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}

/// Allowed with any arguments.
pub const ALLOWED: &[(&str, i64)] = calls! {
    // Files and directories.
    SYS_chdir SYS_close SYS_close_range SYS_copy_file_range SYS_dup SYS_dup3 SYS_faccessat SYS_faccessat2
    SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat
    SYS_fcntl SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock SYS_fremovexattr SYS_fsetxattr
    SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_getcwd SYS_getdents64 SYS_getxattr SYS_ioctl
    SYS_lgetxattr SYS_linkat SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lseek SYS_lsetxattr
    SYS_mkdirat SYS_mknodat SYS_name_to_handle_at SYS_newfstatat SYS_openat SYS_openat2 SYS_pread64
    SYS_preadv SYS_preadv2 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead SYS_readlinkat
    SYS_readv SYS_removexattr SYS_renameat SYS_renameat2 SYS_sendfile SYS_setxattr SYS_splice SYS_statfs
    SYS_statx SYS_symlinkat SYS_sync SYS_sync_file_range SYS_syncfs SYS_tee SYS_truncate SYS_umask
    SYS_unlinkat SYS_utimensat SYS_vmsplice SYS_write SYS_writev
    // Waiting for files, and old asynchronous input and output.
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_fanotify_mark
    SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_io_cancel SYS_io_destroy
    SYS_io_getevents SYS_io_setup SYS_io_submit SYS_pipe2 SYS_ppoll SYS_pselect6 SYS_signalfd4
    // Memory.
    SYS_brk SYS_get_mempolicy SYS_madvise SYS_mbind SYS_membarrier SYS_memfd_create SYS_memfd_secret
    SYS_mincore SYS_mlock SYS_mlock2 SYS_mlockall SYS_mmap SYS_mprotect SYS_mremap SYS_mseal SYS_msync
    SYS_munlock SYS_munlockall SYS_munmap SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect
    SYS_process_madvise SYS_process_mrelease SYS_remap_file_pages SYS_set_mempolicy
    SYS_set_mempolicy_home_node
    // Processes, threads and scheduling.
    SYS_capget SYS_capset SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_futex SYS_futex_waitv
    SYS_get_robust_list SYS_getcpu SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups SYS_getpgid SYS_getpid
    SYS_getppid SYS_getpriority SYS_getresgid SYS_getresuid SYS_getrlimit SYS_getrusage SYS_getsid
    SYS_gettid SYS_getuid SYS_ioprio_get SYS_ioprio_set SYS_kcmp SYS_kill SYS_nanosleep SYS_pidfd_getfd
    SYS_pidfd_open SYS_pidfd_send_signal SYS_prctl SYS_prlimit64 SYS_process_vm_readv
    SYS_process_vm_writev SYS_ptrace SYS_restart_syscall SYS_rseq SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam
    SYS_sched_getscheduler SYS_sched_rr_get_interval SYS_sched_setaffinity SYS_sched_setattr
    SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield SYS_seccomp SYS_set_robust_list
    SYS_set_tid_address SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_setpgid SYS_setpriority
    SYS_setregid SYS_setresgid SYS_setresuid SYS_setreuid SYS_setrlimit SYS_setsid SYS_setuid SYS_tgkill
    SYS_times SYS_tkill SYS_wait4 SYS_waitid
    // Signals.
    SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigqueueinfo SYS_rt_sigreturn
    SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo SYS_sigaltstack
    // Time.
    SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_getitimer SYS_gettimeofday SYS_setitimer
    SYS_timer_create SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime
    SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime
    // Sockets; which kinds, see `CONDITIONAL`.
    SYS_accept SYS_accept4 SYS_bind SYS_connect SYS_getpeername SYS_getsockname SYS_getsockopt SYS_listen
    SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_setsockopt SYS_shutdown
    // IPC, and facts about the machine.
    SYS_getrandom SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self
    SYS_mq_getsetattr SYS_mq_notify SYS_mq_open SYS_mq_timedreceive SYS_mq_timedsend SYS_mq_unlink
    SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd SYS_semctl SYS_semget SYS_semop SYS_semtimedop SYS_shmat
    SYS_shmctl SYS_shmdt SYS_shmget SYS_sysinfo SYS_uname
};

/// Like `ALLOWED`, for calls that only old architectures have, or of which only they have a number in `libc`
/// (`fchmodat2`).
#[cfg(target_arch = "x86_64")]
pub const ALLOWED_OLD: &[(&str, i64)] = calls! {
    SYS_access SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_futimesat SYS_getdents SYS_lchown SYS_link
    SYS_lstat SYS_mkdir SYS_mknod SYS_open SYS_readlink SYS_rename SYS_rmdir SYS_stat SYS_symlink
    SYS_unlink SYS_utime SYS_utimes SYS_epoll_create SYS_epoll_ctl_old SYS_epoll_wait SYS_epoll_wait_old
    SYS_eventfd SYS_fchmodat2 SYS_inotify_init SYS_pipe SYS_poll SYS_select SYS_signalfd SYS_alarm SYS_arch_prctl
    SYS_fork SYS_get_thread_area SYS_getpgrp SYS_modify_ldt SYS_pause SYS_set_thread_area SYS_time
    SYS_vfork
};
#[cfg(not(target_arch = "x86_64"))]
pub const ALLOWED_OLD: &[(&str, i64)] = &[];

/// Like `REFUSED`, for calls that only old architectures have.
#[cfg(target_arch = "x86_64")]
pub const REFUSED_OLD: &[(&str, i64)] = calls! {
    SYS_iopl SYS_ioperm
};
#[cfg(not(target_arch = "x86_64"))]
pub const REFUSED_OLD: &[(&str, i64)] = &[];

/// Calls that need a privilege no process has: refused with EPERM, as the kernel would.
pub const REFUSED: &[(&str, i64)] = calls! {
    SYS_acct SYS_adjtimex SYS_chroot SYS_clock_adjtime SYS_clock_settime SYS_delete_module
    SYS_finit_module SYS_fsconfig SYS_fsmount SYS_fsopen SYS_fspick SYS_init_module SYS_kexec_file_load
    SYS_kexec_load SYS_mount SYS_mount_setattr SYS_move_mount SYS_open_by_handle_at SYS_open_tree
    SYS_pivot_root SYS_quotactl SYS_reboot SYS_setdomainname SYS_sethostname SYS_setns SYS_settimeofday
    SYS_swapoff SYS_swapon SYS_syslog SYS_umount2 SYS_unshare SYS_vhangup
};

/// A condition on one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgCondition {
    Equals(u64),
    AtLeast(u64),
    /// All of these bits are clear.
    Clear(u64),
    /// All of these bits are set.
    Set(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyscallAction {
    Allow,
    /// Fails with this error number.
    Refuse(u16),
}

pub const EPERM: u16 = libc::EPERM as u16;
pub const ENOSYS: u16 = libc::ENOSYS as u16;
const EAFNOSUPPORT: u16 = libc::EAFNOSUPPORT as u16;

/// Flags of `clone` that create a namespace: cgroup, mount, uts, ipc, user, pid, net. (The bit of the time
/// namespace means something else to `clone`; it is for `clone3`, which does not exist here.)
const NAMESPACES: [u64; 7] =
    [0x0200_0000, 0x0002_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
const ANY_NAMESPACE: u64 = 0x7e02_0000;

/// Calls that depend on an argument: name, number, action, index of the argument, and conditions, any of
/// which suffices. Without a match the call does not exist.
pub const CONDITIONAL: &[(&str, i64, SyscallAction, u8, &[ArgCondition])] = &[
    ("SYS_clone", libc::SYS_clone, SyscallAction::Allow, 0, &[ArgCondition::Clear(ANY_NAMESPACE)]),
    (
        "SYS_clone",
        libc::SYS_clone,
        SyscallAction::Refuse(EPERM),
        0,
        &[
            ArgCondition::Set(NAMESPACES[0]),
            ArgCondition::Set(NAMESPACES[1]),
            ArgCondition::Set(NAMESPACES[2]),
            ArgCondition::Set(NAMESPACES[3]),
            ArgCondition::Set(NAMESPACES[4]),
            ArgCondition::Set(NAMESPACES[5]),
            ArgCondition::Set(NAMESPACES[6]),
        ],
    ),
    // PER_LINUX, PER_LINUX32, both with UNAME26, ADDR_NO_RANDOMIZE (debuggers), and the query.
    (
        "SYS_personality",
        libc::SYS_personality,
        SyscallAction::Allow,
        0,
        &[
            ArgCondition::Equals(0),
            ArgCondition::Equals(8),
            ArgCondition::Equals(0x2_0000),
            ArgCondition::Equals(0x2_0008),
            ArgCondition::Equals(0x4_0000),
            ArgCondition::Equals(0xffff_ffff),
        ],
    ),
    // Unix, IPv4, IPv6, netlink; no family that reaches hardware, the hypervisor or the kernel's
    // cryptography.
    (
        "SYS_socket",
        libc::SYS_socket,
        SyscallAction::Allow,
        0,
        &[
            ArgCondition::Equals(1),
            ArgCondition::Equals(2),
            ArgCondition::Equals(10),
            ArgCondition::Equals(16),
        ],
    ),
    ("SYS_socket", libc::SYS_socket, SyscallAction::Refuse(EAFNOSUPPORT), 0, UNKNOWN_FAMILIES),
    ("SYS_socketpair", libc::SYS_socketpair, SyscallAction::Allow, 0, &[ArgCondition::Equals(1)]),
];

const UNKNOWN_FAMILIES: &[ArgCondition] = &[
    ArgCondition::Equals(0),
    ArgCondition::Equals(3),
    ArgCondition::Equals(4),
    ArgCondition::Equals(5),
    ArgCondition::Equals(6),
    ArgCondition::Equals(7),
    ArgCondition::Equals(8),
    ArgCondition::Equals(9),
    ArgCondition::Equals(11),
    ArgCondition::Equals(12),
    ArgCondition::Equals(13),
    ArgCondition::Equals(14),
    ArgCondition::Equals(15),
    ArgCondition::AtLeast(17),
];
