//! The seccomp filter in the two forms that runtimes accept, from one table (`syscall_table.rs`).
//!
//! seccompiler makes programs with two outcomes; this filter has several. So each refusal with its own error
//! number is a program before the last one, and where that would allow, the next one decides:
//!
//! ```text
//! refused with EPERM? ──no──▶ refused with EAFNOSUPPORT? ──no──▶ allowed? ──no──▶ ENOSYS
//! ```

use super::syscall_table::{
    ALLOWED, ALLOWED_OLD, ArgCondition, CONDITIONAL, ENOSYS, EPERM, REFUSED, REFUSED_OLD, SyscallAction,
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

/// The kernel accepts no longer program.
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

/// The compiled filter, as crun takes it in an annotation.
pub fn bpf_base64() -> Result<String, SeccompError> {
    let program = bpf_program()?;
    let bytes: Vec<u8> = program.iter().flat_map(encode).collect();
    Ok(STANDARD.encode(bytes))
}

fn encode(instruction: &sock_filter) -> [u8; 8] {
    let [code_0, code_1] = instruction.code.to_ne_bytes();
    let [k_0, k_1, k_2, k_3] = instruction.k.to_ne_bytes();
    [code_0, code_1, instruction.jt, instruction.jf, k_0, k_1, k_2, k_3]
}

fn bpf_program() -> Result<BpfProgram, SeccompError> {
    let mut program = program_for(SyscallAction::Allow)?;
    for refusal in refusals() {
        program = chain_programs(program_for(SyscallAction::Refuse(refusal))?, &program);
    }
    match program.len() {
        length if length > PROGRAM_MAX_INSTRUCTIONS => Err(SeccompError::TooLong(length)),
        _ => Ok(program),
    }
}

/// Error numbers of the table, except ENOSYS, which is the default.
fn refusals() -> Vec<u16> {
    let conditional = CONDITIONAL.iter().filter_map(|(_, _, verdict, _, _)| match verdict {
        SyscallAction::Allow => None,
        SyscallAction::Refuse(number) => Some(*number),
    });
    let mut numbers: Vec<u16> = conditional.chain([EPERM]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The program for one action.
fn program_for(verdict: SyscallAction) -> Result<BpfProgram, SeccompError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (_, number) in unconditional_calls(verdict) {
        rules.insert(number, vec![]);
    }
    for (_, number, _, index, cases) in CONDITIONAL.iter().filter(|row| row.2 == verdict) {
        for case in *cases {
            rules.entry(*number).or_default().push(SeccompRule::new(vec![condition(*index, *case)?])?);
        }
    }
    let (matched, other) = match verdict {
        SyscallAction::Allow => (SeccompAction::Allow, SeccompAction::Errno(ENOSYS.into())),
        SyscallAction::Refuse(number) => (SeccompAction::Errno(number.into()), SeccompAction::Allow),
    };
    let arch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, other, matched, arch)?.try_into()?)
}

fn unconditional_calls(verdict: SyscallAction) -> Vec<(&'static str, i64)> {
    match verdict {
        SyscallAction::Allow => [ALLOWED, ALLOWED_OLD].concat(),
        SyscallAction::Refuse(EPERM) => [REFUSED, REFUSED_OLD].concat(),
        SyscallAction::Refuse(_) => vec![],
    }
}

/// Arguments are compared as the 32 bits that the kernel uses.
fn condition(index: u8, when: ArgCondition) -> Result<SeccompCondition, SeccompError> {
    let (operator, value) = match when {
        ArgCondition::Equals(value) => (SeccompCmpOp::Eq, value),
        ArgCondition::AtLeast(value) => (SeccompCmpOp::Ge, value),
        ArgCondition::Clear(bits) => (SeccompCmpOp::MaskedEq(bits), 0),
        ArgCondition::Set(bits) => (SeccompCmpOp::MaskedEq(bits), bits),
    };
    Ok(SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)?)
}

/// Concatenates two programs: where the first allows, the second decides.
fn chain_programs(mut first: BpfProgram, second: &[sock_filter]) -> BpfProgram {
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

/// The profile for container engines. Docker 20.10 ignores `defaultErrnoRet` and answers EPERM, and glibc
/// falls back from clone3 only on ENOSYS: so clone3 is listed by name.
pub fn engine_profile() -> Result<LinuxSeccomp, SeccompError> {
    let mut list = oci_profile()?;
    let mut calls = list.syscalls().clone().unwrap_or_default();
    calls.push(syscall_rule(vec!["clone3".to_owned()], SyscallAction::Refuse(ENOSYS), None)?);
    list.set_syscalls(Some(calls));
    Ok(list)
}

/// The filter as `linux.seccomp`, for runtimes that compile it themselves.
pub fn oci_profile() -> Result<LinuxSeccomp, SeccompError> {
    let mut calls = vec![];
    for verdict in [SyscallAction::Allow, SyscallAction::Refuse(EPERM)] {
        let names = unconditional_calls(verdict).iter().map(|(name, _)| syscall_name(name)).collect();
        calls.push(syscall_rule(names, verdict, None)?);
    }
    for (name, _, verdict, index, cases) in CONDITIONAL {
        for case in *cases {
            calls.push(syscall_rule(
                vec![syscall_name(name)],
                *verdict,
                Some(argument_condition(*index, *case)?),
            )?);
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

fn syscall_name(name: &str) -> String {
    name.trim_start_matches("SYS_").to_owned()
}

fn syscall_rule(
    names: Vec<String>,
    verdict: SyscallAction,
    argument: Option<LinuxSeccompArg>,
) -> Result<LinuxSyscall, SeccompError> {
    let mut call = LinuxSyscallBuilder::default().names(names);
    call = match verdict {
        SyscallAction::Allow => call.action(LinuxSeccompAction::ScmpActAllow),
        SyscallAction::Refuse(number) => {
            call.action(LinuxSeccompAction::ScmpActErrno).errno_ret(u32::from(number))
        }
    };
    if let Some(argument) = argument {
        call = call.args(vec![argument]);
    }
    Ok(call.build()?)
}

fn argument_condition(index: u8, when: ArgCondition) -> Result<LinuxSeccompArg, SeccompError> {
    let (operator, value, second) = match when {
        ArgCondition::Equals(value) => (LinuxSeccompOperator::ScmpCmpEq, value, None),
        ArgCondition::AtLeast(value) => (LinuxSeccompOperator::ScmpCmpGe, value, None),
        ArgCondition::Clear(bits) => (LinuxSeccompOperator::ScmpCmpMaskedEq, bits, Some(0)),
        ArgCondition::Set(bits) => (LinuxSeccompOperator::ScmpCmpMaskedEq, bits, Some(bits)),
    };
    let mut argument = LinuxSeccompArgBuilder::default().index(index as usize).value(value).op(operator);
    if let Some(second) = second {
        argument = argument.value_two(second);
    }
    Ok(argument.build()?)
}

#[cfg(test)]
mod tests;
