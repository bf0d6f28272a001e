//! The header `traceparent` of W3C Trace Context: which trace a request belongs to, and the span that it came from.

use std::fmt;

/// The name of the header, and of the variable by which processes get it.
pub const TRACEPARENT_HEADER: &str = "traceparent";
pub const TRACEPARENT_VARIABLE: &str = "TRACEPARENT";

const SAMPLED: u8 = 1;

/// A parsed header. Neither id is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// Whether its sender records the trace.
    pub sampled: bool,
}

impl TraceParent {
    /// Parses a header; `None` for one that is malformed, which the specification says to ignore. Of versions to come
    /// the fields of this one are read.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let [version] = hex(fields.next()?)?;
        let (trace_id, span_id) = (hex(fields.next()?)?, hex(fields.next()?)?);
        let [flags] = hex(fields.next()?)?;
        let ended = fields.next().is_none();
        let known = match version {
            0 => ended,
            0xff => false,
            _ => true,
        };
        let is_set = trace_id != [0; 16] && span_id != [0; 8];
        (known && is_set).then_some(Self { trace_id, span_id, sampled: flags & SAMPLED != 0 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", u8::from(self.sampled))
    }
}

/// Bytes in lower-case hexadecimal digits, as many as the type says.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_parsed_and_written_again() {
        let parent = TraceParent::parse(GOOD).expect("good");
        assert_eq!((parent.trace_id[0], parent.span_id[7], parent.sampled), (0x4b, 0xb7, true));
        assert_eq!(parent.to_string(), GOOD);
        let later = format!("{}-extra", GOOD.replacen("00", "cc", 1));
        assert_eq!(TraceParent::parse(&later), Some(parent), "a later version");
        let unsampled = TraceParent::parse(&GOOD.replace("-01", "-02")).expect("other flags");
        assert!(!unsampled.sampled);
    }

    #[test]
    fn a_malformed_header_is_none() {
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473ä-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text:?}");
        }
    }
}
