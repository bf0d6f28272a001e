//! Numbers of the tests: small ones always, big ones in a soak.

/// `small`, or `big` where `SLIPWAY_SOAK` is set.
pub fn scaled(small: usize, big: usize) -> usize {
    if std::env::var_os("SLIPWAY_SOAK").is_some() { big } else { small }
}
