//! Budgets of model calls. A call reserves what it may cost before it is made, so concurrent calls cannot
//! exceed a bound together.

use serde::{Deserialize, Serialize};
use std::fmt;

/// No model outputs more than this at once; reserved for a call without a limit of its own.
pub const OUTPUT_ASSUMED_MAX_TOKENS: u64 = 128 << 10;
/// While other calls run, a call that has less output left than this waits for them: half an answer is
/// useless.
pub const OUTPUT_USEFUL_MIN_TOKENS: u64 = 4 << 10;
const MILLION: u128 = 1_000_000;

/// The bounds of a budget; an absent one is unbounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetBounds {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spend {
    pub tokens: u64,
    pub cost_micro_usd: u64,
    pub requests: u64,
}

impl Spend {
    pub fn plus(self, more: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(more.tokens),
            cost_micro_usd: self.cost_micro_usd.saturating_add(more.cost_micro_usd),
            requests: self.requests.saturating_add(more.requests),
        }
    }

    pub fn minus(self, less: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(less.tokens),
            cost_micro_usd: self.cost_micro_usd.saturating_sub(less.cost_micro_usd),
            requests: self.requests.saturating_sub(less.requests),
        }
    }
}

/// The bound that a call would exceed, with the numbers that explain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundExceeded {
    pub measure: Measure,
    pub bound: u64,
    pub used: u64,
    /// Reserved for other calls.
    pub reserved: u64,
    /// The least that the refused call needs.
    pub needs: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Tokens,
    Cost,
    Requests,
}

impl fmt::Display for BoundExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, bound, used, reserved, needs } = *self;
        let (shown, what): (fn(u64) -> String, _) = match measure {
            Measure::Tokens => (|tokens| tokens.to_string(), "tokens"),
            Measure::Cost => (dollars, "dollars"),
            Measure::Requests => (|requests| requests.to_string(), "requests"),
        };
        write!(f, "{} of {} {what} are used", shown(used), shown(bound))?;
        if measure == Measure::Requests || used >= bound {
            return Ok(());
        }
        if reserved > 0 {
            write!(f, ", {} are set aside for calls under way", shown(reserved))?;
        }
        write!(f, ", and this call would take at least {} more", shown(needs))
    }
}

/// Formats millionths of a dollar, with at least two digits after the point.
fn dollars(micro_usd: u64) -> String {
    let text = format!("{}.{:06}", micro_usd / 1_000_000, micro_usd % 1_000_000);
    let cents = text.len() - 4;
    format!("{}{}", &text[..cents], text[cents..].trim_end_matches('0'))
}

/// A budget with what is used and reserved of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    pub bounds: BudgetBounds,
    pub used: Spend,
    /// Reserved for calls that have not ended.
    pub reserved: Spend,
}

impl Account {
    fn committed(&self) -> Spend {
        self.used.plus(self.reserved)
    }

    /// Checks that the bounds allow so much more.
    fn check(&self, more: Spend) -> Result<(), BoundExceeded> {
        let after = self.committed().plus(more);
        let BudgetBounds { tokens, cost_micro_usd, requests } = self.bounds;
        let measures = [
            (Measure::Requests, requests, after.requests),
            (Measure::Tokens, tokens, after.tokens),
            (Measure::Cost, cost_micro_usd, after.cost_micro_usd),
        ];
        for (measure, bound, after) in measures {
            if let Some(bound) = bound.filter(|bound| after > *bound) {
                return Err(self.exceeded(measure, bound, more));
            }
        }
        Ok(())
    }

    /// The output tokens that remain after `before`; `None` is any number.
    fn output_tokens_left(&self, before: Spend, output_price: u64) -> Option<u64> {
        let committed = self.committed().plus(before);
        let by_tokens = self.bounds.tokens.map(|bound| bound.saturating_sub(committed.tokens));
        let by_cost = self.bounds.cost_micro_usd.filter(|_| output_price > 0).map(|bound| {
            let micro = u128::from(bound.saturating_sub(committed.cost_micro_usd));
            u64::try_from(micro * MILLION / u128::from(output_price)).unwrap_or(u64::MAX)
        });
        [by_tokens, by_cost].into_iter().flatten().min()
    }

    /// The bound that leaves a call not a single token of output.
    fn exceeded_bound(&self, before: Spend, output_price: u64) -> BoundExceeded {
        let wanted = before.plus(output_spend(1, output_price));
        let BudgetBounds { tokens, cost_micro_usd, .. } = self.bounds;
        match (tokens, cost_micro_usd) {
            (Some(bound), _) if self.committed().plus(wanted).tokens > bound => {
                self.exceeded(Measure::Tokens, bound, wanted)
            }
            (_, Some(bound)) => self.exceeded(Measure::Cost, bound, wanted),
            (tokens, None) => self.exceeded(Measure::Tokens, tokens.unwrap_or(0), wanted),
        }
    }

    fn exceeded(&self, measure: Measure, bound: u64, more: Spend) -> BoundExceeded {
        let of = |spend: Spend| match measure {
            Measure::Tokens => spend.tokens,
            Measure::Cost => spend.cost_micro_usd,
            Measure::Requests => spend.requests,
        };
        BoundExceeded { measure, bound, used: of(self.used), reserved: of(self.reserved), needs: of(more) }
    }

    /// Busy while open calls may still release tokens or cost. Requests are not released: each call is one.
    fn reserve_error(&self, index: usize, over: BoundExceeded) -> ReserveError {
        let may_free_up = over.measure != Measure::Requests && self.has_open_calls();
        if may_free_up { ReserveError::Busy } else { ReserveError::Exceeded(index, over) }
    }

    fn has_open_calls(&self) -> bool {
        self.reserved.requests > 0
    }

    /// Whether this budget bounds output tokens.
    fn bounds_output(&self) -> bool {
        self.bounds.tokens.is_some() || self.bounds.cost_micro_usd.is_some()
    }
}

/// The cost of tokens at prices in millionths of a dollar for a million of them, rounded up: no call is free.
pub fn cost_micro_usd(parts: &[(u64, u64)]) -> u64 {
    let sum: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
    u64::try_from(sum.div_ceil(MILLION)).unwrap_or(u64::MAX)
}

/// The most that a call may use, known before it is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallEstimate {
    pub input: Spend,
    /// In millionths of a dollar for a million tokens; 0 where no cost is counted.
    pub output_price: u64,
    pub max_output_tokens: Option<u64>,
}

/// The amounts that were reserved for a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reservation {
    pub reserved: Spend,
    pub max_output_tokens: Option<u64>,
    /// Some budget bounds the output of the call.
    pub bounded: bool,
}

/// Why nothing was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReserveError {
    /// The account at this index would exceed a bound.
    Exceeded(usize, BoundExceeded),
    /// The rest is reserved for calls that have not ended.
    Busy,
}

/// Reserves what the call may use in all accounts, or in none. Streams reserve their output too: its length
/// is known only after other calls have begun.
pub fn reserve(accounts: &mut [&mut Account], estimate: CallEstimate) -> Result<Reservation, ReserveError> {
    let mut left: Option<u64> = None;
    for (index, account) in accounts.iter().enumerate() {
        account.check(estimate.input).map_err(|over| account.reserve_error(index, over))?;
        let left_here = account.output_tokens_left(estimate.input, estimate.output_price);
        let useful_min = if account.has_open_calls() { OUTPUT_USEFUL_MIN_TOKENS } else { 1 };
        let required = estimate.max_output_tokens.map_or(useful_min, |max| max.min(useful_min));
        if left_here.is_some_and(|left_here| left_here < required) {
            let over = account.exceeded_bound(estimate.input, estimate.output_price);
            return Err(account.reserve_error(index, over));
        }
        left = [left, left_here].into_iter().flatten().min();
    }
    let max_output_tokens = match (estimate.max_output_tokens, left) {
        (Some(max), Some(left)) => Some(max.min(left)),
        (Some(max), None) => Some(max),
        // A limit that no model reaches is left out, since some providers refuse it.
        (None, left) => left.filter(|left| *left < OUTPUT_ASSUMED_MAX_TOKENS),
    };
    let output = max_output_tokens.unwrap_or(OUTPUT_ASSUMED_MAX_TOKENS);
    let bounded = accounts.iter().any(|account| account.bounds_output());
    let reserved = estimate.input.plus(output_spend(output, estimate.output_price));
    for account in accounts.iter_mut() {
        account.reserved = account.reserved.plus(reserved);
    }
    Ok(Reservation { reserved, max_output_tokens, bounded })
}

/// Reserves more for a call that goes on.
pub fn extend_reservation(accounts: &mut [&mut Account], more: Spend) -> Result<(), (usize, BoundExceeded)> {
    for (index, account) in accounts.iter().enumerate() {
        account.check(more).map_err(|over| (index, over))?;
    }
    for account in accounts.iter_mut() {
        account.reserved = account.reserved.plus(more);
    }
    Ok(())
}

/// Replaces the reservation of a call that has ended by what it used.
pub fn settle(accounts: &mut [&mut Account], reserved: Spend, used: Spend) {
    for account in accounts.iter_mut() {
        account.reserved = account.reserved.minus(reserved);
        account.used = account.used.plus(used);
    }
}

pub fn output_spend(tokens: u64, price: u64) -> Spend {
    Spend { tokens, cost_micro_usd: cost_micro_usd(&[(tokens, price)]), requests: 0 }
}

#[cfg(test)]
mod tests;
