//! Logs on disk: append-only files with one writing process and any number of readers.

pub mod event_reader;
pub mod events;
pub mod reader;
pub mod reserved_space;
pub mod segment;
pub mod task_log;
#[cfg(test)]
mod tests;
pub mod text_line;
pub mod writer;

pub use event_reader::{EventReader, EventsRead};
pub use events::EventLog;
pub use reader::{Read, ReadError, Reader};
pub use reserved_space::ReservedSpace;
pub use task_log::TaskLog;
pub use writer::Writer;
