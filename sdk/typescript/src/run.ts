/** Commands: `run` waits for the end, `exec` gives a handle. */

import type { CallOptions } from "./abort.js";
import { ending } from "./ending.js";
import { CommandError, DeadlineExceededError } from "./errors.js";
import { Exec } from "./exec.js";
import { decode } from "./output.js";
import type { ExecAnswer, ExecCreate, Exit, Hint } from "./schema.js";
import { newKey, type Transport } from "./transport.js";

/** A command: a line for the shell, or a program with its arguments. */
export type Command = string | readonly string[];

export interface CommandOptions extends CallOptions {
  /** Id of the command. A command with the id of an earlier one is that one, and does not run again. */
  id?: string | undefined;
  /** Working directory, absolute or relative to the app directory. */
  cwd?: string | undefined;
  /** Added to the environment of the sandbox. */
  env?: Record<string, string> | undefined;
  /** Text for its standard input. */
  stdin?: string | undefined;
  /** Seconds after which the command, and everything it started, is killed. */
  timeoutS?: number | undefined;
  /** Whether a sleeping sandbox is woken. Default: true. */
  wake?: boolean | undefined;
}

export interface RunOptions extends CommandOptions {
  /** Throws a `CommandError` if the command does not exit with 0. Default: false. */
  check?: boolean | undefined;
}

/** How a command ended. A command that fails is a value, not an error. */
export interface RunResult {
  id: string;
  /** Whether it exited with 0. */
  ok: boolean;
  /** Exit code; null where it was killed or never started: `exit` says how it ended. */
  code: number | null;
  exit: Exit;
  /** Text of its output; bytes that are not UTF-8 are replaced, `stdoutBytes` has them. */
  stdout: string;
  stderr: string;
  stdoutBytes: Uint8Array;
  stderrBytes: Uint8Array;
  /** Whether output is missing here because there was too much: `sandbox.execs.get(id)` reads all that is kept. */
  truncated: boolean;
  hints: Hint[];
  durationMs: number;
}

const CANCEL_MS = 10_000;

export async function run(
  transport: Transport,
  path: string,
  command: Command,
  options: RunOptions,
): Promise<RunResult> {
  const id = options.id ?? newKey();
  const limits: CallOptions = { signal: options.signal, timeoutMs: options.timeoutMs ?? 0 };
  const body = { ...execCreate(command, options), id };
  try {
    const result = resultOf(await ending(transport, `${path}/${encodeURIComponent(id)}`, post(path, body, options), limits));
    if (options.check && !result.ok) throw new CommandError(failure(command, result), result);
    return result;
  } catch (error) {
    const given = options.signal?.aborted || error instanceof DeadlineExceededError;
    if (given) await new Exec(transport, path, id).cancel({ timeoutMs: CANCEL_MS }).catch(() => undefined);
    throw error;
  }
}

/** Starts the command, and returns what is known of it. The same id is the same command, however often it is sent. */
export async function start(
  transport: Transport,
  path: string,
  body: ExecCreate,
  options: CommandOptions,
): Promise<ExecAnswer> {
  return transport.json<ExecAnswer>(post(path, body, options), options);
}

function post(path: string, body: ExecCreate, options: CommandOptions) {
  const query = { wake: options.wake === false ? 0 : undefined };
  return { method: "POST", path, query, json: body, repeatable: "safe" } as const;
}

export function execCreate(command: Command, options: CommandOptions): ExecCreate {
  const what = typeof command === "string" ? { shell: command } : { argv: [...command] };
  const { cwd, env, stdin, timeoutS } = options;
  return { ...what, cwd, env, stdin, timeout_s: timeoutS };
}

const utf8 = new TextDecoder();

export function resultOf(answer: ExecAnswer): RunResult {
  const exit: Exit = answer.exit ?? { kind: "lost" };
  const stdoutBytes = decode(answer.stdout ?? "", answer.encoding);
  const stderrBytes = decode(answer.stderr ?? "", answer.encoding);
  const code = exit.kind === "exited" ? exit.code : null;
  return {
    id: answer.id,
    ok: code === 0,
    code,
    exit,
    stdout: utf8.decode(stdoutBytes),
    stderr: utf8.decode(stderrBytes),
    stdoutBytes,
    stderrBytes,
    truncated: answer.truncated ?? false,
    hints: answer.hints ?? [],
    durationMs: answer.duration_ms ?? 0,
  };
}

function failure(command: Command, result: RunResult): string {
  const program = typeof command === "string" ? command : (command[0] ?? "");
  const how = result.exit.kind === "exited" ? `exited with ${result.exit.code}` : `ended: ${result.exit.kind}`;
  const last = result.stderr.trimEnd().split("\n").pop() ?? "";
  return `${program.slice(0, 100)} ${how}${last === "" ? "" : `: ${last.slice(0, 500)}`}`;
}
