//! Images of an engine that is not there.

use super::{super::engine::Engine, Images, Registries};
use crate::driver::local::{
    images::{self, HostRoot},
    layout::Layout,
};
use std::{fs, path::Path};

/// With a host of one empty directory, below `dir`.
pub fn images(engine: &Engine, dir: &Path) -> Images {
    let layout = Layout::new(dir.join("data"), "docker");
    let root = dir.join("host");
    for path in [layout.data().to_owned(), layout.trash(), root.join("usr/local"), root.join("etc/ssl")] {
        fs::create_dir_all(path).expect("made");
    }
    let here = images::Images::open(&layout, &HostRoot { root, allow: vec![] }, None).expect("opened");
    Images::new(engine.clone(), here, Registries::new(vec![]))
}
