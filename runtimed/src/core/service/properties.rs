//! Properties, liveness first: stop always stops, and a failing service is retried for ever.

use super::fixture::{ServiceFixture, any_event, any_exit, any_policy, unasked};
use super::{Dependencies, Input, Phase, Policy, view_state};
use crate::limits::BACKOFF_MAX_MS;
use proptest::prelude::*;
use protocol::{Exit, RestartPolicy};

proptest! {
    #[test]
    fn stop_always_stops_and_it_stays_so_until_asked(
        policy in any_policy(),
        start in any::<u64>(),
        before in prop::collection::vec(any_event(), 0..40),
        between in prop::collection::vec(unasked(), 0..20),
        after in prop::collection::vec(unasked(), 0..20),
    ) {
        let mut fixture = ServiceFixture::new(policy, start);
        before.into_iter().for_each(|event| fixture.apply(event));
        fixture.send(Input::Stop);
        between.into_iter().for_each(|event| fixture.apply(event));
        if fixture.process.is_some() {
            fixture.send(Input::Ended(Exit::Signalled { signal: 15 }));
        }
        prop_assert_eq!(&fixture.machine.phase, &Phase::Stopped);
        for event in after {
            fixture.apply(event);
            prop_assert_eq!(&fixture.machine.phase, &Phase::Stopped);
            prop_assert!(fixture.process.is_none());
        }
    }

    #[test]
    fn a_wanted_service_is_tried_again_after_any_number_of_failures(
        policy in any_policy(),
        before in prop::collection::vec(any_event(), 0..40),
        exits in prop::collection::vec((any_exit(), 0_u64..20_000), 1..40),
    ) {
        let mut fixture = ServiceFixture::new(Policy { restart: RestartPolicy::Always, ..policy }, 0);
        before.into_iter().for_each(|event| fixture.apply(event));
        fixture.now = fixture.now.min(u64::MAX / 2);
        fixture.send(Input::Start);
        fixture.send(Input::Dependencies(Dependencies::Ready));
        for (exit, run_ms) in exits {
            fixture.now += run_ms;
            fixture.send(Input::Ended(exit));
            let from = fixture.now;
            fixture.wake();
            prop_assert!(fixture.process.is_some(), "{:?}", fixture.machine);
            prop_assert!(fixture.now - from <= BACKOFF_MAX_MS);
        }
    }

    #[test]
    fn a_service_whose_check_passes_becomes_ready(
        policy in any_policy(),
        before in prop::collection::vec(any_event(), 0..40),
        failed_checks in 0_usize..20,
    ) {
        let mut fixture = ServiceFixture::new(policy, 0);
        before.into_iter().for_each(|event| fixture.apply(event));
        fixture.now = fixture.now.min(u64::MAX / 2);
        fixture.send(Input::Stop);
        fixture.send(Input::Ended(Exit::Lost));
        fixture.send(Input::Dependencies(Dependencies::Ready));
        fixture.send(Input::Start);
        for _ in 0..failed_checks {
            if fixture.is_probing() {
                fixture.send(Input::Probe(Err("refused".into())));
            }
            fixture.wake();
        }
        if fixture.is_probing() {
            fixture.send(Input::Probe(Ok(())));
        }
        prop_assert!(fixture.machine.is_ready(), "{:?}", fixture.machine);
    }

    /// The fixture itself rejects a second process, a second check, a stop of nothing, a backoff that is too
    /// short or too long, and a tick that changes nothing.
    #[test]
    fn no_order_of_events_asks_for_the_impossible(
        policy in any_policy(),
        start in any::<u64>(),
        events in prop::collection::vec(any_event(), 0..200),
    ) {
        let mut fixture = ServiceFixture::new(policy, start);
        for event in events {
            fixture.apply(event);
            view_state(&fixture.machine.phase, fixture.now, fixture.now / 2);
        }
    }
}
