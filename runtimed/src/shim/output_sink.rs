//! Where what a job prints goes: nowhere, into its output log, into the events of a task (as it is, or as the half
//! of a conversation), or into an answer that is handed to PID 1.

use super::acp_conversation::AcpConversation;
use super::event_writer::EventWriter;
use super::json_output::JsonOutput;
use super::messages::{ConversationSpec, JobSpec, JobSummary, TaskOutput};
use super::tail_buffer::TailBuffer;
use crate::checkpoint;
use crate::core::agent::OutputProtocol;
use crate::limits::{ANSWER_MAX_BYTES, LAST_LINE_MAX_BYTES};
use crate::log::Writer;
use crate::log::writer::Appended;
use protocol::Stream;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

pub enum OutputSink {
    Nowhere,
    Log(Writer),
    TaskLines(Box<EventWriter>),
    Acp(Box<AcpConversation>),
    /// The same of an agent that prints lines of JSON.
    TaskJson(Box<JsonOutput>),
    Helper(HelperOutput),
}

/// What a helper of ours prints, as far as anybody reads it.
pub struct HelperOutput {
    stdout: Vec<u8>,
    stderr: TailBuffer,
}

impl OutputSink {
    pub fn open(spec: &JobSpec) -> io::Result<Self> {
        if let Some(task) = &spec.task {
            return Ok(match task.protocol {
                OutputProtocol::Json(dialect) => Self::TaskJson(Box::new(JsonOutput::new(task, dialect))),
                OutputProtocol::Command | OutputProtocol::Build | OutputProtocol::Acp => {
                    Self::TaskLines(Box::new(EventWriter::new(task)))
                }
            });
        }
        if spec.captures_reply {
            let stderr = TailBuffer::new(LAST_LINE_MAX_BYTES);
            return Ok(Self::Helper(HelperOutput { stdout: Vec::new(), stderr }));
        }
        let Some(dir) = &spec.log else { return Ok(Self::Nowhere) };
        Ok(Self::Log(Writer::resume(dir, spec.log_from)?))
    }

    /// The job is there to speak with.
    pub fn converse(
        task: Option<&TaskOutput>,
        spec: ConversationSpec,
        input: Option<OwnedFd>,
        cwd: &Path,
    ) -> Self {
        Self::Acp(Box::new(AcpConversation::begin(spec, task, input, cwd)))
    }

    pub fn acp(&mut self) -> Option<&mut AcpConversation> {
        match self {
            Self::Acp(acp) => Some(acp),
            Self::Nowhere | Self::Log(_) | Self::TaskLines(_) | Self::TaskJson(_) | Self::Helper(_) => None,
        }
    }

    /// Where there is something to write to the job.
    pub fn writable_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Acp(acp) => acp.writable_fd(),
            Self::Nowhere | Self::Log(_) | Self::TaskLines(_) | Self::TaskJson(_) | Self::Helper(_) => None,
        }
    }

    /// Takes what was printed; whether another file was begun for it.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Log(log) => log.append(stream, bytes) == Appended::Rotated,
            Self::TaskLines(lines) => lines.append(stream, bytes),
            Self::Acp(acp) => {
                acp.append(stream, bytes);
                acp.has_rotated()
            }
            Self::TaskJson(json) => json.append(stream, bytes),
            Self::Helper(answer) => {
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
    pub fn request_stop(&mut self) {
        match self {
            Self::TaskLines(lines) => lines.request_stop(),
            Self::Acp(acp) => acp.request_stop(),
            Self::Nowhere | Self::Log(_) | Self::TaskJson(_) | Self::Helper(_) => {}
        }
    }

    /// How far it got: bytes of a log, events of a task.
    pub fn end(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Helper(_) => 0,
            Self::Log(log) => log.end(),
            Self::TaskLines(lines) => lines.last(),
            Self::Acp(acp) => acp.last(),
            Self::TaskJson(json) => json.last(),
        }
    }

    /// How far the log of what an agent really printed got.
    pub fn raw_end(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Log(_) | Self::TaskLines(_) | Self::Helper(_) => 0,
            Self::Acp(acp) => acp.raw_end(),
            Self::TaskJson(json) => json.raw_end(),
        }
    }

    /// When something is due that waits for more.
    pub fn next_wake(&self) -> Option<u64> {
        match self {
            Self::Nowhere | Self::Log(_) | Self::TaskLines(_) | Self::Helper(_) => None,
            Self::Acp(acp) => acp.next_wake(),
            Self::TaskJson(json) => json.next_wake(),
        }
    }

    /// Does what is due; whether another file was begun for it.
    pub fn tick(&mut self) -> bool {
        match self {
            Self::Nowhere | Self::Log(_) | Self::TaskLines(_) | Self::Helper(_) => false,
            Self::Acp(acp) => {
                acp.tick();
                acp.has_rotated()
            }
            Self::TaskJson(json) => json.tick(),
        }
    }

    pub fn lost(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Helper(_) => 0,
            Self::Log(log) => log.lost(),
            Self::TaskLines(lines) => lines.lost_bytes(),
            Self::Acp(acp) => acp.lost_bytes(),
            Self::TaskJson(json) => json.lost_bytes(),
        }
    }

    /// The job has ended: what is left of unfinished lines is stored, and what it said is summed up.
    pub fn conclude(&mut self) -> Option<JobSummary> {
        match self {
            Self::Nowhere | Self::Log(_) => None,
            Self::TaskLines(lines) => {
                lines.finish();
                Some(JobSummary { tail: lines.tail(), ..JobSummary::default() })
            }
            Self::Acp(acp) => Some(acp.conclude()),
            Self::TaskJson(json) => Some(json.conclude()),
            Self::Helper(answer) => {
                let parsed = serde_json::from_slice::<checkpoint::Reply>(&answer.stdout).ok();
                Some(JobSummary {
                    tail: answer.stderr.payload(),
                    checkpoint: parsed,
                    ..JobSummary::default()
                })
            }
        }
    }

    /// Lets go of the events of a task: from now on another one writes them.
    pub fn detach(&mut self) {
        if let Self::TaskLines(_) | Self::Acp(_) | Self::TaskJson(_) | Self::Helper(_) = self {
            *self = Self::Nowhere;
        }
    }
}
