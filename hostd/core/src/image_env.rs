//! Variables of an image on their way to the jobs of a sandbox: through PID 1, which gives them to jobs and uses none
//! itself.

use crate::limits::{IMAGE_ENV_MAX_BYTES, IMAGE_ENV_MAX_COUNT};
use protocol::IMAGE_ENV_VARIABLE;
use std::collections::BTreeMap;

/// Names that say something about the sandbox, which the image does not know, or that change every program.
const OURS: [&str; 7] = ["HOME", "USER", "LOGNAME", "PWD", "SHELL", "LD_PRELOAD", "LD_AUDIT"];
const OUR_PREFIXES: [&str; 2] = ["RUNTIMED_", "SLIPWAY_"];
/// Part of the names of all variables about proxies, in either case of letters.
const PROXY: &str = "proxy";

/// Returns the variable of PID 1 that holds those of an image, given as `NAME=value`; nothing where none is left. Of two
/// with one name the last counts. Those past the limits are dropped.
pub fn image_env(variables: &[String]) -> Option<String> {
    let pairs = variables.iter().filter_map(|pair| pair.split_once('='));
    let wanted: BTreeMap<&str, &str> = pairs.filter(|(name, value)| is_foreign(name, value)).collect();
    let mut bytes = 0;
    let mut fits = |name: &str, value: &str| {
        // As they are encoded: a control character takes six bytes.
        bytes += json_bytes(name) + json_bytes(value);
        bytes <= IMAGE_ENV_MAX_BYTES
    };
    let kept: BTreeMap<&str, &str> =
        wanted.into_iter().take(IMAGE_ENV_MAX_COUNT).filter(|(name, value)| fits(name, value)).collect();
    let json = serde_json::to_string(&kept).ok().filter(|_| !kept.is_empty())?;
    Some(format!("{IMAGE_ENV_VARIABLE}={json}"))
}

fn json_bytes(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX / 4, |json| json.len())
}

fn is_foreign(name: &str, value: &str) -> bool {
    let is_plain =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()) && !value.contains('\0');
    let is_ours = OURS.contains(&name)
        || OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.to_ascii_lowercase().contains(PROXY);
    is_plain && !is_ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_an_image_are_kept_unless_they_are_ours() {
        let long = format!("LONG={}", "x".repeat(IMAGE_ENV_MAX_BYTES));
        let grown = format!("GROWN={}", "\u{1}".repeat(IMAGE_ENV_MAX_BYTES / 2));
        let table: [(&[&str], Option<&str>); 8] = [
            (&[], None),
            (&["PATH=/bin", "A=1=2", "A=3"], Some(r#"{"A":"3","PATH":"/bin"}"#)),
            (&["HOME=/x", "RUNTIMED_UID=0", "SLIPWAY_X=1", "LD_PRELOAD=/evil.so", "Http_Proxy=x"], None),
            (&["no value", "=x", "A B=1", "N=a\nb"], Some(r#"{"N":"a\nb"}"#)),
            (&["A=1", &long], Some(r#"{"A":"1"}"#)),
            (&["A=1", &grown, "NUL=a\0b"], Some(r#"{"A":"1"}"#)),
            (&["npm_config_proxy=x", "NODE_USE_ENV_PROXY=0"], None),
            (&["LD_LIBRARY_PATH=/opt/lib"], Some(r#"{"LD_LIBRARY_PATH":"/opt/lib"}"#)),
        ];
        for (given, expected) in table {
            let given: Vec<String> = given.iter().map(|pair| (*pair).to_owned()).collect();
            let expected = expected.map(|json| format!("RUNTIMED_IMAGE_ENV={json}"));
            assert_eq!(image_env(&given), expected);
        }
    }
}
