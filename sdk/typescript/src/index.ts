/** Client of Slipway. */

export type { CallOptions } from "./abort.js";
export { Secrets, Slipway } from "./client.js";
export * from "./errors.js";
export type { EventOptions } from "./events.js";
export { Exec } from "./exec.js";
export { Files, type FileEvent, type Path, type WriteOptions } from "./files.js";
export type { Output, OutputOptions } from "./output.js";
export { List } from "./pages.js";
export { Previews } from "./previews.js";
export type { RetryPolicy } from "./retry.js";
export type { Command, CommandOptions, RunOptions, RunResult } from "./run.js";
export { Sandbox, type ExecOptions, type TerminalOptions, type WaitOptions } from "./sandbox.js";
export { Sandboxes } from "./sandboxes.js";
export type * as api from "./schema.js";
export { Services } from "./services.js";
export { Snapshot, SandboxSnapshots, Snapshots } from "./snapshots.js";
export { SseParser, type SseMessage } from "./sse.js";
export { Task, Tasks } from "./tasks.js";
export { Terminal, type AttachOptions } from "./terminal.js";
export type { SlipwayOptions, WebSocketConstructor } from "./transport.js";
export type {
  EventView,
  ExecAnswer,
  Exit,
  FileView,
  SandboxSpec,
  SandboxView,
  ServiceSpec,
  ServiceView,
  SnapshotView,
  TaskAnswer,
  TaskCreate,
  TaskEventView,
  TaskResult,
} from "./schema.js";
