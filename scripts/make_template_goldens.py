#!/usr/bin/env python3
"""Makes the expected results of the chat template tests with Python's jinja2, set up as transformers does it.

Writes into tests/golden/chat:
  snippets.json       small templates, one feature each, with their variables and rendered text (or that they raise)
  conversations.json  the conversations that every published template is rendered with
  templates.json      for each template and conversation: FNV-1a (64 bits) of the UTF-8 of the text, or "raises", with the
                      line and the same hash of the message where the template itself refuses
Published templates and their text never go into the repository: --expected DIR writes the texts elsewhere, to look at
differences. Templates: --fixtures DIR (templates/*.jinja) and --models DIR (*.gguf).
Needs jinja2 3.1. template_snippets.py has the snippets.
"""
import argparse
import datetime
import functools
import json
import mmap
import pathlib
import struct
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from template_snippets import SNIPPETS, VARIABLES  # noqa: E402

NOW = datetime.datetime(2026, 1, 5, 7, 8, 9)
MODELS = ("smollm2-135m", "qwen2.5-coder-0.5b", "gemma3-270m")


class Generation(jinja2.ext.Extension):
    """The tag that marks what the assistant wrote; here it only renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class SafeNamespace(jinja2.utils.Namespace):
    """Rejects names with an underscore in front, as transformers does."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            SafeNamespace._check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        SafeNamespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"underscore attribute {name!r}")


def make_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    environment.globals["namespace"] = SafeNamespace
    return environment


@functools.lru_cache(maxsize=64)
def compiled(environment, source):
    return environment.from_string(source)


def render(environment, source, variables):
    """(text, None) or (None, exception)."""
    try:
        text = compiled(environment, source).render(**json.loads(json.dumps(variables)))
        text.encode("utf-8")
        return text, None
    except Exception as error:  # noqa: BLE001: whatever Python raises, the template fails
        return None, error


def line_of(error):
    """The template's line that an exception names, or None."""
    if isinstance(error, jinja2.exceptions.TemplateSyntaxError):
        return error.lineno
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8"):
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def weather_tool(name="get_weather"):
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": "Weather at a place — now, \"as is\" <b>&amp;</b>",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "City, e.g. Zürich"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": "array", "items": {"type": "integer"}, "nullable": True},
                    "where": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
                },
                "required": ["place"],
            },
            "return": {"type": "object", "properties": {"t": {"type": "number"}}},
        },
    }


def tool_call(identifier, arguments, name="get_weather"):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def base_conversations():
    user = {"role": "user", "content": "Hi there!"}
    system = {"role": "system", "content": "  You are terse.\n"}
    assistant = {"role": "assistant", "content": "Hello.\n"}
    more = {"role": "user", "content": "What is 2 + 2?"}
    call = {"role": "assistant", "content": "", "tool_calls": [tool_call("abcdefgh1", {"place": "Zürich", "days": [1, 2]})]}
    result = {"role": "tool", "tool_call_id": "abcdefgh1", "name": "get_weather", "content": "{\"t\": 21.5}"}
    two_calls = dict(call, tool_calls=[tool_call("abcdefgh1", {"place": "Bern"}), tool_call("abcdefgh2", {"place": "Rome", "unit": None, "deep": {"a": [True, 1.5]}})])
    result2 = dict(result, tool_call_id="abcdefgh2", content="rain & <wind>")
    thinking = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nFour.", }
    reasoning = {"role": "assistant", "reasoning_content": "Two and two.\n", "content": "Four."}
    odd = "  e\u0301🙂\u2028 ‮abc ﬁ ß \u00a0\u3000\ttab <|im_start|> {{ x }} {% if %} \\n 'q' \"d\" \x7f İstanbul ΟΔΟΣ "
    parts = [{"type": "text", "text": "Look: "}, {"type": "text", "text": "here"}]
    image = [{"type": "image"}, {"type": "text", "text": "What is it?"}]
    return {
        "user": {"messages": [user]},
        "system_user": {"messages": [system, user]},
        "turns": {"messages": [user, assistant, more]},
        "system_turns": {"messages": [system, user, assistant, more]},
        "long": {"messages": [system] + [user, assistant] * 6 + [more]},
        "ends_with_assistant": {"messages": [user, assistant]},
        "system_only": {"messages": [system]},
        "starts_with_assistant": {"messages": [assistant, user]},
        "two_users": {"messages": [user, more]},
        "two_systems": {"messages": [system, system, user]},
        "late_system": {"messages": [user, assistant, system, more]},
        "no_messages": {"messages": []},
        "empty_content": {"messages": [dict(system, content=""), dict(user, content=""), dict(assistant, content="")]},
        "null_content": {"messages": [user, dict(assistant, content=None), more]},
        "missing_content": {"messages": [user, {"role": "assistant"}, more]},
        "null_user": {"messages": [{"role": "user", "content": None}]},
        "unknown_role": {"messages": [user, {"role": "critic", "content": "no"}]},
        "developer": {"messages": [{"role": "developer", "content": "Be kind."}, user]},
        "unicode": {"messages": [dict(system, content=odd), dict(user, content=odd), dict(assistant, content=odd), more]},
        "whitespace": {"messages": [dict(system, content=" \n\t "), dict(user, content="\n\n x \r\n y \n\n"), assistant, more]},
        "parts": {"messages": [dict(system, content=parts), dict(user, content=parts), dict(assistant, content=parts), more]},
        "image": {"messages": [dict(user, content=image)]},
        "image_middle": {"messages": [user, assistant, dict(user, content=parts + image)]},
        "tools": {"messages": [system, user], "tools": [weather_tool()]},
        "tools_no_system": {"messages": [user], "tools": [weather_tool(), weather_tool("forecast")]},
        "tools_empty": {"messages": [user], "tools": []},
        "tools_bare": {"messages": [user], "tools": [weather_tool()["function"]]},
        "tool_call": {"messages": [system, user, call, result], "tools": [weather_tool()]},
        "tool_call_no_tools": {"messages": [user, call, result, assistant, more]},
        "tool_calls_two": {"messages": [user, two_calls, result, result2, assistant, more], "tools": [weather_tool(), weather_tool("forecast")]},
        "tool_call_content": {"messages": [user, dict(call, content="Let me look."), result, assistant, more], "tools": [weather_tool()]},
        "tool_call_null": {"messages": [user, dict(call, content=None), result], "tools": [weather_tool()]},
        "tool_call_missing": {"messages": [user, {k: v for k, v in call.items() if k != "content"}, result], "tools": [weather_tool()]},
        "tool_call_text_arguments": {"messages": [user, dict(call, tool_calls=[tool_call("abcdefgh1", "{\"place\": \"Bern\"}")]), result], "tools": [weather_tool()]},
        "tool_call_unwrapped": {"messages": [user, dict(call, tool_calls=[{"name": "get_weather", "arguments": {"place": "Bern"}, "id": "abcdefgh1"}]), result], "tools": [weather_tool()]},
        "tool_call_empty": {"messages": [user, dict(assistant, tool_calls=[]), more]},
        "tool_call_reasoning": {"messages": [user, dict(call, reasoning_content="Need the weather."), result, reasoning, more], "tools": [weather_tool()]},
        "tool_call_pending": {"messages": [system, user, call], "tools": [weather_tool()]},
        "tool_result_parts": {"messages": [user, call, dict(result, content=parts)], "tools": [weather_tool()]},
        "tool_result_dict": {"messages": [user, call, dict(result, content={"t": 21.5})], "tools": [weather_tool()]},
        "tool_result_first": {"messages": [result, user]},
        "ipython": {"messages": [user, call, {"role": "ipython", "content": "ok"}], "tools": [weather_tool()]},
        "thinking_text": {"messages": [user, thinking, more]},
        "thinking_last": {"messages": [user, thinking]},
        "reasoning": {"messages": [user, reasoning, more, reasoning]},
        "reasoning_null": {"messages": [user, dict(assistant, reasoning_content=None, thinking=None), more]},
        "reasoning_thinking": {"messages": [user, dict(assistant, thinking="So."), more]},
        "enable_thinking": {"messages": [system, user, reasoning, more], "enable_thinking": True},
        "disable_thinking": {"messages": [user, thinking, more], "enable_thinking": False},
        "disable_thinking_tools": {"messages": [user, call, result], "tools": [weather_tool()], "enable_thinking": False},
        "thinking_switches": {"messages": [user], "thinking": True, "reasoning_effort": "high", "thinking_budget": 100, "add_thoughts": True},
        "documents": {"messages": [user], "documents": [{"title": "A", "text": "alpha", "doc_id": 1}, {"title": "B", "text": "beta"}]},
        "date_string": {"messages": [system, user], "date_string": "01 Feb 2025"},
        "null_options": {"messages": [user], "tools": None, "documents": None},
    }


def conversations():
    result = []
    for name, variables in base_conversations().items():
        for prompt in (True, False):
            full = {"bos_token": "<s>", "eos_token": "</s>", **variables, "add_generation_prompt": prompt}
            result.append({"name": f"{name}/{'prompt' if prompt else 'plain'}", "variables": full})
    bare = {"messages": [{"role": "user", "content": "Hi"}]}
    result.append({"name": "bare", "variables": bare})
    return result


def gguf_template(path):
    """The string value of the key tokenizer.chat_template: u64 length, key, u32 type 8, u64 length, text."""
    key = b"tokenizer.chat_template"
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = data.find(struct.pack("<Q", len(key)) + key + struct.pack("<I", 8))
        if found < 0:
            return None
        begin = found + 8 + len(key) + 4 + 8
        (size,) = struct.unpack("<Q", data[begin - 8:begin])
        return data[begin:begin + size].decode("utf-8")


def published_templates(arguments):
    templates = {}
    if arguments.fixtures:
        for path in sorted((arguments.fixtures / "templates").glob("*.jinja")):
            templates[path.name] = path.read_bytes().decode("utf-8")
    if arguments.models:
        for name in MODELS:
            path = arguments.models / f"{name}.gguf"
            if path.exists() and (source := gguf_template(path)) is not None:
                templates[path.name] = source
    return templates


def make_snippets(environment):
    snippets = []
    for source, extra in SNIPPETS:
        text, error = render(environment, source, {**VARIABLES, **extra})
        if text is not None and " at 0x" in text:
            raise SystemExit(f"{source}: prints an address")
        entry = {"template": source}
        if extra:
            entry["variables"] = extra
        if error is None:
            entry["text"] = text
        else:
            entry["raises"] = type(error).__name__
            if isinstance(error, jinja2.exceptions.UndefinedError) or type(error) is jinja2.exceptions.TemplateError:
                if "SafeNamespace" in str(error):  # named differently in transformers
                    continue
                entry["message"] = str(error)
            if (line := line_of(error)) is not None:
                entry["line"] = line
        snippets.append(entry)
    return {"variables": VARIABLES, "snippets": snippets}


def raised(error):
    by_template = type(error) is jinja2.exceptions.TemplateError
    return f"raises {line_of(error)} {fnv1a(str(error))}" if by_template else "raises"


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "tests/golden/chat")
    parser.add_argument("--fixtures", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--expected", type=pathlib.Path, help="write the rendered texts here")
    arguments = parser.parse_args()
    environment = make_environment()
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out / "snippets.json", make_snippets(environment))
    matrix = conversations()
    write_json(arguments.out / "conversations.json", matrix)
    hashes = {}
    for name, source in published_templates(arguments).items():
        hashes[name] = {}
        for conversation in matrix:
            text, error = render(environment, source, conversation["variables"])
            hashes[name][conversation["name"]] = raised(error) if error else fnv1a(text)
            if arguments.expected:
                target = arguments.expected / name / (conversation["name"].replace("/", "-") + ".txt")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((f"{type(error).__name__}: {error}" if error else text).encode("utf-8", "replace"))
    if hashes:
        write_json(arguments.out / "templates.json", hashes)


if __name__ == "__main__":
    main()
