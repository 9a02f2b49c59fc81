#!/usr/bin/env python3
"""The server's HTTP under ordinary, careless and hostile clients, against http_test_server: the product's code under routes that
echo, stream and wait.

Usage: http_test.py PROGRAM [unittest options]. Standard library, and the program openssl for a certificate.
"""

import json
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from raw_http import TIMEOUT_S, Connection, cpu_seconds, make_certificate


class ServerTest(unittest.TestCase):
    program = ""

    def start(self, *options: str) -> str:
        """The address of a server; it is stopped at the end of the test."""
        self.process = subprocess.Popen([self.program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(lambda: self.assertEqual(self.process.wait(TIMEOUT_S), 0))  # a sanitizer's findings too
        self.addCleanup(self.process.stdin.close)
        self.address = self.process.stdout.readline().strip()
        self.assertTrue(self.address)
        return self.address

    def connect(self, **options) -> Connection:
        connection = Connection(self.address, **options)
        self.addCleanup(connection.socket.close)
        return connection

    def raw(self, data, status: int, closes=True, says="") -> dict:
        """What is sent is answered with an error of OpenAI's shape, and the server still works."""
        with Connection(self.address) as connection:
            connection.send(data)
            answer = connection.answer()
            self.assertEqual(answer.status, status, answer.body)
            error = json.loads(answer.body)["error"]
            self.assertEqual(set(error), {"message", "type", "param", "code"})
            self.assertIn(says, error["message"])
            if closes:
                self.assertEqual(answer.headers["connection"], "close")
                self.assertTrue(connection.ends())
        self.works()
        return error

    def works(self):
        with Connection(self.address) as connection:
            self.assertEqual(connection.request("GET", "/echo").status, 200)

    def gone(self) -> int:
        """How many clients the server's handlers have seen to go; -1 where it has no connection left."""
        with Connection(self.address) as connection:
            try:
                answer = connection.request("GET", "/gone")
            except (EOFError, ConnectionError):
                return -1
            return int(answer.body) if answer.status == 200 else -1

    def wait_for(self, condition, within=TIMEOUT_S):
        end = time.monotonic() + within
        while not condition():
            self.assertLess(time.monotonic(), end, "it did not come about in time")
            time.sleep(0.01)


class Requests(ServerTest):
    def setUp(self):
        self.start()

    def test_keep_alive_and_headers(self):
        connection = self.connect()
        for i in range(3):
            answer = connection.request("POST", "/echo?x=1", f"body {i}".encode())
            self.assertEqual(answer.body.decode(), f"POST /echo?x=1\nbody {i}")
        self.assertEqual(answer.headers["connection"], "keep-alive")
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        self.assertEqual(answer.headers["cache-control"], "no-store")
        self.assertRegex(answer.headers["date"], r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
        answer = connection.request("GET", "/echo", headers="Connection: close\r\n")
        self.assertEqual(answer.headers["connection"], "close")
        self.assertTrue(connection.ends())

    def test_header_names_are_lower_case(self):
        self.assertIn(b"x-some: Value\n", self.connect().request("GET", "/echo?headers", headers="X-SoMe:   Value  \r\n").body)

    def test_http_1_0(self):
        connection = self.connect()
        connection.send("GET /echo HTTP/1.0\r\n\r\n")
        self.assertEqual(connection.answer().headers["connection"], "close")
        self.assertTrue(connection.ends())
        connection = self.connect()
        connection.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        self.assertEqual(connection.answer().status, 200)
        self.assertEqual(connection.request("GET", "/echo").status, 200)

    def test_pipelining_is_answered_in_order(self):
        connection = self.connect()
        connection.send("".join(f"GET /wait?ms={30 if i % 3 == 0 else 0}&i={i} HTTP/1.1\r\nHost: t\r\n\r\n"
                                f"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\n{i:03}" for i in range(40)))
        for i in range(40):
            self.assertEqual(connection.answer().body, b'{"waited":true}')
            self.assertEqual(connection.answer().body, f"POST /echo?\n{i:03}".encode())

    def test_many_requests_sent_ahead(self):
        connection = self.connect()
        count = 20000
        request = b"GET /echo HTTP/1.1\r\nHost: t\r\n\r\n"
        sender = threading.Thread(target=connection.send, args=(request * count,))
        sender.start()
        for _ in range(count):
            self.assertEqual(connection.answer().status, 200)
        sender.join()

    def test_chunked_bodies(self):
        connection = self.connect()
        head = "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.send(head + "4\r\nwiki\r\n5;ext=1\r\npedia\r\n0\r\nTrailer: x\r\n\r\n")
        self.assertEqual(connection.answer().body, b"POST /echo?\nwikipedia")
        for byte in (head + "1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\n").encode():
            connection.send(bytes([byte]))
        self.assertEqual(connection.answer().body, b"POST /echo?\na0123456789")
        for bad in ("x\r\n", "-1\r\n", "1\r\nab\r\n", "fffffffffffffffff\r\n", "1 1\r\na\r\n", "4\nwiki\r\n"):
            self.raw(head + bad + "0\r\n\r\n", 400)
        self.raw(head + "1" + "0" * 200000, 400)

    def test_expect_continue(self):
        connection = self.connect()
        connection.send("POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        self.assertEqual(connection.until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue")
        connection.send("ok")
        self.assertEqual(connection.answer().body, b"POST /echo?\nok")
        # Whoever asks for what isn't there is told before he sends it.
        connection.send("POST /nothing HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        self.assertEqual(connection.head()[0], 404)
        self.raw("POST /echo HTTP/1.1\r\nHost: t\r\nExpect: magic\r\nContent-Length: 2\r\n\r\nok", 417)

    def test_methods_and_paths(self):
        connection = self.connect()
        answer = connection.request("HEAD", "/echo")
        self.assertEqual((answer.status, answer.headers["content-length"]), (200, str(len("HEAD /echo?\n"))))
        answer = connection.request("DELETE", "/echo")
        self.assertEqual((answer.status, answer.headers["allow"]), (405, "GET, HEAD, POST, OPTIONS"))
        answer = connection.request("GET", "/nothing")
        self.assertEqual((answer.status, json.loads(answer.body)["error"]["code"]), (404, "unknown_url"))
        answer = connection.request("OPTIONS", "/echo")
        self.assertEqual((answer.status, answer.headers["allow"]), (204, "GET, HEAD, POST, OPTIONS"))
        self.assertNotIn("access-control-allow-origin", answer.headers)
        self.assertEqual(connection.request("OPTIONS", "*").status, 204)
        self.assertEqual(connection.request("BREW", "/echo").status, 405)
        self.assertEqual(connection.request("GET", "/%65cho?a=%20b").body, b"GET /echo?a=%20b\n")
        self.assertEqual(connection.request("GET", "http://test/echo?q").body, b"GET /echo?q\n")
        self.assertEqual(connection.request("GET", "/below/a/%C3%A4").body.decode(), "GET /below/a/ä?\n")
        self.assertEqual(connection.request("GET", "/below/").status, 404)
        self.assertEqual(connection.request("GET", "/below").status, 404)

    def test_malformed_requests(self):
        host = "Host: t\r\n"
        for first in ("GET", "GET /echo", "GET  /echo HTTP/1.1", "/echo HTTP/1.1", "GET /echo HTTP/2.0", "GET /echo HTTP/1.1 x",
                      "GET /echo http/1.1", "G@T /echo HTTP/1.1", "PRI * HTTP/2.0", "\x16\x03\x01\x02", "GET /e\x01cho HTTP/1.1"):
            self.raw(f"{first}\r\n{host}\r\n", 400)
        for target in ("echo", "/%", "/%2", "/%zz", "/%00", "/%0a", "/%ff", "/%c3%28", "/echo#x", "/\\echo", "http:///echo", "*"):
            self.raw(f"GET {target} HTTP/1.1\r\n{host}\r\n", 400)
        self.raw(b"GET /\xc3\xa4 HTTP/1.1\r\nHost: t\r\n\r\n", 400)
        for headers in ("", host + host, "Host: a b\r\n", "Host: a/b\r\n", host + "Bad Header: x\r\n", host + ": x\r\n",
                        host + "X: a\x00b\r\n", host + "X : y\r\n", host + "Content-Length: x\r\n", host + "Content-Length: -1\r\n",
                        host + "Content-Length: 1\r\nContent-Length: 2\r\n", host + "Content-Length: 1, 2\r\n",
                        host + "Content-Length: 99999999999999999999\r\n",
                        host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                        host + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                        host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"):
            self.raw(f"POST /echo HTTP/1.1\r\n{headers}\r\nhello", 400)
        for coding in ("gzip", "gzip, chunked", "chunked, gzip", "identity"):
            self.raw(f"POST /echo HTTP/1.1\r\n{host}Transfer-Encoding: {coding}\r\n\r\n", 501)
        self.raw("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400)

    def test_lines_before_a_request_are_ignored(self):
        connection = self.connect()
        connection.send("\r\n\r\nGET /echo HTTP/1.1\r\nHost: t\r\n\r\n")
        self.assertEqual(connection.answer().status, 200)

    def test_header_limit(self):
        self.raw("GET /echo HTTP/1.1\r\nHost: t\r\nX: " + "a" * 40000 + "\r\n\r\n", 431)
        self.raw("GET /echo HTTP/1.1\r\nHost: t\r\n" + "X: a\r\n" * 10000 + "\r\n", 431)
        self.raw("GET /" + "a" * 200000 + " HTTP/1.1\r\nHost: t\r\n\r\n", 431)
        self.raw("A" * 100000, 431)
        self.assertEqual(self.connect().request("GET", "/echo", headers="X: " + "a" * 30000 + "\r\n").status, 200)

    def test_bytes_that_are_no_request(self):
        for data in (b"\x00" * 100, bytes(range(128, 256)) * 10, b"\xff\xff\r\n\r\n", b"{}\r\n\r\n"):
            self.raw(data + b"\r\n\r\n", 400)

    def test_errors_of_handlers(self):
        answer = self.connect().request("POST", "/busy")
        self.assertEqual((answer.status, answer.headers["retry-after"]), (429, "1"))
        self.assertEqual(json.loads(answer.body)["error"]["message"], "the queue is full")
        answer = self.connect().request("GET", "/gives_up")
        self.assertEqual((answer.status, json.loads(answer.body)["error"]["type"]), (500, "server_error"))
        connection = self.connect()
        connection.send("GET /cuts HTTP/1.1\r\nHost: t\r\n\r\n")
        connection.head()
        with self.assertRaises(EOFError):
            while connection.chunk():
                pass

    def test_loading(self):
        connection = self.connect()
        answer = connection.request("GET", "/health")
        self.assertEqual((answer.status, json.loads(answer.body)), (503, {"status": "loading", "progress": 0.0}))
        connection.request("POST", "/progress")
        self.assertEqual(json.loads(connection.request("GET", "/health").body), {"status": "loading", "progress": 0.42})
        answer = connection.request("POST", "/model", b"{}")
        self.assertEqual((answer.status, json.loads(answer.body)["error"]["code"]), (503, "model_loading"))
        self.assertIn("retry-after", answer.headers)

    def test_metrics(self):
        connection = self.connect()
        connection.request("GET", "/echo")
        connection.request("GET", "/nothing")
        answer = connection.request("GET", "/metrics")
        self.assertIn(b'minfer_http_answers_total{endpoint="/echo",status="200"} 1', answer.body)
        self.assertIn(b'minfer_http_answers_total{endpoint="other",status="404"} 1', answer.body)
        self.assertIn(b"minfer_http_connections 1", answer.body)
        # Clients that have their answer and close are no lost clients.
        for headers in ("Connection: close\r\n", ""):
            other = self.connect()
            other.send(f"GET /echo HTTP/1.1\r\nHost: t\r\n{headers}\r\n")
            other.socket.shutdown(socket.SHUT_WR)
            self.assertEqual(other.answer().status, 200)
        # An answer is counted once it is written; its client may be earlier.
        three = b'minfer_http_answers_total{endpoint="/echo",status="200"} 3'
        end = time.monotonic() + 5
        while three not in (answer := connection.request("GET", "/metrics")).body and time.monotonic() < end:
            time.sleep(0.01)
        self.assertIn(three, answer.body)
        self.assertNotIn(b'status="499"', answer.body)


class Limits(ServerTest):
    def test_body_limit(self):
        self.start("body=1000")
        self.raw("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1001\r\n\r\n", 413, says="1001")
        self.raw("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", 413)
        self.raw("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                 + "a\r\n0123456789\r\n" * 101, 413)
        self.assertEqual(self.connect().request("POST", "/echo", b"x" * 1000).status, 200)

    def test_large_bodies(self):
        self.start(f"body={32 << 20}")
        body = b"x" * (32 << 20)
        answer = self.connect().request("POST", "/echo?size", body)
        self.assertEqual(answer.body, f"POST /echo?size\n{len(body)}".encode())
        # A client that sends all before it reads gets its answer too.
        connection = self.connect()
        connection.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 104857600\r\n\r\n")
        chunk = b"x" * (1 << 20)
        for _ in range(100):
            connection.send(chunk)
        self.assertEqual(connection.answer().status, 413)

    def test_bodies_of_all_requests_are_limited(self):
        self.start("body=1000")
        head = "GET /wait?ms=1500 HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n"
        waiting = [self.connect() for _ in range(16)]
        for connection in waiting:
            connection.send(head + "x" * 1000)
        time.sleep(0.5)  # they are whole, and wait
        # What is too much is refused, and only that.
        for _ in range(3):
            over = self.connect()
            over.send(head + "x" * 1000)
            answer = over.answer()
            self.assertEqual((answer.status, json.loads(answer.body)["error"]["code"]), (503, "overloaded"))
        self.assertEqual([connection.answer().status for connection in waiting], [200] * 16)
        self.assertEqual(self.connect().request("POST", "/echo", b"x" * 1000).status, 200)

    def test_connection_limit(self):
        self.start("connections=3")
        kept = [self.connect() for _ in range(3)]
        for connection in kept:
            self.assertEqual(connection.request("GET", "/echo").status, 200)
        over = self.connect()
        answer = over.answer()
        self.assertEqual((answer.status, json.loads(answer.body)["error"]["code"]), (503, "overloaded"))
        self.assertTrue(over.ends())
        for connection in [self.connect() for _ in range(200)]:
            try:
                self.assertEqual(connection.answer().status, 503)
                self.assertTrue(connection.ends())
            except (EOFError, ConnectionError):
                pass  # beyond so many they are closed without a word
        kept[0].socket.close()
        self.wait_for(lambda: self.gone() == 0)
        self.assertEqual(kept[1].request("GET", "/echo").status, 200)

    def test_slow_head(self):
        self.start("header_ms=300", "idle_ms=100000")
        connection = self.connect()
        connection.send("GET /echo HTTP/1.1\r\n")
        begin = time.monotonic()
        try:
            while not select.select([connection.socket], [], [], 0.05)[0]:
                connection.send("X: y\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.assertEqual(connection.answer().status, 408)
        self.assertLess(time.monotonic() - begin, 2)

    def test_slow_body(self):
        self.start("header_ms=300")
        connection = self.connect()
        connection.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n")
        while not select.select([connection.socket], [], [], 0.05)[0]:
            connection.send("x")
        self.assertEqual(connection.answer().status, 408)

    def test_idle_connections_end(self):
        self.start("idle_ms=200")
        silent = self.connect()
        self.assertTrue(silent.ends(within=2))
        used = self.connect()
        used.request("GET", "/echo")
        self.assertTrue(used.ends(within=2))

    def test_many_slow_clients(self):
        self.start("header_ms=500")
        slow = [self.connect() for _ in range(200)]
        for connection in slow:
            connection.send("POST /echo HTTP/1.1\r\nHost: t\r\nX: ")
        self.works()
        for connection in slow:
            self.assertEqual(connection.answer().status, 408)

    def test_no_cpu_when_idle(self):
        self.start()
        kept = [self.connect() for _ in range(50)]
        for connection in kept:
            connection.request("GET", "/echo")
        before = cpu_seconds(self.process.pid)
        time.sleep(1.5)
        self.assertLessEqual(cpu_seconds(self.process.pid) - before, 0.01)


class Streams(ServerTest):
    def events(self, connection: Connection, path: str) -> list[bytes]:
        connection.send(f"GET {path} HTTP/1.1\r\nHost: t\r\n\r\n")
        answer = connection.answer()
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "text/event-stream"))
        self.assertTrue(answer.body.endswith(b"\n\n"))
        return answer.body[:-2].split(b"\n\n")

    def test_events(self):
        self.start()
        connection = self.connect()
        self.assertEqual(self.events(connection, "/stream?count=3&size=2"), [b"data: xx0", b"data: xx1", b"data: xx2"])
        self.assertEqual(self.events(connection, "/stream?count=1&size=0&named=1"), [b"event: tick\ndata: 0"])
        self.assertEqual(len(self.events(connection, "/stream?count=5000&size=20")), 5000)

    def test_http_1_0_stream_ends_with_the_connection(self):
        self.start()
        connection = self.connect()
        connection.send("GET /stream?count=2&size=1 HTTP/1.0\r\n\r\n")
        _, headers = connection.head()
        self.assertEqual(headers["connection"], "close")
        self.assertNotIn("transfer-encoding", headers)
        self.assertEqual(connection.take(20), b"data: x0\n\ndata: x1\n\n")
        self.assertTrue(connection.ends())

    def test_silence_is_filled_with_comments(self):
        self.start("comment_ms=100")
        events = self.events(self.connect(), "/stream?count=2&size=1&pause_ms=550")
        self.assertEqual([event for event in events if not event.startswith(b":")], [b"data: x0", b"data: x1"])
        self.assertIn(len([event for event in events if event.startswith(b":")]), range(6, 12))

    def test_gone_clients_are_noticed(self):
        self.start()
        for path in ("/stream?count=100000&size=1&pause_ms=20", "/wait?ms=3000"):
            before = self.gone()
            connection = self.connect()
            connection.send(f"GET {path} HTTP/1.1\r\nHost: t\r\n\r\n")
            time.sleep(0.1)
            connection.socket.close()
            self.wait_for(lambda: self.gone() == before + 1, within=1)
        # With requests sent ahead that nobody has read yet.
        before = self.gone()
        connection = self.connect()
        connection.send("GET /wait?ms=3000 HTTP/1.1\r\nHost: t\r\n\r\n" + "GET /echo HTTP/1.1\r\nHost: t\r\n\r\n" * 100)
        time.sleep(0.1)
        connection.socket.close()
        self.wait_for(lambda: self.gone() == before + 1, within=1)
        self.assertIn(b'minfer_http_answers_total{endpoint="/stream",status="499"} 1', self.connect().request("GET", "/metrics").body)

    def test_half_closed_clients(self):
        self.start()
        connection = self.connect()
        connection.send("GET /echo HTTP/1.1\r\nHost: t\r\n\r\n")
        connection.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(connection.answer().status, 200)
        self.assertTrue(connection.ends())
        connection = self.connect()
        connection.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc")
        connection.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(connection.answer().status, 400)
        connection = self.connect()
        connection.socket.shutdown(socket.SHUT_WR)
        self.assertTrue(connection.ends())

    def test_slow_readers_are_dropped(self):
        self.start("queued=200000")
        connection = self.connect(receive_buffer=4096)
        connection.send("GET /stream?count=100000&size=1000 HTTP/1.1\r\nHost: t\r\n\r\n")
        self.wait_for(lambda: self.gone() == 1)

    def test_readers_that_stop_are_dropped(self):
        self.start("idle_ms=300", "queued=100000000")
        connection = self.connect(receive_buffer=4096)
        connection.send("GET /stream?count=20000&size=1000 HTTP/1.1\r\nHost: t\r\n\r\n")
        time.sleep(1.5)
        with self.assertRaises((EOFError, ConnectionError)):
            connection.answer()

    def test_many_streams_at_once(self):
        self.start()
        results = []

        def read(i: int):
            with Connection(self.address) as connection:
                connection.send(f"GET /stream?count=50&size={i}&pause_ms=2 HTTP/1.1\r\nHost: t\r\n\r\n")
                results.append(connection.answer().body.count(b"data: "))

        threads = [threading.Thread(target=read, args=(i,)) for i in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [50] * 100)


class Access(ServerTest):
    def test_keys(self):
        self.start("key=first", "key=second")
        connection = self.connect()
        for header in ("", "Authorization: Bearer\r\n", "Authorization: Bearer firs\r\n", "Authorization: Bearer first2\r\n",
                       "Authorization: Basic first\r\n", "Authorization: first\r\n"):
            answer = connection.request("GET", "/echo", headers=header)
            self.assertEqual((answer.status, json.loads(answer.body)["error"]["code"]), (401, "invalid_api_key"))
            self.assertTrue(answer.headers["www-authenticate"].startswith("Bearer"))
        for key in ("Bearer first", "bearer second", "BEARER   first"):
            self.assertEqual(connection.request("GET", "/echo", headers=f"Authorization: {key}\r\n").status, 200)
        self.assertEqual(connection.request("GET", "/health").status, 503)
        self.assertEqual(connection.request("GET", "/metrics").status, 401)
        # Without a key nothing of a body is waited for.
        other = self.connect()
        other.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n")
        self.assertEqual(other.answer().status, 401)

    def test_cors(self):
        self.start("cors=https://good.example", "key=k")
        connection = self.connect()
        preflight = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, x-stainless-os\r\n"
        answer = connection.request("OPTIONS", "/echo", headers="Origin: https://good.example\r\n" + preflight)
        self.assertEqual((answer.status, answer.headers["access-control-allow-origin"]), (204, "https://good.example"))
        self.assertEqual(answer.headers["access-control-allow-headers"], "authorization, x-stainless-os")
        self.assertIn("POST", answer.headers["access-control-allow-methods"])
        answer = connection.request("GET", "/echo", headers="Origin: https://good.example\r\n")
        self.assertEqual((answer.status, answer.headers["access-control-allow-origin"]), (401, "https://good.example"))
        answer = connection.request("OPTIONS", "/echo", headers="Origin: https://bad.example\r\n" + preflight)
        self.assertNotIn("access-control-allow-origin", answer.headers)
        self.assertEqual(answer.headers["vary"], "Origin")

    def test_tls(self):
        folder = tempfile.TemporaryDirectory(prefix="minfer-http-test-")
        self.addCleanup(folder.cleanup)
        cert, key = make_certificate(Path(folder.name))
        self.start(f"cert={cert}", f"tls_key={key}", "body=1000", "header_ms=500")
        self.assertTrue(self.address.startswith("https://"))
        context = ssl.create_default_context(cafile=cert)
        context.set_alpn_protocols(["h2", "http/1.1"])
        wrap = lambda plain: context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)  # noqa: E731
        connection = self.connect(wrap=wrap)
        self.assertEqual(connection.socket.selected_alpn_protocol(), "http/1.1")
        for _ in range(3):
            self.assertEqual(connection.request("POST", "/echo", b"x").body, b"POST /echo?\nx")
        connection.send("GET /stream?count=500&size=100 HTTP/1.1\r\nHost: t\r\n\r\n")
        self.assertEqual(connection.answer().body.count(b"data: "), 500)
        # Ends with a close_notify, or this would be an error.
        connection.request("GET", "/echo", headers="Connection: close\r\n")
        self.assertTrue(connection.ends())
        connection = self.connect(wrap=wrap)
        self.assertEqual(connection.request("POST", "/echo", b"x" * 2000).status, 413)
        connection = self.connect(wrap=wrap)
        connection.send("GET /wait?ms=2000 HTTP/1.1\r\nHost: t\r\n\r\n")
        time.sleep(0.1)
        connection.socket.close()
        gone = lambda: int(self.connect(wrap=wrap).request("GET", "/gone").body)  # noqa: E731
        self.wait_for(lambda: gone() == 1, within=1)
        # One that does not speak TLS, one that says nothing, one of an old version.
        plain = self.connect()
        plain.send("GET /echo HTTP/1.1\r\nHost: t\r\n\r\n")
        with self.assertRaises((EOFError, ConnectionError, ValueError, AssertionError)):
            plain.answer()
        self.assertTrue(self.connect().ends(within=3))
        self.assertEqual(self.connect(wrap=wrap).request("GET", "/echo").status, 200)


class Draining(ServerTest):
    def stop(self) -> str:
        self.process.stdin.close()
        return self.process.stdout.readline().strip()

    def test_running_answers_are_given(self):
        self.start("drain_ms=5000")
        idle, busy, streaming = self.connect(), self.connect(), self.connect()
        self.assertEqual(idle.request("GET", "/echo").status, 200)
        busy.send("GET /wait?ms=700 HTTP/1.1\r\nHost: t\r\n\r\n")
        streaming.send("GET /stream?count=10&size=1&pause_ms=60 HTTP/1.1\r\nHost: t\r\n\r\n")
        time.sleep(0.2)
        said = []
        thread = threading.Thread(target=lambda: said.append(self.stop()))
        thread.start()
        time.sleep(0.2)
        answer = idle.request("GET", "/health")
        self.assertEqual((answer.status, json.loads(answer.body)), (503, {"status": "draining"}))
        with self.assertRaises(OSError):
            self.connect()
        self.assertEqual(busy.answer().body, b'{"waited":true}')
        self.assertEqual(streaming.answer().body.count(b"data: "), 10)
        self.assertTrue(busy.ends())
        thread.join()
        self.assertEqual(said, ["abandoned 0"])

    def test_what_takes_too_long_is_abandoned(self):
        self.start("drain_ms=200")
        connections = [self.connect() for _ in range(3)]
        for connection in connections:
            connection.send("GET /wait?ms=3000 HTTP/1.1\r\nHost: t\r\n\r\n")
        time.sleep(0.2)
        begin = time.monotonic()
        self.assertEqual(self.stop(), "abandoned 3")
        self.assertLess(time.monotonic() - begin, 2)
        self.assertTrue(connections[0].ends())

    def test_wrong_options_are_told(self):
        for options, says in ((["cert=/nothing", "tls_key=/nothing"], "--tls-cert /nothing"),):
            run = subprocess.run([self.program, *options], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn(says, run.stderr)


if __name__ == "__main__":
    ServerTest.program = sys.argv.pop(1)
    unittest.main()
