//! Where what a job prints goes: nowhere, into its output log, into the events of a task, or into an answer
//! that is handed to PID 1.

use super::lines::Lines;
use super::tail::Tail;
use super::wire::{JobSpec, Said};
use crate::checkpoint;
use crate::limits::{ANSWER_MAX_BYTES, LAST_LINE_MAX_BYTES};
use crate::log::Writer;
use crate::log::writer::Appended;
use protocol::Stream;
use std::io;

pub enum Sink {
    Nowhere,
    Log(Writer),
    Task(Box<Lines>),
    Answer(Answer),
}

/// What a helper of ours prints, as far as anybody reads it.
pub struct Answer {
    stdout: Vec<u8>,
    stderr: Tail,
}

impl Sink {
    pub fn open(spec: &JobSpec) -> io::Result<Self> {
        if let Some(task) = &spec.task {
            return Ok(Self::Task(Box::new(Lines::new(task))));
        }
        if spec.answer {
            let stderr = Tail::new(LAST_LINE_MAX_BYTES);
            return Ok(Self::Answer(Answer { stdout: Vec::new(), stderr }));
        }
        let Some(dir) = &spec.log else { return Ok(Self::Nowhere) };
        Ok(Self::Log(Writer::resume(dir, spec.log_from)?))
    }

    /// Takes what was printed; whether another file was begun for it.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Log(log) => log.append(stream, bytes) == Appended::Rotated,
            Self::Task(lines) => lines.append(stream, bytes),
            Self::Answer(answer) => {
                match stream {
                    Stream::Stdout | Stream::Pty => {
                        let room = ANSWER_MAX_BYTES.saturating_sub(answer.stdout.len());
                        answer.stdout.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    }
                    Stream::Stderr => answer.stderr.append(bytes),
                }
                false
            }
        }
    }

    /// Says "stop" to a program that has a language for it.
    pub fn ask_to_stop(&mut self) {
        match self {
            Self::Task(lines) => lines.ask_to_stop(),
            Self::Nowhere | Self::Log(_) | Self::Answer(_) => {}
        }
    }

    /// How far it got: bytes of a log, events of a task.
    pub fn end(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Answer(_) => 0,
            Self::Log(log) => log.end(),
            Self::Task(lines) => lines.last(),
        }
    }

    pub fn lost(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Answer(_) => 0,
            Self::Log(log) => log.lost(),
            Self::Task(lines) => lines.lost_bytes(),
        }
    }

    /// The job has ended: what is left of unfinished lines is stored, and what it said is summed up.
    pub fn conclude(&mut self) -> Option<Said> {
        match self {
            Self::Nowhere | Self::Log(_) => None,
            Self::Task(lines) => {
                lines.finish();
                Some(Said { tail: lines.tail(), ..Said::default() })
            }
            Self::Answer(answer) => {
                let parsed = serde_json::from_slice::<checkpoint::Answer>(&answer.stdout).ok();
                Some(Said { tail: answer.stderr.payload(), answer: parsed })
            }
        }
    }

    /// Lets go of the events of a task: from now on another one writes them.
    pub fn hand_over(&mut self) {
        if let Self::Task(_) | Self::Answer(_) = self {
            *self = Self::Nowhere;
        }
    }
}
