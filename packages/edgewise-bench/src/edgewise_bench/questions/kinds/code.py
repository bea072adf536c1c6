"""Kinds of question about programs, commands and data formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.recall import Kind, lookup

ROWS = 120
WORDS = [
    "apple",
    "river",
    "stone",
    "cloud",
    "garden",
    "pencil",
    "yellow",
    "market",
    "silver",
    "planet",
    "window",
    "dragon",
]
_ASK = (
    "What does this Python code print?\n{}",
    "What is the output of this Python program?\n```python\n{}\n```",
    "```python\n{}\n```\nWhat is printed?",
)


def _printed(kind: str, random: Random, code: str, output: str, level: int) -> Question:
    """A question for the output; a number must be the last one that is worked out."""
    rule = "result" if re.fullmatch(r"\d+(\.\d+)?", output) else "mention"
    prompt = random.choice(_ASK).format(code)
    return Question(
        kind=kind,
        prompt=prompt,
        accepted=(output,),
        rule="result" if rule == "result" else "mention",
        case_matters=rule == "mention",
        level=level,
    )


def python_sums(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        a, b, c = random.randint(2, 20), random.randint(2, 9), random.randint(2, 9)
        code, value = random.choice(
            (
                (f"print({a} + {b} * {c})", a + b * c),
                (f"print(({a} + {b}) * {c})", (a + b) * c),
                (f"print({a * b + c} // {b})", (a * b + c) // b),
                (f"print({a * b + c} % {b})", (a * b + c) % b),
                (f"print({b} ** 2 - {c})", b**2 - c),
                (f"x = {a}\nx += {b}\nprint(x * 2)", (a + b) * 2),
                (f"a, b = {a}, {b}\na, b = b, a\nprint(a - b + {a + c})", b - a + a + c),
                (f"print(max({a}, {b}, {c}) + min({a}, {b}, {c}))", max(a, b, c) + min(a, b, c)),
                (f"print(abs({b} - {a + b + c}))", a + c),
                (f"print(int('{a}') + len('{'x' * b}'))", a + b),
            )
        )
        yield _printed("python_sums", random, code, str(value), 2)


def python_lists(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        numbers = random.sample(range(1, 30), 4)
        n = random.randint(31, 60)
        code, value = random.choice(
            (
                (f"a = {numbers}\na.append({n})\nprint(len(a) + a[-1])", str(5 + n)),
                (f"print(sum({numbers}))", str(sum(numbers))),
                (f"print(sorted({numbers}))", str(sorted(numbers))),
                (f"a = {numbers}\nprint(a[1:3])", str(numbers[1:3])),
                (f"a = {numbers}\nprint(a[::-1])", str(numbers[::-1])),
                (f"print([x * 2 for x in {numbers}])", str([x * 2 for x in numbers])),
                (f"print([x for x in {numbers} if x > 12])", str([x for x in numbers if x > 12])),
                (
                    f"a = {numbers}\na.sort(reverse=True)\nprint(a)",
                    str(sorted(numbers, reverse=True)),
                ),
                (f"a = {numbers}\nprint(a[0] + a[-1])", str(numbers[0] + numbers[-1])),
                (f"print(max({numbers}) - min({numbers}))", str(max(numbers) - min(numbers))),
            )
        )
        if value != "[]" and value not in code:
            yield _printed("python_lists", random, code, value, 2)


def python_strings(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        word, other = random.sample(WORDS, 2)
        code, value = random.choice(
            (
                (f"print('{word}'.upper())", word.upper()),
                (f"print('{word}'[0] + '{other}'[1:])", word[0] + other[1:]),
                (f"print('{word}'[::-1])", word[::-1]),
                (f"print('{word}'.replace('{word[1]}', 'x'))", word.replace(word[1], "x")),
                (f"print('-'.join('{word[:4]}'))", "-".join(word[:4])),
                (f"print(len('{word}') * len('{other}'))", str(len(word) * len(other))),
                (f"print('{word}'.capitalize())", word.capitalize()),
                (f"print('{word}'[1:4])", word[1:4]),
                (f"print('{word} {other}'.split()[1].upper())", other.upper()),
                (f"print('{word[:2]}' * 3)", word[:2] * 3),
                (
                    f"print('{word}'.count('{word[1]}') + {len(word) + 7})",
                    str(word.count(word[1]) + len(word) + 7),
                ),
                (
                    f"print('{word}'.find('{word[3]}') + {len(word) + 9})",
                    str(word.find(word[3]) + len(word) + 9),
                ),
            )
        )
        if value != word[1:4] or value not in other:
            yield _printed("python_strings", random, code, value, 2)


def python_loops(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        n, k = random.randint(3, 7), random.randint(2, 6)
        code, value = random.choice(
            (
                (f"total = 0\nfor i in range({n}):\n    total += i\nprint(total)", sum(range(n))),
                (
                    f"total = 0\nfor i in range(1, {n + 1}):\n    total += i * {k}\nprint(total)",
                    sum(range(1, n + 1)) * k,
                ),
                (f"n = {k}\nwhile n < {n * 20}:\n    n *= 2\nprint(n)", _doubled(k, n * 20)),
                (
                    f"count = 0\nfor i in range({n * 4}):\n    if i % {k} == 0:\n        count "
                    f"+= 1\nprint(count)",
                    -(-n * 4 // k),
                ),
                (
                    f"def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nprint(f({min(n, 6)}))",
                    _product(min(n, 6)),
                ),
                (f"def f(x, y={k}):\n    return x * y + 1\nprint(f({n}))", n * k + 1),
                (f"d = {{'a': {n}, 'b': {k + 10}}}\nd['a'] += d['b']\nprint(d['a'])", n + k + 10),
                (
                    f"x = {n * 3}\nprint(x // 2 if x % 2 == 0 else x * {k})",
                    n * 3 // 2 if n * 3 % 2 == 0 else n * 3 * k,
                ),
            )
        )
        yield _printed("python_loops", random, code, str(value), 3)


def _doubled(value: int, most: int) -> int:
    while value < most:
        value *= 2
    return value


def _product(number: int) -> int:
    return 1 if number < 2 else number * _product(number - 1)


def python_truths(random: Random) -> Iterator[Question]:
    for _ in range(ROWS):
        a, b = random.randint(1, 30), random.randint(1, 30)
        word, other = random.sample(WORDS, 2)
        code, value = random.choice(
            (
                (f"{a} > {b} and {b} > 5", a > b and b > 5),
                (f"not ({a} < {b})", not a < b),
                (f"{a} % 2 == 0 or {b} % 2 == 0", a % 2 == 0 or b % 2 == 0),
                (f"'{word[:3]}' in '{word}'", True),
                (f"'{word}' == '{word.capitalize()}'", False),
                (f"len('{word}') > len('{other}')", len(word) > len(other)),
                (f"bool([]) or {a} == {a}", True),
                (f"{a} in [{a + 1}, {b + a}, {a + 7}]", a in (a + 1, b + a, a + 7)),
                (f"'{word}' < '{other}'", word < other),
                (f"{a} <= {b} <= {a + b}", a <= b <= a + b),
            )
        )
        ask = random.choice(
            (
                "Is this Python expression True or False? {}",
                "What does Python say to {}: True or False?",
            )
        )
        right = str(value)
        rival = "False" if value else "True"
        yield Question(
            kind="python_truths",
            prompt=ask.format(code),
            accepted=(right,),
            rivals=(rival,),
            rejected=("true or false", "false or true"),  # the question, said again
            level=2,
        )


METHODS = """
adds one element to the end of a list=append; turns a string into capital letters=upper; turns a
string into small letters=lower; splits a string into a list of words=split; joins a list of
strings into one string=join; removes white space from both ends of a string=strip; gives the
number of elements of a list=len; sorts a list in place=sort; returns a new sorted list=sorted;
removes and returns the last element of a list=pop; adds all elements of another list to a
list=extend; replaces part of a string=replace; gives the largest element=max; gives the
smallest element=min; adds up all numbers of a list=sum; gives the keys of a dictionary=keys;
gives keys and values of a dictionary together=items; reads a line from the user=input; rounds a
number=round; gives the absolute value of a number=abs; opens a file=open; turns a string into
an integer=int; gives the type of a value=type/isinstance; counts how often an element is in a
list=count; gives index and value in a for loop=enumerate; walks through two lists at once=zip;
reverses a list in place=reverse; checks whether a string begins with a text=startswith; checks
whether a string ends with a text=endswith; puts an element at a given place of a list=insert;
removes all elements of a list=clear; gives a value of a dictionary or a default=get/setdefault;
checks whether all elements are true=all; checks whether at least one element is true=any; turns
a number into a string=str; finds the place of a text in a string=find/index; applies a function
to each element=map; keeps the elements for which a function is true=filter; adds an element to
a set=add; makes a random whole number (module random)=randint/randrange/random.randint; gives
the square root (module math)=sqrt; reads JSON from a string (module json)=loads; writes a value
as a JSON string (module json)=dumps; waits for some seconds (module time)=sleep; gives the
current folder (module os)=getcwd; gives the ASCII number of a character=ord; gives the
character for a number=chr
"""
python_names = lookup(
    "python_names",
    (METHODS,),
    (
        "Which Python function or method {}?",
        "What is the name of the Python function that {}?",
        "Name the built-in or method in Python that {}.",
    ),
    rivalry=False,
    times=2,
)

ERRORS = """
print(1 / 0)=ZeroDivisionError; int("abc")=ValueError; [1, 2][5]=IndexError; {"a":
1}["b"]=KeyError; "a" + 1=TypeError; print(undefined_name)= NameError;
open("no_such_file.txt")=FileNotFoundError; import
no_such_module=ModuleNotFoundError/ImportError; None.upper()=AttributeError; float("x1")=
ValueError; (1, 2)[3]=IndexError; len(5)=TypeError; "abc".push("d")=AttributeError; 10 %
0=ZeroDivisionError; {}["x"]=KeyError; "abc"[10]=IndexError; sum("abc")=TypeError; assert 1 ==
2=AssertionError; next(iter([]))=StopIteration; def f(: pass=SyntaxError; if True
print(1)=SyntaxError; for i in 5: pass= TypeError; [].pop()=IndexError; int(None)=TypeError; x =
x + 1=NameError/UnboundLocalError; "5" * "2"=TypeError; [1, 2].add(3)=AttributeError;
print("hi"= SyntaxError; {1: 2}[3]=KeyError; max([])=ValueError
"""


def python_errors(random: Random) -> Iterator[Question]:
    shapes = (
        "Which exception does Python raise here? {}",
        "What error do I get in Python for this line: {}",
        "Name the Python exception of `{}`.",
    )
    for entry in " ".join(ERRORS.split()).split("; "):
        code, _, answers = entry.rpartition("=")
        for shape in shapes:
            accepted = tuple(answer.strip() for answer in answers.split("/"))
            yield Question(
                kind="python_errors", prompt=shape.format(code.strip()), accepted=accepted
            )


COMMANDS = """
lists the files of a folder=ls/dir; changes the folder=cd; shows the current folder=pwd; copies
a file=cp; moves or renames a file=mv; deletes a file=rm/unlink; makes a new folder=mkdir; shows
the content of a file=cat/less; searches for a text in files=grep/rg; shows running
processes=ps/top/htop; ends a process by its number=kill; changes the rights of a file=chmod;
shows the free space of the disks=df; shows the size of a folder=du; shows the first lines of a
file=head; shows the last lines of a file=tail; counts lines and words=wc; sorts lines=sort;
connects to another machine safely=ssh; downloads a file from an address=wget/curl; shows the
manual of a command=man; packs files into an archive=tar/zip; finds files by name=find/locate;
shows who is logged in=who/w; changes the owner of a file=chown; runs a command as
administrator=sudo; shows the network addresses=ip/ifconfig; tests whether a host answers=ping;
makes an empty file=touch; replaces text in a stream=sed; removes an empty folder=rmdir; shows
the name of the user=whoami/id; compares two files line by line=diff/cmp; makes a link to a
file=ln; copies files between machines over SSH=scp/rsync/sftp; shows how long the machine is
running=uptime
"""
shell_commands = lookup(
    "shell_commands",
    (COMMANDS,),
    ("Which Linux command {}?", "What command {} on Linux?", "Name the Unix command that {}."),
    rivalry=False,
    times=3,
)

GIT = """
download a repository for the first time=git clone/clone; see which files have changed=git
status/status/git diff; record staged changes with a message=git commit/commit; send commits to
the server=git push/push; get the newest commits from the server and merge them=git pull/pull;
make a new branch=git branch/git checkout/git switch/branch/checkout; see the history of
commits=git log/log; stage a file for the next commit=git add/add; put uncommitted changes aside
for later=git stash/stash; bring another branch into the current one=git merge/merge/rebase;
start a new repository=git init/init; see line by line who wrote a file=git
blame/blame/annotate; take one commit from another branch=git cherry-pick/cherry-pick; make a
commit that undoes an earlier one=git revert/revert; see the changes that are not yet staged=git
diff/diff; mark a version with a name=git tag/tag; find the commit that brought a bug by
halving=git bisect/bisect; download new commits without merging=git fetch/fetch; change the
message of the last commit=git commit --amend/amend; move the branch back and forget commits=git
reset/reset; replay commits on top of another branch=git rebase/rebase; remove untracked
files=git clean/clean; rename a file=git mv/mv; show one commit with its changes=git show/show;
list the servers of a repository=git remote/remote
"""
git_commands = lookup(
    "git_commands",
    (GIT,),
    (
        "Which git command do I use to {}?",
        "How do I {} with git? Name the command.",
        "What is the git command to {}?",
    ),
    rivalry=False,
    times=3,
)

SQL = """
chooses columns from a table=SELECT; filters rows by a condition=WHERE; sorts the result=ORDER
BY; adds a new row=INSERT; changes existing rows=UPDATE; removes rows=DELETE; removes a whole
table=DROP; puts rows with equal values together=GROUP BY; filters groups after grouping=HAVING;
limits the number of rows=LIMIT/TOP/FETCH; removes duplicate rows from a result=DISTINCT;
combines rows of two tables by a condition=JOIN; counts rows=COUNT; adds up a column=SUM; gives
the average of a column=AVG; gives the largest value of a column=MAX; makes a new table=CREATE;
adds a column to a table=ALTER; searches for a pattern in text=LIKE; checks that a value lies in
a range=BETWEEN; checks that a value is in a list=IN; combines the results of two queries
without duplicates=UNION; makes changes permanent in a transaction=COMMIT; undoes a
transaction=ROLLBACK; gives a column another name in the result=AS; empties a table
quickly=TRUNCATE; sorts from largest to smallest=DESC; gives rights to a user=GRANT; keeps all
rows of the first table in a join=LEFT; gives the first value that is not null=COALESCE; returns
a value by conditions=CASE; marks a column that must be unique and identifies a row=PRIMARY KEY
"""
sql_words = lookup(
    "sql_words",
    (SQL,),
    ("Which SQL keyword {}?", "Name the SQL keyword or function that {}.", "In SQL, what {}?"),
    rivalry=False,
    times=3,
)

HTML = """
a paragraph=p; an image=img; the largest heading=h1; a bulleted list=ul; a numbered list=ol; an
item of a list=li; a table=table; a row of a table=tr; a cell of a table=td; a header cell of a
table=th; bold text=b/strong; a line break=br; a horizontal line=hr; a form=form; a field to
type into=input; a button=button; a block without meaning=div; an inline part without
meaning=span; the title in the browser's tab=title; a script=script; a style sheet in the
page=style; a video=video; a sound=audio; a drop-down list=select; a choice of a drop-down
list=option; a text of several lines to type=textarea; the label of a field=label; the
navigation links=nav; the foot of a page=footer; the main content=main; a quotation of several
lines=blockquote; code=code; text as it is typed=pre; a page inside the page=iframe
"""
html_tags = lookup(
    "html_tags",
    (HTML,),
    (
        "Which HTML tag is used for {}?",
        "What is the HTML element for {}?",
        "Name the HTML tag of {}.",
    ),
    rivalry=False,
    times=3,
)

BUGS = (
    ("for i in range(10)\n    print(i)", "colon|:", "colon"),
    ("print('hello)", "quote|quotes|quotation|apostrophe|string|unterminated", "quote"),
    ("def add(a, b)\n    return a + b", "colon|:", "colon"),
    ("if x = 5:\n    print(x)", "==|equality|equal|equals|comparison", "=="),
    ("numbers = [1, 2, 3\nprint(numbers)", "bracket|brackets|]", "bracket"),
    ("print(len(names)", "parenthesis|parentheses|bracket|)", "parenthesis"),
    ("whlie True:\n    break", "while", "while"),
    ("pritn('hi')", "print", "print"),
    ("def f(x):\nreturn x", "indent|indentation|indented", "indentation"),
    ("import maths\nprint(maths.sqrt(4))", "math", "math"),
    ("x = '5'\nprint(x + 1)", "int|string|str|convert|type|TypeError", "int"),
    ("retrun 5", "return", "return"),
    ("else if x > 3:\n    pass", "elif", "elif"),
    ("print('a' 'b'", "parenthesis|parentheses|bracket|)", "parenthesis"),
    ("my list = [1, 2]", "space|underscore|my_list|mylist|variable name|spaces", "space"),
    ("class = 'math'", "keyword|reserved", "keyword"),
    ("for i in 10:\n    print(i)", "range|iterable", "range"),
    ("print(x)\nx = 3", "defined|before|assigned|order|NameError", "before"),
    ("d = {'a': 1 'b': 2}", "comma", "comma"),
    ("True = 1", "keyword|reserved|constant|assign", "keyword"),
    ("a = [1, 2, 3]\nprint(a[3])", "index|range|IndexError", "index"),
    (
        "name = input('Name?)\nprint(name)",
        "quote|quotes|quotation|apostrophe|string|unterminated",
        "quote",
    ),
    ("if x > 3\n    print(x)", "colon|:", "colon"),
    ("while x < 3\n    x += 1", "colon|:", "colon"),
    ("def hello():\nprint('hi')", "indent|indentation|indented", "indentation"),
    ("x == 5\nprint(x)", "=|assignment|assign|NameError|defined", "assignment"),
    ("t = (1, 2)\nt[0] = 5", "tuple|immutable|tuples", "tuple"),
    ("s = 'abc'\ns[0] = 'x'", "immutable|string|strings", "immutable"),
    ("import random\nprint(random.randnt(1, 6))", "randint", "randint"),
    ("print(math.pi)", "import", "import"),
    ("with open('a.txt') as f\n    print(f.read())", "colon|:", "colon"),
    ("return x if x > 0 esle 0", "else", "else"),
)


# What is blamed first counts: an explanation names much of the code.
_FAULTS = (
    *("colon", "semicolon", "comma", "parenthesis", "parentheses", "bracket", "brackets"),
    *("quote", "quotes", "quotation", "indentation", "indented"),
)


def bugs(random: Random) -> Iterator[Question]:
    shapes = (
        "What is wrong with this Python code?\n{}",
        "Find the bug in one short sentence:\n```python\n{}\n```",
        "This does not run. Why?\n{}",
        "Name the mistake in this program.\n{}",
    )
    for code, accepted, _ in BUGS:
        words = tuple(word for word in accepted.split("|") if word.strip(":=)]("))
        for shape in random.sample(shapes, 3):
            rivals = tuple(fault for fault in _FAULTS if fault not in words)
            prompt = shape.format(code)
            yield Question(kind="bugs", prompt=prompt, accepted=words, rivals=rivals)


def patterns(random: Random) -> Iterator[Question]:
    """Whether a regular expression matches the whole of a text."""
    samples = (
        (r"\d+", ("123", "12a", "a", "7", "4 5")),
        (r"[a-z]+", ("abc", "Abc", "ab1", "z", "")),
        (r"a.c", ("abc", "ac", "axc", "abbc", "a-c")),
        (r"ab*", ("a", "abbb", "b", "ab", "aba")),
        (r"ab+", ("a", "ab", "abb", "b", "aab")),
        (r"colou?r", ("color", "colour", "colouur", "colr", "Color")),
        (r"\w{3}", ("abc", "ab", "abcd", "a_1", "a-b")),
        (r"cat|dog", ("cat", "dog", "catdog", "cow", "ca")),
        (r"[^0-9]+", ("abc", "a1", "x", "12", "?!")),
        (r"\d{2}:\d{2}", ("12:30", "1:30", "12-30", "99:99", "123:45")),
        (r"h.*o", ("hello", "ho", "hell", "hallo", "oh")),
        (r"[A-Z][a-z]*", ("Anna", "anna", "A", "AnnA", "Tom")),
        (r"x{2,3}", ("x", "xx", "xxx", "xxxx", "xy")),
        (r"\s*end", ("end", "  end", "ends", "the end", "END")),
        (r"(ab)+", ("ab", "abab", "aba", "a", "ba")),
    )
    for pattern, texts in samples:
        for text in texts:
            if text:
                right = re.fullmatch(pattern, text) is not None
                ask = random.choice(
                    (
                        'Does the regular expression {0} match the whole text "{1}"? Answer yes '
                        "or no.",
                        'Regex: {0}\nText: "{1}"\nFull match, yes or no?',
                    )
                )
                yield Question(
                    kind="patterns",
                    prompt=ask.format(pattern, text),
                    accepted=("yes" if right else "no",),
                    rule="yes_no",
                    level=2,
                )


KINDS: dict[str, tuple[Kind, ...]] = {
    "running code": (
        python_sums,
        python_lists,
        python_strings,
        python_loops,
        python_truths,
        python_errors,
        patterns,
    ),
    "knowing code": (python_names, shell_commands, git_commands, sql_words, html_tags, bugs),
}
