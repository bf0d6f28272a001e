//! The rows of the table for the older routes.

use super::{
    super::param::{Kind, Param},
    super::route::{
        Needs::{Read, Write},
        Route,
    },
    ask::{EXTERNAL_MAX_CHARS, OlderCreate, OlderExec, OlderKeepalive, PROJECT, USER},
    exec,
    row::{OlderRow, OlderRows, OlderSandbox},
    sandboxes::{self, OlderPurged},
    verbs::{self, OlderKept, OlderWoken},
};
use hyper::Method;

const EXTERNAL: &[Param] = &[
    Param { name: USER, about: "Only those of this user of the caller's", kind: FILTER },
    Param { name: PROJECT, about: "Only those of this project of the caller's", kind: FILTER },
];
const FILTER: Kind = Kind::Text { most_chars: EXTERNAL_MAX_CHARS };

pub fn all() -> Vec<Route> {
    let routes = vec![
        Route::new(Method::POST, "/sandbox", Write, sandboxes::create)
            .says("olderCreateSandbox", "Older: create a sandbox")
            .takes::<OlderCreate>()
            .gives::<OlderRow>(201),
        Route::new(Method::GET, "/sandboxes", Read, sandboxes::list)
            .says("olderListSandboxes", "Older: all sandboxes, newest first")
            .query(EXTERNAL)
            .gives::<OlderRows>(200),
        Route::new(Method::GET, "/sandbox/{id}", Read, sandboxes::get)
            .says("olderGetSandbox", "Older: one sandbox")
            .gives::<OlderSandbox>(200),
        Route::new(Method::DELETE, "/sandbox/{id}", Write, sandboxes::delete)
            .says("olderDeleteSandbox", "Older: destroy it; its files stay")
            .gives_raw(204, ""),
        Route::new(Method::POST, "/sandbox/{id}/exec", Write, exec::exec)
            .says("olderExec", "Older: run a command; with `stream`, text as it comes")
            .takes::<OlderExec>()
            .gives::<exec::OlderOutput>(200)
            .gives_raw(200, "text/plain"),
        Route::new(Method::POST, "/sandbox/{id}/keepalive", Write, verbs::keepalive)
            .says("olderKeepalive", "Older: keep it awake, for a day at most")
            .takes::<OlderKeepalive>()
            .gives::<OlderKept>(200),
        Route::new(Method::POST, "/sandbox/{id}/purge", Write, sandboxes::purge)
            .says("olderPurgeSandbox", "Older: destroy it and its files")
            .gives::<OlderPurged>(200),
        Route::new(Method::POST, "/wake/{id}", Write, verbs::wake)
            .says("olderWakeSandbox", "Older: start it if it sleeps")
            .gives::<OlderWoken>(200),
    ];
    routes.into_iter().map(Route::older).collect()
}
