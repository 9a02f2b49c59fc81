"""A running `minfer serve` for tests: starts the program, reads its address, waits until the model is there, stops it.
Standard library only. As in tests/cli: MINFER_REQUIRE_MODELS=1 makes a missing model a failure instead of a skip.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

TIMEOUT_S = 120
MODEL_DIR = Path(os.environ.get("MINFER_MODEL_DIR") or Path.home() / ".cache/minfer/models")


def require_model(name: str) -> str:
    """The name of a model of the cache; skips, or fails where models are required, if it is not there."""
    if not (MODEL_DIR / f"{name}.gguf").exists():
        text = f"{name} is not in {MODEL_DIR}; scripts/fetch-model {name} fetches it"
        if os.environ.get("MINFER_REQUIRE_MODELS") == "1":
            raise AssertionError(text)
        raise unittest.SkipTest(text)
    return name


class Served:
    """`minfer serve MODEL OPTIONS` on a free port; `with` stops it. `said()` is what it wrote to stderr so far."""

    def __init__(self, program: str, model: str, *options: str):
        self._log = tempfile.NamedTemporaryFile(prefix="minfer-serve-")
        command = [program, "serve", model, "--port", "0", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=self._log)
        try:
            self.address = self._wait_for_address()
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def said(self) -> str:
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")

    def _wait_for_address(self) -> str:
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            match = re.search(r"^minfer: listening on (\S+)$", self.said(), re.M)
            if match:
                return match.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"minfer serve does not listen (exit code {self.process.poll()}): {self.said()}")

    def health(self) -> dict:
        try:
            with urllib.request.urlopen(self.address + "/health", timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def wait_until_ok(self) -> "Served":
        end = time.monotonic() + TIMEOUT_S
        while self.health()["status"] != "ok":
            assert self.process.poll() is None and time.monotonic() < end, self.said()
            time.sleep(0.02)
        return self

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M).group(1)) * 1024

    def stop(self, number=signal.SIGTERM) -> int:
        """Sends a signal and gives the exit code; a negative one is the signal that ended it."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_S)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()
