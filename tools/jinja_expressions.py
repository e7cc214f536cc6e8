"""Small templates that tests/golden/jinja_expressions.json holds the renderings of (make_chat_template_goldens.py)."""

VARIABLES = {
    "s": "Hello, World", "u": "stra\u00dfe \u01c5 \u0130stanbul \u4e16\u754c \U0001f600e\u0301", "w": "  a b\tc\n\n d  ", "e": "", "n": 7, "neg": -7, "f": 2.5,
    "big": 1e22, "tiny": 1.5e-7, "t": True, "no": False, "nil": None, "xs": [3, 1, 2, 1], "ws": ["b", "A", "c", "B"], "mixed": [1, "1", 1.0, True, None, [1], {"a": 1}],
    "d": {"b": 1, "a": [1, {"x": None}], "C": "<&>'\"", "items": "shadow", "k\u00e9y": 1.0}, "nested": {"a": {"b": {"c": [10, 20, {"d": "deep"}]}}},
    "people": [{"name": "Ann", "age": 30, "tags": ["x", "y"]}, {"name": "bob", "age": 25, "tags": []}, {"name": "Cy", "age": 30}, {"name": "Al", "age": None, "tags": ["z"]}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": [{"v": 3, "kids": []}]}, {"v": 4, "kids": []}]}, {"v": 5, "kids": []}],
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo", "tool_calls": []}],
}

# Each expression is printed.
PRINTED = r"""
1 + 2 * 3 ** 2 - 4
-3 ** 2
2 ** -1
2 ** 3 ** 2
(1, 2) + (3,)
[1] + [2, 3]
[1, 2] * 2
'ab' * 3
3 * 'ab'
'ab' * -1
7 / 2
7 // 2
-7 // 2
7 // -2
7.5 // 2
-7 % 3
7 % -3
7.5 % 2
-7.5 % 2
1 / 3
10 / 5
1 // 0
1 % 0
1 / 0
1.0 // 0
0.1 + 0.2
1e16
1e15
123456789012345680.0
1e-4
1e-5
1.0e300 * 1e10
5e-324
100000000000000000000.0
-0.0
0x1F
0o17
0b101
1_000_000
1_0.5_0
1e3
9223372036854775807
true + true
true == 1
1 == 1.0
'1' == 1
none == none
nothing == nothing
nothing == none
nothing is defined
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2
1 != 2 == 2
'a' < 'b'
'a' < 'B'
[1, 2] < [1, 3]
[1] < [1, 0]
(1, 2) < (1, 2, 0)
1 < 'a'
none < 1
'' or 'x'
0 and 1
1 and 2
not ''
not not 1
1 if n > 5 else 2
1 if n > 9
(1 if n > 9) is defined
'a' if t else 'b' if no else 'c'
1 in xs
9 not in xs
'a' in d
'ell' in s
1 in 'abc'
'x' in nothing
1 in nothing
none in mixed
1 in d.values()
'a' in d.keys()
1 in 5
s ~ 1 ~ none ~ t ~ 2.0 ~ [1] ~ nothing
1 ~ 2
s + 1
s + nothing
nothing + 1
nothing.x
nothing['x']
nothing()
nothing[0]
nothing | length
nothing | join
nothing ~ 'a'
-nothing
d.missing
d.missing.more
d['missing']
d.missing is defined
s.missing
n.missing
xs.missing
xs[0]
xs[-1]
xs[9]
xs[9].x
xs['0']
s[0]
s[-1]
s[99]
u[3]
u[-1]
u[::-1]
s[1:4]
s[:-1]
s[-3:]
s[::2]
s[::-1]
s[5:1]
s[5:1:-1]
s[-100:100]
s[1:2:0]
xs[1:]
xs[:1]
xs[::-1]
xs[-2:]
xs[none:2]
(1, 2, 3)[1:]
range(10)[2:5]
range(10)[::3] | list
range(3)
range(0)
range(2, 8, 3)
range(5, 0, -2) | list
range(5)[-1]
range(2, 4) | length
range(3) == range(3)
range(1, 2, 0)
range('a')
range()
d.b
d['b']
d.items()
d['items']
d.keys()
d.values()
d.items() | list
d.items() | first
d.keys() | list
d.get('b')
d.get('zz')
d.get('zz', 5)
d.get('zz', nothing)
d.get()
d.pop('b')
d.update({'x': 1})
d.setdefault('x', 1)
d.clear()
d.copy() == d
d | length
d | list
d | first
d | tojson
d | string
d == d
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
{'a': 1} == {'a': 1.0}
{}
{1: 'x', 'y': [2], (1, 2): none}
{1: 'x'}[1]
{1: 'x'}[1.0]
{true: 'x'}[1]
{'a': 1, 'a': 2}
{[1]: 2}
{{}: 2}
{none: 1} | tojson
{true: 1, 2.5: 2, 3: 3} | tojson
{(1,): 1} | tojson
[]
()
(1,)
[1, 'a', none, true, 1.5, [2], {'k': 'v'}]
['it\'s', 'say "hi"', 'both \' "', 'back\\slash', 'new\nline', '\x00\x7f\u00a0\u200b\ue000']
['\u00e9', '\U0001f600', '\u2028']
d.a[1].x is none
nested.a.b.c[2].d
nested['a']['b'].c[-1]['d']
nested.a.b.c.0
nested | attr('a')
s | attr('upper')
xs.append(1)
xs.pop()
xs.sort()
xs.reverse()
xs.index(1)
xs.index(99)
xs.count(1)
(1, 1, 2).count(1)
xs.__class__
s.__class__
s['__class__']
''.__class__.__mro__
namespace.__init__
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
s.casefold()
u.upper()
u.lower()
u.title()
u.capitalize()
u.swapcase()
u.casefold()
u | upper
u | lower
u | title
u | capitalize
"they're bill's friends-from (the) uk" | title
"they're bill's friends-from (the) uk".title()
'ab1cd 2ef'.title()
'\ufb01n \u1fb3 \u0149'.upper()
'\ufb01n \u1fb3 \u0149'.title()
'\u03a3\u03a3'.lower()
w.strip()
w.lstrip()
w.rstrip()
w | trim
'xxaxbxx'.strip('x')
'abcba'.strip('ab')
'xxaxx' | trim('x')
'a' | trim(none)
'\u00a0\u3000a\u2003'.strip()
'\x1ca\x1f'.strip()
'\u200ba'.strip()
w.split()
w.split(none, 1)
w.rsplit(none, 1)
w.split(' ')
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.rsplit(',', 1)
'a,b,,c'.split(',', maxsplit=2)
'a,b,,c'.split(sep=',')
'aXXbXXc'.split('XX')
''.split()
''.split(',')
'a'.split('')
'a\nb\r\nc\x0bd\u2028e\x85f'.splitlines()
'a\nb\n'.splitlines()
'a\r\nb'.splitlines(true)
'a\nb'.splitlines(keepends=true)
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
'a'.partition('')
s.startswith('Hell')
s.startswith(('x', 'He'))
s.startswith('ello', 1)
s.startswith('ello', 1, 3)
s.startswith(['He'])
s.startswith('')
s.endswith('ld')
s.endswith(('x', 'ld'))
s.endswith('World', 0, -1)
s.find('o')
s.find('o', 5)
s.find('zz')
s.find('', 3)
s.rfind('o')
s.rfind('o', 0, 6)
s.index('W')
s.index('zz')
s.rindex('o')
s.count('l')
s.count('')
s.count('l', 4)
'aaaa'.count('aa')
u.find('\u4e16')
u.index('\U0001f600')
s.replace('l', 'L')
s.replace('l', 'L', 2)
s.replace('', '-')
s.replace('', '-', 3)
''.replace('', 'x')
s.replace('o', '')
s | replace('l', 'L')
s | replace('l', 'L', 1)
s | replace('', '-')
n | replace('7', '8')
s.removeprefix('Hello')
s.removeprefix('x')
s.removesuffix('World')
s.removesuffix('')
'-'.join(['a', 'b'])
'-'.join('abc')
'-'.join([1])
'-'.join([])
','.join(d)
'a'.ljust(3) ~ '|'
'a'.rjust(3, '*')
'ab'.center(5, '*')
'ab'.center(6)
'a'.center(4, '*')
'abc'.center(4, '*')
'a'.ljust(3, 'xy')
'a'.ljust(3, '\u00e9')
'42'.zfill(5)
'-42'.zfill(5)
'+42'.zfill(5)
'abc'.zfill(2)
'abc'.isalpha()
'ab1'.isalpha()
'ab1'.isalnum()
'12'.isdigit()
'\u00b2'.isdigit()
'\u00b2'.isdecimal()
'\u00bd'.isnumeric()
'\u0663'.isdecimal()
''.isdigit()
' \t'.isspace()
'aB'.islower()
'ab1'.islower()
'AB1'.isupper()
'1'.isupper()
'Ab Cd'.istitle()
'\u01c5'.istitle()
'ab'.isidentifier()
'a b'.isidentifier()
'ab'.isascii()
'\u00e9'.isascii()
'a\n'.isprintable()
'a'.isprintable()
'a\tb'.expandtabs(4)
'a\tb\tc'.expandtabs()
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format('x', 2)
'{a} {b}'.format(a=1, b=none)
'{{}}'.format()
'{}'.format()
'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c')
'{:05d} {:+d} {:,}'.format(42, 7, 1234567)
'{:.2f} {:.3e} {:g}'.format(3.14159, 12345.678, 0.0001)
'{!r}'.format('a')
'{0[a]} {1.x}'.format({'a': 1}, n)
'{0[0]}'.format([5])
'%s %s' % (1, 'a')
'%s' % 'a'
'%d' % 3.9
'%d' % 'a'
'%5d|%-5d|%05d|%+d' % (1, 2, 3, 4)
'%x %X %o' % (255, 255, 8)
'%x' % 1.5
'%f %.2f %e %g' % (1.5, 1.234, 1500.0, 0.00001)
'%5.1f|' % 2.25
'%r %r' % ('a', none)
'%%' % ()
'%c%c' % (65, 'b')
'%(a)s %(b)d' % {'a': 'x', 'b': 3}
'%s' % [1, 2]
'%s %s' % ('a',)
'%s' % ('a', 'b')
'a' % 1
'%10s|%-10s|' % ('a', 'b')
'%.2s' % 'abc'
'%s' | format('a')
'%s-%s' | format('a', 1)
'%(x)s' | format(x=1)
s | length
u | length
xs | length
none | length
5 | length
xs | first
xs | last
e | first
[] | first
[] | last
s | first
s | last
d.items() | last
xs | join
xs | join(', ')
ws | join('-')
people | join(', ', attribute='name')
people | join(', ', 'name')
none | join
5 | join
xs | sum
[1.5, 2] | sum
people | map(attribute='age') | sum
[1, 2] | sum(start=10)
[[1], [2]] | sum(start=[])
people[:2] | sum(attribute='age')
xs | sort
xs | sort(reverse=true)
ws | sort
ws | sort(case_sensitive=true)
ws | sort(true)
people[:3] | sort(attribute='name') | map(attribute='name') | list
people[:3] | sort(attribute='age,name') | map(attribute='name') | list
people | sort(attribute='age')
mixed | sort
[[2, 1], [1, 2]] | sort(attribute=0)
[[2, 1], [1, 2]] | sort(attribute='1')
d | dictsort
d | dictsort(true)
d | dictsort(reverse=true)
{'a': 2, 'b': 1} | dictsort(by='value')
{'a': 2, 'b': 1} | dictsort(false, 'value')
{'a': 2} | dictsort(by='x')
{1: 1, 'a': 1} | dictsort
xs | min
xs | max
ws | min
ws | max
ws | max(case_sensitive=true)
people[:3] | max(attribute='age')
[] | min
xs | unique
xs | unique | list
ws | unique | list
ws | unique(case_sensitive=true) | list
mixed | unique | list
[1, true, 1.0, '1'] | unique | list
[[1], [1]] | unique | list
[(1, 2), (1, 2)] | unique | list
people | unique(attribute='age') | map(attribute='name') | list
people[:3] | groupby('age')
people[:3] | groupby('age') | map(attribute='grouper') | list
people[:3] | groupby('age') | map(attribute='list') | map('length') | list
people | groupby('missing')
people | groupby('missing', default='x') | length
ws | groupby(0)
xs | map('string') | list
xs | map('string') | join
ws | map('upper') | join(',')
ws | map('replace', 'b', 'x') | list
people | map(attribute='tags') | list
people | map(attribute='tags', default='none') | list
people | map(attribute='tags.0', default='-') | list
people | map(attribute='tags.0') | list
xs | map('nope') | list
xs | map(attribute='x') | list
xs | select | list
xs | select('odd') | list
xs | select('gt', 1) | list
xs | select('in', [1, 2]) | list
xs | reject('odd') | list
mixed | select('string') | list
mixed | reject('none') | list
mixed | select('number') | list
mixed | select('nope') | list
people | selectattr('tags') | map(attribute='name') | list
people | selectattr('tags', 'defined') | map(attribute='name') | list
people | selectattr('age', 'equalto', 30) | map(attribute='name') | list
people | selectattr('age', '==', 30) | map(attribute='name') | list
people | selectattr('age', 'none') | map(attribute='name') | list
people | rejectattr('tags') | map(attribute='name') | list
people | rejectattr('age', 'eq', 30) | map(attribute='name') | list
people | selectattr('name', 'in', ['Ann', 'Cy']) | list | length
people | selectattr | list
xs | reverse
xs | reverse | list
s | reverse
u | reverse
d | reverse | list
5 | reverse
xs | list
s | list
5 | list
none | list
xs | batch(2) | list
xs | batch(3, '-') | list
xs | batch(0) | list
xs | slice(3) | list
xs | slice(3, 'x') | list
xs | slice(0) | list
d | items
d | items | list
nothing | items | list
'3' | int
'3.9' | int
' 3 ' | int
'x' | int
'x' | int(5)
'x' | int(default=none)
'0x1f' | int(base=16)
'1f' | int(0, 16)
'0b11' | int(0, 0)
'1_000' | int
'9' * 30 | int
none | int
nothing | int
2.9 | int
-2.9 | int
true | int
[1] | int
'1e3' | int
'nan' | int
'inf' | int
'3' | float
'x' | float
'x' | float(1.5)
'1_0.5' | float
' 2.5 ' | float
'nan' | float
'-inf' | float
'1e400' | float
none | float
3 | float
true | float
-5 | abs
2.5 | abs
'a' | abs
2.5 | round
3.5 | round
-2.5 | round
2.675 | round(2)
1234.5 | round(-2)
42 | round
42 | round(-1)
45 | round(-1)
2.1 | round(method='ceil')
2.9 | round(0, 'floor')
2.15 | round(1, 'ceil')
2.1 | round(method='x')
'a' | round
nothing | default('x')
nothing | default
none | default('x')
none | default('x', true)
'' | default('x', boolean=true)
0 | d(1, true)
nothing.x | default('y')
d.zz.yy | default('y')
'a' | indent
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, blank=true)
'a\nb' | indent('> ')
'a\nb' | indent('> ', first=true)
'a\r\nb\n' | indent(1)
'' | indent(2, true)
'a' | center(5) ~ '|'
'a' | center ~ '|'
'hello big world' | truncate(9)
'hello big world' | truncate(9, true)
'hello big world' | truncate(9, false, '..', 0)
'hello big world' | truncate(12)
'hello' | truncate(2)
'hello big world' | wordcount
"it's a_b 12" | wordcount
'a b/c?d=\u00e9&f' | urlencode
{'a': 1, 'b c': '\u00e9/'} | urlencode
[('a', 1), ('b', 2)] | urlencode
d.C | escape
d.C | e
d.C | forceescape
d.C | safe
d.C | e ~ '<'
'<' ~ d.C | e
1 | string
1.0 | string
none | string
nothing | string
[1, 'a'] | string
d.C | string
xs | nope
xs | tojson
d | tojson(indent=2)
d | tojson(indent=0)
d | tojson(indent='\t')
d | tojson(2)
d | tojson(true)
d | tojson(ensure_ascii=true)
d | tojson(sort_keys=true)
d | tojson(sort_keys=true, indent=1)
d | tojson(separators=(',', ':'))
d | tojson(separators=[', ', '='])
d | tojson(indent=4, separators=(',', ': '))
d | tojson(none, 2)
d | tojson(nope=1)
u | tojson
u | tojson(ensure_ascii=true)
'\x00\x1f\x7f\u2028"\\/\b\f' | tojson
'\x7f\u0080' | tojson(ensure_ascii=true)
1.0 | tojson
big | tojson
tiny | tojson
-0.0 | tojson
'nan' | float | tojson
'inf' | float | tojson
none | tojson
true | tojson
nothing | tojson
[nothing] | tojson
(1, 2) | tojson
range(3) | tojson
d.items() | tojson
xs | map('string') | tojson
[] | tojson(indent=2)
{} | tojson(indent=2)
[[], {}, [{}]] | tojson(indent=2)
{'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true)
messages | tojson
messages[1] | tojson(indent=2)
d.C | tojson | safe
namespace(a=1).a
namespace(a=1).b
namespace({'a': 1}, b=2).b
namespace(a=1)['a']
dict(a=1, b=2)
dict([('a', 1)])
dict({'a': 1}, b=2)
dict(xs)
joiner()() ~ '|'
cycler('a', 'b').current
cycler()
strftime_now('%%')
strftime_now('') ~ '|'
strftime_now('%Y') | int > 2000
strftime_now('%d %b %Y') | length
strftime_now()
raise_exception('why')
raise_exception()
raise_exception(1)
n is number
n is integer
f is float
f is integer
t is number
t is integer
t is boolean
t is true
no is false
1 is true
n is odd
n is even
n is divisibleby 7
n is divisibleby(3)
'a' is odd
s is string
s is iterable
n is iterable
s is sequence
xs is sequence
d is sequence
d is mapping
d is iterable
xs is mapping
none is none
nil is none
nothing is none
nothing is undefined
nothing is iterable
nothing is string
d.items() is iterable
d.items() is sequence
range(2) is sequence
(xs | map('string')) is iterable
(xs | map('string')) is sequence
s is lower
'abc' is lower
'ABC' is upper
s.upper is callable
range is callable
namespace is callable
n is callable
n is eq 7
n is equalto(7)
n is sameas n
1 is sameas true
none is sameas none
n is gt 5
n is ge 7
n is lt 5
n is le 7
n is ne 5
n is greaterthan 5
n is lessthan 9
n is == 7
n is in [7]
'a' is in 'abc'
n is not in [7]
n is not none
not n is none
n is defined and n is odd
n is odd or false
'length' is filter
'nope' is filter
'odd' is test
s is escaped
n is nope
n is odd is even
n is divisibleby 7 and t
loop
loop.index
caller
varargs
true and True
none is None
True
False
None
a.b.c
'a' 'b' "c"
'\x41\u0042\U00000043\103\n\'\"\\\q'
'\N{DASH}'
'\u12'
'multi
line'
"a{{ b }}%}"
1.
.5
1.e3
1 +
(1
1)
[1,]
[1,,]
{'a': 1,}
(,)
f(
xs[
xs[1:2:3:4]
'a
1 if
if 1
1 2
a b
@
a = 1
a == 
!a
a ? b : c
a && b
x|
x|1
is defined
n is
d.
d.'a'
d.1
[x for x in xs]
{**d}
f(**d)
f(*xs, **d)
s.replace(*['l', 'L'])
dict(**d)
dict(**{'a': 1})
range(*[1, 3]) | list
s.upper(1)
s.strip(1)
s.split(1)
s.nope()
(s)()
5()
lambda x: x
n in xs and n not in ws or t
- n
+ n
+ 'a'
-s
not n
-n | abs
-7 | abs
-'a'
(-7) | abs
2 ** 2 | string
1 + 2 | string
'a' ~ 1 + 2
1 + 2 ~ 'a'
1 * 2 ~ 3
'a' ~ 'b' == 'ab'
n == 7 and f == 2.5
xs | length > 3
xs | length + 1
xs|first+1
not xs
xs[n - 6]
d[ws[0]]
d['a'][0]
d['a'][1]['x']
(d)['b']
[1, 2][0]
{'a': 5}.a
{'a': 5}['a']
'abc'[1]
(1, 2)[0]
s.split(', ')[0].upper().lower() | title
s.split(', ') | map('lower') | join('+') | upper
"%s" | format(s) | replace('o', '0')
people | selectattr('age', 'eq', 30) | first
(people | first).name
people | map(attribute='name') | map('lower') | sort | join(' ')
people[0]['tags'] | join
1, 2
1,
xs == [3, 1, 2, 1]
(1, 2) == [1, 2]
[1, 2] == (1, 2)
'a' == 'a' == 'a'
1 is integer and 1.0 is float
1.0 == 1 == true
'%s' % nothing
'%s' % none
'%s' % true
'a'.join(ws)
ws.copy()
xs.extend([1])
xs | groupby
d | groupby('x')
nothing | tojson(indent=2)
nothing | upper
none | upper
none | trim
5 | trim
5 | upper
true | lower
[1] | replace('1', '2')
xs | join(nothing)
xs | join(5)
none.x
true.x
1.5.x
""".strip("\n")

# Whole templates: statements, white space, scopes.
TEMPLATES = [
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in xs %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x, loop.index) }} {% endfor %}",
    "{% for x in xs if x > 1 %}{{ x }}{{ loop.index }}/{{ loop.length }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in xs if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in [] %}{% else %}{{ loop is defined }}{% endfor %}",
    "{% for x in nothing %}a{% else %}b{% endfor %}",
    "{% for x in 5 %}a{% endfor %}",
    "{% for x in none %}a{% endfor %}",
    "{% for x in s[:3] %}<{{ x }}>{% endfor %}",
    "{% for k in d %}{{ k }},{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d | items %}{{ k }}{% endfor %}",
    "{% for k, v in d | dictsort %}{{ k }}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }},{% endfor %}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for a, b in [1] %}{{ a }}{% endfor %}",
    "{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in (1, 2) + (3,) %}{{ x }}{% endfor %}",
    "{% for x in xs[::-1] %}{{ x }}{% endfor %}",
    "{% for x in range(3) %}{% for y in range(x) %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in range(3) %}{% set outer = loop %}{% for y in range(2) %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in range(3) %}{% break %}{% else %}never{% endfor %}|",
    "{% for x in range(3) %}{% for y in range(3) %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% break %}",
    "{% continue %}",
    "{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for node in tree recursive %}{{ node.v }}{% if node.kids %}({{ loop(node.kids) }}){% endif %}{{ loop.depth }}{% endfor %}",
    "{% for node in tree recursive %}{{ loop.depth0 }}{{ node.v }}{{ loop(node.kids) if node.kids }}{% else %}-{% endfor %}",
    "{% for node in tree %}{{ loop(node.kids) }}{% endfor %}",
    "{% for node in tree recursive %}{{ loop() }}{% endfor %}",
    "{% for x in xs %}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% for y in xs %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% if no %}{% set x = 2 %}{% endif %}{{ x }}|{{ x is defined }}",
    "{% set ns = namespace(n=0) %}{% for y in xs %}{% set ns.n = ns.n + y %}{% endfor %}{{ ns.n }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = [ns.a] %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace(a=1) %}{% set ns.a.b = 1 %}",
    "{% set d.x = 1 %}",
    "{% set nothing.x = 1 %}",
    "{% set ns = {} %}{% set ns.x = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = 'xy' %}{{ a }}{{ b }}",
    "{% set a, b = 1 %}",
    "{% set a, b = [1] %}",
    "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}",
    "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x | upper %}a{{ s }}{% endset %}[{{ x }}]",
    "{% set x | trim | replace('a', 'b') %}  aa {% endset %}[{{ x }}]",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set x = 1 if no %}{{ x is defined }}",
    "{% set x %}",
    "{% set true = 1 %}",
    "{% set 1 = 1 %}",
    "{% set x == 1 %}",
    "{% set loop = 5 %}{{ loop }}",
    "{% set range = 5 %}{{ range }}",
    "{% set s = s ~ '!' %}{{ s }}",
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}",
    "{% if n > 9 %}a{% elif n > 3 %}b{% else %}c{% endif %}",
    "{% if nothing %}a{% else %}c{% endif %}",
    "{% if nothing.x %}a{% endif %}",
    "{% if xs %}a{% endif %}{% if [] %}b{% endif %}{% if d %}c{% endif %}{% if 0.0 %}d{% endif %}{% if '0' %}e{% endif %}",
    "{% if 1, 2 %}a{% endif %}",
    "{% if t %}{% if no %}a{% else %}b{% endif %}{% endif %}",
    "{% if %}a{% endif %}",
    "{% if t %}a{% else %}b{% else %}c{% endif %}",
    "{% if t %}a{% endfor %}",
    "{% endif %}",
    "{% else %}",
    "{% nope %}",
    "{% %}",
    "{% for x in xs %}",
    "{% for x xs %}{% endfor %}",
    "{% for in xs %}{% endfor %}",
    "{% for 1 in xs %}{% endfor %}",
    "{% for x.y in xs %}{% endfor %}",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c=3) }}|{{ m(b=5, a=4) }}|{{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}",
    "{% macro m(a=n, b=a * 2) %}{{ a }},{{ b }}{% endmacro %}{{ m() }}|{{ m(1) }}",
    "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{{ varargs | length }}{% endmacro %}{{ m(1, 2, 3) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a, b) %}{{ a }}{% endmacro %}{{ m(1, 2, a=2) }}",
    "{% macro m(a=1, b) %}{{ a }}{% endmacro %}",
    "{% macro m(a, a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(x) %}{{ x }}{{ y }}{% endmacro %}{% set y = 5 %}{{ m(1) }}",
    "{% set y = 1 %}{% macro m() %}{{ y }}{% endmacro %}{% set y = 2 %}{{ m() }}",
    "{% macro m() %}{% set s = 'inner' %}{{ s }}{% endmacro %}{{ m() }}{{ s }}",
    "{% for x in xs %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro m() %}  a  {% endmacro %}[{{ m() | trim }}]{{ m() | length }}{{ m() is string }}",
    "{% macro m() %}x{% endmacro %}{% if m() == 'x' %}same{% endif %}{{ m() ~ 'y' }}{{ m() + 'z' }}",
    "{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}in {{ n }}{% endcall %}",
    "{% macro m() %}{{ caller('a', b=1) }}{% endmacro %}{% call(x, b=2, c=3) m() %}{{ x }}{{ b }}{{ c }}{% endcall %}",
    "{% macro m(k) %}{{ k }}{{ caller() }}{{ caller() }}{% endmacro %}{% call m('k') %}<{{ s }}>{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% if caller %}c{% endif %}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% call nothing() %}{% endcall %}",
    "{% call s %}{% endcall %}",
    "{% macro m(caller) %}{{ caller }}{% endmacro %}{{ m(1) }}",
    "{% filter upper %}a{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}a{{ s }}{% endfilter %}",
    "{% filter nope %}{% endfilter %}",
    "{% filter upper %}{% set x = 1 %}{% endfilter %}{{ x is defined }}",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with a, b = 1, 2 %}{{ a }}{% endwith %}",
    "{% raw %}{{ x }}{% if %}{# y #}{% endraw %}",
    "a {%- raw -%}  {{ x }}  {%- endraw -%} b",
    "{% raw %}\n a\n{% endraw %}\nb",
    "{% raw %}",
    "{% generation %}{{ s }}{% endgeneration %}\nx",
    "{% generation %}{% set x = 1 %}{% endgeneration %}{{ x is defined }}",
    "{% generation %}",
    "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% do xs.append(1) %}",
    "{% print s %}",
    "{% debug %}",
    "{% trans %}x{% endtrans %}",
    "{# a #}b{# c",
    "{{ s",
    "{% if t",
    "{{",
    "{{ }}",
    "{{}}",
    "{{ s }",
    "}} %} #}",
    "{ { s } }",
    "{{ '}}' }}{{ '%}' }}",
    "{{ {'a': {'b': 1}}.a.b }}",
    "{{ {'a': {'b': 1}} }}",
    "{{-s-}} {{- s -}} x",
    "{{+s+}}",
    "{{ s -}}\n  x",
    "a\n  {{- s }}\n",
    "a\n\n",
    "a\n\n\n",
    "\n\na",
    "a\r\nb\rc\n",
    "  {% if t %}  \n  a\n  {% endif %}  \nb",
    "  {%+ if t %}\n  a\n  {%+ endif %}\nb",
    "{% if t -%}\n  a\n{%- endif %}\nb",
    "{% if t +%}\n  a\n{% endif +%}\nb",
    "{%- if t -%}  a  {%- endif -%}  b",
    "\t{# c #}\na",
    "\t{#- c -#}\n a",
    "\t{#+ c +#}\n a",
    "a {# c #}\nb",
    "x{% if t %}\ny{% endif %}\nz",
    "x\n{% if t %}\n\ny\n\n{% endif %}\n\nz\n",
    "{{ s }}\n{{ s }}\n\n{{ s }}",
    "{% set x = 1 %}\n{% set y = 2 %}\n{{ x }}{{ y }}",
    "{% set x = 1 %}   {% set y = 2 %}   {{ x }}",
    "   {% set x = 1 %}   {% set y = 2 %}",
    "\u00a0{% if t %}a{% endif %}",
    "a\u2028  {% if t %}b{% endif %}",
    "{% for m in messages -%}\n{{ m.role }}\n{%- endfor %}",
    "{%for m in messages%}{{m.role}}{%endfor%}",
    "{%-for m in messages-%} {{m.role}} {%-endfor-%}",
    "{% for m in messages\n   if m.role == 'user' %}{{ m\n.content }}{% endfor %}",
    "line one\n{{ nothing.x }}\n",
    "line one\n\n{% for x in xs %}\n{{ x }}\n{{ nothing.x }}\n{% endfor %}",
    "{% macro m() %}\n\n{{ nothing.x }}\n{% endmacro %}\n\n\n{{ m() }}",
    "\n\n{% if t %}\n{{ raise_exception('line four: ' ~ s) }}\n{% endif %}",
    "\n{{ s | nope }}",
    "\n\n{{ 1 + 'a' }}",
    "\n\n{{ 1 +\n 'a' }}",
    "\n{% set x = nothing.y %}",
    "\n{% for x in\n 5 %}{% endfor %}",
    "\n\n{% if nothing.x %}\n{% endif %}",
    "a\n{% if t %}\nb\n{% endfor %}",
    "a\n{{ 1 2 }}",
    "a\n\n{% unknown %}",
    "a\n{% raw %}\nb",
    "a\n{# b\nc",
    "a\n{{ 'b\n",
    "a\n{{ @ }}",
    "{% set x = cycler('a', 'b') %}{{ x.next() }}{{ x.next() }}{{ x.next() }}{{ x.current }}{{ x.reset() }}{{ x.current }}",
    "{% set j = joiner('; ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}",
    "{% set f = s.upper %}{{ f() }}",
    "{% set f = range %}{{ f(3) | list }}",
    "{% set loud = {'a': s.upper} %}{{ loud.a() }}",
    "{% set g = xs | map('string') %}{{ g | join }}|{{ g | join }}",
    "{% set g = xs | select('odd') %}{{ g | list }}{{ g | list }}",
    "{% set g = xs | reverse %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% endfor %}",
    "{% set g = xs | map('string') %}{{ '1' in g }}{{ '3' in g }}",
    "{% for x in xs | map('string') %}{{ loop.index }}{{ loop.last }}{% endfor %}",
    "{% for x in xs | map('string') %}{{ loop.length }}{% endfor %}",
    "{% for x in xs | batch(2) %}{{ x }}{% endfor %}",
    "{% for g in people[:3] | groupby('age') %}{{ g.grouper }}:{{ g.list | length }} {% endfor %}",
    "{% for age, group in people[:3] | groupby('age') %}{{ age }}:{{ group | map(attribute='name') | join }} {% endfor %}",
    "{% set x = namespace(l=[]) %}{% for i in range(3) %}{% set x.l = x.l + [i] %}{% endfor %}{{ x.l }}",
    "{% set ns = namespace(found=false) %}{% for m in messages if not ns.found %}{% set ns.found = true %}{{ m.role }}{% endfor %}",
    "{% set ns = namespace(a=1) %}{{ ns.a }}{{ ns['a'] }}{{ ns.b is defined }}{{ ns is mapping }}",
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0].content %}{% else %}{% set system = false %}{% endif %}{{ system }}",
    "{% if messages[0].role != 'system' and not messages[0].name %}a{% endif %}",
    "{{ messages[-1].tool_calls | length }}{{ messages[-1].tool_calls is defined }}{{ messages[0].tool_calls is defined }}",
    "{{ messages | selectattr('role', 'equalto', 'assistant') | map(attribute='content') | list | last }}",
    "{{ messages[0]['content'][0]['text'] is defined }}",
    "{{ messages[0].content.text }}|{{ messages[0].content['text'] }}",
    "{% for m in messages %}{% if loop.index0 == messages | length - 1 %}last{% endif %}{% endfor %}",
    "{% for m in messages %}{{ (loop.index0 % 2 == 0) == (m.role == 'user') }}{% endfor %}",
    "{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages | length }}",
    "{% set content = 'a<think>b</think>c' %}{{ content.split('</think>')[-1] }}{{ content.split('</think>')[0].split('<think>')[1] }}",
    "{% if 'x' in s or 'W' in s %}y{% endif %}{{ 'Hello' in s.split(', ') }}",
    "{% if tools is defined and tools %}a{% elif tools is not defined %}b{% endif %}",
    "{% if tools is not none %}a{% endif %}",
    "{{ bos_token }}|{{ bos_token is defined }}",
    "{% set dt = strftime_now('%Y-%m-%d') %}{{ dt | length }}",
    "{% set x = {'a': 1, **d} %}",
    "{% for i in range(100001) %}{% endfor %}",
    "{% for i in range(100000) %}{% if loop.last %}{{ i }}{% endif %}{% endfor %}",
]

EXPRESSIONS = ["{{ " + line + " }}" for line in PRINTED.replace("'multi\nline'", "'multi\0line'").split("\n")] + TEMPLATES
EXPRESSIONS = [source.replace("\0", "\n") for source in EXPRESSIONS]
