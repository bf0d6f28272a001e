//! Images with a fake engine, for tests.

use super::{super::engine::Engine, EngineImages};
use crate::local::{
    images::{self, HostRootfs},
    layout::Layout,
};
use hostd_images::RegistryAllowlist;
use std::{fs, path::Path};

/// The image `host` consists of one empty directory below `dir`.
pub fn images(engine: &Engine, dir: &Path) -> EngineImages {
    let layout = Layout::new(dir.join("data"), "docker");
    let root = dir.join("host");
    for path in [layout.data().to_owned(), layout.trash(), root.join("usr/local"), root.join("etc/ssl")] {
        fs::create_dir_all(path).expect("made");
    }
    let store = images::ImageStore::open(&layout, &HostRootfs { root, allow: vec![] }, None).expect("opened");
    EngineImages::new(engine.clone(), store, RegistryAllowlist::new(vec![]))
}
