/** Errors: one class for each family, with the API's `code`. A message never contains the token. */

import type { ApiErrorCode, ApiErrorDetail } from "./schema.js";
import type { RunResult } from "./run.js";

/** Code of an error of the API: a closed list. */
export type ErrorCode = ApiErrorCode;

/** Any error of this package. */
export class SlipwayError extends Error {
  override name = "SlipwayError";
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;

  constructor(message: string, options?: { retryable?: boolean; cause?: unknown }) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options?.retryable ?? false;
  }
}

/** Content of an error response. */
export interface ErrorAnswer {
  status: number;
  code: ErrorCode;
  message: string;
  retryable: boolean;
  detail: ApiErrorDetail;
  /** Id of the request, for whoever runs hostd. */
  requestId: string | null;
  retryAfterMs: number | null;
}

/** An error that hostd answered with. */
export class ApiError extends SlipwayError {
  override name = "ApiError";
  readonly status: number;
  readonly code: ErrorCode;
  readonly detail: ApiErrorDetail;
  readonly requestId: string | null;
  /** Milliseconds after which hostd wants the call to be repeated, where it says so. */
  readonly retryAfterMs: number | null;

  constructor(answer: ErrorAnswer) {
    super(answer.message, { retryable: answer.retryable });
    this.status = answer.status;
    this.code = answer.code;
    this.detail = answer.detail;
    this.requestId = answer.requestId;
    this.retryAfterMs = answer.retryAfterMs;
  }
}

/** The request is wrong, or not supported on this host: it never succeeds unchanged. */
export class InvalidRequestError extends ApiError {
  override name = "InvalidRequestError";
}
/** No token, or one that is unknown, revoked or expired. */
export class AuthenticationError extends ApiError {
  override name = "AuthenticationError";
}
/** The token does not allow this. */
export class ForbiddenError extends ApiError {
  override name = "ForbiddenError";
}
/** There is no such object, or it belongs to another tenant: `detail.missing`. */
export class NotFoundError extends ApiError {
  override name = "NotFoundError";
}
/** The state of the object does not allow this. */
export class ConflictError extends ApiError {
  override name = "ConflictError";
}
/** The object, or the history that was asked for, is gone for good. */
export class GoneError extends ApiError {
  override name = "GoneError";
}
/** A limit, a quota or a budget has no room. */
export class LimitError extends ApiError {
  override name = "LimitError";
}
/** The sandbox failed, or nothing answers in it. */
export class SandboxError extends ApiError {
  override name = "SandboxError";
}
/** hostd, its backend or the host is not able to do it now. */
export class UnavailableError extends ApiError {
  override name = "UnavailableError";
}

/** hostd could not be reached, or the connection was cut and could not be resumed. */
export class TransportError extends SlipwayError {
  override name = "TransportError";
  constructor(message: string, cause?: unknown) {
    super(message, { retryable: true, cause });
  }
}
/** The time that the caller gave for the call is over. */
export class DeadlineExceededError extends SlipwayError {
  override name = "DeadlineExceededError";
  constructor(message: string) {
    super(message, { retryable: true });
  }
}
/** A response that is not of Slipway. */
export class ProtocolError extends SlipwayError {
  override name = "ProtocolError";
}
/** A command that did not exit with 0, where the caller asked for an error: `result` has everything. */
export class CommandError extends SlipwayError {
  override name = "CommandError";
  readonly result: RunResult;
  constructor(message: string, result: RunResult) {
    super(message);
    this.result = result;
  }
}

type ErrorClass = new (answer: ErrorAnswer) => ApiError;

/** The class of each code. The compiler refuses this table if a code is missing. */
export const FAMILIES: Readonly<Record<ErrorCode, ErrorClass>> = {
  invalid_request: InvalidRequestError,
  method_not_allowed: InvalidRequestError,
  too_large: InvalidRequestError,
  idempotency_mismatch: InvalidRequestError,
  unsupported: InvalidRequestError,
  no_model: InvalidRequestError,
  key_refused: InvalidRequestError,
  outside_workspace: InvalidRequestError,
  range_not_satisfiable: InvalidRequestError,
  unauthorized: AuthenticationError,
  forbidden: ForbiddenError,
  access_denied: ForbiddenError,
  not_found: NotFoundError,
  conflict: ConflictError,
  scope_taken: ConflictError,
  name_taken: ConflictError,
  no_checkpoint: ConflictError,
  task_running: ConflictError,
  not_running: ConflictError,
  asleep: ConflictError,
  file_exists: ConflictError,
  not_a_file: ConflictError,
  not_a_directory: ConflictError,
  not_empty: ConflictError,
  precondition_failed: ConflictError,
  gone: GoneError,
  history_gone: GoneError,
  checkpoint_lost: GoneError,
  too_many: LimitError,
  budget_exceeded: LimitError,
  quota_exceeded: LimitError,
  sandbox_failed: SandboxError,
  port_closed: SandboxError,
  waking: SandboxError,
  git_failed: SandboxError,
  driver_unavailable: UnavailableError,
  capacity: UnavailableError,
  disk_full: UnavailableError,
  timed_out: UnavailableError,
  shutting_down: UnavailableError,
  internal: UnavailableError,
};

/** The error in a response, as far as it came. A body of another program, as of a proxy, is `internal`. */
export function errorOf(response: Pick<Response, "status" | "headers">, body: string): ApiError {
  const { status } = response;
  const requestId = response.headers.get("x-request-id");
  const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), Date.now());
  const answer = parse(body);
  if (answer === null) {
    const code = FOREIGN[status] ?? "internal";
    const retryable = status === 429 || status === 502 || status === 503 || status === 504;
    const message = `hostd, or a proxy before it, answered ${status}`;
    return new FAMILIES[code]({ status, code, message, retryable, detail: {}, requestId, retryAfterMs });
  }
  const family = FAMILIES[answer.code] ?? ApiError;
  return new family({ ...answer, status, requestId, retryAfterMs });
}

/** The milliseconds of a `Retry-After` header: seconds, or a date. */
export function parseRetryAfter(header: string | null, nowMs: number): number | null {
  if (header === null) return null;
  const text = header.trim();
  if (/^[0-9]+$/.test(text)) return Number(text) * 1_000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs);
}

/** Codes of responses without one. */
const FOREIGN: Readonly<Record<number, ErrorCode>> = {
  400: "invalid_request",
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  413: "too_large",
  429: "too_many",
  504: "timed_out",
};

function parse(body: string): Omit<ErrorAnswer, "status" | "requestId" | "retryAfterMs"> | null {
  try {
    const { error } = JSON.parse(body) as { error?: Partial<ErrorAnswer> };
    if (typeof error?.code !== "string" || typeof error.message !== "string") return null;
    const { code, message } = error;
    return { code, message, retryable: error.retryable === true, detail: error.detail ?? {} };
  } catch {
    return null;
  }
}
