//! The rows of the table for the older routes.

use super::{
    super::route::{
        Needs::{Read, Write},
        Param, Route,
    },
    ask::{OlderCreate, OlderExec, OlderKeepalive, PROJECT, USER},
    exec,
    row::{OlderRow, OlderRows, OlderSandbox},
    sandboxes::{self, OlderPurged},
    verbs::{self, OlderKept, OlderWoken},
};
use hyper::Method;

const EXTERNAL: &[Param] = &[
    (USER, "Only those of this user of the caller's"),
    (PROJECT, "Only those of this project of the caller's"),
];

pub fn all() -> Vec<Route> {
    let routes = vec![
        Route::new(Method::POST, "/sandbox", Write, sandboxes::create)
            .says("Older: create a sandbox")
            .takes::<OlderCreate>()
            .gives::<OlderRow>(201),
        Route::new(Method::GET, "/sandboxes", Read, sandboxes::list)
            .says("Older: all sandboxes, newest first")
            .query(EXTERNAL)
            .gives::<OlderRows>(200),
        Route::new(Method::GET, "/sandbox/{id}", Read, sandboxes::get)
            .says("Older: one sandbox")
            .gives::<OlderSandbox>(200),
        Route::new(Method::DELETE, "/sandbox/{id}", Write, sandboxes::delete)
            .says("Older: destroy it; its files stay")
            .gives_raw(204, ""),
        Route::new(Method::POST, "/sandbox/{id}/exec", Write, exec::exec)
            .says("Older: run a command; with `stream`, text as it comes")
            .takes::<OlderExec>()
            .gives::<exec::OlderOutput>(200),
        Route::new(Method::POST, "/sandbox/{id}/keepalive", Write, verbs::keepalive)
            .says("Older: keep it awake, for a day at most")
            .takes::<OlderKeepalive>()
            .gives::<OlderKept>(200),
        Route::new(Method::POST, "/sandbox/{id}/purge", Write, sandboxes::purge)
            .says("Older: destroy it and its files")
            .gives::<OlderPurged>(200),
        Route::new(Method::POST, "/wake/{id}", Write, verbs::wake)
            .says("Older: start it if it sleeps")
            .gives::<OlderWoken>(200),
    ];
    routes.into_iter().map(Route::older).collect()
}
