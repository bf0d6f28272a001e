"""When a call is repeated, and which class of error a response is."""

import json
import unittest
from pathlib import Path

import slipway
from slipway._retry import RetryPolicy, backoff, pause_before, retry_after
from slipway.errors import FAMILIES, ApiError, TransportError, error_of

POLICY = RetryPolicy(retries=2, base_s=0.1, max_s=0.15)
OPENAPI = Path(__file__).resolve().parents[3] / "docs" / "openapi.json"


def answer(status: int, code: str, retryable: bool) -> ApiError:
    body = {"error": {"code": code, "message": "no", "retryable": retryable}}
    return error_of(status, json.dumps(body).encode(), None)


class Retry(unittest.TestCase):
    def test_a_call_is_repeated_where_that_is_safe_and_no_more_often_than_the_policy_says(self) -> None:
        waking, late = answer(503, "waking", True), answer(504, "timed_out", True)
        for error, repeatable, repeated, after, pause in [
            (waking, "once", 0, None, 0.1),
            (waking, "safe", 1, None, 0.15),
            (waking, "safe", 2, None, None),
            (late, "safe", 0, None, 0.1),
            (late, "once", 0, None, None),
            (answer(500, "internal", False), "safe", 0, None, None),
            (waking, "once", 0, 3.0, 3.0),
            (waking, "safe", 0, 3600.0, None),
            (TransportError("cut"), "safe", 0, None, 0.1),
            (TransportError("cut"), "once", 0, None, None),
            (TransportError("no", refused=True), "once", 0, None, 0.1),
        ]:
            found = pause_before(error, repeatable, repeated, after, 1.0, POLICY)  # type: ignore[arg-type]
            self.assertEqual(found, pause, (error, repeatable, repeated))

    def test_half_of_a_pause_is_chance_and_it_grows_to_a_limit(self) -> None:
        for chance, pauses in ((0.0, [0.05, 0.075, 0.075]), (1.0, [0.1, 0.15, 0.15])):
            self.assertEqual([backoff(repeated, chance, 0.1, 0.15) for repeated in (0, 1, 60)], pauses)

    def test_retry_after_is_seconds_or_a_date(self) -> None:
        now = 1767225600.0  # 2026-01-01
        for header, seconds in (("2", 2.0), ("Thu, 01 Jan 2026 00:00:05 GMT", 5.0), ("soon", None), (None, None)):
            self.assertEqual(retry_after(header, now), seconds, header)

    def test_every_code_of_the_document_has_a_class(self) -> None:
        schema = json.loads(OPENAPI.read_text())["components"]["schemas"]["ApiErrorCode"]
        codes = schema.get("enum") or [word for each in schema["oneOf"] for word in each.get("enum", [each.get("const")])]
        self.assertEqual(sorted(FAMILIES), sorted(codes))

    def test_an_answer_of_another_program_is_an_error_too(self) -> None:
        error = error_of(502, b"<html>Bad gateway</html>", None)
        self.assertEqual((error.code, error.retryable, error.status), ("internal", True, 502))
        self.assertIsInstance(answer(404, "a_newer_code", False), slipway.ApiError)
