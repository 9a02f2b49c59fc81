"""Draws small chat templates at random for template_differential_test.py: expressions with operators, slices, methods,
filters, tests, `format` and `%`, and statements with loops, macros, call blocks, namespaces and whitespace control.
Draws are by kind of value, so that most of them render; now and then a wrong kind is drawn, so that errors are compared
as well. What minfer does not have by decision is not drawn (integers beyond 64 bits; see docs of chat/template.hpp)."""

TEXTS = ["", "a", "Hello World", "  pad\\n", "it's", "<a href=\\\"x\\\">&", "a,b;c", "line\\nline two\\n\\n three", "h\u00e9llo \u00df",
         "\u039f\u0394\u039f\u03a3", "\U0001f642x\u200d\u2028y", "12", "-3.50", "0x1f", "true", "%s", "{}", "x=y=z", "\ufb01 \u0130 \u01c6", "\\t\\t",
         "<think>\\nhm</think>\\n\\nOK", "foo bar baz qux quux", "nan", "1e3", "\u00a0nb\u3000"]
NAMES = {
    "str": ["s", "u", "ws", "empty", "messages[0].role", "people[0].name", "words[1]"],
    "int": ["n", "neg", "xs[0]", "people[1]['age']", "d.b"],
    "float": ["f"],
    "bool": ["t", "people[0].admin"],
    "list": ["xs", "words", "people", "messages", "nested.x.y"],
    "dict": ["d", "nested", "people[1]", "messages[-1]"],
    "none": ["nothing", "d.C"],
    "any": ["missing", "d.nope", "missing.foo", "n.foo", "people[2].address.city", "x", "k", "v", "loop", "ns.a", "m", "caller"],
}
KINDS = ["str", "str", "str", "int", "int", "float", "bool", "list", "list", "dict", "none", "any"]
PADS = ["", "", " ", "\n", "  ", "\n  ", " \n", "text", "\t", "\n\n  x", "a\n", "\u00a0"]
SIGNS = ["", "", "", "-", "+"]


class TemplateMaker:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, items):
        return self.rng.choice(items)

    def chance(self, probability):
        return self.rng.random() < probability

    # Expressions

    def value(self, kind, depth=3):
        """An expression that is probably of the kind."""
        if self.chance(0.04):
            kind = self.pick(KINDS)
        if depth <= 0 or self.chance(0.25):
            return self.atom(kind)
        return getattr(self, f"{kind}_value")(depth - 1)

    def any(self, depth=2):
        return self.value(self.pick(KINDS), depth)

    def atom(self, kind):
        if kind in NAMES and self.chance(0.5):
            return self.pick(NAMES[kind])
        if kind == "str":
            return f'"{self.pick(TEXTS)}"' if self.chance(0.7) else "'" + self.pick(["x", "a", "b", "o", " ", "\\n", "l"]) + "'"
        if kind == "int":
            return str(self.pick([0, 1, 2, 3, 5, 7, 10, 42, 255, 1000000]))
        if kind == "float":
            return self.pick(["0.5", "1.0", "2.5", "3.14159", "1e16", "1e-7", "0.1", "123456.789"])
        if kind == "bool":
            return self.pick(["true", "false", "True"])
        if kind == "list":
            return "[" + ", ".join(self.atom(self.pick(KINDS[:6])) for _ in range(self.rng.randrange(4))) + "]"
        if kind == "dict":
            return "{" + ", ".join(f"'{key}': {self.atom(self.pick(KINDS[:6]))}" for key in self.rng.sample("abcxyz", self.rng.randrange(4))) + "}"
        return "none"

    def small(self):
        return self.pick(["0", "1", "2", "3", "4", "5", "8", "n"])

    def text(self, depth):
        return self.value("str", depth)

    def str_value(self, depth):
        return self.pick([self.str_method, self.str_method, self.str_filter, self.str_filter, self.str_operator, self.str_format])(depth)

    def str_method(self, depth):
        t = self.group(self.text(depth))
        a, b, c = (self.text(min(depth, 1)) for _ in range(3))
        return self.pick([
            lambda: f"{t}.{self.pick(['upper', 'lower', 'title', 'capitalize', 'swapcase', 'casefold', 'strip', 'lstrip', 'rstrip'])}()",
            lambda: f"{t}.{self.pick(['strip', 'lstrip', 'rstrip'])}({a})",
            lambda: f"{t}.replace({a}, {b})",
            lambda: f"{t}.replace({a}, {b}, {self.small()})",
            lambda: f"{a}.join({self.value('list', depth)}|map('string'))",
            lambda: f"{t}.{self.pick(['ljust', 'rjust', 'center'])}({self.pick(['3', '12', 'n'])}, {self.pick(['*', '.', ' '])!r})",
            lambda: f"{t}.zfill({self.small()})",
            lambda: f"{t}.{self.pick(['removeprefix', 'removesuffix'])}({a})",
            lambda: f"{t}.expandtabs({self.small()})",
            lambda: f"({t}.{self.pick(['partition', 'rpartition'])}({c}))[{self.pick(['0', '1', '2', '-1'])}]",
            lambda: f"{t}.split({a})[{self.pick(['0', '-1', '1'])}]",
        ])()

    def str_filter(self, depth):
        t = self.group(self.text(depth))
        a = self.text(min(depth, 1))
        return self.pick([
            lambda: f"{t}|{self.pick(['upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'escape', 'e', 'safe', 'forceescape', 'urlencode', 'string|reverse'])}",
            lambda: f"{t}|replace({a}, {self.text(0)}{self.pick(['', ', 1', ', count=2'])})",
            lambda: f"{t}|indent({self.pick(['', '2', 'width=3', '2, true', '2, first=true, blank=true', chr(39) + '> ' + chr(39)])})",
            lambda: f"{t}|truncate({self.pick(['5', '9, true', '12, false, ' + chr(39) + '..' + chr(39), '8, leeway=0', 'length=7, end=' + chr(39) * 2])})",
            lambda: f"{t}|center({self.pick(['10', 'width=21'])})",
            lambda: f"{t}|trim({a})",
            lambda: f"{self.group(self.any(depth))}|default({a}{self.pick(['', ', true', ', boolean=false'])})",
            lambda: f"{self.group(self.any(depth))}|tojson({self.pick(['', '', 'indent=2', 'indent=0', 'sort_keys=true', 'ensure_ascii=true', 'separators=(' + chr(39) + ',' + chr(39) + ', ' + chr(39) + ':' + chr(39) + ')'])})",
            lambda: f"{self.group(self.value('list', depth))}|join({self.pick(['', a, 'd=' + a])})",
            lambda: f"{self.group(self.value('list', depth))}|{self.pick(['first', 'last', 'min', 'max'])}",
            lambda: f"people|join('; ', attribute='name')",
            lambda: f"{self.group(self.value('dict', depth))}|{self.pick(['urlencode', 'string', 'dictsort|string', 'items|list|string'])}",
        ])()

    def str_operator(self, depth):
        t = self.text(depth)
        return self.pick([
            lambda: f"({t} ~ {self.any(depth)})",
            lambda: f"({t} + {self.text(depth)})",
            lambda: f"({t} * {self.pick(['0', '1', '2', '3', '-1'])})",
            lambda: f"{self.group(t)}[{self.slice()}]",
            lambda: f"{self.group(t)}[{self.pick(['0', '-1', '1', '3'])}]",
            lambda: f"({t} if {self.value('bool', depth)} else {self.text(depth)})",
            lambda: f"({t} if {self.value('bool', depth)})",
            lambda: f"({t} {self.pick(['or', 'and'])} {self.text(depth)})",
        ])()

    def str_format(self, depth):
        spec = self.pick(["", ":>8", ":<6", ":^7", ":*^9", ":.3", "!r", "!s", ":5.2", "!r:>12"])
        number = self.pick(["", ":d", ":5d", ":<5d", ":+d", ":x", ":#x", ":b", ":o", ":,", ":08.3f", ":.2f", ":e", ":g", ":.1%", ":_", ": d", ":^9.2f", ":n", ":c"])
        percent = self.pick(["%s", "%r", "%d", "%5d", "%-5d|", "%05d", "%+d", "%x", "%X", "%o", "%e", "%g", "%.2f", "%8.3f", "%i", "%c", "%5s|", "%-6s|", "%.2s", "%%%s", "%a"])
        return self.pick([
            lambda: f"'[{{{spec}}}]'.format({self.any(depth)})",
            lambda: f"'[{{{number}}}]'.format({self.value(self.pick(['int', 'float', 'bool']), depth)})",
            lambda: f"'{{1{spec}}}{{0}}{{k}}'.format({self.any(depth)}, {self.text(depth)}, k={self.any(depth)})",
            lambda: f"'{{0[{self.pick(['a', 'b', '0', '1'])}]}}'.format({self.pick(['d', 'xs', 'words'])})",
            lambda: f"('{percent}' % {self.group(self.any(depth))})",
            lambda: f"('{percent} {percent}' % ({self.any(depth)}, {self.value('int', depth)}))",
            lambda: f"('{percent}'|format({self.any(depth)}))",
            lambda: f"('%(a)s-%(b)s'|format(a={self.any(depth)}, b={self.text(depth)}))",
        ])()

    def int_value(self, depth):
        i = self.value("int", depth)
        return self.pick([
            lambda: f"({i} {self.pick(['+', '-', '*', '//', '%'])} {self.value('int', depth)})",
            lambda: f"({i} ** {self.pick(['0', '1', '2'])})",
            lambda: f"-{self.group(i)}",
            lambda: f"{self.group(self.pick([self.text, lambda w: self.value('list', w), lambda w: self.value('dict', w)])(depth))}|{self.pick(['length', 'count'])}",
            lambda: f"{self.group(self.text(depth))}|{self.pick(['wordcount', 'int', 'int(7)', 'int(default=-1, base=16)', 'int(0, 2)'])}",
            lambda: f"{self.group(self.text(depth))}.{self.pick(['find', 'rfind', 'count', 'index', 'rindex'])}({self.text(0)}{self.pick(['', ', 1', ', 1, 4'])})",
            lambda: f"{self.group(self.value('list', depth))}.{self.pick(['index', 'count'])}({self.any(0)})",
            lambda: f"{self.group(self.value('float', depth))}|int",
            lambda: f"{self.group(i)}|abs",
            lambda: f"xs|{self.pick(['sum', 'min', 'max', 'first', 'last'])}",
            lambda: f"people|sum(attribute='age', start={self.small()})",
        ])()

    def float_value(self, depth):
        x = self.value("float", depth)
        return self.pick([
            lambda: f"({x} {self.pick(['+', '-', '*', '/', '//', '%'])} {self.value(self.pick(['int', 'float']), depth)})",
            lambda: f"({self.value('int', depth)} / {self.value('int', depth)})",
            lambda: f"{self.group(x)}|round({self.pick(['', '1', '2', '0, ' + chr(39) + 'floor' + chr(39), 'method=' + chr(39) + 'ceil' + chr(39), '-1'])})",
            lambda: f"{self.group(self.any(depth))}|float{self.pick(['', '(1.5)', '(default=none)'])}",
            lambda: f"{self.group(x)}|abs",
        ])()

    def bool_value(self, depth):
        a, b = self.any(depth), self.any(depth)
        tests = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "callable",
                 "true", "false", "odd", "even", "lower", "upper", "divisibleby 3", "divisibleby(2)", "eq 1", "ne 'a'", "gt 2", "lt(5)", "ge 1", "le 1",
                 "in xs", "in 'abc'", "in d", "sameas none", "sameas true", "equalto 3", "escaped", "filter", "test", "==2", "greaterthan 1", "lessthan 9"]
        return self.pick([
            lambda: f"{self.group(a)} is {self.pick(['', 'not '])}{self.pick(tests)}",
            lambda: f"{self.group(a)} is {self.pick(['', 'not '])}{self.pick(tests)}",
            lambda: f"({a} {self.pick(['==', '!=', '<', '<=', '>', '>='])} {b})",
            lambda: f"({self.value('int', depth)} {self.pick(['<', '<=', '>', '=='])} {self.value('int', depth)} {self.pick(['<', '==', '!='])} {self.value('int', depth)})",
            lambda: f"({self.text(depth)} {self.pick(['<', '>', '==', 'in', 'not in'])} {self.text(depth)})",
            lambda: f"({a} {self.pick(['in', 'not in'])} {self.value(self.pick(['list', 'dict', 'str']), depth)})",
            lambda: f"(not {a})",
            lambda: f"({self.value('bool', depth)} {self.pick(['and', 'or'])} {self.value('bool', depth)})",
            lambda: f"{self.group(self.text(depth))}.{self.pick(['startswith', 'endswith'])}({self.text(0)}{self.pick(['', ', 1', ', 0, 3'])})",
            lambda: f"{self.group(self.text(depth))}.{self.pick(['startswith', 'endswith'])}(({self.text(0)}, {self.text(0)}))",
            lambda: f"{self.group(self.text(depth))}.{self.pick(['isupper', 'islower', 'isdigit', 'isalpha', 'isalnum', 'isspace', 'istitle', 'isnumeric', 'isdecimal', 'isascii', 'isidentifier', 'isprintable'])}()",
        ])()

    def list_value(self, depth):
        l = self.group(self.value("list", depth))
        t = self.group(self.text(depth))
        attribute = self.pick(["age", "name", "address.city", "admin", "0", "nope"])
        test = self.pick(["", "'defined'", "'none'", "'string'", "'odd'", "'equalto', 3", "'eq', 'a'", "'in', [1, 'A', 30]", "'gt', 1", "'undefined'", "'number'", "'lower'"])
        attr_test = "" if test == "" else ", " + test
        unary = self.pick(["upper", "string", "length", "int", "trim", "tojson", "list", "first", "abs", "escape", "title", "lower", "float", "nofilter"])
        return self.pick([
            lambda: f"[{self.any(depth)}, {self.any(depth)}]",
            lambda: f"({self.any(depth)}, {self.any(depth)})",
            lambda: f"({l} + {self.value('list', depth)})",
            lambda: f"({l} * {self.pick(['0', '2', '-1'])})",
            lambda: f"{l}[{self.slice()}]",
            lambda: f"{t}.{self.pick(['split', 'rsplit'])}({self.pick(['', self.text(0), self.text(0) + ', 1', 'none, 1', 'maxsplit=1'])})",
            lambda: f"{t}.splitlines({self.pick(['', 'true'])})",
            lambda: f"{l}|{self.pick(['list', 'reverse|list', 'sort', 'unique|list', 'sort(reverse=true)', 'sort(case_sensitive=true)', 'batch(2)|list', 'slice(2)|list', 'batch(3, 0)|list', 'slice(3, none)|list'])}",
            lambda: f"{l}|map('{unary}')|list",
            lambda: f"{l}|{self.pick(['select', 'reject'])}({test})|list",
            lambda: f"{self.pick(['people', 'messages', l])}|map(attribute='{attribute}'{self.pick(['', ', default=0'])})|list",
            lambda: f"{self.pick(['people', 'messages', l])}|{self.pick(['selectattr', 'rejectattr'])}('{attribute}'{attr_test})|list",
            lambda: f"{self.pick(['people', l])}|groupby('{attribute}'{self.pick(['', ', default=' + chr(39) * 2, ', case_sensitive=true'])})|map('list')|list",
            lambda: f"people|{self.pick(['sort', 'unique', 'min', 'max'])}(attribute='{self.pick(['age', 'name', 'age,name', 'nope'])}')|list",
            lambda: f"{self.group(self.value('dict', depth))}|{self.pick(['items|list', 'dictsort', 'list', 'dictsort(reverse=true)', 'dictsort(by=' + chr(39) + 'value' + chr(39) + ')'])}",
            lambda: f"{self.group(self.value('dict', depth))}.{self.pick(['keys', 'values', 'items'])}(){self.pick(['', '|list'])}",
            lambda: f"range({self.pick(['4', '1, 5', '7, 0, -3', 'n', '0'])}){self.pick(['', '|list', '[1:]|list'])}",
            lambda: f"{t}|list",
        ])()

    def dict_value(self, depth):
        e = self.group(self.value("dict", depth))
        return self.pick([
            lambda: f"{{'a': {self.any(depth)}, 'k': {self.any(depth)}}}",
            lambda: f"{{{self.any(0)}: {self.any(0)}}}",
            lambda: f"dict({e}, z={self.any(depth)})",
            lambda: f"dict({self.value('list', depth)})",
            lambda: f"{e}.copy()",
            lambda: f"namespace(a={self.any(depth)}).a",
        ])()

    def none_value(self, depth):
        return self.pick(["none", "nothing", "d.get('nope')", "xs.append(1)", "d.update({})"])

    def any_value(self, depth):
        return self.pick([
            lambda: f"{self.group(self.any(depth))}.{self.pick(['a', 'name', 'x', 'items', 'role', 'upper', '_p'])}",
            lambda: f"{self.group(self.any(depth))}[{self.any(0)}]",
            lambda: f"{self.group(self.value('dict', depth))}.get({self.any(0)}{self.pick(['', ', ' + self.any(0)])})",
            lambda: f"{self.group(self.value('list', depth))}|{self.pick(['first', 'last', 'min', 'max', 'sum', 'random|string|length'][:5])}",
            lambda: f"{self.group(self.any(depth))}|attr('{self.pick(['a', 'upper', 'x'])}')",
            lambda: f"{self.group(self.any(depth))}|{self.pick(['length', 'string', 'list', 'int', 'float', 'items|list', 'first', 'join', 'abs', 'upper', 'default(1)'])}",
            lambda: f"({self.any(depth)} {self.pick(['+', '-', '*', '/', '//', '%', '~', '<', 'in', 'and', 'or'])} {self.any(depth)})",
        ])()

    def slice(self):
        part = ["", "", "0", "1", "2", "-1", "-2", "5", "none"]
        text = f"{self.pick(part)}:{self.pick(part)}"
        return text + self.pick(["", "", ":-1", ":2", ":-2", ":"])

    @staticmethod
    def group(expression):
        """As the left side of a dot, a bracket or a filter."""
        return expression if expression.replace("_", "").isalnum() and not expression[:1].isdigit() else f"({expression})"

    # Statements

    def tag(self, text):
        return "{%" + self.pick(SIGNS) + " " + text + " " + self.pick(SIGNS) + "%}"

    def pad(self):
        return self.pick(PADS)

    def body(self, depth):
        return "".join(self.pad() + self.statement(depth) for _ in range(self.rng.randrange(1, 3))) + self.pad()

    def statement(self, depth):
        if depth <= 0 or self.chance(0.4):
            if self.chance(0.1):
                return "{#" + self.pick(SIGNS) + " note " + self.pick(SIGNS) + "#}"
            return "{{" + self.pick(["", "", "-"]) + " " + self.any(2) + " " + self.pick(["", "", "-"]) + "}}"
        return getattr(self, self.pick(["if_block", "for_block", "for_block", "set_block", "macro", "call", "filter_block", "with_block", "raw", "space"]))(depth - 1)

    def if_block(self, depth):
        middle = self.tag(f"elif {self.any(2)}") + self.body(depth) if self.chance(0.3) else ""
        last = self.tag("else") + self.body(depth) if self.chance(0.4) else ""
        return self.tag(f"if {self.any(2)}") + self.body(depth) + middle + last + self.tag("endif")

    def for_block(self, depth):
        shown = self.pick(["loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.revindex0", "loop.depth",
                           "loop.previtem", "loop.nextitem", "loop.cycle('p', 'q')", "loop.changed(x)", "x", "x", "x|string"])
        head, items = self.pick([("x", self.value("list", 2)), ("x", self.value("str", 2)), ("k, v", f"{self.group(self.value('dict', 2))}.items()"), ("x", self.any(2)),
                                 ("k, x", self.value("list", 2))])
        condition = f" if {self.pick(['x', 'x is string', 'x is odd', 'loop.first', self.any(1)])}" if self.chance(0.25) else ""
        jump = self.tag(f"if {self.pick(['loop.index > 1', 'x == 1', 'loop.last'])}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif") if self.chance(0.15) else ""
        last = self.tag("else") + self.body(depth) if self.chance(0.2) else ""
        return self.tag(f"for {head} in {items}{condition}") + "{{ " + shown + " }}" + jump + self.body(depth) + last + self.tag("endfor")

    def set_block(self, depth):
        name = self.pick(["x", "k", "v", "s", "ns"])
        return self.pick([
            lambda: self.tag(f"set {name} = {self.any(3)}"),
            lambda: self.tag(f"set x, k = {self.any(1)}, {self.any(1)}"),
            lambda: self.tag(f"set {name}{self.pick(['', ' | upper', ' | trim'])}") + self.body(depth) + self.tag("endset"),
        ])() + "{{ " + name + " }}"

    def macro(self, depth):
        head, call = self.pick([("a, b=2", "m(1)"), ("a", f"m({self.any(1)})"), ("", "m()"), ("a=none, b='x'", "m(b=5)"), ("a", "m()"), ("a", "m(1, 2)"), ("a, b", "m(*[1, 2])")])
        extra = self.pick(["", "", "{{ varargs }}", "{{ kwargs }}", "{{ caller }}"])
        return self.tag(f"macro m({head})") + "{{ a }}" + extra + self.body(depth) + self.tag("endmacro") + "{{ " + call + " }}"

    def call(self, depth):
        given, wanted = self.pick([("", ""), ("1", "(x)"), ("1, 2", "(x, k)"), ("1", ""), ("k=3", "(x, k=1)")])
        return self.tag("macro m(a=1)") + "[" + "{{ caller(" + given + ") }}]" + self.tag("endmacro") + self.tag(f"call{wanted} m()") + self.body(depth) + self.tag("endcall")

    def filter_block(self, depth):
        return self.tag(f"filter {self.pick(['upper', 'trim', 'indent(2)', 'replace(' + repr('a') + ', ' + repr('b') + ')', 'title', 'escape'])}") + self.body(depth) + self.tag("endfilter")

    def with_block(self, depth):
        return self.tag(f"with x = {self.any(1)}, k = {self.pick(['x', self.any(1)])}") + self.body(depth) + self.tag("endwith")

    def raw(self, depth):
        return self.tag("raw") + self.pick(["{{ x }}", "  {% if %}\n", "{# a"]) + self.tag("endraw")

    def space(self, depth):
        return (self.tag(f"set ns = namespace(a={self.any(1)})") + self.tag("for x in xs") + self.tag(f"set ns.a = {self.pick(['ns.a + x', 'x', 'ns.a ~ x', self.any(1)])}")
                + self.body(depth - 1) + self.tag("endfor") + "{{ ns.a }}")

    def template(self):
        roll = self.rng.random()
        if roll < 0.45:
            return "{{ " + self.any(3) + " }}"
        text = self.body(2)
        if roll > 0.93:  # damaged: what is cut or doubled is seldom well-formed
            at = self.rng.randrange(len(text) + 1)
            text = self.pick([text[:at] + text[at + 1:], text[:at], text[:at] + self.pick(["{{", "%}", "}", "|", "(", "'", "."]) + text[at:]])
        return text
