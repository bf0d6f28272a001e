//! Where what a job prints goes: nowhere, into its output log, into the events of a task (as it is, or as the half
//! of a conversation), or into an answer that is handed to PID 1.

use super::json_talk::JsonTalk;
use super::lines::Lines;
use super::tail::Tail;
use super::talk::Talk;
use super::wire::{JobSpec, Said, TalkSpec, TaskOutput};
use crate::checkpoint;
use crate::core::agent::Speaks;
use crate::limits::{ANSWER_MAX_BYTES, LAST_LINE_MAX_BYTES};
use crate::log::Writer;
use crate::log::writer::Appended;
use protocol::Stream;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

pub enum Sink {
    Nowhere,
    Log(Writer),
    Task(Box<Lines>),
    Talk(Box<Talk>),
    /// The same of an agent that prints lines of JSON.
    Json(Box<JsonTalk>),
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
            return Ok(match task.speaks {
                Speaks::Json(dialect) => Self::Json(Box::new(JsonTalk::new(task, dialect))),
                Speaks::Command | Speaks::Build | Speaks::Acp => Self::Task(Box::new(Lines::new(task))),
            });
        }
        if spec.answer {
            let stderr = Tail::new(LAST_LINE_MAX_BYTES);
            return Ok(Self::Answer(Answer { stdout: Vec::new(), stderr }));
        }
        let Some(dir) = &spec.log else { return Ok(Self::Nowhere) };
        Ok(Self::Log(Writer::resume(dir, spec.log_from)?))
    }

    /// The job is there to speak with.
    pub fn converse(task: Option<&TaskOutput>, spec: TalkSpec, input: Option<OwnedFd>, cwd: &Path) -> Self {
        Self::Talk(Box::new(Talk::begin(spec, task, input, cwd)))
    }

    pub fn talk(&mut self) -> Option<&mut Talk> {
        match self {
            Self::Talk(talk) => Some(talk),
            Self::Nowhere | Self::Log(_) | Self::Task(_) | Self::Json(_) | Self::Answer(_) => None,
        }
    }

    /// Where there is something to write to the job.
    pub fn writes_to(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Talk(talk) => talk.writes_to(),
            Self::Nowhere | Self::Log(_) | Self::Task(_) | Self::Json(_) | Self::Answer(_) => None,
        }
    }

    /// Takes what was printed; whether another file was begun for it.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Log(log) => log.append(stream, bytes) == Appended::Rotated,
            Self::Task(lines) => lines.append(stream, bytes),
            Self::Talk(talk) => {
                talk.append(stream, bytes);
                talk.has_rotated()
            }
            Self::Json(talk) => talk.append(stream, bytes),
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
            Self::Talk(talk) => talk.ask_to_stop(),
            Self::Nowhere | Self::Log(_) | Self::Json(_) | Self::Answer(_) => {}
        }
    }

    /// How far it got: bytes of a log, events of a task.
    pub fn end(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Answer(_) => 0,
            Self::Log(log) => log.end(),
            Self::Task(lines) => lines.last(),
            Self::Talk(talk) => talk.last(),
            Self::Json(talk) => talk.last(),
        }
    }

    /// How far the log of what an agent really printed got.
    pub fn raw_end(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Log(_) | Self::Task(_) | Self::Answer(_) => 0,
            Self::Talk(talk) => talk.raw_end(),
            Self::Json(talk) => talk.raw_end(),
        }
    }

    /// When something is due that waits for more.
    pub fn next_wake(&self) -> Option<u64> {
        match self {
            Self::Nowhere | Self::Log(_) | Self::Task(_) | Self::Answer(_) => None,
            Self::Talk(talk) => talk.next_wake(),
            Self::Json(talk) => talk.next_wake(),
        }
    }

    /// Does what is due; whether another file was begun for it.
    pub fn tick(&mut self) -> bool {
        match self {
            Self::Nowhere | Self::Log(_) | Self::Task(_) | Self::Answer(_) => false,
            Self::Talk(talk) => {
                talk.tick();
                talk.has_rotated()
            }
            Self::Json(talk) => talk.tick(),
        }
    }

    pub fn lost(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Answer(_) => 0,
            Self::Log(log) => log.lost(),
            Self::Task(lines) => lines.lost_bytes(),
            Self::Talk(talk) => talk.lost_bytes(),
            Self::Json(talk) => talk.lost_bytes(),
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
            Self::Talk(talk) => Some(talk.conclude()),
            Self::Json(talk) => Some(talk.conclude()),
            Self::Answer(answer) => {
                let parsed = serde_json::from_slice::<checkpoint::Answer>(&answer.stdout).ok();
                Some(Said { tail: answer.stderr.payload(), answer: parsed, ..Said::default() })
            }
        }
    }

    /// Lets go of the events of a task: from now on another one writes them.
    pub fn hand_over(&mut self) {
        if let Self::Task(_) | Self::Talk(_) | Self::Json(_) | Self::Answer(_) = self {
            *self = Self::Nowhere;
        }
    }
}
