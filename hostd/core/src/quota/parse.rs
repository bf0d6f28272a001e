//! Parses a quota as it is written in the configuration: `sandboxes=20,running=5,memory=8g`, with the words of the
//! flags of `slipway quota set`.

use super::{CPUS_LIMIT_MAX, LIMIT_MAX};
use protocol::api::Quota;

/// Parses a quota; a resource that is not named is unlimited. The error says what is expected.
pub fn parse_quota(text: &str) -> Result<Quota, String> {
    let mut quota = Quota::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (word, value) = part.split_once('=').ok_or_else(|| format!("{part:?} has no `=`"))?;
        let (word, value) = (word.trim(), value.trim());
        let field = match word {
            "sandboxes" => &mut quota.sandboxes,
            "running" => &mut quota.running,
            "memory" => &mut quota.memory_mb,
            "disk" => &mut quota.disk_mb,
            "tasks-queued" => &mut quota.tasks_queued,
            "tasks-running" => &mut quota.tasks_running,
            "events" => &mut quota.events_mb,
            "preview-connections" => &mut quota.preview_connections,
            "cpus" => {
                quota.cpus = Some(cpus(value)?);
                continue;
            }
            other => return Err(format!("there is no resource {other:?}")),
        };
        let is_size = matches!(word, "memory" | "disk" | "events");
        *field = Some(if is_size { megabytes(value)? } else { count(value)? });
    }
    Ok(quota)
}

fn count(text: &str) -> Result<u64, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| plain && *number <= LIMIT_MAX);
    number.ok_or_else(|| format!("{text:?} is not a whole number"))
}

fn cpus(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|cpus| (0.0..=CPUS_LIMIT_MAX).contains(cpus));
    number.ok_or_else(|| format!("{text:?} is not a number of cores"))
}

/// Parses a size in megabytes, or one with a unit: `512m`, `8g`, `1t`.
fn megabytes(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.to_ascii_lowercase().as_bytes().last() {
        Some(b'm') => (&text[..text.len() - 1], 1),
        Some(b'g') => (&text[..text.len() - 1], 1 << 10),
        Some(b't') => (&text[..text.len() - 1], 1 << 20),
        Some(_) | None => (text, 1),
    };
    let wrong = || format!("{text:?} is not a size, as in 512m or 8g");
    let mb = count(digits).map_err(|_| wrong())?.checked_mul(factor);
    mb.filter(|mb| *mb <= LIMIT_MAX).ok_or_else(wrong)
}
