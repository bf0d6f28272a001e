//! What may be used of models, and what is. A call sets aside what it may cost before it is made, so calls that
//! run side by side cannot pass a bound together.

use serde::{Deserialize, Serialize};
use std::fmt;

/// No model answers more than this at once; set aside for a call that names no bound of its own.
pub const OUTPUT_ASSUMED_MAX_TOKENS: u64 = 128 << 10;
/// While others run, a call that could answer less than this waits for them: half an answer helps nobody.
pub const OUTPUT_WORTH_TOKENS: u64 = 4 << 10;
const MILLION: u128 = 1_000_000;

/// What is absent has no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub tokens: u64,
    pub cost_micro_usd: u64,
    pub requests: u64,
}

impl Spent {
    pub fn and(self, more: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(more.tokens),
            cost_micro_usd: self.cost_micro_usd.saturating_add(more.cost_micro_usd),
            requests: self.requests.saturating_add(more.requests),
        }
    }

    pub fn without(self, less: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(less.tokens),
            cost_micro_usd: self.cost_micro_usd.saturating_sub(less.cost_micro_usd),
            requests: self.requests.saturating_sub(less.requests),
        }
    }
}

/// Which bound is reached, and what was used up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    pub measure: Measure,
    pub bound: u64,
    pub used: u64,
    /// For other calls.
    pub set_aside: u64,
    /// By the call that is refused, at least.
    pub wants: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Tokens,
    Cost,
    Requests,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, bound, used, set_aside, wants } = *self;
        let (shown, what): (fn(u64) -> String, _) = match measure {
            Measure::Tokens => (|tokens| tokens.to_string(), "tokens"),
            Measure::Cost => (dollars, "dollars"),
            Measure::Requests => (|requests| requests.to_string(), "requests"),
        };
        write!(f, "{} of {} {what} are used", shown(used), shown(bound))?;
        if measure == Measure::Requests || used >= bound {
            return Ok(());
        }
        if set_aside > 0 {
            write!(f, ", {} are set aside for calls under way", shown(set_aside))?;
        }
        write!(f, ", and this call would take at least {} more", shown(wants))
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
    pub bounds: Bounds,
    pub used: Spent,
    /// By calls that have no end yet.
    pub set_aside: Spent,
}

impl Account {
    fn taken(&self) -> Spent {
        self.used.and(self.set_aside)
    }

    /// Whether so much more may be used.
    fn bears(&self, more: Spent) -> Result<(), Over> {
        let after = self.taken().and(more);
        let Bounds { tokens, cost_micro_usd, requests } = self.bounds;
        let measures = [
            (Measure::Requests, requests, after.requests),
            (Measure::Tokens, tokens, after.tokens),
            (Measure::Cost, cost_micro_usd, after.cost_micro_usd),
        ];
        for (measure, bound, after) in measures {
            if let Some(bound) = bound.filter(|bound| after > *bound) {
                return Err(self.over(measure, bound, more));
            }
        }
        Ok(())
    }

    /// How many tokens may be answered when so much is taken before; `None` is any number.
    fn output_left(&self, before: Spent, output_price: u64) -> Option<u64> {
        let taken = self.taken().and(before);
        let by_tokens = self.bounds.tokens.map(|bound| bound.saturating_sub(taken.tokens));
        let by_cost = self.bounds.cost_micro_usd.filter(|_| output_price > 0).map(|bound| {
            let micro = u128::from(bound.saturating_sub(taken.cost_micro_usd));
            u64::try_from(micro * MILLION / u128::from(output_price)).unwrap_or(u64::MAX)
        });
        [by_tokens, by_cost].into_iter().flatten().min()
    }

    /// Of a call that could not answer a single token.
    fn why_full(&self, before: Spent, output_price: u64) -> Over {
        let wanted = before.and(output_spent(1, output_price));
        let Bounds { tokens, cost_micro_usd, .. } = self.bounds;
        match (tokens, cost_micro_usd) {
            (Some(bound), _) if self.taken().and(wanted).tokens > bound => {
                self.over(Measure::Tokens, bound, wanted)
            }
            (_, Some(bound)) => self.over(Measure::Cost, bound, wanted),
            (tokens, None) => self.over(Measure::Tokens, tokens.unwrap_or(0), wanted),
        }
    }

    fn over(&self, measure: Measure, bound: u64, more: Spent) -> Over {
        let of = |spent: Spent| match measure {
            Measure::Tokens => spent.tokens,
            Measure::Cost => spent.cost_micro_usd,
            Measure::Requests => spent.requests,
        };
        Over { measure, bound, used: of(self.used), set_aside: of(self.set_aside), wants: of(more) }
    }

    /// Calls that have no end yet may leave something over. Not of requests: each of them is one.
    fn denied(&self, index: usize, over: Over) -> Denied {
        let hopes = over.measure != Measure::Requests && self.has_calls();
        if hopes { Denied::Busy } else { Denied::Over(index, over) }
    }

    fn has_calls(&self) -> bool {
        self.set_aside.requests > 0
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
pub struct Wanted {
    pub input: Spent,
    /// In millionths of a dollar for a million tokens; 0 where no cost is counted.
    pub output_price: u64,
    pub max_output_tokens: Option<u64>,
}

/// What was set aside for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Admitted {
    pub set_aside: Spent,
    pub max_output_tokens: Option<u64>,
    /// Some account bounds what is answered.
    pub bounded: bool,
}

/// Why nothing was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Used up, in the account with this number.
    Over(usize, Over),
    /// What is left is set aside for calls that are under way.
    Busy,
}

/// Sets aside what the call may use in all accounts, or in none. Streams too: how much they answer is known only
/// when others have begun beside them.
pub fn admit(accounts: &mut [&mut Account], wanted: Wanted) -> Result<Admitted, Denied> {
    let mut left: Option<u64> = None;
    for (index, account) in accounts.iter().enumerate() {
        account.bears(wanted.input).map_err(|over| account.denied(index, over))?;
        let here = account.output_left(wanted.input, wanted.output_price);
        let worth = if account.has_calls() { OUTPUT_WORTH_TOKENS } else { 1 };
        let least = wanted.max_output_tokens.map_or(worth, |asked| asked.min(worth));
        if here.is_some_and(|here| here < least) {
            let over = account.why_full(wanted.input, wanted.output_price);
            return Err(account.denied(index, over));
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
    let set_aside = wanted.input.and(output_spent(output, wanted.output_price));
    for account in accounts.iter_mut() {
        account.set_aside = account.set_aside.and(set_aside);
    }
    Ok(Admitted { set_aside, max_output_tokens, bounded })
}

/// Sets aside more for a call that goes on.
pub fn extend(accounts: &mut [&mut Account], more: Spent) -> Result<(), (usize, Over)> {
    for (index, account) in accounts.iter().enumerate() {
        account.bears(more).map_err(|over| (index, over))?;
    }
    for account in accounts.iter_mut() {
        account.set_aside = account.set_aside.and(more);
    }
    Ok(())
}

/// A call has ended: what it used takes the place of what was set aside.
pub fn settle(accounts: &mut [&mut Account], set_aside: Spent, used: Spent) {
    for account in accounts.iter_mut() {
        account.set_aside = account.set_aside.without(set_aside);
        account.used = account.used.and(used);
    }
}

pub fn output_spent(tokens: u64, price: u64) -> Spent {
    Spent { tokens, cost_micro_usd: cost_micro_usd(&[(tokens, price)]), requests: 0 }
}

#[cfg(test)]
mod tests;
