//! Layers in use: a layer that is pinned is not removed, also where no record names it yet, or no longer.
//!
//! ```text
//! a new layer       pinned ─▶ made ─▶ named by a record ─▶ unpinned
//! existing layers   (no removal runs:) pinned, if all are there ─▶ read, or named by another record ─▶ unpinned
//! removal           (no layer is pinned meanwhile:) what is neither named nor pinned goes into the trash
//! ```
//!
//! **Invariant:** [`REMOVAL`] is held for the time of a few lookups, or of one removal; never while files of layers are
//! read.

use super::{super::layout::Layout, record::LayerId};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The number of users of each layer. All drivers of the process share the layers.
static PINNED: Mutex<BTreeMap<LayerId, usize>> = Mutex::new(BTreeMap::new());
/// Held while layers that nothing names are looked for, and while existing ones are pinned.
static REMOVAL: Mutex<()> = Mutex::new(());

/// Layers, topmost first, that stay until this is dropped.
#[derive(Debug, Default)]
pub struct PinnedLayers {
    layers: Vec<LayerId>,
}

impl PinnedLayers {
    /// Names a layer that is not there yet.
    pub fn new_layer() -> (LayerId, Self) {
        let layer = LayerId::generate();
        (layer.clone(), Self::pin(vec![layer]))
    }

    /// Pins layers that a record names; fails where one of them is gone.
    pub fn existing(layout: &Layout, layers: &[LayerId]) -> io::Result<Self> {
        if layers.is_empty() {
            return Ok(Self::default());
        }
        let _none_goes = lock_removal();
        match layers.iter().find(|layer| !layer.dir(layout).is_dir()) {
            Some(gone) => Err(missing_layer(gone)),
            None => Ok(Self::pin(layers.to_vec())),
        }
    }

    fn pin(layers: Vec<LayerId>) -> Self {
        let mut pinned = pinned();
        layers.iter().for_each(|layer| *pinned.entry(layer.clone()).or_default() += 1);
        Self { layers }
    }

    pub fn ids(&self) -> &[LayerId] {
        &self.layers
    }

    /// These layers, with others below them.
    pub fn above(mut self, mut lowers: Self) -> Self {
        self.layers.append(&mut lowers.layers);
        self
    }
}

impl Drop for PinnedLayers {
    fn drop(&mut self) {
        let mut pinned = pinned();
        for layer in &self.layers {
            match pinned.get_mut(layer) {
                Some(users) if *users > 1 => *users -= 1,
                Some(_) | None => drop(pinned.remove(layer)),
            }
        }
    }
}

pub fn missing_layer(layer: &LayerId) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("layer {layer} is gone"))
}

/// Waits until no existing layer is being pinned; none is until the guard is dropped.
pub fn lock_removal() -> MutexGuard<'static, ()> {
    REMOVAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The layers that are in use now.
pub fn pinned_layers() -> BTreeSet<LayerId> {
    pinned().keys().cloned().collect()
}

fn pinned() -> MutexGuard<'static, BTreeMap<LayerId, usize>> {
    // A panic elsewhere leaves no count half changed.
    PINNED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_pinned_until_its_last_user_ends() {
        let temp = tempfile::tempdir().expect("a directory");
        let layout = Layout::new(temp.path().to_owned(), "oci");
        let (layer, first) = PinnedLayers::new_layer();
        let layers = [layer];
        let gone = PinnedLayers::existing(&layout, &layers).expect_err("the layer was not made");
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        std::fs::create_dir_all(layers[0].dir(&layout)).expect("made");
        let second = PinnedLayers::existing(&layout, &layers).expect("the layer is there");
        drop(first);
        assert!(pinned_layers().contains(&layers[0]));
        let both = PinnedLayers::new_layer().1.above(second);
        assert_eq!(both.ids()[1..], layers);
        let names = both.ids().to_vec();
        drop(both);
        assert!(names.iter().all(|layer| !pinned_layers().contains(layer)));
    }
}
