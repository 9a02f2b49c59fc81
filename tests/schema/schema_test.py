#!/usr/bin/env python3
"""JSON Schema grammars against Python's jsonschema, on generated schemas.

Usage: schema_test.py SAMPLER [unittest options]. SAMPLER is schema_sampler, which builds a schema's grammar, draws texts
from it and says which documents it matches. Three things are asked: every text that is drawn is valid, formats included;
every document that is made here of the schema (compact, properties in their order) and that jsonschema finds valid is
matched; and a document with a character changed is matched only where it is valid. In all, the compiled automaton must agree with the
definition of the grammar, which decides. Schemas are drawn with a fixed seed;
SCHEMA_COUNT in the environment asks for more of them. Skipped where the package jsonschema is missing, but not in CI.
"""

import json
import os
import random
import subprocess
import sys
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

SAMPLER = ""
COUNT = int(os.environ.get("SCHEMA_COUNT", "300"))
PATTERNS = {
    "^[a-z]+$": ["a", "hello"],
    "^[A-Z]{2,4}-\\d+$": ["AB-1", "WXYZ-0042"],
    "foo|bar": ["foo", "a bar", "xfoox"],
    "^(yes|no)$": ["yes", "no"],
    "^.{1,8}$": ["\u00e9\u00e9", "12345678", "\"q\" \\"],
    "\\s": ["a b", "\n"],
    "^[^\"\\\\]*$": ["", "plain"],
    "^\\w+@\\w+\\.(com|org)$": ["me@site.org"],
    "[\"\\\\/]": ["\"", "a\\b", "/"],
    "^\\S+$": ["\U0001f600", "x\"y"],
    "\\d{3}$": ["123", "ab999"],
    "^(a|b(c|d)*)+$": ["abcdcda", "bb"],
}
FORMATS = {
    "date-time": ["2024-02-29T23:59:59Z", "1999-12-31T00:00:00.25+01:00"],
    "date": ["2000-02-29", "2023-11-30"],
    "time": ["12:30:00Z", "00:00:00.5-08:00"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "email": ["john.doe+tag@mail.example.com"],
    "ipv4": ["192.168.0.1", "0.0.0.0"],
    "uri": ["https://example.com/a/b?q=1#top", "mailto:me@example.com"],
}
NAMES = ["name", "id", "n", "na", "names", "is ok", "q\"uote", "\u00fcber", "x_1", "tags"]
TEXTS = ["", "a", "some text", "\u00e9\u4e2d\U0001f600", "line\nbreak", "\"quoted\\", "\u0001", "null"]
SCALARS = [None, True, False, 0, 1, -7, 2.5, 1000000, "a", "b c", "\u00e9\"", ""]


class NoDocument(Exception):
    """The generator found no document of a schema."""


class SchemaMaker:
    """Draws schemas of the subset, with room for a document in most of them."""

    def __init__(self, rng):
        self.rng = rng
        self.defs = {}

    def root(self):
        if self.rng.random() < 0.3:
            for i in range(self.rng.randint(1, 2)):
                self.defs[f"d{i}"] = True
            for name in self.defs:
                self.defs[name] = self.recursive(name) if self.rng.random() < 0.5 else self.schema(2)
        schema = self.schema(3)
        if schema is True:
            schema = {}
        if self.defs:
            schema["$defs"] = self.defs
        return schema

    def recursive(self, name):
        ref = {"$ref": f"#/$defs/{name}"}
        inner = self.rng.choice([{"anyOf": [ref, {"type": "null"}]}, {"type": "array", "items": ref}])
        return {"type": "object", "properties": {"value": self.schema(1), "next": inner}, "required": ["next"],
                "additionalProperties": False}

    def schema(self, depth):
        rng = self.rng
        kinds = ["integer", "number", "string", "string", "enum", "const", "types", "plain"]
        if depth > 0:
            kinds += ["array", "array", "object", "object", "object", "anyOf", "oneOf", "allOf", "true", "untyped"]
        if depth > 0 and self.defs:
            kinds += ["ref", "ref"]
        schema = getattr(self, "make_" + rng.choice(kinds).replace("true", "anything"))(depth)
        if isinstance(schema, dict) and rng.random() < 0.1:
            schema["description"] = "A description."
        return schema

    def make_anything(self, _depth):
        return True

    def make_plain(self, _depth):
        return {"type": self.rng.choice(["null", "boolean", "integer", "number", "string"])}

    def make_types(self, _depth):
        return {"type": self.rng.sample(["null", "boolean", "integer", "number", "string"], self.rng.randint(1, 3))}

    def make_untyped(self, depth):
        schema = {**self.limits_of_integer(), **self.limits_of_string()}
        if self.rng.random() < 0.5:
            schema["items"] = self.schema(depth - 1)
        return schema

    def limits_of_integer(self):
        rng = self.rng
        schema = {}
        base = rng.choice([0, 0, rng.randint(-50, 50), rng.randint(-2**62, 2**62)])
        if rng.random() < 0.5:
            schema[rng.choice(["minimum", "exclusiveMinimum"])] = base
        if rng.random() < 0.5:
            schema[rng.choice(["maximum", "exclusiveMaximum"])] = base + rng.choice([1, 5, 100, 12345, 2**40])
        if rng.random() < 0.25:
            schema["multipleOf"] = rng.choice([1, 2, 3, 5, 10, 25, 100])
        return schema

    def make_integer(self, _depth):
        schema = {"type": "integer", **self.limits_of_integer()}
        if self.rng.random() < 0.1:
            schema["nullable"] = True
        return schema

    def make_number(self, _depth):
        rng = self.rng
        schema = {"type": "number"}
        base = rng.choice([0, 0.5, -1.25, 0.1, 1e-3, rng.randint(-1000, 1000), round(rng.uniform(-100, 100), 3)])
        if rng.random() < 0.6:
            schema[rng.choice(["minimum", "exclusiveMinimum"])] = base
        if rng.random() < 0.6:
            schema[rng.choice(["maximum", "exclusiveMaximum"])] = base + rng.choice([0.25, 1, 3.75, 1000])
        return schema

    def limits_of_string(self):
        rng = self.rng
        schema = {}
        kind = rng.random()
        if kind < 0.3:
            schema["pattern"] = rng.choice(list(PATTERNS))
        elif kind < 0.5:
            schema["format"] = rng.choice(list(FORMATS))
        if rng.random() < 0.3 and kind < 0.3 or kind > 0.6:
            if rng.random() < 0.6:
                schema["minLength"] = rng.choice([0, 1, 2, 3])
            if rng.random() < 0.6:
                schema["maxLength"] = rng.choice([3, 5, 8, 40])
        return schema

    def make_string(self, _depth):
        return {"type": "string", **self.limits_of_string()}

    def make_enum(self, _depth):
        return {"enum": self.rng.sample(SCALARS, self.rng.randint(1, 5)) + self.rng.choice([[], [["x", 1]], [{"a": None}]])}

    def make_const(self, _depth):
        return {"const": self.rng.choice(SCALARS + [[], {}, [1, [2]], {"k": "v", "b": [True]}])}

    def make_array(self, depth):
        rng = self.rng
        schema = {"type": "array"}
        if rng.random() < 0.3:
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.8:
            schema["items"] = False if "prefixItems" in schema and rng.random() < 0.4 else self.schema(depth - 1)
        if rng.random() < 0.3:
            schema["minItems"] = rng.randint(0, 3)
        if rng.random() < 0.3:
            schema["maxItems"] = rng.randint(schema.get("minItems", 0), 5)
        return schema

    def make_object(self, depth):
        rng = self.rng
        schema = {"type": "object"}
        names = rng.sample(NAMES, rng.randint(0, 5))
        if names:
            schema["properties"] = {name: self.schema(depth - 1) for name in names}
        if rng.random() < 0.6 and names:
            schema["required"] = rng.sample(names, rng.randint(1, len(names)))
        extra = rng.random()
        if extra < 0.5:
            schema["additionalProperties"] = False
        elif extra < 0.7:
            schema["additionalProperties"] = self.schema(depth - 1)
        if rng.random() < 0.15:
            schema["patternProperties"] = {pattern: self.schema(depth - 1)
                                           for pattern in rng.sample(["^x_", "s$", "^n", "[0-9]"], rng.randint(1, 2))}
        if rng.random() < 0.15:
            schema["minProperties"] = rng.randint(0, len(schema.get("required", [])) + 1)
        if rng.random() < 0.15:
            schema["maxProperties"] = rng.randint(max(1, len(schema.get("required", []))), 5)
        return schema

    def make_anyOf(self, depth):
        return {"anyOf": [self.schema(depth - 1) for _ in range(self.rng.randint(1, 3))]}

    def make_oneOf(self, depth):
        rng = self.rng
        if rng.random() < 0.5:
            kinds = rng.sample(["integer", "string", "array", "null", "boolean"], 3)
            return {"oneOf": [{"type": kind} for kind in kinds]}
        tags = rng.sample(["a", "b", "c", "d"], 3)
        return {"oneOf": [{"type": "object", "properties": {"tag": {"const": tag}, "value": self.schema(depth - 1)},
                           "required": ["tag"], "additionalProperties": rng.random() < 0.3} for tag in tags]}

    def make_allOf(self, depth):
        rng = self.rng
        names = rng.sample(NAMES, 4)
        first = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names[:2]}, "required": names[:1]}
        second = {"properties": {name: self.schema(depth - 1) for name in names[2:]}}
        return {"allOf": [first, second]}

    def make_ref(self, _depth):
        return {"$ref": "#/$defs/" + self.rng.choice(list(self.defs))}


class DocumentMaker:
    """Draws documents that should be valid; jsonschema decides whether they are."""

    def __init__(self, rng, root):
        self.rng = rng
        self.root = root

    def draw(self, schema, depth=0):
        if depth > 8 or schema is False:
            raise NoDocument
        if schema is True or not set(schema) - {"description", "$defs"}:
            return self.rng.choice([*SCALARS, [1, "a"], {"k": None}])
        if "$ref" in schema:
            return self.draw(self.root["$defs"][schema["$ref"].split("/")[-1]], depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self.draw(self.rng.choice(schema[keyword]), depth + 1)
        if "allOf" in schema:
            both = {"type": "object", "properties": {}, "required": []}
            for part in schema["allOf"]:
                both["properties"].update(part.get("properties", {}))
                both["required"] += part.get("required", [])
            return self.draw(both, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        kinds = schema.get("type", ["null", "boolean", "integer", "string", "array"])
        kind = self.rng.choice(kinds) if isinstance(kinds, list) else kinds
        if schema.get("nullable") and self.rng.random() < 0.3:
            return None
        return getattr(self, "draw_" + kind)(schema, depth)

    def draw_null(self, _schema, _depth):
        return None

    def draw_boolean(self, _schema, _depth):
        return self.rng.random() < 0.5

    def draw_integer(self, schema, _depth):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -1000))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 2000))
        step = schema.get("multipleOf", 1)
        if high < low:
            low = high - 2000
        number = self.rng.choice([low, high, self.rng.randint(low, high)])
        return number // step * step + self.rng.choice([0, step])

    def draw_number(self, schema, _depth):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -1000))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 2000))
        number = self.rng.choice([low, high, self.rng.uniform(min(low, high), max(low, high))])
        return round(number, self.rng.randint(0, 4))

    def draw_string(self, schema, _depth):
        if "pattern" in schema:
            return self.rng.choice(PATTERNS[schema["pattern"]])
        if "format" in schema:
            return self.rng.choice(FORMATS[schema["format"]])
        text = self.rng.choice(TEXTS)
        return (text + "\u00e9bc" * 2)[:max(len(text), schema.get("minLength", 0))][:schema.get("maxLength", 100)]

    def draw_array(self, schema, depth):
        prefix = schema.get("prefixItems", [])
        count = self.rng.randint(schema.get("minItems", 0), schema.get("maxItems", schema.get("minItems", 0) + 3))
        items = []
        for i in range(count):
            place = prefix[i] if i < len(prefix) else schema.get("items", True)
            items.append(self.draw(place, depth + 1))
        return items

    def draw_object(self, schema, depth):
        out = {}
        for name, place in schema.get("properties", {}).items():
            if name in schema.get("required", []) or self.rng.random() < 0.5:
                out[name] = self.draw(place, depth + 1)
        for name in self.rng.sample(["extra", "x_2", "na", "\u4e2d", "more", "t\"s"], self.rng.choice([0, 0, 1, 2])):
            place = schema.get("additionalProperties", True)
            if place is not False and name not in schema.get("properties", {}):
                out[name] = self.draw(place, depth + 1)
        return out


def without_nullable(schema):
    """The schema as jsonschema knows it: `nullable` is OpenAPI's."""
    if isinstance(schema, list):
        return [without_nullable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: without_nullable(value) for key, value in schema.items() if key != "nullable"}
    if schema.get("nullable") is True:
        out["type"] = [schema["type"], "null"]
    return out


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@unittest.skipIf(jsonschema is None and not os.environ.get("CI"), "the Python package jsonschema is not installed")
class GeneratedSchemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sampler = subprocess.Popen([SAMPLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.sampler.stdin.close()
        cls.sampler.stdout.close()
        cls.sampler.wait()

    def ask(self, schema, **fields):
        self.sampler.stdin.write(json.dumps({"schema": json.dumps(schema), **fields}) + "\n")
        self.sampler.stdin.flush()
        answer = json.loads(self.sampler.stdout.readline())
        self.assertNotIn("difference", answer, f"the compiled automaton and the definition differ: {dump(schema)}")
        return answer

    @staticmethod
    def validator(schema):
        kind = jsonschema.Draft202012Validator
        checker = getattr(kind, "FORMAT_CHECKER", None) or jsonschema.FormatChecker()
        return kind(without_nullable(schema), format_checker=checker)

    def assert_valid(self, validator, text, why):
        try:
            value = json.loads(text)
        except ValueError as error:
            self.fail(f"{why}: {text!r} is no JSON: {error}")
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is not None:
            self.fail(f"{why}: {text!r} is not valid: {error.message}")

    @staticmethod
    def documents(rng, schema, validator, count):
        maker = DocumentMaker(rng, schema)
        out = []
        for _ in range(count):
            try:
                value = maker.draw(schema)
            except NoDocument:
                continue
            try:
                if validator.is_valid(value):
                    out.append(dump(value))
            except RecursionError:  # a schema that refers to itself without content, which jsonschema follows
                continue
        return out

    def test_samples_are_valid_and_valid_documents_are_matched(self):
        refused = matched = drawn = 0
        for seed in range(COUNT):
            rng = random.Random(seed)
            schema = SchemaMaker(rng).root()
            validator = self.validator(schema)
            documents = self.documents(rng, schema, validator, 8)
            answer = self.ask(schema, samples=12, seed=seed, documents=documents, whitespace=rng.choice([0, 0, 2]))
            with self.subTest(seed=seed, schema=dump(schema)):
                if "error" in answer:
                    refused += 1
                    self.assertTrue(answer["code"] == "unsupported" or not documents or
                                    "refers to itself without any content" in answer["error"], answer["error"])
                    continue
                for text in answer["samples"]:
                    self.assert_valid(validator, text, "drawn")
                    drawn += 1
                for text, accepted in zip(documents, answer["accepted"]):
                    self.assertTrue(accepted, f"valid and not matched: {text}")
                    matched += 1
        print(f"{COUNT} schemas, {refused} refused, {drawn} texts drawn, {matched} documents matched", file=sys.stderr)
        self.assertLess(refused, COUNT / 8)
        self.assertGreater(matched, 3 * COUNT)

    def test_changed_documents_are_matched_only_where_valid(self):
        matched = 0
        for seed in range(COUNT // 3):
            rng = random.Random(10_000 + seed)
            schema = SchemaMaker(rng).root()
            validator = self.validator(schema)
            texts = []
            for document in self.documents(rng, schema, validator, 6):
                for _ in range(6):
                    at = rng.randrange(len(document))
                    replaced = rng.choice(["", rng.choice('0123456789-.eE"\\,:{}[] aZ\u00e9\n\t'), document[at] * 2])
                    texts.append(document[:at] + replaced + document[at + 1:])
            answer = self.ask(schema, documents=texts)
            with self.subTest(seed=seed, schema=dump(schema)):
                for text, accepted in zip(texts, answer.get("accepted", [])):
                    if accepted:
                        matched += 1
                        self.assert_valid(validator, text, "matched")
        self.assertGreater(matched, COUNT // 10)


if __name__ == "__main__":
    SAMPLER = sys.argv.pop(1)
    unittest.main()
