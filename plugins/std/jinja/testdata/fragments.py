"""Statements and pieces of tags for make_expressions.py."""

STATEMENTS = [
    # scopes
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% if t %}{% set x = 1 %}{% endif %}{{ x }}", "{% if no %}{% set x = 1 %}{% endif %}{{ x is defined }}|{{ x }}",
    "{% if no %}{% set s = 1 %}{% endif %}{{ s }}", "{% if t %}{% set s = 1 %}{% else %}{% set s = 2 %}{% endif %}{{ s }}",
    "{% for i in l %}{% if i == 1 %}{% set y = i %}{% endif %}{{ y }},{% endfor %}{{ y is defined }}",
    "{% set y = 0 %}{% for i in l %}{{ y }}{% if i == 1 %}{% set y = i %}{% endif %}{{ y }},{% endfor %}{{ y }}",
    "{% for i in l %}{{ y is defined }}{% set y = i %}{{ y }}{% endfor %}", "{% for s in l %}{{ s }}{% endfor %}{{ s }}",
    "{% set ns = namespace(c=0) %}{% for i in l %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}{{ ns }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{% set ns.z = ns.a + ns.b %}{{ ns.z }}{{ ns.nope is defined }}{{ ns['a'] }}{{ ns.nope }}",
    "{% set ns.x = 1 %}", "{% set d.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set ns = namespace() %}{{ ns.q.r }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set a, b = 1 %}", "{% set a, b = 'xyz' %}", "{% set (a, b) = (1, 2) %}{{ a ~ b }}",
    "{% set x %}body {{ n }}{% endset %}{{ x }}|{{ x is string }}", "{% set x | upper %}body {{ n }}{% endset %}{{ x }}", "{% set x | replace('o', 0) | upper %}foo{% endset %}{{ x }}",
    "{% set x = 1, 2 %}{{ x }}", "{% set x = 1 if no %}{{ x }}|{{ x is defined }}", "{% set ns = namespace() %}{% set ns.a %}in{% endset %}{{ ns.a }}",
    "{% with a = 1, b = n %}{{ a + b }}{% endwith %}{{ a is defined }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}",
    # loops
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}",
    "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %}", "{% for i in l %}{{ loop.cycle() }}{% endfor %}", "{% for i in l %}{{ loop.nope }}{{ loop.nope.x }}{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.length }}{{ loop.last }}{% else %}none{% endfor %}", "{% for i in l if i > 9 %}{{ i }}{% else %}none{% endfor %}", "{% for i in el %}x{% else %}empty{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for a, b in l %}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for k, v in d.items() if v %}{{ loop.previtem }}{{ k }}{% endfor %}", "{% for c in s %}{{ c }}-{% endfor %}", "{% for i in missing %}x{% else %}e{% endfor %}", "{% for i in n %}{% endfor %}", "{% for i in none %}{% endfor %}", "{% for i in d.nope.x %}{% endfor %}",
    "{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(5) %}{% if i is odd %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in l %}{% break %}{% else %}e{% endfor %}", "{% for i in l %}{% continue %}{% else %}e{% endfor %}",
    "{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{{ loop.index }}{% endfor %}", "{% break %}", "{% continue %}", "{% for i in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for i in nested recursive %}{{ i if i is number else loop(i) }}.{% endfor %}", "{% for i in nested recursive %}{{ loop.depth }}{% if i is iterable %}[{{ loop(i) }}]{% endif %}{% endfor %}", "{% for i in l %}{{ loop(l) }}{% endfor %}", "{% for i in l recursive %}{{ loop() }}{% endfor %}",
    "{% for i in l %}{% set loop = 1 %}{% endfor %}", "{% for loop in l %}{% endfor %}", "{% for i in l %}{% for j in ls %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for i in l %}{{ loop }}{% endfor %}", "{% for i in l %}{{ loop|length }}{% endfor %}",
    "{% set ns = namespace(on=true) %}{% for i in range(6) if ns.on %}{{ i }}{% if i == 2 %}{% set ns.on = false %}{% endif %}{% endfor %}", "{% for u in users|sort(attribute='age') %}{{ u.name }}{% endfor %}", "{% for i in l|reverse %}{{ i }}{{ loop.length }}{% endfor %}",
    "{% for g in users|groupby('age') %}{{ g.grouper }}:{{ g.list|length }}{{ g[0] }};{% endfor %}", "{% for a, b in users|groupby('age') %}{{ a }}{{ b|map(attribute='name')|join }};{% endfor %}", "{% for i in l|map('string') %}{{ loop.last }}{{ i }}{{ loop.revindex }}{% endfor %}",
    "{% for m in users %}{% if loop.index0 > 0 and users[loop.index0 - 1].age == m.age %}same{% else %}{{ m.name }}{% endif %}{% endfor %}", "{% for x in [1, 2] %}{% for x in [3] %}{{ x }}{% endfor %}{{ x }}{% endfor %}",
    # macros
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}", "{% macro m(a, a2=a) %}{{ a2 }}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{{ caller(x) }}{% endmacro %}{% call(y) m(5) %}[{{ y }}]{% endcall %}", "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ n }}{% endcall %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}",
    "{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m() }}", "{{ m(1) }}{% macro m(a) %}{{ a }}{% endmacro %}", "{% macro m() %}{{ g }}{% endmacro %}{% set g = 1 %}{{ m() }}{% set g = 2 %}{{ m() }}", "{% macro m() %}{{ q }}{% endmacro %}{% for q in l %}{{ m() }}{% endfor %}",
    "{% for q in l %}{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro a() %}{% macro b() %}B{% endmacro %}{{ b() }}{% endmacro %}{{ a() }}{{ b is defined }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m() %}{% set x = 1 %}{{ x }}{% endmacro %}{{ m() }}{{ x is defined }}",
    "{% macro m(a, b) %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.caller }}{% endmacro %}{{ m(1, 2) }}{{ m }}", "{% set ns = namespace(v=0) %}{% macro inc() %}{% set ns.v = ns.v + 1 %}{% endmacro %}{{ inc() }}{{ inc() }}{{ ns.v }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'x': 2}) }}{{ m(*1) }}",
    "{% macro m(x) %}{% if x is mapping %}{% for k, v in x|items %}{{ k }}:{{ m(v) }},{% endfor %}{% elif x is iterable and x is not string %}[{% for i in x %}{{ m(i) }};{% endfor %}]{% else %}{{ x }}{% endif %}{% endmacro %}{{ m(dd) }}{{ m(mixed) }}",
    "{% call missing() %}{% endcall %}", "{% call 1 %}{% endcall %}", "{% macro m() %}{{ s }}{% set s = 1 %}{{ s }}{% endmacro %}{{ m() }}{{ s }}", "{% macro m(s) %}{% if s %}{% set s = s ~ '!' %}{% endif %}{{ s }}{% endmacro %}{{ m('a') }}{{ m('') }}",
    # blocks of text
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aa{% endfilter %}", "{% filter nope %}{% endfilter %}", "{% generation %}gen {{ n }}{% set gx = 1 %}{% endgeneration %}{{ gx is defined }}", "{% raw %}{{ x }}{% y %}{% endraw %}",
    "{%- raw -%}  {{ x }}  {%- endraw -%}  z", "{% raw %}", "{% raw %}x", "a {# c #} b", "a {#- c -#} b", "{#", "{# x", "a\n  {# c #}\nb", "{% block b %}x{{ n }}{% endblock %}{{ self.b() }}", "{% block b %}x{% endblock b %}", "{% block a-b %}{% endblock %}", "{% for i in l %}{% block c scoped %}{{ i }}{% endblock %}{% endfor %}",
    "{% for i in l %}{% block c %}{{ i }}{% endblock %}{% endfor %}", "{% autoescape true %}{{ '<a>' }}{{ '<a>'|safe }}{% set x = '<' %}{{ x ~ '>' }}{% macro m() %}<i>{{ x }}{% endmacro %}{{ m() }}{% endautoescape %}{{ '<a>' }}", "{% print 1, 2 %}", "{% print %}",
    "{% include 'x' %}", "{% include 'x' ignore missing %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% from 'x' import _y %}", "{% extends 'x' %}", "{% if no %}{% include 'x' %}{% endif %}ok",
    "{% if n %}a{% elif t %}b{% else %}c{% endif %}", "{% if z %}a{% elif t %}b{% else %}c{% endif %}", "{% if missing %}a{% else %}b{% endif %}", "{% if d.nope.x %}{% endif %}", "{% if no %}{{ s|nope }}{% endif %}ok", "{% if t %}{{ s|nope }}{% endif %}", "{% if t %}{{ s is nope }}{% endif %}", "{% for i in el %}{{ s|nope }}{% endfor %}",
    "{% if n is defined and n %}{{ n }}{% endif %}", "{%- if t -%}\n a \n{%- else -%}\n b \n{%- endif -%}", "{% if t: %}x{% endif %}", "{% for i in l: %}{{ i }}{% endfor %}", "{% set x = raise_exception('boom ' ~ n) %}", "{{ raise_exception() }}", "{{ strftime_now(1) }}",
    # syntax errors
    "{{", "{{ }}", "{{ 1", "{{ 1 }", "{% %}", "{% if %}", "{% if n %}", "{% if n %}{% endfor %}", "{% for %}", "{% for i in l %}", "{% for i l %}", "{% endif %}", "{% else %}", "{% nope %}", "{% set %}", "{% set x %}", "{% set 1 = 2 %}", "{% set x y %}", "{% set none = 1 %}", "{% set x.y.z = 1 %}", "{% set [a] = 1 %}",
    "{{ 1 + }}", "{{ a b }}", "{{ (1 }}", "{{ [1 }}", "{{ {1 }}", "{{ {'a' 1} }}", "{{ 1) }}", "{{ (1] }}", "{{ a. }}", "{{ a.'b' }}", "{{ a[ }}", "{{ a[] }}", "{{ f(a=1, 2) }}", "{{ f(*a, *b) }}", "{{ f(**a, **b) }}", "{{ f(a=1, a=2) }}", "{{ 'abc }}", "{{ ! }}", "{{ a $ b }}", "{{ a | }}", "{{ a | 1 }}", "{{ a is }}", "{{ a is 1 }}",
    "{{ a is defined is none }}", "{{ not }}", "{{ a if }}", "{{ a if b else }}", "{{ a not b }}", "{{ 1 = 2 }}", "{{ '\\x4' }}", "{{ '\\u12' }}", "{{ '\\N{DASH}' }}", "{{ '\\", "{{ a; b }}", "{{ 0b12 }}", "{{ 012 }}", "{{ 1.e5 }}", "{{ 1e }}", "{{ 1__0 }}", "{{ a.1.2 }}", "{{ . }}", "{{ é }}", "{{ 1é }}", "{{ a² }}",
    "\n\n{{ nope( }}", "a\nb\n{% if x %}\nc", "{% macro %}", "{% macro m %}", "{% macro m( %}", "{% macro m(1) %}{% endmacro %}", "{% call %}", "{% filter %}", "{% with a %}", "{% block %}", "{% raw %}{% endraw", "{% generation %}", "{% endgeneration %}", "{% for i in l recursive if i %}{% endfor %}", "{% if a %}{% elif %}{% endif %}", "{% if a %}{% else %}{% else %}{% endif %}",
    "{% for i in l %}{% else %}{% else %}{% endfor %}", "{%", "{% set x = %}", "{% set x = 1", "{{ 'a' 1 }}", "{{ x|f.g }}", "{{ - }}", "{{ 1 if 2 if 3 }}", "{{ a.b.c( }}", "{{ [1,,2] }}", "{{ (,) }}", "{{ {,} }}", "{{ a[1:2:3:4] }}", "{{ {} {} }}", "{% for a.b in l %}{% endfor %}", "{% for i in 1, 2, 3 %}{{ i }}{% endfor %}", "{% if 1, %}x{% endif %}",
    "{{ 1, 2 }}", "{{ 1, }}", "{{ () }}", "{{ (1,) }}", "{{ {} }}", "{{ {'a': {'b': {}}} }}", "{{ {'a': 1}}}", "{{ '}}' }}", "{% set x = '%}' %}{{ x }}", "{{ \"a\" \"b\" 'c' }}", "{{ true }}{{ True }}{{ none }}{{ None }}{{ false }}", "{{ TRUE }}", "{{ nan }}", "{{ inf }}",
]

# Concatenated at random: white space control, broken and whole tags.
PIECES = [
    " ", "\n", "  \n", "\t", "text", " a ", "\n\n", "\r\n", "x\n  ", "{{ n }}", "{{- n }}", "{{ n -}}", "{{- s -}}", "{{+ n }}", "{% set a = 1 %}", "{%- set a = 2 %}", "{% set a = 3 -%}", "{%+ set a = 4 %}", "{% set a = 5 +%}", "{%- set a = 6 -%}",
    "{# c #}", "{#- c #}", "{# c -#}", "{#+ c +#}", "{# a\nb #}", "{% if n %}", "{%- if z %}", "{% if n -%}", "{% endif %}", "{%- endif %}", "{% endif -%}", "{% else %}", "{%- else -%}", "{% for i in l %}", "{%- for i in l -%}", "{% endfor %}", "{%- endfor -%}",
    "{{ a }}", "{{ i }}", "{% raw %}", "{% endraw %}", "{%- raw -%}", "{%- endraw -%}", "{% macro m() %}", "{% endmacro %}", "{{ loop.index }}", "{", "}", "%}", "}}", "{%", "{{", "\u00a0", "\x0b", "{% break %}", "{% generation %}", "{% endgeneration %}", "{{ missing }}", "{%\n set\n b = 1\n%}", "{{\n n\n}}", "-", "é",
]
