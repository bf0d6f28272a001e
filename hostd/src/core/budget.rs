//! What may be used of models, and what is. A call sets aside what it may cost before it is made, so calls that
//! run side by side cannot pass a bound together.

use serde::{Deserialize, Serialize};
use std::fmt;

/// No model answers more than this at once; set aside for a call that names no bound of its own.
pub const OUTPUT_ASSUMED_MAX_TOKENS: u64 = 128 << 10;
/// While others run, a call that could answer less than this waits for them: half an answer helps nobody.
pub const OUTPUT_USEFUL_MIN_TOKENS: u64 = 4 << 10;
const MILLION: u128 = 1_000_000;

/// What is absent has no bound.
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

/// Which bound is reached, and what was used up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundExceeded {
    pub measure: Measure,
    pub bound: u64,
    pub used: u64,
    /// For other calls.
    pub reserved: u64,
    /// By the call that is refused, at least.
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

/// Millionths as people write them.
fn dollars(micro_usd: u64) -> String {
    let text = format!("{}.{:06}", micro_usd / 1_000_000, micro_usd % 1_000_000);
    let cents = text.len() - 4;
    format!("{}{}", &text[..cents], text[cents..].trim_end_matches('0'))
}

/// One budget, and how much of it is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    pub bounds: BudgetBounds,
    pub used: Spend,
    /// By calls that have no end yet.
    pub reserved: Spend,
}

impl Account {
    fn committed(&self) -> Spend {
        self.used.plus(self.reserved)
    }

    /// Whether so much more may be used.
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

    /// How many tokens may be answered when so much is committed before; `None` is any number.
    fn output_tokens_left(&self, before: Spend, output_price: u64) -> Option<u64> {
        let committed = self.committed().plus(before);
        let by_tokens = self.bounds.tokens.map(|bound| bound.saturating_sub(committed.tokens));
        let by_cost = self.bounds.cost_micro_usd.filter(|_| output_price > 0).map(|bound| {
            let micro = u128::from(bound.saturating_sub(committed.cost_micro_usd));
            u64::try_from(micro * MILLION / u128::from(output_price)).unwrap_or(u64::MAX)
        });
        [by_tokens, by_cost].into_iter().flatten().min()
    }

    /// Of a call that could not answer a single token.
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
        let of = |spent: Spend| match measure {
            Measure::Tokens => spent.tokens,
            Measure::Cost => spent.cost_micro_usd,
            Measure::Requests => spent.requests,
        };
        BoundExceeded { measure, bound, used: of(self.used), reserved: of(self.reserved), needs: of(more) }
    }

    /// Calls that have no end yet may leave something over. Not of requests: each of them is one.
    fn reserve_error(&self, index: usize, over: BoundExceeded) -> ReserveError {
        let hopes = over.measure != Measure::Requests && self.has_open_calls();
        if hopes { ReserveError::Busy } else { ReserveError::Exceeded(index, over) }
    }

    fn has_open_calls(&self) -> bool {
        self.reserved.requests > 0
    }

    /// What is answered is bounded here.
    fn bounds_output(&self) -> bool {
        self.bounds.tokens.is_some() || self.bounds.cost_micro_usd.is_some()
    }
}

/// A price of tokens, in millionths of a dollar for a million of them, rounded up: no call is free.
pub fn cost_micro_usd(parts: &[(u64, u64)]) -> u64 {
    let sum: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
    u64::try_from(sum.div_ceil(MILLION)).unwrap_or(u64::MAX)
}

/// A call before it is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallEstimate {
    pub input: Spend,
    /// In millionths of a dollar for a million tokens; 0 where no cost is counted.
    pub output_price: u64,
    pub max_output_tokens: Option<u64>,
}

/// What was set aside for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reservation {
    pub reserved: Spend,
    pub max_output_tokens: Option<u64>,
    /// Some account bounds what is answered.
    pub bounded: bool,
}

/// Why nothing was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReserveError {
    /// Used up, in the account with this number.
    Exceeded(usize, BoundExceeded),
    /// What is left is set aside for calls that are under way.
    Busy,
}

/// Sets aside what the call may use in all accounts, or in none. Streams too: how much they answer is known only
/// when others have begun beside them.
pub fn reserve(accounts: &mut [&mut Account], wanted: CallEstimate) -> Result<Reservation, ReserveError> {
    let mut left: Option<u64> = None;
    for (index, account) in accounts.iter().enumerate() {
        account.check(wanted.input).map_err(|over| account.reserve_error(index, over))?;
        let here = account.output_tokens_left(wanted.input, wanted.output_price);
        let worth = if account.has_open_calls() { OUTPUT_USEFUL_MIN_TOKENS } else { 1 };
        let least = wanted.max_output_tokens.map_or(worth, |asked| asked.min(worth));
        if here.is_some_and(|here| here < least) {
            let over = account.exceeded_bound(wanted.input, wanted.output_price);
            return Err(account.reserve_error(index, over));
        }
        left = [left, here].into_iter().flatten().min();
    }
    let max_output_tokens = match (wanted.max_output_tokens, left) {
        (Some(asked), Some(left)) => Some(asked.min(left)),
        (Some(asked), None) => Some(asked),
        // A bound that no model reaches is none: some providers refuse it.
        (None, left) => left.filter(|left| *left < OUTPUT_ASSUMED_MAX_TOKENS),
    };
    let output = max_output_tokens.unwrap_or(OUTPUT_ASSUMED_MAX_TOKENS);
    let bounded = accounts.iter().any(|account| account.bounds_output());
    let reserved = wanted.input.plus(output_spend(output, wanted.output_price));
    for account in accounts.iter_mut() {
        account.reserved = account.reserved.plus(reserved);
    }
    Ok(Reservation { reserved, max_output_tokens, bounded })
}

/// Sets aside more for a call that goes on.
pub fn extend_reservation(accounts: &mut [&mut Account], more: Spend) -> Result<(), (usize, BoundExceeded)> {
    for (index, account) in accounts.iter().enumerate() {
        account.check(more).map_err(|over| (index, over))?;
    }
    for account in accounts.iter_mut() {
        account.reserved = account.reserved.plus(more);
    }
    Ok(())
}

/// A call has ended: what it used takes the place of what was set aside.
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
