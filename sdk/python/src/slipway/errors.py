"""Errors: one class for each family, with the API's `code`. A message never contains the token."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._result import RunResult
    from .types import ApiErrorCode, ApiErrorDetail


class SlipwayError(Exception):
    """Any error of this package."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        #: Whether the same call may succeed later.
        self.retryable = retryable


class ApiError(SlipwayError):
    """An error that hostd answered with."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: ApiErrorCode,
        retryable: bool = False,
        detail: ApiErrorDetail | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.status = status
        #: From a closed list: `slipway.types.ApiErrorCode`.
        self.code: ApiErrorCode = code
        self.detail: ApiErrorDetail = detail or {}
        #: Id of the request, for whoever runs hostd.
        self.request_id = request_id
        #: Seconds after which hostd wants the call to be repeated, where it says so.
        self.retry_after_s: float | None = None


class InvalidRequestError(ApiError):
    """The request is wrong, or not supported on this host: it never succeeds unchanged."""


class AuthenticationError(ApiError):
    """No token, or one that is unknown, revoked or expired."""


class ForbiddenError(ApiError):
    """The token does not allow this."""


class NotFoundError(ApiError):
    """There is no such object, or it belongs to another tenant: `detail["missing"]`."""


class ConflictError(ApiError):
    """The state of the object does not allow this."""


class GoneError(ApiError):
    """The object, or the history that was asked for, is gone for good."""


class LimitError(ApiError):
    """A limit, a quota or a budget has no room."""


class SandboxError(ApiError):
    """The sandbox failed, or nothing answers in it."""


class UnavailableError(ApiError):
    """hostd, its backend or the host is not able to do it now."""


class TransportError(SlipwayError):
    """hostd could not be reached, or the connection was cut and could not be resumed."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message, retryable=True)
        #: Whether no connection came about, so that nothing was sent.
        self.refused = refused


class DeadlineExceededError(SlipwayError):
    """The time that the caller gave for the call is over."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class ProtocolError(SlipwayError):
    """A response that is not of Slipway."""


class CommandError(SlipwayError):
    """A command that did not exit with 0, where the caller asked for an error: `result` has everything."""

    def __init__(self, message: str, result: RunResult) -> None:
        super().__init__(message)
        self.result = result


#: The class of each code; a test compares it with the list in the API's document.
FAMILIES: dict[ApiErrorCode, type[ApiError]] = {
    "invalid_request": InvalidRequestError,
    "method_not_allowed": InvalidRequestError,
    "too_large": InvalidRequestError,
    "idempotency_mismatch": InvalidRequestError,
    "unsupported": InvalidRequestError,
    "no_model": InvalidRequestError,
    "key_refused": InvalidRequestError,
    "outside_workspace": InvalidRequestError,
    "range_not_satisfiable": InvalidRequestError,
    "unauthorized": AuthenticationError,
    "forbidden": ForbiddenError,
    "access_denied": ForbiddenError,
    "not_found": NotFoundError,
    "conflict": ConflictError,
    "scope_taken": ConflictError,
    "name_taken": ConflictError,
    "no_checkpoint": ConflictError,
    "task_running": ConflictError,
    "not_running": ConflictError,
    "asleep": ConflictError,
    "file_exists": ConflictError,
    "not_a_file": ConflictError,
    "not_a_directory": ConflictError,
    "not_empty": ConflictError,
    "precondition_failed": ConflictError,
    "gone": GoneError,
    "history_gone": GoneError,
    "checkpoint_lost": GoneError,
    "too_many": LimitError,
    "budget_exceeded": LimitError,
    "quota_exceeded": LimitError,
    "sandbox_failed": SandboxError,
    "port_closed": SandboxError,
    "waking": SandboxError,
    "git_failed": SandboxError,
    "driver_unavailable": UnavailableError,
    "capacity": UnavailableError,
    "disk_full": UnavailableError,
    "timed_out": UnavailableError,
    "shutting_down": UnavailableError,
    "internal": UnavailableError,
}

# Codes of responses without one, as of a proxy.
_FOREIGN: dict[int, ApiErrorCode] = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    413: "too_large",
    429: "too_many",
    504: "timed_out",
}


def error_of(status: int, body: bytes, request_id: str | None) -> ApiError:
    """The error in a response of this status and body. A body of another program, as of a proxy, is `internal`."""
    answer = _parse(body)
    if answer is None:
        code = _FOREIGN.get(status, "internal")
        message = f"hostd, or a proxy before it, answered {status}"
        retryable = status in (429, 502, 503, 504)
        return FAMILIES[code](message, status=status, code=code, retryable=retryable, request_id=request_id)
    family = FAMILIES.get(answer["code"], ApiError)
    return family(
        answer["message"],
        status=status,
        code=answer["code"],
        retryable=answer.get("retryable") is True,
        detail=answer.get("detail"),
        request_id=request_id,
    )


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        error = json.loads(body)["error"]
        whole = isinstance(error["code"], str) and isinstance(error["message"], str)
    except (ValueError, KeyError, TypeError):
        return None
    return error if whole else None
