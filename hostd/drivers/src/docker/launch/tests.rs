use super::*;

#[test]
fn the_next_step_depends_on_the_current_container() {
    let run = RunRecord { nonce: "n".into(), cleared_start: Some("1".into()), ..RunRecord::default() };
    let state = |status: &str, started_at: &str| InspectedState {
        status: status.into(),
        started_at: started_at.into(),
        ..InspectedState::default()
    };
    assert_eq!(next_step(&run, None, false), LaunchStep::Create);
    for (status, started_at, ownership, same_config, expected) in [
        ("created", "", Ownership::Foreign, true, LaunchStep::RefuseName),
        ("running", "9", Ownership::Foreign, true, LaunchStep::RefuseName),
        ("created", "", Ownership::Ours, true, LaunchStep::Start),
        ("created", "", Ownership::Ours, false, LaunchStep::Remove),
        ("exited", "1", Ownership::Ours, true, LaunchStep::Start),
        ("exited", "1", Ownership::Ours, false, LaunchStep::Remove),
        ("dead", "1", Ownership::Ours, true, LaunchStep::Remove),
        ("removing", "1", Ownership::Ours, true, LaunchStep::Wait),
        ("running", "1", Ownership::Ours, true, LaunchStep::Wait),
        ("running", "2", Ownership::Ours, true, LaunchStep::Adopt),
        ("running", "2", Ownership::Ours, false, LaunchStep::Adopt),
        ("running", "2", Ownership::Earlier, true, LaunchStep::Remove),
        ("created", "", Ownership::Earlier, false, LaunchStep::Remove),
        ("removing", "2", Ownership::Earlier, true, LaunchStep::Wait),
    ] {
        let state = state(status, started_at);
        assert_eq!(
            next_step(&run, Some((&state, ownership)), same_config),
            expected,
            "{status} {ownership:?} {same_config}"
        );
    }
}
