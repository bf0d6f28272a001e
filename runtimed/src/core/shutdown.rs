//! Shutdown of the whole sandbox within one time limit.
//!
//! ```text
//!  level 0: services nothing depends on, and every exec     TERM
//!  level 1: what those depended on                          TERM when level 0 is gone, or its time is over
//!  …
//!  kill_at: all remaining processes                         KILL
//!  end_at:  exit, also with processes left
//! ```

use crate::limits::SHUTDOWN_KILL_MS;
use protocol::ServiceName;
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
pub struct Shutdown {
    levels: Vec<Vec<ServiceName>>,
    level: usize,
    level_until: u64,
    share_ms: u64,
    kill_at: u64,
    end_at: u64,
    killed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// SIGTERM now, SIGKILL after this grace.
    StopServices {
        names: Vec<ServiceName>,
        grace_ms: u64,
    },
    StopExecs {
        grace_ms: u64,
    },
    KillAll,
    Exit,
}

impl Shutdown {
    /// Begins; `levels` in the order in which they stop.
    pub fn begin(levels: Vec<Vec<ServiceName>>, budget_ms: u64, now: u64) -> (Self, Vec<Effect>) {
        let kill_ms = SHUTDOWN_KILL_MS.min(budget_ms / 4);
        let window_ms = budget_ms - kill_ms;
        let share_ms = window_ms / levels.len().max(1) as u64;
        let machine = Self {
            level: 0,
            level_until: now.saturating_add(share_ms),
            share_ms,
            kill_at: now.saturating_add(window_ms),
            end_at: now.saturating_add(budget_ms),
            killed: false,
            levels,
        };
        let mut effects = vec![Effect::StopExecs { grace_ms: window_ms }];
        effects.extend(machine.stop_level(now));
        (machine, effects)
    }

    /// Advances. `alive` are the services with a process, `jobs` counts all jobs.
    pub fn step(&mut self, alive: &BTreeSet<ServiceName>, jobs: usize, now: u64) -> Vec<Effect> {
        if jobs == 0 || now >= self.end_at {
            return vec![Effect::Exit];
        }
        if now >= self.kill_at {
            let first = !std::mem::replace(&mut self.killed, true);
            return if first { vec![Effect::KillAll] } else { Vec::new() };
        }
        let mut effects = Vec::new();
        while self.level_is_over(alive, now) && self.level + 1 < self.levels.len() {
            self.level += 1;
            self.level_until = now.saturating_add(self.share_ms);
            effects.extend(self.stop_level(now));
        }
        effects
    }

    pub fn next_wake(&self) -> u64 {
        match (self.killed, self.level + 1 < self.levels.len()) {
            (true, _) => self.end_at,
            (false, true) => self.level_until.min(self.kill_at),
            (false, false) => self.kill_at,
        }
    }

    fn level_is_over(&self, alive: &BTreeSet<ServiceName>, now: u64) -> bool {
        let gone = |names: &Vec<ServiceName>| !names.iter().any(|name| alive.contains(name));
        now >= self.level_until || self.levels.get(self.level).is_none_or(gone)
    }

    fn stop_level(&self, now: u64) -> Option<Effect> {
        let names = self.levels.get(self.level)?.clone();
        Some(Effect::StopServices { names, grace_ms: self.kill_at.saturating_sub(now) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> ServiceName {
        ServiceName::parse(text).expect("a good name")
    }

    fn alive(names: &[&str]) -> BTreeSet<ServiceName> {
        names.iter().map(|n| name(n)).collect()
    }

    #[test]
    fn what_depends_stops_before_what_it_depends_on() {
        let (mut machine, effects) = Shutdown::begin(vec![vec![name("web")], vec![name("db")]], 8_000, 0);
        assert!(effects.contains(&Effect::StopServices { names: vec![name("web")], grace_ms: 6_000 }));
        assert_eq!(machine.step(&alive(&["web", "db"]), 2, 10), []);
        let stop_db = Effect::StopServices { names: vec![name("db")], grace_ms: 5_980 };
        assert_eq!(machine.step(&alive(&["db"]), 1, 20), [stop_db]);
        assert_eq!(machine.step(&alive(&[]), 0, 30), [Effect::Exit]);
    }

    proptest! {
        #[test]
        fn it_ends_within_its_budget_though_nothing_dies(budget in 0u64..60_000, levels in 0usize..6, start in 0u64..1_000_000) {
            let names: Vec<_> = (0..levels).map(|i| name(&format!("s{i}"))).collect();
            let all: BTreeSet<_> = names.iter().cloned().collect();
            let (mut machine, _) = Shutdown::begin(names.into_iter().map(|n| vec![n]).collect(), budget, start);
            let mut now = start;
            let mut killed = 0;
            for _ in 0..levels + 3 {
                now = now.max(machine.next_wake());
                let effects = machine.step(&all, 1, now);
                killed += effects.iter().filter(|e| **e == Effect::KillAll).count();
                if effects.contains(&Effect::Exit) {
                    prop_assert!(now - start <= budget);
                    prop_assert!(killed == 1 || budget < 4, "SIGKILL was tried once");
                    return Ok(());
                }
            }
            prop_assert!(false, "never exits");
        }
    }
}
