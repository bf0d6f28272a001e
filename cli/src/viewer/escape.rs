//! Escape keys as in ssh: after a new line `~.` detaches, `~?` prints help, `~~` sends one `~`. Pure.
//!
//! ```text
//!            other                  ~
//!  Within ◀────────── LineStart ─────────▶ Tilde ── . ─▶ detach
//!     └── CR, LF ────────▶ ▲                 └── other: both are sent
//! ```

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    LineStart,
    Within,
    /// A `~` that is withheld until the next key.
    Tilde,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapeCommand {
    Detach,
    Help,
}

pub struct EscapeFilter {
    /// `None` where input is not a terminal: then every byte is sent.
    state: Option<State>,
}

impl EscapeFilter {
    pub fn new(from_terminal: bool) -> Self {
        Self { state: from_terminal.then_some(State::LineStart) }
    }

    /// Splits keys into those to send and an escape command. Keys after `~.` are dropped.
    pub fn filter(&mut self, keys: &[u8]) -> (Vec<u8>, Option<EscapeCommand>) {
        let Some(mut state) = self.state else { return (keys.to_vec(), None) };
        let (mut send, mut command) = (Vec::with_capacity(keys.len() + 1), None);
        for &key in keys {
            state = match (state, key) {
                (State::LineStart, b'~') => State::Tilde,
                (State::Tilde, b'.') => return (send, Some(EscapeCommand::Detach)),
                (State::Tilde, b'?') => {
                    command = Some(EscapeCommand::Help);
                    State::LineStart
                }
                (State::Tilde, b'~') => {
                    send.push(b'~');
                    State::Within
                }
                (before, key) => {
                    if before == State::Tilde {
                        send.push(b'~');
                    }
                    send.push(key);
                    if matches!(key, b'\r' | b'\n') { State::LineStart } else { State::Within }
                }
            };
        }
        self.state = Some(state);
        (send, command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tilde_after_a_new_line_is_ours() {
        let table = [
            ("~.", "", Some(EscapeCommand::Detach)),
            ("ls\r~.", "ls\r", Some(EscapeCommand::Detach)),
            ("ls ~.", "ls ~.", None),
            ("~/bin\r", "~/bin\r", None),
            ("~~.\r", "~.\r", None),
            ("~?", "", Some(EscapeCommand::Help)),
            ("a\n~x~.", "a\n~x~.", None),
            ("\r~\r~.", "\r~\r", Some(EscapeCommand::Detach)),
        ];
        for (keys, sent, command) in table {
            let expected = (sent.as_bytes().to_vec(), command);
            assert_eq!(EscapeFilter::new(true).filter(keys.as_bytes()), expected, "{keys:?}");
            // The same, key by key.
            let (mut escape, mut all) = (EscapeFilter::new(true), Vec::new());
            let mut last = None;
            for key in keys.as_bytes().chunks(1) {
                let (send, command) = escape.filter(key);
                all.extend(send);
                last = command.or(last);
            }
            assert_eq!((all, last), expected, "{keys:?} key by key");
        }
    }

    #[test]
    fn from_a_pipe_every_byte_is_sent() {
        assert_eq!(EscapeFilter::new(false).filter(b"~.\r~?"), (b"~.\r~?".to_vec(), None));
    }
}
