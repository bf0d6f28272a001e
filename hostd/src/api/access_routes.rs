//! The routes of shares and secrets, for the table of all routes.

use super::{
    route::{
        RequiredAccess::{Admin, Own, Read},
        Route,
    },
    route_params::{PAGE_BY_SECRET, SECRETS},
    secrets, shares,
};
use hyper::Method;
use protocol::api::{SecretSpec, SecretView, ShareSpec, ShareView};

pub fn all() -> Vec<Route> {
    [share(), secret()].into_iter().flatten().collect()
}

fn share() -> Vec<Route> {
    let of_principal = "/v1/sandboxes/{id}/shares/principals/{principal}";
    let of_tenant = "/v1/sandboxes/{id}/shares/tenant";
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/shares", Read, shares::list)
            .operation("listShares", "List with whom a sandbox is shared")
            .returns_page::<ShareView>(200),
        Route::new(Method::PUT, of_principal, Own, shares::put_principal)
            .operation(
                "putShare",
                "Share a sandbox with a principal of its tenant, or change what the share allows",
            )
            .json_body::<ShareSpec>()
            .returns::<ShareView>(200),
        Route::new(Method::PUT, of_tenant, Own, shares::put_tenant)
            .operation(
                "putTenantShare",
                "Share a sandbox with its whole tenant, or change what the share allows",
            )
            .json_body::<ShareSpec>()
            .returns::<ShareView>(200),
        Route::new(Method::DELETE, of_principal, Own, shares::remove_principal)
            .operation(
                "deleteShare",
                "End the share with a principal; its streams, terminals and tunnels end",
            )
            .returns_media(204, ""),
        Route::new(Method::DELETE, of_tenant, Own, shares::remove_tenant)
            .operation(
                "deleteTenantShare",
                "End the share with the whole tenant; those of single principals stay",
            )
            .returns_media(204, ""),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}/shares", Own, shares::remove_all)
            .operation("deleteShares", "End all shares of a sandbox")
            .returns_media(204, ""),
    ]
}

fn secret() -> Vec<Route> {
    vec![
        Route::new(Method::PUT, "/v1/secrets/{name}", Admin, secrets::put)
            .operation("putSecret", "Set a secret of the tenant; its value is never returned")
            .json_body::<SecretSpec>()
            .returns::<SecretView>(200),
        Route::new(Method::GET, "/v1/secrets", Admin, secrets::list)
            .operation("listSecrets", "List secrets of the tenant by name, without their values")
            .query(PAGE_BY_SECRET)
            .query(SECRETS)
            .returns_page::<SecretView>(200),
        Route::new(Method::DELETE, "/v1/secrets/{name}", Admin, secrets::remove)
            .operation("deleteSecret", "Remove a secret, at once: what refers to it fails and names it")
            .query(SECRETS)
            .returns_media(204, ""),
    ]
}
