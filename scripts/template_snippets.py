"""Small templates for make_template_goldens.py: each tries one feature of the template language. A line of text is a
template with the shared variables; a pair adds variables of its own."""

VARIABLES = {
    "s": "Hello World",
    "u": "héllo ΟΔΟΣ ß ﬁ ǆ İ 🙂",
    "ws": " \t x\u00a0\n",
    "n": 7,
    "neg": -7,
    "f": 2.5,
    "t": True,
    "nothing": None,
    "empty": "",
    "xs": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": 2, "items": 3, "C": None},
    "nested": {"x": {"y": [{"z": "deep"}, 5]}},
    "people": [
        {"name": "Ann", "age": 30, "admin": True},
        {"name": "bob", "age": 25, "admin": False, "address": {"city": "Bern"}},
        {"name": "Cid", "age": 30},
    ],
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}],
}

_EXPRESSIONS = r"""
1 + 2
1 + 2 * 3
(1 + 2) * 3
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
7 / 2
6 / 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
+5
- 5
--5
1.5 + 1
1.5 // 1
-1.5 // 1
-1.5 % 1
5.5 % 2
0.1 + 0.2
1e3
1e16
1e15
123456789012345678.0
1.0e-4
0.00001
1e100
1.5e300 * 1e10
100 * 1.1
1_000
0x1F
0b101
0o17
1 / 0
1 // 0
1 % 0
1.0 / 0
5 % 0.0
1 + none
1 + 'a'
'a' + 1
'a' + 'b'
'a' 'b'
'a' ~ 1 ~ none ~ true ~ 1.0
'ab' * 3
3 * 'ab'
'ab' * -1
[1] * 2
[1] + [2]
[1] + (2,)
(1,) + (2,)
true + true
true * 3
not 1
not not 0
1 == 1.0
1 == true
'a' == 'a'
[1, 2] == [1, 2]
(1, 2) == [1, 2]
{'a': 1} == {'a': 1.0}
none == none
none == 0
1 != 2
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2
'a' < 'b'
'a' < 'B'
[1, 2] < [1, 3]
[1] < [1, 0]
1 < 'a'
none < 1
(1, 2) < (1, 3)
'ell' in s
'x' in s
'x' not in s
3 in xs
9 in xs
9 not in xs
'a' in d
1 in d
1 in 'abc'
none in 'abc'
'a' in none
[1] in d
'b' in d.values()
1 in d.values()
('a', 2) in d.items()
1 and 2
0 and 2
1 or 2
0 or 2
'' or 'x'
none or false
1 if true else 2
1 if false else 2
1 if false
(1 if false) is defined
'a' if n > 5 else 'b' if n > 3 else 'c'
[1, 2, 3]
[1, 'a', none, true, 1.5, "it's", 'q"q']
[1, 2, 3,]
[]
()
(1,)
(1, 2)
{}
{'a': 1, 'b': [1, {'c': none}]}
{'a': 1, 'a': 2}
{1: 'x', true: 'y'}
{'a': 1,}
{[1]: 2}
{(1, 2): 3}
'a\nb'
'\x41\u00e9\t\\'
'\q'
'\é'
'\101'
'it\'s'
"dq \" 'x'"
'\N{BULLET}'
['a\nb\t\\', "it's", 'both\'"', '\x00\x7f\xa0\u200b\u2028é🙂\ue000']
true
True
false
none
None
s[0]
s[-1]
s[100]
s[1:3]
s[:5]
s[6:]
s[-5:]
s[::-1]
s[::2]
s[1:8:3]
s[8:1:-3]
s[100:]
s[:-100]
s[::0]
u[1:4]
u[-1]
u[::-1]
xs[0]
xs[-1]
xs[10]
xs[1:]
xs[:-1]
xs[::-1]
xs[5:2]
xs['a']
xs.0
(1, 2, 3)[1:]
d.a
d['a']
d.missing
d['missing']
d['items']
d[1]
d[1:2]
nothing[1:]
nested.x.y[0].z
nested['x']['y'][1]
nested.q.z
missing
missing.foo
missing['a']
missing[0]
missing()
missing + 1
1 + missing
'a' + missing
'a' ~ missing
missing == missing
missing == none
missing < 1
-missing
not missing
missing or 'x'
missing is defined
missing in [1]
1 in missing
[missing]
missing|list
missing|length
missing|string
missing|upper
missing|int
missing|float
missing|join
missing|items|list
missing|default('z')
missing.foo|default('z')
d.missing.foo
none.foo
none.foo.bar
n.foo
s.foo
s.foo()
s.__class__
s.__class__.__mro__
d.__class__
xs.append
xs.append(4)
xs.pop()
d.pop('a')
d.update({'z': 1})
d.clear()
d.setdefault('q', 1)
xs.sort()
s._private
1()
'a'()
none()
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
u.upper()
u.lower()
u.title()
u.capitalize()
u.swapcase()
u.casefold()
'ΑΣ Σ'.lower()
"they're bill's".title()
'ǆabc'.title()
''.capitalize()
s.split()
s.split(' ')
s.split('o')
s.split('o', 1)
s.split('l', maxsplit=1)
s.split(sep='o')
s.split('')
'a,b,,c'.split(',')
''.split(',')
''.split()
' a  b c '.split()
' a  b c '.split(None, 1)
' a  b c '.rsplit(None, 1)
'a,b,c'.rsplit(',', 1)
'a.b.c'.rsplit('.')
'a\nb\r\nc\x0bd\u2028e'.splitlines()
'a\nb\n'.splitlines(true)
'a=b=c'.partition('=')
'a=b=c'.rpartition('=')
'abc'.partition('=')
'abc'.rpartition('=')
ws.strip()
ws.lstrip()
ws.rstrip()
'xxabcxx'.strip('x')
'xyabcyx'.lstrip('xy')
'abcxyx'.rstrip('xy')
'abc'.strip(none)
'abc'.strip(1)
'éaé'.strip('é')
s.startswith('Hello')
s.startswith(('a', 'H'))
s.startswith('ello', 1)
s.endswith('World')
s.endswith('Wor', 0, 9)
s.startswith(1)
s.endswith(['a'])
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('', '-')
'abc'.replace('', '-', 2)
s.replace('o', '')
s.find('o')
s.find('o', 5)
s.find('zz')
s.rfind('o')
u.find('ß')
s.index('zz')
s.index('W')
s.count('l')
s.count('')
s.count('l', 4)
', '.join(words)
','.join(['a', 1])
'-'.join('abc')
'-'.join(d)
s.isupper()
'ABC'.isupper()
'abc1'.islower()
'123'.isdigit()
'12.3'.isdigit()
'²'.isdigit()
'½'.isnumeric()
'abc'.isalpha()
'abc1'.isalnum()
' \t'.isspace()
''.isspace()
'Abc Def'.istitle()
'abc'.isascii()
'é'.isascii()
'7'.zfill(3)
'-7'.zfill(4)
'a'.ljust(3, '.')
'a'.rjust(3)
'ab'.center(5, '*')
'abc'.center(6, '*')
'TestHook'.removeprefix('Test')
'TestHook'.removesuffix('Hook')
'{} {}'.format('a', 1)
'{1} {0}'.format('a', 'b')
'{x}'.format(x=5)
'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c')
'{:05d} {:+} {:x} {:#x} {:b} {:,}'.format(42, 7, 255, 255, 5, 1234567)
'{:.2f} {:8.3f} {:e} {:g} {:.1%}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.256)
'{!r} {!s}'.format('a', 'b')
'{{}} {}'.format(1)
'{0[a]} {0[b]}'.format(d)
'{} {}'.format(1)
'{:d}'.format('a')
'{'.format(1)
'%s is %d' % ('x', 5)
'%s' % 'a'
'%s' % [1, 2]
'%05.1f|%-5s|%5s|%+d' % (3.14159, 'a', 'b', 7)
'%x %X %o %e %g' % (255, 255, 8, 12345.678, 0.00001)
'%(a)s %(b)d' % d
'%% %s' % 1
'%r' % 'a'
'%s %s' % ('a',)
'%s' % ('a', 'b')
'%d' % 'a'
'%c%c' % ('a', 98)
'a' % 1
d.keys()
d.values()
d.items()
d.keys()|list
d.values()|list
d.items()|list
d.get('a')
d.get('zz')
d.get('zz', 5)
d.get([1])
d.copy()
xs.index(1)
xs.index(99)
xs.count(3)
xs.copy()
d.keys()|length
d|length
d|list
d|items|list
xs|first
xs|last
[]|first
[]|last
[]|first is defined
s|first
s|last
xs|length
s|length
u|length
5|length
s|count
xs|sort
xs|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
['a', 1]|sort
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|list
xs|reverse|list
s|reverse
words|unique|list
words|unique(case_sensitive=true)|list
people|unique(attribute='age')|map(attribute='name')|list
[1, 1.0, true, '1']|unique|list
xs|sum
people|sum(attribute='age')
[[1], [2]]|sum(start=[])
['a']|sum
[1.5, 2]|sum
xs|min
xs|max
[]|max
words|min
words|max(case_sensitive=true)
people|min(attribute='age')
people|map(attribute='name')|join(', ')
people|map(attribute='address.city')|list
people|map(attribute='address.city', default='-')|list
people|map(attribute='missing', default='?')|join
words|map('upper')|list
words|map('replace', 'a', 'x')|join
words|map('nofilter')|list
words|map|list
[1, 2]|map('string')|join('+')
xs|select('odd')|list
xs|select|list
[0, 1, '', 'a']|select|list
xs|reject('odd')|list
xs|select('>', 1)|list
xs|select('divisibleby', 3)|list
xs|reject('in', [1, 2])|list
people|selectattr('admin')|map(attribute='name')|list
people|rejectattr('admin')|map(attribute='name')|list
people|selectattr('age', 'equalto', 30)|map(attribute='name')|list
people|selectattr('address', 'defined')|map(attribute='name')|list
people|selectattr('address.city', 'defined')|list|length
messages|selectattr('role', 'equalto', 'user')|list
messages|rejectattr('role', 'in', ['user'])|map(attribute='content')|join
messages|selectattr('role', '==', 'system')|first
(xs|select('odd')) is iterable
(xs|select('odd')) is sequence
xs|select('odd')|length
xs|select('odd')|first
xs|select('odd')|last
xs|batch(2)|list
xs|batch(2, 'x')|list
[1, 2, 3, 4, 5]|slice(2)|list
[1, 2, 3, 4, 5]|slice(3, 'x')|list
people|groupby('age')|list|length
people|groupby('age')|map('first')|list
d|dictsort
d|dictsort(true)
{'b': 2, 'a': 3}|dictsort(by='value')
{'b': 2, 'a': 3}|dictsort(reverse=true)
{1: 'a', 'b': 2}|dictsort
xs|join
xs|join(', ')
xs|join(d='-')
[none, true]|join('/')
d|join(',')
5|join
s|upper
s|lower
s|title
"foo bar-baz (qux) [a] don't"|title
s|capitalize
5|upper
none|upper
ws|trim
'xxaxx'|trim('x')
5|trim
s|replace('o', '0')
s|replace('l', 'L', 1)
5|replace(5, 'x')
s|replace
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2)
'a\nb\n\nc'|indent(2, true)
'a\nb\n\nc'|indent(width='> ', first=true, blank=true)
'a\nb\n'|indent
''|indent(2, true)
5|indent
'<a & "b" \'c\'>'|escape
'<a>'|e
'<a>'|safe
'<a>'|safe|escape
'<a>'|escape|escape
('<'|safe) + '<'
'<' + ('<'|safe)
('<'|safe) ~ '<'
['<'|safe]
'<'|escape|upper
'<'|forceescape|forceescape
5|string
none|string
1.0|string
'5'|int
'5.7'|int
5.9|int
-5.9|int
'abc'|int
'abc'|int(7)
'abc'|int(default=none)
'0x1F'|int(base=16)
'101'|int(base=2)
'ff'|int(0, 16)
' 42 '|int
'1_000'|int
none|int
[]|int
true|int
'1e3'|int
'inf'|float
'nan'|float
'5'|float
'5.5'|float
'x'|float
'x'|float(1.5)
5|float
'1e3'|float
none|float
2.5|round
3.5|round
2.567|round(2)
2.567|round(1, 'floor')
2.1|round(0, 'ceil')
7|round
1234|round(-2)
2.5|round(method='x')
-5|abs
-5.5|abs
'a'|abs
'%s-%s'|format('a', 'b')
'%(x)s'|format(x=1)
'%d'|format(3.7)
s|wordcount
"it's a-b c_d é"|wordcount
s|center(21)
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(11, false, '...', 0)
'a b&c/d?é'|urlencode
{'a b': 'c&d', 'e': 1}|urlencode
missing|default
missing|d('x')
''|default('x')
''|default('x', true)
none|default('x')
none|default('x', boolean=true)
0|default(5, true)
d|attr('a')
d|attr('items') is callable
s|attr('upper')()
s|list
5|list
d|tojson
nested|tojson
nested|tojson(indent=2)
nested|tojson(indent=0)
d|tojson(sort_keys=true)
d|tojson(separators=(',', ':'))
nested|tojson(indent=4, sort_keys=true)
nested|tojson(indent='->')
[]|tojson(indent=2)
{}|tojson(indent=2)
[[], {}]|tojson(indent=2)
u|tojson
u|tojson(ensure_ascii=true)
u|tojson(true)
'\x00\x1f\x7f\u2028"\\/\b\f\n\r\t<>&\''|tojson
'\x7f🙂'|tojson(ensure_ascii=true)
[1.0, 1e20, 1e-7, true, none, (1, 2)]|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
{(1, 2): 3}|tojson
missing|tojson
[missing]|tojson
range(3)|tojson
('<'|safe)|tojson
range(3)
range(3)|list
range(1, 4)|list
range(5, 0, -2)|list
range(0)|list
range(5)[1:3]|list
range(5)[-1]
range(3, 1)|length
range(1.5)
range(0, 5, 0)
range(100000)|length
range(100001)
range(2) == range(2)
dict(a=1, b=2)
dict([('a', 1)])
dict({'a': 1}, b=2)
dict()
dict(1)
namespace(a=1).a
namespace(a=1).b
namespace(_a=1)
namespace({'a': 5}).a
namespace(a=1)['a']
namespace(a=1) is mapping
cycler('a', 'b').next()
raise_exception('No way: ' ~ n)
raise_exception()
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y %H:%M:%S')
strftime_now('%A, %B %-d, %Y')
strftime_now('%a %j %U %W %w %y %I %p %% %c|%x|%X')
strftime_now('%f|%z|%Z|%G|%V|%u|%e')
strftime_now('')
strftime_now(5)
strftime_now is defined
undefined_function('x')
n is defined
n is undefined
nothing is none
missing is none
n is number
f is number
t is number
s is number
n is integer
t is integer
f is integer
f is float
n is float
t is boolean
n is boolean
s is string
n is string
('x'|safe) is string
d is mapping
xs is mapping
xs is sequence
s is sequence
d is sequence
n is sequence
missing is sequence
none is sequence
xs is iterable
s is iterable
n is iterable
missing is iterable
none is iterable
d.items() is iterable
range(3) is iterable
range(3) is sequence
true is true
1 is true
false is false
none is false
n is odd
n is even
2.0 is even
's' is odd
n is divisibleby 7
n is divisibleby(2)
n is eq 7
n is equalto 7
n is ne 7
n is lt 8
n is gt 8
n is ge 7
n is le 6
n is lessthan 8
n is greaterthan 8
n is in [7, 8]
n is not in [7, 8]
's' is in 'xsx'
n is sameas n
none is sameas none
true is sameas 1
[] is sameas []
'abc' is lower
'ABC' is upper
'123' is lower
s is lower
range is callable
s is callable
s.upper is callable
missing is callable
'upper' is filter
'nope' is filter
'defined' is test
'nope' is test
n is not number
not n is number
n is number and s is string
n is nosuchtest
n|nosuchfilter
n is defined is number
(n is defined) is boolean
1 if n|nosuchfilter else 2
2 if true else (n|nosuchfilter)
n is divisibleby
'a' is eq 'a'
-1 is number
-n|abs
-(n|abs)
- n|string
n|string|length
2 + 3|string|length
'a' ~ 'b'|upper
'a'|upper ~ 'b'
s.split(' ')|map('lower')|join('_')
(s|upper).lower()
{'a': {'b': 1}}['a'].b
'abc'[1]
[[1, 2], [3]][0][1]
'x'.join(['a', 'b']).upper()
s|replace('World', 'You')|upper|length
[1, 2, 3][n - 6]
'a' in ['a', 'b'] and 'b' not in ['c']
1 + 2 ~ 3 + 4
1 ~ 2 * 3
not true == false
not 1 in [2]
1 == 1 == 1
1 < 2 == true
1 in [1] in [[1]]
1 in [1] == true
dict(a=1)|tojson
[dict(*[[('a', 1)]], **{'b': 2})]
'{}{}'.format(*['a', 'b'])
'{a}'.format(**{'a': 1})
f('x')
9223372036854775807
9223372036854775807 + 0
9007199254740993 * 1.0
1.0 * 3
1e22
1e21 + 1
123456.789e3
5e-324
1.7976931348623157e308
0.1 * 3
1/3
2/3 * 3
-0.0
0.0 == -0.0
1e400
"""

_STATEMENTS = [
    "{% if n > 5 %}big{% elif n > 3 %}mid{% else %}small{% endif %}",
    "{% if false %}a{% elif true %}b{% endif %}",
    "{% if missing %}a{% else %}b{% endif %}",
    "{% if [] %}a{% endif %}{% if {} %}b{% endif %}{% if '' %}c{% endif %}{% if 0.0 %}d{% endif %}{% if range(0) %}e{% endif %}",
    "{% if xs|select %}truthy{% endif %}",
    "{% for x in xs %}{{ x }},{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in none %}{% endfor %}",
    "{% for x in 5 %}{% endfor %}",
    "{% for c in 'aé🙂' %}[{{ c }}]{% endfor %}",
    "{% for k in d %}{{ k }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for a, b in [(1,)] %}{% endfor %}",
    "{% for a, b in ['xy'] %}{{ a }}-{{ b }}{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for x in xs %}{{ loop.nextitem.foo }}{% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in xs %}{{ loop.depth }}{{ loop.depth0 }}{% for y in xs %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
    "{% for x in xs if x > 9 %}{{ x }}{% else %}no{% endfor %}",
    "{% for x in xs if loop.first %}{{ x }}{% endfor %}",
    "{% for x in xs|select('odd') %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}",
    "{% for x in xs %}{% for y in xs %}{% if y == 1 %}{% break %}{% endif %}{{ y }}{% endfor %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% set y %}a{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endset %}{{ y }}{% endfor %}{{ y }}",
    "{% for x in xs %}{% filter upper %}a{% if x == 1 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}",
    "{% break %}",
    "{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in xs %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    "{% for n in [1, [2, [3]]] recursive %}{% if n is iterable %}({{ loop(n) }}){% else %}{{ n }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "{% for n in xs %}{{ loop(xs) }}{% endfor %}",
    "{% for x in xs %}{{ loop.nope }}{% endfor %}",
    "{% for x in xs %}{{ loop.nope.a }}{% endfor %}",
    "{{ loop }}",
    "{% for x in xs %}{% set loop = 1 %}{% endfor %}",
    "{% for loop in xs %}{% endfor %}",
    "{% for x in xs %}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% for x in xs %}{{ x }}{% endfor %}{{ x }}",
    "{% set a = 0 %}{% for x in xs %}{% set a = a + x %}{{ a }} {% endfor %}{{ a }}",
    "{% set ns = namespace(a=0) %}{% for x in xs %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace() %}{% set ns.x = 1 %}{% set ns.y = ns.x %}{{ ns.x }}{{ ns.y }}{{ ns.z }}",
    "{% set ns = namespace() %}{{ ns.z.q }}",
    "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% set d.a = 5 %}",
    "{% set missing.a = 5 %}",
    "{% set x = 5 %}{{ x }}",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
    "{% set x, y = [1] %}",
    "{% set x = x + 1 %}",
    "{% set n = n + 1 %}{{ n }}",
    "{% set true = 1 %}",
    "{% set 5 = 1 %}",
    "{% set a.b.c = 1 %}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]{{ x is string }}",
    "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | upper %}abc{% endset %}{{ x }}",
    "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% if true %}{% set x = 1 %}{% endif %}{{ x }}",
    "{% if false %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{% endwith %}",
    "{% with %}{% set n = 1 %}{{ n }}{% endwith %}{{ n }}",
    "{% filter upper %}a{{ s }}{% endfilter %}",
    "{% filter trim | upper %}  a  {% endfilter %}",
    "{% filter indent(2) %}a\nb\n{% endfilter %}",
    "{% filter length %}abc{% endfilter %}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, z=3) }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ n }}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{{ m().upper() }}{{ m() is string }}{{ m is callable }}{{ m.name }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}hi{{ n }}{% endcall %}",
    "{% macro m() %}[{{ caller(1, y=2) }}]{% endmacro %}{% call(x, y) m() %}{{ x }}{{ y }}{% endcall %}",
    "{% macro m() %}{% if caller is defined %}c{% endif %}{{ caller }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}hi{% endcall %}",
    "{% call s.upper() %}{% endcall %}",
    "{% call s %}{% endcall %}",
    "{% for x in xs %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}{{ m }}",
    "{% macro m(x) %}{% for i in x %}{{ loop.index }}{{ i }}{% endfor %}{% endmacro %}{{ m(words) }}",
    "{% macro outer() %}{% macro inner() %}i{{ n }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}",
    "{% generation %}a{{ n }}{% endgeneration %}b",
    "{% for x in xs %}{% generation %}{{ x }}{% set y = x %}{% endgeneration %}{{ y }}{% endfor %}",
    "{%- generation -%} a {%- endgeneration -%} b",
    "{% block b %}x{{ n }}{% endblock %}",
    "{% block b %}x{% endblock b %}",
    "{% print n, s %}",
    "{% print 1 %}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% do xs %}",
    "{% nosuchtag %}",
    "{% endif %}",
    "{% if true %}",
    "{% if true %}{% endfor %}",
    "{% for x in xs %}",
    "{% if %}a{% endif %}",
    "{% for in xs %}{% endfor %}",
    "{% for x xs %}{% endfor %}",
    "{{ }}",
    "{{",
    "{{ n",
    "{{ n }",
    "{%",
    "{% if n",
    "{#",
    "{# a",
    "{{ 'abc }}",
    "{{ (1 }}",
    "{{ 1) }}",
    "{{ [1} }}",
    "{{ a b }}",
    "{{ a. }}",
    "{{ a.'b' }}",
    "{{ 1 + }}",
    "{{ * 1 }}",
    "{{ a | }}",
    "{{ a is }}",
    "{{ f(a=1, 2) }}",
    "{{ f(a=1, a=2) }}",
    "{{ f(1 2) }}",
    "{{ {1, 2} }}",
    "{{ a = 1 }}",
    "{{ a ? b }}",
    "{{ a & b }}",
    "{{ ! a }}",
    "{{ 012 }}",
    "{{ 1abc }}",
    "{{ not }}",
    "{{ a if }}",
    "{{ a[] }}",
    "{{ xs[1:2, 3] }}",
    "{{ xs[1, 2] }}",
    "{{ d[1, 2] is defined }}",
    "{{ n, s }}",
    "{{ n, }}",
    "{{ -1, -2 }}",
    "{{ n ; s }}",
    "{% if n: %}a{% endif %}",
    "{% set x = 'a' if true else 'b' %}{{ x }}",
    "{% if 1 if true else 0 %}a{% endif %}",
    "{% for x in xs if true else ys %}{% endfor %}",
    "{% for x in (xs if true else []) %}{{ x }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in xs, %}{{ x }}{% endfor %}",
    "{% if 1, %}t{% endif %}",
    "{# comment #}a{# x\ny #}b",
    "a{#- x -#} b",
    "a {#- x #} b",
    "a {# x -#} b",
    "  {# x #}\n  b",
    "a\n  {# x #}\nb",
    "a\n  {#+ x #}\nb",
    "a\n  {# x +#}\nb",
    "{##}{#--#}{#-#}a",
    "{% raw %}{{ n }}{% if %}{# x #}{% endraw %}",
    "a {% raw -%} b {% endraw %} c",
    "a {%- raw %} b {%- endraw -%} c",
    "a\n  {% raw %}\n b\n  {% endraw %}\nc",
    "{% raw %}a",
    "a\n{% if true %}\nb\n{% endif %}\nc",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc",
    "a\n  {%+ if true +%}\n  b\n  {%+ endif +%}\nc",
    "a {% if true %} b {% endif %} c",
    "a\n\n  {% if true %}\n\n  b\n\n  {% endif %}\n\nc",
    "\t{% if true %}\t\nb\t{% endif %}",
    "x {% if true %}{% endif %}\n",
    "  {{ n }}  \n",
    "  {{- n -}}  \n x",
    "a {{- n }} b",
    "a {{ n -}} b",
    "a\n {{ n }}\n b",
    "a\n {{+ n }}\n b",
    "{{ n }}\n{{ n }}\n",
    "{{ n }}\n\n",
    "{{ n }}\r\nx\ry\r\n",
    "a\r\n  {% if true %}\r\nb{% endif %}\r\n",
    "\n{% if true %}\n{% endif %}\n",
    "{% if true %}\n\n\nb{% endif %}",
    "  {% if true %}a{% endif %}  {% if true %}b{% endif %}  ",
    "{% if true %}  {% if true %}x{% endif %}\n  {% endif %}y",
    "{{ n }}  {% if true %}x{% endif %}",
    "{{ n }}\n  {% if true %}x{% endif %}",
    "{{- n -}}",
    "{{-n-}}",
    "{{ -n }}{{-1}}{{ - 1 }}",
    "\u00a0{%- if true -%}\u3000x\u2003{%- endif -%}\u00a0y",
    "\u3000{% if true %}x{% endif %}",
    "a\u2028  {% if true %}x{% endif %}",
    "{ {{ n }} } {x} {% if true %}{{% endif %}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {}}}}",
    "{{ '}}' }}{{ \"%}\" }}",
    "{{ 'a\nb' }}",
    "{{ 'a\r\nb' }}",
    "{%if n%}a{%endif%}",
    "{%-if n-%} a {%-endif-%}",
    "{{n}}{{s}}",
    "{{ n\n}}",
    "{%\nif n\n%}a{%\nendif\n%}",
    "{% set x = [\n1,\n2\n] %}{{ x }}",
    "{{ é }}",
    "{% set été = 1 %}{{ été }}",
    "{{ $x }}",
    "{{ raise_exception('stop') }}",
    "{% if n %}{{ raise_exception('stop ' + s) }}{% endif %}",
    "{{ messages[0].role }}{{ messages[-1]['content'] }}",
    "{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}\n{% endfor %}{% if add_generation_prompt %}x{% endif %}",
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}{{ loop_messages|length }}",
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }} {% endfor %}",
    "{% for m in messages|reverse %}{{ m.role }} {% endfor %}",
    "{% set g = xs|select('odd') %}{{ g|list }}{{ g|list }}",
    "{% set g = xs|map('string') %}{% for x in g %}{{ x }}{% break %}{% endfor %}{{ g|list }}",
    "{% set g = words|map('nofilter') %}ok",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}",
    "{% set j = joiner('; ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}",
    "{% set upper = s.upper %}{{ upper() }}",
    "{% set items = d.items() %}{{ items|list|length }}{{ items|length }}",
    "{% set x = d %}{% for k in x %}{{ loop.index }}{{ k }}{% endfor %}",
    "{{ caller }}{{ varargs }}{{ kwargs }}",
    "{{ super() }}",
    "{% if n is defined and n is not none %}ok{% endif %}",
    "{% if not (missing is defined and missing) %}ok{% endif %}",
    "{{ 'x' if missing is not defined else missing.a }}",
    "{{ missing.a if missing is defined else 'y' }}",
    "{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'user' and not ns.found %}{% set ns.found = true %}{{ loop.index0 }}{% endif %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for x in xs %}{% set ns.l = ns.l + [x * 2] %}{% endfor %}{{ ns.l }}",
    "{% set content = 'a</think>b' %}{{ content.split('</think>')[-1] }}{{ content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}",
    "{{ '\\n' + s }}|{{ '\n' }}|",
    "{{ d|tojson|safe }}",
    "{{ [1, 2]|string }}{{ d|string|length }}",
    "{% for x in xs %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for x in xs %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(i) %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% for x in xs %}{% if loop.first %}{% set q = 1 %}{% endif %}{{ q }}{% endfor %}",
    "{% for x in xs %}{% if loop.index == 2 %}{% set n = 0 %}{% endif %}{{ n }}{% endfor %}",
    "{% if true %}{{ n|nosuchfilter }}{% endif %}",
    "{% if false %}{{ n|nosuchfilter }}{% endif %}ok",
    "{% if false %}{% for x in xs %}{{ n|nosuchfilter }}{% endfor %}{% endif %}ok",
    "{% for x in [] %}{{ x|nosuchfilter }}{% endfor %}",
    "{% if false %}{{ n is nosuchtest }}{% endif %}ok",
    "{% macro m() %}{{ n|nosuchfilter }}{% endmacro %}",
    "{% for key in d.keys() %}{{ key }}{% endfor %}{% for v in d.values() %}{{ v }}{% endfor %}",
    "{% set s2 = 'a' %}{% set s2 = s2 ~ 'b' %}{{ s2 }}",
    "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}[{{ m(1) }}]",
    "line {{ n }}\n{% for x in xs -%}\n  {{ x }}\n{% endfor %}end",
]

_WITH_VARIABLES = [
    ("{{ x }}", {"x": "{{ n }}"}),
    ("{{ x.y }}", {"x": {"y": None}}),
    ("{{ x|tojson }}", {"x": {"z": 1, "a": [1.0, 1e-10, "é", True, None, {"k": {}}]}}),
    ("{{ x }}", {"x": [1.0, 1e-10, "é", True, None, {"k": {}}]}),
    ("{{ x|length }}{{ x[1] }}{{ x|upper }}", {"x": "a🙂é"}),
    ("{{ n }}{{ range }}", {"range": "shadowed"}),
    ("{{ x.get('a', {}).get('b', 'c') }}", {"x": {"a": {"b": 1}}}),
    ("{{ x.a.items() | list }}", {"x": {"a": {"q": 1}}}),
    ("{% for k, v in x.items() %}{{ k }}{{ v }}{% endfor %}", {"x": {"keys": 1, "items": 2, "get": 3}}),
    ("{{ x.keys is callable }}|{{ x['keys'] }}", {"x": {"get": 3, "keys": 5}}),
    ("{{ x == y }}{{ x != y }}{{ x is sameas y }}", {"x": [1, {"a": 2}], "y": [1, {"a": 2.0}]}),
    ("{{ x|sort|join(',') }}", {"x": ["é", "e", "z", "Z", "🙂", "\ufb01"]}),
    ("{{ x|int }}{{ x|float }}", {"x": "12"}),
    ("{{ x + 1 }}", {"x": 9007199254740993}),
    ("{{ x }}", {"x": 1e22}),
    ("{{ x.split('\\n') }}", {"x": "a\nb\n"}),
    ("{{ x|trim }}|", {"x": "\n\n a \n"}),
    ("{{ x is mapping }}{{ x.content is string }}{{ x.content is none }}", {"x": {"content": None}}),
]

SNIPPETS = (
    [("{{ " + line + " }}", {}) for line in _EXPRESSIONS.strip("\n").split("\n")]
    + [(template, {}) for template in _STATEMENTS]
    + _WITH_VARIABLES
)
