use super::*;
use nix::libc;

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;

/// Runs the program as the kernel would, for a call with these arguments.
fn verdict(program: &[sock_filter], number: i64, arguments: [u64; 6]) -> u32 {
    let mut data = vec![];
    data.extend((number as u32).to_ne_bytes());
    data.extend(if cfg!(target_arch = "aarch64") { 0xc000_00b7u32 } else { 0xc000_003e }.to_ne_bytes());
    data.extend(0u64.to_ne_bytes());
    data.extend(arguments.iter().flat_map(|value| value.to_ne_bytes()));
    let load = |at: u32| {
        let at = at as usize;
        u32::from_ne_bytes(data[at..at + 4].try_into().expect("four bytes"))
    };
    let (mut at, mut value) = (0, 0);
    loop {
        let op = &program[at];
        at += 1;
        let yes = match op.code {
            0x20 => {
                value = load(op.k);
                continue;
            }
            0x54 => {
                value &= op.k;
                continue;
            }
            0x05 => {
                at += op.k as usize;
                continue;
            }
            0x06 => return op.k,
            0x15 => value == op.k,
            0x25 => value > op.k,
            0x35 => value >= op.k,
            code => panic!("an instruction we do not know: {code:#x}"),
        };
        at += usize::from(if yes { op.jt } else { op.jf });
    }
}

#[test]
fn the_program_decides_as_the_table_says() {
    let program = bpf_program().expect("compiles");
    let refused = |number: i32| ERRNO | number as u32;
    for (what, number, first, expected) in [
        ("read", libc::SYS_read, 0, ALLOW),
        ("execve", libc::SYS_execve, 0, ALLOW),
        ("ptrace", libc::SYS_ptrace, 0, ALLOW),
        ("a thread", libc::SYS_clone, 0x003d_0f00, ALLOW),
        ("a process", libc::SYS_clone, 0x11, ALLOW),
        ("a user namespace", libc::SYS_clone, 0x1000_0011, refused(libc::EPERM)),
        ("a mount namespace", libc::SYS_clone, 0x0002_0011, refused(libc::EPERM)),
        ("two namespaces", libc::SYS_clone, 0x6000_0000, refused(libc::EPERM)),
        ("unshare", libc::SYS_unshare, 0, refused(libc::EPERM)),
        ("mount", libc::SYS_mount, 0, refused(libc::EPERM)),
        ("clone3", libc::SYS_clone3, 0, refused(libc::ENOSYS)),
        ("io_uring", libc::SYS_io_uring_setup, 0, refused(libc::ENOSYS)),
        ("bpf", libc::SYS_bpf, 0, refused(libc::ENOSYS)),
        ("keyctl", libc::SYS_keyctl, 0, refused(libc::ENOSYS)),
        ("userfaultfd", libc::SYS_userfaultfd, 0, refused(libc::ENOSYS)),
        ("perf", libc::SYS_perf_event_open, 0, refused(libc::ENOSYS)),
        ("tomorrow's", 900, 0, refused(libc::ENOSYS)),
        ("x32", 0x4000_0000, 0, refused(libc::ENOSYS)),
        ("unix", libc::SYS_socket, 1, ALLOW),
        ("netlink", libc::SYS_socket, 16, ALLOW),
        ("packet", libc::SYS_socket, 17, refused(libc::EAFNOSUPPORT)),
        ("vsock", libc::SYS_socket, 40, refused(libc::EAFNOSUPPORT)),
        ("x25", libc::SYS_socket, 9, refused(libc::EAFNOSUPPORT)),
        ("a debugger's personality", libc::SYS_personality, 0x4_0000, ALLOW),
        ("another personality", libc::SYS_personality, 0x40_0000, refused(libc::ENOSYS)),
    ] {
        assert_eq!(verdict(&program, number, [first, 0, 0, 0, 0, 0]), expected, "{what}");
    }
}

#[test]
fn clone3_is_listed_by_name_for_engines() {
    let list = serde_json::to_value(engine_profile().expect("a list")).expect("JSON");
    let calls = list["syscalls"].as_array().expect("calls");
    let named = |call: &&serde_json::Value| {
        call["names"].as_array().is_some_and(|names| names.iter().any(|name| name == "clone3"))
    };
    let told: Vec<_> = calls.iter().filter(named).map(|call| (&call["action"], &call["errnoRet"])).collect();
    assert_eq!(told, [(&"SCMP_ACT_ERRNO".into(), &libc::ENOSYS.into())]);
}

#[test]
fn both_forms_come_from_the_same_table() {
    let list = serde_json::to_value(oci_profile().expect("a list")).expect("JSON");
    assert_eq!(list["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(list["defaultErrnoRet"], libc::ENOSYS);
    let allowed = list["syscalls"][0]["names"].as_array().expect("names").len();
    assert_eq!(allowed, ALLOWED.len() + ALLOWED_OLD.len());
    let both: Vec<_> = unconditional_calls(SyscallAction::Allow);
    for (name, number) in unconditional_calls(SyscallAction::Refuse(EPERM)) {
        assert!(!both.iter().any(|(_, allowed)| *allowed == number), "{name} is in both");
    }
}
