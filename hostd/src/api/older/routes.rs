//! The table of older routes.

use super::{
    super::param::{Param, ParamKind},
    super::route::{
        RequiredAccess::{Own, Read, Write},
        Route,
    },
    exec,
    lifecycle::{self, OlderKept, OlderWoken},
    request::{EXTERNAL_MAX_CHARS, OlderCreate, OlderExec, OlderKeepalive, PROJECT, USER},
    sandboxes::{self, OlderPurged},
    view::{OlderRow, OlderRows, OlderSandbox},
};
use hyper::Method;

const EXTERNAL: &[Param] = &[
    Param { name: USER, about: "Only sandboxes of this user of the caller's", kind: FILTER },
    Param { name: PROJECT, about: "Only sandboxes of this project of the caller's", kind: FILTER },
];
const FILTER: ParamKind = ParamKind::Text { most_chars: EXTERNAL_MAX_CHARS };

pub fn all() -> Vec<Route> {
    let routes = vec![
        Route::new(Method::POST, "/sandbox", Write, sandboxes::create)
            .operation("olderCreateSandbox", "Older: create a sandbox")
            .json_body::<OlderCreate>()
            .returns::<OlderRow>(201),
        Route::new(Method::GET, "/sandboxes", Read, sandboxes::list)
            .operation("olderListSandboxes", "Older: list all sandboxes, newest first")
            .query(EXTERNAL)
            .returns::<OlderRows>(200),
        Route::new(Method::GET, "/sandbox/{id}", Read, sandboxes::get)
            .operation("olderGetSandbox", "Older: get a sandbox")
            .returns::<OlderSandbox>(200),
        Route::new(Method::DELETE, "/sandbox/{id}", Own, sandboxes::delete)
            .operation("olderDeleteSandbox", "Older: destroy a sandbox; its files are kept")
            .returns_media(204, ""),
        Route::new(Method::POST, "/sandbox/{id}/exec", Write, exec::exec)
            .operation("olderExec", "Older: run a command; with `stream`, its output as streamed text")
            .json_body::<OlderExec>()
            .returns::<exec::OlderOutput>(200)
            .returns_media(200, "text/plain"),
        Route::new(Method::POST, "/sandbox/{id}/keepalive", Write, lifecycle::keepalive)
            .operation("olderKeepalive", "Older: keep a sandbox awake, for a day at most")
            .json_body::<OlderKeepalive>()
            .returns::<OlderKept>(200),
        Route::new(Method::POST, "/sandbox/{id}/purge", Own, sandboxes::purge)
            .operation("olderPurgeSandbox", "Older: destroy a sandbox and its files")
            .returns::<OlderPurged>(200),
        Route::new(Method::POST, "/wake/{id}", Write, lifecycle::wake)
            .operation("olderWakeSandbox", "Older: start a sleeping sandbox")
            .returns::<OlderWoken>(200),
    ];
    routes.into_iter().map(Route::older).collect()
}
