"""Running the program `minfer` in tests: one call a run, with what it wrote and how it ended; the models that tests use, and
broken files made from them. Standard library only. MINFER_REQUIRE_MODELS=1: a test whose model is not in the cache fails
instead of skipping.
"""

import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
TINY = GOLDEN / "tiny"
TIMEOUT_S = 300

MODEL_DIR = Path(os.environ.get("MINFER_MODEL_DIR") or Path.home() / ".cache/minfer/models")


class Result(NamedTuple):
    code: int
    out: str
    err: str


class ProgramTest(unittest.TestCase):
    """A test that runs the program; `folder` is a fresh one for each test."""

    program = ""  # set by the main program

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="minfer-cli-test-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def start(self, *arguments, env=None, **streams) -> subprocess.Popen:
        changed = {name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None}
        command = [self.program, *[a if isinstance(a, bytes) else str(a) for a in arguments]]
        return subprocess.Popen(command, env=changed, **streams)

    def run_bytes(self, *arguments, stdin=b"", env=None):
        process = self.start(*arguments, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return process.returncode, out, err

    def minfer(self, *arguments, stdin=b"", env=None) -> Result:
        code, out, err = self.run_bytes(*arguments, stdin=stdin, env=env)
        return Result(code, out.decode(), err.decode())

    def ok(self, *arguments, **options) -> Result:
        result = self.minfer(*arguments, **options)
        self.assertEqual(result.code, 0, result.err)
        return result

    def refused(self, code: int, says: str, *arguments, **options) -> str:
        """The program ends with `code`, nothing on stdout and one line on stderr, which has `says` in it."""
        result = self.minfer(*arguments, **options)
        self.assertEqual((result.code, result.out), (code, ""), result.err)
        self.assertRegex(result.err, r"\Aminfer: [^\n]+\n\Z")
        self.assertIn(says, result.err)
        return result.err

    def write(self, name: str, content) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def model(self, name: str) -> str:
        """The name of a model of the cache; skips, or fails where models are required, if it is not there."""
        if not (MODEL_DIR / f"{name}.gguf").exists():
            text = f"{name} is not in {MODEL_DIR}; scripts/fetch-model {name} fetches it"
            if os.environ.get("MINFER_REQUIRE_MODELS") == "1":
                self.fail(text)
            self.skipTest(text)
        return name


def with_metadata(model: bytes, key: str, value: str) -> bytes:
    """The GGUF file with a string key more. The value is padded with blanks so that the tensors stay aligned (32)."""
    head = struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", 8)
    text = value.encode()
    text += b" " * (-(len(head) + 8 + len(text)) % 32)
    magic, version, tensors, pairs = struct.unpack_from("<4sIQQ", model)
    return struct.pack("<4sIQQ", magic, version, tensors, pairs + 1) + head + struct.pack("<Q", len(text)) + text + model[24:]


def with_architecture(model: bytes, name: str) -> bytes:
    """The file of a `llama` model under the name of another architecture, of as many letters."""
    mark = b"general.architecture" + struct.pack("<IQ", 8, 5)
    at = model.index(mark) + len(mark)
    assert model[at:at + 5] == b"llama" and len(name) == 5
    return model[:at] + name.encode() + model[at + 5:]
