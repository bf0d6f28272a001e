use super::*;

const LIMITS: AdmissionLimits = AdmissionLimits { unauthenticated: 3, callers: 8, reserved: 2 };

fn admission() -> Admission<&'static str> {
    Admission::new(LIMITS)
}

/// Opens so many connections of one principal, or as many as it gets.
fn fill(admission: &mut Admission<&'static str>, who: &'static str, most: usize) -> Vec<ConnectionId> {
    let mut held = Vec::new();
    while held.len() < most {
        let (id, _) = admission.open();
        admission.begin(id);
        if admission.identify(id, &who, false) != AdmissionDecision::Admitted {
            admission.close(id);
            break;
        }
        held.push(id);
    }
    held
}

#[test]
fn places_are_divided_up() {
    for (all, unauthenticated, reserved, callers) in
        [(8192, 1024, 512, 6656), (128, 16, 8, 104), (16, 2, 1, 13), (1, 1, 1, 1), (0, 1, 1, 1)]
    {
        assert_eq!(AdmissionLimits::of(all), AdmissionLimits { unauthenticated, callers, reserved }, "{all}");
    }
    assert_eq!(AdmissionLimits::of(8192).streams(), 5824);
    assert_eq!(AdmissionLimits::of(1).streams(), 1);
}

#[test]
fn a_stranger_is_always_let_in_and_the_one_idle_for_longest_goes() {
    let mut admission = admission();
    let ids: Vec<_> = (0..3).map(|_| admission.open()).inspect(|(_, gone)| assert_eq!(*gone, None)).collect();
    let (first, second, third) = (ids[0].0, ids[1].0, ids[2].0);
    // The first connection is busy; the second one was, and is idle since.
    admission.begin(first);
    admission.begin(second);
    admission.end(second);
    assert_eq!(admission.open().1, Some(third));
    let (fifth, gone) = admission.open();
    assert_eq!(gone, Some(second));
    // All that are left are busy: the oldest is evicted.
    admission.begin(fifth);
    let gone: Vec<_> = (0..2).map(|_| admission.open().1.expect("one goes")).collect();
    assert!(!gone.contains(&first) && !gone.contains(&fifth), "idle ones go first: {gone:?}");
}

#[test]
fn strangers_that_are_all_busy_make_room_too() {
    let mut admission = admission();
    let ids: Vec<_> = (0..3).map(|_| admission.open().0).collect();
    ids.iter().for_each(|id| admission.begin(*id));
    assert_eq!(admission.open().1, Some(ids[0]));
}

#[test]
fn a_principal_may_have_as_many_as_it_leaves_free() {
    let mut admission = admission();
    assert_eq!(fill(&mut admission, "ann", 100).len(), 4);
    assert_eq!(fill(&mut admission, "bob", 100).len(), 2);
    assert_eq!(fill(&mut admission, "cid", 100).len(), 1);
    let (id, _) = admission.open();
    assert_eq!(
        admission.identify(id, &"ann", false),
        AdmissionDecision::Refused(LimitReached::PerCaller { mine: 4 })
    );
    assert_eq!(admission.identify(id, &"dot", false), AdmissionDecision::Admitted);
    let (newest, _) = admission.open();
    assert_eq!(
        admission.identify(newest, &"eve", false),
        AdmissionDecision::Replacing(id),
        "it is the only idle one"
    );
}

#[test]
fn over_its_share_a_principal_gives_up_its_own_idle_connections() {
    let mut admission = admission();
    let held = fill(&mut admission, "ann", 100);
    let other = fill(&mut admission, "bob", 1);
    admission.end(held[2]);
    admission.end(held[1]);
    admission.end(other[0]);
    for gone in [held[2], held[1]] {
        let (id, _) = admission.open();
        admission.begin(id);
        assert_eq!(admission.identify(id, &"ann", false), AdmissionDecision::Replacing(gone));
    }
    let (id, _) = admission.open();
    assert_eq!(
        admission.identify(id, &"ann", false),
        AdmissionDecision::Refused(LimitReached::PerCaller { mine: 4 })
    );
}

#[test]
fn when_all_are_busy_only_the_administrator_gets_in() {
    let limits = AdmissionLimits { unauthenticated: 3, callers: 2, reserved: 1 };
    let mut admission = Admission::new(limits);
    fill(&mut admission, "ann", 1);
    fill(&mut admission, "bob", 1);
    let (id, _) = admission.open();
    assert_eq!(
        admission.identify(id, &"cid", false),
        AdmissionDecision::Refused(LimitReached::All { callers: 2 })
    );
    assert_eq!(admission.identify(id, &"root", true), AdmissionDecision::Admitted);
    assert_eq!(admission.identify(id, &"root", true), AdmissionDecision::Admitted, "the next request on it");
    let (id, _) = admission.open();
    assert_eq!(
        admission.identify(id, &"root", true),
        AdmissionDecision::Refused(LimitReached::All { callers: 2 })
    );
}

#[test]
fn a_connection_that_changes_its_token_counts_once_and_what_is_closed_counts_no_more() {
    let mut admission = admission();
    let (id, _) = admission.open();
    for who in ["ann", "bob", "bob", "ann"] {
        assert_eq!(admission.identify(id, &who, false), AdmissionDecision::Admitted);
    }
    assert_eq!((admission.callers_all, admission.unauthenticated, admission.callers.len()), (1, 0, 1));
    admission.close(id);
    admission.close(id);
    assert_eq!((admission.callers_all, admission.unauthenticated, admission.callers.len()), (0, 0, 0));
    assert!(matches!(admission.identify(id, &"ann", false), AdmissionDecision::Refused(_)), "it was evicted");
    admission.begin(id);
    admission.end(id);
    assert!(admission.connections.is_empty());
}
