//! Requirements of a host: `facts` gathers, `checks` judges.

mod checks;
mod engine;
mod facts;

pub use checks::{Check, Level, check_all};
pub use engine::Engine;
pub use facts::{Cgroups, Facts};
