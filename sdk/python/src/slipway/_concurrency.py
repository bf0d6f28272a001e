"""Differences between the asynchronous and the synchronous client beyond the grammar."""

from __future__ import annotations

import asyncio
import threading
import time

AsyncLock = asyncio.Lock
Lock = threading.Lock

sleep = time.sleep


async def async_sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)
