//! The seccomp filter in the two forms that runtimes take, from one table (`syscalls.rs`).
//!
//! seccompiler makes programs with two outcomes; ours has several. So each refusal with an error number
//! of its own is a program before the last one, and where that would allow, it goes on with the next:
//!
//! ```text
//! refused with EPERM? ──no──▶ refused with EAFNOSUPPORT? ──no──▶ allowed? ──no──▶ ENOSYS
//! ```

use super::syscalls::{
    ALLOWED, ALLOWED_OLD, CONDITIONAL, ENOSYS, EPERM, REFUSED, REFUSED_OLD, Verdict, When,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use oci_spec::runtime::{
    Arch, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompArgBuilder, LinuxSeccompBuilder,
    LinuxSeccompOperator, LinuxSyscall, LinuxSyscallBuilder,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};
use std::collections::BTreeMap;

/// The kernel takes no longer program.
const PROGRAM_MAX_INSTRUCTIONS: usize = 4096;
/// `BPF_RET | BPF_K` and `BPF_JMP | BPF_JA`.
const RETURN: u16 = 0x06;
const JUMP: u16 = 0x05;

#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    #[error("make the seccomp filter: {0}")]
    Filter(#[from] seccompiler::BackendError),
    #[error("make the seccomp list: {0}")]
    List(#[from] oci_spec::OciSpecError),
    #[error("make the seccomp filter: {0} instructions are too many")]
    TooLong(usize),
}

/// As crun takes it in an annotation.
pub fn program_base64() -> Result<String, SeccompError> {
    let program = program()?;
    let bytes: Vec<u8> = program.iter().flat_map(encode).collect();
    Ok(STANDARD.encode(bytes))
}

fn encode(instruction: &sock_filter) -> [u8; 8] {
    let [code_0, code_1] = instruction.code.to_ne_bytes();
    let [k_0, k_1, k_2, k_3] = instruction.k.to_ne_bytes();
    [code_0, code_1, instruction.jt, instruction.jf, k_0, k_1, k_2, k_3]
}

fn program() -> Result<BpfProgram, SeccompError> {
    let mut program = layer(Verdict::Allow)?;
    for refusal in refusals() {
        program = before(layer(Verdict::Refuse(refusal))?, &program);
    }
    match program.len() {
        length if length > PROGRAM_MAX_INSTRUCTIONS => Err(SeccompError::TooLong(length)),
        _ => Ok(program),
    }
}

/// Every error number but that of what does not exist.
fn refusals() -> Vec<u16> {
    let conditional = CONDITIONAL.iter().filter_map(|(_, _, verdict, _, _)| match verdict {
        Verdict::Allow => None,
        Verdict::Refuse(number) => Some(*number),
    });
    let mut numbers: Vec<u16> = conditional.chain([EPERM]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The program for one verdict.
fn layer(verdict: Verdict) -> Result<BpfProgram, SeccompError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (_, number) in unconditional(verdict) {
        rules.insert(number, vec![]);
    }
    for (_, number, _, index, cases) in CONDITIONAL.iter().filter(|row| row.2 == verdict) {
        for case in *cases {
            rules.entry(*number).or_default().push(SeccompRule::new(vec![condition(*index, *case)?])?);
        }
    }
    let (matched, other) = match verdict {
        Verdict::Allow => (SeccompAction::Allow, SeccompAction::Errno(ENOSYS.into())),
        Verdict::Refuse(number) => (SeccompAction::Errno(number.into()), SeccompAction::Allow),
    };
    let arch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, other, matched, arch)?.try_into()?)
}

fn unconditional(verdict: Verdict) -> Vec<(&'static str, i64)> {
    match verdict {
        Verdict::Allow => [ALLOWED, ALLOWED_OLD].concat(),
        Verdict::Refuse(EPERM) => [REFUSED, REFUSED_OLD].concat(),
        Verdict::Refuse(_) => vec![],
    }
}

/// Arguments are compared as the 32 bits that the kernel looks at.
fn condition(index: u8, when: When) -> Result<SeccompCondition, SeccompError> {
    let (operator, value) = match when {
        When::Is(value) => (SeccompCmpOp::Eq, value),
        When::AtLeast(value) => (SeccompCmpOp::Ge, value),
        When::Clear(bits) => (SeccompCmpOp::MaskedEq(bits), 0),
        When::Set(bits) => (SeccompCmpOp::MaskedEq(bits), bits),
    };
    Ok(SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)?)
}

/// One program after another: where the first allows, the second decides.
fn before(mut first: BpfProgram, second: &[sock_filter]) -> BpfProgram {
    let length = first.len();
    let allow = u32::from(SeccompAction::Allow);
    for (at, instruction) in first.iter_mut().enumerate() {
        if instruction.code == RETURN && instruction.k == allow {
            *instruction = sock_filter { code: JUMP, jt: 0, jf: 0, k: (length - at - 1) as u32 };
        }
    }
    first.extend_from_slice(second);
    first
}

/// The same for container engines. Docker 20.10 answers EPERM by default whatever is asked for, and glibc starts
/// threads in the old way only when it is told that there is no new one: that call is named.
pub fn list_for_engines() -> Result<LinuxSeccomp, SeccompError> {
    let mut list = list()?;
    let mut calls = list.syscalls().clone().unwrap_or_default();
    calls.push(call(vec!["clone3".to_owned()], Verdict::Refuse(ENOSYS), None)?);
    list.set_syscalls(Some(calls));
    Ok(list)
}

/// As `linux.seccomp`, for runtimes that compile it themselves.
pub fn list() -> Result<LinuxSeccomp, SeccompError> {
    let mut calls = vec![];
    for verdict in [Verdict::Allow, Verdict::Refuse(EPERM)] {
        let names = unconditional(verdict).iter().map(|(name, _)| plain(name)).collect();
        calls.push(call(names, verdict, None)?);
    }
    for (name, _, verdict, index, cases) in CONDITIONAL {
        for case in *cases {
            calls.push(call(vec![plain(name)], *verdict, Some(argument(*index, *case)?))?);
        }
    }
    let arch = match std::env::consts::ARCH {
        "aarch64" => Arch::ScmpArchAarch64,
        _ => Arch::ScmpArchX86_64,
    };
    Ok(LinuxSeccompBuilder::default()
        .default_action(LinuxSeccompAction::ScmpActErrno)
        .default_errno_ret(u32::from(ENOSYS))
        .architectures(vec![arch])
        .syscalls(calls)
        .build()?)
}

fn plain(name: &str) -> String {
    name.trim_start_matches("SYS_").to_owned()
}

fn call(
    names: Vec<String>,
    verdict: Verdict,
    argument: Option<LinuxSeccompArg>,
) -> Result<LinuxSyscall, SeccompError> {
    let mut call = LinuxSyscallBuilder::default().names(names);
    call = match verdict {
        Verdict::Allow => call.action(LinuxSeccompAction::ScmpActAllow),
        Verdict::Refuse(number) => call.action(LinuxSeccompAction::ScmpActErrno).errno_ret(u32::from(number)),
    };
    if let Some(argument) = argument {
        call = call.args(vec![argument]);
    }
    Ok(call.build()?)
}

fn argument(index: u8, when: When) -> Result<LinuxSeccompArg, SeccompError> {
    let (operator, value, second) = match when {
        When::Is(value) => (LinuxSeccompOperator::ScmpCmpEq, value, None),
        When::AtLeast(value) => (LinuxSeccompOperator::ScmpCmpGe, value, None),
        When::Clear(bits) => (LinuxSeccompOperator::ScmpCmpMaskedEq, bits, Some(0)),
        When::Set(bits) => (LinuxSeccompOperator::ScmpCmpMaskedEq, bits, Some(bits)),
    };
    let mut argument = LinuxSeccompArgBuilder::default().index(index as usize).value(value).op(operator);
    if let Some(second) = second {
        argument = argument.value_two(second);
    }
    Ok(argument.build()?)
}

#[cfg(test)]
mod tests;
