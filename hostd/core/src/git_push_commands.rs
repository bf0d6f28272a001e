//! The commands at the beginning of a push: which refs of the server it changes, and how. Pure.
//!
//! ```text
//!  pkt-line*: OLD NEW REF [NUL capabilities]   flush   pack…
//! ```
//!
//! A push through the gateway may change one branch: the one that its caller named.

use crate::BranchName;

/// Bytes before the pack. A push of one branch has a few hundred.
pub const PUSH_COMMANDS_MAX_BYTES: usize = 16 << 10;
/// The digits of a packet's length, which count themselves.
const LENGTH_DIGITS: usize = 4;
/// Capabilities that change neither which refs a push changes nor what a server runs for it. A value may follow `=`.
const CAPABILITIES: [&str; 9] = [
    "report-status",
    "report-status-v2",
    "side-band-64k",
    "ofs-delta",
    "quiet",
    "atomic",
    "object-format",
    "agent",
    "session-id",
];

/// What is known of the commands from the bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushCommands {
    /// More bytes are needed.
    Incomplete,
    /// All commands are there, and the push may go on.
    Allowed,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushRefused {
    #[error("the push is malformed")]
    Malformed,
    #[error("the push may change {allowed} only, and changes {found:?}")]
    OtherRef { allowed: String, found: String },
    #[error("the push would delete {allowed}")]
    Delete { allowed: String },
    #[error("the push uses {what}, which is not forwarded")]
    Unsupported { what: &'static str },
    #[error("the push uses the capability {name:?}, which is not forwarded")]
    Capability { name: String },
}

/// Checks that a push changes this branch only, and does not delete it.
pub fn check_push_commands(mut bytes: &[u8], branch: &BranchName) -> Result<PushCommands, PushRefused> {
    let too_long = bytes.len() >= PUSH_COMMANDS_MAX_BYTES;
    let incomplete = || if too_long { Err(PushRefused::Malformed) } else { Ok(PushCommands::Incomplete) };
    loop {
        let Some(digits) = bytes.get(..LENGTH_DIGITS) else { return incomplete() };
        let length = match packet_length(digits).ok_or(PushRefused::Malformed)? {
            0 => return Ok(PushCommands::Allowed),
            length if length <= LENGTH_DIGITS => return Err(PushRefused::Malformed),
            length => length,
        };
        let Some(packet) = bytes.get(LENGTH_DIGITS..length) else { return incomplete() };
        check_command(packet, branch)?;
        bytes = &bytes[length..];
    }
}

/// Returns the length of a packet by its first four digits, which it counts.
pub fn packet_length(digits: &[u8]) -> Option<usize> {
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    usize::from_str_radix(text, 16).ok()
}

fn check_command(packet: &[u8], branch: &BranchName) -> Result<(), PushRefused> {
    let (command, capabilities) = match packet.iter().position(|byte| *byte == 0) {
        Some(end) => (&packet[..end], &packet[end + 1..]),
        None => (packet, &[][..]),
    };
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| PushRefused::Malformed);
    let (command, capabilities) = (text(command)?.trim_end_matches('\n'), text(capabilities)?);
    check_capabilities(capabilities)?;
    if command.starts_with("push-cert") {
        return Err(PushRefused::Unsupported { what: "a signature" });
    }
    if let Some(hash) = command.strip_prefix("shallow ") {
        return if is_hash(hash) { Ok(()) } else { Err(PushRefused::Malformed) };
    }
    let mut parts = command.splitn(3, ' ');
    let (Some(old), Some(new), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(PushRefused::Malformed);
    };
    if !is_hash(old) || !is_hash(new) {
        return Err(PushRefused::Malformed);
    }
    let allowed = branch.full_ref();
    if name != allowed {
        return Err(PushRefused::OtherRef { allowed, found: name.to_owned() });
    }
    if new.bytes().all(|digit| digit == b'0') {
        return Err(PushRefused::Delete { allowed });
    }
    Ok(())
}

/// Refuses all capabilities that are not known: a server reads `push-options=1` like `push-options`, and stops at a NUL.
fn check_capabilities(capabilities: &str) -> Result<(), PushRefused> {
    if capabilities.contains('\0') {
        return Err(PushRefused::Malformed);
    }
    for capability in capabilities.split_ascii_whitespace() {
        let name = capability.split_once('=').map_or(capability, |(name, _)| name);
        if !CAPABILITIES.contains(&name) {
            return Err(PushRefused::Capability { name: name.to_owned() });
        }
    }
    Ok(())
}

/// Returns the commit that the first command of a checked push sets its branch to, if it has a command.
pub fn pushed_commit(mut bytes: &[u8]) -> Option<String> {
    loop {
        let length = packet_length(bytes.get(..LENGTH_DIGITS)?)?;
        let command = std::str::from_utf8(bytes.get(LENGTH_DIGITS..length)?).ok()?;
        bytes = bytes.get(length..)?;
        if !command.starts_with("shallow ") {
            return command.split(' ').nth(1).filter(|hash| is_hash(hash)).map(str::to_owned);
        }
    }
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str) -> String {
        format!("{:04x}{text}", text.len() + LENGTH_DIGITS)
    }

    fn checked(text: &str) -> Result<PushCommands, PushRefused> {
        check_push_commands(text.as_bytes(), &BranchName::parse("main").expect("a name"))
    }

    #[test]
    fn a_push_changes_its_branch_only() {
        let (old, new, zero) = ("1".repeat(40), "2".repeat(40), "0".repeat(40));
        let update = packet(&format!("{old} {new} refs/heads/main\0 report-status agent=git/2"));
        let whole = format!("{update}0000PACK");
        assert_eq!(checked(&whole), Ok(PushCommands::Allowed));
        assert_eq!(checked("0000"), Ok(PushCommands::Allowed), "git asks whether it may push");
        let shallow = packet(&format!("shallow {old}"));
        assert_eq!(checked(&format!("{shallow}{update}0000")), Ok(PushCommands::Allowed));
        for length in 0..update.len() + 3 {
            assert_eq!(checked(&whole[..length]), Ok(PushCommands::Incomplete), "{length}");
        }
        let allowed = "refs/heads/main".to_owned();
        let command = |text: &str| checked(&packet(text));
        let other = |found: &str| {
            Err(PushRefused::OtherRef { allowed: "refs/heads/main".to_owned(), found: found.to_owned() })
        };
        assert_eq!(command(&format!("{old} {new} refs/heads/main2")), other("refs/heads/main2"));
        assert_eq!(command(&format!("{zero} {new} refs/tags/main\n")), other("refs/tags/main"));
        let second = packet(&format!("{old} {new} refs/heads/x"));
        assert_eq!(checked(&format!("{update}{second}0000")), other("refs/heads/x"));
        assert_eq!(command(&format!("{old} {zero} refs/heads/main")), Err(PushRefused::Delete { allowed }));
        assert_eq!(command("push-cert\0 agent=x"), Err(PushRefused::Unsupported { what: "a signature" }));
    }

    #[test]
    fn a_push_uses_known_capabilities_only() {
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        let check = |capabilities: &str| {
            checked(&format!("{}0000", packet(&format!("{old} {new} refs/heads/main\0{capabilities}"))))
        };
        let all = " report-status report-status-v2 side-band-64k ofs-delta quiet atomic object-format=sha1 \
            agent=git/2.47.3 session-id=12-3\n";
        for good in ["", " ", "report-status", all] {
            assert_eq!(check(good), Ok(PushCommands::Allowed), "{good}");
        }
        for (bad, name) in [
            ("push-options", "push-options"),
            ("report-status push-options=1", "push-options"),
            ("push-options=", "push-options"),
            ("quiet\tpush-options", "push-options"),
            ("Push-Options", "Push-Options"),
            ("push-cert=nonce", "push-cert"),
            ("new-capability", "new-capability"),
        ] {
            assert_eq!(check(bad), Err(PushRefused::Capability { name: name.to_owned() }), "{bad}");
        }
        for bad in ["push-options\0", "push-options\0x", "quiet\0push-options", "\0push-options"] {
            assert_eq!(check(bad), Err(PushRefused::Malformed), "{bad:?}");
        }
    }

    #[test]
    fn the_commit_of_a_push_is_that_of_its_command() {
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        let shallow = packet(&format!("shallow {old}"));
        let update = packet(&format!("{old} {new} refs/heads/main\0 quiet"));
        assert_eq!(pushed_commit(format!("{shallow}{update}0000").as_bytes()), Some(new));
        for none in ["0000", "", "00", "000aab cd"] {
            assert_eq!(pushed_commit(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_push_is_refused() {
        for bad in ["GET ", "0001", "0004", "zzzz", "+0ff", "0009hello", "000ea b refs/x"] {
            assert_eq!(checked(bad), Err(PushRefused::Malformed), "{bad}");
        }
        let endless = packet(&format!("shallow {}", "1".repeat(40))).repeat(1_000);
        assert_eq!(checked(&endless), Err(PushRefused::Malformed));
    }
}
