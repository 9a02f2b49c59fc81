#!/usr/bin/env python3
"""`minfer serve` as its users start it: address, loading, options that are refused, keys, limits, drain, clients that leave, and
that nothing is used when nothing is asked. The endpoints' answers are tested by openai_test.py.

Usage: serve_test.py PROGRAM [unittest options]. Needs smollm2-135m; standard library only.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from raw_http import TIMEOUT_S, Connection, cpu_seconds
from served import Served, require_model

MODEL = "smollm2-135m"
ENDLESS = {"logit_bias": {"0": -100, "2": -100}}  # of smollm2: the tokens that end an answer


def post(connection: Connection, path: str, fields: dict) -> None:
    body = json.dumps(fields).encode()
    connection.send(f"POST {path} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                    .encode() + body)


def completion(connection: Connection, **fields) -> None:
    post(connection, "/v1/completions", {"prompt": "Once upon a time", "temperature": 0, **fields})


class ServeTest(unittest.TestCase):
    program = ""

    def serve(self, *options: str, ok=True) -> Served:
        server = Served(self.program, require_model(MODEL), *options)
        self.addCleanup(server.kill)
        return server.wait_until_ok() if ok else server

    def connect(self, server: Served) -> Connection:
        connection = Connection(server.address)
        self.addCleanup(connection.socket.close)
        return connection

    def metric(self, server: Served, name: str) -> float:
        with Connection(server.address) as connection:
            text = connection.request("GET", "/metrics").body.decode()
        lines = [line for line in text.splitlines() if line.startswith(name + " ")]
        self.assertEqual(len(lines), 1, text)
        return float(lines[0].split(" ")[1])

    def wait_for(self, condition, within=TIMEOUT_S):
        end = time.monotonic() + within
        while not condition():
            self.assertLess(time.monotonic(), end, "it did not come about in time")
            time.sleep(0.01)

    def refused(self, code: int, says: str, *options: str):
        run = subprocess.run([self.program, "serve", *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual((run.returncode, run.stdout), (code, ""), run.stderr)
        self.assertIn(says, run.stderr)
        return run.stderr


class Starting(ServeTest):
    def test_loading_is_told_and_then_it_serves(self):
        server = self.serve(ok=False)
        self.assertIn(server.health()["status"], ("loading", "ok"))
        with Connection(server.address) as connection:
            completion(connection, max_tokens=1)
            answer = connection.answer()
            if answer.status != 200:
                self.assertEqual((answer.status, json.loads(answer.body)["error"]["code"]), (503, "model_loading"))
                self.assertIn("retry-after", answer.headers)
        server.wait_until_ok()
        with Connection(server.address) as connection:
            props = json.loads(connection.request("GET", "/props").body)
            self.assertEqual((props["model"], props["architecture"], props["context"], props["parallel"]), (MODEL, "llama", 4096, 4))
            completion(connection, max_tokens=4)
            answer = json.loads(connection.answer().body)
            self.assertEqual(answer["usage"]["completion_tokens"], 4)
        self.assertEqual(server.stop(), 0)
        self.assertRegex(server.said(), r"\Aminfer: listening on http://127\.0\.0\.1:\d+\n(.*\n)*minfer: serving smollm2-135m: ")

    def test_names_and_addresses(self):
        server = self.serve("--alias", "näme", "--host", "::1", "-c", "256", "--parallel", "2")
        self.assertTrue(server.address.startswith("http://[::1]:"))
        models = json.loads(self.connect(server).request("GET", "/v1/models").body)
        self.assertEqual([model["id"] for model in models["data"]], ["näme"])

    def test_the_page_is_there_before_the_model(self):
        server = self.serve("--api-key", "k", ok=False)
        connection = self.connect(server)
        page = connection.request("GET", "/")
        self.assertEqual((page.status, page.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'", page.headers["content-security-policy"])
        self.assertNotIn("unsafe", page.headers["content-security-policy"])
        self.assertEqual(connection.request("GET", "/", headers=f"If-None-Match: {page.headers['etag']}\r\n").status, 304)
        self.assertEqual(connection.request("HEAD", "/index.html").headers["content-length"], str(len(page.body)))
        for script in re.findall(r'(?:src|href)="/?([\w.]+)"', page.body.decode()):
            self.assertEqual(connection.request("GET", "/" + script).status, 200, script)

    def test_what_is_wrong_is_told_at_once(self):
        model = require_model(MODEL)
        self.refused(5, "nothing.gguf", "nothing.gguf")
        self.refused(2, "--port", model, "--port", "65536")
        self.refused(2, "--tls-cert and --tls-key", model, "--tls-cert", "x")
        self.refused(5, "--tls-cert x", model, "--port", "0", "--tls-cert", "x", "--tls-key", "y")
        self.refused(5, "--host", model, "--host", "no.such.host.invalid")
        self.refused(2, "--api-key", model, "--api-key", "a b")
        self.refused(2, "--cors-origin", model, "--cors-origin", "example.org")
        self.refused(2, "--max-body", model, "--max-body", "0")
        self.refused(5, "/nothing", model, "--api-key-file", "/nothing")
        with tempfile.TemporaryDirectory(prefix="minfer-serve-test-") as folder:
            template = Path(folder) / "bad.jinja"
            template.write_text("{% for m in messages %}{{ m.content }}", encoding="ascii")
            for file, code in ((template, 3), (Path(folder) / "none.jinja", 5)):
                said = self.refused(code, str(file), model, "--port", "0", "--chat-template", str(file))
                self.assertNotIn("listening", said)
            broken = Path(folder) / "broken.gguf"
            broken.write_bytes(b"GGUF\x03\0\0\0")
            for code, says, *options in (
                    (2, "--kv-type q7", "--kv-type", "q7"), (2, "--gpu-layers 1000", "--gpu-layers", "1000"),
                    (2, "--speculate magic", "--speculate", "magic"), (2, "--draft-depth goes", "--draft-depth", "3"),
                    (5, "none.gguf", "--speculate", "draft:./none.gguf"), (3, "broken.gguf", "--lora", str(broken)),
                    (5, "/nowhere/a.gguf", "--lora", "/nowhere/a.gguf"), (3, "no-such-rule", "--pre", "no-such-rule")):
                self.assertNotIn("listening", self.refused(code, says, model, "--port", "0", *options))
            self.assertNotIn("listening", self.refused(3, "broken.gguf", str(broken), "--port", "0"))
        server = self.serve()
        port = server.address.rsplit(":", 1)[1]
        self.refused(5, f"port {port}", model, "--port", port)

    def test_a_model_that_does_not_fit_ends_the_server(self):
        self.refused(4, "listening on", require_model(MODEL), "--port", "0", "--memory-limit", "50M")

    def test_keys_from_a_file(self):
        with tempfile.TemporaryDirectory(prefix="minfer-serve-test-") as folder:
            keys = Path(folder) / "keys"
            keys.write_text("# ours\n\nalpha\r\nbeta\n", encoding="ascii")
            server = self.serve("--api-key-file", str(keys), "--api-key", "gamma")
        connection = self.connect(server)
        self.assertEqual(connection.request("GET", "/v1/models").status, 401)
        self.assertEqual(connection.request("GET", "/health").status, 200)
        for key in ("alpha", "beta", "gamma"):
            self.assertEqual(connection.request("GET", "/v1/models", headers=f"Authorization: Bearer {key}\r\n").status, 200)


class Working(ServeTest):
    def test_clients_that_leave_free_their_places(self):
        server = self.serve("--parallel", "2", "-c", "2048")
        for stream in (True, False):
            clients = [self.connect(server) for _ in range(4)]  # two of them wait
            for client in clients:
                completion(client, max_tokens=2000, stream=stream, **ENDLESS)
            self.wait_for(lambda: self.metric(server, "minfer_requests_running") == 2)
            self.wait_for(lambda: self.metric(server, "minfer_requests_waiting") == 2)
            self.wait_for(lambda: self.metric(server, "minfer_kv_pages_used") >= 2)
            self.assertGreaterEqual(self.metric(server, "minfer_kv_pages_total"), 2 * 2048 // 64)
            for client in clients:
                client.socket.close()
            self.wait_for(lambda: self.metric(server, "minfer_requests_running") + self.metric(server, "minfer_requests_waiting") == 0,
                          within=3)
            self.assertEqual(self.metric(server, "minfer_kv_pages_used"), 0)

    def test_slow_grammars_hold_up_nobody_else(self):
        server = self.serve("-c", "256")
        rules = 20000  # a chain of so many takes a tenth of a second and more
        chain = "".join(f'r{i} ::= "b"? r{i + 1}\n' for i in range(rules)) + f'r{rules} ::= "a"'
        slow = [self.connect(server) for _ in range(24)]
        start = time.monotonic()
        for i, client in enumerate(slow):
            completion(client, max_tokens=2, grammar=f'root ::= "{i}" r0\n{chain}')
        first = self.seconds_of_health(server)
        statuses = [client.answer().status for client in slow]
        took = time.monotonic() - start
        self.assertLessEqual(set(statuses), {200, 400})
        # Behind them it would wait for nearly all.
        self.assertLess(first, took / 2, f"all the grammars took {took} s")

    def test_large_texts_hold_up_nobody_else(self):
        server = self.serve("-c", "256")
        text = "abcdefghijklmnopqrstuvwxyz" * 300_000
        slow = [self.connect(server) for _ in range(2)]  # as many as threads read requests
        start = time.monotonic()
        for client in slow:
            post(client, "/tokenize", {"content": text})
        first = self.seconds_of_health(server)
        self.assertEqual({client.answer().status for client in slow}, {200})
        took = time.monotonic() - start
        self.assertLess(first, took / 2, f"all the texts took {took} s")
        # A prompt of that size is beyond the context whatever its tokens are.
        completion(slow[0], prompt=text)
        answer = slow[0].answer()
        error = json.loads(answer.body)["error"]
        self.assertEqual((answer.status, error["code"]), (400, "context_length_exceeded"))
        self.assertRegex(error["message"], r"the prompt has 7800000 bytes, at least \d{5} tokens, the context 256;")

    def seconds_of_health(self, server):
        asked = time.monotonic()
        self.assertEqual(self.connect(server).request("GET", "/health").status, 200)
        return time.monotonic() - asked

    def test_a_full_queue_is_429(self):
        server = self.serve("--parallel", "1", "--max-queue", "1", "-c", "2048")
        busy = [self.connect(server) for _ in range(2)]
        for client in busy:
            completion(client, max_tokens=2000, **ENDLESS)
        self.wait_for(lambda: self.metric(server, "minfer_requests_running") == 1)
        self.wait_for(lambda: self.metric(server, "minfer_requests_waiting") == 1)
        client = self.connect(server)
        completion(client, max_tokens=1)
        answer = client.answer()
        self.assertEqual((answer.status, json.loads(answer.body)["error"]["type"]), (429, "rate_limit_error"))
        self.assertIn("retry-after", answer.headers)

    def test_hostile_bodies(self):
        server = self.serve("--max-body", "1M")
        connection = self.connect(server)
        for body in (b"", b"{", b"[" * 500000, b'{"a":' * 100000, b'{"prompt": "\xff\xfe"}', b"\x00" * 100, b'{"prompt": 1e999}',
                     b'"' + b"a" * 900000 + b'"', b'{"prompt": "x", "max_tokens": 99999999999999999999999}',
                     b'{"prompt": "\\ud800"}', b"null", b"[]", b'{"prompt": "x"} x'):
            answer = connection.request("POST", "/v1/completions", body)
            self.assertEqual(answer.status, 400, body[:40])
            self.assertEqual(set(json.loads(answer.body)["error"]), {"message", "type", "param", "code"})
        with Connection(server.address) as large:
            large.send(b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 104857600\r\n\r\n")
            for _ in range(100):
                large.send(b"x" * (1 << 20))
            self.assertEqual(large.answer().status, 413)
        completion(connection, max_tokens=1)
        self.assertEqual(connection.answer().status, 200)

    def test_metrics_count_tokens(self):
        server = self.serve()
        connection = self.connect(server)
        for _ in range(2):
            completion(connection, max_tokens=5, **ENDLESS)
            self.assertEqual(connection.answer().status, 200)
        self.wait_for(lambda: self.metric(server, "minfer_generated_tokens_total") == 10)
        self.assertGreater(self.metric(server, "minfer_prompt_tokens_total"), 0)
        self.assertEqual(self.metric(server, "minfer_time_to_first_token_seconds_count"), 2)

    def test_nothing_is_used_when_nothing_is_asked(self):
        server = self.serve()
        connection = self.connect(server)
        completion(connection, max_tokens=1)
        connection.answer()
        time.sleep(0.5)
        before = cpu_seconds(server.process.pid)
        time.sleep(2)
        self.assertLessEqual(cpu_seconds(server.process.pid) - before, 0.01)


class Encoding(ServeTest):
    """An encoder, of the golden files: its vectors come by text and by ids, and it writes no text."""

    TINY = Path(__file__).parent.parent / "golden/tiny"

    def vectors(self, connection: Connection, given) -> list[list[float]]:
        answer = connection.request("POST", "/v1/embeddings", json.dumps({"input": given}).encode())
        self.assertEqual(answer.status, 200, answer.body)
        return [row["embedding"] for row in json.loads(answer.body)["data"]]

    def test_vectors_of_texts(self):
        for name in ("bert", "nomic_bert"):
            server = Served(self.program, str(self.TINY / f"{name}.gguf"), "--kv-type", "f32", "--parallel", "4")
            self.addCleanup(server.kill)
            connection = self.connect(server.wait_until_ok())
            texts = json.loads((self.TINY / f"{name}.json").read_text(encoding="utf-8"))["texts"]
            for text, vector in zip(texts, self.vectors(connection, [text["ids"] for text in texts])):
                length = sum(x * x for x in text["pooled"]) ** 0.5
                for x, y in zip(text["pooled"], vector, strict=True):
                    self.assertAlmostEqual(x / length, y, delta=1e-5)
            # [CLS], the pieces of words and letters, [SEP]
            pieces = [2, 87, 88, 5, 47, 48, 3]
            by_text, by_ids = self.vectors(connection, ["the And abc", "x"])[0], self.vectors(connection, [pieces])[0]
            self.assertEqual(by_text, by_ids)
            answer = connection.request("POST", "/v1/completions", b'{"prompt": "the"}')
            self.assertEqual(answer.status, 400)
            self.assertIn("encoder", json.loads(answer.body)["error"]["message"])
            # Its file has no chat template either.
            answer = connection.request("POST", "/v1/chat/completions", b'{"messages": [{"role": "user", "content": "the"}]}')
            self.assertEqual(answer.status, 400)


class Stopping(ServeTest):
    def test_running_answers_are_given(self):
        server = self.serve()
        client = self.connect(server)
        completion(client, max_tokens=60, stream=True, **ENDLESS)
        client.head()
        client.chunk()
        code = []
        thread = threading.Thread(target=lambda: code.append(server.stop()))
        thread.start()
        body = b""
        while chunk := client.chunk():
            body += chunk
        thread.join()
        self.assertIn(b"[DONE]", body)
        self.assertEqual(code, [0])
        self.assertNotIn("abandoned", server.said())

    def test_what_takes_too_long_is_abandoned(self):
        server = self.serve("--drain-ms", "300", "--parallel", "2", "-c", "2048")
        clients = [self.connect(server) for _ in range(3)]
        for client in clients:
            completion(client, max_tokens=2000, stream=True, **ENDLESS)
        self.wait_for(lambda: self.metric(server, "minfer_requests_running") + self.metric(server, "minfer_requests_waiting") == 3)
        begin = time.monotonic()
        code = server.stop(signal.SIGINT)
        said = server.said()
        self.assertEqual(code, 130, said)
        self.assertLess(time.monotonic() - begin, 3)
        self.assertIn("minfer: abandoned 3 request(s)", said)

    def test_a_second_signal_ends_at_once(self):
        server = self.serve("--drain-ms", "60000", "-c", "2048")
        client = self.connect(server)
        completion(client, max_tokens=2000, stream=True, **ENDLESS)
        client.head()
        server.process.send_signal(signal.SIGTERM)
        self.wait_for(lambda: "minfer: stopping" in server.said())
        begin = time.monotonic()
        self.assertEqual(server.stop(), -signal.SIGTERM)
        self.assertLess(time.monotonic() - begin, 1)

    def test_a_signal_while_loading(self):
        server = self.serve(ok=False)
        self.assertIn(server.stop(), (0, 130))


if __name__ == "__main__":
    ServeTest.program = sys.argv.pop(1)
    unittest.main()
