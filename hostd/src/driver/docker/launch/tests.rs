use super::*;

#[test]
fn what_comes_next_depends_on_what_is_there() {
    let run = Run { nonce: "n".into(), cleared: Some("1".into()), ..Run::default() };
    let state = |status: &str, started_at: &str| ContainerState {
        status: status.into(),
        started_at: started_at.into(),
        ..ContainerState::default()
    };
    assert_eq!(next(&run, None, false), Next::Make);
    for (status, started_at, whose, same, expected) in [
        ("created", "", Whose::Foreign, true, Next::Taken),
        ("running", "9", Whose::Foreign, true, Next::Taken),
        ("created", "", Whose::Ours, true, Next::Start),
        ("created", "", Whose::Ours, false, Next::Remove),
        ("exited", "1", Whose::Ours, true, Next::Start),
        ("exited", "1", Whose::Ours, false, Next::Remove),
        ("dead", "1", Whose::Ours, true, Next::Remove),
        ("removing", "1", Whose::Ours, true, Next::Wait),
        ("running", "1", Whose::Ours, true, Next::Wait),
        ("running", "2", Whose::Ours, true, Next::Adopt),
        ("running", "2", Whose::Ours, false, Next::Adopt),
        ("running", "2", Whose::Older, true, Next::Remove),
        ("created", "", Whose::Older, false, Next::Remove),
        ("removing", "2", Whose::Older, true, Next::Wait),
    ] {
        let state = state(status, started_at);
        assert_eq!(next(&run, Some((&state, whose)), same), expected, "{status} {whose:?} {same}");
    }
}
