//! Egress rules of a sandbox, and egress profiles of the host.

use super::{
    call::Call,
    error::{CallError, CallResult},
    views::{no_content, ok},
};
use hostd_core::{
    check_egress,
    egress::{DEFAULT_PROFILE, RuleSet},
};
use hostd_edge::egress::{Profiles, ProfilesError};
use hostd_store::{SandboxRecord, SandboxUpdate};
use protocol::{
    ProfileName,
    api::{ApiErrorCode, EgressProfile, EgressProfileView, EgressRules, EgressView, Network, Page},
};

pub async fn get(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    Ok(ok(&view(&call, &record).await?))
}

/// Replaces all rules of a sandbox, from its next request on; open connections that are now denied end.
pub async fn put(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    let rules: EgressRules = call.json()?;
    check_egress("", &rules)?;
    check_profile(&call, "profile", &rules)?;
    if record.blueprint.network != Network::Proxy {
        let message = "egress rules need a sandbox that was created with network: proxy";
        return Err(CallError::new(ApiErrorCode::Conflict, message));
    }
    let change = SandboxUpdate { egress: Some(rules), ..SandboxUpdate::default() };
    let record = call.api.store.update_sandbox(&record.id, change, call.api.now_ms()).await?;
    // Published first: persisted rules must be in force even if the view fails.
    call.api.fleet.publish_change(record.clone());
    Ok(ok(&view(&call, &record).await?))
}

/// Checks that the profile named by rules exists.
pub fn check_profile(call: &Call, field: &str, rules: &EgressRules) -> Result<(), CallError> {
    if let Some(name) = &rules.profile
        && profiles(call).get(name).is_none()
    {
        let message = format!("no egress profile {name}; the operator defines profiles");
        return Err(CallError::invalid(field, message));
    }
    Ok(())
}

async fn view(call: &Call, record: &SandboxRecord) -> Result<EgressView, CallError> {
    let used_bytes = call.api.egress.used_bytes(record).await?;
    let EgressRules { profile, allow, deny, max_mb } = record.blueprint.egress.clone();
    Ok(EgressView { mode: record.blueprint.network, profile, allow, deny, max_mb, used_bytes })
}

pub async fn profile_list(call: Call) -> CallResult {
    Ok(ok(&Page { items: profiles(&call).views(), next: None }))
}

pub async fn profile_get(call: Call) -> CallResult {
    let view = profiles(&call).get(call.param("name")?).ok_or_else(CallError::not_found)?;
    Ok(ok(&view))
}

pub async fn profile_put(call: Call) -> CallResult {
    let name = call.param("name")?;
    ProfileName::parse(name).map_err(|error| CallError::invalid("name", error.to_string()))?;
    let profile: EgressProfile = call.json()?;
    for (field, list) in [("allow", &profile.allow), ("deny", &profile.deny)] {
        RuleSet::parse(list, &[]).map_err(|error| CallError::invalid(field, error.to_string()))?;
    }
    let EgressProfile { allow, deny } = profile.clone();
    profiles(&call).put(name, profile, call.api.now_ms()).await?;
    Ok(ok(&EgressProfileView { name: name.to_owned(), allow, deny }))
}

/// Deleting `default` restores its initial rules.
pub async fn profile_delete(call: Call) -> CallResult {
    let name = call.param("name")?;
    let there = profiles(&call).remove(name).await?;
    if there || name == DEFAULT_PROFILE { Ok(no_content()) } else { Err(CallError::not_found()) }
}

fn profiles(call: &Call) -> &Profiles {
    call.api.egress.profiles()
}

impl From<ProfilesError> for CallError {
    fn from(error: ProfilesError) -> Self {
        match error {
            ProfilesError::TooMany => Self::new(ApiErrorCode::TooMany, error.to_string()),
            ProfilesError::Store(error) => error.into(),
        }
    }
}
