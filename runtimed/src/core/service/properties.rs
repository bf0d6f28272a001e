//! Liveness first: stop always stops, and a failing service never stops being tried.

use super::world::{World, any_event, any_exit, any_policy, unasked};
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
        let mut world = World::new(policy, start);
        before.into_iter().for_each(|event| world.happen(event));
        world.send(Input::Stop);
        between.into_iter().for_each(|event| world.happen(event));
        if world.process {
            world.send(Input::Ended(Exit::Signalled { signal: 15 }));
        }
        prop_assert_eq!(&world.machine.phase, &Phase::Stopped);
        for event in after {
            world.happen(event);
            prop_assert_eq!(&world.machine.phase, &Phase::Stopped);
            prop_assert!(!world.process);
        }
    }

    #[test]
    fn a_wanted_service_is_tried_again_after_any_number_of_failures(
        policy in any_policy(),
        before in prop::collection::vec(any_event(), 0..40),
        exits in prop::collection::vec((any_exit(), 0_u64..20_000), 1..40),
    ) {
        let mut world = World::new(Policy { restart: RestartPolicy::Always, ..policy }, 0);
        before.into_iter().for_each(|event| world.happen(event));
        world.now = world.now.min(u64::MAX / 2);
        world.send(Input::Start);
        world.send(Input::Dependencies(Dependencies::Ready));
        for (exit, run_ms) in exits {
            world.now += run_ms;
            world.send(Input::Ended(exit));
            let from = world.now;
            world.wake();
            prop_assert!(world.process, "{:?}", world.machine);
            prop_assert!(world.now - from <= BACKOFF_MAX_MS);
        }
    }

    #[test]
    fn a_service_whose_check_passes_becomes_ready(
        policy in any_policy(),
        before in prop::collection::vec(any_event(), 0..40),
        failed_checks in 0_usize..20,
    ) {
        let mut world = World::new(policy, 0);
        before.into_iter().for_each(|event| world.happen(event));
        world.now = world.now.min(u64::MAX / 2);
        world.send(Input::Stop);
        world.send(Input::Ended(Exit::Lost));
        world.send(Input::Dependencies(Dependencies::Ready));
        world.send(Input::Start);
        for _ in 0..failed_checks {
            if world.probing {
                world.send(Input::Probe(Err("refused".into())));
            }
            world.wake();
        }
        if world.probing {
            world.send(Input::Probe(Ok(())));
        }
        prop_assert!(world.machine.is_ready(), "{:?}", world.machine);
    }

    /// The world itself refuses a second process, a second check, a stop of nothing, a pause that is
    /// too short or too long, and a tick that changes nothing.
    #[test]
    fn no_order_of_events_asks_for_the_impossible(
        policy in any_policy(),
        start in any::<u64>(),
        events in prop::collection::vec(any_event(), 0..200),
    ) {
        let mut world = World::new(policy, start);
        for event in events {
            world.happen(event);
            view_state(&world.machine.phase, world.now, world.now / 2);
        }
    }
}
