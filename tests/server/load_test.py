#!/usr/bin/env python3
"""Hundreds of streams at once against `minfer serve`, a quarter of them killed in the middle: the others get the text that they
would get alone, the killed ones free their places, resident memory comes back, and afterwards the server is idle.

Usage: load_test.py PROGRAM [--model NAME] [--streams N] [--killed N] [--rounds N] [--tokens N]. The defaults take less than a
minute on two cores. Standard library only; prints a line a round, and exits with 1 where something is wrong.
"""

import argparse
import asyncio
import json
import re
import sys
import time
import unittest

from raw_http import Connection, cpu_seconds
from served import Served, require_model

PROMPTS = [f"{start} {thing}" for start in ("Once upon a time there was", "The history of", "My favourite", "How to repair")
           for thing in ("a small house", "the old bridge", "seven clocks", "bread", "a red bicycle")]
KILLED_TOKENS = 300  # more than a killed stream gets to
KILLED_AFTER = 3     # events
IDLE_S = 2           # after so long the server has given back what it had freed


class Failed(Exception):
    pass


def request(prompt: str, tokens: int) -> bytes:
    body = json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True,
                       "logit_bias": {"0": -100, "2": -100}}).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: "
            + str(len(body)).encode() + b"\r\nConnection: close\r\n\r\n" + body)


async def stream(host: str, port: int, prompt: str, tokens: int, killed: bool) -> str:
    """The text of one stream; of a killed one, what came until then."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request(prompt, tokens))
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise Failed(f"refused: {head.decode()}{(await reader.read()).decode()}")
        text, events = "", 0
        while True:
            line = await reader.readline()
            if not line:
                raise Failed("a stream ended without [DONE]")
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                return text
            event = json.loads(line[6:])
            if "error" in event:
                raise Failed(str(event))
            if event["choices"]:
                text += event["choices"][0]["text"]
            events += 1
            if killed and events == KILLED_AFTER:
                return text
    finally:
        writer.close()


async def run_round(host: str, port: int, options, alone: list[str]):
    killed = [i * options.killed // options.streams != (i + 1) * options.killed // options.streams for i in range(options.streams)]
    texts = await asyncio.gather(*(
        stream(host, port, PROMPTS[i % len(PROMPTS)], KILLED_TOKENS if killed[i] else options.tokens, killed[i])
        for i in range(options.streams)))
    for i, text in enumerate(texts):
        expected = alone[i % len(PROMPTS)]
        if text != expected and not (killed[i] and expected.startswith(text)):
            raise Failed(f"stream {i}: {text!r}, alone {expected!r}")


def gauge(server: Served, name: str) -> float:
    with Connection(server.address) as connection:
        return float(re.search(rf"^{name} (\S+)$", connection.request("GET", "/metrics").body.decode(), re.M).group(1))


def wait_until_empty(server: Served, within=5.0):
    end = time.monotonic() + within
    while gauge(server, "minfer_requests_running") + gauge(server, "minfer_requests_waiting") > 0:
        if time.monotonic() > end:
            raise Failed("requests of clients that are gone still run")
        time.sleep(0.05)


def run(options) -> None:
    arguments = ("--parallel", str(options.parallel), "-c", "512", "--max-queue", str(options.streams))
    with Served(options.program, require_model(options.model), *arguments) as server:
        server.wait_until_ok()
        host, port = re.fullmatch(r"http://(.*):(\d+)", server.address).groups()
        alone = [asyncio.run(stream(host, int(port), prompt, options.tokens, False)) for prompt in PROMPTS]
        # The first round fills what is kept: executables by shape, pages of the prefix cache, buffers.
        asyncio.run(run_round(host, int(port), options, alone))
        wait_until_empty(server)
        time.sleep(IDLE_S)
        before = server.resident_bytes()
        for number in range(options.rounds):
            begin = time.monotonic()
            asyncio.run(run_round(host, int(port), options, alone))
            wait_until_empty(server)
            print(f"round {number + 1}: {options.streams} streams, {options.killed} killed, {time.monotonic() - begin:.1f} s, "
                  f"{server.resident_bytes() / 1e6:.0f} MB resident", flush=True)
        time.sleep(IDLE_S)
        after = server.resident_bytes()
        print(f"idle: {after / 1e6:.0f} MB resident, {before / 1e6:.0f} MB after the first round", flush=True)
        if after > 1.05 * before:
            raise Failed(f"resident memory grew from {before} to {after} bytes")
        used = cpu_seconds(server.process.pid)
        time.sleep(1)
        used = cpu_seconds(server.process.pid) - used
        if used > 0.01:
            raise Failed(f"an idle server took {used} s of a second")
        if gauge(server, "minfer_http_connections") > 1:
            raise Failed("connections are left")
        if server.stop() != 0:
            raise Failed(server.said())


def main() -> int:
    parser = argparse.ArgumentParser(description="Many streams at once.")
    parser.add_argument("program")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--streams", type=int, default=400)
    parser.add_argument("--killed", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=8)
    try:
        run(parser.parse_args())
    except unittest.SkipTest as reason:
        print(f"skipped: {reason}")
    except Failed as reason:
        print(f"FAILED: {reason}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
