"""Decides whether and when a call is repeated. Pure: time and chance are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

from .errors import ApiError, SlipwayError, TransportError

#: Whether a call may be carried out twice: `safe` calls have the same effect then; `once` must not.
Repeatable = Literal["safe", "once"]


@dataclass(frozen=True)
class RetryPolicy:
    """How calls are repeated after a failure."""

    #: How often a call is repeated at most.
    retries: int = 6
    #: The first pause is at most this long; each further one twice as long.
    base_s: float = 0.25
    #: No pause of ours is longer.
    max_s: float = 8.0
    #: A server that wants a longer pause (`Retry-After`) is not waited for.
    retry_after_max_s: float = 60.0


# Codes with which nothing was done yet, so that also a call that must not happen twice is repeated.
_NOTHING_DONE = frozenset(("too_many", "waking", "driver_unavailable", "capacity", "shutting_down"))


def pause_before(
    error: SlipwayError,
    repeatable: Repeatable,
    repeated: int,
    retry_after_s: float | None,
    chance: float,
    policy: RetryPolicy,
) -> float | None:
    """Returns the pause in seconds before the call is repeated, or None if it is not. `chance` is between 0 and 1."""
    if repeated >= policy.retries or not _may_repeat(error, repeatable):
        return None
    if retry_after_s is not None and retry_after_s > policy.retry_after_max_s:
        return None
    return max(backoff(repeated, chance, policy.base_s, policy.max_s), retry_after_s or 0.0)


def _may_repeat(error: SlipwayError, repeatable: Repeatable) -> bool:
    if not error.retryable:
        return False
    if repeatable == "safe":
        return isinstance(error, (ApiError, TransportError))
    if isinstance(error, ApiError):
        return error.code in _NOTHING_DONE
    return isinstance(error, TransportError) and error.refused


def backoff(repeated: int, chance: float, base_s: float, max_s: float) -> float:
    """Half of it is chance, so that clients do not come back together."""
    full = min(max_s, base_s * 2.0 ** min(repeated, 30))
    return full / 2 + full / 2 * chance


def retry_after(header: str | None, now_s: float) -> float | None:
    """The seconds of a `Retry-After` header: seconds, or a date."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except (ValueError, TypeError, IndexError):
        return None
