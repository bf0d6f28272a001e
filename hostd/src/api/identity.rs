//! The caller, as it was authenticated.

use super::{
    call::Call,
    error::CallResult,
    route::{RequiredAccess::Read, Route},
    views::ok,
};
use hostd_core::rfc3339;
use hyper::Method;
use protocol::api::IdentityView;

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/identity", Read, get)
            .operation("getIdentity", "Who the caller is, and what its token allows")
            .returns::<IdentityView>(200),
    ]
}

async fn get(call: Call) -> CallResult {
    let caller = &call.caller;
    Ok(ok(&IdentityView {
        tenant: caller.tenant.clone(),
        principal: caller.principal.clone(),
        scope: caller.scope,
        operator: caller.operator,
        expires_at: caller.expires_ms.map(rfc3339),
    }))
}
