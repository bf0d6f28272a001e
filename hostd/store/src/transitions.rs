//! Updates of existing sandboxes. The state of a sandbox changes in `apply_transition` and nowhere else.

use super::{
    attempts,
    columns::word,
    error::{Result, StoreError},
    events::{self, NewEvent},
    exec_exits,
    handle::Store,
    provisioning, quotas,
    records::{SandboxRecord, Secret},
    sandbox_row::{load, name_holder, update},
    shares, tasks,
};
use hostd_core::{
    Blueprint, Demand, Environment, Expiry, Goal, State, Transition, TransitionRefused, apply, counts_as_up,
    expiry, expiry_after,
};
use protocol::{
    ServiceSpec,
    api::{EgressRules, Limits, OnTtl, SandboxId, SandboxStatus},
};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::{collections::BTreeMap, mem, sync::Arc};

/// An update of everything but the state; absent fields stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxUpdate {
    pub name: Option<String>,
    pub metadata: Option<BTreeMap<String, String>>,
    /// `Some(None)` removes the expiry.
    pub expires_ms: Option<Option<u64>>,
    /// Part of the blueprint: how long the next run may be, where `on_ttl` does not destroy.
    pub ttl_ms: Option<Option<u64>>,
    /// Part of the blueprint.
    pub on_ttl: Option<OnTtl>,
    pub keep_workspace: Option<bool>,
    /// Part of the blueprint: applies to the next attempt, earlier attempts keep theirs.
    pub services: Option<Vec<ServiceSpec>>,
    /// Part of the blueprint.
    pub egress: Option<EgressRules>,
    /// Part of the blueprint: in force as soon as the driver has applied them. What grows of a sandbox that is up is
    /// checked against the quotas of its owner.
    pub limits: Option<Limits>,
    /// The same for limits that were found in force, which no quota refuses.
    pub found_limits: Option<Limits>,
    pub env: Option<Secret<Environment>>,
}

impl Store {
    /// Applies a transition and writes row and event in one transaction. A transition that changes nothing
    /// writes nothing.
    pub async fn transition_sandbox(
        &self,
        id: &SandboxId,
        change: Transition,
        now_ms: u64,
    ) -> Result<SandboxRecord> {
        let (id, index) = (*id, self.shares().clone());
        let committed = move |record: &SandboxRecord| {
            if record.state.status == SandboxStatus::Destroyed {
                index.set(record.id, Vec::new());
            }
        };
        let work = move |conn: &Connection| apply_transition(conn, &id, &change, now_ms);
        self.write_then("move_sandbox", work, committed).await
    }

    /// Does what is due at the end of the TTL, decided on the row as it is then: it may have got more time meanwhile.
    /// `deadline_ms` is that of an operation towards the goal that `seen` has; if something else is due by now, or
    /// nothing, the row stays as it is.
    pub async fn expire_sandbox(
        &self,
        id: &SandboxId,
        seen: Expiry,
        deadline_ms: u64,
        now_ms: u64,
    ) -> Result<SandboxRecord> {
        let id = *id;
        self.write("expire_sandbox", move |conn| apply_expiry(conn, &id, seen, (deadline_ms, now_ms))).await
    }

    pub async fn update_sandbox(
        &self,
        id: &SandboxId,
        change: SandboxUpdate,
        now_ms: u64,
    ) -> Result<SandboxRecord> {
        let id = *id;
        self.write("change_sandbox", move |conn| apply_update(conn, &id, change, now_ms)).await
    }
}

pub(super) fn apply_transition(
    conn: &Connection,
    id: &SandboxId,
    change: &Transition,
    now_ms: u64,
) -> Result<SandboxRecord> {
    let mut record = load(conn, id)?;
    let next = apply(&record.state, change.clone())?;
    if next == record.state {
        return Ok(record);
    }
    if counts_as_up(&next) && !counts_as_up(&record.state) {
        let demand = Demand::launch(&record.blueprint.limits);
        quotas::check_room(conn, &record.owner, &demand, &Demand::default())?;
    }
    let (kind, mut data) = event_of(change, &next)?;
    if *change == Transition::Renewed && record.state.renewal.is_some_and(|renewal| !renewal.keep_workspace) {
        record.provisioning = record.provisioning.reset();
    }
    record.state = next;
    record.expires_ms = expiry_after(&record.blueprint, &record.state, record.expires_ms, now_ms);
    record.updated_ms = now_ms;
    record.generation += 1;
    if let Some(death) = change.death() {
        let post_mortem = death.post_mortem(tasks::running(conn, id)?, now_ms);
        tasks::record_death(conn, id, &death.message(None))?;
        data["post_mortem"] = json!(post_mortem);
        record.post_mortem = Some(Box::new(post_mortem));
        attempts::record_death(conn, &record)?;
    }
    if record.state.status == SandboxStatus::Destroyed {
        close_destroyed(conn, &mut record)?;
    }
    update(conn, &record)?;
    events::insert(conn, &NewEvent::of_hostd(&record, &kind, data))?;
    Ok(record)
}

fn apply_expiry(
    conn: &Connection,
    id: &SandboxId,
    seen: Expiry,
    (deadline_ms, now_ms): (u64, u64),
) -> Result<SandboxRecord> {
    let record = load(conn, id)?;
    let due = expiry(record.blueprint.on_ttl, &record.state, record.expires_ms, now_ms);
    if due != seen {
        return Ok(record);
    }
    let over = SandboxUpdate { expires_ms: Some(None), ..SandboxUpdate::default() };
    match due {
        Expiry::NotDue | Expiry::AfterOperation => Ok(record),
        Expiry::Reach(goal @ Goal::Destroyed) => {
            apply_transition(conn, id, &Transition::Accept { goal, deadline_ms }, now_ms)
        }
        Expiry::Reach(goal) => {
            apply_update(conn, id, over, now_ms)?;
            apply_transition(conn, id, &Transition::Accept { goal, deadline_ms }, now_ms)
        }
        Expiry::Over => apply_update(conn, id, over, now_ms),
    }
}

/// Closes everything that is open in a destroyed sandbox, since no task drives it any more.
fn close_destroyed(conn: &Connection, record: &mut SandboxRecord) -> Result<()> {
    attempts::close_open(conn, record)?;
    exec_exits::mark_lost(conn, &record.id, record.updated_ms)?;
    shares::delete_all(conn, &record.id)?;
    // The names stay for display; the values are secrets without a use.
    let env = &mut record.env.0;
    let services = env.services.values_mut().flat_map(|env| env.values_mut());
    let setup = env.setup.values_mut().flat_map(|env| env.values_mut());
    env.all.values_mut().chain(services).chain(setup).for_each(String::clear);
    provisioning::delete_dotfiles(conn, &record.id)?;
    Ok(())
}

/// Returns kind and data of the event of a transition.
fn event_of(change: &Transition, next: &State) -> Result<(String, Value)> {
    let operation = next.operation.as_ref();
    let phase = operation.map(|operation| operation.phase);
    let (kind, data) = match change {
        Transition::Accept { goal, .. } => ("wanted".to_owned(), json!({ "goal": goal, "phase": phase })),
        Transition::TakeBack { .. } => {
            ("wanted".to_owned(), json!({ "goal": next.goal, "phase": phase, "dozing": next.dozing }))
        }
        Transition::Doze { .. } => {
            ("wanted".to_owned(), json!({ "goal": next.goal, "phase": phase, "dozing": true }))
        }
        Transition::Evict { problem, .. } => {
            ("evicted".to_owned(), json!({ "goal": next.goal, "phase": phase, "problem": problem }))
        }
        Transition::Renew { renewal, .. } => {
            let goal = next.goal;
            ("wanted".to_owned(), json!({ "goal": goal, "phase": phase, "renewal": renewal }))
        }
        Transition::Renewed => ("renewed".to_owned(), json!({})),
        Transition::Extend { deadline_ms } => {
            ("delayed".to_owned(), json!({ "phase": phase, "deadline_ms": deadline_ms }))
        }
        Transition::Reached => {
            let mut data = if next.dozing { json!({ "dozing": true }) } else { json!({}) };
            if let Some(problem) = next.evicted() {
                data["problem"] = json!(problem);
            }
            (word(&next.status, "the status")?, data)
        }
        // The operation failed and the sandbox keeps its former status.
        Transition::GiveUp { problem, .. } if next.status != SandboxStatus::Error => {
            (word(&next.status, "the status")?, json!({ "problem": problem }))
        }
        Transition::GiveUp { problem, .. } => ("error".to_owned(), json!({ "problem": problem })),
        Transition::Lost { .. } => ("error".to_owned(), json!({ "problem": next.problem })),
        Transition::Restart { .. } => {
            ("error".to_owned(), json!({ "problem": next.problem, "phase": phase }))
        }
        Transition::Ended { .. } => ("ended".to_owned(), json!({})),
    };
    Ok((format!("sandbox.{kind}"), data))
}

fn apply_update(
    conn: &Connection,
    id: &SandboxId,
    change: SandboxUpdate,
    now_ms: u64,
) -> Result<SandboxRecord> {
    let mut record = load(conn, id)?;
    if record.state.status == SandboxStatus::Destroyed {
        return Err(StoreError::Refused(TransitionRefused::Destroyed));
    }
    let is_about_ttl = change.expires_ms.is_some() || change.on_ttl.is_some();
    // More time is either given, or refused.
    let comes_late = is_about_ttl && record.state.goal == Goal::Destroyed;
    if comes_late || (record.replaced_by.is_some() && (is_about_ttl || change.name.is_some())) {
        return Err(StoreError::Refused(TransitionRefused::Destroying));
    }
    if let Some(name) = &change.name
        && let Some(existing) = name_holder(conn, &record.owner, name)?
        && existing != record.id
    {
        return Err(StoreError::NameTaken { name: name.clone(), existing });
    }
    if let Some(limits) = &change.limits
        && counts_as_up(&record.state)
    {
        let demand = Demand::resize(&record.blueprint.limits, limits);
        quotas::check_room(conn, &record.owner, &demand, &Demand::default())?;
    }
    let limits = change.found_limits.or(change.limits);
    let changed = [
        ("name", replace(&mut record.name, change.name)),
        ("metadata", replace(&mut record.metadata, change.metadata)),
        ("expires_ms", replace(&mut record.expires_ms, change.expires_ms)),
        ("ttl_ms", rebuild(&mut record.blueprint, change.ttl_ms, |blueprint| &mut blueprint.ttl_ms)),
        ("on_ttl", rebuild(&mut record.blueprint, change.on_ttl, |blueprint| &mut blueprint.on_ttl)),
        ("keep_workspace", replace(&mut record.keep_workspace, change.keep_workspace)),
        ("services", rebuild(&mut record.blueprint, change.services, |blueprint| &mut blueprint.services)),
        ("egress", rebuild(&mut record.blueprint, change.egress, |blueprint| &mut blueprint.egress)),
        ("limits", rebuild(&mut record.blueprint, limits, |blueprint| &mut blueprint.limits)),
        ("env", replace(&mut record.env, change.env)),
    ];
    let fields: Vec<_> = changed.iter().filter(|(_, changed)| *changed).map(|(name, _)| *name).collect();
    if fields.is_empty() {
        return Ok(record);
    }
    record.updated_ms = now_ms;
    record.generation += 1;
    update(conn, &record)?;
    events::insert(conn, &NewEvent::of_hostd(&record, "sandbox.changed", json!({ "fields": fields })))?;
    Ok(record)
}

/// Sets a field; returns whether its value changed.
fn replace<T: PartialEq>(field: &mut T, value: Option<T>) -> bool {
    value.is_some_and(|value| mem::replace(field, value) != *field)
}

/// Sets one part of the blueprint: other parts may have changed since the caller read it.
fn rebuild<T: PartialEq>(
    blueprint: &mut Arc<Blueprint>,
    value: Option<T>,
    part: impl FnOnce(&mut Blueprint) -> &mut T,
) -> bool {
    value.is_some() && replace(part(Arc::make_mut(blueprint)), value)
}
