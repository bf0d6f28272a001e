//! Destinations of a job's output: none, its output log, the events of a task (decoded by its protocol), or a
//! reply that is handed to PID 1.

use super::acp_conversation::AcpConversation;
use super::event_writer::EventWriter;
use super::json_output::JsonOutput;
use super::messages::{ConversationSpec, JobSpec, JobSummary, TaskOutput};
use super::tail_buffer::TailBuffer;
use crate::checkpoint;
use crate::core::agent::OutputProtocol;
use crate::limits::{ANSWER_MAX_BYTES, CHANGES_DOCUMENT_MAX_BYTES, LAST_LINE_MAX_BYTES};
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
    /// An agent that prints lines of JSON.
    TaskJson(Box<JsonOutput>),
    Helper(HelperOutput),
}

/// Output of a helper process of ours, as far as it is read: a reply of one line, and a document that is stored
/// unread.
pub struct HelperOutput {
    reply: Vec<u8>,
    replied: bool,
    document: Option<Writer>,
    stderr: TailBuffer,
}

impl HelperOutput {
    /// The document is one file: it may be read without its index.
    fn open(spec: &JobSpec) -> io::Result<Self> {
        let one_file = |log: Writer| log.with_segment_max_bytes(CHANGES_DOCUMENT_MAX_BYTES);
        let document = spec.log.as_ref().map(|dir| Writer::resume(dir, 0).map(one_file)).transpose()?;
        let stderr = TailBuffer::new(LAST_LINE_MAX_BYTES);
        Ok(Self { reply: Vec::new(), replied: false, document, stderr })
    }

    /// Whether the document began.
    fn append(&mut self, mut bytes: &[u8]) -> bool {
        if !self.replied {
            let line = bytes.iter().position(|byte| *byte == b'\n');
            self.replied = line.is_some();
            let (reply, rest) = bytes.split_at(line.map_or(bytes.len(), |end| end + 1));
            let room = ANSWER_MAX_BYTES.saturating_sub(self.reply.len());
            self.reply.extend_from_slice(&reply[..reply.len().min(room)]);
            bytes = rest;
        }
        let Some(document) = &mut self.document else { return false };
        let room = CHANGES_DOCUMENT_MAX_BYTES.saturating_sub(document.end());
        document.append(Stream::Stdout, &bytes[..bytes.len().min(room as usize)]) == Appended::Rotated
    }
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
            return HelperOutput::open(spec).map(Self::Helper);
        }
        let Some(dir) = &spec.log else { return Ok(Self::Nowhere) };
        Ok(Self::Log(Writer::resume(dir, spec.log_from)?))
    }

    /// The sink of a job that the shim holds an ACP conversation with.
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

    /// The job's stdin, when there is something to write.
    pub fn writable_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Acp(acp) => acp.writable_fd(),
            Self::Nowhere | Self::Log(_) | Self::TaskLines(_) | Self::TaskJson(_) | Self::Helper(_) => None,
        }
    }

    /// Appends output; whether a log file was rotated.
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
            Self::Helper(answer) => match stream {
                Stream::Stdout | Stream::Pty => answer.append(bytes),
                Stream::Stderr => {
                    answer.stderr.append(bytes);
                    false
                }
            },
        }
    }

    /// Sends a stop request to a program whose protocol has one.
    pub fn request_stop(&mut self) {
        match self {
            Self::TaskLines(lines) => lines.request_stop(),
            Self::Acp(acp) => acp.request_stop(),
            Self::Nowhere | Self::Log(_) | Self::TaskJson(_) | Self::Helper(_) => {}
        }
    }

    /// The end position: bytes of a log, events of a task.
    pub fn end(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Helper(_) => 0,
            Self::Log(log) => log.end(),
            Self::TaskLines(lines) => lines.last(),
            Self::Acp(acp) => acp.last(),
            Self::TaskJson(json) => json.last(),
        }
    }

    /// The end position of an agent's raw log.
    pub fn raw_end(&self) -> u64 {
        match self {
            Self::Nowhere | Self::Log(_) | Self::TaskLines(_) | Self::Helper(_) => 0,
            Self::Acp(acp) => acp.raw_end(),
            Self::TaskJson(json) => json.raw_end(),
        }
    }

    /// When text that is held back is due.
    pub fn next_wake(&self) -> Option<u64> {
        match self {
            Self::Nowhere | Self::Log(_) | Self::TaskLines(_) | Self::Helper(_) => None,
            Self::Acp(acp) => acp.next_wake(),
            Self::TaskJson(json) => json.next_wake(),
        }
    }

    /// Does what is due; whether a log file was rotated.
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

    /// Stores unfinished lines and sums the output up.
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
                let parsed = serde_json::from_slice::<checkpoint::Reply>(&answer.reply).ok();
                Some(JobSummary {
                    tail: answer.stderr.payload(),
                    checkpoint: parsed,
                    ..JobSummary::default()
                })
            }
        }
    }

    /// Drops the events of a task: another process writes them from now on.
    pub fn detach(&mut self) {
        if let Self::TaskLines(_) | Self::Acp(_) | Self::TaskJson(_) | Self::Helper(_) = self {
            *self = Self::Nowhere;
        }
    }
}
