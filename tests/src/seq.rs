//! Output that is known without being kept.

/// What `seq 1 …` prints, so many bytes of it.
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
