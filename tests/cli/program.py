"""Running the program `minfer` in tests: one call a run, with what it wrote and how it ended; the models that tests use, and
broken files made from them. Standard library only. MINFER_REQUIRE_MODELS=1: a test whose model is not in the cache fails
instead of skipping.
"""

import os
import re
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import NamedTuple

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
TINY = GOLDEN / "tiny"
TEXT = "It was the best of times, it was the worst of times; we had everything before us. " * 40
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

    def peak_anonymous(self, *arguments) -> int:
        """The most anonymous memory, in bytes, that a run of the program had at the moments when it was asked."""
        process = self.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        most = 0
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            except ProcessLookupError:
                break
            most = max([most, *(int(kib) * 1024 for kib in re.findall(r"^RssAnon:\s+(\d+) kB", status, re.M))])
            time.sleep(0.001)
        _, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0, err)
        return most

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


_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


def _value_end(data: bytes, at: int, kind: int) -> int:
    """Where the value of a GGUF type that begins at `at` ends."""
    if kind == _STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != _ARRAY:
        return at + _VALUE_BYTES[kind]
    item, count = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(count):
        at = _value_end(data, at, item)
    return at


def split_model(model: bytes, parts: int) -> list[bytes]:
    """A GGUF file of version 3 with alignment 32 as a split set: all metadata in part 1, the tensors dealt in turns."""
    count, pairs = struct.unpack_from("<QQ", model, 8)
    at = 24
    for _ in range(pairs):
        at = _value_end(model, at, _STRING)
        at = _value_end(model, at + 4, struct.unpack_from("<I", model, at)[0])
    metadata = model[24:at]
    infos = []  # the header without its offset, and the offset
    for _ in range(count):
        end = _value_end(model, at, _STRING)
        end += 4 + 8 * struct.unpack_from("<I", model, end)[0] + 4
        infos.append((model[at:end], struct.unpack_from("<Q", model, end)[0]))
        at = end + 8
    data = model[at + -at % 32:]
    bounds = sorted({offset for _, offset in infos} | {len(data)})

    def part(index: int) -> bytes:
        mine = infos[index::parts]
        keys = ((b"split.no", 2, struct.pack("<H", index)), (b"split.count", 2, struct.pack("<H", parts)),
                (b"split.tensors.count", 5, struct.pack("<i", count)))
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(mine), (pairs if index == 0 else 0) + len(keys))
        head += metadata if index == 0 else b""
        for key, kind, value in keys:
            head += struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value
        tensors = b""
        for info, offset in mine:
            head += info + struct.pack("<Q", len(tensors))
            tensors += data[offset:bounds[bounds.index(offset) + 1]]
            tensors += b"\0" * (-len(tensors) % 32)
        return head + b"\0" * (-len(head) % 32) + tensors

    return [part(index) for index in range(parts)]


def with_architecture(model: bytes, name: str) -> bytes:
    """The file of a `llama` model under the name of another architecture, of as many letters."""
    mark = b"general.architecture" + struct.pack("<IQ", 8, 5)
    at = model.index(mark) + len(mark)
    assert model[at:at + 5] == b"llama" and len(name) == 5
    return model[:at] + name.encode() + model[at + 5:]
