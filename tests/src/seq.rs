//! Output that is known without being kept.

/// Returns the first bytes of the output of `seq 1 …`.
pub fn seq(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 20);
    for number in 1u64.. {
        if text.len() >= bytes {
            break;
        }
        text.extend_from_slice(number.to_string().as_bytes());
        text.push(b'\n');
    }
    text.truncate(bytes);
    text
}
