"""HTTP by hand, for tests of what a well-behaved client would never send: a socket, the bytes that go out, and a strict reader
of answers. Standard library only.
"""

import os
import re
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

TIMEOUT_S = 20


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


class Connection:
    """One connection; `with` closes it."""

    def __init__(self, address: str, wrap=None, timeout=TIMEOUT_S, receive_buffer=0):
        host, port = re.fullmatch(r"https?://\[?(.*?)\]?:(\d+)", address).groups()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        plain = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(timeout)
        plain.connect((host, int(port)))
        self.socket = wrap(plain) if wrap else plain
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
        self.send(f"{method} {path} HTTP/1.1\r\nHost: test\r\n{length}{headers}\r\n".encode() + body)
        return self.answer(has_body=method != "HEAD")

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError(f"the connection ended after {self.rest[:200]!r}")
        self.rest += data
        return data

    def until(self, mark: bytes) -> bytes:
        """The bytes up to `mark`, which is left out."""
        while mark not in self.rest:
            self._more()
        found, self.rest = self.rest.split(mark, 1)
        return found

    def take(self, count: int) -> bytes:
        while len(self.rest) < count:
            self._more()
        found, self.rest = self.rest[:count], self.rest[count:]
        return found

    def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        assert first.startswith("HTTP/1.1 "), first
        pairs = [line.split(": ", 1) for line in lines]
        assert len({name.lower() for name, _ in pairs}) == len(pairs), f"a header twice: {lines}"
        return int(first.split(" ")[1]), {name.lower(): value for name, value in pairs}

    def chunk(self) -> bytes:
        """A chunk's data; empty at the end."""
        size = int(self.until(b"\r\n"), 16)
        data = self.take(size)
        assert self.take(2) == b"\r\n"
        return data

    def answer(self, has_body=True) -> Answer:
        status, headers = self.head()
        body = b""
        if status == 100:
            return self.answer(has_body)
        if not has_body or status in (204, 304):
            return Answer(status, headers, body)
        if headers.get("transfer-encoding") == "chunked":
            while chunk := self.chunk():
                body += chunk
        else:
            body = self.take(int(headers["content-length"]))
        return Answer(status, headers, body)

    def ends(self, within=TIMEOUT_S) -> bool:
        """The server closes, and nothing more came before."""
        self.socket.settimeout(within)
        try:
            return self.rest == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except (TimeoutError, socket.timeout):
            return False


def cpu_seconds(pid: int) -> float:
    """Of a process, all its threads, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key
