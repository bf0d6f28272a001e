//! hostd when something around it fails or attacks: crashes, full disks, hostile agents and sandboxes.

mod chaos;
mod crash;
mod escape;
mod faults;
mod hostile;
mod hostile_workspace;
mod mixed;
mod upgrade;
