use super::*;
use proptest::prelude::*;

fn bounded(tokens: Option<u64>, cost_micro_usd: Option<u64>, requests: Option<u64>) -> Account {
    Account { bounds: BudgetBounds { tokens, cost_micro_usd, requests }, ..Account::default() }
}

fn wanted(input: u64, max_output_tokens: Option<u64>) -> CallEstimate {
    let input = Spend { tokens: input, cost_micro_usd: input, requests: 1 };
    CallEstimate { input, output_price: 2_000_000, max_output_tokens }
}

#[test]
fn the_rest_of_a_budget_bounds_the_output() {
    let table = [
        (bounded(None, None, None), Some(50), Ok(Some(50))),
        (bounded(None, None, None), None, Ok(None)),
        (bounded(Some(100), None, None), Some(500), Ok(Some(90))),
        (bounded(Some(100), None, None), None, Ok(Some(90))),
        (bounded(Some(10_000_000), None, None), None, Ok(None)),
        // The price is two millionths a token: 90 pay for 45.
        (bounded(None, Some(100), None), Some(500), Ok(Some(45))),
        (
            bounded(Some(9), None, None),
            None,
            Err("0 of 9 tokens are used, and this call would take at least 10 more"),
        ),
        (
            bounded(Some(10), None, None),
            None,
            Err("0 of 10 tokens are used, and this call would take at least 11 more"),
        ),
        (
            bounded(None, Some(11), None),
            None,
            Err("0.00 of 0.000011 dollars are used, and this call would take at least 0.000012 more"),
        ),
        // A call that only counts tokens needs no output.
        (bounded(Some(10), None, None), Some(0), Ok(Some(0))),
        (bounded(None, None, Some(0)), None, Err("0 of 0 requests are used")),
    ];
    for (mut account, asked, expected) in table {
        let found = reserve(&mut [&mut account], wanted(10, asked));
        let found = found.map(|reservation| reservation.max_output_tokens);
        let found = found.map_err(|denied| match denied {
            ReserveError::Exceeded(_, over) => over.to_string(),
            ReserveError::Busy => "busy".to_owned(),
        });
        assert_eq!(found, expected.map_err(str::to_owned), "{account:?} {asked:?}");
    }
}

#[test]
fn a_refusal_reserves_nothing() {
    let (mut wide, mut narrow) = (bounded(None, None, None), bounded(Some(5), None, None));
    let refused = reserve(&mut [&mut wide, &mut narrow], wanted(10, None));
    assert!(matches!(refused, Err(ReserveError::Exceeded(1, _))), "{refused:?}");
    assert_eq!((wide.reserved, narrow.reserved), (Spend::default(), Spend::default()));
}

#[test]
fn a_budget_is_busy_while_open_calls_may_release_some_of_it() {
    let mut account = bounded(Some(10_000), None, Some(3));
    let first = reserve(&mut [&mut account], wanted(1_000, Some(6_000))).expect("there is room");
    // Two thousand tokens are left: enough for a title, not for an answer.
    let title = reserve(&mut [&mut account], wanted(1_000, Some(100))).expect("all that it asks for");
    assert_eq!(title.max_output_tokens, Some(100));
    for (input, asked) in [(1_000, None), (1_000, Some(5_000)), (3_000, Some(1))] {
        assert_eq!(
            reserve(&mut [&mut account], wanted(input, asked)),
            Err(ReserveError::Busy),
            "{input} {asked:?}"
        );
    }
    settle(&mut [&mut account], title.reserved, Spend { requests: 1, ..Spend::default() });
    settle(&mut [&mut account], first.reserved, Spend { tokens: 6_000, requests: 1, ..Spend::default() });
    let last = reserve(&mut [&mut account], wanted(1_000, None)).expect("something was left");
    assert_eq!(last.max_output_tokens, Some(3_000));
    // Each open call is a request.
    let refused = reserve(&mut [&mut account], wanted(0, Some(1)));
    assert!(matches!(refused, Err(ReserveError::Exceeded(0, over)) if over.measure == Measure::Requests));
}

#[test]
fn no_call_is_free_and_none_is_too_large_to_count() {
    assert_eq!(cost_micro_usd(&[(1, 1)]), 1);
    assert_eq!(cost_micro_usd(&[(1_000_000, 3_000_000), (500_000, 2)]), 3_000_001);
    assert_eq!(cost_micro_usd(&[(u64::MAX, u64::MAX)]), u64::MAX);
    assert_eq!(
        (dollars(1_500_000), dollars(10), dollars(0)),
        ("1.50".into(), "0.00001".into(), "0.00".into())
    );
}

#[derive(Debug, Clone)]
enum Act {
    Begin { input: u64, max: Option<u64> },
    Stream { call: usize, more: u64 },
    End { call: usize, part: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..300u64, proptest::option::of(1..400u64)).prop_map(|(input, max)| Act::Begin { input, max }),
        (any::<usize>(), 0..300u64).prop_map(|(call, more)| Act::Stream { call, more }),
        (any::<usize>(), 0..=100u64).prop_map(|(call, part)| Act::End { call, part }),
    ]
}

proptest! {
    /// As long as each call stays within its reservation, no bound is ever exceeded and calls that have ended
    /// leave nothing reserved.
    #[test]
    fn concurrent_calls_never_exceed_a_bound_together(
        acts in proptest::collection::vec(act(), 1..60),
        bounds in (1..2_000u64, 1..4_000u64, 1..20u64),
    ) {
        let mut task = bounded(Some(bounds.0), None, Some(bounds.2));
        let mut tenant = bounded(None, Some(bounds.1), None);
        let mut open: Vec<Spend> = Vec::new();
        for act in acts {
            match act {
                Act::Begin { input, max } => {
                    let begun = reserve(&mut [&mut task, &mut tenant], wanted(input, max));
                    open.extend(begun.map(|reservation| reservation.reserved));
                }
                Act::Stream { call, more } if !open.is_empty() => {
                    let more = output_spend(more, 2_000_000);
                    let index = call % open.len();
                    if extend_reservation(&mut [&mut task, &mut tenant], more).is_ok() {
                        open[index] = open[index].plus(more);
                    }
                }
                Act::End { call, part } if !open.is_empty() => {
                    let ended = open.swap_remove(call % open.len());
                    let used = Spend {
                        tokens: ended.tokens * part / 100,
                        cost_micro_usd: ended.cost_micro_usd * part / 100,
                        requests: ended.requests,
                    };
                    settle(&mut [&mut task, &mut tenant], ended, used);
                }
                Act::Stream { .. } | Act::End { .. } => {}
            }
            prop_assert!(task.committed().tokens <= bounds.0, "{task:?}");
            prop_assert!(tenant.committed().cost_micro_usd <= bounds.1, "{tenant:?}");
            prop_assert!(task.committed().requests <= bounds.2, "{task:?}");
        }
        for ended in open {
            settle(&mut [&mut task, &mut tenant], ended, Spend::default());
        }
        prop_assert_eq!((task.reserved, tenant.reserved), (Spend::default(), Spend::default()));
    }
}
