"""The endpoints as OpenAI's own Python client sees them, unmodified, and as curl does: on real models. Usage: openai_test.py
PROGRAM. Without the package openai (scripts/client-env makes a Python with it) all is skipped; with MINFER_REQUIRE_MODELS=1 that
is a failure.
"""

import base64
import json
import math
import os
import struct
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from served import Served, require_model

try:
    import openai
    import openai._models  # noqa: F401  (the package, not a folder of that name)
except ImportError:
    openai = None

TIMEOUT_S = 120
ADD = {"type": "function", "function": {
    "name": "add", "description": "Adds two numbers",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                   "required": ["a", "b"], "additionalProperties": False}}}
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0,
                                                                                                 "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}


class EndpointTest(unittest.TestCase):
    """Tests on one model, which is loaded once."""

    program = ""  # set by the main program
    model = ""
    options = ("--ctx", "2048", "--parallel", "4")

    @classmethod
    def setUpClass(cls):
        if openai is None:
            text = "the package openai is not there; scripts/client-env makes a Python that has it"
            if os.environ.get("MINFER_REQUIRE_MODELS") == "1":
                raise AssertionError(text)
            raise unittest.SkipTest(text)
        cls.server = Served(cls.program, require_model(cls.model), *cls.options)
        cls.addClassCleanup(cls.server.kill)
        cls.server.wait_until_ok()
        cls.client = openai.OpenAI(base_url=cls.server.address + "/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S)
        cls.addClassCleanup(cls.client.close)

    def post(self, path: str, body) -> tuple[int, dict]:
        """The status and the JSON of an answer, whatever the status."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.server.address + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def chat(self, text="Say hello.", **more):
        return self.client.chat.completions.create(
            **{"model": self.model, "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24, **more})


class Chat(EndpointTest):
    model = "smollm2-135m"

    def test_whole_and_stream_say_the_same(self):
        whole = self.chat()
        self.assertEqual(whole.object, "chat.completion")
        self.assertEqual(whole.model, self.model)
        self.assertEqual(whole.choices[0].message.role, "assistant")
        self.assertGreater(len(whole.choices[0].message.content), 0)
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens)
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole.choices[0].message.content)
        reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
        self.assertEqual([r for r in reasons if r], [whole.choices[0].finish_reason])
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual({c.id for c in chunks}, {chunks[0].id})

    def test_limits_and_stops(self):
        cut = self.chat(max_completion_tokens=3, max_tokens=None)
        self.assertEqual((cut.choices[0].finish_reason, cut.usage.completion_tokens), ("length", 3))
        text = self.chat().choices[0].message.content
        stop = text[len(text) // 2:][:3]
        stopped = self.chat(stop=[stop]).choices[0]
        self.assertEqual(stopped.finish_reason, "stop")
        self.assertEqual(stopped.message.content, text[:text.index(stop)])

    def test_prefixes_are_cached(self):
        text = "Tell me about the sea. " * 30
        self.chat(text, max_tokens=1)
        again = self.chat(text, max_tokens=1).usage
        self.assertGreaterEqual(again.prompt_tokens_details.cached_tokens, 64)
        self.assertLess(again.prompt_tokens_details.cached_tokens, again.prompt_tokens)

    def test_choices_and_seeds(self):
        several = self.chat(n=3, temperature=1, seed=5)
        self.assertEqual([c.index for c in several.choices], [0, 1, 2])
        second = self.chat(temperature=1, seed=6).choices[0].message.content
        self.assertEqual(several.choices[1].message.content, second)
        self.assertEqual(several.usage.prompt_tokens, self.chat().usage.prompt_tokens)

    def test_logprobs(self):
        answer = self.chat(logprobs=True, top_logprobs=3, max_tokens=8)
        content = answer.choices[0].logprobs.content
        self.assertEqual("".join(t.token for t in content), answer.choices[0].message.content)
        for token in content:
            self.assertEqual(bytes(token.bytes).decode(), token.token)
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertAlmostEqual(token.logprob, token.top_logprobs[0].logprob, places=5)  # temperature 0
            self.assertLess(sum(math.exp(t.logprob) for t in token.top_logprobs), 1.0001)
        streamed = [t.token for c in self.chat(logprobs=True, max_tokens=8, stream=True)
                    for t in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])]
        self.assertEqual(streamed, [t.token for t in content])

    def test_logit_bias(self):
        first = self.chat(max_tokens=1, logprobs=True).choices[0].logprobs.content[0].token
        _, ids = self.post("/tokenize", {"content": first})
        other = self.chat(max_tokens=1, logprobs=True, logit_bias={str(ids["tokens"][0]): -100})
        self.assertNotEqual(other.choices[0].logprobs.content[0].token, first)

    def test_completions(self):
        whole = self.client.completions.create(model=self.model, prompt="1, 2, 3, 4,", max_tokens=6, temperature=0, logprobs=2)
        self.assertIn("5", whole.choices[0].text)
        self.assertEqual(whole.choices[0].finish_reason, "length")
        logprobs = whole.choices[0].logprobs
        self.assertEqual("".join(logprobs.tokens), whole.choices[0].text)
        self.assertEqual(logprobs.text_offset[:2], [0, len(logprobs.tokens[0])])
        self.assertEqual([len(top) for top in logprobs.top_logprobs], [2] * 6)
        streamed = self.client.completions.create(model=self.model, prompt="1, 2, 3, 4,", max_tokens=6, temperature=0, stream=True)
        self.assertEqual("".join(c.choices[0].text for c in streamed), whole.choices[0].text)
        several = self.client.completions.create(model=self.model, prompt=["1, 2, 3,", "a b c"], max_tokens=3, temperature=0,
                                                 echo=True)
        self.assertEqual([c.text[:5] for c in several.choices], ["1, 2,", "a b c"])
        self.assertEqual(self.client.completions.create(model=self.model, prompt="x").usage.completion_tokens, 16)

    def test_errors_have_openais_shape(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=3)
        self.assertEqual(caught.exception.param, "temperature")
        self.assertEqual(caught.exception.type, "invalid_request_error")
        self.assertIn("temperature is the number 3; expected a number of 0 to 2", caught.exception.message)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat([{"type": "image_url", "image_url": {"url": "data:,"}}])
        self.assertEqual(caught.exception.param, "messages[0].content[0]")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat("word " * 3000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertRegex(caught.exception.message, r"the prompt has 3\d\d\d tokens, the context 2048")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")
        for body in (b"", b"{", b"[]", b"{\"messages\": 5}", b"[" * 100000, b"{\"a\": \"\xff\"}"):
            status, error = self.post("/v1/chat/completions", body)
            self.assertEqual(status, 400, body[:20])
            self.assertEqual(error["error"]["type"], "invalid_request_error")
            self.assertEqual(set(error["error"]), {"message", "type", "param", "code"})

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual([m.id for m in models], [self.model])
        self.assertEqual(self.client.models.retrieve(self.model).owned_by, "minfer")

    def test_tokens(self):
        _, ids = self.post("/tokenize", {"content": "Hello world"})
        self.assertEqual(self.post("/detokenize", ids), (200, {"content": "Hello world"}))
        _, pieces = self.post("/tokenize", {"content": "Hello world", "with_pieces": True})
        self.assertEqual("".join(t["piece"] for t in pieces["tokens"]), "Hello world")
        status, prompt = self.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]})
        self.assertEqual(status, 200)
        self.assertIn("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", prompt["prompt"])

    def test_embeddings(self):
        texts = ["The cat sat on the mat.", "A cat sits on a mat.", "Quarterly revenue rose by ten percent."]
        answer = self.client.embeddings.create(model=self.model, input=texts)  # the client asks for base64
        vectors = [item.embedding for item in answer.data]
        for vector in vectors:
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=4)
        near, far = (sum(x * y for x, y in zip(vectors[0], other)) for other in vectors[1:])
        self.assertGreater(near, far)
        self.assertGreater(answer.usage.prompt_tokens, 10)
        _, raw = self.post("/v1/embeddings", {"input": texts[0], "encoding_format": "base64"})
        decoded = struct.unpack(f"<{len(vectors[0])}f", base64.b64decode(raw["data"][0]["embedding"]))
        for x, y in zip(decoded, vectors[0]):
            self.assertAlmostEqual(x, y, places=5)
        _, ids = self.post("/tokenize", {"content": texts[0]})
        _, by_ids = self.post("/v1/embeddings", {"input": ids["tokens"]})
        for x, y in zip(by_ids["data"][0]["embedding"], vectors[0]):
            self.assertAlmostEqual(x, y, places=5)
        status, error = self.post("/v1/embeddings", {"input": "x", "dimensions": 3})
        self.assertEqual((status, error["error"]["param"]), (400, "dimensions"))
        _, many = self.post("/v1/embeddings", {"input": [f"text {i}" for i in range(20)]})
        self.assertEqual([item["index"] for item in many["data"]], list(range(20)))

    def test_curl_streams(self):
        body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 4})
        out = subprocess.run(["curl", "-sSN", self.server.address + "/v1/chat/completions", "-H", "Content-Type: application/json",
                              "-d", body], capture_output=True, timeout=TIMEOUT_S, check=True).stdout.decode()
        frames = [line.removeprefix("data: ") for line in out.split("\n") if line.startswith("data: ")]
        self.assertEqual(frames[-1], "[DONE]")
        self.assertEqual([json.loads(f)["object"] for f in frames[:-1]], ["chat.completion.chunk"] * (len(frames) - 1))

    def test_a_final_message_is_continued(self):
        answer = self.chat(messages=[{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2, 3, 4,"}],
                           max_tokens=4, extra_body={"continue_final_message": True})
        self.assertIn("5", answer.choices[0].message.content)


class Tools(EndpointTest):
    model = "qwen2.5-coder-0.5b"

    def test_a_named_tool_is_called(self):
        for choice in ("required", {"type": "function", "function": {"name": "add"}}):
            answer = self.chat("What is 20 + 22?", tools=[ADD], tool_choice=choice, max_tokens=100, parallel_tool_calls=False)
            call = answer.choices[0].message.tool_calls[0]
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            self.assertEqual(call.function.name, "add")
            arguments = json.loads(call.function.arguments)
            self.assertEqual({name: type(value) for name, value in arguments.items()}, {"a": int, "b": int})

    def test_calls_are_streamed(self):
        stream = self.chat("What is 20 + 22?", tools=[ADD], tool_choice="required", max_tokens=100, stream=True,
                           parallel_tool_calls=False)
        name, arguments, pieces, reason = "", "", 0, None
        for chunk in stream:
            for call in chunk.choices[0].delta.tool_calls or []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
                pieces += 1
            reason = chunk.choices[0].finish_reason or reason
        self.assertEqual((name, reason), ("add", "tool_calls"))
        self.assertEqual(set(json.loads(arguments)), {"a", "b"})
        self.assertGreater(pieces, 3, "the arguments come as they are written")

    def test_results_go_back(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 20, "b": 22}'}}
        answer = self.chat(messages=[{"role": "user", "content": "What is 20 + 22? Use the tool."},
                                     {"role": "assistant", "content": None, "tool_calls": [call]},
                                     {"role": "tool", "tool_call_id": "call_1", "content": "42"}], tools=[ADD], tool_choice="none",
                           max_tokens=40)
        self.assertIn("42", answer.choices[0].message.content)

    def test_response_formats(self):
        schema = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
        for more in ({}, {"stream": True}):
            answer = self.chat("Describe Ada Lovelace, aged 36, as JSON.", response_format=schema, max_tokens=100, **more)
            text = "".join(c.choices[0].delta.content or "" for c in answer) if more else answer.choices[0].message.content
            person = json.loads(text)
            self.assertEqual({name: type(value) for name, value in person.items()}, {"name": str, "age": int})
        answer = self.chat("Name a colour as JSON.", response_format={"type": "json_object"}, max_tokens=200)
        self.assertIsInstance(json.loads(answer.choices[0].message.content), dict)
        answer = self.chat("Yes or no?", extra_body={"grammar": 'root ::= "yes" | "no"'})
        self.assertIn(answer.choices[0].message.content, ("yes", "no"))
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}})
        self.assertEqual(caught.exception.param, "response_format.json_schema.schema")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(extra_body={"grammar": "root ::= nothing"})
        self.assertEqual(caught.exception.param, "grammar")

    def test_responses(self):
        whole = self.client.responses.create(model=self.model, input="Say hello.", temperature=0, max_output_tokens=24)
        self.assertEqual(whole.object, "response")
        self.assertGreater(len(whole.output_text), 0)
        events = list(self.client.responses.create(model=self.model, input="Say hello.", temperature=0, max_output_tokens=24,
                                                   stream=True))
        self.assertEqual([e.type for e in events[:4]], ["response.created", "response.in_progress", "response.output_item.added",
                                                        "response.content_part.added"])
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].response.output_text, whole.output_text)
        self.assertEqual(events[-1].response.usage.output_tokens, whole.usage.output_tokens)
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(model=self.model, input="x", previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")

    def test_responses_call_tools(self):
        tool = {"type": "function", "name": "add", "strict": True, **{k: ADD["function"][k] for k in ("description", "parameters")}}
        question = [{"role": "user", "content": "What is 20 + 22?"}]
        with self.client.responses.stream(model=self.model, input=question, tools=[tool], tool_choice="required", temperature=0,
                                          max_output_tokens=100, parallel_tool_calls=False) as stream:
            types = {event.type for event in stream}
            answer = stream.get_final_response()
        self.assertIn("response.function_call_arguments.delta", types)
        call = answer.output[-1]
        self.assertEqual((call.type, call.name), ("function_call", "add"))
        items = question + [call.model_dump(exclude_none=True),
                            {"type": "function_call_output", "call_id": call.call_id, "output": "42"}]
        for item in items:
            item.pop("parsed_arguments", None)
        last = self.client.responses.create(model=self.model, input=items, tools=[tool], tool_choice="none",
                                            temperature=0, max_output_tokens=40)
        self.assertIn("42", last.output_text)

    def test_the_client_parses_structured_output(self):
        text = {"format": {"type": "json_schema", "name": "person", "strict": True, "schema": PERSON}}
        answer = self.client.responses.create(model=self.model, input="Describe Ada Lovelace, aged 36, as JSON.", text=text,
                                              temperature=0, max_output_tokens=100)
        self.assertEqual(set(json.loads(answer.output_text)), {"name", "age"})


if __name__ == "__main__":
    EndpointTest.program = sys.argv.pop(1)
    unittest.main()
